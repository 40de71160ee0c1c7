"""Pushes on rigid bodies: prescribed forces over an interval of time, or impulses.

A push may act in a part of a step only. All stages of the step then use its mean over the step, so that the momentum it
transfers is exact for every step. If it acts before or after the middle of the step, the stages differ such that the
displacement of the centre of mass at the end of the step is exact too (`Integrator.force_slope`). The torque uses the
position of the point of application at the stages.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.state.kernels.rigid import rotation_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology

# [N], [m] in the body's axes, [s]
ROWS = Rows("push", "force_x", "force_y", "force_z", "point_x", "point_y", "point_z", "start", "end")

FOREVER = 1e30  # [s]


def push_elements(body: Rigid, place: "Placement") -> Elements:
    count = len(body.pushes)
    return Elements(count, {"bodies": np.full(count, place.first("rigid", body), dtype=np.int32)})


def push_columns(body: Rigid, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    center = batcher.mass_properties(body).center
    return batcher.concatenate([_push_column(push, center, batcher) for push in body.pushes], 2)


def _push_column(push: Push, center: Any, batcher: "SceneBatcher") -> Any:
    """Returns a push as a force over an interval, [B, rows, 1]; an instantaneous impulse ends before its start."""
    point = batcher(center if push.point is None else push.point, 1, (3,))
    if push.force is not None:
        force, end = batcher(push.force, 1, (3,)), FOREVER if push.end is None else push.end
    else:
        force, end = batcher(push.impulse, 1, (3,)), push.start if push.end is None else push.end
        if end > push.start:
            force = force / (end - push.start)
        else:
            end = push.start - 1.0
    times = batcher(np.array([push.start, end]) - batcher.begin, 1, (2,))
    return batcher.concatenate([force, point, times], -1).transpose(1, 2)


@functools.cache
def push_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3, vec3s, table, reals, quats, ints = types.vec3, types.vec3s, types.table, types.reals, types.quats, types.ints
    module = kernel_module("pushes", real)
    functions = rotation_functions(real)
    center_of_mass, add_center_adjoint = functions.center_of_mass, functions.add_center_adjoint
    rotation_inner = functions.rotation_inner
    zero, half, one, thousandth = (real(a) for a in (0.0, 0.5, 1.0, 1e-3))

    @wp.func
    def step_factor(number: int, stage: real, dt: reals, start: real, end: real):
        """Factor of a push at a stage of a step: the fraction of the step during which it acts, and its slope.

        An instantaneous impulse, whose end is before its start, gives 1/dt in the step that contains its time. The
        margin of a thousandth of a step prevents rounding from moving it to the step before.
        """
        begin = real(number) * dt[0]
        first = wp.clamp((start - begin) / dt[0], zero, one)
        last = wp.clamp((end - begin) / dt[0], zero, one)
        part = last - first
        if end < start:
            last = first
            part = zero
            if wp.int32(wp.floor(start / dt[0] + thousandth)) == number:
                part = one / dt[0]
        lead = half - half * (first + last)
        return part * (one + lead * (dt[2] + dt[3] * stage))

    @wp.func
    def stage_factor(clock: ints, step: int, stage: real, dt: reals, start: real, end: real):
        """The same, or its mean with the factor of the next step's first stage if that uses the same force."""
        factor = step_factor(clock[0] + step, stage, dt, start, end)
        following = clock[0] + step + 1
        if dt[4] != zero and stage != zero and following % clock[4] != 0:
            factor = half * (factor + step_factor(following, zero, dt, start, end))
        return factor

    @wp.func
    def force_of(pushes: table, e: int):
        x = pushes[wp.static(ROWS.force_x), e]
        return vec3(x, pushes[wp.static(ROWS.force_y), e], pushes[wp.static(ROWS.force_z), e])

    @wp.func
    def point_of(pushes: table, e: int):
        x = pushes[wp.static(ROWS.point_x), e]
        return vec3(x, pushes[wp.static(ROWS.point_y), e], pushes[wp.static(ROWS.point_z), e])

    @wp.kernel(enable_backward=False, module=module)
    def push_force(
        clock: ints, step: int, stage: real, dt: reals, bodies: ints, pushes: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        s = stage_factor(clock, step, stage, dt, pushes[wp.static(ROWS.start), e], pushes[wp.static(ROWS.end), e])
        if s != zero:
            force = force_of(pushes, e) * s
            arm = wp.quat_rotate(q[i], point_of(pushes, e) - center_of_mass(body, i))
            wp.atomic_add(f, i, force)
            wp.atomic_add(t, i, wp.cross(arm, force))

    @wp.kernel(enable_backward=False, module=module)
    def push_force_adjoint(
        clock: ints, step: int, stage: real, dt: reals, bodies: ints, pushes: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f_adj: vec3s, t_adj: vec3s,
        pushes_adj: table, body_adj: table, p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        s = stage_factor(clock, step, stage, dt, pushes[wp.static(ROWS.start), e], pushes[wp.static(ROWS.end), e])
        if s != zero:
            force = force_of(pushes, e) * s
            local = point_of(pushes, e) - center_of_mass(body, i)
            R = wp.quat_to_matrix(q[i])
            force_adj = (f_adj[i] + wp.cross(t_adj[i], R * local)) * s
            arm_adj = wp.cross(force, t_adj[i])
            local_adj = wp.transpose(R) * arm_adj
            B, q_turn = wp.grad(rotation_inner)(wp.outer(arm_adj, local), q[i])
            for k in range(3):
                force_row = wp.static(ROWS.force_x) + k
                point_row = wp.static(ROWS.point_x) + k
                pushes_adj[force_row, e] = pushes_adj[force_row, e] + force_adj[k]
                pushes_adj[point_row, e] = pushes_adj[point_row, e] + local_adj[k]
            add_center_adjoint(-local_adj, body_adj, i)
            wp.atomic_add(q_adj, i, q_turn)

    return ForceKernels(push_force, push_force_adjoint)


PUSHES = ForceFamily(
    name="push",
    rows=ROWS,
    owners=(Rigid,),
    elements=push_elements,
    columns=push_columns,
    present=lambda body, scene: bool(body.pushes),
    acts_on=("rigid",),
    kernels=push_kernels,
    indices={"bodies": Index("rigid")},
    timed=True,
    native="rigid_body.h",
)

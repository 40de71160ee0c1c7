"""Known pushes on rigid bodies: forces over an interval of time, or impulses."""

import functools
from typing import Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.rigid import Push, Rigid
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.state.kernels.rigid import rotation_functions

# [N], [m] in the body's axes, [s]
ROWS = Rows("push", "force_x", "force_y", "force_z", "point_x", "point_y", "point_z", "start", "end")

FOREVER = 1e30  # [s]


def push_elements(body: Rigid, place: Any) -> Elements:
    count = len(body.pushes)
    return Elements(count, {"bodies": np.full(count, place.first("rigid", body), dtype=np.int32)})


def push_columns(body: Rigid, scene: Any, topology: Any, batcher: Any) -> Any:
    center = batcher.mass_properties(body).center
    return batcher.concatenate([_push_column(push, center, batcher) for push in body.pushes], 2)


def _push_column(push: Push, center: Any, batcher: Any) -> Any:
    """A push as a force over an interval, [B, rows, 1]; an impulse in no time is marked by an end before its start."""
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
    rotation_work = rotation_functions(real).rotation_work
    zero, one, thousandth = (real(a) for a in (0.0, 1.0, 1e-3))

    @wp.func
    def active_fraction(clock: ints, step: int, dt: real, start: real, end: real):
        """Fraction of this step's time in which a push acts.

        An impulse, marked by an end before its start, gives 1/dt in the step that contains its moment; the margin of a
        thousandth of a step keeps rounding from moving it to the step before.
        """
        begin = real(clock[0] + step) * dt
        part = wp.max(wp.min(end, begin + dt) - wp.max(start, begin), zero) / dt
        if end < start:
            part = zero
            if wp.int32(wp.floor(start / dt + thousandth)) == clock[0] + step:
                part = one / dt
        return part

    @wp.kernel(enable_backward=False, module=module)
    def push_force(
        clock: ints, step: int, stage: real, dt: reals, bodies: ints, pushes: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        s = active_fraction(clock, step, dt[0], pushes[wp.static(ROWS.start), e], pushes[wp.static(ROWS.end), e])
        if s > zero:
            force = vec3(pushes[0, e], pushes[1, e], pushes[2, e]) * s
            center = vec3(body[4, i], body[5, i], body[6, i])
            arm = wp.quat_rotate(q[i], vec3(pushes[3, e], pushes[4, e], pushes[5, e]) - center)
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
        s = active_fraction(clock, step, dt[0], pushes[wp.static(ROWS.start), e], pushes[wp.static(ROWS.end), e])
        if s > zero:
            force = vec3(pushes[0, e], pushes[1, e], pushes[2, e]) * s
            center = vec3(body[4, i], body[5, i], body[6, i])
            local = vec3(pushes[3, e], pushes[4, e], pushes[5, e]) - center
            R = wp.quat_to_matrix(q[i])
            force_adj = (f_adj[i] + wp.cross(t_adj[i], R * local)) * s
            arm_adj = wp.cross(force, t_adj[i])
            local_adj = wp.transpose(R) * arm_adj
            B, q_turn = wp.grad(rotation_work)(wp.outer(arm_adj, local), q[i])
            for k in range(3):
                pushes_adj[k, e] = pushes_adj[k, e] + force_adj[k]
                pushes_adj[3 + k, e] = pushes_adj[3 + k, e] + local_adj[k]
                wp.atomic_add(body_adj, 4 + k, i, -local_adj[k])
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

"""Air drag of rigid bodies and links: the force -(k1 + k2 |v|) v at the centre of mass, in still air.

The centre of mass of a link differs from its origin, at which forces on it act (`simulate/state/links.py`).
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.link_bodies import LinkBody
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.state.articulated import link_mass
from gradsim.simulate.state.kernels.rigid import rotation_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.stability import StabilityView

# [kg/s], [kg/m], and the point of application relative to the centre of mass of the rigid body, in its axes [m]
ROWS = Rows("drag", "linear", "quadratic", "point_x", "point_y", "point_z")


def drag_elements(body: Rigid, place: "Placement") -> Elements:
    return Elements(1, {"bodies": np.array([place.first("rigid", body)], dtype=np.int32)})


def drag_columns(body: Rigid, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    drag, point = body.drag, batcher(np.zeros(3), 1, (3,))
    assert drag is not None
    if isinstance(body, LinkBody):
        assert body.owner is not None
        point = link_mass(body.owner.links[body.link], batcher)[1]
    coefficients = [batcher(value, 1)[..., None] for value in (drag.linear, drag.quadratic)]
    return batcher.concatenate([*coefficients, point], -1).transpose(1, 2)


def drag_rate(view: "StabilityView") -> tuple[float, float]:
    """Damping rate at the initial speed."""
    linear, quadratic = (view.largest(view.row(row)) for row in ("linear", "quadratic"))
    return 0.0, (linear + 2.0 * quadratic * view.rigid_speed()) * view.inverse_mass()


@functools.cache
def drag_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3, vec3s, table, quats, ints = types.vec3, types.vec3s, types.table, types.quats, types.ints
    module = kernel_module("drag", real)
    rotation_inner = rotation_functions(real).rotation_inner
    tiny = real(1.0e-30)

    @wp.func
    def point_of(drag: table, e: int):
        x = drag[wp.static(ROWS.point_x), e]
        return vec3(x, drag[wp.static(ROWS.point_y), e], drag[wp.static(ROWS.point_z), e])

    @wp.kernel(enable_backward=False, module=module)
    def drag_force(
        bodies: ints, drag: table, body: table, p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        arm = wp.quat_rotate(q[i], point_of(drag, e))
        velocity = v[i] + wp.cross(l[i], arm)  # the momentum of a link is its angular velocity, other arms are zero
        k = drag[wp.static(ROWS.linear), e] + drag[wp.static(ROWS.quadratic), e] * wp.length(velocity)
        wp.atomic_add(f, i, -(velocity * k))
        wp.atomic_add(t, i, wp.cross(velocity, arm) * k)

    @wp.kernel(enable_backward=False, module=module)
    def drag_force_adjoint(
        bodies: ints, drag: table, body: table, p: vec3s, q: quats, v: vec3s, l: vec3s, f_adj: vec3s, t_adj: vec3s,
        drag_adj: table, body_adj: table, p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        linear = wp.static(ROWS.linear)
        quadratic = wp.static(ROWS.quadratic)
        point = point_of(drag, e)
        R = wp.quat_to_matrix(q[i])
        arm = R * point
        velocity = v[i] + wp.cross(l[i], arm)
        speed = wp.length(velocity)
        k = drag[linear, e] + drag[quadratic, e] * speed
        moved = f_adj[i] + wp.cross(t_adj[i], arm)  # virtual velocity of the point
        power = wp.dot(moved, velocity)
        drag_adj[linear, e] = drag_adj[linear, e] - power
        drag_adj[quadratic, e] = drag_adj[quadratic, e] - power * speed
        velocity_adj = -(moved * k + velocity * (drag[quadratic, e] * power / (speed + tiny)))
        arm_adj = wp.cross(t_adj[i], velocity) * k + wp.cross(velocity_adj, l[i])
        point_adj = wp.transpose(R) * arm_adj
        for c in range(3):
            row = wp.static(ROWS.point_x) + c
            drag_adj[row, e] = drag_adj[row, e] + point_adj[c]
        B, q_turn = wp.grad(rotation_inner)(wp.outer(arm_adj, point), q[i])
        wp.atomic_add(q_adj, i, q_turn)
        wp.atomic_add(v_adj, i, velocity_adj)
        wp.atomic_add(l_adj, i, wp.cross(arm, velocity_adj))

    return ForceKernels(drag_force, drag_force_adjoint)


DRAG = ForceFamily(
    name="drag",
    rows=ROWS,
    owners=(Rigid,),
    elements=drag_elements,
    columns=drag_columns,
    present=lambda body, scene: body.drag is not None,
    acts_on=("rigid",),
    kernels=drag_kernels,
    indices={"bodies": Index("rigid")},
    native="rigid_body.h",
    stable_rate=drag_rate,
    reason="air drag",
)

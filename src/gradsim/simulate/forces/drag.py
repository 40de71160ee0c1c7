"""Air drag of rigid bodies: the force -(k1 + k2 |v|) v at the centre of mass, in still air."""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.rigid import Rigid
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement
    from gradsim.simulate.stability import StabilityView

ROWS = Rows("drag", "linear", "quadratic")  # [kg/s], [kg/m]


def drag_elements(body: Rigid, place: "Placement") -> Elements:
    return Elements(1, {"bodies": np.array([place.first("rigid", body)], dtype=np.int32)})


def drag_rate(view: "StabilityView") -> tuple[float, float]:
    """Damping rate at the initial speed."""
    linear, quadratic = (view.largest(view.row(row)) for row in ("linear", "quadratic"))
    return 0.0, (linear + 2.0 * quadratic * view.rigid_speed()) * view.inverse_mass()


@functools.cache
def drag_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3s, table, quats, ints = types.vec3s, types.table, types.quats, types.ints
    module = kernel_module("drag", real)
    tiny = real(1.0e-30)

    @wp.kernel(enable_backward=False, module=module)
    def drag_force(
        bodies: ints, drag: table, body: table, p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        k = drag[wp.static(ROWS.linear), e] + drag[wp.static(ROWS.quadratic), e] * wp.length(v[i])
        wp.atomic_add(f, i, -(v[i] * k))

    @wp.kernel(enable_backward=False, module=module)
    def drag_force_adjoint(
        bodies: ints, drag: table, body: table, p: vec3s, q: quats, v: vec3s, l: vec3s, f_adj: vec3s, t_adj: vec3s,
        drag_adj: table, body_adj: table, p_adj: vec3s, q_adj: quats, v_adj: vec3s, l_adj: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = bodies[e]
        linear = wp.static(ROWS.linear)
        quadratic = wp.static(ROWS.quadratic)
        speed = wp.length(v[i])
        power = wp.dot(f_adj[i], v[i])
        drag_adj[linear, e] = drag_adj[linear, e] - power
        drag_adj[quadratic, e] = drag_adj[quadratic, e] - power * speed
        k = drag[linear, e] + drag[quadratic, e] * speed
        wp.atomic_add(v_adj, i, -(f_adj[i] * k + v[i] * (drag[quadratic, e] * power / (speed + tiny))))

    return ForceKernels(drag_force, drag_force_adjoint)


DRAG = ForceFamily(
    name="drag",
    rows=ROWS,
    owners=(Rigid,),
    elements=drag_elements,
    parameters={"linear": "drag.linear", "quadratic": "drag.quadratic"},
    present=lambda body, scene: body.drag is not None,
    acts_on=("rigid",),
    kernels=drag_kernels,
    indices={"bodies": Index("rigid")},
    native="rigid_body.h",
    stable_rate=drag_rate,
    reason="air drag",
)

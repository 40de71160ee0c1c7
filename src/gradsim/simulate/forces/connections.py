"""Connections between points of rigid bodies and links; see `gs.Connection`."""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.connections import Connection
from gradsim.scene.quantity import component
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.state.kernels.rigid import rotation_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement
    from gradsim.simulate.stability import StabilityView

POINTS = [f"{body}_{axis}" for body in ("first", "second") for axis in "xyz"]  # [m]
ROWS = Rows("connection", "stiffness", "damping", *POINTS)  # [N/m], [N s/m]
WORLD = -1  # instead of the second body


def connection_elements(connection: Connection, place: "Placement") -> Elements:
    """Returns the first body, and the second: the first again with the number of the world if it is that."""
    fields = ("first", "second") if connection.second else ("first", "first")
    bodies = [np.array([place.first("rigid", connection.body(place.scene, field))], np.int32) for field in fields]
    free = np.array([0 if connection.second else WORLD], np.int32)
    return Elements(1, {"firsts": bodies[0], "seconds": bodies[1], "worlds": free})


def connection_rate(view: "StabilityView") -> tuple[float, float]:
    compliance = view.connection_compliance()
    return view.largest(view.row("stiffness")) * compliance, view.largest(view.row("damping")) * compliance


@functools.cache
def connection_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3, vec3s, table, quats, ints = types.vec3, types.vec3s, types.table, types.quats, types.ints
    functions = rotation_functions(real)
    center_of_mass, inverse_inertia, spin = functions.center_of_mass, functions.inverse_inertia, functions.spin

    @wp.func
    def point(values: table, row: int, e: int):
        return vec3(values[row, e], values[row + 1, e], values[row + 2, e])

    @wp.func
    def arm_of(b: int, at: vec3, body: table, q: quats):
        return wp.quat_rotate(q[b], at - center_of_mass(body, b))

    @wp.func
    def velocity_of(b: int, arm: vec3, body: table, q: quats, v: vec3s, l: vec3s):
        return v[b] + wp.cross(spin(q[b], l[b], inverse_inertia(body, b)), arm)

    @wp.kernel(module=kernel_module("connections", real))
    def connection_force(
        firsts: ints, seconds: ints, worlds: ints, values: table, body: table,
        p: vec3s, q: quats, v: vec3s, l: vec3s, f: vec3s, t: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        a = firsts[e]
        b = seconds[e]
        stiffness = values[wp.static(ROWS.stiffness), e]
        damping = values[wp.static(ROWS.damping), e]
        arm = arm_of(a, point(values, wp.static(ROWS.first_x), e), body, q)
        at = p[a] + arm
        u = velocity_of(a, arm, body, q, v, l)
        other = point(values, wp.static(ROWS.second_x), e)
        if worlds[e] == wp.static(WORLD):
            force = -((at - other) * stiffness + u * damping)
            wp.atomic_add(f, a, force)
            wp.atomic_add(t, a, wp.cross(arm, force))
        else:
            other_arm = arm_of(b, other, body, q)
            d = at - p[b] - other_arm
            reach = at - p[b]  # both forces act at the point of the first body
            pull = -(d * stiffness + (u - velocity_of(b, reach, body, q, v, l)) * damping)
            wp.atomic_add(f, a, pull)
            wp.atomic_add(t, a, wp.cross(arm, pull))
            wp.atomic_sub(f, b, pull)
            wp.atomic_sub(t, b, wp.cross(reach, pull))

    return ForceKernels(connection_force)


def _coordinate(field: str, axis: int) -> Any:
    return lambda connection: component(getattr(connection, field), axis)


CONNECTIONS = ForceFamily(
    name="connection",
    rows=ROWS,
    owners=(Connection,),
    elements=connection_elements,
    parameters={
        "stiffness": "stiffness",
        "damping": "damping",
        **{name: _coordinate(f"{name[:-2]}_point", "xyz".index(name[-1])) for name in POINTS},
    },
    key=lambda connection: (connection.first, connection.second),
    acts_on=("rigid",),
    kernels=connection_kernels,
    indices={"firsts": Index("rigid"), "seconds": Index("rigid")},
    constants=("worlds",),
    stable_rate=connection_rate,
    reason="stiffness of a connection",
)

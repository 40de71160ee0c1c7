"""Tethers: damped springs between nodes and points of rigid bodies; see `gs.Tether`.

With d from the point to the node and u the node's velocity relative to the rigid body at the node's position,

    f = -stiffness (1 - rest_length / |d|) d - damping u

acts on the node, and -f on the rigid body at the node's position. Both forces act at the same point, so that momentum
and angular momentum are conserved.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.forces import Tether
from gradsim.scene.quantity import component
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.state.kernels.rigid import rotation_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement
    from gradsim.simulate.stability import StabilityView

# [N/m], [N s/m], [m], [m] in the rigid body's axes
ROWS = Rows("tether", "stiffness", "damping", "rest_length", "point_x", "point_y", "point_z")


def tether_elements(tether: Tether, place: "Placement") -> Elements:
    count = len(tether.nodes)
    body, rigid = tether.body_of(place.scene), tether.rigid_of(place.scene)
    bodies = np.full(count, place.first("rigid", rigid), dtype=np.int32)
    return Elements(count, {"nodes": tether.nodes + np.int32(place.first("node", body)), "bodies": bodies})


def tether_rate(view: "StabilityView") -> tuple[float, float]:
    """Stable rate, as if every tether acted on the node of least mass and on the farthest point of the rigid body."""
    compliance = view.tether_compliance()
    return view.largest(view.row("stiffness")) * compliance, view.largest(view.row("damping")) * compliance


@functools.cache
def tether_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3, vec3s, table, quats, ints = types.vec3, types.vec3s, types.table, types.quats, types.ints
    functions = rotation_functions(real)
    center_of_mass, inverse_inertia, spin = functions.center_of_mass, functions.inverse_inertia, functions.spin
    tiny = real(1.0e-30)

    @wp.kernel(module=kernel_module("tethers", real))
    def tether_force(
        nodes: ints, bodies: ints, values: table, rigid: table,
        x: vec3s, v: vec3s, p: vec3s, q: quats, pv: vec3s, l: vec3s,
        f: vec3s, rigid_f: vec3s, rigid_t: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = nodes[e]
        b = bodies[e]
        point = vec3(
            values[wp.static(ROWS.point_x), e], values[wp.static(ROWS.point_y), e], values[wp.static(ROWS.point_z), e]
        )
        d = x[i] - p[b] - wp.quat_rotate(q[b], point - center_of_mass(rigid, b))
        arm = x[i] - p[b]
        w = spin(q[b], l[b], inverse_inertia(rigid, b))
        u = v[i] - pv[b] - wp.cross(w, arm)
        pull = d * values[wp.static(ROWS.stiffness), e]
        rest = values[wp.static(ROWS.rest_length), e]
        if rest > real(0.0):
            pull = pull * (real(1.0) - rest / (wp.length(d) + tiny))
        force = -(pull + u * values[wp.static(ROWS.damping), e])
        wp.atomic_add(f, i, force)
        wp.atomic_sub(rigid_f, b, force)
        wp.atomic_sub(rigid_t, b, wp.cross(arm, force))

    return ForceKernels(tether_force)


TETHERS = ForceFamily(
    name="tether",
    rows=ROWS,
    owners=(Tether,),
    elements=tether_elements,
    parameters={
        "stiffness": "stiffness",
        "damping": "damping",
        "rest_length": "rest_length",
        "point_x": lambda tether: component(tether.points, 0),
        "point_y": lambda tether: component(tether.points, 1),
        "point_z": lambda tether: component(tether.points, 2),
    },
    key=lambda tether: (tether.body, tether.rigid, tether.nodes.tobytes()),
    acts_on=("node", "rigid"),
    kernels=tether_kernels,
    indices={"nodes": Index("node"), "bodies": Index("rigid")},
    native="tethers.h",
    stable_rate=tether_rate,
    reason="tether stiffness",
)

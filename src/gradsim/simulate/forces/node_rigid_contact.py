"""Contact of nodes and face centres with moving rigid balls and boxes; see `gs.NodeContact`.

The rigid shape is a core, a point or a box, with a radius: with the distance g from the core, the depth of a point is
reach - g, where reach is the radius plus the thickness of the sheet. The force of the contact law acts on the nodes of
the point by their weights, and the opposite force on the rigid body at the point.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.ball import Ball
from gradsim.scene.bodies import body_size
from gradsim.scene.node_contact import ROUNDING, NodeContact, box_of
from gradsim.scene.scene import Scene
from gradsim.scene.self_contact import contact_nodes
from gradsim.simulate.forces.contact_law import CONTACT_DEPTH, ROW_NAMES, contact_law_functions
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.state.kernels.rigid import rotation_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.stability import StabilityView

# The contact law; radius of the core and thickness [m]; centre of the core in body coordinates, and its half sizes [m].
ROWS = Rows("node_rigid", *ROW_NAMES, "reach", "mx", "my", "mz", "hx", "hy", "hz")
FACE_SHARE = 0.25  # of a face; with six faces around a node and half of its own, a node has its full stiffness


def contact_points(force: NodeContact, body: Any) -> np.ndarray:
    """Returns the nodes of every contact point, [E, 3]; a node itself is listed three times."""
    own = np.repeat(contact_nodes(body.mesh)[:, None], 3, axis=1)
    return np.concatenate([own, body.faces]) if force.faces else own


def node_rigid_elements(force: NodeContact, place: "Placement") -> Elements:
    body, rigid = force.body_of(place.scene), force.rigid_of(place.scene)
    nodes = contact_points(force, body) + place.first("node", body)
    bodies = np.full(len(nodes), place.first("rigid", rigid), dtype=np.int32)
    return Elements(len(nodes), {"nodes": nodes.astype(np.int32), "bodies": bodies})


def node_rigid_columns(force: NodeContact, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    """Returns law and core of every contact point, [B, rows, points]."""
    rigid, points = force.rigid_of(scene), contact_points(force, force.body_of(scene))
    reach, center, half = _core(force, rigid, batcher)
    delta = np.asarray(CONTACT_DEPTH * body_size(rigid)) if force.delta is None else force.delta
    law = [batcher(value, 1) for value in (force.ke, force.kd, force.kf, force.mu, delta)]
    column = batcher.concatenate([*(value[..., None] for value in law), reach, center, half], -1).transpose(1, 2)
    return column * _shares(force, points, batcher)


def _shares(force: NodeContact, points: np.ndarray, batcher: "SceneBatcher") -> Any:
    """Returns factors of the rows: ke, kd and kf of a point are a part of those of a node, [rows, points]."""
    is_node = points[:, 0] == points[:, 1]
    share = np.where(is_node, 0.5 if force.faces else 1.0, FACE_SHARE)
    factors = np.ones((len(ROWS), len(points)))
    factors[[ROWS.ke, ROWS.kd, ROWS.kf]] = share
    return batcher.tensor(factors)


def _core(force: NodeContact, rigid: Any, batcher: "SceneBatcher") -> tuple[Any, Any, Any]:
    """Returns reach, centre and half sizes of the core [m], [B, 1, width] each."""
    thickness = batcher(force.thickness, 1)[..., None]
    zero = batcher(np.zeros(3), 1, (3,))
    if isinstance(rigid, Ball):
        return batcher(rigid.radius, 1)[..., None] + thickness, zero, zero
    found = box_of(rigid)
    assert found is not None
    middle, extents = found
    size = batcher(extents if rigid.size is None else rigid.size, 1, (3,))
    center = batcher(middle / extents, 1, (3,)) * size
    shortest = size.amin(-1, keepdim=True)
    rounding = ROUNDING * shortest if force.rounding is None else batcher(force.rounding, 1)[..., None]
    return rounding + thickness, center, size / 2 - rounding


def node_rigid_rate(view: "StabilityView") -> tuple[float, float]:
    """Stable rate, as if all contact points touched at once."""
    ke, kd, kf = (view.largest(view.row(row)) for row in ("ke", "kd", "kf"))
    compliance = view.tether_compliance()
    return ke * compliance, max(kd, kf) * compliance


@functools.cache
def node_rigid_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3, vec3s, table, quats, ints = types.vec3, types.vec3s, types.table, types.quats, types.ints
    corners = wp.array(dtype=wp.vec3i)
    functions = rotation_functions(real)
    center_of_mass, inverse_inertia, spin = functions.center_of_mass, functions.inverse_inertia, functions.spin
    contact_parameters, contact_force = contact_law_functions(real)[:2]
    zero, third = real(0.0), real(1.0 / 3.0)
    REACH, M, H = ROWS.reach, ROWS.mx, ROWS.hx

    @wp.func
    def core_distance(local: vec3, half: vec3):
        """Distance from the core, and normal."""
        qx = wp.abs(local[0]) - half[0]
        qy = wp.abs(local[1]) - half[1]
        qz = wp.abs(local[2]) - half[2]
        out = vec3(wp.max(qx, zero), wp.max(qy, zero), wp.max(qz, zero))
        gap = wp.max(qx, wp.max(qy, qz))
        n = vec3()
        if gap > zero:
            gap = wp.length(out)
            n = vec3(wp.sign(local[0]) * out[0], wp.sign(local[1]) * out[1], wp.sign(local[2]) * out[2]) / gap
        elif qx >= qy and qx >= qz:
            n = vec3(wp.sign(local[0]), zero, zero)
        elif qy >= qz:
            n = vec3(zero, wp.sign(local[1]), zero)
        else:
            n = vec3(zero, zero, wp.sign(local[2]))
        return gap, n

    @wp.kernel(module=kernel_module("node_rigid_contact", real))
    def node_rigid_force(
        nodes: corners, bodies: ints, law: table, rigid: table,
        x: vec3s, v: vec3s, p: vec3s, q: quats, pv: vec3s, l: vec3s,
        f: vec3s, rigid_f: vec3s, rigid_t: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = nodes[e][0]
        j = nodes[e][1]
        k = nodes[e][2]
        b = bodies[e]
        arm = (x[i] + x[j] + x[k]) * third - p[b]
        m = vec3(law[M, e], law[M + 1, e], law[M + 2, e])
        half = vec3(law[H, e], law[H + 1, e], law[H + 2, e])
        gap, n_local = core_distance(wp.quat_rotate_inv(q[b], arm) + center_of_mass(rigid, b) - m, half)
        if gap < law[REACH, e]:
            n = wp.quat_rotate(q[b], n_local)
            w = spin(q[b], l[b], inverse_inertia(rigid, b))
            u = (v[i] + v[j] + v[k]) * third - pv[b] - wp.cross(w, arm)
            ke, kd, kf, mu, delta = contact_parameters(law, e)
            force = contact_force(law[REACH, e] - gap, n, u, ke, kd, kf, mu, delta)
            part = force * third
            wp.atomic_add(f, i, part)
            wp.atomic_add(f, j, part)
            wp.atomic_add(f, k, part)
            wp.atomic_sub(rigid_f, b, force)
            wp.atomic_sub(rigid_t, b, wp.cross(arm, force))

    return ForceKernels(node_rigid_force)


NODE_RIGID_CONTACT = ForceFamily(
    name="node_rigid",
    rows=ROWS,
    owners=(NodeContact,),
    elements=node_rigid_elements,
    columns=node_rigid_columns,
    key=lambda force: (force.body, force.rigid, force.faces),
    acts_on=("node", "rigid"),
    kernels=node_rigid_kernels,
    indices={"nodes": Index("node"), "bodies": Index("rigid")},
    native="node_rigid_contact.h",
    stable_rate=node_rigid_rate,
    reason="contact stiffness or friction",
)

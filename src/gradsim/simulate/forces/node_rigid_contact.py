"""Contact of nodes and face centres with moving rigid bodies; see `gs.NodeContact`.

A rigid body has the shape of `colliders.py`. With its radius r, the thickness t of the sheet, and the distance phi of
its core or mesh, the depth of a point is r + t - phi. The force of the contact law acts on the nodes of the point by
their weights, and the opposite force on the rigid body at the point.
"""

import functools
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import Soft, body_size
from gradsim.scene.node_contact import NodeContact
from gradsim.scene.scene import Scene
from gradsim.scene.self_contact import contact_nodes
from gradsim.simulate.forces.collider_distance import distance_functions, grid_constants
from gradsim.simulate.forces.colliders import ROWS as COLLIDER_ROWS
from gradsim.simulate.forces.colliders import collider_key, collider_rows, collider_shape, distance_arrays
from gradsim.simulate.forces.contact_law import CONTACT_DEPTH, ROW_NAMES, contact_law_functions
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, types_of
from gradsim.simulate.state.kernels.rigid import rotation_functions

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.engine.layout import Layout
    from gradsim.simulate.stability import StabilityView

# The contact law; the shape of the rigid body, of which the radius has the thickness added.
ROWS = Rows("node_rigid", *ROW_NAMES, *COLLIDER_ROWS)
NODE_SHARE, FACE_SHARE = (
    0.5,
    0.25,
)  # of nodes and faces; with six faces around a node and half of its own, a node has its full stiffness


def contact_points(force: NodeContact, body: Any) -> np.ndarray:
    """Returns the nodes of every contact point, [E, 3]; a node itself is listed three times."""
    own = np.repeat(contact_nodes(body.mesh)[:, None], 3, axis=1)
    return np.concatenate([own, body.faces]) if force.faces else own


def node_rigid_elements(force: NodeContact, place: "Placement") -> Elements:
    """Returns nodes, body and number of the shape of every contact point, and shapes that are new."""
    body, rigid = force.body_of(place.scene), force.rigid_of(place.scene)
    nodes = contact_points(force, body) + place.first("node", body)
    number, is_new = place.number("node_rigid", collider_key(rigid))
    arrays = {
        "nodes": nodes.astype(np.int32),
        "bodies": np.full(len(nodes), place.first("rigid", rigid), dtype=np.int32),
        "shapes": np.full(len(nodes), number, dtype=np.int32),
        "counts": np.array([len(nodes)], dtype=np.int32),
        "sides": np.array([2 if isinstance(body, Soft) else 1], dtype=np.int32),
    }
    return Elements(len(nodes), arrays | distance_arrays([collider_shape(rigid)] if is_new else []))


def node_rigid_shapes(scene: Scene) -> Hashable:
    """Returns the keys of the shapes that nodes touch."""
    return tuple(collider_key(force.rigid_of(scene)) for force in scene.forces if isinstance(force, NodeContact))


def node_rigid_columns(force: NodeContact, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    """Returns law and shape of every contact point, [B, rows, points]."""
    rigid, points = force.rigid_of(scene), contact_points(force, force.body_of(scene))
    extent, radius, offset = collider_rows(rigid, batcher, force.rounding)
    reach = radius + batcher(force.thickness, 1)[..., None]
    delta = np.asarray(CONTACT_DEPTH * body_size(rigid)) if force.delta is None else force.delta
    law = [batcher(value, 1) for value in (force.ke, force.kd, force.kf, force.mu, delta)]
    column = batcher.concatenate([*(value[..., None] for value in law), extent, reach, offset], -1).transpose(1, 2)
    return column * _shares(points, batcher)


def _shares(points: np.ndarray, batcher: "SceneBatcher") -> Any:
    """Returns factors of the rows, [rows, points]."""
    factors = np.ones((len(ROWS), len(points)))
    factors[[ROWS.ke, ROWS.kd, ROWS.kf]] = point_shares(points)
    return batcher.tensor(factors)


def point_shares(points: np.ndarray) -> np.ndarray:
    """Returns the parts of ke, kd and kf that contact points [E, 3] have: a node has half of them beside faces."""
    is_node = points[:, 0] == points[:, 1]
    return np.where(is_node, 1.0 if is_node.all() else NODE_SHARE, FACE_SHARE)


def node_rigid_rate(view: "StabilityView") -> tuple[float, float]:
    """Stable rate, as if all contact points touched at once; of a solid, those on one side.

    A node is held by its own point and by its faces, together by the stiffness of the force.
    """
    shares = view.topology_constant(share_sums)[view.owner]
    node, rigid = view.touched_compliances()
    compliance = (node + shares.total * rigid) / shares.largest
    ke, kd, kf = (view.largest(view.row(row)) for row in ("ke", "kd", "kf"))
    return ke * compliance, max(kd, kf) * compliance


class Shares(NamedTuple):
    """Shares of a force's stiffness that its contact points have."""

    largest: float  # of one point
    total: float  # of all that touch at once


def share_sums(topology: "Topology") -> dict[str, Shares]:
    """Returns the shares of the contact points, by the name of the force."""
    found = {}
    for owner, sides in zip(topology.owners["node_rigid"], topology.arrays["node_rigid.sides"], strict=True):
        points = topology.arrays["node_rigid.nodes"][slice(*topology.ranges["node_rigid", owner])]
        share = point_shares(points)
        found[owner] = Shares(float(share.max()), float(share.sum() / sides))
    return found


def portable_arrays(layout: "Layout") -> tuple[Any, ...]:
    """Returns nodes, body and shape of every contact point, kinds of the shapes and their grids."""
    return (
        *(layout.indices("node_rigid", name, index.into) for name, index in NODE_RIGID_CONTACT.indices.items()),
        layout.shared("node_rigid.shapes"),
        layout.constant(layout.topology.arrays["node_rigid.kinds"]),
        *grid_constants(layout, "node_rigid"),
    )


def block_count(layout: "Layout") -> int:
    """Returns the blocks of contact points in one world; those of a pair of bodies fill whole blocks."""
    return int((-(-layout.topology.arrays["node_rigid.counts"] // layout.lanes)).sum())


def native_arrays(layout: "Layout") -> tuple[Any, ...]:
    """Returns nodes of the points in blocks, then for each block its body, first point, points, kind and shape."""
    arrays, lanes = layout.topology.arrays, layout.lanes
    counts, points = arrays["node_rigid.counts"], layout.topology.elements["node_rigid"]
    starts = np.concatenate(
        [np.arange(end - count, end, lanes) for count, end in zip(counts, counts.cumsum(), strict=True)]
    )
    ends = np.repeat(counts.cumsum(), -(-counts // lanes))
    shapes = arrays["node_rigid.shapes"][starts]
    columns = (arrays["node_rigid.bodies"][starts], starts, np.minimum(ends - starts, lanes))
    blocks = np.stack([*columns, arrays["node_rigid.kinds"][shapes], shapes], 1).astype(np.int32)
    in_blocks = np.minimum(starts[:, None] + np.arange(lanes), ends[:, None] - 1)
    nodes = layout.node_places(arrays["node_rigid.nodes"][in_blocks].swapaxes(1, 2))
    return (
        nodes,
        layout.constant(layout.spread(blocks, np.array([0, points, 0, 0, 0]))),
        *layout.native_grids("node_rigid"),
    )


@functools.cache
def node_rigid_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3, vec3s, table, quats = types.vec3, types.vec3s, types.table, types.quats
    ints, reals = types.ints, types.reals
    corners = wp.array(dtype=wp.vec3i)
    functions = rotation_functions(real)
    inverse_inertia, spin = functions.inverse_inertia, functions.spin
    contact_parameters, contact_force = contact_law_functions(real)[:2]
    shape_distance = distance_functions(real)
    third = real(1.0 / 3.0)
    EXTENT, RADIUS, OFFSET = ROWS.extent_x, ROWS.radius, ROWS.offset_x

    @wp.kernel(module=kernel_module("node_rigid_contact", real))
    def node_rigid_force(
        nodes: corners, bodies: ints, shapes: ints, kinds: ints, grids: ints, places: reals, coefficients: reals,
        law: table, rigid: table,
        x: vec3s, v: vec3s, p: vec3s, q: quats, pv: vec3s, l: vec3s,
        f: vec3s, rigid_f: vec3s, rigid_t: vec3s,
    ):  # fmt: skip
        e = wp.tid()
        i = nodes[e][0]
        j = nodes[e][1]
        k = nodes[e][2]
        b = bodies[e]
        shape = shapes[e]
        arm = (x[i] + x[j] + x[k]) * third - p[b]
        extent = vec3(law[EXTENT, e], law[EXTENT + 1, e], law[EXTENT + 2, e])
        y = wp.quat_rotate_inv(q[b], arm) - vec3(law[OFFSET, e], law[OFFSET + 1, e], law[OFFSET + 2, e])
        gap, n_local = shape_distance(kinds[shape], y, extent, shape, grids, places, coefficients)
        if gap < law[RADIUS, e]:
            n = wp.quat_rotate(q[b], n_local)
            w = spin(q[b], l[b], inverse_inertia(rigid, b))
            u = (v[i] + v[j] + v[k]) * third - pv[b] - wp.cross(w, arm)
            ke, kd, kf, mu, delta = contact_parameters(law, e)
            force = contact_force(law[RADIUS, e] - gap, n, u, ke, kd, kf, mu, delta)
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
    scene_key=node_rigid_shapes,
    acts_on=("node", "rigid"),
    kernels=node_rigid_kernels,
    indices={"nodes": Index("node"), "bodies": Index("rigid")},
    arrays=portable_arrays,
    native="node_rigid_contact.h",
    native_arrays=native_arrays,
    native_count=block_count,
    stable_rate=node_rigid_rate,
    reason="contact stiffness or friction",
)

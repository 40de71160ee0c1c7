"""Bending of sheets: the curvature of every triangle, from the angles at its three edges.

The angle t of an edge is zero if its two triangles are coplanar, and positive if it is a ridge on the side of the
normals. The sheet resists p = t - rest angle - folding. With the lengths l_i of the edges, their in-plane normals d_i
and the area A at rest, the shape operator of a triangle is sum_i p_i l_i d_i d_i' / 2A (Gingold et al. 2004, Grinspun
et al. 2006) and its energy is stiffness/2 A |shape operator|^2, so that the torques of the edges are

    stiffness sum_j K_ij p_j + damping sum_j K_ij dp_j/dt,    K_ij = l_i l_j (d_i . d_j)^2 / 4A

Because the edges are coupled, this converges to a plate of rigidity `stiffness` [N m] for every triangulation. With
independent hinges, as in the paper, a square grid folds along its diagonals and is a fifth too soft however fine it is.
The forces are exact gradients of the angles, so their sum and their total torque vanish.

Portable kernel and native counterpart as for tetrahedra.
"""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.native import kernel_module
from gradsim.native.structures import Rows
from gradsim.scene.bodies import Cloth
from gradsim.scene.meshes import TriMesh
from gradsim.scene.quantity import is_zero
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.family import Elements, ForceFamily, ForceKernels, Index, ParameterFamily, types_of

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Placement, Topology
    from gradsim.simulate.stability import StabilityView

ROWS = Rows("bend", "stiffness", "damping")  # of the triangles [N m], [N m s]
HINGE_ROWS = Rows("hinge", "folding")  # of the edges with two triangles [rad]

vec6i = wp.types.vector(6, wp.int32)


def bends(body: Cloth, scene: Scene) -> bool:
    """Returns whether a sheet has hinges and resists bending."""
    return bool(len(body.mesh.hinges)) and not (is_zero(body.bending.stiffness) and is_zero(body.bending.damping))


def bend_elements(body: Cloth, place: "Placement") -> Elements:
    arrays = bend_shapes(body.mesh)
    arrays["nodes"] = arrays["nodes"] + place.first("node", body)
    arrays["hinges"] = arrays["hinges"] + place.first("hinge", body)
    return Elements(len(body.mesh.faces), arrays)


def bend_shapes(mesh: TriMesh) -> dict[str, np.ndarray]:
    """Returns triangles as bending elements: nodes, hinges of the edges, rest angles [rad] and couplings K [1]."""
    faces, count = mesh.faces, len(mesh.faces)
    nodes = np.concatenate([faces, faces], axis=1)  # across a border edge: the own corner
    hinges = np.zeros((count, 3), dtype=np.int32)
    # The directed edge (k, l) opposite a corner belongs to one triangle: find both triangles of each hinge.
    edges = np.stack([faces[:, [1, 2]], faces[:, [2, 0]], faces[:, [0, 1]]], axis=1).reshape(-1, 2).astype(np.int64)
    keys = edges[:, 0] * len(mesh.vertices) + edges[:, 1]
    place = np.argsort(keys)
    for near, across in ((mesh.hinges[:, [2, 3]], mesh.hinges[:, 1]), (mesh.hinges[:, [3, 2]], mesh.hinges[:, 0])):
        wanted = near[:, 0].astype(np.int64) * len(mesh.vertices) + near[:, 1]
        found = place[np.searchsorted(keys, wanted, sorter=place)]
        nodes[found // 3, 3 + found % 3] = across
        hinges[found // 3, found % 3] = np.arange(len(mesh.hinges))
    corners = mesh.vertices[faces]
    sides = corners[:, [2, 0, 1]] - corners[:, [1, 2, 0]]
    gram = sides @ np.swapaxes(
        sides, 1, 2
    )  # l_i l_j times the cosine between edges, equal to that between their normals
    lengths = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
    coupling = gram**2 / (lengths[:, :, None] * lengths[:, None, :]) / (4.0 * mesh.areas[:, None, None])
    angles = hinge_angles(mesh)[hinges] if len(mesh.hinges) else np.zeros((count, 3))
    alone = nodes[:, 3:] == faces  # edges with no node across are not coupled
    coupling[alone[:, :, None] | alone[:, None, :]] = 0.0
    angles[alone] = 0.0
    pairs = coupling[:, [0, 1, 2, 1, 2, 0], [0, 1, 2, 2, 0, 1]]
    return {"nodes": nodes, "hinges": hinges, "angle": angles, "coupling": pairs}


def hinge_angles(mesh: TriMesh) -> np.ndarray:
    """Returns the rest angles of hinges [rad], [H]."""
    a, b, c, d = (mesh.vertices[mesh.hinges[:, k]] for k in range(4))
    edge = d - c
    n0, n1 = np.cross(edge, a - c), np.cross(b - c, edge)
    sine = (np.cross(n0, n1) * edge).sum(1) / np.linalg.norm(edge, axis=1)
    return np.arctan2(sine, (n0 * n1).sum(1))


def bend_rate(view: "StabilityView") -> tuple[float, float]:
    compliance = view.node_compliance("measure") * view.topology_constant(fastest_bending)
    return view.largest(view.row("stiffness")) * compliance, view.largest(view.row("damping")) * compliance


def fastest_bending(topology: "Topology") -> float:
    """Returns the largest eigenvalue [1/m^4] of bending at rest for unit rigidity and area density (power iteration).

    A bound from single elements would be several times too high, because a node belongs to a dozen of them.
    """
    arrays = topology.arrays
    nodes, coupling = arrays["bend.nodes"], arrays["bend.coupling"]
    K = coupling[:, [[0, 5, 4], [5, 1, 3], [4, 3, 2]]]
    gradients = edge_gradients(arrays["node.rest"][nodes])
    gradients[nodes[:, 3:] == nodes[:, :3]] = 0.0
    measure = np.maximum(arrays["node.measure"], 1e-300)[:, None]
    u = np.random.default_rng(0).standard_normal((topology.elements["node"], 3))
    size = 0.0
    for _ in range(60):
        angles = np.einsum("eink,enk->ei", gradients, u[nodes])
        torques = np.einsum("eij,ej->ei", K, angles)
        forces = np.zeros_like(u)
        np.add.at(forces, nodes.ravel(), np.einsum("eink,ei->enk", gradients, torques).reshape(-1, 3))
        u = forces / measure
        size = float(np.linalg.norm(u))
        u /= max(size, 1e-300)
    return 1.05 * size  # the iteration converges from below


def edge_gradients(x: np.ndarray) -> np.ndarray:
    """Returns the gradients of the three edge angles of patches [E, 6, 3] with respect to their nodes, [E, 3, 6, 3]."""
    result = np.zeros((len(x), 3, 6, 3))
    for i, (a, k, l, b) in enumerate(((0, 1, 2, 3), (1, 2, 0, 4), (2, 0, 1, 5))):
        edge, da, db = x[:, l] - x[:, k], x[:, a] - x[:, k], x[:, b] - x[:, k]
        n0, n1 = np.cross(edge, da), np.cross(db, edge)
        length2 = (edge * edge).sum(1, keepdims=True)
        ga = -n0 * np.sqrt(length2) / (n0 * n0).sum(1, keepdims=True)
        gb = -n1 * np.sqrt(length2) / np.maximum((n1 * n1).sum(1, keepdims=True), 1e-300)
        ta, tb = (da * edge).sum(1, keepdims=True) / length2, (db * edge).sum(1, keepdims=True) / length2
        result[:, i, a], result[:, i, b] = ga, gb
        result[:, i, k], result[:, i, l] = -(ga * (1 - ta) + gb * (1 - tb)), -(ga * ta + gb * tb)
    return result


@functools.cache
def bend_kernels(real: Any) -> ForceKernels:
    types = types_of(real)
    vec3 = types.vec3
    vec6 = wp.types.vector(6, real)

    @wp.func
    def edge_angle(a: vec3, b: vec3, edge: vec3):
        """Angle between triangles (0, edge, a) and (edge, 0, b), and its gradients for a, b and both ends."""
        n0 = wp.cross(edge, a)
        n1 = wp.cross(b, edge)
        length2 = wp.dot(edge, edge)
        length = wp.sqrt(length2)
        angle = wp.atan2(wp.dot(wp.cross(n0, n1), edge) / length, wp.dot(n0, n1))
        ga = -n0 * (length / wp.dot(n0, n0))
        gb = -n1 * (length / wp.dot(n1, n1))
        ta = wp.dot(a, edge) / length2
        tb = wp.dot(b, edge) / length2
        one = real(1.0)
        return angle, ga, gb, -(ga * (one - ta) + gb * (one - tb)), -(ga * ta + gb * tb)

    @wp.kernel(module=kernel_module("bending", real))
    def bend_force(
        nodes: wp.array(dtype=vec6i),  # the triangle, then the node across each edge or the own corner
        hinges: wp.array(dtype=wp.vec3i),  # columns of the edges in `folding`, arbitrary for border edges
        rest_angle: wp.array(dtype=vec3),
        coupling: wp.array(dtype=vec6),  # K: 00, 11, 22, 12, 20, 01
        values: types.table,
        folding: types.table,
        x: types.vec3s,
        v: types.vec3s,
        f: types.vec3s,
    ):
        e = wp.tid()
        n = nodes[e]
        h = hinges[e]
        rest = rest_angle[e]
        K = coupling[e]
        x0 = x[n[0]]
        x1 = x[n[1]]
        x2 = x[n[2]]
        v0 = v[n[0]]
        v1 = v[n[1]]
        v2 = v[n[2]]
        zero = real(0.0)
        p0 = zero
        p1 = zero
        p2 = zero
        r0 = zero
        r1 = zero
        r2 = zero
        a0 = vec3()
        b0 = vec3()
        k0 = vec3()
        l0 = vec3()
        a1 = vec3()
        b1 = vec3()
        k1 = vec3()
        l1 = vec3()
        a2 = vec3()
        b2 = vec3()
        k2 = vec3()
        l2 = vec3()
        if n[3] != n[0]:
            t0, a0, b0, k0, l0 = edge_angle(x0 - x1, x[n[3]] - x1, x2 - x1)
            p0 = t0 - rest[0] - folding[wp.static(HINGE_ROWS.folding), h[0]]
            r0 = wp.dot(a0, v0) + wp.dot(b0, v[n[3]]) + wp.dot(k0, v1) + wp.dot(l0, v2)
        if n[4] != n[1]:
            t1, a1, b1, k1, l1 = edge_angle(x1 - x2, x[n[4]] - x2, x0 - x2)
            p1 = t1 - rest[1] - folding[wp.static(HINGE_ROWS.folding), h[1]]
            r1 = wp.dot(a1, v1) + wp.dot(b1, v[n[4]]) + wp.dot(k1, v2) + wp.dot(l1, v0)
        if n[5] != n[2]:
            t2, a2, b2, k2, l2 = edge_angle(x2 - x0, x[n[5]] - x0, x1 - x0)
            p2 = t2 - rest[2] - folding[wp.static(HINGE_ROWS.folding), h[2]]
            r2 = wp.dot(a2, v2) + wp.dot(b2, v[n[5]]) + wp.dot(k2, v0) + wp.dot(l2, v1)
        stiffness = values[wp.static(ROWS.stiffness), e]
        damping = values[wp.static(ROWS.damping), e]
        q0 = stiffness * p0 + damping * r0
        q1 = stiffness * p1 + damping * r1
        q2 = stiffness * p2 + damping * r2
        m0 = K[0] * q0 + K[5] * q1 + K[4] * q2
        m1 = K[5] * q0 + K[1] * q1 + K[3] * q2
        m2 = K[4] * q0 + K[3] * q1 + K[2] * q2
        wp.atomic_sub(f, n[0], a0 * m0 + l1 * m1 + k2 * m2)
        wp.atomic_sub(f, n[1], k0 * m0 + a1 * m1 + l2 * m2)
        wp.atomic_sub(f, n[2], l0 * m0 + k1 * m1 + a2 * m2)
        wp.atomic_sub(f, n[3], b0 * m0)
        wp.atomic_sub(f, n[4], b1 * m1)
        wp.atomic_sub(f, n[5], b2 * m2)

    return ForceKernels(bend_force)


HINGES = ParameterFamily(
    name="hinge",
    rows=HINGE_ROWS,
    owners=(Cloth,),
    elements=lambda body, place: Elements(len(body.mesh.hinges)),
    parameters={"folding": "folding"},
    signals=("folding",),
    present=bends,
)

BENDING = ForceFamily(
    name="bend",
    rows=ROWS,
    owners=(Cloth,),
    elements=bend_elements,
    parameters={"stiffness": "bending.stiffness", "damping": "bending.damping"},
    present=bends,
    kernels=bend_kernels,
    indices={"nodes": Index("node"), "hinges": Index("hinge")},
    constants=("angle", "coupling"),
    uses=("hinge",),
    native="bending.h",
    stable_rate=bend_rate,
    reason="bending stiffness",
)

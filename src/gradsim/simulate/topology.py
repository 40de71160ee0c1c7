"""What of a scene does not depend on parameter values: which nodes and elements there are, and their rest shapes."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import torch

from gradsim.scene.bodies import Body, Cloth, Soft, Springs, node_count
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.quantity import Signal, plain, sample_count
from gradsim.scene.scene import Scene

FORCES = ("external", "spring", "triangle", "bend", "tet", "contact")  # families that act, in order


@dataclass(frozen=True)
class Driver:
    """A signal that drives a row of a family's parameters, for one body's elements."""

    body: str
    family: str
    row: str
    first: int  # element of the family it starts at
    count: int
    samples: int


@dataclass(frozen=True, eq=False)
class Topology:
    """One world's nodes and elements. `elements` counts the columns of every family's parameters."""

    key: Hashable
    spans: dict[str, tuple[int, int]]  # body -> its nodes
    ranges: dict[tuple[str, str], tuple[int, int]]  # (family, body) -> its elements
    elements: dict[str, int]
    pinned: np.ndarray  # [N] bool
    drivers: tuple[Driver, ...]
    arrays: dict[str, np.ndarray] = field(repr=False)

    tensors: dict[Hashable, torch.Tensor] = field(repr=False, default_factory=dict)

    @property
    def node_count(self) -> int:
        return len(self.pinned)

    def tensor(self, name: str, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """An array of the topology as a tensor, converted once."""
        key = (name, dtype, device)
        if key not in self.tensors:
            self.tensors[key] = torch.tensor(self.arrays[name], dtype=dtype, device=device)
        return self.tensors[key]


def is_zero(value: object) -> bool:
    """Whether a quantity is a literal zero, which no gradient can ask for."""
    return not isinstance(value, Signal) and isinstance(plain(value), np.ndarray) and not plain(value).any()


def _bends(body: Body) -> bool:
    if not isinstance(body, Cloth):
        return False
    return not all(map(is_zero, (body.bending.stiffness, body.bending.damping)))


def _pushed(scene: Scene) -> bool:
    return not all(is_zero(body.force) for body in scene.bodies)


def _samples(body: Body) -> tuple[int, ...]:
    names = ("actuation", "folding")
    return (sample_count(body.force, (3,)), *(sample_count(getattr(body, name, None)) for name in names))


def topology_key(scene: Scene) -> Hashable:
    """Equal for scenes that differ in parameter values only."""
    bodies = []
    for body in scene.bodies:
        if isinstance(body, Springs):
            shape = hashlib.sha1(body.edges.tobytes()).hexdigest() + f":{node_count(body)}"
        else:
            shape = body.mesh.key
        pinned = np.asarray(body.pinned).tobytes()
        bodies.append((body.name, type(body).__name__, shape, pinned, _bends(body), _samples(body)))
    return tuple(bodies), scene.ground is not None, _pushed(scene)


def topology_of(scene: Scene) -> Topology:
    """The topology of a scene, from a cache if it was seen before."""
    key = topology_key(scene)
    if key not in _cache:
        if len(_cache) >= 32:
            _cache.pop(next(iter(_cache)))
        _cache[key] = _build(scene, key)
    return _cache[key]


_cache: dict[Hashable, Topology] = {}


def _build(scene: Scene, key: Hashable) -> Topology:
    spans: dict[str, tuple[int, int]] = {}
    ranges: dict[tuple[str, str], tuple[int, int]] = {}
    parts: dict[str, list[np.ndarray]] = {}
    counts = dict.fromkeys((*FORCES, "hinge", "plane"), 0)
    pinned: list[np.ndarray] = []

    def add(family: str, body: Body, nodes: np.ndarray, **arrays: np.ndarray) -> None:
        if len(nodes) == 0:
            return
        ranges[family, body.name] = (counts[family], counts[family] + len(nodes))
        counts[family] += len(nodes)
        parts.setdefault(f"{family}.nodes", []).append(nodes)
        for name, array in arrays.items():
            parts.setdefault(f"{family}.{name}", []).append(array)

    first = 0
    for body in scene.bodies:
        count = node_count(body)
        spans[body.name] = (first, first + count)
        mask = np.zeros(count, dtype=bool)
        mask[np.asarray(body.pinned)] = True
        pinned.append(mask)
        measures = np.zeros(count) if isinstance(body, Springs) else node_measures(body.mesh)
        parts.setdefault("node.measure", []).append(measures)
        places = np.zeros((count, 3)) if isinstance(body, Springs) else body.mesh.vertices
        parts.setdefault("node.rest", []).append(places)
        nodes = np.arange(first, first + count, dtype=np.int32)
        if _pushed(scene):
            add("external", body, nodes)
        if isinstance(body, Springs):
            add("spring", body, body.edges + first)
        if isinstance(body, Cloth):
            rest, area = triangle_shapes(body.mesh)
            add("triangle", body, body.mesh.faces + first, rest=rest, area=area, stretch=stretches(rest))
            if _bends(body):
                shape = bend_shapes(body.mesh)
                patches, edges = shape.pop("nodes"), shape.pop("hinges")
                add("bend", body, patches + first, hinges=edges + counts["hinge"], **shape)
                add("hinge", body, body.mesh.hinges + first)
        if isinstance(body, Soft):
            rest = tet_shapes(body.mesh)
            add("tet", body, body.mesh.tets + first, rest=rest, volume=body.mesh.volumes, stretch=stretches(rest))
        if scene.ground is not None:
            add("contact", body, np.stack([nodes, np.zeros_like(nodes)], axis=1))
        first += count
    counts["plane"] = int(scene.ground is not None)
    arrays = {name: np.concatenate(pieces) for name, pieces in parts.items()}
    degrees = np.bincount(arrays["spring.nodes"].ravel(), minlength=first) if counts["spring"] else np.zeros(first)
    arrays["node.degree"] = degrees.astype(float)
    arrays["node.free"] = ~np.concatenate(pinned)
    elements = {family: count for family, count in counts.items() if count}
    return Topology(key, spans, ranges, elements, np.concatenate(pinned), _drivers(scene, ranges), arrays)


def _drivers(scene: Scene, ranges: dict[tuple[str, str], tuple[int, int]]) -> tuple[Driver, ...]:
    drivers = []
    rows = (
        ("tet", "actuation", "actuation"),
        ("triangle", "actuation", "actuation"),
        ("hinge", "folding", "folding"),
    )
    for body in scene.bodies:
        for family, name, row in rows:
            if (family, body.name) in ranges and sample_count(getattr(body, name)) > 1:
                first, end = ranges[family, body.name]
                drivers.append(Driver(body.name, family, row, first, end - first, sample_count(getattr(body, name))))
        if sample_count(body.force, (3,)) > 1:
            first, end = ranges["external", body.name]
            samples = sample_count(body.force, (3,))
            drivers += [Driver(body.name, "external", f"force_{axis}", first, end - first, samples) for axis in "xyz"]
    return tuple(drivers)


def tet_shapes(mesh: TetMesh) -> np.ndarray:
    """Inverse matrices of the rest edges of tetrahedra [1/m], [T, 3, 3]."""
    corners = mesh.vertices[mesh.tets]
    return np.linalg.inv(np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2))


def stretches(rest: np.ndarray) -> np.ndarray:
    """How fast elements vibrate: corners times the largest eigenvalue of the sum of g g' over the gradients g of their
    shape functions [1/m^2], [E]. Times a modulus and over a density it is a squared frequency."""
    gradients = np.concatenate([-rest.sum(1, keepdims=True), rest], axis=1)
    return gradients.shape[1] * np.linalg.eigvalsh(np.swapaxes(gradients, 1, 2) @ gradients)[:, -1]


def triangle_shapes(mesh: TriMesh) -> tuple[np.ndarray, np.ndarray]:
    """Inverse matrices of the rest edges in the triangles' planes [1/m], [F, 2, 2], and rest areas [m^2], [F]."""
    corners = mesh.vertices[mesh.faces]
    q, r = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    length = np.linalg.norm(q, axis=1)
    along = (q * r).sum(1) / length
    height = np.linalg.norm(np.cross(q, r), axis=1) / length
    zero = np.zeros_like(length)
    edges = np.stack([np.stack([length, along], 1), np.stack([zero, height], 1)], 1)
    return np.linalg.inv(edges), 0.5 * length * height


def bend_shapes(mesh: TriMesh) -> dict[str, np.ndarray]:
    """Triangles as bending elements: their nodes, edges' hinges, rest angles [rad] and couplings K [1]."""
    faces, count = mesh.faces, len(mesh.faces)
    nodes = np.concatenate([faces, faces], axis=1)  # an edge without a second triangle has the own corner across
    hinges = np.zeros((count, 3), dtype=np.int32)
    # The directed edge (k, l) opposite a corner belongs to one triangle: look up where each hinge's two halves lie.
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
    gram = sides @ np.swapaxes(sides, 1, 2)  # l_i l_j times the cosine between edges, which is that of their normals
    lengths = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
    coupling = gram**2 / (lengths[:, :, None] * lengths[:, None, :]) / (4.0 * mesh.areas[:, None, None])
    angles = hinge_angles(mesh)[hinges] if len(mesh.hinges) else np.zeros((count, 3))
    angles[nodes[:, 3:] == faces] = 0.0
    pairs = coupling[:, [0, 1, 2, 1, 2, 0], [0, 1, 2, 2, 0, 1]]
    return {"nodes": nodes, "hinges": hinges, "angle": angles, "coupling": pairs}


def hinge_angles(mesh: TriMesh) -> np.ndarray:
    """Rest angles of hinges [rad], [H]."""
    a, b, c, d = (mesh.vertices[mesh.hinges[:, k]] for k in range(4))
    edge = d - c
    n0, n1 = np.cross(edge, a - c), np.cross(b - c, edge)
    sine = (np.cross(n0, n1) * edge).sum(1) / np.linalg.norm(edge, axis=1)
    return np.arctan2(sine, (n0 * n1).sum(1))


def node_measures(mesh: TetMesh | TriMesh) -> np.ndarray:
    """Volume [m^3] or area [m^2] that belongs to each node: an equal part of each of its elements, [N]."""
    nodes, measures = (mesh.tets, mesh.volumes) if isinstance(mesh, TetMesh) else (mesh.faces, mesh.areas)
    corners = nodes.shape[1]
    return np.bincount(nodes.ravel(), np.repeat(measures / corners, corners), len(mesh.vertices))

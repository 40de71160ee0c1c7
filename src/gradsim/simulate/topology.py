"""What of a scene does not depend on parameter values: which nodes and elements there are, and their rest shapes."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import torch

from gradsim.scene.bodies import Cloth, NodeBody, Soft, Springs, node_count
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.pendula import AnyPendulum, DoublePendulum, Pendulum
from gradsim.scene.quantity import Signal, sample_count, unwrap
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Body, Scene
from gradsim.scene.shapes import SHAPES
from gradsim.scene.smoke import Smoke
from gradsim.simulate.parts import PARTS

FORCES = ("external", "spring", "triangle", "bend", "tet", "contact")  # families that act on nodes, in order
RIGID_FORCES = ("touch", "push")
FAMILIES = (*PARTS, *FORCES, *RIGID_FORCES, "hinge", "shape")  # every kind of thing that has parameters


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
    drivers: tuple[Driver, ...]
    arrays: dict[str, np.ndarray] = field(repr=False)

    tensors: dict[Hashable, torch.Tensor] = field(repr=False, default_factory=dict)

    @property
    def node_count(self) -> int:
        return self.elements.get("node", 0)

    @property
    def parts(self) -> dict[str, int]:
        """How many nodes, rigid bodies and pendula there are, of the parts that are there."""
        return {part: self.elements[part] for part in PARTS if part in self.elements}

    def owner(self, part: str, index: int) -> str:
        """Name of the body that an element of a part belongs to."""
        spans = self.spans if part == "node" else {b: s for (f, b), s in self.ranges.items() if f == part}
        return next(name for name, (first, end) in spans.items() if first <= index < end)

    def tensor(self, name: str, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """An array of the topology as a tensor, converted once."""
        key = (name, dtype, device)
        if key not in self.tensors:
            with torch.inference_mode(False):  # a gradient may be asked for later
                self.tensors[key] = torch.tensor(self.arrays[name], dtype=dtype, device=device)
        return self.tensors[key]


def is_zero(value: object) -> bool:
    """Whether a quantity is a literal zero, which no gradient can ask for."""
    return not isinstance(value, Signal) and isinstance(unwrap(value), np.ndarray) and not unwrap(value).any()


def _bends(body: Body) -> bool:
    if not isinstance(body, Cloth) or not len(body.mesh.hinges):
        return False
    return not all(map(is_zero, (body.bending.stiffness, body.bending.damping)))


def node_bodies(scene: Scene) -> list[NodeBody]:
    return [body for body in scene.bodies if isinstance(body, (Soft, Cloth, Springs))]


def _pushed(scene: Scene) -> bool:
    return not all(is_zero(body.force) for body in node_bodies(scene))


def _samples(body: NodeBody) -> tuple[int, ...]:
    names = ("actuation", "folding")
    return (sample_count(body.force, (3,)), *(sample_count(getattr(body, name, None)) for name in names))


def topology_key(scene: Scene) -> Hashable:
    """Equal for scenes that differ in parameter values only."""
    bodies: list[Hashable] = []
    for body in scene.bodies:
        kind = type(body).__name__
        if isinstance(body, Rigid):
            bodies.append((body.name, kind, body.mesh.key, body.face_samples, len(body.pushes)))
        elif isinstance(body, (Pendulum, DoublePendulum)):
            bodies.append((body.name, kind, body.bob, body.rod))
        elif not isinstance(body, Smoke):  # which moves on its own
            if isinstance(body, Springs):
                shape = hashlib.sha1(body.edges.tobytes()).hexdigest() + f":{node_count(body)}"
            else:
                shape = body.mesh.key
            pinned = np.asarray(body.pinned).tobytes()
            bodies.append((body.name, kind, shape, pinned, _bends(body), _samples(body)))
    shapes = tuple((name, type(shape).__name__) for name, shape in scene.obstacles.items())
    return tuple(bodies), shapes, _pushed(scene)


def topology_of(scene: Scene) -> Topology:
    """The topology of a scene, from a cache if it was seen before."""
    key = topology_key(scene)
    if key not in _cache:
        if len(_cache) >= 32:
            _cache.pop(next(iter(_cache)))
        _cache[key] = _build(scene, key)
    return _cache[key]


_cache: dict[Hashable, Topology] = {}


class _Builder:
    """Collects the arrays of all bodies, family by family."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.spans: dict[str, tuple[int, int]] = {}
        self.ranges: dict[tuple[str, str], tuple[int, int]] = {}
        self.counts = dict.fromkeys(FAMILIES, 0)
        self.pieces: dict[str, list[np.ndarray]] = {}
        self.shape_count = len(scene.obstacles)

    def add(self, family: str, body: Body, count: int, **arrays: np.ndarray) -> None:
        if count:
            first = self.counts[family]
            self.ranges[family, body.name] = (first, first + count)
            self.counts[family] += count
            for name, array in arrays.items():
                self.pieces.setdefault(f"{family}.{name}", []).append(array)

    def touching(self, family: str, body: Body, first: int, count: int) -> None:
        """Pairs of each of `count` things from `first` on with each shape."""
        things = np.repeat(np.arange(first, first + count), self.shape_count)
        shapes = np.tile(np.arange(self.shape_count), count)
        self.add(family, body, len(things), nodes=np.stack([things, shapes], axis=1).astype(np.int32))

    def add_nodes(self, body: NodeBody) -> None:
        count, first = node_count(body), self.counts["node"]
        nodes = np.arange(first, first + count, dtype=np.int32)
        self.spans[body.name] = (first, first + count)
        free, degree = np.ones(count), np.zeros(count)
        free[np.asarray(body.pinned)] = 0.0
        if isinstance(body, Springs):
            degree = np.bincount(body.edges.ravel(), minlength=count).astype(float)
            measure, rest = np.zeros(count), np.zeros((count, 3))
        else:
            measure, rest = node_measures(body.mesh), body.mesh.vertices
        self.add("node", body, count, measure=measure, rest=rest, free=free, degree=degree)
        if _pushed(self.scene):
            self.add("external", body, count, nodes=nodes)
        if isinstance(body, Springs):
            self.add("spring", body, len(body.edges), nodes=body.edges + first)
        elif isinstance(body, Cloth):
            faces = body.mesh.faces
            shape, area = triangle_shapes(body.mesh)
            arrays = {"rest": shape, "area": area, "stretch": stretches(shape)}
            self.add("triangle", body, len(faces), nodes=faces + first, **arrays)
            if _bends(body):
                bend = bend_shapes(body.mesh)
                patches, hinges = bend.pop("nodes") + first, bend.pop("hinges") + self.counts["hinge"]
                self.add("bend", body, len(faces), nodes=patches, hinges=hinges, **bend)
                self.add("hinge", body, len(body.mesh.hinges))
        else:
            shape = tet_shapes(body.mesh)
            arrays = {"rest": shape, "volume": body.mesh.volumes, "stretch": stretches(shape)}
            self.add("tet", body, len(body.mesh.tets), nodes=body.mesh.tets + first, **arrays)
        self.touching("contact", body, first, count)

    def add_rigid(self, body: Rigid) -> None:
        index, points = self.counts["rigid"], body.contact_points
        reach = np.linalg.norm(points - points.mean(0), axis=1).max()
        sizes = {"sizes": np.array([len(points)]), "flat": np.array([flat_count(body)]), "reach": np.array([reach])}
        self.add("rigid", body, 1, points=points, **sizes)
        self.touching("touch", body, index, 1)
        self.add("push", body, len(body.pushes), nodes=np.full(len(body.pushes), index, dtype=np.int32))

    def add_pendulum(self, body: AnyPendulum) -> None:
        self.add("pendulum", body, 1, links=np.array([len(body.links())], dtype=np.int32))


def _build(scene: Scene, key: Hashable) -> Topology:
    builder = _Builder(scene)
    for body in scene.bodies:
        if isinstance(body, Rigid):
            builder.add_rigid(body)
        elif isinstance(body, (Pendulum, DoublePendulum)):
            builder.add_pendulum(body)
        elif not isinstance(body, Smoke):
            builder.add_nodes(body)
    builder.counts["shape"] = builder.shape_count if builder.counts["contact"] or builder.counts["touch"] else 0
    arrays = {name: np.concatenate(pieces) for name, pieces in builder.pieces.items()}
    arrays["shape.kinds"] = np.array([SHAPES.index(type(s)) for s in scene.obstacles.values()], dtype=np.int32)
    elements = {family: count for family, count in builder.counts.items() if count}
    return Topology(key, builder.spans, builder.ranges, elements, _drivers(scene, builder.ranges), arrays)


def _drivers(scene: Scene, ranges: dict[tuple[str, str], tuple[int, int]]) -> tuple[Driver, ...]:
    drivers = []
    rows = (
        ("tet", "actuation", "actuation"),
        ("triangle", "actuation", "actuation"),
        ("hinge", "folding", "folding"),
    )
    for body in node_bodies(scene):
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


def flat_count(body: Rigid) -> int:
    """How many of a body's points may touch a plane at once: those in a twentieth of its size, whichever way down."""
    points = body.contact_points
    corners = body.mesh.vertices[body.mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals = np.unique(np.round(normals / np.linalg.norm(normals, axis=1, keepdims=True), 6), axis=0)
    down = np.concatenate([normals[:: max(1, len(normals) // 200)], -np.eye(3), np.eye(3)])
    heights = points @ down.T
    near = heights > heights.max(0) - 0.05 * np.ptp(points, axis=0).max()
    return int(near.sum(0).max())


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

"""What of a scene does not depend on parameter values: which nodes and elements there are, and their rest shapes."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from gradsim.scene.bodies import Body, Cloth, Soft, Springs, node_count
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.quantity import Signal, plain, sample_count
from gradsim.scene.scene import Scene


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
    """One world's nodes and elements. `elements` counts them by family, in the order the forces act."""

    key: Hashable
    spans: dict[str, tuple[int, int]]  # body -> its nodes
    ranges: dict[tuple[str, str], tuple[int, int]]  # (family, body) -> its elements
    elements: dict[str, int]
    pinned: np.ndarray  # [N] bool
    drivers: tuple[Driver, ...]
    arrays: dict[str, np.ndarray] = field(repr=False)

    @property
    def node_count(self) -> int:
        return len(self.pinned)


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
    counts = dict.fromkeys(("external", "spring", "triangle", "hinge", "tet", "contact"), 0)
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
        nodes = np.arange(first, first + count, dtype=np.int32)
        if _pushed(scene):
            add("external", body, nodes)
        if isinstance(body, Springs):
            add("spring", body, body.edges + first)
        if isinstance(body, Cloth):
            rest, area = triangle_shapes(body.mesh)
            add("triangle", body, body.mesh.faces + first, rest=rest, area=area)
            if _bends(body):
                add("hinge", body, body.mesh.hinges + first, **hinge_shapes(body.mesh))
        if isinstance(body, Soft):
            add("tet", body, body.mesh.tets + first, rest=tet_shapes(body.mesh), volume=body.mesh.volumes)
        if scene.ground is not None:
            add("contact", body, np.stack([nodes, np.zeros_like(nodes)], axis=1))
        first += count
    arrays = {name: np.concatenate(pieces) for name, pieces in parts.items()}
    elements = {family: count for family, count in counts.items() if count}
    return Topology(key, spans, ranges, elements, np.concatenate(pinned), _drivers(scene, ranges), arrays)


def _drivers(scene: Scene, ranges: dict[tuple[str, str], tuple[int, int]]) -> tuple[Driver, ...]:
    drivers = []
    rows = (
        ("tet", "actuation", "actuation"),
        ("triangle", "actuation", "actuation"),
        ("hinge", "folding", "actuation"),
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


def hinge_shapes(mesh: TriMesh) -> dict[str, np.ndarray]:
    """Hinges at rest: weight l^2 / (A0 + A1) [1], angle [rad], and levers |d angle / d node|^2 [1/m^2], [H, 4]."""
    a, b, c, d = (mesh.vertices[mesh.hinges[:, k]] for k in range(4))
    edge = d - c
    n0, n1 = np.cross(edge, a - c), np.cross(b - c, edge)
    length2 = (edge * edge).sum(1)
    twice0, twice1 = np.linalg.norm(n0, axis=1), np.linalg.norm(n1, axis=1)
    sine = (np.cross(n0, n1) * edge).sum(1) / np.sqrt(length2)
    t0, t1 = ((a - c) * edge).sum(1) / length2, ((b - c) * edge).sum(1) / length2
    h0, h1 = np.sqrt(length2) / twice0, np.sqrt(length2) / twice1
    levers = np.stack([h0, h1, np.abs(h0 * (1 - t0)) + np.abs(h1 * (1 - t1)), np.abs(h0 * t0) + np.abs(h1 * t1)], 1)
    weight = 2.0 * length2 / (twice0 + twice1)
    return {"weight": weight, "angle": np.arctan2(sine, (n0 * n1).sum(1)), "levers": levers**2}


def node_measures(mesh: TetMesh | TriMesh) -> np.ndarray:
    """Volume [m^3] or area [m^2] that belongs to each node: an equal part of each of its elements, [N]."""
    nodes, measures = (mesh.tets, mesh.volumes) if isinstance(mesh, TetMesh) else (mesh.faces, mesh.areas)
    corners = nodes.shape[1]
    return np.bincount(nodes.ravel(), np.repeat(measures / corners, corners), len(mesh.vertices))

"""Bodies made of nodes: soft solids, cloth, and masses on springs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from gradsim.scene.errors import DegenerateElement, InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.looks import Look, check_look
from gradsim.scene.materials import Bending, Contact, Membrane, NeoHookean
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.quantity import (
    Quantity,
    Spec,
    check_counts,
    exactly_one,
    inner_unknown,
    quantities,
    quantity,
    unwrap,
    validate_quantities,
    validated_array,
)


@dataclass(frozen=True)
class Region:
    """An axis-aligned box in a mesh's own coordinates, [m]; None leaves a side open."""

    low: Sequence[float | None] = (None, None, None)
    high: Sequence[float | None] = (None, None, None)

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            if len(getattr(self, name)) != 3:
                raise WrongShape(f"Region.{name}", getattr(self, name), "must be three numbers or None, for x, y and z")

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Which of the points [N, 3] lie inside, as a mask [N]."""
        inside = np.ones(len(points), dtype=bool)
        for axis in range(3):
            low, high = self.low[axis], self.high[axis]
            if low is not None:
                inside &= points[:, axis] >= low
            if high is not None:
                inside &= points[:, axis] <= high
        return inside


Pinned: TypeAlias = "Sequence[int] | np.ndarray | Region | Callable[[np.ndarray], np.ndarray] | None"


def pinned_nodes(name: str, pinned: Pinned, points: np.ndarray) -> np.ndarray:
    """Indices of the nodes chosen by index, by mask, or by a region of the rest shape."""
    if pinned is None:
        return np.zeros(0, dtype=np.int32)
    chosen = np.asarray(pinned(points) if callable(pinned) else pinned)
    if chosen.dtype == bool:
        if chosen.shape != (len(points),):
            raise WrongShape(name, f"mask of shape {chosen.shape}", f"a mask must have shape ({len(points)},)")
        chosen = np.flatnonzero(chosen)
    elif chosen.size and not np.issubdtype(chosen.dtype, np.integer):
        raise WrongType(name, f"array of {chosen.dtype}", "give node indices, a mask, or a region")
    chosen = np.unique(chosen.astype(np.int64).ravel())
    if chosen.size and (chosen[0] < 0 or chosen[-1] >= len(points)):
        bad = chosen[0] if chosen[0] < 0 else chosen[-1]
        raise OutOfRange(name, int(bad), f"node indices must lie in [0, {len(points)})")
    return chosen.astype(np.int32)


def check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidInput("name", repr(name), "a body's name must be an identifier such as 'beam_2'")


def check_rotation(body: Any) -> None:
    rotation = getattr(body, "rotation", None)
    if rotation is not None and not bool((unwrap(rotation) ** 2).sum(-1).min() > 0):
        raise OutOfRange(f"{body.name}.rotation", "(0, 0, 0, 0)", "must not be zero; (0, 0, 0, 1) is no rotation")


def check_contact(body: Any) -> None:
    laws = body.contact.items() if isinstance(body.contact, Mapping) else [("", body.contact)]
    for shape, law in laws:
        if law is not None and not isinstance(law, Contact):
            name = f"{body.name}.contact" + (f"[{shape!r}]" if shape else "")
            raise WrongType(name, type(law).__name__, "must be a gs.Contact, or gs.Contact by name of the shape")


def _complete(body: Any, counts: dict[str, int]) -> None:
    """What every body checks: its name, its quantities, and that `each` fits the mesh, in its parts too."""
    check_name(body.name)
    validate_quantities(body, body.name)
    check_rotation(body)
    check_contact(body)
    parts = [(body.name, body)]
    parts += [(f"{body.name}.{part}", getattr(body, part)) for part in ("material", "bending") if hasattr(body, part)]
    for label, part in parts:
        for name, spec in quantities(part):
            if spec.per is not None:
                check_counts(f"{label}.{name}", getattr(part, name), spec, counts[spec.per])


@dataclass(frozen=True, eq=False)
class Soft:
    """An elastic solid of tetrahedra.

    Args:
        name: Identifier, the first part of its parameters' paths.
        mesh: Rest shape.
        density: [kg/m^3]; or `mass` per node [kg], as a number or `gs.per_element`.
        material: `NeoHookean(...)`.
        position: Where the mesh's origin starts [m], [..., 3].
        rotation: Quaternion (x, y, z, w) that turns the mesh about its origin, [..., 4].
        vertices: Deformed start in the mesh's coordinates [m], [..., N, 3]; the rest shape if None.
        velocity: Start velocity [m/s], [..., 3] or `gs.per_element` with [..., N, 3].
        pinned: Nodes that never move: indices, a mask, a `Region`, or a function of the rest points.
        actuation: Relative growth of volume each element strives for; may be `Signal` and `gs.per_element`.
        force: External force on each node [N], [..., 3]; may be `Signal` and `gs.per_element`.
        contact: Contact parameters of this body, one for all shapes or by the name of the shape; the shapes' if None.
        look: Colour and shine of its surface; None leaves it out of pictures.
    """

    name: str
    mesh: TetMesh
    density: Quantity | None = quantity(None, "kg/m^3", above=0.0, per="tet")
    mass: Quantity | None = quantity(None, "kg", above=0.0, per="node")
    material: NeoHookean = field(default_factory=NeoHookean)
    position: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    rotation: Quantity | None = quantity(None, "1", shape=(4,))
    vertices: Quantity | None = None
    velocity: Quantity = quantity((0.0, 0.0, 0.0), "m/s", shape=(3,), per="node")
    pinned: Pinned = None
    actuation: Quantity = quantity(0.0, "1", per="tet", signal=True)
    force: Quantity = quantity((0.0, 0.0, 0.0), "N", shape=(3,), per="node", signal=True)
    contact: Contact | Mapping[str, Contact] | None = None
    look: Look | None = Look()

    def __post_init__(self) -> None:
        if not isinstance(self.mesh, TetMesh):
            raise WrongType(f"{self.name}.mesh", type(self.mesh).__name__, "a soft body needs a TetMesh")
        if not isinstance(self.material, NeoHookean):
            raise WrongType(f"{self.name}.material", type(self.material).__name__, "must be a gs.NeoHookean")
        _complete(self, {"node": len(self.mesh.vertices), "tet": len(self.mesh.tets)})
        exactly_one(self.name, self, "density", "mass")
        _check_vertices(self)
        check_look(self.name, self.look, lambda: (len(self.mesh.vertices), len(self.faces)))
        object.__setattr__(self, "pinned", pinned_nodes(f"{self.name}.pinned", self.pinned, self.mesh.vertices))

    @property
    def faces(self) -> np.ndarray:
        """Triangles of the surface, [F, 3]."""
        return self.mesh.surface


@dataclass(frozen=True, eq=False)
class Cloth:
    """A sheet of triangles that stretches, shears, bends, and feels the air.

    Args:
        name: Identifier, the first part of its parameters' paths.
        mesh: Rest shape; its hinge angles are the rest angles.
        density: [kg/m^2]; or `mass` per node [kg], as a number or `gs.per_element`.
        material: In-plane elasticity, `Membrane(...)`.
        bending: `Bending(...)`.
        drag, lift: Air on each triangle [kg/m^3]: -(drag A |n.u| u + lift A (n.u) |u| n).
        position, rotation, vertices, velocity, pinned, force, contact, look: As for `Soft`.
        actuation: Relative growth of area each triangle strives for; may be `Signal` and `gs.per_element`.
        folding: Change of the hinges' rest angle [rad], positive towards a ridge; may be `Signal` and `gs.per_element`.
    """

    name: str
    mesh: TriMesh
    density: Quantity | None = quantity(None, "kg/m^2", above=0.0, per="triangle")
    mass: Quantity | None = quantity(None, "kg", above=0.0, per="node")
    material: Membrane = field(default_factory=Membrane)
    bending: Bending = field(default_factory=Bending)
    drag: Quantity = quantity(0.0, "kg/m^3", low=0.0, per="triangle")
    lift: Quantity = quantity(0.0, "kg/m^3", low=0.0, per="triangle")
    position: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    rotation: Quantity | None = quantity(None, "1", shape=(4,))
    vertices: Quantity | None = None
    velocity: Quantity = quantity((0.0, 0.0, 0.0), "m/s", shape=(3,), per="node")
    pinned: Pinned = None
    actuation: Quantity = quantity(0.0, "1", per="triangle", signal=True)
    folding: Quantity = quantity(0.0, "rad", per="hinge", signal=True)
    force: Quantity = quantity((0.0, 0.0, 0.0), "N", shape=(3,), per="node", signal=True)
    contact: Contact | Mapping[str, Contact] | None = None
    look: Look | None = Look()

    def __post_init__(self) -> None:
        if not isinstance(self.mesh, TriMesh):
            raise WrongType(f"{self.name}.mesh", type(self.mesh).__name__, "a cloth needs a TriMesh")
        if not isinstance(self.material, Membrane):
            raise WrongType(f"{self.name}.material", type(self.material).__name__, "must be a gs.Membrane")
        if not isinstance(self.bending, Bending):
            raise WrongType(f"{self.name}.bending", type(self.bending).__name__, "must be a gs.Bending")
        mesh = self.mesh
        _complete(self, {"node": len(mesh.vertices), "triangle": len(mesh.faces), "hinge": len(mesh.hinges)})
        exactly_one(self.name, self, "density", "mass")
        _check_vertices(self)
        check_look(self.name, self.look, lambda: (len(self.mesh.vertices), len(self.faces)))
        object.__setattr__(self, "pinned", pinned_nodes(f"{self.name}.pinned", self.pinned, mesh.vertices))

    @property
    def faces(self) -> np.ndarray:
        """Triangles of the sheet, [F, 3]."""
        return self.mesh.faces


@dataclass(frozen=True, eq=False)
class Springs:
    """Point masses joined by damped springs.

    Args:
        name: Identifier, the first part of its parameters' paths.
        points: Start positions [m], [..., N, 3].
        edges: Pairs of nodes, [S, 2].
        mass: Per node [kg], a number or `gs.per_element`.
        stiffness, damping: Per spring [N/m], [N s/m], numbers or `gs.per_element`.
        rest_length: Per spring [m]; the distances of the given points if None.
        position, velocity, pinned, force, contact: As for `Soft`.
        look: Colour and shine of octahedra at the nodes and of bars between them; None leaves them out of pictures.
        thickness: Radius of the octahedra, and edge of the bars [m].
    """

    name: str
    points: Quantity
    edges: Any
    mass: Quantity = quantity(1.0, "kg", above=0.0, per="node")
    stiffness: Quantity = quantity(1e3, "N/m", low=0.0, per="spring")
    damping: Quantity = quantity(0.0, "N s/m", low=0.0, per="spring")
    rest_length: Quantity | None = quantity(None, "m", low=0.0, per="spring")
    position: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    velocity: Quantity = quantity((0.0, 0.0, 0.0), "m/s", shape=(3,), per="node")
    pinned: Pinned = None
    force: Quantity = quantity((0.0, 0.0, 0.0), "N", shape=(3,), per="node", signal=True)
    contact: Contact | Mapping[str, Contact] | None = None
    look: Look | None = Look()
    thickness: float = 0.02

    def __post_init__(self) -> None:
        points = _checked_points(f"{self.name}.points", self.points, None)
        object.__setattr__(self, "points", points)
        rest = _first_world(points)
        edges = np.ascontiguousarray(self.edges, dtype=np.int32)
        if edges.ndim != 2 or edges.shape[1] != 2:
            raise WrongShape(f"{self.name}.edges", f"shape {edges.shape}", "must be pairs of nodes, [S, 2]")
        if edges.size and (edges.min() < 0 or edges.max() >= len(rest)):
            bad = int(edges.min() if edges.min() < 0 else edges.max())
            raise OutOfRange(f"{self.name}.edges", bad, f"node indices must lie in [0, {len(rest)})")
        lengths = np.linalg.norm(rest[edges[:, 1]] - rest[edges[:, 0]], axis=1)
        if edges.size and lengths.min() <= 0.0:
            worst = int(lengths.argmin())
            raise DegenerateElement(f"{self.name}.edges[{worst}]", "length 0", "the ends of a spring must lie apart")
        object.__setattr__(self, "edges", edges)
        _complete(self, {"node": len(rest), "spring": len(edges)})
        object.__setattr__(self, "pinned", pinned_nodes(f"{self.name}.pinned", self.pinned, rest))
        check_look(self.name, self.look, lambda: (0, 0))
        if isinstance(self.thickness, bool) or not isinstance(self.thickness, (int, float)) or not self.thickness > 0.0:
            raise OutOfRange(f"{self.name}.thickness", repr(self.thickness), "must be a number > 0 [m]")

    @property
    def faces(self) -> np.ndarray:
        """Springs have no surface: [0, 3]."""
        return np.zeros((0, 3), dtype=np.int32)


NodeBody: TypeAlias = "Soft | Cloth | Springs"


def node_count(body: NodeBody) -> int:
    return unwrap(body.points).shape[-2] if isinstance(body, Springs) else len(body.mesh.vertices)


def _first_world(points: Any) -> np.ndarray:
    given = unwrap(points)
    array = given if isinstance(given, np.ndarray) else given.detach().cpu().numpy()
    return array.reshape(-1, *array.shape[-2:])[0]


def _check_vertices(body: Any) -> None:
    if body.vertices is not None:
        checked = _checked_points(f"{body.name}.vertices", body.vertices, len(body.mesh.vertices))
        object.__setattr__(body, "vertices", checked)


def _checked_points(name: str, points: Any, count: int | None) -> Any:
    array = validated_array(name, inner_unknown(points) or unwrap(points), Spec("m", shape=(3,)))
    if array.ndim < 2 or (count is not None and array.shape[-2] != count):
        raise WrongShape(name, f"shape {tuple(array.shape)}", f"must have shape [..., {count or 'N'}, 3]")
    return array

"""Bodies that consist of nodes: soft solids, cloth, and mass-spring systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from gradsim.scene.body import NodeBody
from gradsim.scene.damping import Rayleigh
from gradsim.scene.elements import LinearTet, TetElement
from gradsim.scene.errors import DegenerateElement, InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.looks import Look, check_look
from gradsim.scene.materials import (
    Bending,
    Contact,
    Membrane,
    NeoHookean,
    SheetMaterial,
    YoungSheet,
    YoungSolid,
)
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.motion import Motion, check_motion
from gradsim.scene.quantity import Quantity, Spec, bare, quantities, quantity, to_numpy, unwrap
from gradsim.scene.self_contact import SelfContact, check_self_contact
from gradsim.scene.solids import SOLID_MATERIALS, Fibres, SolidMaterial
from gradsim.scene.spelling import abbreviate
from gradsim.scene.transforms import first_mapped
from gradsim.scene.validation import (
    check_element_count,
    check_exactly_one,
    has_zero_vector,
    validate_quantities,
    validated_array,
)


@dataclass(frozen=True)
class Region:
    """An axis-aligned box in the coordinates of a mesh; called with points [N, 3], it returns which are inside, [N].

    Example:
        `gs.Region(high=(-0.499, None, None))(gs.meshes.tet_box((1.0, 0.2, 0.2), (5, 1, 1)).vertices)`

    Args:
        low: Lower ends (x, y, z) [m]; None leaves a side unbounded.
        high: Upper ends (x, y, z) [m].
    """

    low: Sequence[float | None] = (None, None, None)
    high: Sequence[float | None] = (None, None, None)

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            ends: Any = getattr(self, name)
            listed = isinstance(ends, (list, tuple)) or (isinstance(ends, np.ndarray) and ends.ndim == 1)
            if not listed or len(ends) != 3:
                raise WrongShape(f"Region.{name}", abbreviate(ends), "must be three numbers or None, for x, y and z")
            for end in ends:
                if end is not None and (isinstance(end, bool) or not isinstance(end, (int, float, np.number))):
                    raise WrongType(f"Region.{name}", abbreviate(end), "must be a number or None")
                if end is not None and end != end:
                    raise OutOfRange(f"Region.{name}", end, "must not be NaN")

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Returns a mask [N] of the points [N, 3] inside the box."""
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
    """Returns the sorted indices of nodes selected by index, by mask, or by a region of the rest shape, [P] int32."""
    if pinned is None:
        return np.zeros(0, dtype=np.int32)
    try:
        chosen = np.asarray(pinned(points) if callable(pinned) else pinned)
    except ValueError:
        raise WrongShape(name, "rows of different lengths", "give node indices, a mask, or a region") from None
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
    """Raises InvalidInput unless the name of a body is an identifier."""
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidInput("name", repr(name), "a body's name must be an identifier such as 'beam_2'")


def check_rotation(body: Any) -> None:
    """Raises OutOfRange if the rotation of a body is the zero quaternion."""
    rotation = getattr(body, "rotation", None)
    if rotation is not None and has_zero_vector(rotation):
        raise OutOfRange(f"{body.name}.rotation", "(0, 0, 0, 0)", "must not be zero; (0, 0, 0, 1) is the identity")


def check_contact(body: Any) -> None:
    """Raises WrongType unless the contact parameters of a body are None, `Contact`, or `Contact` by shape name."""
    contacts = body.contact.items() if isinstance(body.contact, Mapping) else [("", body.contact)]
    for shape, contact in contacts:
        if contact is not None and not isinstance(contact, Contact):
            name = f"{body.name}.contact" + (f"[{shape!r}]" if shape else "")
            raise WrongType(name, type(contact).__name__, "must be a gs.Contact, or gs.Contact by name of the shape")


def contact_of(body: Any, name: str, shape: Contact) -> Contact:
    """Returns the body's own contact parameters for a static shape of this name, or the shape's if it has none."""
    own = body.contact.get(name) if isinstance(body.contact, Mapping) else body.contact
    return own if own is not None else shape


PARTS = ("material", "bending", "fibres", "rayleigh")  # of a body, with quantities of their own


def _validate_body(body: Any, counts: dict[str, int]) -> None:
    """Validates name and quantities of a body, and the element counts of the body, its material and its bending."""
    check_name(body.name)
    validate_quantities(body, body.name)
    check_rotation(body)
    check_contact(body)
    objects = [(body.name, body)]
    objects += [(f"{body.name}.{name}", getattr(body, name)) for name in PARTS if getattr(body, name, None) is not None]
    for label, scene_object in objects:
        for name, spec in quantities(scene_object):
            if spec.per is not None:
                check_element_count(f"{label}.{name}", getattr(scene_object, name), spec, counts[spec.per])


@dataclass(frozen=True, eq=False)
class Soft(NodeBody):
    """An elastic solid, discretized by tetrahedra.

    Example:
        `gs.Soft("beam", gs.meshes.tet_box((1.0, 0.2, 0.2), (10, 2, 2)), density=1000.0)`

    Args:
        name: Identifier; paths of the body's parameters start with it.
        mesh: Rest shape.
        density: [kg/m^3]. Exactly one of `density`, `mass` and `total_mass` is given.
        mass: Per node [kg], a number or `gs.per_element`.
        material: `NeoHookean(...)` or `NeoHookean.from_young(...)`; or `StVenantKirchhoff`, `StandardNeoHookean`,
            `MooneyRivlin`, without actuation and with `LinearTet()`.
        position: Initial position of the mesh's origin [m], [..., 3].
        rotation: Initial rotation about the mesh's origin, quaternion (x, y, z, w), [..., 4].
        vertices: Initial deformed shape in mesh coordinates [m], [..., N, 3]; the rest shape if None.
        velocity: Initial velocity [m/s], [..., 3] or `gs.per_element` with [..., N, 3].
        pinned: Fixed nodes: indices, a mask, a `Region`, or a function of the rest positions.
        actuation: Target relative change of volume of each element; `Signal` and `gs.per_element` are allowed.
        force: External force on each node [N], [..., 3]; `Signal` and `gs.per_element` are allowed.
        contact: Contact parameters, for all shapes or by shape name; None takes those of the shapes.
        look: Appearance of the surface; None excludes the body from rendering.
        total_mass: Mass of the body, of uniform density [kg].
        motion: Prescribed motion of the pinned nodes; they stand still if None.
        self_contact: Contact of the body's nodes with each other, and with those of other bodies that have it; `True`
            takes the defaults of `SelfContact`.
        element: `LinearTet()`, or `SmoothedTet()`, which does not lock.
        fibres: Fibres in the solid; none if None.
        rayleigh: Damping proportional to mass and stiffness, besides that of the material; none if None.
    """

    name: str
    mesh: TetMesh
    density: Quantity | None = quantity(None, "kg/m^3", above=0.0, per="tet")
    mass: Quantity | None = quantity(None, "kg", above=0.0, per="node")
    material: SolidMaterial = field(default_factory=NeoHookean)
    position: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    rotation: Quantity | None = quantity(None, "1", shape=(4,))
    vertices: Quantity | None = None
    velocity: Quantity = quantity((0.0, 0.0, 0.0), "m/s", shape=(3,), per="node")
    pinned: Pinned = None
    actuation: Quantity = quantity(0.0, "1", per="tet", signal=True)
    force: Quantity = quantity((0.0, 0.0, 0.0), "N", shape=(3,), per="node", signal=True)
    contact: Contact | Mapping[str, Contact] | None = None
    look: Look | None = Look()
    total_mass: Quantity | None = quantity(None, "kg", above=0.0)
    motion: Motion | None = None
    self_contact: SelfContact | bool | None = None
    element: TetElement = LinearTet()
    fibres: Fibres | None = None
    rayleigh: Rayleigh | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mesh, TetMesh):
            raise WrongType(f"{self.name}.mesh", type(self.mesh).__name__, "a soft body needs a TetMesh")
        if not isinstance(self.element, TetElement):
            raise WrongType(f"{self.name}.element", repr(self.element), "must be gs.LinearTet() or gs.SmoothedTet()")
        if not isinstance(self.material, SOLID_MATERIALS):
            known = "gs.NeoHookean, gs.StVenantKirchhoff, gs.StandardNeoHookean or gs.MooneyRivlin"
            raise WrongType(f"{self.name}.material", type(self.material).__name__, f"must be a {known}")
        if not isinstance(self.material, (NeoHookean, YoungSolid)):
            self._check_further_material()
        _validate_body(self, {"node": len(self.mesh.vertices), "tet": len(self.mesh.tets)})
        check_exactly_one(self.name, self, "density", "mass", "total_mass")
        _check_vertices(self)
        check_look(self.name, self.look, lambda: (len(self.mesh.vertices), len(self.faces)))
        object.__setattr__(self, "pinned", pinned_nodes(f"{self.name}.pinned", self.pinned, self.mesh.vertices))
        check_motion(f"{self.name}.motion", self.motion, np.size(self.pinned))  # type: ignore[arg-type]
        check_self_contact(self, len(self.mesh.vertices))
        if self.fibres is not None:
            self._check_fibres(self.fibres)
        given: Any = self.rayleigh
        if given is not None and not isinstance(given, Rayleigh):
            raise WrongType(f"{self.name}.rayleigh", type(given).__name__, "must be gs.Rayleigh(...)")

    def _check_further_material(self) -> None:
        """Raises if the body has something that only `gs.NeoHookean` has."""
        kind = type(self.material).__name__
        if not isinstance(self.element, LinearTet):
            raise InvalidInput(f"{self.name}.element", repr(self.element), f"gs.{kind} needs gs.LinearTet()")
        if not isinstance(self.actuation, (int, float)) or self.actuation != 0.0:
            raise InvalidInput(f"{self.name}.actuation", "given", f"is for gs.NeoHookean, not for gs.{kind}")

    def _check_fibres(self, fibres: Any) -> None:
        if not isinstance(fibres, Fibres):
            raise WrongType(f"{self.name}.fibres", type(fibres).__name__, "must be gs.Fibres(...)")
        fibres.directions(len(self.mesh.tets), self.name)

    @property
    def faces(self) -> np.ndarray:
        """Triangles of the surface, [F, 3]."""
        return self.mesh.surface


@dataclass(frozen=True, eq=False)
class Cloth(NodeBody):
    """A triangulated sheet with stretching, shearing, bending and aerodynamic forces.

    Example:
        `gs.Cloth("sheet", gs.meshes.grid(1.0, 8), mass=0.2, pinned=[0, 8])`

    Args:
        name: Identifier; paths of the body's parameters start with it.
        mesh: Rest shape; its hinge angles are the rest angles.
        density: [kg/m^2]. Exactly one of `density`, `mass` and `total_mass` is given.
        mass: Per node [kg], a number or `gs.per_element`.
        material: In-plane elasticity, `Membrane(...)` or `Membrane.from_young(...)`.
        bending: `Bending(...)`.
        drag, lift: Aerodynamic coefficients [kg/m^3] of the force on each triangle,
            -(drag A |n.u| u + lift A (n.u) |u| n).
        position, rotation, vertices, velocity, pinned, force, contact, look, total_mass, motion, self_contact: As
            for `Soft`.
        actuation: Target relative change of area of each triangle; `Signal` and `gs.per_element` are allowed.
        folding: Change of the hinges' rest angle [rad], positive towards a ridge; `Signal` and `gs.per_element` are
            allowed.
    """

    name: str
    mesh: TriMesh
    density: Quantity | None = quantity(None, "kg/m^2", above=0.0, per="triangle")
    mass: Quantity | None = quantity(None, "kg", above=0.0, per="node")
    material: SheetMaterial = field(default_factory=Membrane)
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
    total_mass: Quantity | None = quantity(None, "kg", above=0.0)
    motion: Motion | None = None
    self_contact: SelfContact | bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mesh, TriMesh):
            raise WrongType(f"{self.name}.mesh", type(self.mesh).__name__, "a cloth needs a TriMesh")
        if not isinstance(self.material, (Membrane, YoungSheet)):
            raise WrongType(f"{self.name}.material", type(self.material).__name__, "must be a gs.Membrane")
        if not isinstance(self.bending, Bending):
            raise WrongType(f"{self.name}.bending", type(self.bending).__name__, "must be a gs.Bending")
        mesh = self.mesh
        _validate_body(self, {"node": len(mesh.vertices), "triangle": len(mesh.faces), "hinge": len(mesh.hinges)})
        check_exactly_one(self.name, self, "density", "mass", "total_mass")
        _check_vertices(self)
        check_look(self.name, self.look, lambda: (len(self.mesh.vertices), len(self.faces)))
        object.__setattr__(self, "pinned", pinned_nodes(f"{self.name}.pinned", self.pinned, mesh.vertices))
        check_motion(f"{self.name}.motion", self.motion, np.size(self.pinned))  # type: ignore[arg-type]
        check_self_contact(self, len(mesh.vertices))

    @property
    def faces(self) -> np.ndarray:
        """Triangles of the sheet, [F, 3]."""
        return self.mesh.faces


@dataclass(frozen=True, eq=False)
class Springs(NodeBody):
    """Point masses connected by damped springs.

    Example:
        `gs.Springs("chain", *gs.meshes.chain(0.4, 4), mass=0.01, stiffness=20.0, pinned=[0])`

    Args:
        name: Identifier; paths of the body's parameters start with it.
        points: Initial positions [m], [..., N, 3].
        edges: Pairs of nodes, [S, 2].
        mass: Per node [kg], a number or `gs.per_element`.
        stiffness, damping: Per spring [N/m], [N s/m], numbers or `gs.per_element`.
        rest_length: Per spring [m]; None takes the initial distances.
        position, velocity, pinned, force, contact, motion: As for `Soft`.
        look: Appearance of the octahedra at the nodes and the bars between them; None excludes them from rendering.
        thickness: Radius of the octahedra, and edge length of the bars [m].
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
    motion: Motion | None = None

    def __post_init__(self) -> None:
        points = _checked_points(f"{self.name}.points", self.points, None)
        rest = _first_world(points)
        edges = _checked_edges(f"{self.name}.edges", self.edges, rest)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "edges", edges)
        _validate_body(self, {"node": len(rest), "spring": len(edges)})
        object.__setattr__(self, "pinned", pinned_nodes(f"{self.name}.pinned", self.pinned, rest))
        check_motion(f"{self.name}.motion", self.motion, np.size(self.pinned))  # type: ignore[arg-type]
        check_look(self.name, self.look, lambda: (0, 0))
        if isinstance(self.thickness, bool) or not isinstance(self.thickness, (int, float)) or not self.thickness > 0.0:
            raise OutOfRange(f"{self.name}.thickness", repr(self.thickness), "must be a number > 0 [m]")

    @property
    def faces(self) -> np.ndarray:
        """Empty, [0, 3]: springs have no surface."""
        return np.zeros((0, 3), dtype=np.int32)


def node_count(body: Any) -> int:
    """Returns the number of nodes of a body."""
    return unwrap(body.points).shape[-2] if isinstance(body, Springs) else len(body.mesh.vertices)


def body_size(body: Any) -> float:
    """Largest extent of a body's rest shape [m]; in the first world of a batch."""
    radius = to_numpy(getattr(body, "radius", None))  # of a ball
    if radius is not None:
        return 2.0 * float(radius.reshape(-1)[0])
    size = to_numpy(getattr(body, "size", None))  # of a rigid body
    if size is not None:
        return float(size.reshape(-1, 3)[0].max())
    points = _first_world(body.points) if isinstance(body, Springs) else body.mesh.vertices
    return float(np.ptp(points, axis=0).max())


def _first_world(points: Any) -> np.ndarray:
    """Returns the points of the first world of a batch [m], [N, 3]."""
    values = unwrap(points)
    array = values if isinstance(values, np.ndarray) else first_mapped(values)
    return array.reshape(-1, *array.shape[-2:])[0]


def _checked_edges(name: str, edges: Any, points: np.ndarray) -> np.ndarray:
    """Returns the valid edges of springs between points [m], [N, 3], as an int32 array [S, 2]."""
    pairs = np.asarray(edges)
    if pairs.size and pairs.dtype.kind not in "iu":
        raise WrongType(name, f"dtype {pairs.dtype}", "must be whole numbers: node indices counted from 0")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise WrongShape(name, f"shape {pairs.shape}", "must be pairs of nodes, [S, 2]")
    if pairs.size and (pairs.min() < 0 or pairs.max() >= len(points)):
        bad = int(pairs.min() if pairs.min() < 0 else pairs.max())
        raise OutOfRange(name, bad, f"node indices must lie in [0, {len(points)})")
    pairs = np.ascontiguousarray(pairs, dtype=np.int32)
    lengths = np.linalg.norm(points[pairs[:, 1]] - points[pairs[:, 0]], axis=1)
    if pairs.size and lengths.min() <= 0.0:
        worst = int(lengths.argmin())
        raise DegenerateElement(f"{name}[{worst}]", "length 0", "the ends of a spring must not coincide")
    return pairs


def _check_vertices(body: Any) -> None:
    if body.vertices is not None:
        checked = _checked_points(f"{body.name}.vertices", body.vertices, len(body.mesh.vertices))
        object.__setattr__(body, "vertices", checked)


def _checked_points(name: str, points: Any, count: int | None) -> Any:
    """Returns valid positions [m], [..., count, 3]; None accepts any count."""
    array = validated_array(name, bare(points), Spec("m", shape=(3,)))
    if array.ndim < 2 or (count is not None and array.shape[-2] != count):
        raise WrongShape(name, f"shape {tuple(array.shape)}", f"must have shape [..., {count or 'N'}, 3]")
    return array

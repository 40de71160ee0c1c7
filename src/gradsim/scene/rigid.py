"""Rigid bodies, known external forces and impulses on them, and air drag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
import torch

from gradsim.scene.bodies import check_contact, check_name, check_rotation
from gradsim.scene.body import Body
from gradsim.scene.closed_surfaces import check_closed
from gradsim.scene.errors import OutOfRange, WrongShape, WrongType
from gradsim.scene.inertia import MassProperties, point_masses, scaled_solid, solid
from gradsim.scene.looks import Look, check_look
from gradsim.scene.materials import Contact
from gradsim.scene.meshes import TriMesh
from gradsim.scene.motion import Motion, check_motion
from gradsim.scene.quantity import Quantity, is_per_element, quantities, quantity, to_numpy, unwrap
from gradsim.scene.validation import check_element_count, check_exactly_one, validate_quantities

# Cache of meshes that passed check_closed: `with_values` creates bodies again with the same meshes. An entry is removed
# when its mesh is deleted.
_closed: WeakSet[TriMesh] = WeakSet()

# Cache of mass properties at unit density, by mesh, then by dtype and device.
_solids: WeakKeyDictionary[TriMesh, dict[tuple[torch.dtype, torch.device], MassProperties]] = WeakKeyDictionary()


def check_closed_once(name: str, mesh: TriMesh) -> None:
    """As `check_closed`, once per mesh."""
    if mesh not in _closed:
        check_closed(name, mesh)
        _closed.add(mesh)


def unit_solid(mesh: TriMesh, dtype: torch.dtype, device: torch.device) -> MassProperties:
    """Returns the mass properties of the inside of a mesh at unit density, computed once per mesh."""
    cached = _solids.setdefault(mesh, {})
    if (dtype, device) not in cached:
        with torch.inference_mode(False):  # inference tensors could not be used in a differentiable call later
            cached[dtype, device] = MassProperties(*(a.to(device, dtype) for a in solid(mesh.vertices, mesh.faces)))
    return cached[dtype, device]


@dataclass(frozen=True, eq=False)
class Push:
    """A known force or impulse on a rigid body, in world coordinates, applied at a point of the body.

    Example:
        `gs.Push(impulse=(2.0, 1.0, 0.0), point=(0.0, 0.1, 0.0), start=0.1)`

    Args:
        force: Constant force from `start` to `end` [N], [..., 3]. Exactly one of `force` and `impulse` is given.
        impulse: Impulse, distributed evenly from `start` to `end` [N s], [..., 3]; instantaneous if they are equal.
        point: Point of application in body coordinates [m], [..., 3]; the centre of mass if None.
        start, end: Times [s]. If `end` is None, an impulse acts at `start`, and a force acts until the end of the
            rollout.
    """

    force: Quantity | None = quantity(None, "N", shape=(3,))
    impulse: Quantity | None = quantity(None, "N s", shape=(3,))
    point: Quantity | None = quantity(None, "m", shape=(3,))
    start: float = 0.0
    end: float | None = None

    def __post_init__(self) -> None:
        validate_quantities(self, "Push")
        check_exactly_one("Push", self, "force", "impulse")
        for name in ("start", "end"):
            value = getattr(self, name)
            if value is None and name == "end":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
                raise WrongType(f"Push.{name}", repr(value), "must be a number [s]")
            if not 0.0 <= value < np.inf:
                raise OutOfRange(f"Push.{name}", value, "must be >= 0 and finite [s]")
        if self.end is not None and self.end < self.start:
            raise OutOfRange("Push.end", self.end, f"must not lie before start = {self.start:g} s")


@dataclass(frozen=True, eq=False)
class Drag:
    """Drag of still air on a rigid body or a link: the force -(linear + quadratic |v|) v at its centre of mass.

    Example:
        `gs.Ball("ball", radius=0.1, mass=0.1, drag=gs.Drag(quadratic=0.009))`

    Args:
        linear: Coefficient of slow motion [kg/s]; 6 pi viscosity radius for a small sphere.
        quadratic: Coefficient of fast motion [kg/m]: half the density of the air times the drag coefficient times the
            frontal area. In air, 0.3 kg/m^3 times the area for a smooth ball.
    """

    linear: Quantity = quantity(0.0, "kg/s", low=0.0)
    quadratic: Quantity = quantity(0.0, "kg/m", low=0.0)

    def __post_init__(self) -> None:
        validate_quantities(self, "Drag")


@dataclass(frozen=True, eq=False)
class Rigid(Body):
    """A rigid body with a closed surface.

    Example:
        `gs.Rigid("cube", gs.meshes.box(0.5), mass=2.0, position=(0.0, 1.0, 0.0), velocity=(1.0, 0.0, 0.0))`

    Args:
        name: Identifier; paths of the body's parameters start with it.
        mesh: Closed surface, in body coordinates unless `size` is given.
        density: Density of the enclosed volume [kg/m^3]. Exactly one of `density` and `mass` is given.
        mass: Mass of the body, of uniform density [kg]; or `gs.per_element` for point masses at the vertices.
        inertia: Inertia tensor about the centre of mass, in body axes [kg m^2], [..., 3, 3]; from the mesh if None.
        center: Centre of mass in body coordinates [m], [..., 3]; from the mesh if None.
        position: Initial position of the mesh's origin [m], [..., 3].
        rotation: Initial rotation, quaternion (x, y, z, w), [..., 4].
        velocity: Initial velocity of the centre of mass, or of `velocity_point` [m/s], [..., 3].
        angular_velocity: Initial angular velocity in world axes [rad/s], [..., 3].
        contact: Contact parameters, for all shapes and bodies or by their names; None takes those of the shapes, and
            the defaults of `Contact` between bodies.
        pushes: Known forces and impulses.
        face_samples: Whether face centroids are contact points, in addition to the vertices.
        look: Appearance of the surface; None excludes the body from rendering.
        size: Extents of the body along its own axes [m], [..., 3]; those of the mesh if None. The mesh is scaled about
            its origin so that its bounding box has these extents. The surface, the contact points, and the mass
            properties that the mesh determines are scaled with it. For a ball of unknown diameter:
            `d = gs.unknown(0.1)`, then `size=(d, d, d)`.
        velocity_point: Point with the initial velocity `velocity`, in body coordinates [m], [..., 3], such as the one
            that motion capture follows; the centre of mass if None.
        drag: Air drag; none if None.
        motion: Prescribed motion, from the initial position and rotation; forces then do not move the body, and its
            initial velocities do not count. It turns about `position` unless the motion has a centre.
    """

    name: str
    mesh: TriMesh
    density: Quantity | None = quantity(None, "kg/m^3", above=0.0)
    mass: Quantity | None = quantity(None, "kg", above=0.0, per="vertex")
    inertia: Quantity | None = quantity(None, "kg m^2", shape=(3, 3))
    center: Quantity | None = quantity(None, "m", shape=(3,))
    position: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    rotation: Quantity | None = quantity(None, "1", shape=(4,))
    velocity: Quantity = quantity((0.0, 0.0, 0.0), "m/s", shape=(3,))
    angular_velocity: Quantity = quantity((0.0, 0.0, 0.0), "rad/s", shape=(3,))
    contact: Contact | Mapping[str, Contact] | None = None
    pushes: Sequence[Push] = field(default_factory=tuple)
    face_samples: bool = False
    look: Look | None = Look()
    size: Quantity | None = quantity(None, "m", shape=(3,), above=0.0)
    velocity_point: Quantity | None = quantity(None, "m", shape=(3,))
    drag: Drag | None = None
    motion: Motion | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.mesh, TriMesh):
            raise WrongType(f"{self.name}.mesh", type(self.mesh).__name__, "a rigid body needs a TriMesh")
        check_closed_once(f"{self.name}.mesh", self.mesh)
        validate_quantities(self, self.name)
        check_exactly_one(self.name, self, "density", "mass")
        check_rotation(self)
        check_contact(self)
        check_look(self.name, self.look, lambda: (len(self.mesh.vertices), len(self.faces)))
        for name, spec in quantities(self):
            if spec.per is not None:
                check_element_count(f"{self.name}.{name}", getattr(self, name), spec, len(self.mesh.vertices))
        self._check_pushes()
        if self.drag is not None and not isinstance(self.drag, Drag):
            raise WrongType(f"{self.name}.drag", type(self.drag).__name__, "must be a gs.Drag or None")
        check_motion(f"{self.name}.motion", self.motion)
        if self.inertia is not None:
            self._check_inertia()

    def _check_pushes(self) -> None:
        pushes: Any = self.pushes
        if not isinstance(pushes, (list, tuple)):
            raise WrongType(f"{self.name}.pushes", type(pushes).__name__, "must be a list of gs.Push")
        for push in pushes:
            if not isinstance(push, Push):
                raise WrongType(f"{self.name}.pushes", type(push).__name__, "must be a list of gs.Push")
        object.__setattr__(self, "pushes", tuple(pushes))

    def _check_inertia(self) -> None:
        values = to_numpy(self.inertia)
        if values is None:
            return
        tensor = torch.as_tensor(values)
        scale = tensor.abs().amax((-2, -1), keepdim=True)
        if not bool(((tensor - tensor.mT).abs() <= 1e-9 * scale).all()):
            raise WrongShape(f"{self.name}.inertia", "not symmetric", "an inertia tensor must be symmetric")
        moments = torch.linalg.eigvalsh(tensor)
        if not bool((moments > 0).all()):
            raise OutOfRange(f"{self.name}.inertia", f"a moment of {float(moments.min()):g}", "moments must be > 0")
        if not bool((moments[..., 2] <= (moments[..., 0] + moments[..., 1]) * (1 + 1e-9)).all()):
            raise OutOfRange(
                f"{self.name}.inertia", f"moments {moments.tolist()}", "no moment may exceed the others' sum"
            )

    @property
    def faces(self) -> np.ndarray:
        """Triangles of the surface, [F, 3]."""
        return self.mesh.faces

    @property
    def is_scaled(self) -> bool:
        """Whether body coordinates differ from those of the mesh by `scale`."""
        return self.size is not None

    def unit_solid(self, dtype: torch.dtype, device: torch.device) -> MassProperties:
        """Returns the mass properties at unit density in mesh coordinates."""
        return unit_solid(self.mesh, dtype, device)

    @property
    def contact_points(self) -> np.ndarray:
        """Contact points in mesh coordinates [m], [P, 3]; vertices at the same position are merged."""
        points = np.unique(self.mesh.vertices, axis=0)
        if self.face_samples:
            points = np.concatenate([points, self.mesh.vertices[self.mesh.faces].mean(1)])
        return points

    def scale(self, dtype: torch.dtype, device: torch.device) -> torch.Tensor | None:
        """Returns the factors from mesh to body coordinates along the axes, [..., 3]; None without a `size`."""
        if self.size is None:
            return None
        extents = torch.as_tensor(np.ptp(self.mesh.vertices, axis=0), dtype=dtype, device=device)
        return _tensor(self.size, dtype, device) / extents

    def scaled_solid(self, dtype: torch.dtype, device: torch.device) -> MassProperties:
        """Returns the mass properties at unit density in body coordinates."""
        unit, scale = self.unit_solid(dtype, device), self.scale(dtype, device)
        return unit if scale is None else scaled_solid(unit, scale)

    def mass_properties(
        self, dtype: torch.dtype, device: torch.device, unit: MassProperties | None = None
    ) -> MassProperties:
        """Computes mass [...], centre of mass [..., 3] and inertia [..., 3, 3] in body axes.

        `unit` is the result of `scaled_solid`, computed here if None.
        """
        if is_per_element(self.mass):
            scale = self.scale(dtype, device)
            points = torch.tensor(self.mesh.vertices, dtype=dtype, device=device)
            points = points if scale is None else points * scale[..., None, :]
            computed = point_masses(points, _tensor(self.mass, dtype, device))
        else:
            unit = self.scaled_solid(dtype, device) if unit is None else unit
            given = _tensor(self.mass if self.density is None else self.density, dtype, device)
            density = given / unit.mass if self.density is None else given
            computed = MassProperties(
                density * unit.mass, unit.center, density.reshape(*density.shape, 1, 1) * unit.inertia
            )
        center = computed.center if self.center is None else _tensor(self.center, dtype, device)
        inertia = computed.inertia if self.inertia is None else _tensor(self.inertia, dtype, device)
        return MassProperties(computed.mass, center, inertia)


def _tensor(value: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Returns the numbers of a quantity as a tensor; plain numbers get this type."""
    array = unwrap(value)
    return array if isinstance(array, torch.Tensor) else torch.as_tensor(array, dtype=dtype, device=device)

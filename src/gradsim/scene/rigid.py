"""Rigid bodies and the pushes they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
import torch

from gradsim.scene.bodies import check_contact, check_name, check_rotation
from gradsim.scene.errors import OutOfRange, WrongShape, WrongType
from gradsim.scene.inertia import MassProperties, point_masses, solid
from gradsim.scene.looks import Look, check_look
from gradsim.scene.materials import Contact
from gradsim.scene.meshes import TriMesh
from gradsim.scene.quantity import (
    Quantity,
    check_counts,
    exactly_one,
    is_per_element,
    quantities,
    quantity,
    unwrap,
    validate_quantities,
)
from gradsim.scene.surfaces import check_closed

_closed: WeakSet[TriMesh] = WeakSet()  # meshes that were found closed
_solids: WeakKeyDictionary[TriMesh, dict[tuple[torch.dtype, torch.device], MassProperties]] = WeakKeyDictionary()


def unit_solid(mesh: TriMesh, dtype: torch.dtype, device: torch.device) -> MassProperties:
    """Mass properties of a mesh filled with unit density, integrated once."""
    found = _solids.setdefault(mesh, {})
    if (dtype, device) not in found:
        with torch.inference_mode(False):  # a gradient may be asked for later
            found[dtype, device] = MassProperties(*(a.to(device, dtype) for a in solid(mesh.vertices, mesh.faces)))
    return found[dtype, device]


@dataclass(frozen=True, eq=False)
class Push:
    """A known push on a rigid body, in the world's directions, at a point of the body.

    Args:
        force: [N], [..., 3], from `start` to `end`; or
        impulse: [N s], [..., 3], spread evenly from `start` to `end`, within one time step if they are equal.
        point: Where it acts, in the mesh's coordinates [m], [..., 3]; the centre of mass if None.
        start, end: [s]; `end` = None means `start` for an impulse and for ever for a force.
    """

    force: Quantity | None = quantity(None, "N", shape=(3,))
    impulse: Quantity | None = quantity(None, "N s", shape=(3,))
    point: Quantity | None = quantity(None, "m", shape=(3,))
    start: float = 0.0
    end: float | None = None

    def __post_init__(self) -> None:
        validate_quantities(self, "Push")
        exactly_one("Push", self, "force", "impulse")
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
class Rigid:
    """A rigid body from a closed surface.

    Args:
        name: Identifier, the first part of its parameters' paths.
        mesh: Closed surface, in the body's own axes.
        density: [kg/m^3], of the volume inside; or
        mass: [kg], of the whole body filled evenly, or `gs.per_element` for a mass at every vertex and nothing inside.
        inertia: About the centre of mass, in the body's axes [kg m^2], [..., 3, 3]; from the mesh if None.
        center: Of mass, in the body's axes [m], [..., 3]; from the mesh if None.
        position: Where the mesh's origin starts [m], [..., 3].
        rotation: Start rotation, quaternion (x, y, z, w), [..., 4].
        velocity: Of the centre of mass [m/s], [..., 3].
        angular_velocity: In the world's axes [rad/s], [..., 3].
        contact: Contact parameters of this body, one for all shapes or by the name of the shape; the shapes' if None.
        pushes: Known pushes.
        face_samples: Whether the middles of faces touch too, besides the vertices.
        look: Colour and shine of its surface; None leaves it out of pictures.
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

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.mesh, TriMesh):
            raise WrongType(f"{self.name}.mesh", type(self.mesh).__name__, "a rigid body needs a TriMesh")
        if self.mesh not in _closed:
            check_closed(f"{self.name}.mesh", self.mesh)
            _closed.add(self.mesh)
        validate_quantities(self, self.name)
        exactly_one(self.name, self, "density", "mass")
        check_rotation(self)
        check_contact(self)
        check_look(self.name, self.look, lambda: (len(self.mesh.vertices), len(self.faces)))
        for name, spec in quantities(self):
            if spec.per is not None:
                check_counts(f"{self.name}.{name}", getattr(self, name), spec, len(self.mesh.vertices))
        given: Any = self.pushes
        if not isinstance(given, (list, tuple)):
            raise WrongType(f"{self.name}.pushes", type(given).__name__, "must be a list of gs.Push")
        object.__setattr__(self, "pushes", tuple(given))
        for push in self.pushes:
            if not isinstance(push, Push):
                raise WrongType(f"{self.name}.pushes", type(push).__name__, "must be a list of gs.Push")
        if self.inertia is not None:
            self._check_inertia()

    def _check_inertia(self) -> None:
        tensor = torch.as_tensor(unwrap(self.inertia)).detach()
        scale = tensor.abs().amax((-2, -1), keepdim=True)
        if not bool(((tensor - tensor.mT).abs() <= 1e-9 * scale).all()):
            raise WrongShape(f"{self.name}.inertia", "not symmetric", "an inertia tensor is symmetric")
        moments = torch.linalg.eigvalsh(tensor)
        if not bool((moments > 0).all()):
            raise OutOfRange(f"{self.name}.inertia", f"a moment of {float(moments.min()):g}", "moments must be > 0")
        if not bool((moments[..., 2] <= (moments[..., 0] + moments[..., 1]) * (1 + 1e-9)).all()):
            raise OutOfRange(f"{self.name}.inertia", f"moments {moments.tolist()}", "none may exceed the others' sum")

    @property
    def faces(self) -> np.ndarray:
        """Triangles of the surface, [F, 3]."""
        return self.mesh.faces

    @property
    def contact_points(self) -> np.ndarray:
        """Points that touch, in the body's axes [m], [P, 3]; vertices at one place count once."""
        points = np.unique(self.mesh.vertices, axis=0)
        if self.face_samples:
            points = np.concatenate([points, self.mesh.vertices[self.mesh.faces].mean(1)])
        return points

    def mass_properties(self, dtype: torch.dtype, device: torch.device) -> MassProperties:
        """Mass [...], centre [..., 3] and inertia [..., 3, 3] in the body's axes, from what was given."""

        def tensor(value: Any) -> torch.Tensor:
            array = unwrap(value)
            return array if isinstance(array, torch.Tensor) else torch.as_tensor(array, dtype=dtype, device=device)

        if is_per_element(self.mass):
            found = point_masses(torch.tensor(self.mesh.vertices, dtype=dtype, device=device), tensor(self.mass))
        else:
            unit = unit_solid(self.mesh, dtype, device)
            density = tensor(self.density) if self.density is not None else tensor(self.mass) / unit.mass
            found = MassProperties(
                density * unit.mass, unit.center, density.reshape(*density.shape, 1, 1) * unit.inertia
            )
        center = found.center if self.center is None else tensor(self.center)
        inertia = found.inertia if self.inertia is None else tensor(self.inertia)
        return MassProperties(found.mass, center, inertia)

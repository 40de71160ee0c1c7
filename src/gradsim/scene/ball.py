"""Balls: rigid bodies that are exact spheres."""

from __future__ import annotations

import functools
import math
from dataclasses import MISSING, dataclass, field

import numpy as np
import torch

from gradsim.scene.errors import WrongType
from gradsim.scene.inertia import MassProperties
from gradsim.scene.meshes import TriMesh
from gradsim.scene.quantity import Quantity, is_per_element, quantity, unwrap
from gradsim.scene.rigid import Rigid
from gradsim.scene.surfaces import icosphere

SUBDIVISIONS = 3  # of the drawn surface


@functools.cache
def unit_ball() -> TriMesh:
    """Returns the surface of a ball of radius 1 m as it is drawn.

    It is scaled such that its area is that of the sphere. The silhouette of a convex surface has a quarter of its area
    on average over all directions (Cauchy), so that balls appear as large as they are.
    """
    mesh = icosphere(1.0, SUBDIVISIONS)
    return TriMesh(mesh.vertices * math.sqrt(4.0 * math.pi / mesh.areas.sum()), mesh.faces)


@dataclass(frozen=True, eq=False)
class Ball(Rigid):
    """A rigid body that is a sphere of uniform density.

    It touches the ground, static shapes and other bodies in one point, and its mass and inertia are those of the exact
    sphere. It is drawn as a polyhedron. Fields are those of `Rigid`, except for `mesh`, `size` and `face_samples`.

    Example:
        `gs.Ball("ball", radius=0.1, mass=0.4, position=(0.0, 1.0, 0.0))`

    Args:
        radius: Radius [m].
        inertia: Inertia tensor [kg m^2], [..., 3, 3]; 2/5 mass radius^2 if None. That of a thin shell is 2/3.
    """

    mesh: TriMesh = field(default_factory=unit_ball, init=False, repr=False)
    size: Quantity | None = field(default=None, init=False, repr=False)
    face_samples: bool = field(default=False, init=False, repr=False)
    radius: Quantity = quantity(MISSING, "m", kw_only=True, above=0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if is_per_element(self.mass):
            raise WrongType(
                f"{self.name}.mass", "per_element(...)", "a ball has one mass [kg]: give a number or tensor"
            )

    @property
    def is_scaled(self) -> bool:
        return True

    @property
    def contact_points(self) -> np.ndarray:
        """The center [m], [1, 3]."""
        return np.zeros((1, 3))

    def unit_solid(self, dtype: torch.dtype, device: torch.device) -> MassProperties:
        """Returns the mass properties of a ball of radius 1 m at unit density."""
        return _unit_ball_solid(dtype, device)

    def scale(self, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Returns the factors from mesh to body coordinates, [..., 3], which are the radius."""
        radius = unwrap(self.radius)
        tensor = radius if isinstance(radius, torch.Tensor) else torch.as_tensor(radius, dtype=dtype, device=device)
        return tensor[..., None].expand(*tensor.shape, 3)


@functools.cache
def _unit_ball_solid(dtype: torch.dtype, device: torch.device) -> MassProperties:
    with torch.inference_mode(False):  # inference tensors could not be used in a differentiable call later
        volume = torch.tensor(4.0 / 3.0 * math.pi, dtype=dtype, device=device)
        inertia = 0.4 * volume * torch.eye(3, dtype=dtype, device=device)
        return MassProperties(volume, torch.zeros(3, dtype=dtype, device=device), inertia)

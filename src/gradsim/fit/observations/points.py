"""Points of bodies whose positions are tracked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.scene.articulated_motion import ArticulatedMotion
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import PendulumMotion, RigidMotion, Trajectory

BARYCENTRIC_TOLERANCE = 1e-6  # of the sum of barycentric weights


@dataclass(frozen=True)
class Point(ABC):
    """A point of a body."""

    body: str

    @abstractmethod
    def positions(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor:
        """Returns the positions of the point [m], [..., T, 3]."""

    def outline(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor | None:
        """Returns points [m], [..., T, V, 3], that span the body if this point is its centre; None for other points."""
        return None

    def _vertices(self, trajectory: Trajectory) -> torch.Tensor:
        """Vertices of the body [m], [..., T, V, 3]."""
        motion = trajectory[self.body]
        if not hasattr(motion, "vertices"):
            raise InvalidInput("Tracks", repr(self), f"the motion of {self.body!r} has no vertices")
        vertices: torch.Tensor = motion.vertices
        return vertices


@dataclass(frozen=True)
class Vertex(Point):
    """A vertex of a body's mesh, or a node of springs, by its index.

    Example:
        `gs.Tracks([gs.Vertex("cube", 0), gs.Vertex("cube", 6)], positions=corners)`
    """

    index: int

    def positions(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor:
        return vertex_positions(trajectory, [self])[..., 0, :]


def vertex_positions(trajectory: Trajectory, points: Sequence[Vertex]) -> torch.Tensor:
    """Returns the positions of K vertices of one body [m], [..., T, K, 3]."""
    vertices = points[0]._vertices(trajectory)
    for point in points:
        if not 0 <= point.index < vertices.shape[-2]:
            valid = f"{point.body!r} has {vertices.shape[-2]} vertices: must be >= 0 and < {vertices.shape[-2]}"
            raise OutOfRange("Vertex.index", point.index, valid)
    return vertices[..., [point.index for point in points], :]


@dataclass(frozen=True)
class Center(Point):
    """The centre of a body: the centre of mass of a rigid body, the mean of the vertices of any other.

    Example:
        `gs.Tracks([gs.Center("ball")], pixels, (480, 640))`
    """

    def positions(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor:
        motion = trajectory[self.body]
        return motion.center_of_mass if isinstance(motion, RigidMotion) else self._vertices(trajectory).mean(-2)

    def outline(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor | None:
        return self._vertices(trajectory)


@dataclass(frozen=True)
class Bob(Point):
    """The centre of a bob of a pendulum, by its index: 0 is the one next to the pivot.

    Example:
        `gs.Tracks([gs.Bob("pendulum")], pixels, (480, 640))`
    """

    index: int = 0

    def positions(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor:
        motion = trajectory[self.body]
        if not isinstance(motion, PendulumMotion):
            raise InvalidInput("Tracks", repr(self), f"{self.body!r} is not a pendulum: use gs.Center or gs.Vertex")
        bobs: torch.Tensor = motion.bobs
        if not 0 <= self.index < bobs.shape[-2]:
            raise OutOfRange("Bob.index", self.index, f"{self.body!r} has {bobs.shape[-2]} bobs")
        return bobs[..., self.index, :]

    def outline(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor | None:
        body: Any = scene[self.body]
        center = self.positions(scene, trajectory)[..., None, :]
        axes = body.bob * torch.eye(3, dtype=center.dtype, device=center.device)
        return torch.cat([center + axes, center - axes], -2)


@dataclass(frozen=True)
class FacePoint(Point):
    """A point on a face of a body's surface.

    Example:
        `gs.FacePoint("cube", face=3, weights=(0.2, 0.3, 0.5))`

    Args:
        body: Name of the body.
        face: Index of the face: of the mesh, or of `mesh.surface` for a soft body.
        weights: Barycentric weights of its corners, which sum to 1.
    """

    face: int
    weights: tuple[float, float, float]

    def __post_init__(self) -> None:
        weights = tuple(float(weight) for weight in self.weights)
        if len(weights) != 3 or not abs(sum(weights) - 1.0) <= BARYCENTRIC_TOLERANCE:
            raise InvalidInput("FacePoint.weights", weights, "must be three barycentric weights whose sum is 1")
        object.__setattr__(self, "weights", weights)

    def positions(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor:
        faces: Any = getattr(scene[self.body], "faces", None)
        if faces is None:
            raise InvalidInput("Tracks", repr(self), f"{self.body!r} has no faces: use gs.Vertex or gs.Center")
        if not 0 <= self.face < len(faces):
            raise OutOfRange("FacePoint.face", self.face, f"{self.body!r} has {len(faces)} faces")
        corners = self._vertices(trajectory)[..., np.asarray(faces)[self.face].tolist(), :]
        return (corners * corners.new_tensor(self.weights)[:, None]).sum(-2)


@dataclass(frozen=True)
class Marker(Point):
    """A point fixed to a rigid body, or to a link of an articulated body.

    Example:
        `gs.Marker("arm", offset=(0.0, -0.4, 0.0), link="fore")`

    Args:
        body: Name of the body.
        offset: Its position in the coordinates of the body's mesh, or in the axes of the link [m], (x, y, z).
        link: Name of the link of an articulated body.
    """

    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    link: str | None = None

    def __post_init__(self) -> None:
        offset = tuple(float(x) for x in self.offset)
        if len(offset) != 3:
            raise WrongShape("Marker.offset", offset, "must be (x, y, z) in the coordinates of the body's mesh [m]")
        object.__setattr__(self, "offset", offset)

    def positions(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor:
        motion = trajectory[self.body]
        if isinstance(motion, ArticulatedMotion):
            if self.link is None:
                remedy = f"name one of the links of {self.body!r}: link='{next(iter(motion.links))}'"
                raise InvalidInput("Tracks", repr(self), remedy)
            link = motion.link(self.link)
            return link.points(link.position.new_tensor([self.offset]))[..., 0, :]
        if not isinstance(motion, RigidMotion):
            remedy = "only rigid bodies have coordinates of their own: use gs.FacePoint"
            raise InvalidInput("Tracks", repr(self), remedy)
        position: torch.Tensor = motion.position
        return position + rotate(motion.rotation, position.new_tensor(self.offset))

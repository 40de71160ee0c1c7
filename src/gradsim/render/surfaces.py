"""What is seen of a scene: the surfaces of bodies, static shapes and the ground, and where they are at the frames."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from gradsim.render.bars import bar_mesh, bar_vertices
from gradsim.render.batched import affine, common
from gradsim.render.structure import Part, Surface
from gradsim.scene.batcher import Batcher
from gradsim.scene.bodies import Soft, Springs, node_count
from gradsim.scene.errors import WrongShape
from gradsim.scene.looks import Checker, Look
from gradsim.scene.materials import Ground
from gradsim.scene.meshes import TriMesh, grid
from gradsim.scene.pendula import AnyPendulum, DoublePendulum, Pendulum, skeleton
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import axes_of
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import shape_mesh
from gradsim.scene.smoke import Smoke
from gradsim.scene.trajectory import RigidMotion, Trajectory


@dataclass(frozen=True, eq=False)
class Pose:
    """Where a surface is. One that keeps its shape has points in axes of its own, and where these are."""

    points: torch.Tensor  # drawn vertices [m], [1 or W, 1 or T, V, 3]; [1, 1, V, 3] if there are axes
    deforms: bool
    axes: torch.Tensor | None = None  # the body's axes in the world as rows, [1 or W, 1 or T, 3, 3]
    origin: torch.Tensor | None = None  # [m], [1 or W, 1 or T, 3]

    @cached_property
    def vertices(self) -> torch.Tensor:
        """In the world [m], [1 or W, 1 or T, V, 3]."""
        if self.axes is None or self.origin is None:
            return self.points
        return _moved(self.points[0, 0], self.axes, self.origin)

    def seen(self, matrix: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        """Vertices as matrix [1 or W, 3, 3] @ x + offset [1 or W, 3], [1 or W, 1 or T, V, 3]."""
        if self.axes is None or self.origin is None:
            return affine(self.points, matrix.mT, offset)
        turned = matrix[:, None].mT
        return _moved(
            self.points[0, 0], self.axes @ turned, (self.origin[..., None, :] @ turned)[..., 0, :] + offset[:, None]
        )


def _moved(points: torch.Tensor, axes: torch.Tensor, origin: torch.Tensor) -> torch.Tensor:
    """points [V, 3] @ axes [1 or W, 1 or T, 3, 3] + origin [1 or W, 1 or T, 3], in one multiplication."""
    lead = common(axes.shape[:2], origin.shape[:2])
    axes, origin = axes.expand(*lead, 3, 3).reshape(-1, 3, 3), origin.expand(*lead, 3).reshape(-1, 1, 3)
    return torch.baddbmm(origin, points.expand(len(axes), -1, -1), axes).view(*lead, -1, 3)


def drawn(scene: Scene) -> Iterator[tuple[Any, Surface]]:
    """Everything that is seen, a body or a static shape, with its surface."""
    for name, shape in scene.obstacles.items():
        if shape.look is not None:
            mesh = _tiles(shape.look) if isinstance(shape, Ground) else shape_mesh(shape)
            yield shape, _of_mesh(name, shape.look, mesh, stiff=True)
    for body in scene.bodies:
        if isinstance(body, Smoke) or body.look is None:
            continue
        if isinstance(body, (Pendulum, DoublePendulum)):
            yield body, _of_pendulum(body, body.look)
        elif isinstance(body, Springs):
            yield body, Surface(body.name, body.look, *bar_mesh(body))
        elif isinstance(body, Soft):
            yield body, Surface(body.name, body.look, body.mesh.vertices, body.mesh.surface, body.mesh.key)
        else:
            yield body, _of_mesh(body.name, body.look, body.mesh, stiff=isinstance(body, Rigid))


def _of_mesh(name: str, look: Look | Checker, mesh: TriMesh, *, stiff: bool) -> Surface:
    return Surface(name, look, mesh.vertices, mesh.faces, mesh.key, stiff, mesh.uv)


def _of_pendulum(body: AnyPendulum, look: Look) -> Surface:
    """Rods and bobs hanging straight down, on rods of 1 m."""
    bones = skeleton(body)
    down = np.array([0.0, -1.0, 0.0]) * (bones.link + bones.along)[:, None]
    return Surface(body.name, look, bones.offsets + down, bones.faces, (type(body), body.bob, body.rod))


def _tiles(look: Checker) -> TriMesh:
    return _grid(look.tile_count * look.tile, look.tile_count)


_grid = functools.lru_cache(maxsize=32)(functools.partial(grid, alternate=False))


def pose_of(thing: Any, trajectory: Trajectory, part: Part, batcher: Batcher) -> Pose:
    """Where a thing's drawn vertices are at all frames."""
    if isinstance(thing, Ground):
        axes, origin = _plane(thing, batcher)
        return Pose(part.rest[None, None], False, axes, origin)
    if not hasattr(thing, "name"):
        return Pose(part.rest[None, None], False)
    motion = trajectory[thing.name]
    _check_count(thing, motion)
    if isinstance(motion, RigidMotion) and not motion.points.requires_grad:
        points, place = _chosen(motion.points, part), motion.center_of_mass
        if motion.center.numel() == 3:
            points = points - motion.center.reshape(3)
        else:  # not all worlds have the points at one place about it
            place = motion.position
        rotation = batcher.per_world(motion.rotation, tuple(motion.rotation.shape[-2:]))
        return Pose(points[None, None], False, axes_of(rotation), batcher.per_world(place, tuple(place.shape[-2:])))
    x = bar_vertices(thing, motion.vertices) if isinstance(thing, Springs) else motion.vertices
    x = _chosen(x, part)
    return Pose(batcher.per_world(x, tuple(x.shape[-3:])), True)


def _check_count(body: Any, motion: Any) -> None:
    """Raise where a trajectory is of another body of that name."""
    found = (motion.points if isinstance(motion, RigidMotion) else motion.vertices).shape[-2]
    if hasattr(body, "mesh"):
        needed = len(body.mesh.vertices)
    else:
        needed = node_count(body) if isinstance(body, Springs) else len(skeleton(body).offsets)
    if found != needed:
        remedy = f"the scene's {body.name!r} has {needed}: render the scene that was simulated"
        raise WrongShape("trajectory", f"{body.name!r} with {found} vertices", remedy)


def _chosen(x: torch.Tensor, part: Part) -> torch.Tensor:
    return x if part.chosen is None else x.index_select(-2, part.chosen)


def _plane(ground: Ground, batcher: Batcher) -> tuple[torch.Tensor, torch.Tensor]:
    """Axes of a plane as rows, the second its normal, [1 or W, 1, 3, 3], and its point closest to the origin."""
    normal = batcher.per_world(ground.normal, (3,))
    normal = normal / normal.norm(dim=-1, keepdim=True)
    across, along = torch.eye(3, dtype=batcher.dtype, device=batcher.device)[[0, 2]]
    steep = normal.detach()[:, :1].abs() > 0.9  # so that x lies almost across the plane
    guide = torch.where(steep, along, across)
    first = guide - (guide * normal).sum(-1, keepdim=True) * normal
    first = first / first.norm(dim=-1, keepdim=True)
    axes = torch.stack([first, normal, torch.linalg.cross(first, normal)], -2)
    return axes[:, None], (batcher.per_world(ground.offset)[:, None] * normal)[:, None]

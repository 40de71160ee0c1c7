"""Surfaces of bodies, static shapes and the ground, and their poses at the frames of a trajectory."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from gradsim.render.batched import affine, broadcast_leading
from gradsim.render.shape_surface import plane_path, shape_vertices
from gradsim.render.spring_surface import spring_mesh, spring_vertices
from gradsim.render.topology import Surface, SurfaceTopology
from gradsim.scene import ball
from gradsim.scene.articulated import Articulated
from gradsim.scene.articulated_motion import ArticulatedMotion
from gradsim.scene.ball import Ball
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
from gradsim.scene.shapes import has_fixed_mesh, shape_mesh
from gradsim.scene.smoke import Smoke
from gradsim.scene.trajectory import RigidMotion, Trajectory

ICOSPHERE_ANGLE = 46.5  # bound of the angle of neighbouring faces [degrees]; each subdivision halves it
DEFAULT_SUBDIVISIONS = 3  # of `gs.meshes.icosphere`


@dataclass(frozen=True, eq=False)
class Pose:
    """Vertices of a surface at all frames. A rigid surface has points in its body frame, and the motion of that."""

    points: torch.Tensor  # rendered vertices [m], [1 or W, 1 or T, V, 3]; [1, 1, V, 3] in a body frame
    deforms: bool
    axes: torch.Tensor | None = None  # axes of the body frame in the world as rows, [1 or W, 1 or T, 3, 3]
    origin: torch.Tensor | None = None  # of the body frame [m], [1 or W, 1 or T, 3]

    @cached_property
    def vertices(self) -> torch.Tensor:
        """Vertices in the world [m], [1 or W, 1 or T, V, 3]."""
        if self.axes is None or self.origin is None:
            return self.points
        return _transformed(self.points[0, 0], self.axes, self.origin)

    def project(self, matrix: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        """Returns the vertices as matrix [1 or W, 3, 3] @ x + offset [1 or W, 3], [1 or W, 1 or T, V, 3]."""
        if self.axes is None or self.origin is None:
            return affine(self.points, matrix.mT, offset)
        turn = matrix[:, None].mT
        origin = (self.origin[..., None, :] @ turn)[..., 0, :] + offset[:, None]
        return _transformed(self.points[0, 0], self.axes @ turn, origin)


def _transformed(points: torch.Tensor, axes: torch.Tensor, origin: torch.Tensor) -> torch.Tensor:
    """points [V, 3] @ axes [1 or W, 1 or T, 3, 3] + origin [1 or W, 1 or T, 3], in one batched product."""
    lead = broadcast_leading(axes.shape[:2], origin.shape[:2])
    axes, origin = axes.expand(*lead, 3, 3).reshape(-1, 3, 3), origin.expand(*lead, 3).reshape(-1, 1, 3)
    return torch.baddbmm(origin, points.expand(len(axes), -1, -1), axes).view(*lead, -1, 3)


def visible_surfaces(scene: Scene) -> Iterator[tuple[Any, Surface]]:
    """Yields every body and static shape that has a look, with its surface."""
    for name, shape in scene.obstacles.items():
        if shape.look is not None:
            mesh = _ground_mesh(shape.look) if isinstance(shape, Ground) else shape_mesh(shape)
            yield shape, _mesh_surface(name, shape.look, mesh, stiff=True)
    for body in scene.bodies:
        if isinstance(body, Articulated):
            yield from _link_surfaces(body)
        if isinstance(body, Smoke) or body.look is None:
            continue
        if isinstance(body, (Pendulum, DoublePendulum)):
            yield body, _pendulum_surface(body, body.look)
        elif isinstance(body, Springs):
            yield body, Surface(body.name, body.look, *spring_mesh(body))
        elif isinstance(body, Soft):
            yield body, Surface(body.name, body.look, body.mesh.vertices, body.mesh.surface, body.mesh.key)
        else:
            mesh = getattr(body, "mesh")  # noqa: B009
            yield body, _mesh_surface(body.name, body.look, mesh, stiff=isinstance(body, Rigid))


class VisibleLink(NamedTuple):
    """A link of an articulated body that is drawn."""

    name: str  # of the body
    link: str


def _link_surfaces(body: Articulated) -> Iterator[tuple[VisibleLink, Surface]]:
    for name, link in body.links.items():
        if link.mesh is not None and link.look is not None:
            yield (
                VisibleLink(body.name, name),
                _mesh_surface(f"{body.name}.links.{name}", link.look, link.mesh, stiff=True),
            )


def _link_pose(visible: VisibleLink, motion: ArticulatedMotion, topology: SurfaceTopology, batcher: Batcher) -> Pose:
    link, points = motion.link(visible.link), motion.meshes[visible.link]
    rotation, origin = (batcher.per_world(x, tuple(x.shape[-2:])) for x in (link.rotation, link.position))
    return Pose(_rendered(points, topology)[None, None], False, axes_of(rotation), origin)


def _mesh_surface(name: str, look: Look | Checker, mesh: TriMesh, *, stiff: bool) -> Surface:
    return Surface(name, look, mesh.vertices, mesh.faces, mesh.key, stiff, mesh.uv)


def _pendulum_surface(body: AnyPendulum, look: Look) -> Surface:
    """Rods and bobs, hanging straight down from rods of length 1 m."""
    bones = skeleton(body)
    down = np.array([0.0, -1.0, 0.0]) * (bones.link + bones.along)[:, None]
    return Surface(body.name, look, bones.offsets + down, bones.faces, (type(body), body.bob, body.rod))


def _ground_mesh(look: Checker) -> TriMesh:
    return _grid(look.tile_count * look.tile, look.tile_count)


_grid = functools.lru_cache(maxsize=32)(functools.partial(grid, alternate=False))


def surface_pose(scene_object: Any, trajectory: Trajectory, topology: SurfaceTopology, batcher: Batcher) -> Pose:
    """Returns the pose of a surface at all frames.

    Args:
        scene_object: The body or static shape it belongs to.
        trajectory: Motions of all bodies.
        topology: The surface's topology.
        batcher: The batch.
    """
    if isinstance(scene_object, Ground):
        axes, origin = _ground_frame(scene_object, batcher)
        if scene_object.motion is not None:
            shift = plane_path(scene_object, trajectory, batcher)
            normal = axes[:, :, 1]
            origin = origin + (shift * normal).sum(-1, keepdim=True) * normal
        return Pose(topology.rest_vertices[None, None], False, axes, origin)
    if not hasattr(scene_object, "name"):
        if has_fixed_mesh(scene_object):
            return Pose(topology.rest_vertices[None, None], False)
        return Pose(shape_vertices(scene_object, topology.rest_vertices, trajectory, batcher), True)
    motion = trajectory[scene_object.name]
    if isinstance(scene_object, VisibleLink):
        return _link_pose(scene_object, motion, topology, batcher)
    _check_count(scene_object, motion)
    if isinstance(motion, RigidMotion) and (motion.scale is None or isinstance(scene_object, Ball)):
        if isinstance(scene_object, Rigid) and _is_smooth_sphere(scene_object):
            motion = _unrotated(motion)
        motion = _with_scaled_points(motion)
        if motion.scale is None and not motion.points.requires_grad:
            return _rigid_pose(motion, topology, batcher)
    x = spring_vertices(scene_object, motion.vertices) if isinstance(scene_object, Springs) else motion.vertices
    x = _rendered(x, topology)
    return Pose(batcher.per_world(x, tuple(x.shape[-3:])), True)


def _rigid_pose(motion: RigidMotion, topology: SurfaceTopology, batcher: Batcher) -> Pose:
    points, origin = _rendered(motion.points, topology), motion.center_of_mass
    if motion.center.numel() == 3:
        points = points - motion.center.reshape(3)
    else:  # worlds differ in the centre of mass, so points relative to it would differ too
        origin = motion.position
    rotation = batcher.per_world(motion.rotation, tuple(motion.rotation.shape[-2:]))
    return Pose(points[None, None], False, axes_of(rotation), batcher.per_world(origin, tuple(origin.shape[-2:])))


def _is_smooth_sphere(body: Rigid) -> bool:
    """Whether a body is a sphere of one colour that is shaded smoothly, so that its rotation is invisible."""
    subdivisions, look = _icosphere_subdivisions(body), body.look
    if subdivisions is None or not isinstance(look, Look):
        return False
    patterned = any(getattr(look, name) is not None for name in ("vertex_colors", "face_colors", "texture"))
    return not patterned and look.smooth > ICOSPHERE_ANGLE / 2**subdivisions


def _icosphere_subdivisions(body: Rigid) -> int | None:
    """Returns the subdivisions of the icosphere that is a body's surface; None if it is another surface."""
    if isinstance(body, Ball):
        return ball.SUBDIVISIONS
    call = body.mesh.builder_call
    if call is None or call.builder != "icosphere":
        return None
    return int(call.arguments.get("subdivisions", DEFAULT_SUBDIVISIONS))


def _unrotated(motion: RigidMotion) -> RigidMotion:
    """Returns the motion of a sphere whose facets keep their directions: they approximate a surface without any."""
    still = torch.zeros_like(motion.rotation)
    still[..., 3] = 1.0
    column = motion.column.clone()
    column[..., 4:7] = 0.0
    return replace(motion, center_of_mass=motion.position, rotation=still, column=column)


def _with_scaled_points(motion: RigidMotion) -> RigidMotion:
    """Returns the motion of a ball with points in body coordinates if its radius is one number without gradient."""
    if motion.scale is None or motion.scale.numel() > 3 or motion.scale.requires_grad:
        return motion
    return replace(motion, points=motion.points * motion.scale.reshape(3), column=motion.column[..., :13])


def _check_count(body: Any, motion: Any) -> None:
    """Raises if a trajectory belongs to another body of that name."""
    found = (motion.points if isinstance(motion, RigidMotion) else motion.vertices).shape[-2]
    if hasattr(body, "mesh"):
        needed = len(body.mesh.vertices)
    else:
        needed = node_count(body) if isinstance(body, Springs) else len(skeleton(body).offsets)
    if found != needed:
        remedy = f"the scene's {body.name!r} has {needed}: render the scene that was simulated"
        raise WrongShape("trajectory", f"{body.name!r} with {found} vertices", remedy)


def _rendered(x: torch.Tensor, topology: SurfaceTopology) -> torch.Tensor:
    return x if topology.vertex_ids is None else x.index_select(-2, topology.vertex_ids)


def _ground_frame(ground: Ground, batcher: Batcher) -> tuple[torch.Tensor, torch.Tensor]:
    """Axes of the plane as rows, the second its normal, [1 or W, 1, 3, 3], and its point closest to the origin."""
    normal = batcher.per_world(ground.normal, (3,))
    normal = normal / normal.norm(dim=-1, keepdim=True)
    x_axis, z_axis = torch.eye(3, dtype=batcher.dtype, device=batcher.device)[[0, 2]]
    steep = normal.detach()[:, :1].abs() > 0.9  # the x axis is almost normal to the plane
    reference = torch.where(steep, z_axis, x_axis)
    first = reference - (reference * normal).sum(-1, keepdim=True) * normal
    first = first / first.norm(dim=-1, keepdim=True)
    axes = torch.stack([first, normal, torch.linalg.cross(first, normal)], -2)
    return axes[:, None], (batcher.per_world(ground.offset)[:, None] * normal)[:, None]

"""Moving surfaces of a scene as arrays, for everything that draws them in three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.render.shading import look_colors, texture_coordinates
from gradsim.render.surfaces import Pose, surface_pose, visible_surfaces
from gradsim.render.topology import Surface, SurfaceTopology, scene_topology
from gradsim.render.view import common_batcher
from gradsim.scene.batcher import Batcher
from gradsim.scene.errors import InvalidInput, OutOfRange
from gradsim.scene.looks import Checker
from gradsim.scene.quantity import unwrap
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

CHECKER_FACES = np.array([[0, 1, 2], [0, 2, 3]])
TEXELS = 32  # along an edge of a tile, so that interpolation between texels leaves its edges sharp
CHECKER_CORNERS = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])  # (x, z), counterclockwise seen from +y


@dataclass(frozen=True, eq=False)
class MovingSurface:
    """One surface at all frames of one world.

    Faces index rows. Rows are vertices that are split where normals, colours or texture coordinates differ between
    faces, as graphics hardware requires.
    """

    name: str
    points: np.ndarray  # vertices [m]: [V, 3] in the body frame if `axes` is given, otherwise [1 or T, V, 3]
    vertices: np.ndarray  # vertex of each row, [R] int
    faces: np.ndarray  # [F, 3] int
    colors: np.ndarray  # of the rows, [R, 3], from 0 to 1
    lit: bool  # whether lights affect it
    static: bool  # part of the surroundings: the ground or a static shape
    axes: np.ndarray | None = None  # axes of the body frame in the world as rows, [1 or T, 3, 3]
    origin: np.ndarray | None = None  # of the body frame [m], [1 or T, 3]
    uv: np.ndarray | None = None  # texture coordinates of the rows, (0, 0) at the lower left, [R, 2]
    texture: np.ndarray | None = None  # [h, w, 3], from 0 to 1, top row first

    def frame(self, number: int) -> np.ndarray:
        """Returns the vertices in the world at a frame [m], [V, 3]."""
        if self.axes is None or self.origin is None:
            return self.points[min(number, len(self.points) - 1)]
        axes, origin = (array[min(number, len(array) - 1)] for array in (self.axes, self.origin))
        return self.points @ axes + origin

    @property
    def centers(self) -> np.ndarray:
        """Centre of the surface at the frames [m], [1 or T, 3]; of a rigid body the origin of its frame."""
        return self.points.mean(1) if self.origin is None else self.origin


@torch.no_grad()
def moving_surfaces(scene: Scene, trajectory: Trajectory, world: int = 0) -> list[MovingSurface]:
    """Returns all visible surfaces of a scene at the frames of a trajectory.

    Args:
        scene: The scene that was simulated, without unknowns.
        trajectory: Motions of its bodies.
        world: World of the batch, by its number in the flattened batch.
    """
    batcher = common_batcher(scene, trajectory)
    if not 0 <= world < batcher.world_count:
        raise OutOfRange("world", world, f"the batch has {batcher.world_count} worlds, counted from 0")
    return [_moving_surface(owner, surface, trajectory, batcher, world) for owner, surface in visible_surfaces(scene)]


def frame_times(trajectory: Trajectory) -> np.ndarray:
    """Returns the times of the frames in the first world [s], [T]."""
    return trajectory.time.reshape(-1, len(trajectory))[0].detach().cpu().numpy()


def check_visible(surfaces: Sequence[MovingSurface]) -> None:
    """Raises InvalidInput if there is nothing to draw."""
    if not surfaces:
        remedy = "give a body a gs.Look(), or the ground a gs.Checker()"
        raise InvalidInput("scene.bodies", "no visible surface", remedy)


def _moving_surface(
    owner: Any, surface: Surface, trajectory: Trajectory, batcher: Batcher, world: int
) -> MovingSurface:
    topology = scene_topology([surface], True, batcher.dtype, batcher.device)
    own, look = topology.surfaces[0], surface.look
    pose = surface_pose(owner, trajectory, own, batcher)
    colors = _array(look_colors(look, batcher), world)
    motion = _motion(pose, world)
    common = {"name": surface.name, "lit": look.lit, "static": not hasattr(owner, "name"), **motion}
    if isinstance(look, Checker):
        return MovingSurface(**{**common, **_checkerboard(look, colors)})
    corners = topology.connectivity.corners.numpy()
    faces = topology.connectivity.faces.numpy()
    if own.has_back_faces:  # the second half is the same faces seen from behind
        corners, faces = corners[: len(corners) // 2], faces[: len(faces) // 2]
    pairs = np.stack([faces.ravel(), corners.ravel()], 1)
    rows, number = np.unique(pairs, axis=0, return_inverse=True)
    common |= {"vertices": rows[:, 0], "faces": number.reshape(-1, 3)}
    common["colors"] = colors[own.row_colors.numpy()[rows[:, 1]]]
    if look.texture is not None:
        common |= _texture(look.texture, own, look, batcher, rows[:, 1])
    return MovingSurface(**common)


def _motion(pose: Pose, world: int) -> dict[str, Any]:
    if pose.axes is None or pose.origin is None:
        return {"points": _array(pose.points, world)}
    return {
        "points": _array(pose.points, world)[0],
        "axes": _array(pose.axes, world),
        "origin": _array(pose.origin, world),
    }


def _array(tensor: torch.Tensor, world: int) -> np.ndarray:
    """Returns one world of a tensor [1 or W, ...]."""
    return tensor[min(world, len(tensor) - 1)].detach().cpu().numpy()


def _checkerboard(look: Checker, colors: np.ndarray) -> dict[str, Any]:
    """A rectangle with a texture of two times two tiles, which repeats: far smaller than two triangles a tile."""
    half = look.tile_count * look.tile / 2
    flat = (CHECKER_CORNERS * 2.0 - 1.0) * half
    points = np.stack([flat[:, 0], np.zeros(4), flat[:, 1]], 1)
    uv = CHECKER_CORNERS * (look.tile_count / 2)
    tiles = colors[[[1, 0], [0, 1]]]  # top row first: the lower left tile has the first colour
    return {
        "points": points,
        "vertices": np.arange(4),
        "faces": CHECKER_FACES,
        "colors": np.ones((4, 3)),
        "uv": uv,
        "texture": tiles.repeat(TEXELS, 0).repeat(TEXELS, 1),
    }


def _texture(texture: Any, own: SurfaceTopology, look: Any, batcher: Batcher, rows: np.ndarray) -> dict[str, Any]:
    image = unwrap(texture)
    pixels = image.detach().cpu().numpy() if isinstance(image, torch.Tensor) else np.asarray(image)
    uv = texture_coordinates(own, look, batcher)[0, 0].detach().cpu().numpy()
    return {"texture": np.clip(pixels, 0.0, 1.0), "uv": uv[rows]}

"""render(): from a scene and its trajectory to a video, differentiable from the pixels back."""

from __future__ import annotations

from typing import Any, Literal, overload

import torch

from gradsim.render.dibr import DIBR
from gradsim.render.exact import Exact
from gradsim.render.mitsuba import Mitsuba
from gradsim.render.raster import Rasterizer, rasterize
from gradsim.render.softras import SoftRas
from gradsim.render.triangles import Triangles
from gradsim.render.view import Frames, triangles
from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import WrongType
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

RENDERERS = (Exact, SoftRas, DIBR, Mitsuba)


@overload
def render(
    scene: Scene,
    trajectory: Trajectory,
    size: tuple[int, int],
    renderer: Rasterizer | Mitsuba = ...,
    frames: Frames = ...,
    *,
    alpha: bool = ...,
    depth: Literal[False] = ...,
) -> torch.Tensor: ...
@overload
def render(
    scene: Scene,
    trajectory: Trajectory,
    size: tuple[int, int],
    renderer: Rasterizer | Mitsuba = ...,
    frames: Frames = ...,
    *,
    alpha: bool = ...,
    depth: Literal[True],
) -> tuple[torch.Tensor, torch.Tensor]: ...
def render(
    scene: Scene,
    trajectory: Trajectory,
    size: tuple[int, int],
    renderer: Rasterizer | Mitsuba = Exact(),
    frames: Frames = None,
    *,
    alpha: bool = False,
    depth: bool = False,
) -> Any:
    """Look at a trajectory through the scene's camera.

    Gradients flow to everything the video is made of: the trajectory and thus the physics, camera, lights, looks and
    background. Values are linear and not clamped; with colours in [0, 1] and the default lights they stay within
    [0, 1] but for highlights. Threads: `torch.set_num_threads`; the result does not depend on their number.

    Smoke is not drawn: its density is an image already.

    Args:
        scene: What there is, with a camera. Batch dimensions of camera, lights, looks and background broadcast with
            those of the trajectory.
        trajectory: How it moves.
        size: Height and width of the images [px].
        renderer: `Exact()`, `SoftRas()`, `DIBR()`, or `Mitsuba()` for pictures without gradient.
        frames: Which frames: a slice or a list of numbers; all if None.
        alpha: Whether to add the coverage as a fourth channel.
        depth: Whether to return the depth as well.

    Returns:
        The video, [..., T, H, W, 3], or [..., T, H, W, 4] with `alpha`. With `depth` a pair of it and the depth along
        the optical axis [m], [..., T, H, W], averaged over what covers a pixel, infinite where nothing does.
    """
    if not isinstance(renderer, RENDERERS):
        names = ", ".join(f"gs.{kind.__name__}()" for kind in RENDERERS)
        raise WrongType("renderer", repr(renderer), f"must be one of {names}")
    size = checked_pixels("size", size)
    if isinstance(renderer, Mitsuba):
        return renderer.render(scene, trajectory, size, frames, alpha=alpha, depth=depth)
    seen, shape = triangles(scene, trajectory, size, frames)
    video = rasterize(renderer, seen, size, alpha=alpha).unflatten(0, shape)
    return (video, _depth(renderer, seen, size).unflatten(0, shape)) if depth else video


def _depth(renderer: Rasterizer, seen: Triangles, size: tuple[int, int]) -> torch.Tensor:
    """The depth [B, H, W]: an image of triangles whose colour is their depth, over a black background."""
    connectivity = seen.connectivity
    bare = connectivity.painted_by_vertex
    depths = seen.vertices[..., 2:].expand(-1, -1, 3)
    black = seen.background.new_zeros(1, 1, 1, 3)
    image = rasterize(renderer, Triangles(bare, seen.vertices, depths, None, black, seen.near), size, alpha=True)
    value, coverage = image[..., 0], image[..., 3]
    empty = coverage <= 0
    return torch.where(empty, torch.inf, value / torch.where(empty, 1.0, coverage))

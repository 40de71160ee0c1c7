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
from gradsim.scene.errors import OutOfRange, WrongType
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
    if isinstance(renderer, SoftRas) and not renderer.far > seen.near:
        raise OutOfRange("SoftRas.far", renderer.far, f"must lie behind the camera's near plane at {seen.near:g} m")
    video = rasterize(renderer, seen, size, alpha=alpha).unflatten(0, shape)
    return (video, _depth(renderer, seen, size).unflatten(0, shape)) if depth else video


def _depth(renderer: Rasterizer, seen: Triangles, size: tuple[int, int]) -> torch.Tensor:
    """The depth [B, H, W]: a picture of triangles in the colours depth and one, before black, and the ratio of both."""
    depths = torch.nn.functional.pad(seen.vertices[..., 2:], (0, 1), value=1.0)
    colors = torch.nn.functional.pad(depths, (0, 1))
    black = seen.background.new_zeros(1, 1, 1, 3)
    plain = Triangles(seen.connectivity.painted_by_vertex, seen.vertices, colors, None, black, seen.near)
    depth, share, _ = rasterize(renderer, plain, size, alpha=False).unbind(-1)
    empty = share <= torch.finfo(share.dtype).eps
    return torch.where(empty, torch.inf, depth / torch.where(empty, 1.0, share))

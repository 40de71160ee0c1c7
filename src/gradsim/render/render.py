"""render(): the video of a scene and its trajectory, differentiable."""

from __future__ import annotations

from typing import Any, Literal, overload

import torch

from gradsim.render.exact import Exact
from gradsim.render.renderer import Frames, Renderer
from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import WrongType
from gradsim.scene.scene import Scene
from gradsim.scene.tensors import with_plain_tensors
from gradsim.scene.trajectory import Trajectory
from gradsim.scene.transforms import BatchedTensor, are_transforms_active


@overload
def render(
    scene: Scene,
    trajectory: Trajectory,
    size: tuple[int, int],
    renderer: Renderer = ...,
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
    renderer: Renderer = ...,
    frames: Frames = ...,
    *,
    alpha: bool = ...,
    depth: Literal[True],
) -> tuple[torch.Tensor, torch.Tensor]: ...
def render(
    scene: Scene,
    trajectory: Trajectory,
    size: tuple[int, int],
    renderer: Renderer = Exact(),
    frames: Frames = None,
    *,
    alpha: bool = False,
    depth: bool = False,
) -> Any:
    """Renders a trajectory through the scene's camera.

    The video is differentiable in everything it depends on: the trajectory, and through it the physics, and the camera,
    lights, looks and background. Values are linear and not clamped; with colours in [0, 1] and the default lights only
    highlights exceed [0, 1]. Rasterizers use `torch.get_num_threads()` threads; the result does not depend on their
    number. `torch.func.vmap`, `grad`, `vjp` and `jacrev` work; textures and their coordinates cannot be mapped over.

    Smoke is not rendered: its density is an image already.

    Example:
        `gs.render(scene, trajectory, size=(128, 128))`

    Args:
        scene: A scene with a camera. Batch dimensions of camera, lights, looks and background broadcast with those of
            the trajectory.
        trajectory: Motions of the scene's bodies.
        size: Height and width of the images [px].
        renderer: `Exact()`, `SoftRas()`, `DIBR()`, or `Mitsuba()` for path tracing without gradient.
        frames: Frames to render: a slice or a list of indices; all if None.
        alpha: Whether to add the coverage as a fourth channel.
        depth: Whether to return the depth as well.

    Returns:
        The video, [..., T, H, W, 3], or [..., T, H, W, 4] with `alpha`. With `depth` a pair of the video and the depth
        along the optical axis [m], [..., T, H, W], averaged over the covered part of a pixel, infinite where nothing
        covers it.

    Raises:
        InvalidInput: The scene has no camera or no visible surface, or does not fit the trajectory.
        UnsupportedDevice: A rasterizer is given a trajectory that is not on the CPU.
    """
    _check_renderer(renderer)
    _check_types(scene, trajectory, alpha=alpha, depth=depth)
    pixels = checked_pixels("size", size)
    if are_transforms_active():
        return _render_inside_transforms(scene, trajectory, pixels, renderer, frames, alpha=alpha, depth=depth)
    return renderer.render(scene, trajectory, pixels, frames, alpha=alpha, depth=depth)


def _render_inside_transforms(
    scene: Scene,
    trajectory: Trajectory,
    size: tuple[int, int],
    renderer: Renderer,
    frames: Frames,
    *,
    alpha: bool,
    depth: bool,
) -> Any:
    """As `render`, for tensors inside transforms of `torch.func`."""

    def tensors_of(result: Any) -> list[BatchedTensor]:
        video, *distances = result if depth else (result,)
        return [BatchedTensor("video", video, 4), *(BatchedTensor("depth", one, 3) for one in distances)]

    _, tensors = with_plain_tensors(
        lambda plain, motion: renderer.render(plain, motion, size, frames, alpha=alpha, depth=depth),
        scene,
        trajectory,
        (*scene.quantities(), *scene.view_quantities()),
        tensors_of,
    )
    return tensors if depth else tensors[0]


def _check_renderer(renderer: object) -> None:
    if not isinstance(renderer, Renderer):
        names = ", ".join(f"gs.{name}()" for name in Renderer.names())
        raise WrongType("renderer", repr(renderer), f"must be one of {names}")


def _check_types(scene: Any, trajectory: Any, **flags: Any) -> None:
    if not isinstance(scene, Scene) or not isinstance(trajectory, Trajectory):
        found = f"{type(scene).__name__} and {type(trajectory).__name__}"
        raise WrongType("scene, trajectory", found, "must be a gs.Scene and its gs.Trajectory")
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise WrongType(name, type(flag).__name__, "must be True or False")

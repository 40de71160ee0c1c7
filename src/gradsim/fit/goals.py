"""Goals of control: images or states to reach at given frames."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch

from gradsim.compare.distances import Distance
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.render.render import render
from gradsim.scene.arguments import checked_number
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate
from gradsim.scene.trajectory import Trajectory
from gradsim.video.video import Video

SILHOUETTE, COLOUR, COLOUR_AND_SILHOUETTE = 1, 3, 4  # number of channels


class Goal(Protocol):
    """A target for the motion of a scene."""

    @property
    def frames(self) -> Sequence[int]:
        """Frames at which the goal applies; negative ones count from the end."""

    def residuals(self, scene: Scene, trajectory: Trajectory, distance: Distance) -> torch.Tensor:
        """Returns residuals [..., N] of a motion; `distance` compares images."""


@dataclass(frozen=True, eq=False)
class GoalImage:
    """An image that the scene's camera is to record.

    Example:
        `gs.control(scene, gs.GoalImage(image, frames=[-1]), frames=30)`

    Args:
        image: One image [H, W, C] for all frames, or [n, H, W, C] with one per frame: a silhouette (C = 1), colours
            (3), or colours and silhouette (4). Of a `gs.Video`, the last n frames are used.
        frames: Indices of the n frames; negative ones count from the end.
        renderer: Renderer of the scene.
    """

    image: torch.Tensor | Video
    frames: Sequence[int] = (-1,)
    renderer: Rasterizer = field(default_factory=Exact)

    def __post_init__(self) -> None:
        object.__setattr__(self, "frames", _checked_frames("GoalImage.frames", self.frames))
        if not isinstance(self.renderer, Rasterizer):
            raise WrongType("GoalImage.renderer", abbreviate(self.renderer), "must be gs.Exact() or another rasterizer")
        image = self.image.frames[-len(self.frames) :] if isinstance(self.image, Video) else self.image
        if not isinstance(image, torch.Tensor) or not image.is_floating_point():
            raise WrongType("GoalImage.image", type(image).__name__, "must be a floating-point tensor [H, W, C]")
        if image.ndim not in (3, 4) or image.shape[-1] not in (SILHOUETTE, COLOUR, COLOUR_AND_SILHOUETTE):
            valid = "must be [H, W, C] or [n, H, W, C] with C = 1 (silhouette), 3 (colours) or 4 (both)"
            raise WrongShape("GoalImage.image", f"shape {tuple(image.shape)}", valid)
        images = image if image.ndim == 4 else image.expand(len(self.frames), *image.shape)
        if len(images) != len(self.frames):
            raise WrongShape("GoalImage.image", f"{len(images)} images", f"must be one per frame: {len(self.frames)}")
        if not bool(torch.isfinite(images).all()):
            raise InvalidInput("GoalImage.image", "NaN or infinite values", "must be finite")
        object.__setattr__(self, "image", images.detach())

    @property
    def size(self) -> tuple[int, int]:
        """Height and width [px]."""
        height, width = self.images.shape[1:3]
        return int(height), int(width)

    @property
    def images(self) -> torch.Tensor:
        """One image per frame, [n, H, W, C]."""
        assert isinstance(self.image, torch.Tensor)
        return self.image

    def render(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor:
        """Renders a motion at the frames and with the channels of the goal, [..., n, H, W, C]."""
        channels = self.images.shape[-1]
        indices = frame_indices(self.frames, len(trajectory))
        video = render(scene, trajectory, self.size, self.renderer, indices, alpha=channels != COLOUR)
        return video[..., 3:] if channels == SILHOUETTE else video

    def residuals(self, scene: Scene, trajectory: Trajectory, distance: Distance) -> torch.Tensor:
        """Returns residuals [..., N] of a motion; `distance` compares images."""
        rendered = self.render(scene, trajectory)
        return distance.residuals(rendered, self.images.to(rendered))


@dataclass(frozen=True, eq=False)
class GoalState:
    """Target values of the bodies' motions.

    Example:
        `gs.control(scene, gs.GoalState({"cube.position": (1.0, 0.5, 0.0)}), frames=30)`

    Args:
        values: Targets by body and attribute of its motion, such as `{"gear.vertices": [N, 3]}` or
            `{"gear.velocity": [3]}`; for all frames, or with a leading dimension of frames. NaN entries are ignored.
        frames: Indices of the frames; negative ones count from the end.
        weight: Weight of the mean squared difference.
    """

    values: Mapping[str, torch.Tensor]
    frames: Sequence[int] = (-1,)
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping) or not self.values:
            raise WrongType(
                "GoalState.values", abbreviate(self.values), "must be targets, {'cube.position': (1, 0, 0)}"
            )
        object.__setattr__(self, "values", {path: _checked_target(path, value) for path, value in self.values.items()})
        object.__setattr__(self, "frames", _checked_frames("GoalState.frames", self.frames))
        checked_number("GoalState.weight", self.weight, above=0.0)

    def residuals(self, scene: Scene, trajectory: Trajectory, distance: Distance) -> torch.Tensor:
        """Returns residuals whose sum of squares is the weighted mean squared difference; `distance` is not used."""
        indices = frame_indices(self.frames, len(trajectory))
        residuals = []
        for path, target in self.values.items():
            body, _, name = path.partition(".")
            motion = trajectory[body]
            value = getattr(motion, name, None)
            if not isinstance(value, torch.Tensor):
                raise InvalidInput("GoalState.values", path, f"the motion of {body!r} has no {name!r}")
            batch = batch_dims(trajectory)
            chosen = value[(slice(None),) * batch + (indices,)]
            if not _broadcasts(target.shape, chosen.shape[batch:]):
                valid = f"must fit {list(chosen.shape[batch:])}, or {list(chosen.shape[batch + 1 :])} for all frames"
                raise WrongShape("GoalState.values", f"{path} of shape {list(target.shape)}", valid)
            difference = chosen - target.to(value)
            given = torch.isfinite(target.to(value)).expand(difference.shape[batch:]).flatten()
            scale = math.sqrt(self.weight / max(1, int(given.sum())))
            residuals.append(difference.flatten(batch)[..., given] * scale)
        return torch.cat(residuals, -1)


def batch_dims(trajectory: Trajectory) -> int:
    """Returns the number of batch dimensions of a trajectory."""
    state = next(iter(trajectory.states.values()))
    return state.ndim - 3  # [..., T, count, width]


def _checked_target(path: Any, value: Any) -> torch.Tensor:
    """Returns a target as a tensor, of which some entries may be NaN."""
    name = f"GoalState.values[{path!r}]"
    try:
        target = value if isinstance(value, torch.Tensor) else torch.as_tensor(np.asarray(value, np.float64))
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise WrongType(name, abbreviate(value), "must be a tensor, or numbers") from None
    if not isinstance(path, str) or target.is_complex() or target.dtype == torch.bool:
        raise WrongType(name, abbreviate(value), "must be real numbers by path, {'cube.position': (1, 0, 0)}")
    target = target if target.is_floating_point() else target.double()
    if bool(torch.isinf(target).any()) or bool(torch.isnan(target).all()):
        raise InvalidInput(name, abbreviate(value), "must have finite numbers; NaN for those that are left free")
    return target


def _checked_frames(name: str, frames: Any) -> tuple[int, ...]:
    """Returns indices of frames."""
    try:
        found = tuple(operator.index(frame) for frame in frames)
    except TypeError:
        found = ()
    if not found:
        raise WrongType(name, abbreviate(frames), "must be whole numbers, such as [0, -1]")
    return found


def _broadcasts(given: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether an array of one shape can stand for one of another."""
    pairs = zip(reversed(given), reversed(wanted), strict=False)
    return len(given) <= len(wanted) and all(a in (1, b) for a, b in pairs)


def frame_indices(frames: Sequence[int], count: int) -> list[int]:
    """Returns non-negative indices of frames, of `count` in total."""
    for frame in frames:
        if not -count <= frame < count:
            raise OutOfRange("frames", frame, f"must be >= {-count} and < {count}: there are {count} frames")
    return [frame % count for frame in frames]

"""Goals: a picture, or a state, to be reached at some frames."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from gradsim.compare.distances import Distance
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.render.render import render
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.video.video import Video

SILHOUETTE, COLOUR, BOTH = 1, 3, 4  # channels


class Goal(Protocol):
    """Something to be reached."""

    @property
    def frames(self) -> Sequence[int]: ...

    def residuals(self, scene: Scene, trajectory: Trajectory, distance: Distance) -> torch.Tensor:
        """How far a motion is from it, [..., N]."""


@dataclass(frozen=True, eq=False)
class GoalImage:
    """A picture that the scene's camera shall see.

    Args:
        image: [H, W, C] for all frames or [n, H, W, C], one for each: a silhouette (C = 1), colours (3), or colours and
            silhouette (4). A video's last pictures, if it is a `gs.Video`.
        frames: When; counted from the end if negative.
        renderer: How the scene is drawn.
    """

    image: torch.Tensor | Video
    frames: Sequence[int] = (-1,)
    renderer: Rasterizer = field(default_factory=Exact)

    def __post_init__(self) -> None:
        image = self.image.frames[-len(self.frames) :] if isinstance(self.image, Video) else self.image
        if not isinstance(image, torch.Tensor) or not image.is_floating_point():
            raise WrongType("GoalImage.image", type(image).__name__, "must be a floating-point tensor [H, W, C]")
        if image.ndim not in (3, 4) or image.shape[-1] not in (SILHOUETTE, COLOUR, BOTH):
            valid = "must be [H, W, C] or [n, H, W, C] with C = 1 (silhouette), 3 (colours) or 4 (both)"
            raise WrongShape("GoalImage.image", f"shape {tuple(image.shape)}", valid)
        pictures = image if image.ndim == 4 else image.expand(len(self.frames), *image.shape)
        if len(pictures) != len(self.frames):
            raise WrongShape("GoalImage.image", f"{len(pictures)} pictures", f"there are {len(self.frames)} frames")
        if not bool(torch.isfinite(pictures).all()):
            raise InvalidInput("GoalImage.image", "NaN or infinite values", "all must be finite")
        object.__setattr__(self, "image", pictures.detach())

    @property
    def size(self) -> tuple[int, int]:
        """Height and width [px]."""
        height, width = self.pictures.shape[1:3]
        return int(height), int(width)

    @property
    def pictures(self) -> torch.Tensor:
        """[n, H, W, C]."""
        assert isinstance(self.image, torch.Tensor)
        return self.image

    def seen(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor:
        """The same of a motion, [..., n, H, W, C]."""
        channels = self.pictures.shape[-1]
        chosen = at_frames(self.frames, len(trajectory))
        video = render(scene, trajectory, self.size, self.renderer, chosen, alpha=channels != COLOUR)
        return video[..., 3:] if channels == SILHOUETTE else video

    def residuals(self, scene: Scene, trajectory: Trajectory, distance: Distance) -> torch.Tensor:
        seen = self.seen(scene, trajectory)
        return distance.residuals(seen, self.pictures.to(seen))


@dataclass(frozen=True, eq=False)
class GoalState:
    """Values that bodies' motions shall have.

    Args:
        values: By body and name of a tensor of its motion, such as `{"gear.vertices": [N, 3]}` or
            `{"gear.velocity": [3]}`; for all frames, or with a dimension of frames in front. NaN where any will do.
        frames: When; counted from the end if negative.
        weight: Of the mean squared differences, those that count.
    """

    values: Mapping[str, torch.Tensor]
    frames: Sequence[int] = (-1,)
    weight: float = 1.0

    def residuals(self, scene: Scene, trajectory: Trajectory, distance: Distance) -> torch.Tensor:
        """Their squares add up to the mean squared differences of the values; `distance` is for pictures."""
        chosen = at_frames(self.frames, len(trajectory))
        found = []
        for path, target in self.values.items():
            body, _, name = path.partition(".")
            motion = trajectory[body]
            value = getattr(motion, name, None)
            if not isinstance(value, torch.Tensor):
                raise InvalidInput("GoalState.values", path, f"the motion of {body!r} has no {name!r}")
            batch = trajectory_batch(trajectory)
            difference = value[(slice(None),) * batch + (chosen,)] - target.to(value)
            flat = difference.flatten(batch)
            asked = torch.isfinite(target.to(value)).expand(difference.shape[batch:]).flatten()
            found.append(flat[..., asked] * math.sqrt(self.weight / max(1, int(asked.sum()))))
        return torch.cat(found, -1)


def trajectory_batch(trajectory: Trajectory) -> int:
    """Batch dimensions of a trajectory."""
    state = next(iter(trajectory.states.values()))
    return state.ndim - 3  # [..., T, count, width]


def at_frames(frames: Sequence[int], count: int) -> list[int]:
    """Frames counted from the start."""
    for frame in frames:
        if not -count <= frame < count:
            raise OutOfRange("frames", frame, f"there are {count} frames")
    return [frame % count for frame in frames]

"""The image of a goal beside the reached state and their difference."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gradsim.fit.goals import COLOUR, SILHOUETTE, GoalImage, frame_indices
from gradsim.fit.plan import Plan
from gradsim.report.media import amplified, difference_gain, png_uri, side_by_side

MAX_FRAMES = 6  # of a goal that are shown


@dataclass(frozen=True)
class GoalPanels:
    """The panels of one frame, as a data URI."""

    labels: tuple[str, ...]
    caption: str
    uri: str
    height: int  # [px]
    width: int


def goal_images(goal: GoalImage, plan: Plan) -> list[GoalPanels]:
    """Returns a row of panels per frame of a goal; for goals of many frames, an evenly spaced subset."""
    with torch.no_grad():
        reached = goal.render(plan.scene, plan.trajectory)
    target = goal.images.to(reached)
    frames = frame_indices(goal.frames, plan.time.frames)
    difference = as_rgb(reached - target)
    gain = difference_gain(difference)
    images = side_by_side([as_rgb(target).clamp(0, 1), as_rgb(reached).clamp(0, 1), amplified(difference, gain)])
    height, width = images.shape[1:3]
    kind = "Silhouettes" if target.shape[-1] == SILHOUETTE else "Images"
    labels = ("goal", "reached", f"difference × {gain}")
    chosen = sorted({round(k * (len(frames) - 1) / (MAX_FRAMES - 1)) for k in range(MAX_FRAMES)})
    return [
        GoalPanels(
            labels,
            f"{kind} of {goal.size[0]} x {goal.size[1]} pixels at frame {frames[k]} of {plan.time.frames - 1}, "
            f"{frames[k] / plan.time.fps:.3g} s. In the difference, grey is zero.",
            png_uri(images[k]),
            height,
            width,
        )
        for k in chosen
    ]


def as_rgb(images: torch.Tensor) -> torch.Tensor:
    """Returns three channels: the colours, or a silhouette in grey."""
    return images.expand(*images.shape[:-1], 3) if images.shape[-1] == SILHOUETTE else images[..., :COLOUR]

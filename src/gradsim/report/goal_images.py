"""The picture of a goal beside what was reached, and the difference."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gradsim.fit.goals import COLOUR, SILHOUETTE, GoalImage, at_frames
from gradsim.fit.plan import Plan
from gradsim.report.media import beside, gain_of, png_uri, strengthened

MOST = 6  # frames of a goal that are shown


@dataclass(frozen=True)
class Shown:
    """Panels of one frame, as a data URI."""

    labels: tuple[str, ...]
    caption: str
    uri: str
    height: int  # [px]
    width: int


def goal_pictures(goal: GoalImage, plan: Plan) -> list[Shown]:
    """One row of panels for each frame of a goal; of many frames some, evenly spread."""
    with torch.no_grad():
        seen = goal.seen(plan.scene, plan.trajectory)
    wanted = goal.pictures.to(seen)
    frames = at_frames(goal.frames, plan.frames)
    left = _visible(seen - wanted)
    gain = gain_of(left)
    film = beside([_visible(wanted).clamp(0, 1), _visible(seen).clamp(0, 1), strengthened(left, gain)])
    height, width = film.shape[1:3]
    kind = "Silhouettes" if wanted.shape[-1] == SILHOUETTE else "Pictures"
    labels = ("goal", "reached", f"difference × {gain}")
    chosen = sorted({round(k * (len(frames) - 1) / (MOST - 1)) for k in range(MOST)})
    return [
        Shown(
            labels,
            f"{kind} of {goal.size[0]} x {goal.size[1]} pixels at frame {frames[k]} of {plan.frames - 1}, "
            f"{frames[k] / plan.rhythm.fps:.3g} s. Grey is no difference.",
            png_uri(film[k]),
            height,
            width,
        )
        for k in chosen
    ]


def _visible(pictures: torch.Tensor) -> torch.Tensor:
    """Three channels to look at: colours, or a silhouette in grey."""
    return pictures.expand(*pictures.shape[:-1], 3) if pictures.shape[-1] == SILHOUETTE else pictures[..., :COLOUR]

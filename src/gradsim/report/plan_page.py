"""write_plan(): a control as one page that stands on its own, beside its numbers, its video and its scene."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from gradsim.fit.goals import GoalImage
from gradsim.fit.plan import Plan
from gradsim.render.render import render
from gradsim.report import plan_sections as sections
from gradsim.report.html import repetition, scene_file, scene_text, write_page
from gradsim.video.save import save_video

SCENE, FILM = "plan.yaml", "reached.mp4"
HEIGHT = 256  # of the video, if nothing else is asked for [px]
CHUNK = 8  # frames that are rendered at once


def write_plan(
    plan: Plan,
    folder: str | os.PathLike[str],
    *,
    title: str = "Plan",
    source: str = "",
    watched: str = "watched",
    command: str = "",
    size: tuple[int, int] | None = None,
) -> Path:
    """Write report.html, plan.json, control.npz, plan.yaml and reached.mp4 into a folder, each whole or not at all.

    The page holds its pictures and the video itself and asks nothing of the network. Without a camera there is no
    video.

    Args:
        plan: What `gs.control` gave.
        folder: Made if it does not exist.
        title: Of the page.
        source: What was asked, in words.
        watched: What the plan watched, in words.
        command: How to do it again.
        size: Height and width of the video [px], even numbers; about 256 high and of the goal's shape if None.

    Returns:
        The page.
    """
    place = Path(folder)
    plan.save(place)
    film = _filmed(plan, place / FILM, size or _size(plan))
    text = scene_text(plan.scene, plan.time, place / SCENE)
    file = place / "report.html"
    write_page(
        file,
        kind="control",
        title=title,
        source=source,
        sections=[
            sections.verdict(plan, watched),
            sections.goals(plan),
            sections.film(plan, place / FILM, film),
            sections.way(plan, watched),
            sections.chosen(plan),
            scene_file("The scene, with the control in place", SCENE, text),
            repetition(
                command, SCENE, FILM, "The numbers of this page are in plan.json, the control itself in control.npz."
            ),
        ],
        footer=f"Found in {plan.seconds:.1f} s.",
    )
    return file


def _size(plan: Plan) -> tuple[int, int]:
    """That of the first goal's picture, some times as large, in even numbers."""
    height, width = next((goal.size for goal in plan.goals if isinstance(goal, GoalImage)), (HEIGHT, HEIGHT))
    times = max(1, round(HEIGHT / height))
    return times * height + times * height % 2, times * width + times * width % 2


def _filmed(plan: Plan, file: Path, size: tuple[int, int]) -> torch.Tensor | None:
    """A video of the best iterate; the last picture of it [H, W, 3]."""
    if plan.scene.camera is None:
        return None
    parts = []
    with torch.no_grad():
        for first in range(0, plan.time.frames, CHUNK):
            part = render(plan.scene, plan.trajectory, size, frames=slice(first, first + CHUNK))
            parts.append(part.float())
    frames = torch.cat(parts).clamp(0, 1)
    save_video(file, frames, plan.time.fps)
    return frames[-1]

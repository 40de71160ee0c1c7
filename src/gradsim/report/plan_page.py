"""`write_plan`: a control as a self-contained HTML page, beside its numbers, its video and its scene."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from gradsim.fit.goals import GoalImage
from gradsim.fit.plan import Plan
from gradsim.render.render import render
from gradsim.report import plan_sections as sections
from gradsim.report.html import reproduction_section, save_scene, scene_section, write_page
from gradsim.scene.arguments import checked_path
from gradsim.video.save import save_video

SCENE, VIDEO = "plan.yaml", "reached.mp4"
HEIGHT = 256  # approximate default height of the video [px]
CHUNK = 8  # frames rendered at once


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
    """Writes report.html, plan.json, control.npz, plan.yaml and reached.mp4 into a folder, each atomically.

    The page embeds its images, plots, video and the motion in 3D, and makes no network requests. The video requires a
    camera in the scene.

    Example:
        `gs.write_plan(plan, "out")`

    Args:
        plan: Result of `gs.control`.
        folder: Created if it does not exist.
        title: Title of the page.
        source: Description of the goal.
        watched: Name of the plan's metric.
        command: Shell command that repeats the search.
        size: Height and width of the video [px], even numbers; by default the aspect ratio of the goal and about 256
            pixels high.

    Returns:
        Path of the page.
    """
    place = checked_path("folder", folder)
    plan.save(place)
    last_frame = _save_video(plan, place / VIDEO, size or _default_size(plan))
    text = save_scene(plan.scene, plan.time, place / SCENE)
    file = place / "report.html"
    note = "The numbers of this page are in plan.json, the control itself is in control.npz."
    write_page(
        file,
        kind="control",
        title=title,
        source=source,
        sections=[
            sections.verdict(plan, watched),
            sections.goals(plan),
            sections.motion(plan, place / VIDEO, last_frame),
            sections.motion_3d(plan),
            sections.convergence(plan, watched),
            sections.control(plan),
            scene_section("Scene with the control", SCENE, text),
            reproduction_section(command, SCENE, VIDEO, note),
        ],
        footer=f"Computed in {plan.seconds:.1f} s.",
    )
    return file


def _default_size(plan: Plan) -> tuple[int, int]:
    """Returns a multiple of the size of the first goal image, in even numbers [px]."""
    height, width = next((goal.size for goal in plan.goals if isinstance(goal, GoalImage)), (HEIGHT, HEIGHT))
    factor = max(1, round(HEIGHT / height))
    return factor * height + factor * height % 2, factor * width + factor * width % 2


def _save_video(plan: Plan, file: Path, size: tuple[int, int]) -> torch.Tensor | None:
    """Renders the best iterate to a video file. Returns its last frame [H, W, 3], or None without a camera."""
    if plan.scene.camera is None:
        return None
    chunks = []
    with torch.no_grad():
        for first in range(0, plan.time.frames, CHUNK):
            chunk = render(plan.scene, plan.trajectory, size, frames=slice(first, first + CHUNK))
            chunks.append(chunk.float())
    frames = torch.cat(chunks).clamp(0, 1)
    save_video(file, frames, plan.time.fps)
    return frames[-1]

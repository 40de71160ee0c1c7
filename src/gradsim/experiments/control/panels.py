"""Pictures of a search, small enough for the rows of a table: its start, its last iterate, and the goal."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO

import numpy as np
import torch

from gradsim.experiments.control.task import Method, Task
from gradsim.fit.goals import GoalImage
from gradsim.fit.plan import Plan
from gradsim.render.render import render
from gradsim.report.goal_images import as_rgb
from gradsim.report.media import side_by_side
from gradsim.video.decode import decode_frames
from gradsim.video.encoders import png_bytes, to_bytes

LABELS = ("start", "reached", "goal")


def encoded_panels(task: Task, plan: Plan) -> list[str]:
    """Returns the first and the last frame of the last iterate, and the goal, as PNG in base64."""
    goal = next(goal for goal in task.goals[Method.IMAGE] if isinstance(goal, GoalImage))
    with torch.no_grad():
        frames = render(plan.last.scene, plan.last.trajectory, goal.size, frames=[0, -1])
    images = [*frames, as_rgb(goal.images[-1])]
    return [base64.b64encode(png_bytes(to_bytes(image.clamp(0, 1)))).decode() for image in images]


def joined_panels(panels: Sequence[str]) -> torch.Tensor:
    """Returns the panels of a row side by side, [H, W, 3] in [0, 1]."""
    return side_by_side([_decoded(panel)[None] for panel in panels])[0]


def _decoded(panel: str) -> torch.Tensor:
    (image,) = decode_frames(BytesIO(base64.b64decode(panel)), range(1))
    return torch.from_numpy(np.array(image)).float() / 255.0

"""The sections of the report of a control, as HTML."""

from __future__ import annotations

from html import escape
from pathlib import Path

import torch

from gradsim.compare.distances import Cumulative
from gradsim.fit.goals import GoalImage, GoalState
from gradsim.fit.plan import Plan
from gradsim.report.goal_images import goal_images
from gradsim.report.html import (
    chart_grid,
    image_element,
    number_cell,
    panel_figure,
    player_section,
    section,
    table_head,
    verdict_box,
    video_element,
)
from gradsim.report.media import file_uri, png_uri
from gradsim.report.plan_charts import loss_chart, signal_charts, watched_chart
from gradsim.report.summary_text import plan_summary

MAX_NUMBERS = 12  # of a value that are listed one by one


def verdict(plan: Plan, watched: str) -> str:
    """How close the control comes to the goal."""
    return verdict_box(*plan_summary(plan, watched))


def goals(plan: Plan) -> str:
    """Goal, reached state and difference at the frames of the goal."""
    parts = []
    for goal in plan.goals:
        if isinstance(goal, GoalImage):
            for panels in goal_images(goal, plan):
                image = image_element(panels.uri, panels.height, panels.width, ", ".join(panels.labels))
                parts.append(panel_figure(panels.labels, image, panels.caption))
        elif isinstance(goal, GoalState):
            parts.append(f"<p>{escape(_state_text(goal, plan))}</p>")
    return section("Goal and result", "".join(parts)) if parts else ""


def _state_text(goal: GoalState, plan: Plan) -> str:
    with torch.no_grad():
        square = goal.residuals(plan.scene, plan.trajectory, Cumulative()).square().sum() / goal.weight
    frames = "frame" if len(goal.frames) == 1 else "frames"
    quantities = f"{', '.join(goal.values)} at {len(goal.frames)} {frames}"
    return f"The goal is a state: {quantities}. Root mean square difference: {float(square) ** 0.5:.4g}."


def motion(plan: Plan, file: Path, last_frame: torch.Tensor | None) -> str:
    """The video of the best iterate, with its last frame as the poster."""
    if last_frame is None:
        return ""
    height, width = last_frame.shape[:2]
    video = video_element(file_uri(file), png_uri(last_frame), height, width)
    seconds = (plan.time.frames - 1) / plan.time.fps
    caption = f"Iterate {plan.best.number}: {plan.time.frames} frames, {seconds:.3g} s. The file is {file.name}."
    figure = panel_figure((), video, caption)
    return section("Motion", f'<div class="recording" style="--aspect: {width / height:.3g}">{figure}</div>')


def motion_3d(plan: Plan) -> str:
    """The motion of the best iterate, in three dimensions."""
    return player_section("Motion in 3D", plan.scene, plan.trajectory)


def convergence(plan: Plan, watched: str) -> str:
    """Charts of the loss and of the metric over the iterates."""
    charts = [("Loss", loss_chart(plan))]
    if plan.best.metric is not None:
        charts.append((f"{watched[:1].upper()}{watched[1:]}", watched_chart(plan)))
    stages = plan.history[-1].stage + 1
    text = "The red dot marks the best iterate."
    if stages > 1:
        text += (
            f" The search has {stages} stages, separated by grey bands. They measure the distance from the goal in "
            "different ways, so losses are comparable only within a stage."
        )
    return section("Convergence", f"<p>{text}</p>{chart_grid(charts)}")


def control(plan: Plan) -> str:
    """The control: the output of the policies over time, and the values found."""
    charts = signal_charts(plan)
    return section("Control", f"{chart_grid(charts) if charts else ''}{_value_table(plan)}")


def _value_table(plan: Plan) -> str:
    units = {path: spec.unit for path, _, spec in (*plan.scene.quantities(), *plan.scene.view_quantities())}
    rows = "".join(_value_row(path, value, units.get(path, "")) for path, value in plan.best.values.items())
    head = table_head(("parameter", "value", "unit"), ("value",))
    return f'<table class="cards">{head}<tbody>{rows}</tbody></table>'


def _value_row(path: str, value: torch.Tensor, unit: str) -> str:
    if value.numel() <= MAX_NUMBERS:
        text = "<br>".join(f'<span class="value">{float(x):.6g}</span>' for x in value.flatten())
        name = escape(path)
    else:
        low, high, rms = float(value.min()), float(value.max()), float(value.square().mean().sqrt())
        text = f"{low:.4g} – {high:.4g}"
        shape = " × ".join(map(str, value.shape))
        name = f'{escape(path)}<span class="small">{shape} values, RMS {rms:.4g}</span>'
    shown = unit if unit not in ("", "1") else "–"
    return (
        f'<tr><td class="name">{name}</td>{number_cell("value", f"<div>{text}</div>")}'
        f'<td data-label="unit">{escape(shown)}</td></tr>'
    )

"""The parts of the report of a control, each a piece of HTML."""

from __future__ import annotations

from html import escape
from pathlib import Path

import torch

from gradsim.compare.distances import Cumulative
from gradsim.fit.goals import GoalImage, GoalState
from gradsim.fit.plan import Plan
from gradsim.report.goal_pictures import goal_pictures
from gradsim.report.html import head_row, number, panels, picture, plots, section, verdict_box, video
from gradsim.report.media import file_uri, png_uri
from gradsim.report.plan_charts import loss_chart, signal_charts, watched_chart
from gradsim.report.words import plan_summary

FEW = 12  # numbers of a value that are shown one by one


def verdict(plan: Plan, watched: str) -> str:
    """What was reached, in plain words."""
    return verdict_box(*plan_summary(plan, watched))


def goals(plan: Plan) -> str:
    """Goal, reached and difference at the frames that were asked for."""
    parts = []
    for goal in plan.goals:
        if isinstance(goal, GoalImage):
            for shown in goal_pictures(goal, plan):
                image = picture(shown.uri, shown.height, shown.width, ", ".join(shown.labels))
                parts.append(panels(shown.labels, image, shown.caption))
        elif isinstance(goal, GoalState):
            parts.append(f"<p>{escape(_states(goal, plan))}</p>")
    return section("Goal, reached, difference", "".join(parts)) if parts else ""


def _states(goal: GoalState, plan: Plan) -> str:
    with torch.no_grad():
        square = goal.residuals(plan.scene, plan.trajectory, Cumulative()).square().sum() / goal.weight
    frames = "frame" if len(goal.frames) == 1 else "frames"
    what = f"{', '.join(goal.values)} at {len(goal.frames)} {frames}"
    return f"The goal is a state: {what}. Root of the mean squared difference: {float(square) ** 0.5:.4g}."


def film(plan: Plan, file: Path, last: torch.Tensor | None) -> str:
    """The video of the best iterate; its last picture stands for it until it plays."""
    if last is None:
        return ""
    height, width = last.shape[:2]
    content = video(file_uri(file), png_uri(last), height, width)
    seconds = (plan.time.frames - 1) / plan.time.fps
    caption = f"Iterate {plan.best.number}: {plan.time.frames} frames, {seconds:.3g} s. The file is {file.name}."
    return section(
        "What happens", f'<div class="film" style="--aspect: {width / height:.3g}">{panels((), content, caption)}</div>'
    )


def way(plan: Plan, watched: str) -> str:
    """How it was come to: the loss, and what was watched."""
    drawings = [("Loss", loss_chart(plan))]
    if plan.best.metric is not None:
        drawings.append((f"{watched[:1].upper()}{watched[1:]}", watched_chart(plan)))
    stages = plan.history[-1].stage + 1
    words = "<p>The red dot is the iterate that was kept."
    if stages > 1:
        words += (
            f" There were {stages} stages, which measure the distance from the goal in different ways: a loss is to be "
            "compared within its stage alone. Grey bands tell them apart."
        )
    return section("How it was found", f"{words}</p>{plots(drawings)}")


def chosen(plan: Plan) -> str:
    """The control: what the policies said over time, and the values that were found."""
    drawings = signal_charts(plan)
    signals = plots(drawings) if drawings else ""
    return section("The control", f"{signals}{_values(plan)}")


def _values(plan: Plan) -> str:
    units = {path: spec.unit for path, _, spec in (*plan.scene.quantities(), *plan.scene.view_quantities())}
    rows = "".join(_row(path, value, units.get(path, "")) for path, value in plan.best.values.items())
    head = head_row(("found", "value", "unit"), ("value",))
    return f'<table class="cards">{head}<tbody>{rows}</tbody></table>'


def _row(path: str, value: torch.Tensor, unit: str) -> str:
    size = tuple(value.shape)
    if value.numel() <= FEW:
        text = "<br>".join(f'<span class="value">{float(x):.6g}</span>' for x in value.flatten())
        name = escape(path)
    else:
        low, high, rms = float(value.min()), float(value.max()), float(value.square().mean().sqrt())
        text = f"{low:.4g} – {high:.4g}"
        name = f'{escape(path)}<span class="small">{" × ".join(map(str, size))} numbers, rms {rms:.4g}</span>'
    shown = unit if unit not in ("", "1") else "–"
    return (
        f'<tr><td class="name">{name}</td>{number("value", f"<div>{text}</div>")}'
        f'<td data-label="unit">{escape(shown)}</td></tr>'
    )

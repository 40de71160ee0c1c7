"""HTML of scenes, trajectories, videos, fits and plans in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import torch

from gradsim.fit.plan import Plan
from gradsim.fit.result import Fit
from gradsim.report.html import number_cell, table_head, video_element
from gradsim.report.media import mp4_uri, png_uri, side_by_side
from gradsim.report.summary_text import round_to_interval, short
from gradsim.scene.bodies import node_count
from gradsim.scene.body import NodeBody
from gradsim.scene.html import to_html
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import SmokeMotion
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.simulate import initial_trajectory
from gradsim.video.video import Video
from gradsim.view.player import Player, frame_element

HEIGHT = 440  # of a player [px]
SHOWN_FRAMES = 5  # of a video, side by side
MAX_ROWS = 24  # of a table


@to_html.register
def _scene(scene: Scene) -> str:
    """The initial state in 3D, and the bodies and unknowns."""
    filled = scene.with_values({path: unknown.guess for path, unknown in scene.unknowns.items()})
    bodies = _table(("body", "kind", "size"), [(b.name, type(b).__name__, _size_text(b)) for b in scene.bodies])
    units = {path: spec.unit for path, _, spec in scene.unknown_quantities()}
    rows = [(path, str(unknown), units[path]) for path, unknown in scene.unknowns.items()]
    unknowns = _table(("unknown", "declaration", "unit"), rows) if rows else ""
    return _player(filled, initial_trajectory(filled), "A scene") + bodies + unknowns


@to_html.register
def _trajectory(trajectory: Trajectory) -> str:
    """The motion in 3D, if the trajectory has its scene, and its bodies."""
    batch = trajectory.time.shape[:-1] or _batch(trajectory)
    world = f", world 0 of a batch {tuple(batch)}" if batch else ""
    times = trajectory.time.reshape(-1, len(trajectory))[0]
    text = f"{len(trajectory)} frames from {float(times[0]):.3g} s to {float(times[-1]):.3g} s{world}"
    player = "" if trajectory.scene is None else _player(trajectory.scene, trajectory, "A trajectory")
    smoke = (motion.image for motion in trajectory.motions.values() if isinstance(motion, SmokeMotion))
    videos = "".join(_animation(image.reshape(-1, *image.shape[-4:])[0], text) for image in smoke)
    return f"{player}{videos}<p>{escape(text)}: {escape(', '.join(trajectory.motions))}</p>"


@to_html.register
def _video(video: Video) -> str:
    """A few frames side by side."""
    return f"<figure>{_strip(video.frames)}<figcaption>{escape(repr(video))}</figcaption></figure>"


@to_html.register
def _fit(fit: Fit) -> str:
    """Values, intervals and verdicts."""
    rows = []
    for name, unit, value, low, high, item in fit.rows():
        shown, least, most = round_to_interval(value, low, high)
        rows.append((name, shown, f"{least} – {most}", unit if unit not in ("", "1") else "–", item.level))
    table = _table(("parameter", "value", "95 % interval", "unit", "verdict"), rows, ("value", "95 % interval"))
    notes = "".join(f"<li>{escape(line.strip())}</li>" for line in fit.notes())
    status = escape(f"{fit.status}: {fit.advice}" if fit.advice else fit.status)
    return f"<p><strong>{status}</strong></p>{table}{f'<ul>{notes}</ul>' if notes else ''}"


@to_html.register
def _plan(plan: Plan) -> str:
    """The status, the values and the motion of the best control."""
    status = escape(f"{plan.status}: {plan.advice}" if plan.advice else plan.status)
    loss = f"loss {plan.history[0].loss:.4g} → {plan.best.loss:.4g} at iterate {plan.best.number}"
    rows = [(path, _short(value)) for path, value in plan.best.values.items()]
    table = _table(("control", "value"), rows, ("value",))
    player = _player(plan.scene, plan.trajectory, "The motion of a plan")
    return f"<p><strong>{status}</strong>; {escape(loss)}</p>{player}{table}"


def _player(scene: Scene, trajectory: Trajectory, title: str) -> str:
    with torch.no_grad():
        player = Player(scene, trajectory)
    if player.empty:
        return ""
    return frame_element(player.element(autoplay=len(trajectory) > 1), HEIGHT, title)


def _animation(frames: torch.Tensor, title: str) -> str:
    """A video of images [T, H, W, 3], enlarged."""
    video = side_by_side([frames.detach().clamp(0, 1).float()])
    return video_element(mp4_uri(video, 20.0), png_uri(video[0]), video.shape[1], video.shape[2])


def _strip(frames: torch.Tensor) -> str:
    numbers = torch.linspace(0, len(frames) - 1, min(SHOWN_FRAMES, len(frames))).round().long()
    strip = side_by_side([frames[k : k + 1].detach().clamp(0, 1).float() for k in numbers])[0]
    return f'<img style="width: 100%; max-width: 960px" alt="frames of the video" src="{png_uri(strip)}">'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """Returns a table of plain text; the columns in `numbers` are right-aligned."""
    given = list(rows)
    body = "".join(f"<tr>{''.join(map(_cell, row, heads, [numbers] * len(row)))}</tr>" for row in given[:MAX_ROWS])
    rest = f"<p>… and {len(given) - MAX_ROWS} more</p>" if len(given) > MAX_ROWS else ""
    return f"<table>{table_head(heads, numbers)}<tbody>{body}</tbody></table>{rest}"


def _cell(text: str, head: str, numbers: Sequence[str]) -> str:
    return number_cell(head, escape(text)) if head in numbers else f"<td>{escape(text)}</td>"


def _size_text(body: Any) -> str:
    if isinstance(body, NodeBody):
        return f"{node_count(body)} nodes"
    mesh = getattr(body, "mesh", None)
    return "" if mesh is None else f"{len(mesh.vertices)} vertices, {len(mesh.faces)} faces"


def _short(value: torch.Tensor) -> str:
    return (
        short(value)
        if value.numel() <= 6
        else f"{tuple(value.shape)} values, RMS {float(value.square().mean().sqrt()):.4g}"
    )


def _batch(trajectory: Trajectory) -> tuple[int, ...]:
    """Returns the batch dimensions of a trajectory."""
    states = next(iter(trajectory.states.values()), None)
    return () if states is None else tuple(states.shape[:-3])

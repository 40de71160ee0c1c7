"""Simple pictures of trajectories, for terminals and reports without a renderer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gradsim.scene.scene import Scene
from gradsim.scene.smoke import Smoke
from gradsim.scene.trajectory import Trajectory

COLORS = ("#d1495b", "#2e86ab", "#66a182", "#edae49")


def save_strip(scene: Scene, trajectory: Trajectory, path: Path, *, frames: list[int]) -> None:
    """Draw some frames of one world side by side and save them as a PNG, atomically."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.0 * len(frames), 4.0), dpi=110)
    vertices = trajectory.vertices.detach().cpu().numpy()
    low, high = vertices.min((0, 1)), vertices.max((0, 1))
    if scene.ground is not None:
        low[1] = min(low[1], 0.0)
    for column, frame in enumerate(frames):
        axes = figure.add_subplot(1, len(frames), column + 1, projection="3d", computed_zorder=False)
        _draw_frame(axes, scene, trajectory, frame)
        _frame_axes(axes, low, high)
        axes.set_title(f"t = {float(trajectory.time[frame]):.2f} s", y=0.95)
    figure.subplots_adjust(left=0, right=1, bottom=0, top=1, wspace=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.png")
    figure.savefig(partial)
    partial.replace(path)


def _draw_frame(axes: Any, scene: Scene, trajectory: Trajectory, frame: int) -> None:
    """All bodies' surfaces as one collection, so that near faces hide far ones whatever body they belong to."""
    from matplotlib.colors import to_rgb
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    triangles, colors = [], []
    seen = [body for body in scene.bodies if not isinstance(body, Smoke)]
    for k, body in enumerate(seen):
        color = COLORS[k % len(COLORS)]
        points = trajectory[body.name].vertices[frame].detach().cpu().numpy()[:, [0, 2, 1]]
        if len(body.faces):
            triangles.append(points[body.faces])
            colors += [to_rgb(color)] * len(body.faces)
        else:
            axes.scatter(*points.T, s=4, color=color)
    if triangles:
        look = {"edgecolors": "#00000030", "linewidths": 0.3, "shade": True}
        axes.add_collection3d(Poly3DCollection(np.concatenate(triangles), facecolors=colors, **look))


def _frame_axes(axes: Any, low: np.ndarray, high: np.ndarray) -> None:
    """Equal scales, y up, seen slightly from above, with the ground as a grey sheet."""
    middle, reach = (low + high) / 2, (high - low).max() / 2
    axes.set_xlim(middle[0] - reach, middle[0] + reach)
    axes.set_ylim(middle[2] + reach, middle[2] - reach)
    axes.set_zlim(middle[1] - reach, middle[1] + reach)
    x, z = (np.array([m - reach, m + reach]) for m in (middle[0], middle[2]))
    axes.plot_surface(*np.meshgrid(x, z), np.full((2, 2), low[1]), color="#d9d9d9", alpha=0.6, zorder=-1)
    axes.set_box_aspect((1, 1, 1), zoom=1.25)
    axes.view_init(elev=18, azim=-65)
    axes.set_axis_off()

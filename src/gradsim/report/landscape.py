"""Plots of a loss landscape over one or two unknowns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gradsim.fit.landscape import Axis, Landscape
from gradsim.report.charts import LINE, MARK
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput

FORMATS = (".png", ".svg", ".pdf")


def check_plot_format(path: Path) -> None:
    """Raises unless the extension of a plot file is supported."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidInput("--out", str(path), f"must end in one of {', '.join(FORMATS)}")


def save_landscape(landscape: Landscape, path: Path) -> None:
    """Plots a curve over one unknown or a map over two, and saves it, atomically."""
    from matplotlib.figure import Figure

    check_plot_format(path)
    figure = Figure(figsize=(6.4, 4.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    if len(landscape.axes) == 1:
        _draw_curve(axes, landscape)
    else:
        _draw_map(figure, axes, landscape)
    fixed = ", ".join(f"{name} = {_short(value)}" for name, value in landscape.fixed.items())
    if fixed:
        axes.set_title(fixed, fontsize=8, color="#666666", wrap=True)
    write_atomically(path, lambda target: figure.savefig(target), InvalidInput)


def _draw_curve(axes: Any, landscape: Landscape) -> None:
    (axis,) = landscape.axes
    square = landscape.mean_square.numpy()
    finite = np.isfinite(square)
    axes.plot(axis.values.numpy()[finite], square[finite], ".-", color=LINE, linewidth=1.5, markersize=4)
    axes.plot(landscape.minimum[axis.name], square.min(), "o", color=MARK, label=f"{landscape.minimum[axis.name]:.4g}")
    axes.set_yscale("log")
    axes.set_ylabel("mean squared residual")
    axes.grid(alpha=0.25)
    axes.legend(title="minimum")
    _label_axis(axis, axes.set_xlabel, axes.set_xscale)


def _draw_map(figure: Any, axes: Any, landscape: Landscape) -> None:
    from matplotlib.colors import LogNorm

    first, second = landscape.axes
    grid = first.values.numpy(), second.values.numpy()
    square = np.ma.masked_invalid(landscape.mean_square.numpy())
    ends = max(float(square.min()), 1e-12), float(square.max())
    norm = LogNorm(*ends)
    mesh = axes.pcolormesh(*grid, square.T, norm=norm, cmap="viridis", shading="gouraud")
    levels = np.geomspace(*ends, 12)
    axes.contour(*grid, square.T, levels, colors="white", linewidths=0.5, alpha=0.6)
    low = landscape.minimum
    x, y = low[first.name], low[second.name]
    axes.plot(x, y, "o", color=MARK, label=f"{x:.4g}, {y:.4g}")
    axes.legend(title="minimum", loc="best")
    figure.colorbar(mesh, ax=axes, label="mean squared residual")
    _label_axis(first, axes.set_xlabel, axes.set_xscale)
    _label_axis(second, axes.set_ylabel, axes.set_yscale)


def _label_axis(axis: Axis, set_label: Any, set_scale: Any) -> None:
    set_label(axis.name if axis.unit in ("", "1") else f"{axis.name} [{axis.unit}]")
    if axis.logarithmic:
        set_scale("log")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"({', '.join(f'{x:.3g}' for x in np.ravel(value))})"

"""A picture of a cost landscape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gradsim.fit.landscape import Axis, Landscape
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput

KINDS = (".png", ".svg", ".pdf")
LINE, MARK = "#2e86ab", "#d1495b"


def check_picture(path: Path) -> None:
    """Raise unless a file is of a kind that can be drawn."""
    if path.suffix.lower() not in KINDS:
        raise InvalidInput("--out", str(path), f"a picture ends in {', '.join(KINDS)}")


def save_landscape(found: Landscape, path: Path) -> None:
    """Draw a curve over one unknown or a map over two, and save it, atomically."""
    from matplotlib.figure import Figure

    check_picture(path)
    figure = Figure(figsize=(6.4, 4.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    if len(found.axes) == 1:
        _curve(axes, found)
    else:
        _map(figure, axes, found)
    held = ", ".join(f"{name} = {_short(value)}" for name, value in found.fixed.items())
    if held:
        axes.set_title(held, fontsize=8, color="#666666", wrap=True)
    write_atomically(path, lambda target: figure.savefig(target), InvalidInput)


def _curve(axes: Any, found: Landscape) -> None:
    (axis,) = found.axes
    square = found.mean_square.numpy()
    finite = np.isfinite(square)
    axes.plot(axis.values.numpy()[finite], square[finite], ".-", color=LINE, linewidth=1.5, markersize=4)
    axes.plot(found.minimum[axis.name], square.min(), "o", color=MARK, label=f"{found.minimum[axis.name]:.4g}")
    axes.set_yscale("log")
    axes.set_ylabel("mean square of a pixel's difference")
    axes.grid(alpha=0.25)
    axes.legend(title="lowest")
    _scaled(axis, axes.set_xlabel, axes.set_xscale)


def _map(figure: Any, axes: Any, found: Landscape) -> None:
    from matplotlib.colors import LogNorm

    first, second = found.axes
    grid = first.values.numpy(), second.values.numpy()
    square = np.ma.masked_invalid(found.mean_square.numpy())
    ends = max(float(square.min()), 1e-12), float(square.max())
    norm = LogNorm(*ends)
    drawn = axes.pcolormesh(*grid, square.T, norm=norm, cmap="viridis", shading="gouraud")
    levels = np.geomspace(*ends, 12)
    axes.contour(*grid, square.T, levels, colors="white", linewidths=0.5, alpha=0.6)
    low = found.minimum
    x, y = low[first.name], low[second.name]
    axes.plot(x, y, "o", color=MARK, label=f"{x:.4g}, {y:.4g}")
    axes.legend(title="lowest", loc="best")
    figure.colorbar(drawn, ax=axes, label="mean square of a pixel's difference")
    _scaled(first, axes.set_xlabel, axes.set_xscale)
    _scaled(second, axes.set_ylabel, axes.set_yscale)


def _scaled(axis: Axis, set_label: Any, set_scale: Any) -> None:
    set_label(axis.name if axis.unit in ("", "1") else f"{axis.name} [{axis.unit}]")
    if axis.logarithmic:
        set_scale("log")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"({', '.join(f'{x:.3g}' for x in np.ravel(value))})"

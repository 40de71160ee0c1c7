"""Small SVG charts that take their text colour and width from the page."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Any

INK = "#010203"  # placeholder, replaced by the text colour of the page
LINE, BAND, MARK = "#2e86ab", "#8895a5", "#d1495b"
SIZE = (3.7, 2.1)  # [in]


def svg_chart(draw: Callable[[Any], None], *, x_label: str, integer_ticks: bool = False) -> str:
    """Returns a chart as inline SVG.

    Args:
        draw: Draws on matplotlib axes.
        x_label: Label of the horizontal axis.
        integer_ticks: Whether the horizontal axis has ticks at integers only.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    style: Any = {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 8, "svg.hashsalt": "gradsim"}
    ink = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with matplotlib.rc_context(style | ink):
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        if integer_ticks:
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.set_xlabel(x_label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color=BAND, alpha=0.25, linewidth=0.5)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(text.getvalue())


def stage_bands(axes: Any, stages: Sequence[Hashable], first: float = 1.0) -> None:
    """Shades every other stage; `stages` has the stage of each step, and `first` is the number of the first step."""
    begin = first - 0.5
    for k, (_, group) in enumerate(itertools.groupby(stages)):
        end = begin + len(list(group))
        if k % 2:
            axes.axvspan(begin, end, color=BAND, alpha=0.13, linewidth=0)
        begin = end


def _inline(svg: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"\s*\n\s*", " ", svg)
    return svg.replace(INK, "currentColor").replace("'DejaVu Sans'", "inherit").strip()

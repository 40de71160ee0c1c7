"""Charts of the paper's figures, from rows of the experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradsim.experiments.control.catalogue import TASK_FAMILIES
from gradsim.experiments.control.experiment import curve
from gradsim.experiments.control.task import Method
from gradsim.experiments.experiment import Row
from gradsim.experiments.paper.deformable import STATES, VIDEO
from gradsim.experiments.paper.landscapes import BULLET, LAME
from gradsim.report.document import Chart

COLORS = ("#2e86ab", "#3f9b63", "#d1495b", "#8895a5", "#b8860b", "#7a5195")
FRAME_CHOICES = ("all frames", "first and last frame", "last frame")
SEEN = {VIDEO: "video", STATES: "3D positions"}
SMALLEST = 1e-16  # value shown on a logarithmic axis


def landscape_charts(rows: Sequence[Row]) -> tuple[Chart, ...]:
    """Returns the losses over the mass, for PyBullet, for short videos, and over the Lamé parameters."""
    series = {row["series"]: row for row in rows}
    chosen = [series[name] for name in FRAME_CHOICES if name in series]
    lengths = [row for name, row in series.items() if name.startswith("first ") and name.endswith("frames")]
    charts = []
    if chosen:
        charts.append(_mass_chart("Loss over the mass, by frames", chosen))
    if lengths:
        charts.append(_mass_chart("Loss over the mass, by length of the video", [*lengths, *chosen[:1]]))
    if BULLET in series:
        charts.append(_mass_chart("PyBullet", [series[BULLET]]))
    if products := [row for row in rows if "products" in row]:
        charts.append(_product_chart(products))
    maps = [row for row in rows if "lam" in row]
    return (*charts, *(_lame_chart(row) for row in maps))


def _mass_chart(title: str, rows: Sequence[Row]) -> Chart:
    def draw(axes: Any) -> None:
        for color, row in zip(COLORS, rows, strict=False):
            losses = np.asarray(row["losses"])
            axes.plot(row["masses"], losses / losses.max(), color=color, linewidth=1.4, label=row["series"])
        axes.axvline(1.0, color="#8895a5", linewidth=0.8, linestyle=":")
        axes.set_ylabel("loss / largest loss")
        axes.legend(fontsize=7)

    return Chart(title, draw, "mass [kg]")


def _product_chart(rows: Sequence[Row]) -> Chart:
    """Returns what REINFORCE minimizes, for several current estimates of the mass."""

    def draw(axes: Any) -> None:
        for color, row in zip(COLORS, rows, strict=False):
            products = np.asarray(row["products"])
            axes.plot(row["masses"], products / np.abs(products).max(), color=color, linewidth=1.4, label=row["series"])
        axes.axvline(1.0, color="#8895a5", linewidth=0.8, linestyle=":")
        axes.set_ylabel("likelihood x reward / largest")
        axes.legend(fontsize=7)

    return Chart("REINFORCE: negative log likelihood times reward", draw, "mass [kg]")


def _lame_chart(row: Row) -> Chart:
    def draw(axes: Any) -> None:
        from matplotlib.colors import LogNorm

        losses = np.asarray(row["losses"])
        norm = LogNorm(max(float(losses[losses > 0].min()), 1e-12), float(losses.max()))
        axes.pcolormesh(row["mu"], row["lam"], losses.T, norm=norm, cmap="viridis", shading="gouraud", rasterized=True)
        axes.plot(LAME, LAME, "o", color="#d1495b", markersize=4)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylabel("lambda [Pa]")

    return Chart("Loss over the Lamé parameters", draw, "mu [Pa]")


def singular_value_chart(rows: Sequence[Row]) -> Chart:
    """Returns the singular values of each object and kind of observation."""

    def draw(axes: Any) -> None:
        for color, row in zip(COLORS, rows, strict=False):
            place = np.linspace(0.0, 1.0, len(row["values"]))
            axes.plot(place, row["values"], color=color, linewidth=1.3, label=f"{row['object']}, {SEEN[row['method']]}")
        axes.set_yscale("log")
        axes.set_ylabel("singular value")
        axes.legend(fontsize=7)

    return Chart("Singular values", draw, "direction, as a fraction of the unknowns")


def control_charts(rows: Sequence[Row]) -> tuple[Chart, ...]:
    """Returns the convergence of each task, beside the paper's."""
    found = []
    for family in TASK_FAMILIES:
        own = [row for row in rows if row["task"] == family.name]
        if own:
            found.append(_convergence(family, own))
    return tuple(found)


def _convergence(family: Any, rows: Sequence[Row]) -> Chart:
    def draw(axes: Any) -> None:
        for color, method in zip(COLORS, Method, strict=False):
            curves = [curve(row) for row in rows if row["method"] == method.value]
            for k, errors in enumerate(curves):
                label = method.value if k == 0 else None
                axes.plot(np.maximum(np.abs(errors), SMALLEST), color=color, linewidth=1.2, label=label)
            if published := family.paper(method):
                steps, values = np.array(sorted(published.items())).T
                axes.plot(
                    steps, values, "o--", color=color, linewidth=0.8, markersize=3, label=f"{method.value}, paper"
                )
        axes.set_yscale("log")
        axes.set_ylabel("error")
        axes.legend(fontsize=7)

    return Chart(family.name, draw, "iterate")


def cue_chart(rows: Sequence[Row]) -> Chart:
    """Returns the error of the mass at each step, by appearance."""

    def draw(axes: Any) -> None:
        cues = list(dict.fromkeys(row["cue"] for row in rows))
        for color, cue in zip(COLORS, cues, strict=False):
            for k, row in enumerate(row for row in rows if row["cue"] == cue):
                axes.plot(
                    np.maximum(row["errors"], SMALLEST), color=color, linewidth=1.3, label=cue if k == 0 else None
                )
        axes.set_yscale("log")
        axes.set_ylabel("relative error of the mass")
        axes.legend(fontsize=7)

    return Chart("Convergence by appearance", draw, "step")

"""write_report(): an estimate as one page that stands on its own, beside its numbers and its scene."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path
from string import Template

from gradsim.fit.result import Fit
from gradsim.report import sections
from gradsim.scene.atomic import write_whole
from gradsim.scene.errors import GradsimError, InvalidInput
from gradsim.scene.time import Time

HERE = Path(__file__).parent


def write_report(
    fit: Fit,
    folder: str | os.PathLike[str],
    *,
    title: str = "Estimate",
    source: str = "",
    command: str = "",
    truth: Mapping[str, float] | None = None,
) -> Path:
    """Write report.html, fit.json and fitted.yaml into a folder, each whole or not at all.

    The page holds its pictures and videos itself and asks nothing of the network.

    Args:
        fit: What `gs.estimate` gave.
        folder: Made if it does not exist.
        title: Of the page.
        source: What was observed, in words.
        command: How to do it again.
        truth: True values by name, where they are known, to show beside those found.

    Returns:
        The page.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    fit.save(place / "fit.json")
    page = Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        source=escape(source),
        sections="\n".join(
            [
                sections.verdict(fit),
                sections.values(fit, truth or {}),
                sections.videos(fit),
                sections.identifiability(fit),
                sections.way(fit),
                sections.scene(_scene_text(fit, place / "fitted.yaml")),
                sections.repetition(command),
            ]
        ),
        footer=escape(sections.colophon(fit)),
    )
    file = place / "report.html"
    write_whole(file, lambda target: target.write_text(page, encoding="utf-8"), InvalidInput)
    return file


def _scene_text(fit: Fit, file: Path) -> str:
    """The fitted scene as a file, and its text; a scene that no file can hold does not cost the report."""
    trial = fit.trials[0]
    clock = trial.clock
    times = Time(trial.observation.frames, clock.fps, clock.substeps, clock.integrator)
    try:
        fit.scene.save(file, time=times)
    except GradsimError as error:
        return f"# not saved: {error}"
    return file.read_text(encoding="utf-8")

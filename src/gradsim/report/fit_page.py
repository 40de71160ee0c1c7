"""write_report(): an estimate as one page that stands on its own, beside its numbers and its scene."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gradsim.fit.result import Fit
from gradsim.report import sections
from gradsim.report.html import repetition, scene_file, scene_text, write_page
from gradsim.scene.time import Time

SCENE = "fitted.yaml"


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
    trial = fit.trials[0]
    clock = trial.clock
    times = Time(trial.observation.frames, clock.fps, clock.substeps, clock.integrator)
    file = place / "report.html"
    write_page(
        file,
        kind="estimate",
        title=title,
        source=source,
        sections=[
            sections.verdict(fit),
            sections.values(fit, truth or {}),
            sections.videos(fit),
            sections.identifiability(fit),
            sections.way(fit),
            scene_file(
                "The scene, with the values filled in",
                SCENE,
                scene_text(fit.scene, times, place / SCENE),
            ),
            repetition(command, SCENE, "fitted.mp4", "The numbers of this page are in fit.json."),
        ],
        footer=sections.colophon(fit),
    )
    return file

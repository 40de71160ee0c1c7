"""`write_report`: an estimate as a self-contained HTML page, beside its numbers and its scene."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gradsim.fit.result import Fit
from gradsim.footage.footage_view import FootageView, footage_view
from gradsim.footage.prepare import Prepared
from gradsim.report import fit_sections as sections
from gradsim.report import footage_sections, misfit_sections
from gradsim.report.html import reproduction_section, save_scene, scene_section, write_page
from gradsim.scene.arguments import checked_path

SCENE = "fitted.yaml"


def write_report(
    fit: Fit,
    folder: str | os.PathLike[str],
    *,
    title: str = "Estimate",
    source: str = "",
    command: str = "",
    truth: Mapping[str, float] | None = None,
    footage: Prepared | FootageView | None = None,
) -> Path:
    """Writes report.html, fit.json and fitted.yaml into a folder, each atomically.

    The page embeds its videos, plots and the motion in 3D, and makes no network requests.

    Example:
        `gs.write_report(fit, "out")`

    Args:
        fit: Result of `gs.estimate`.
        folder: Created if it does not exist.
        title: Title of the page.
        source: Description of the observation.
        command: Shell command that repeats the estimate.
        truth: True values by name, if known, shown beside the estimates.
        footage: The prepared recording of the estimate: the page then shows the object with its predicted outline.

    Returns:
        Path of the page.
    """
    place = checked_path("folder", folder)
    place.mkdir(parents=True, exist_ok=True)
    fit.save(place / "fit.json")
    trial = fit.trials[0]
    shown = footage_view(footage) if isinstance(footage, Prepared) else footage
    file = place / "report.html"
    write_page(
        file,
        kind="estimate",
        title=title,
        source=source,
        sections=[
            sections.verdict(fit),
            sections.values(fit, truth or {}),
            "" if shown is None else footage_sections.footage(fit, shown),
            misfit_sections.misfit(fit),
            sections.videos(fit),
            sections.motion(fit),
            misfit_sections.trials(fit),
            misfit_sections.intervals(fit),
            misfit_sections.priors(fit),
            sections.identifiability(fit),
            sections.convergence(fit),
            scene_section("Fitted scene", SCENE, save_scene(fit.scene, trial.time, place / SCENE)),
            reproduction_section(command, SCENE, "fitted.mp4", "The numbers of this page are in fit.json."),
        ],
        footer=f"Computed in {fit.seconds:.1f} s.",
    )
    return file

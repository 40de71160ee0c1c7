"""The page of the paper: every table and figure beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gradsim.experiments.experiment import Row
from gradsim.experiments.paper.parts import Part, fixed_chapters
from gradsim.report.document import write_document
from gradsim.report.html import versions

TITLE = "The paper's experiments"
PROTOCOL = (
    "gradSim (ICLR 2021), sections 4, F, G and H. Targets are simulated and rendered by the engine that is fitted, "
    "with the same time step, except where a row says otherwise: errors are those of the estimation."
)


def write_paper(folder: Path, parts: Sequence[Part], rows: Mapping[str, Sequence[Row]], *, quick: bool) -> Path:
    """Writes paper.html, and paper.md with its images, into a folder. Returns the page."""
    chapters = [part.chapter(rows[part.name]) for part in parts]
    figure_3, figure_13, table_5, table_6 = fixed_chapters()
    source = PROTOCOL + (" This is the quick form, with few objects." if quick else "")
    complete = [figure_3, *chapters, table_5, table_6, figure_13]
    return write_document(folder, "paper", TITLE, source, complete, versions())

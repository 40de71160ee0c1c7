"""Tables of experiments on the terminal, printed while they are filled, and resumable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from gradsim.cli.console import console, stderr
from gradsim.cli.exit_codes import FAILED, INTERRUPTED
from gradsim.cli.options import SEED_RANGE
from gradsim.experiments.experiment import Experiment, Row, run_experiment
from gradsim.parallel import Workers

JsonOption = Annotated[
    Path | None,
    typer.Option("--json", "-o", help="Save each row to this JSON file; rows already in it are not computed again."),
]


SeedOption = Annotated[int, typer.Option(help="Random seed.", **SEED_RANGE)]


def show_experiment(
    experiment: Experiment,
    file: Path | None,
    plot: Callable[[Sequence[Row]], None] = lambda rows: None,
    workers: Workers = Workers(),
) -> None:
    """Prints the table while it is filled, then the claims. Exits with code 1 if a claim fails."""
    _, ok = fill_table(experiment, file, workers, plot)
    if not ok:
        raise typer.Exit(FAILED)


def fill_table(
    experiment: Experiment,
    file: Path | None,
    workers: Workers = Workers(),
    plot: Callable[[Sequence[Row]], None] = lambda rows: None,
) -> tuple[list[Row], bool]:
    """Prints the table while it is filled, then the claims. Returns the rows, and whether all claims hold."""
    console.print(f"[bold]{experiment.title}[/]", soft_wrap=True)
    if experiment.paper:
        console.print_line(f"paper: {experiment.paper}")
    console.print_line("  ".join(column.head() for column in experiment.columns))
    rows: list[Row] = []
    try:
        with stderr.status("compiling kernels (first use only)") as status:
            for row in run_experiment(experiment, file, status.update, workers):
                rows.append(row)
                line = "  ".join(column.cell(row) for column in experiment.columns)
                console.print_line(line.rstrip())
    except KeyboardInterrupt:
        resume = (
            f"{len(rows)} rows are saved in {file}; run the same command to resume"
            if file
            else "use --json FILE to save rows and resume later"
        )
        stderr.print_line(f"interrupted: {resume}")
        raise typer.Exit(INTERRUPTED) from None
    plot(rows)
    for text in experiment.summary(rows):
        console.print_line(text)
    claims = experiment.claims(rows)
    for claim in claims:
        mark = "[green]ok  [/]" if claim.ok else "[bold red]FAIL[/]"
        console.print(f"{mark} {claim}", highlight=False, soft_wrap=True)
    return rows, all(claim.ok for claim in claims)

"""gradsim reproduce: the paper's tables, and what else is claimed, row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from gradsim.cli.shared import aside, console, make_folder
from gradsim.experiments.control.catalogue import Subject
from gradsim.experiments.control.task import Method
from gradsim.experiments.table import Experiment, Row, filled

reproduce = typer.Typer(no_args_is_help=True, help="Repeat the experiments; a table is filled row by row.")

KEPT = "Keep the rows in this file as they come; those that are there already are not run again."
JsonOption = Annotated[Path | None, typer.Option("--json", "-o", help=KEPT)]
SeedOption = Annotated[int, typer.Option(help="Of all that is drawn.", min=0)]


@reproduce.command()
def mass(
    objects: Annotated[int, typer.Option(help="How many.", min=1)] = 20,
    seed: SeedOption = 0,
    as_json: JsonOption = None,
) -> None:
    """Mass of pushed objects, from exact, 8-bit and compressed videos."""
    from gradsim.experiments.mass import experiment

    _show(experiment(objects, seed), as_json)


@reproduce.command()
def contact(
    objects: Annotated[int | None, typer.Option(help="How many; all of the list if not given.", min=1)] = None,
    seed: SeedOption = 0,
    held_out: Annotated[bool, typer.Option("--held-out", help="Those that were never looked at.")] = False,
    eight_bit: Annotated[bool, typer.Option("--eight-bit", help="Also from frames rounded to 8 bits.")] = False,
    as_json: JsonOption = None,
) -> None:
    """Density and four contact parameters together, of objects that bounce and slide."""
    from gradsim.experiments.contact import experiment

    _show(experiment(objects, seed, held_out=held_out, eight_bit=eight_bit), as_json)


@reproduce.command()
def deformable(as_json: JsonOption = None) -> None:
    """Lamé parameters of a hanging beam, and how a cloth was thrown."""
    from gradsim.experiments.deformable import experiment

    _show(experiment(), as_json)


@reproduce.command()
def pendula(as_json: JsonOption = None) -> None:
    """Lengths of a pendulum and of a double pendulum."""
    from gradsim.experiments.pendula import experiment

    _show(experiment(), as_json)


@reproduce.command()
def coverage(
    noisy: Annotated[int, typer.Option(help="Videos with Gaussian noise.", min=0)] = 200,
    compressed: Annotated[int, typer.Option(help="H.264 videos.", min=0)] = 20,
    seed: SeedOption = 0,
    as_json: JsonOption = None,
) -> None:
    """How often 95 % intervals contain the truth."""
    from gradsim.experiments.coverage import experiment

    _show(experiment(noisy, compressed, seed), as_json)


@reproduce.command()
def control(
    only: Annotated[list[Subject] | None, typer.Option(help="What is to be moved; may be repeated.")] = None,
    method: Annotated[list[Method] | None, typer.Option(help="What the searches are told; may be repeated.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many of the list; all if not given.", min=1)] = None,
    held_out: Annotated[bool, typer.Option("--held-out", help="Goals that were never looked at.")] = False,
    plots: Annotated[Path | None, typer.Option(help="Folder for pictures of errors over iterates.")] = None,
    as_json: JsonOption = None,
) -> None:
    """A walker, a gear and a cloth, driven to goals that are seen in one picture.

    Held against searches that are told 3D states, and against draws. All of it takes long: `--only`, `--method` and
    `--seeds` take a part, and with `--json` a run that was stopped goes on where it was.

        gradsim reproduce control --only gear --method image --json gear.json --plots plots/
    """
    from gradsim.experiments.control.table import experiment

    if plots is not None:
        make_folder(plots)
    asked = experiment(only or (), method or tuple(Method), seeds, held_out=held_out)
    _show(asked, as_json, lambda rows: None if plots is None else _plot(rows, plots))


def _plot(rows: Sequence[Row], folder: Path) -> None:
    """One picture of each task."""
    from gradsim.experiments.control.catalogue import KINDS
    from gradsim.experiments.control.table import curve
    from gradsim.report.convergence import save_convergence

    for kind in KINDS:
        mine = [row for row in rows if row["task"] == kind.name]
        methods = [method for method in Method if any(row["method"] == method.value for row in mine)]
        if mine:
            curves = {m.value: [curve(row) for row in mine if row["method"] == m.value] for m in methods}
            known = {m.value: kind.paper(m) for m in methods if kind.paper(m)}
            file = folder / f"{kind.name.replace(' ', '-')}.png"
            save_convergence(file, kind.name, curves, known)
            aside.print(f"written: {file}", soft_wrap=True, highlight=False)


@reproduce.command("closed-loop")
def closed_loop(seed: SeedOption = 0, as_json: JsonOption = None) -> None:
    """A walker that learns to walk to any goal, tested on goals it has not seen."""
    from gradsim.experiments.control.closed_loop import experiment

    _show(experiment(seed), as_json)


def _show(experiment: Experiment, file: Path | None, draw: Callable[[Sequence[Row]], None] = lambda rows: None) -> None:
    """Print the table as it is filled, and what it shows; exit 1 where that is less than claimed."""
    console.print(f"[bold]{experiment.title}[/]", soft_wrap=True)
    if experiment.paper:
        console.print(f"the paper: {experiment.paper}", highlight=False, soft_wrap=True)
    console.print("  ".join(column.head() for column in experiment.columns), highlight=False, soft_wrap=True)
    rows: list[Row] = []
    try:
        with aside.status("compiling kernels (first use only)") as status:
            for row in filled(experiment, file, status.update):
                rows.append(row)
                line = "  ".join(column.cell(row) for column in experiment.columns)
                console.print(line.rstrip(), highlight=False, soft_wrap=True, markup=False)
    except KeyboardInterrupt:
        kept = (
            f"{len(rows)} rows are in {file}; the same command goes on from there" if file else "give --json to go on"
        )
        aside.print(f"interrupted: {kept}", soft_wrap=True, highlight=False)
        raise typer.Exit(130) from None
    draw(rows)
    claims = experiment.claims(rows)
    for claim in claims:
        mark = "[green]ok  [/]" if claim.ok else "[bold red]MISS[/]"
        console.print(f"{mark} {claim}", highlight=False, soft_wrap=True)
    if not all(claim.ok for claim in claims):
        raise typer.Exit(1)

"""gradsim control: from the image of a goal to the control that reaches it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradsim.cli.console import announce_compilation, result_console
from gradsim.cli.exit_codes import INTERRUPTED
from gradsim.cli.files import make_folder, write_json
from gradsim.cli.options import SEED_RANGE, JsonOption, ThreadsOption, set_threads
from gradsim.cli.progress import ProgressBar
from gradsim.experiments.control.catalogue import Subject, find_family
from gradsim.experiments.control.task import Method, Task
from gradsim.fit.plan import Iterate, Plan

METHOD_TEXT = {
    Method.IMAGE: "gradients from one image of the goal",
    Method.STATE: "gradients from 3D states",
    Method.RANDOM: "random search",
}


def control(
    subject: Annotated[Subject, typer.Argument(metavar="TASK", help="The controlled body: walker, gear or cloth.")],
    goal: Annotated[
        str | None,
        typer.Option(help="Gear: place (default) or rest. Cloth: posed (default) or hidden. Walker: place."),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(help="Search with gradients from one image of the goal, from 3D states, or random search."),
    ] = Method.IMAGE,
    seed: Annotated[int, typer.Option(help="Random seed of the goal and of the initial control.", **SEED_RANGE)] = 0,
    iterations: Annotated[int | None, typer.Option(help="Per stage; by default those of the task.", min=1)] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report, video and control.")] = Path("out"),
    threads: ThreadsOption = None,
    as_json: JsonOption = None,
) -> None:
    """Control a walker, a gear or a cloth to reach a goal given as one image.

    **walker**: a sheet of actuated triangles walks to a position. **gear**: 1152 actuated tetrahedra roll and hop to a
    position (`place`), or come to rest there (`rest`). **cloth**: the initial velocity of a thrown sheet is found, for
    the undeformed sheet at a position (`posed`), or for the end of a flight with a hidden velocity (`hidden`).

    Prints the first, the best and the last iterate. Their error is relative to the distance for the walker, and the
    mean squared distance of the center from the goal [m^2] for the gear and the cloth. Writes `report.html`,
    `plan.json`, `plan.yaml`, `control.npz` and `reached.mp4`. Ctrl-C stops the search and reports the best iterate.

        gradsim control gear -o out/

        gradsim control cloth --goal hidden --seed 3

        gradsim control walker --method random --json walker.json
    """
    set_threads(threads)
    family = find_family(subject, goal)
    make_folder(out)
    task = family.task(seed)
    if iterations is not None:
        task = task.with_iterations(iterations)
    count = task.iterates(method)
    announce_compilation(task.dtype)
    output = result_console(as_json)
    text = f"[bold]{escape(family.name)}[/], seed {seed}: {escape(task.description)}"
    output.print(text, highlight=False, soft_wrap=True)
    with ProgressBar("searching", count, unit="iterates", interval=0.0) as bar:
        plan = task.run(method, lambda iterate: show_iterate(bar, iterate))
    title = f"{family.name[:1].upper()}{family.name[1:]}, seed {seed}"
    report = _write_report(plan, out, title, task, method)  # before the output, which may be closed
    print_plan(plan, output)
    output.print_line(f"report: {report}")
    if as_json is not None:
        write_json(as_json, {"task": family.name, "method": method.value, "seed": seed, **plan.as_dict()})
    if plan.status == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _write_report(plan: Plan, folder: Path, title: str, task: Task, method: Method) -> Path:
    from gradsim.report.plan_page import write_plan

    return write_plan(
        plan,
        folder,
        title=title,
        source=f"Goal: {task.description}. Search: {METHOD_TEXT[method]}.",
        watched="error",
        command=shlex.join(["gradsim", *sys.argv[1:]]),
    )


def show_iterate(bar: ProgressBar, iterate: Iterate) -> None:
    """Shows the number, loss and error of an iterate as progress."""
    error = "" if iterate.metric is None else f", error {iterate.metric:.3e}"
    bar.update(iterate.number + 1, f"stage {iterate.stage + 1}", f"loss {iterate.loss:.3e}{error}")


def print_plan(plan: Plan, console: Console) -> None:
    """Prints a table of the first, the best and the last iterate, and how the search ended."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for head in ("iterate", "loss", "error", "time"):
        table.add_column(head, justify="right")
    by_number = {iterate.number: iterate for iterate in plan.history}
    for name, number in (("first", plan.history[0].number), ("best", plan.best.number), ("last", plan.last.number)):
        iterate = by_number[number]
        error = "-" if iterate.metric is None else f"{iterate.metric:.4g}"
        table.add_row(name, str(number), f"{iterate.loss:.4g}", error, f"{iterate.seconds:.1f} s")
    console.print(table, highlight=False)
    advice = f": {escape(plan.advice)}" if plan.advice else ""
    console.print(f"{plan.status}{advice}; {plan.seconds:.0f} s", highlight=False, soft_wrap=True)

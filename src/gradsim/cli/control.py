"""gradsim control: from the picture of a goal to the control that reaches it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradsim.cli.progress import Bar
from gradsim.cli.shared import (
    Dtype,
    JsonOption,
    ThreadsOption,
    announce_kernels,
    make_folder,
    results,
    set_threads,
    write_json,
)
from gradsim.experiments.control.catalogue import Subject, kind_of
from gradsim.experiments.control.task import Method
from gradsim.fit.plan import Iterate, Plan

INTERRUPTED = 130


def control(
    task: Annotated[Subject, typer.Argument(help="What is to be moved.")],
    goal: Annotated[
        str | None,
        typer.Option(help="Gear: place or rest. Cloth: posed or hidden. The first if not given."),
    ] = None,
    method: Annotated[
        Method, typer.Option(help="What the search is told: a picture of the goal, 3D states, or nothing.")
    ] = Method.IMAGE,
    seed: Annotated[int, typer.Option(help="Of the goal and of the first control.", min=0)] = 0,
    iterations: Annotated[int | None, typer.Option(help="Of each stage; the task's own if not given.", min=1)] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report, video and control.")] = Path("out"),
    threads: ThreadsOption = None,
    as_json: JsonOption = None,
) -> None:
    """Drive a walker, a gear or a cloth to a goal that is seen in one picture.

    **walker**: a sheet of muscles walks to a place. **gear**: 1152 actuated tetrahedra roll and hop to a place (`rest`:
    and stand there). **cloth**: how to throw it, to a pose that no flight ends in (`posed`) or to where a throw led
    whose velocity is not told (`hidden`).

    Prints the error of the first, the best and the last iterate, and writes `report.html`, `plan.json`, `plan.yaml`,
    `control.npz` and `reached.mp4`. Ctrl-C stops the search and reports the best so far.

        gradsim control gear -o out/

        gradsim control cloth --goal hidden --seed 3

        gradsim control walker --method random --json walker.json
    """
    from gradsim.report.plan_page import write_plan

    set_threads(threads)
    kind = kind_of(task, goal)
    make_folder(out)
    asked = kind.task(seed)
    if iterations is not None:
        asked = asked.shortened(iterations)
    count = asked.iterates(method)
    announce_kernels(Dtype.FLOAT32 if asked.dtype == torch.float32 else Dtype.FLOAT64)
    shown = results(as_json)
    shown.print(f"[bold]{escape(kind.name)}[/], seed {seed}: {escape(asked.about)}", highlight=False, soft_wrap=True)
    with Bar("searching", count, unit="iterates", quiet=0.0) as bar:
        plan = asked.run(method, lambda iterate: show_iterate(bar, iterate))
    print_plan(plan, shown)
    told = "a picture of it" if method is Method.IMAGE else "3D states" if method is Method.STATE else "nothing"
    page = write_plan(
        plan,
        out,
        title=f"{kind.name[:1].upper()}{kind.name[1:]}, seed {seed}",
        source=f"The goal: {asked.about}. The search is told {told}.",
        watched="error",
        command=shlex.join(["gradsim", *sys.argv[1:]]),
    )
    shown.print(f"written: {page}", highlight=False, soft_wrap=True)
    if as_json is not None:
        write_json(as_json, {"task": kind.name, "method": method.value, "seed": seed, **plan.as_dict()})
    if plan.status == "interrupted":
        raise typer.Exit(INTERRUPTED)


def show_iterate(bar: Bar, iterate: Iterate) -> None:
    """An iterate as progress: its number, loss and error."""
    error = "" if iterate.metric is None else f", error {iterate.metric:.3e}"
    bar.moved(iterate.number + 1, f"stage {iterate.stage + 1}", f"loss {iterate.loss:.3e}{error}")


def print_plan(plan: Plan, console: Console) -> None:
    """A table of the first, the best and the last iterate, then how the search ended."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for head in ("iterate", "loss", "error", "after"):
        table.add_column(head, justify="right")
    by_number = {iterate.number: iterate for iterate in plan.history}
    for name, number in (("first", plan.history[0].number), ("best", plan.best.number), ("last", plan.last.number)):
        iterate = by_number[number]
        error = "-" if iterate.metric is None else f"{iterate.metric:.4g}"
        table.add_row(name, str(number), f"{iterate.loss:.4g}", error, f"{iterate.seconds:.1f} s")
    console.print(table, highlight=False)
    advice = f": {escape(plan.advice)}" if plan.advice else ""
    console.print(f"{plan.status}{advice}; {plan.seconds:.0f} s", highlight=False, soft_wrap=True)

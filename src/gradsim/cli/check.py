"""gradsim check: gradients, physics and rendering on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from gradsim.check.result import CheckResult
from gradsim.cli.shared import JsonOption, console, write_json

check = typer.Typer(no_args_is_help=True, help="Check gradients, physics and rendering on this machine.")


@check.command("gradients")
def check_gradients(as_json: JsonOption = None) -> None:
    """Every parameter's adjoint against central differences in double precision."""
    from gradsim.check.gradients import check_gradients as run

    report(run, "gradients against central differences", ("difference", "adjoint"), as_json)


@check.command("physics")
def check_physics(as_json: JsonOption = None) -> None:
    """Known answers of mechanics: expected, got, error."""
    from gradsim.check.physics import run_checks as run

    report(run, "physics against known answers", ("expected", "got"), as_json)


@check.command("render")
def check_render(as_json: JsonOption = None) -> None:
    """Gradients of all renderers, and the exact image against point sampling."""
    from gradsim.check.render import check_render as run

    report(run, "renderers", ("expected", "got"), as_json)


def report(
    run: Callable[[Callable[[str], None]], list[CheckResult]],
    title: str,
    columns: tuple[str, str],
    as_json: Path | None,
) -> None:
    begin = time.perf_counter()
    with console.status("compiling kernels (first use only)") as status:
        facts = run(lambda text: status.update(text))
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    table.add_column("quantity")
    for name in (*columns, "error", "allowed"):
        table.add_column(name, justify="right")
    table.add_column("")
    topic = ""
    for fact in facts:
        if fact.topic != topic:
            table.add_section()
        mark = "[green]ok[/]" if fact.ok else "[bold red]MISS[/]"
        numbers = (f"{fact.expected:.6g}", f"{fact.got:.6g}", f"{fact.error:.1e}", f"{fact.tolerance:.0e}")
        table.add_row(escape(fact.topic) if fact.topic != topic else "", escape(fact.name), *numbers, mark)
        topic = fact.topic
    console.print(table)
    missed = [fact for fact in facts if not fact.ok]
    worst = max(facts, key=lambda fact: fact.error / fact.tolerance if fact.tolerance else fact.error)
    console.print(
        f"{len(facts) - len(missed)} of {len(facts)} ok in {time.perf_counter() - begin:.0f} s; closest to its limit: "
        f"{escape(worst.topic)}, {escape(worst.name)}: {worst.error:.1e} of {worst.tolerance:.0e}"
    )
    if as_json is not None:
        write_json(as_json, [fact.as_dict() for fact in facts])
    if missed:
        raise typer.Exit(1)

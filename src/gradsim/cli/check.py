"""gradsim check: gradients, physics and rendering on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import typer
from rich.markup import escape
from rich.table import Table

from gradsim.check.result import CheckResult
from gradsim.cli.console import console
from gradsim.cli.exit_codes import FAILED
from gradsim.cli.files import write_json
from gradsim.cli.options import JsonOption

check = typer.Typer(
    no_args_is_help=True,
    help="Check gradients, physics and rendering on this machine. Exits with code 1 if a check fails.",
)


@check.command("gradients")
def check_gradients(as_json: JsonOption = None) -> None:
    """Compare the adjoint gradient of every parameter with central finite differences in double precision.

    gradsim check gradients --json gradients.json
    """
    from gradsim.check.gradients import check_gradients as run

    run_check(run, "Adjoint gradients and central finite differences", ("finite difference", "adjoint"), as_json)


@check.command("physics")
def check_physics(as_json: JsonOption = None) -> None:
    """Compare simulations with analytic solutions and conservation laws of mechanics.

    gradsim check physics --json physics.json
    """
    from gradsim.check.physics import run_checks as run

    run_check(run, "Physics and analytic solutions", ("expected", "computed"), as_json)


@check.command("render")
def check_render(as_json: JsonOption = None) -> None:
    """Check the gradients of all renderers, and the exact renderer against supersampling.

    gradsim check render --json render.json
    """
    from gradsim.check.render import check_render as run

    run_check(run, "Renderers", ("expected", "computed"), as_json)


def run_check(
    run: Callable[[Callable[[str], None]], list[CheckResult]],
    title: str,
    columns: tuple[str, str],
    as_json: Path | None,
) -> None:
    """Runs a group of checks, prints their table and a summary, and exits with code 1 if one fails."""
    begin = time.perf_counter()
    with console.status("compiling kernels (first use only)") as status:
        results = run(lambda text: status.update(text))
    console.print(_table(results, title, columns))
    failed = [result for result in results if not result.ok]
    worst = max(results, key=lambda result: result.error / result.tolerance if result.tolerance else result.error)
    console.print(
        f"{len(results) - len(failed)} of {len(results)} passed in {time.perf_counter() - begin:.0f} s; closest to its "
        f"tolerance: {escape(worst.topic)}, {escape(worst.name)}: {worst.error:.1e} of {worst.tolerance:.0e}"
    )
    if as_json is not None:
        write_json(as_json, [result.as_dict() for result in results])
    if failed:
        raise typer.Exit(FAILED)


def _table(results: Sequence[CheckResult], title: str, columns: tuple[str, str]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("case")
    table.add_column("quantity")
    for name in (*columns, "error", "tolerance"):
        table.add_column(name, justify="right")
    table.add_column("")
    topic = ""
    for result in results:
        if result.topic != topic:
            table.add_section()
        mark = "[green]ok[/]" if result.ok else "[bold red]FAIL[/]"
        numbers = (f"{result.expected:.6g}", f"{result.got:.6g}", f"{result.error:.1e}", f"{result.tolerance:.0e}")
        table.add_row(escape(result.topic) if result.topic != topic else "", escape(result.name), *numbers, mark)
        topic = result.topic
    return table

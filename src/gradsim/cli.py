"""The command line: gradsim demo, gradsim check, gradsim bench."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradsim import __version__
from gradsim.check.fact import Fact
from gradsim.scene.errors import GradsimError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Differentiable simulation from pixels to physics and back.",
)
check = typer.Typer(no_args_is_help=True, help="Check gradients, physics and rendering on this machine.")
bench = typer.Typer(no_args_is_help=True, help="Measure speed beside peers in the same run.")
app.add_typer(check, name="check")
app.add_typer(bench, name="bench")
console = Console()

JsonOption = Annotated[Path | None, typer.Option("--json", help="Also write the results to this file.")]


def main() -> None:
    """Entry point: errors of the user's input become one paragraph and exit code 2."""
    try:
        app()
    except GradsimError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", highlight=False)
        sys.exit(2)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if show:
        console.print(__version__)
        raise typer.Exit


@app.command()
def demo(out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the picture.")] = Path("out")) -> None:
    """Simulate a beam and a cloth, differentiate through it, and save a picture."""
    from gradsim.experiments.demo import run_demo
    from gradsim.report.picture import save_strip

    with console.status("compiling kernels (first use only) and simulating"):
        result = run_demo()
    path = out / "demo.png"
    save_strip(result.scene, result.trajectory, path, frames=[0, 9, 18, 45])
    nodes = result.trajectory.vertices.shape[-2]
    rows = {
        "size": f"{nodes} nodes, {result.steps} steps of {1e3 * result.dt:.2f} ms, double precision",
        "forward": f"{result.forward:.3f} s ({result.steps / result.forward:,.0f} steps/s)",
        "backward": f"{result.backward:.3f} s",
        "tip of the beam": f"{result.tip:.5f} m above the ground at the end",
        "d tip / d Young": f"{result.gradient:.6e} m/Pa (central difference {result.difference:.6e})",
        "picture": str(path),
    }
    console.print("[bold]A rubber beam and a sheet of cloth[/]")
    for name, text in rows.items():
        console.print(f"  {name:<16} {text}", highlight=False, soft_wrap=True)


@check.command("gradients")
def check_gradients(as_json: JsonOption = None) -> None:
    """Every parameter's adjoint against central differences in double precision."""
    from gradsim.check.gradients import check_gradients as run

    _report(run, "gradients against central differences", ("difference", "adjoint"), as_json)


@check.command("physics")
def check_physics(as_json: JsonOption = None) -> None:
    """Known answers of mechanics: expected, got, error."""
    from gradsim.check.physics import run_checks as run

    _report(run, "physics against known answers", ("expected", "got"), as_json)


@check.command("render")
def check_render(as_json: JsonOption = None) -> None:
    """Gradients of all renderers, and the exact image against point sampling."""
    from gradsim.check.render import check_render as run

    _report(run, "renderers", ("expected", "got"), as_json)


def _report(
    run: Callable[[Callable[[str], None]], list[Fact]], title: str, columns: tuple[str, str], as_json: Path | None
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
        _write_json(as_json, [fact.as_dict() for fact in facts])
    if missed:
        raise typer.Exit(1)


class Problem(str, Enum):
    """What `gradsim bench physics` simulates."""

    TETS = "tets"
    RIGID = "rigid"


@bench.command("physics")
def bench_physics(
    as_json: JsonOption = None,
    only: Annotated[Problem | None, typer.Option(help="Elastic beams or rigid cubes; both if not given.")] = None,
    size: Annotated[list[int] | None, typer.Option(help="Tetrahedra, may be repeated; all sizes if not given.")] = None,
    batch: Annotated[list[int] | None, typer.Option(help="Worlds of one cube, may be repeated; 1, 64, 1024.")] = None,
    steps: Annotated[
        int | None, typer.Option(help="Steps of a rollout; 100 of beams, 960 of cubes, 4800 of one cube.", min=1)
    ] = None,
    peer: Annotated[bool, typer.Option(help="Also time Newton, if installed.")] = True,
) -> None:
    """Steps a second of elastic beams and of rigid cubes, forward and with gradients, beside Newton and the paper."""
    from gradsim.bench import physics, rigid

    results: dict[str, Any] = {}
    with console.status("compiling kernels (first use only)") as status:
        options: dict[str, Any] = {"peer": peer, "progress": status.update}
        if steps is not None:
            options["steps"] = steps
        if only != Problem.RIGID:
            beams = physics.bench_physics(tuple(size or physics.SIZES), **options)
            console.print(physics.table(beams))
            results["tets"] = beams.as_dict()
        if only != Problem.TETS:
            cubes = rigid.bench_rigid(tuple(batch or rigid.BATCHES), **options)
            console.print(rigid.table(cubes))
            results["rigid"] = cubes.as_dict()
    if as_json is not None:
        _write_json(as_json, results)


@bench.command("render")
def bench_render(
    as_json: JsonOption = None,
    size: Annotated[list[int] | None, typer.Option(help="Faces, may be repeated; all sizes if not given.")] = None,
    pixels: Annotated[
        list[int] | None, typer.Option(help="Height and width of the images, may be repeated; 64, 128, 256.")
    ] = None,
    peer: Annotated[bool, typer.Option(help="Also time DEODR, if installed.")] = True,
) -> None:
    """Milliseconds a frame of Exact and SoftRas, forward and with gradients, beside DEODR and plain kernels."""
    from gradsim.bench import pictures, render, render_report

    with console.status("compiling kernels (first use only)") as status:
        result = render.bench_render(
            tuple(size or pictures.SIZES), pixels=tuple(pixels or render.PIXELS), peer=peer, progress=status.update
        )
    console.print(render_report.report(result))
    if as_json is not None:
        _write_json(as_json, render_report.as_dict(result))


def _write_json(path: Path, content: object) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, indent=2) + "\n")
    partial.replace(path)
    console.print(f"written: {path}")


if __name__ == "__main__":
    main()

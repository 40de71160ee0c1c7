"""gradsim bench: speed beside peers in the same run."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsim.cli.console import console
from gradsim.cli.files import make_folder, write_json
from gradsim.cli.options import JsonOption

if TYPE_CHECKING:
    from gradsim.bench.result import Bar

bench = typer.Typer(invoke_without_command=True, help="Measure speed beside peers in the same run.")


@bench.callback()
def bench_quick(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="Half a minute: has anything become slow?")] = False,
) -> None:
    """Measure speed beside peers in the same run."""
    if context.invoked_subcommand is not None:
        return
    if not quick:
        console.print(context.get_help())
        return
    from gradsim.bench import quick as quick_bench

    with console.status("compiling kernels (first use only)") as status:
        found = quick_bench.bench_quick(progress=status.update)
    console.print(quick_bench.table(found))
    if not all(ratio.met for ratio in found.ratios):
        raise typer.Exit(1)


class Problem(str, Enum):
    """What `gradsim bench physics` simulates."""

    TETS = "tets"
    CLOTH = "cloth"
    RIGID = "rigid"
    WORLDS = "worlds"


@bench.command("physics")
def bench_physics(
    as_json: JsonOption = None,
    only: Annotated[
        Problem | None, typer.Option(help="Beams, sheets, rigid cubes, or 16 worlds on two threads; all if not given.")
    ] = None,
    size: Annotated[
        list[int] | None, typer.Option(help="Tetrahedra or triangles, may be repeated; all sizes if not given.")
    ] = None,
    batch: Annotated[list[int] | None, typer.Option(help="Worlds of one cube, may be repeated; 1, 64, 1024.")] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Steps of a rollout; 100 and more of meshes, 960 of cubes, 4800 of one cube.", min=1),
    ] = None,
    peer: Annotated[bool, typer.Option(help="Also time Newton, if installed.")] = True,
) -> None:
    """Steps a second of beams, cloth and rigid cubes, forward and with gradients, beside Newton and the paper."""
    from gradsim.bench import cloth, physics, rigid, worlds

    results: dict[str, Any] = {}
    with console.status("compiling kernels (first use only)") as status:
        options: dict[str, Any] = {"peer": peer, "progress": status.update}
        if steps is not None:
            options["steps"] = steps
        if only in (None, Problem.TETS):
            beams = physics.bench_physics(tuple(size or physics.SIZES), **options)
            console.print(physics.table(beams))
            results["tets"] = beams.as_dict()
        if only in (None, Problem.CLOTH):
            sizes = cloth.SIZES if size is None or only is None else tuple(size)
            sheets = cloth.bench_cloth(sizes, **options)
            console.print(cloth.table(sheets))
            results["cloth"] = sheets.as_dict()
        if only in (None, Problem.RIGID):
            cubes = rigid.bench_rigid(tuple(batch or rigid.BATCHES), dtypes=("float32", "float64"), **options)
            console.print(rigid.table(cubes))
            results["rigid"] = cubes.as_dict()
        if only in (None, Problem.WORLDS):
            batches = worlds.bench_worlds(steps=steps, progress=status.update)
            console.print(worlds.table(batches))
            _print_bars(worlds.bars(batches))
            results["worlds"] = batches.as_dict()
    if as_json is not None:
        write_json(as_json, results)


@bench.command("calls")
def bench_calls(
    as_json: JsonOption = None,
    calls: Annotated[int, typer.Option(help="Calls of each scene.", min=1)] = 1000,
) -> None:
    """Milliseconds that a call of simulate() with new parameters costs beyond its kernels, on small scenes."""
    from gradsim.bench import calls as call_bench

    with console.status("compiling kernels (first use only)") as status:
        result = call_bench.bench_calls(calls=calls, progress=status.update)
    console.print(call_bench.table(result))
    if as_json is not None:
        write_json(as_json, result.as_dict())


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
        write_json(as_json, render_report.as_dict(result))


@bench.command("all")
def bench_all(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results.md and results.json.")] = Path(
        "benchmarks"
    ),
    peer: Annotated[bool, typer.Option(help="Also time Newton and DEODR, if installed.")] = True,
) -> None:
    """Everything in one run: physics, calls, pictures, time to answer, memory, growth; leave the machine alone."""
    from gradsim.bench.everything import bench_everything

    make_folder(out)
    bars: list[Bar] = []
    with console.status("compiling kernels (first use only)") as status:
        for part in bench_everything(out, status.update, peer=peer):
            console.print(part.shown)
            bars += part.bars
    _print_bars(bars)
    console.print(f"written: {out / 'results.md'}", highlight=False, soft_wrap=True)
    if not all(bar.met for bar in bars):
        raise typer.Exit(1)


def _print_bars(bars: Iterable[Bar]) -> None:
    for bar in bars:
        console.print(str(bar), style="green" if bar.met else "bold red", highlight=False, soft_wrap=True)

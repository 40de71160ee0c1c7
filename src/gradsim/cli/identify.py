"""gradsim identify: what a video of a scene would determine, before it is recorded."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradsim.cli.console import announce_compilation, result_console, stderr
from gradsim.cli.estimate import COLORS
from gradsim.cli.files import write_json
from gradsim.cli.inputs import checked_camera, checked_unknowns, substeps_at
from gradsim.cli.options import (
    SEED_RANGE,
    JsonOption,
    RoughlyOption,
    SubstepsOption,
    ThreadsOption,
    parse_size,
    parse_words,
    set_threads,
)
from gradsim.fit.design import best_design
from gradsim.fit.identifiability import ExpectedIntervals, identifiability
from gradsim.fit.student import NORMAL_95
from gradsim.scene.files.load import SceneFile, load_scene_file


def identify(
    scenes: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENE...",
            help="A scene file with unknowns, or the name of a built-in scene; further ones are compared with it.",
        ),
    ],
    frames: Annotated[
        int | None, typer.Option(help="Number of frames; by default that of the scene file.", min=2)
    ] = None,
    fps: Annotated[
        float | None, typer.Option(help="Frames per second; by default those of the scene file.", min=1e-3)
    ] = None,
    noise: Annotated[
        float, typer.Option(help="Standard deviation of a pixel, for colours from 0 to 1.", min=1e-6)
    ] = 0.01,
    size: Annotated[str, typer.Option(help="Height x width of the compared frames in pixels.")] = "64x64",
    roughly: RoughlyOption = None,
    design: Annotated[
        str | None,
        typer.Option(
            help="Paths of unknowns with bounds that you can choose, such as cube.pushes[0].impulse,camera.eye: finds "
            "the values for which the intervals of the others are narrowest."
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(help="Number of true values: the guesses, and samples within the bounds or priors.", min=1)
    ] = 5,
    seed: Annotated[int, typer.Option(help="Random seed.", **SEED_RANGE)] = 0,
    substeps: SubstepsOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = None,
) -> None:
    """Predict which unknowns of a scene a video would determine, before it is recorded.

    Prints the expected 95 % interval of each unknown at its guess, the largest half width over the range of the
    unknowns, a verdict, and the combinations that would stay undetermined. No video is needed. Several scene files with
    the same unknowns, such as other pushes or cameras, are ranked by their intervals. The scene is assumed correct, but
    for what `--roughly` names.

        gradsim identify bouncing_cube --size 32x32 --frames 30

        gradsim identify scene.yaml other_push.yaml side_view.yaml --noise 0.02 --roughly camera,start

        gradsim identify scene.yaml --design cube.pushes[0].impulse
    """
    set_threads(threads)
    files = [load_scene_file(name) for name in scenes]
    for file in files:
        checked_unknowns(file)
        checked_camera(file)
    announce_compilation()
    arguments: dict[str, Any] = {"frames": frames, "fps": fps, "substeps": substeps}
    shared: dict[str, Any] = {"noise": noise, "size": parse_size(size), "roughly": parse_words(roughly), "seed": seed}
    shared |= {"samples": samples, **_recording(files[0], **arguments)}
    output = result_console(as_json)
    if design is not None:
        with stderr.status("searching"):
            found = best_design(files[0].scene, parse_words(design), **shared)
        lines = str(found).splitlines()[: len(found.values) + 1]
        output.print("\n".join(map(escape, lines)), highlight=False, soft_wrap=True)
        print_expected(found.after, output)
        content = found.as_dict()
    else:
        others = {str(file.path): {"scene": file.scene, **_recording(file, **arguments)} for file in files[1:]}
        with stderr.status("simulating"):
            result = identifiability(files[0].scene, candidates=others, **shared)
        print_expected(result, output)
        content = result.as_dict()
    if as_json is not None:
        write_json(as_json, content)


def _recording(file: SceneFile, *, frames: int | None, fps: float | None, substeps: int | None) -> dict[str, Any]:
    """Returns the times of a recording: those given, or those of the scene file."""
    rate = file.time.fps if fps is None else fps
    return {
        "frames": file.time.frames if frames is None else frames,
        "fps": rate,
        "substeps": substeps or substeps_at(file.time, rate),
        "integrator": file.time.integrator,
    }


def print_expected(result: ExpectedIntervals, console: Console) -> None:
    """Prints a table of the expected intervals, then undetermined combinations and the ranked candidates."""
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for head in ("guess", "95 % interval", "at most +-"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("unit")
    table.add_column("", min_width=len("not identifiable"))
    for name, row in result.intervals.items():
        interval = f"{row.low[0]:.5g} .. {row.high[0]:.5g}"
        word = f"[{COLORS[row.level]}]{row.level if row.level == 'identifiable' else row.share}[/]"
        table.add_row(
            escape(name), f"{row.values[0]:.5g}", interval, f"{max(row.half_widths):.2g}", row.unit.strip("1"), word
        )
    console.print(table, highlight=False)
    for text in result.undetermined_directions:
        console.print(f"  {escape(text)}", highlight=False, soft_wrap=True)
    if result.diverged:
        console.print(f"  the simulation diverges at {result.diverged} of the sampled values: raise --substeps")
    for name, one in result.candidates.items():
        weak = ", ".join(key for key, row in one.intervals.items() if row.level != "identifiable") or "none"
        text = f"{name}: typical half width {100 * NORMAL_95 * one.score:.3g} %; not identifiable everywhere: {weak}"
        console.print(escape(text), highlight=False, soft_wrap=True)

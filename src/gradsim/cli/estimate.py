"""gradsim estimate: from a video to the physics that made it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradsim.cli.progress import Bar
from gradsim.cli.seen import CropOption, FpsOption, FramesOption, SeenArgument, UnknownsArgument, load_seen
from gradsim.cli.shared import (
    JsonOption,
    SizeOption,
    SubstepsOption,
    ThreadsOption,
    announce_kernels,
    make_folder,
    results,
    set_threads,
    steps_at,
    write_json,
)
from gradsim.fit.result import Fit, FitStep

COLORS = {"identifiable": "green", "weak": "yellow", "not identifiable": "red"}
INTERRUPTED = 130


def estimate(
    scene: UnknownsArgument,
    video: SeenArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report and the numbers.")] = Path("out"),
    starts: Annotated[int, typer.Option(help="Searches: from the guesses, then from random places.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", min=0)] = 0,
    substeps: SubstepsOption = None,
    frames: FramesOption = None,
    crop: CropOption = None,
    size: SizeOption = None,
    fps: FpsOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = None,
) -> None:
    """Find what is unknown in a scene from a video of it.

    Prints each value with its 95 % interval and whether this video can tell it, and writes `report.html`, `fit.json`
    and `fitted.yaml`. Ctrl-C stops the search and reports the best so far.

        gradsim estimate bouncing_cube bounce.mp4 -o out/

        gradsim estimate scene.yaml film.mov --frames 12:72 --crop 0,280,720,720 --size 128x128 --starts 4
    """
    from gradsim.fit.estimate import estimate as fit_video
    from gradsim.report.page import write_report

    set_threads(threads)
    file, seen, rate = load_seen(scene, video, frames=frames, crop=crop, size=size, fps=fps)
    make_folder(out)
    announce_kernels()
    with Bar("reading", len(seen)) as bar:
        fit = fit_video(
            file.scene,
            seen,
            fps=rate,
            substeps=substeps or steps_at(file.time, rate),
            integrator=file.time.integrator,
            starts=starts,
            seed=seed,
            progress=lambda stage: show_stage(bar, stage),
        )
    shown = results(as_json)
    print_fit(fit, shown)
    source = f"{video}: {len(seen)} frames of {seen.size[0]} x {seen.size[1]} at {rate:g} fps, {seen.codec}"
    report = write_report(fit, out, title=file.path.stem, source=source, command=shlex.join(["gradsim", *sys.argv[1:]]))
    shown.print(f"written: {report}", highlight=False, soft_wrap=True)
    if as_json is not None:
        write_json(as_json, fit.as_dict())
    if fit.status == "interrupted":
        raise typer.Exit(INTERRUPTED)


def show_stage(bar: Bar, stage: FitStep) -> None:
    """A stage of a fit as progress: what, over how many frames, and the mean square."""
    name = stage.name.removesuffix(f", {stage.frames} frames")
    bar.moved(stage.frames, name, f"mean square {stage.mean_square:.2e}")


def print_fit(fit: Fit, console: Console, truth: dict[str, float] | None = None) -> None:
    """A table of the values, beside the true ones where they are known, then what the fit has to say."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for head in ("true", "value", "95 % interval")[0 if truth else 1 :]:
        table.add_column(head, justify="right")
    table.add_column("unit")
    table.add_column("")
    for name, unit, value, low, high, verdict in fit.rows():
        known = [f"{truth[name]:.6g}"] if truth else []
        word = f"[{COLORS[verdict.level]}]{verdict.level}[/]"
        table.add_row(escape(name), *known, f"{value:.6g}", f"{low:.6g} .. {high:.6g}", unit.strip("1"), word)
    console.print(table, highlight=False)
    for text in fit.undetermined_directions:
        console.print(f"  {escape(text)}", highlight=False, soft_wrap=True)
    agreed = f"; {fit.agreeing_starts} of {fit.starts} starts agree" if fit.starts > 1 else ""
    advice = f": {escape(fit.advice)}" if fit.advice else ""
    text = f"{fit.status}{advice}{agreed}; {fit.seconds:.0f} s; intervals from {fit.interval_method}"
    console.print(text, highlight=False, soft_wrap=True)

"""gradsim estimate: from a video to the physical parameters of its scene."""

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
from gradsim.cli.inputs import (
    CropOption,
    FpsOption,
    FramesOption,
    Inputs,
    SceneArgument,
    SizeOption,
    VideoArgument,
    load_inputs,
)
from gradsim.cli.options import JsonOption, SubstepsOption, ThreadsOption, set_threads
from gradsim.cli.progress import ProgressBar
from gradsim.fit.result import Fit, FitStep

COLORS = {
    "identifiable": "green",
    "weak": "yellow",
    "from the prior": "yellow",
    "at its bound": "red",
    "not identifiable": "red",
}


def estimate(
    scene: SceneArgument,
    video: VideoArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report and the numbers.")] = Path("out"),
    starts: Annotated[
        int, typer.Option(help="Number of searches: the first from the guesses, the others from random values.", min=1)
    ] = 1,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    substeps: SubstepsOption = None,
    frames: FramesOption = None,
    crop: CropOption = None,
    size: SizeOption = None,
    fps: FpsOption = None,
    threads: ThreadsOption = None,
    as_json: JsonOption = None,
) -> None:
    """Estimate the unknowns of a scene from a video of it.

    Prints each value in SI units with its 95 % interval and whether the video determines it. Writes `report.html`,
    `fit.json` and `fitted.yaml`. Ctrl-C stops the search and reports the best values so far.

        gradsim estimate bouncing_cube bounce.mp4 -o out/

        gradsim estimate scene.yaml video.mov --frames 12:72 --crop 0,280,720,720 --size 128x128 --starts 4
    """
    from gradsim.fit.estimate import estimate as fit_video

    set_threads(threads)
    inputs = load_inputs(scene, video, frames=frames, crop=crop, size=size, fps=fps)
    make_folder(out)
    announce_compilation()
    with ProgressBar("starting", len(inputs.video)) as bar:
        fit = fit_video(
            inputs.file.scene,
            inputs.video,
            fps=inputs.fps,
            substeps=substeps or inputs.substeps,
            integrator=inputs.file.time.integrator,
            starts=starts,
            seed=seed,
            progress=lambda stage: show_stage(bar, stage),
        )
    output = result_console(as_json)
    print_fit(fit, output)
    output.print(f"report: {_write_report(fit, out, inputs, video)}", highlight=False, soft_wrap=True)
    if as_json is not None:
        write_json(as_json, fit.as_dict())
    if fit.status == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _write_report(fit: Fit, folder: Path, inputs: Inputs, video: Path) -> Path:
    from gradsim.report.fit_page import write_report

    count, (height, width), codec = len(inputs.video), inputs.video.size, inputs.video.codec
    source = f"{video}: {count} frames of {height} x {width} pixels at {inputs.fps:g} fps, {codec}"
    command = shlex.join(["gradsim", *sys.argv[1:]])
    return write_report(fit, folder, title=inputs.file.path.stem, source=source, command=command)


def show_stage(bar: ProgressBar, stage: FitStep) -> None:
    """Shows a stage of a fit as progress: its name, number of frames and mean squared residual."""
    name = stage.name.removesuffix(f", {stage.frames} frames")
    bar.update(stage.frames, name, f"mean squared residual {stage.mean_square:.2e}")


def print_fit(fit: Fit, console: Console, truth: dict[str, float] | None = None) -> None:
    """Prints a table of the values, with the true ones if known, then directions that are not determined and status."""
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

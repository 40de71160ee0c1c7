"""gradsim estimate: from a video to the physical parameters of its scene."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gradsim.cli.console import announce_compilation, result_console, stderr
from gradsim.cli.exit_codes import INTERRUPTED
from gradsim.cli.files import make_folder, write_json
from gradsim.cli.inputs import (
    CropOption,
    FpsOption,
    FramesOption,
    OptionalSceneArgument,
    OptionalVideoArgument,
    SizeOption,
)
from gradsim.cli.many import fit_many
from gradsim.cli.options import (
    SEED_RANGE,
    JobsOption,
    JsonOption,
    RayOption,
    RoughlyOption,
    SubstepsOption,
    ThreadsOption,
    chosen_workers,
    parse_words,
    set_threads,
)
from gradsim.cli.progress import ProgressBar
from gradsim.cli.subject import Subject, VideoOptions, check_none, given_options, load_subject
from gradsim.fit.result import Fit, FitStep

COLORS = {
    "identifiable": "green",
    "weak": "yellow",
    "from the prior": "yellow",
    "at its bound": "red",
    "not identifiable": "red",
}


def estimate(
    scene: OptionalSceneArgument = None,
    video: OptionalVideoArgument = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the report and the numbers.")] = Path("out"),
    starts: Annotated[
        int, typer.Option(help="Number of searches: the first from the guesses, the others from random values.", min=1)
    ] = 1,
    seed: Annotated[int, typer.Option(help="Random seed.", **SEED_RANGE)] = 0,
    trial: Annotated[
        list[Path] | None,
        typer.Option(
            "--trial",
            help="A further video of the scene; may be repeated. All videos share the unknowns of the scene, except "
            "those that the scene file marks per_trial: true.",
        ),
    ] = None,
    trials: Annotated[
        Path | None,
        typer.Option(help="A manifest of several trials, .yaml or .csv, in place of a scene and a video; see below."),
    ] = None,
    many: Annotated[
        Path | None,
        typer.Option(
            help="A manifest whose trials are fitted one by one, each with values of its own, to one row each of "
            "fits.csv in the folder of --out. Fits that the folder already has are not repeated."
        ),
    ] = None,
    jobs: JobsOption = None,
    ray: RayOption = None,
    noise: Annotated[
        float | None, typer.Option(help="Standard deviation of a pixel; measured in the video by default.", min=1e-6)
    ] = None,
    robust: Annotated[
        float | None, typer.Option(help="Threshold of the Huber loss against shadows and occlusions.", min=1e-6)
    ] = None,
    mask: Annotated[
        Path | None, typer.Option(help="Weights of the pixels, a .png image or .npy array; black pixels are ignored.")
    ] = None,
    brightness: Annotated[bool, typer.Option("--brightness", help="Fit a brightness factor to each frame.")] = False,
    offset: Annotated[
        float | None,
        typer.Option(help="Estimate the time of the first frame, within this time [s] of the start.", min=0.0),
    ] = None,
    shutter: Annotated[
        str | None,
        typer.Option(
            help="Exposure of a frame: a fraction of the time between frames, such as 0.5, a time, such as 4ms or "
            "1/250 (seconds), or unknown, which estimates it."
        ),
    ] = None,
    readout: Annotated[
        str | None,
        typer.Option(
            help="Time from the first to the last row of a frame of a rolling shutter: a fraction of the time between "
            "frames, a time, such as 12ms, or unknown, which estimates it."
        ),
    ] = None,
    background: Annotated[
        str | None,
        typer.Option(
            help="Image of the empty scene, .png, .jpg or .npy, cropped and downsampled as the video; or auto, the "
            "median of the video's frames."
        ),
    ] = None,
    roughly: RoughlyOption = None,
    corrections: Annotated[
        int | None,
        typer.Option(
            help="Largest number of errors of the scene to estimate where it does not explain the video; 5 by default, "
            "0 for a prepared recording.",
            min=0,
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="File with the state of the search, in place of search.pt in the folder of --out; if it exists, the "
            "estimate resumes."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run of the same command, if there is one.")
    ] = False,
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
    `fit.json` and `fitted.yaml`. Ctrl-C stops the search and reports the best values so far. The state of the search is
    written after every iteration: after Ctrl-C, a crash or a power cut, `--resume` continues it to the same numbers.

        gradsim estimate bouncing_cube bounce.mp4 -o out/

        gradsim estimate prepared/ -o out/

        gradsim estimate scene.yaml video.mov --frames 12:72 --crop 0,280,720,720 --size 128x128 --starts 4

        gradsim estimate scene.yaml video.mov --roughly camera,start --robust 0.1 --checkpoint fit.pt

        gradsim estimate scene.yaml video.mov --background plate.png --shutter 0.5

        gradsim estimate scene.yaml a.mp4 --trial b.mp4 --trial c.mp4

        gradsim estimate --trials tosses.yaml -o out/

    A manifest lists trials that share the unknowns of a scene. Each has a `video`, or a table of `states` or `tracks`
    (.csv with columns such as `time`, `cube.position.x`; .npz with arrays by path), and optionally `name`, `fps`,
    `frames`, `crop`, `size`, `background`, `noise`, `robust`, `offset`, `shutter`, `readout`, `exposure` [s] and `set`,
    which gives values or guesses by path. Keys beside `trials` hold for all:

        scene: toss.yaml

        trials: [{video: a.mp4, set: {cube.velocity: [1, 2, 0]}}, {states: b.csv, noise: {position: 0.001}}]

    With `--many` the same manifest lists videos that have nothing in common:

        gradsim estimate --many rigid/fits.csv -o fits/ --jobs 2
    """
    from gradsim.fit.estimate import estimate as fit_video

    set_threads(threads)
    videos = [*([] if video is None else [video]), *(trial or [])]
    given = VideoOptions(frames, crop, size, fps, mask, background, offset, shutter, readout)
    options: dict[str, Any] = {
        "noise": noise,
        "robust": robust,
        "brightness": brightness,
        "roughly": parse_words(roughly),
        "starts": starts,
        "seed": seed,
    }
    if many is not None:
        alone = {"SCENE": scene, "VIDEO": videos or None, "--trials": trials, "--json": as_json, "--threads": threads}
        alone |= {"--checkpoint": checkpoint, "--resume": resume or None, **given_options(given)}
        check_none(alone, "does not apply to --many")
        options |= {"substeps": substeps, "corrections": corrections}
        fit_many(many, out, options, chosen_workers(jobs, ray))
        return
    check_none({"--jobs": jobs, "--ray": ray}, "applies to --many; one fit uses --threads")
    subject = load_subject(scene, videos, trials, given)
    make_folder(out)
    state = _state_file(checkpoint, out, resume=resume)
    announce_compilation()
    with ProgressBar("starting", subject.frames) as bar:
        fit = fit_video(
            list(subject.trials),
            mask=subject.mask,
            substeps=substeps or subject.substeps,
            integrator=subject.file.time.integrator,
            corrections=0 if corrections is None and subject.footage is not None else corrections,
            checkpoint=state,
            progress=lambda stage: show_stage(bar, stage),
            **options,
        )
    output = result_console(as_json)
    report = _write_report(fit, out, subject)  # before the output, which may be closed
    print_fit(fit, output)
    output.print_line(f"report: {report}")
    if as_json is not None:
        write_json(as_json, fit.as_dict())
    if fit.status == "interrupted":
        stderr.print_line("interrupted: add --resume to the same command to continue")
        raise typer.Exit(INTERRUPTED)
    if checkpoint is None:
        state.unlink(missing_ok=True)


def _state_file(checkpoint: Path | None, out: Path, *, resume: bool) -> Path:
    """Returns the file for the state of the search; that of another run in the folder is removed unless it resumes."""
    if checkpoint is not None:
        return checkpoint
    file = out / "search.pt"
    if not resume:
        file.unlink(missing_ok=True)
    return file


def _write_report(fit: Fit, folder: Path, subject: Subject) -> Path:
    from gradsim.report.fit_page import write_report

    command = shlex.join(["gradsim", *sys.argv[1:]])
    return write_report(
        fit, folder, title=subject.title, source=subject.source, command=command, footage=subject.footage
    )


def show_stage(bar: ProgressBar, stage: FitStep) -> None:
    """Shows a stage of a fit as progress: its name, number of frames and mean squared residual."""
    name = stage.name.removesuffix(f", {stage.frames} frames")
    bar.update(stage.frames, name, f"mean squared residual {stage.mean_square:.2e}")


def print_fit(fit: Fit, console: Console, truth: dict[str, float] | None = None) -> None:
    """Prints a table of the values, with the true ones if known, notes, and the status; a misfit comes first."""
    advice = f": {escape(fit.advice)}" if fit.advice else ""
    status = f"{fit.status}{advice}"
    if fit.doubtful:
        console.print(f"[bold red]{status}[/]", highlight=False, soft_wrap=True)
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
    for text in fit.notes():
        console.print(escape(text), highlight=False, soft_wrap=True)
    agreed = f"; {fit.agreeing_starts} of {fit.starts} starts agree" if fit.starts > 1 else ""
    first = fit.status if fit.doubtful else status
    text = f"{first}{agreed}; {fit.seconds:.0f} s; intervals from {fit.interval_method}"
    console.print(text, highlight=False, soft_wrap=True)

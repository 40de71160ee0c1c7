"""gradsim demo: a video with hidden parameters, and their estimates from the video."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from gradsim.cli.console import announce_compilation, console
from gradsim.cli.estimate import print_fit, show_stage
from gradsim.cli.exit_codes import INTERRUPTED
from gradsim.cli.files import make_folder
from gradsim.cli.options import SEED_RANGE, ThreadsOption, set_threads
from gradsim.cli.progress import ProgressBar
from gradsim.fit.result import Fit


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the video and the report.")] = Path("out"),
    seed: Annotated[int, typer.Option(help="Random seed of the hidden values.", **SEED_RANGE)] = 0,
    threads: ThreadsOption = None,
) -> None:
    """Record a bouncing cube with hidden parameters, then estimate them from the video.

    The hidden parameters are mass [kg], contact stiffness [N/m] and friction. Prints the true and the estimated values
    with 95 % intervals, and writes `demo.mp4`, `demo.yaml`, `report.html`, `fit.json` and `fitted.yaml`. Takes about a
    minute.

        gradsim demo -o out/
    """
    from gradsim.experiments.demo import RECORDED_SIZE, TIME, fit_demo, guessed_scene, hidden_values, record_demo

    begin = time.perf_counter()
    set_threads(threads)
    make_folder(out)
    video, scene = out / "demo.mp4", out / "demo.yaml"
    truth = hidden_values(seed)
    announce_compilation()
    console.print("[bold]A cube is pushed, bounces and slides[/]")
    with ProgressBar("recording", TIME.frames):
        record_demo(video, truth)
        guessed_scene().save(scene, time=TIME)
    height, width = RECORDED_SIZE
    console.print_line(f"video: {video}, {TIME.frames} frames of {height} x {width} pixels, H.264")
    with ProgressBar("fitting", TIME.frames) as bar:
        fit = fit_demo(video, lambda stage: show_stage(bar, stage))
    print_fit(fit, console, truth)
    console.print_line(f"report: {_write_report(fit, out, video, scene, truth)}")
    console.print(f"total time: {time.perf_counter() - begin:.0f} s", highlight=False)
    if fit.status == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _write_report(fit: Fit, folder: Path, video: Path, scene: Path, truth: dict[str, float]) -> Path:
    from gradsim.experiments.demo import COMPARED_SIZE, RECORDED_SIZE, TIME
    from gradsim.report.fit_page import write_report

    recorded, compared = (f"{height}x{width}" for height, width in (RECORDED_SIZE, COMPARED_SIZE))
    return write_report(
        fit,
        folder,
        title="Bouncing cube",
        source=f"{video}: {TIME.frames} frames at {TIME.fps:g} fps, H.264, downsampled from {recorded} to {compared}",
        command=f"gradsim estimate {scene} {video} --size {compared} -o {folder}",
        truth=truth,
    )

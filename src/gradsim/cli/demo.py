"""gradsim demo: hidden physics, a film of it, and the physics found again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from gradsim.cli.estimate import INTERRUPTED, print_fit, show_stage
from gradsim.cli.progress import Bar
from gradsim.cli.shared import ThreadsOption, announce_kernels, console, make_folder, set_threads


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the film and the report.")] = Path("out"),
    seed: Annotated[int, typer.Option(help="Of the hidden values.", min=0)] = 0,
    threads: ThreadsOption = None,
) -> None:
    """Film a bouncing cube with hidden parameters, then find its mass, elasticity and friction from the film alone."""
    from gradsim.experiments.demo import COMPARED, FILMED, TIME, fit_film, guessed_scene, hidden_values, make_film
    from gradsim.report.page import write_report

    begin = time.perf_counter()
    set_threads(threads)
    make_folder(out)
    film, description = out / "demo.mp4", out / "demo.yaml"
    truth = hidden_values(seed)
    announce_kernels()
    console.print("[bold]A cube is pushed, bounces and slides[/]")
    with Bar("filming", TIME.frames):
        make_film(film, truth)
        guessed_scene().save(description, time=TIME)
    console.print(f"filmed: {film}, {TIME.frames} frames of {FILMED[0]} x {FILMED[1]}, H.264", highlight=False)
    with Bar("fitting", TIME.frames) as bar:
        fit = fit_film(film, lambda stage: show_stage(bar, stage))
    print_fit(fit, console, truth)
    size, whole = f"{COMPARED[0]}x{COMPARED[1]}", f"{FILMED[0]}x{FILMED[1]}"
    page = write_report(
        fit,
        out,
        title="Bouncing cube",
        source=f"{film}: {TIME.frames} frames at {TIME.fps:g} fps, H.264, {whole} reduced to {size}",
        command=f"gradsim estimate {description} {film} --size {size} -o {out}",
        truth=truth,
    )
    console.print(f"report: {page}", highlight=False, soft_wrap=True)
    console.print(f"{time.perf_counter() - begin:.0f} s in all", highlight=False)
    if fit.status == "interrupted":
        raise typer.Exit(INTERRUPTED)

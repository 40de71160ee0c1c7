"""gradsim simulate: from a scene file to a video."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from gradsim.cli.progress import Bar
from gradsim.cli.shared import (
    Dtype,
    DtypeOption,
    JsonOption,
    SetOption,
    SizeOption,
    SubstepsOption,
    ThreadsOption,
    announce_kernels,
    make_folder,
    parsed_size,
    parsed_values,
    results,
    set_threads,
    steps_at,
    write_json,
)
from gradsim.scene.errors import VideoFileError
from gradsim.scene.integrators import Integrator
from gradsim.scene.scene import Scene

SIZE = (256, 256)
LEAST_STEPS, SPARE = 8, 1.5
CHUNK = 8  # frames that are rendered at once


def simulate(
    scene: Annotated[str, typer.Argument(help="A scene file, or the name of a ready scene, such as bouncing_cube.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The video: .mp4 .mov .avi .gif .npz, or a folder of PNG.")],
    size: SizeOption = None,
    values: SetOption = None,
    frames: Annotated[int | None, typer.Option(help="Instead of what the scene file says.", min=1)] = None,
    fps: Annotated[float | None, typer.Option(help="Instead of what the scene file says.", min=1e-3)] = None,
    substeps: SubstepsOption = None,
    quality: Annotated[float | None, typer.Option(help="The encoder's rate factor, lower is better.")] = None,
    dtype: DtypeOption = Dtype.FLOAT64,
    threads: ThreadsOption = None,
    as_json: JsonOption = None,
) -> None:
    """Simulate a scene and write its video.

    What is unknown in the scene takes its guess, or the value you `--set`.

        gradsim simulate bouncing_cube -o bounce.mp4

        gradsim simulate scene.yaml -o film.mp4 --size 512x512 --set cube.mass=2.5 --set cube.velocity=1,0,2
    """
    from gradsim.render.render import render
    from gradsim.scene.files.load import load_scene_file
    from gradsim.simulate.simulate import simulate as rollout
    from gradsim.video.save import ARRAYS, CODECS, save_video

    begin = time.perf_counter()
    set_threads(threads)
    pixels = SIZE if size is None else parsed_size(size)
    if out.suffix.lower() not in (*CODECS, *ARRAYS, ""):
        raise VideoFileError(str(out), f"extension '{out.suffix}'", f"needs one of {' '.join([*CODECS, *ARRAYS])}")
    file = load_scene_file(scene)
    guesses: dict[str, Any] = {path: unknown.guess.tolist() for path, unknown in file.scene.unknowns.items()}
    chosen = guesses | parsed_values(values or [])
    filled = file.scene.with_values(chosen)
    rate = file.time.fps if fps is None else fps
    count = file.time.frames if frames is None else frames
    integrator = file.time.integrator
    steps = substeps or steps_at(file.time, rate) or _stable_steps(filled, rate, integrator)
    announce_kernels(dtype)
    with Bar("simulating", count) as bar, torch.no_grad():
        trajectory = rollout(filled, frames=count, fps=rate, substeps=steps, integrator=integrator, dtype=dtype.torch)
        parts = []
        for first in range(0, count, CHUNK):
            parts.append(render(filled, trajectory, pixels, frames=slice(first, first + CHUNK)))
            bar.moved(min(first + CHUNK, count), "rendering")
    make_folder(out.parent)
    save_video(out, torch.cat(parts), rate, quality=quality)
    seconds = time.perf_counter() - begin
    what = f"{count} frames of {pixels[0]} x {pixels[1]} at {rate:g} fps, {steps} steps a frame, {seconds:.1f} s"
    results(as_json).print(f"written: {out} ({what})", highlight=False, soft_wrap=True)
    if as_json is not None:
        content = {"video": str(out), "frames": count, "fps": rate, "substeps": steps, "size": pixels, "values": chosen}
        write_json(as_json, {**content, "seconds": seconds})


def _stable_steps(scene: Scene, fps: float, integrator: Integrator) -> int:
    """Physics steps a frame that the scene bears, with something to spare."""
    from gradsim.simulate.stability import stable_dt

    return max(LEAST_STEPS, math.ceil(SPARE / (fps * stable_dt(scene, integrator))))

"""gradsim simulate: from a scene file to a video."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from gradsim.cli.console import announce_compilation, result_console
from gradsim.cli.files import make_folder, write_json
from gradsim.cli.inputs import substeps_at
from gradsim.cli.options import (
    Dtype,
    DtypeOption,
    JsonOption,
    SetOption,
    SubstepsOption,
    ThreadsOption,
    parse_size,
    parse_values,
    set_threads,
)
from gradsim.cli.progress import ProgressBar
from gradsim.scene.errors import VideoFileError
from gradsim.scene.memory import check_memory
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time

SIZE = (256, 256)  # [px]
CHUNK = 8  # frames rendered at once
COPIES = 3.0  # of the video that are held: its parts, all of them, and what the encoder reads


def simulate(
    scene: Annotated[str, typer.Argument(help="A scene file, or the name of a built-in scene, such as bouncing_cube.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The video: .mp4 .mov .avi .gif .npz, or a folder of PNG.")],
    size: Annotated[str | None, typer.Option(help="Height x width of the video in pixels; 256x256 by default.")] = None,
    values: SetOption = None,
    frames: Annotated[
        int | None, typer.Option(help="Number of frames; by default that of the scene file.", min=1)
    ] = None,
    fps: Annotated[
        float | None, typer.Option(help="Frames per second; by default those of the scene file.", min=1e-3)
    ] = None,
    substeps: SubstepsOption = None,
    quality: Annotated[
        float | None, typer.Option(help="Constant rate factor of the encoder, lower is better; 18 for H.264.")
    ] = None,
    dtype: DtypeOption = Dtype.FLOAT64,
    threads: ThreadsOption = None,
    as_json: JsonOption = None,
) -> None:
    """Simulate a scene and render it to a video.

    Unknowns of the scene take their guesses, or the values given by `--set`.

        gradsim simulate bouncing_cube -o bounce.mp4

        gradsim simulate scene.yaml -o video.mp4 --size 512x512 --set cube.mass=2.5 --set cube.velocity=1,0,2
    """
    from gradsim.scene.files.load import load_scene_file
    from gradsim.simulate.stability import stable_substeps
    from gradsim.video.save import ARRAYS, CODECS, save_video

    begin = time.perf_counter()
    set_threads(threads)
    pixels = SIZE if size is None else parse_size(size)
    if out.suffix.lower() not in (*CODECS, *ARRAYS, ""):
        raise VideoFileError(str(out), f"extension '{out.suffix}'", f"needs one of {' '.join([*CODECS, *ARRAYS])}")
    file = load_scene_file(scene)
    guesses: dict[str, Any] = {path: unknown.guess.tolist() for path, unknown in file.scene.unknowns.items()}
    chosen = guesses | parse_values(values or [], file.scene)
    filled = file.scene.with_values(chosen)
    rate = file.time.fps if fps is None else fps
    count = file.time.frames if frames is None else frames
    steps = substeps or substeps_at(file.time, rate) or stable_substeps(filled, rate, file.time.integrator)
    needed = COPIES * 3.0 * count * math.prod(pixels) * dtype.torch.itemsize
    value = f"{count} frames of {pixels[0]} x {pixels[1]} pixels"
    check_memory("--frames", value, needed, "give fewer frames (--frames) or smaller ones (--size)")
    announce_compilation(dtype.torch)
    video = _render_video(filled, Time(count, rate, steps, file.time.integrator), pixels, dtype.torch)
    make_folder(out.parent)
    save_video(out, video, rate, quality=quality)
    seconds = time.perf_counter() - begin
    text = f"{count} frames of {pixels[0]} x {pixels[1]} pixels at {rate:g} fps, {steps} substeps per frame"
    result_console(as_json).print_line(f"video: {out}, {text}, {seconds:.1f} s")
    if as_json is not None:
        content = {"video": str(out), "frames": count, "fps": rate, "substeps": steps, "size": pixels, "values": chosen}
        write_json(as_json, {**content, "seconds": seconds})


def _render_video(scene: Scene, time: Time, size: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    """Simulates a scene and renders it in chunks, with progress. Returns the video [T, H, W, 3]."""
    from gradsim.render.render import render
    from gradsim.simulate.simulate import simulate as rollout

    chunks = []
    with ProgressBar("simulating", time.frames) as bar, torch.no_grad():
        trajectory = rollout(
            scene,
            frames=time.frames,
            fps=time.fps,
            substeps=time.substeps or 1,
            integrator=time.integrator,
            dtype=dtype,
        )
        for first in range(0, time.frames, CHUNK):
            chunks.append(render(scene, trajectory, size, frames=slice(first, first + CHUNK)))
            bar.update(min(first + CHUNK, time.frames), "rendering")
    return torch.cat(chunks)

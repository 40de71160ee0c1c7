"""gradsim dataset: the paper's data sets of simulated videos."""

from __future__ import annotations

import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from gradsim.cli.console import announce_compilation, console, stderr
from gradsim.cli.exit_codes import INTERRUPTED
from gradsim.cli.files import make_folder
from gradsim.cli.options import SEED_RANGE, JobsOption, RayOption, chosen_workers
from gradsim.cli.progress import ProgressBar
from gradsim.parallel import Workers

dataset = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Make the paper's data sets of simulated videos. An interrupted run is resumed by the same command.",
)


class Codec(str, Enum):
    """Compression of the videos."""

    FFV1 = "ffv1"
    H264 = "h264"


OutOption = Annotated[Path, typer.Option("--out", "-o", help="Folder; videos that it already has are not made again.")]
SeedOption = Annotated[int, typer.Option(help="Random seed.", **SEED_RANGE)]
SideOption = Annotated[int, typer.Option("--size", help="Height and width of the frames in pixels.", min=8)]
FramesOption = Annotated[int | None, typer.Option(help="Number of frames; by default the whole motion.", min=2)]
CodecOption = Annotated[Codec, typer.Option(help="ffv1 keeps the 8-bit values exactly; h264 is smaller.")]


@dataset.command()
def rigid(
    out: OutOption,
    videos: Annotated[int, typer.Option(help="Number of videos in the data set.", min=1)] = 10_000,
    seed: SeedOption = 0,
    side: SideOption = 128,
    frames: FramesOption = None,
    codec: CodecOption = Codec.FFV1,
    jobs: JobsOption = None,
    ray: RayOption = None,
) -> None:
    """Fourteen objects that are thrown to the ground: density and four contact parameters (section G of the paper).

    Of the first 1,000 videos 800 are for training and 200 for testing. docs/dataset.md describes the files.

        gradsim dataset rigid --videos 1000 -o rigid/ --jobs 2

        gradsim dataset rigid -o /shared/rigid --ray auto
    """
    _make("rigid", out, videos, seed, side, frames, codec, chosen_workers(jobs, ray))


@dataset.command()
def deformable(
    out: OutOption,
    videos: Annotated[int, typer.Option(help="Number of videos in the data set.", min=1)] = 100,
    seed: SeedOption = 0,
    side: SideOption = 128,
    frames: FramesOption = None,
    codec: CodecOption = Codec.FFV1,
    jobs: JobsOption = None,
    ray: RayOption = None,
) -> None:
    """Hanging beams, bouncing soft balls and flying cloth: material parameters and initial velocities.

    gradsim dataset deformable -o deformable/ --jobs 2
    """
    _make("deformable", out, videos, seed, side, frames, codec, chosen_workers(jobs, ray))


def _make(
    kind: str, out: Path, videos: int, seed: int, side: int, frames: int | None, codec: Codec, workers: Workers
) -> None:
    from gradsim.datasets import Settings, generate

    settings = Settings(kind, seed, side, codec.value, frames)
    make_folder(out)
    announce_compilation()
    begin = time.perf_counter()
    try:
        with ProgressBar("recording", videos, unit="videos") as bar:
            new = generate(out, videos, settings, workers, lambda done: bar.update(done, "recording"))
    except KeyboardInterrupt:
        stderr.print_line(f"interrupted: run the same command to resume; finished videos are kept in {out}")
        raise typer.Exit(INTERRUPTED) from None
    seconds = time.perf_counter() - begin
    speed = f", {new / seconds:.1f} videos/s" if new else ""
    console.print_line(f"{out}: {videos} videos, {new} new in {seconds:.0f} s{speed}")

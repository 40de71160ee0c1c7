"""What the commands share: where they print, and the options that mean the same everywhere."""

from __future__ import annotations

import json
import math
import re
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from gradsim.bridge import kernels_cached
from gradsim.scene.atomic import write_whole
from gradsim.scene.errors import InvalidInput
from gradsim.scene.time import Time

console = Console()
aside = Console(stderr=True)  # progress and errors: results alone go to the standard output


class Dtype(str, Enum):
    """Precision of the computation."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"

    @property
    def torch(self) -> torch.dtype:
        return torch.float32 if self is Dtype.FLOAT32 else torch.float64


def parsed_size(text: str) -> tuple[int, int]:
    """Height and width from "128x128", or from "128"."""
    found = re.fullmatch(r"(\d+)(?:[xX×](\d+))?", text.strip())
    if found is None or not int(found[1]) or (found[2] and not int(found[2])):
        raise InvalidInput("--size", text, "must be height x width in pixels, such as 128x128")
    return int(found[1]), int(found[2] or found[1])


def parsed_frames(text: str) -> tuple[int, int | None]:
    """The first frame and the one behind the last, from "10:60" or "10:"."""
    found = re.fullmatch(r"(\d*):(\d*)", text.strip())
    if found is None:
        raise InvalidInput("--frames", text, "must be start:stop, such as 0:60, or 10: for all from the tenth on")
    return int(found[1] or 0), int(found[2]) if found[2] else None


def parsed_crop(text: str) -> tuple[int, int, int, int]:
    """Top, left, height and width from "0,0,720,720"."""
    found = re.fullmatch(r"(\d+),(\d+),(\d+),(\d+)", text.replace(" ", ""))
    if found is None:
        raise InvalidInput("--crop", text, "must be top,left,height,width in pixels, such as 0,280,720,720")
    top, left, height, width = (int(number) for number in found.groups())
    return top, left, height, width


def parsed_values(texts: list[str]) -> dict[str, Any]:
    """Values by path, from "cube.mass=2.5" or "cube.velocity=1,0,2"."""
    values: dict[str, Any] = {}
    for text in texts:
        path, _, numbers = text.partition("=")
        try:
            listed = [float(number) for number in numbers.split(",")]
        except ValueError:
            valid = "must be path=value, such as cube.mass=2.5 or cube.velocity=1,0,2"
            raise InvalidInput("--set", text, valid) from None
        values[path.strip()] = listed[0] if len(listed) == 1 else listed
    return values


def steps_at(times: Time, fps: float) -> int | None:
    """Physics steps a frame of a video, from those a scene file gives at its own rate."""
    return None if times.substeps is None else max(1, math.ceil(times.substeps * times.fps / fps))


def results(as_json: Path | None) -> Console:
    """Where results are shown: aside if the standard output is to hold JSON alone."""
    return aside if as_json is not None and str(as_json) == "-" else console


def set_threads(count: int | None) -> None:
    if count is not None:
        torch.set_num_threads(count)


JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Also write the results to this file; - for the standard output.")
]
DtypeOption = Annotated[Dtype, typer.Option(help="Precision: float32 is faster, float64 is what estimates need.")]
ThreadsOption = Annotated[int | None, typer.Option(help="Threads; all cores if not given.", min=1)]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="A value for a quantity of the scene, path=value; may be repeated."),
]
SubstepsOption = Annotated[
    int | None, typer.Option(help="Physics steps a frame; enough to be stable if not given.", min=1)
]
SizeOption = Annotated[str | None, typer.Option(help="Height x width of the pictures in pixels, such as 128x128.")]


def write_json(path: Path, content: object) -> None:
    text = json.dumps(content, indent=2) + "\n"
    if str(path) == "-":
        typer.echo(text, nl=False)
        return
    make_folder(path.parent)
    write_whole(path, lambda target: target.write_text(text), InvalidInput)
    aside.print(f"written: {path}", soft_wrap=True, highlight=False)


def make_folder(folder: Path) -> None:
    """Make a folder, with those it lies in."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("output", str(folder), f"no folder can be made there ({error.strerror})") from error


def announce_kernels(dtype: Dtype = Dtype.FLOAT64) -> None:
    """Say that kernels will be compiled, where Warp's cache has none of this precision."""
    if not kernels_cached(dtype.torch):
        aside.print("compiling kernels: the first use on this machine takes about half a minute longer", soft_wrap=True)

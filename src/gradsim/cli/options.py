"""Options that several commands share, and how their values are parsed."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from gradsim.fit.nuisances.nuisance import GROUPS
from gradsim.parallel import Workers
from gradsim.scene.errors import InvalidInput, OutOfRange
from gradsim.scene.random_seed import LARGEST_SEED
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate
from gradsim.scene.unknown import Unknown, unknown

WHOLE = r"\d{1,18}"  # of any size that can be meant; Python refuses to read thousands of digits
MOST_THREADS = 1024  # of which an operating system can start a few thousand in all
FRAME_TIME = re.compile(r"(?P<number>\d*\.?\d+(?:e-?\d+)?)(?:/(?P<divisor>\d*\.?\d+))?(?P<unit>s|ms|)")


class Dtype(str, Enum):
    """Precision of the computation."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"

    @property
    def torch(self) -> torch.dtype:
        return torch.float32 if self is Dtype.FLOAT32 else torch.float64


JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Also write the results to this JSON file; - for the standard output.")
]
DtypeOption = Annotated[Dtype, typer.Option(help="Precision: float32 is faster; estimates need float64.")]
ThreadsOption = Annotated[
    int | None, typer.Option(help="Number of threads; by default one per core.", min=1, max=MOST_THREADS)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Value of a scene quantity in SI units, path=value, such as cube.mass=2.5; may be repeated.",
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(help="Number of processes on this machine, one thread each; 1 by default.", min=1, max=MOST_THREADS),
]
RayOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on a Ray cluster instead: auto for the one of this machine, or its address, such as 10.0.0.1:6379. "
        "Needs the extra ray.",
    ),
]
SubstepsOption = Annotated[
    int | None,
    typer.Option(
        help="Physics steps per frame; by default those of the scene file, or as many as stability requires.", min=1
    ),
]

SEED_RANGE: dict[str, Any] = {"min": 0, "max": LARGEST_SEED}

RoughlyOption = Annotated[
    str | None,
    typer.Option(
        help=f"What is known only roughly, such as camera,start: any of {', '.join(GROUPS)}. Its errors are estimated "
        "too and widen the intervals."
    ),
]


def chosen_workers(jobs: int | None, ray: str | None) -> Workers:
    """Returns the workers of the options --jobs and --ray."""
    if jobs is not None and ray is not None:
        raise InvalidInput("--jobs", jobs, "does not apply to --ray: the cluster uses all of its cores")
    return Workers(jobs or 1, ray)


def parse_words(text: str | None) -> tuple[str, ...]:
    """Parses words with commas between them."""
    return () if text is None else tuple(word.strip() for word in text.split(",") if word.strip())


def unknown_offset(width: float | None, *, per_trial: bool = False) -> Unknown | None:
    """Returns the unknown time from the start of the scene to the first frame, within +-width [s]; None if known."""
    return None if not width else unknown(0.0, low=-width, high=width, per_trial=per_trial)


def frame_time(name: str, given: str | float | None, fps: float) -> float | Unknown:
    """Returns a time within a frame [s] from "0.5" (of a frame), "4ms", "1/250" (seconds) or "unknown"; 0 for None."""
    if isinstance(given, str) and given.strip() == "unknown":
        return unknown(0.25 / fps, low=0.0, high=1.0 / fps)
    if given is None:
        return 0.0
    match = FRAME_TIME.fullmatch(str(given).replace(" ", ""))
    if match is None or (match["divisor"] and not float(match["divisor"])):
        raise InvalidInput(name, given, "must be a fraction of a frame, such as 0.5, or a time such as 4ms or 1/250")
    number = float(match["number"]) / float(match["divisor"] or 1.0)
    unit = match["unit"] or ("s" if match["divisor"] else "")  # 1/250 is a time, as on the dial of a camera
    time = number * {"": 1.0 / fps, "s": 1.0, "ms": 1e-3}[unit]
    if time > (1.0 + 1e-9) / fps:
        raise OutOfRange(name, given, f"must not exceed one frame, {1e3 / fps:.3g} ms")
    return time


def parse_size(text: str) -> tuple[int, int]:
    """Parses height and width from "128x128" or "128"."""
    match = re.fullmatch(rf"({WHOLE})(?:[xX×]({WHOLE}))?", text.strip())
    if match is None or not int(match[1]) or (match[2] and not int(match[2])):
        raise InvalidInput("--size", text, "must be height x width in pixels, such as 128x128")
    return int(match[1]), int(match[2] or match[1])


def parse_frames(text: str) -> tuple[int, int | None]:
    """Parses start and stop from "10:60" or "10:". The stop is exclusive."""
    match = re.fullmatch(rf"({WHOLE})?:({WHOLE})?", text.strip())
    if match is None:
        raise InvalidInput("--frames", text, "must be start:stop, such as 0:60, or 10: for all frames from 10 on")
    return int(match[1] or 0), int(match[2]) if match[2] else None


def parse_crop(text: str) -> tuple[int, int, int, int]:
    """Parses top, left, height and width from "0,0,720,720"."""
    match = re.fullmatch(rf"({WHOLE}),({WHOLE}),({WHOLE}),({WHOLE})", text.replace(" ", ""))
    if match is None:
        raise InvalidInput("--crop", text, "must be top,left,height,width in pixels, such as 0,280,720,720")
    top, left, height, width = (int(number) for number in match.groups())
    return top, left, height, width


def parse_values(texts: list[str], scene: Scene) -> dict[str, Any]:
    """Parses values of a scene by path, from "cube.mass=2.5" or "cube.velocity=1,0,2"."""
    shapes = {path: spec.shape for path, _, spec in scene.quantities()}
    values: dict[str, Any] = {}
    for text in texts:
        path, _, numbers = text.partition("=")
        try:
            listed = [float(number) for number in numbers.split(",")]
        except ValueError:
            valid = "must be path=value, such as cube.mass=2.5 or cube.velocity=1,0,2"
            raise InvalidInput("--set", abbreviate(text), valid) from None
        if len(listed) > 1 and shapes.get(path.strip()) == ():
            raise InvalidInput("--set", abbreviate(text), "needs one number")
        values[path.strip()] = listed[0] if len(listed) == 1 else listed
    return values


def set_threads(count: int | None) -> None:
    """Sets the number of threads, if one is given."""
    if count is not None:
        torch.set_num_threads(count)

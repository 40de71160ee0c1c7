"""gradsim prepare: from an ordinary video to a scene that can be estimated."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from gradsim.cli.console import console, stderr
from gradsim.cli.inputs import FpsOption
from gradsim.cli.options import parse_frames
from gradsim.footage.choices import Choices
from gradsim.scene.errors import InvalidInput

if TYPE_CHECKING:
    from gradsim.footage.prepare import Prepared


def prepare(
    video: Annotated[Path, typer.Argument(help="A video of one moving object: .mp4 .mov .m4v .avi .mkv .webm .gif.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("prepared"),
    pick: Annotated[
        bool, typer.Option("--pick", help="Choose object, known length and floor on a local page in the browser.")
    ] = False,
    object_at: Annotated[
        str | None, typer.Option("--object", help="A pixel of the object, x,y, or x,y,frame; found automatically.")
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(help="Ends of a known length in the plane of the motion [px] and the length [m]: x1,y1,x2,y2,m."),
    ] = None,
    diameter: Annotated[float | None, typer.Option(help="Diameter of the object [m], in place of --scale.")] = None,
    floor: Annotated[
        str | None, typer.Option(help="Line on which the object lands: x1,y1,x2,y2 [px]; found from the motion.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="A rectangle to ignore: x1,y1,x2,y2 [px]; may be repeated.")
    ] = None,
    motion: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="Kind of motion: flight, bounce, pendulum, double_pendulum, slide, oscillation; chosen by the path.",
        ),
    ] = None,
    gravity: Annotated[
        float | None,
        typer.Option(help="Known gravity [m/s^2]. By default it is estimated if a length is known, and 9.81 if not."),
    ] = None,
    mass: Annotated[float | None, typer.Option(help="Mass of the object [kg], for drag and for stiffnesses.")] = None,
    level: Annotated[
        bool, typer.Option("--level", help="The camera was levelled: its pitch is below a few degrees.")
    ] = False,
    lens: Annotated[Path | None, typer.Option(help="Calibration of the lens, from `gradsim calibrate`.")] = None,
    rolling_shutter: Annotated[
        float, typer.Option(help="Time from the exposure of the first row of a frame to that of the last [s].", min=0.0)
    ] = 0.0,
    frames: Annotated[str | None, typer.Option(help="Frames to use, start:stop. All by default.")] = None,
    fps: FpsOption = None,
) -> None:
    """Prepare an ordinary video for an estimate: find and track the moving object, and draft a scene.

    Writes the scene with its unknowns and priors (`scene.yaml`), the tracked centres (`tracks.csv`), the background,
    masks, and `preview.mp4`, which shows what was found. Look at the preview, then estimate:

        gradsim prepare throw.mp4 --scale 272,446,273,47,1.0 -o prepared/

        gradsim estimate prepared/ -o out/

    The camera must stand still. One known length is enough: a ruler in the plane of the motion (`--scale`) or the size
    of the object (`--diameter`). Pixels are counted from the upper left corner of the upright picture.
    """
    from gradsim.footage.lens_files import load_lens
    from gradsim.footage.prepare import prepare as prepare_recording
    from gradsim.footage.prepared_files import PREVIEW, check_replaceable, write_prepared
    from gradsim.footage.recording import open_recording

    point, frame = (None, None) if object_at is None else _object(object_at)
    check_replaceable(out)
    choices = Choices(
        object=point,
        object_frame=frame,
        scale=None if scale is None else _numbers("--scale", scale, "x1,y1,x2,y2,length, such as 9,40,9,440,1.0"),
        diameter=diameter,
        floor=None if floor is None else _numbers("--floor", floor, "x1,y1,x2,y2, such as 0,460,640,462"),
        ignore=tuple(_numbers("--ignore", text, "x1,y1,x2,y2, such as 0,0,200,480") for text in ignore or ()),
        motion=motion,
        gravity=gravity,
        mass=mass,
        level=level,
        rolling_shutter=rolling_shutter,
    )
    start, stop = (0, None) if frames is None else parse_frames(frames)
    selected = slice(start, stop)
    stderr.print_line(f"reading {video}")
    recording = open_recording(video, frames=selected, fps=fps)
    if pick:
        from gradsim.footage.motions.registry import MOTIONS
        from gradsim.footage.picking import pick_choices

        choices = pick_choices(recording, choices, motions={motion.name: motion.text for motion in MOTIONS.values()})
    stderr.print_line(f"looking for a moving object in {len(recording)} frames")
    prepared = prepare_recording(recording, choices, lens=None if lens is None else load_lens(lens))
    write_prepared(prepared, out)
    _print(prepared)
    console.print_line(f"preview: {out / PREVIEW}")
    console.print_line(f"next: gradsim estimate {out} -o out/")


def _print(prepared: Prepared) -> None:
    """Prints what was found, and what is uncertain."""
    for line in prepared.findings:
        console.print_line(line)
    for note in prepared.notes:
        console.print(f"[yellow]note:[/] {escape(note)}", highlight=False, soft_wrap=True)


def _object(text: str) -> tuple[tuple[float, float], int | None]:
    numbers = _floats("--object", text, "x,y or x,y,frame, such as 320,240")
    if len(numbers) not in (2, 3) or not all(map(math.isfinite, numbers)):
        raise InvalidInput("--object", text, "must be x,y or x,y,frame, such as 320,240")
    return (numbers[0], numbers[1]), int(numbers[2]) if len(numbers) == 3 else None


def _numbers(name: str, text: str, example: str) -> Any:
    """Parses as many numbers as the example names."""
    numbers = _floats(name, text, example)
    names = example.partition(", such")[0].split(",")
    if len(numbers) != len(names):
        raise InvalidInput(name, text, f"must be {example}")
    return numbers


def _floats(name: str, text: str, example: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(name, text, f"must be {example}") from None

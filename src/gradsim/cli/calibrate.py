"""gradsim calibrate: the lens of a camera, from a video or a folder of pictures of a board."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradsim.cli.console import result_console
from gradsim.cli.files import make_folder, write_json
from gradsim.cli.options import WHOLE, JsonOption, parse_frames
from gradsim.cli.progress import ProgressBar
from gradsim.scene.errors import InvalidInput

if TYPE_CHECKING:
    from gradsim.footage.boards import Board
    from gradsim.footage.calibration import Calibration

STAGE = "looking for the board"
SMALL_COVERAGE = 0.5  # part of the picture that boards should cover


def calibrate(
    source: Annotated[Path, typer.Argument(metavar="VIDEO_OR_FOLDER", help="A video, or a folder of .png or .jpg.")],
    board: Annotated[
        str,
        typer.Option(
            help="Columns x rows of INNER corners, where four squares meet: 9x6 for 10 x 7 squares. With --charuco "
            "columns x rows of SQUARES."
        ),
    ],
    square: Annotated[float, typer.Option(help="Side of a square [m], measured on the print.")],
    charuco: Annotated[
        float | None, typer.Option(metavar="MARKER", help="The board is a ChArUco board with markers of this side [m].")
    ] = None,
    dictionary: Annotated[
        str, typer.Option(help="Dictionary of the markers of a ChArUco board, such as 5X5_100.")
    ] = "4X4_50",
    legacy: Annotated[
        bool, typer.Option("--legacy", help="The ChArUco board was made by OpenCV before version 4.6.")
    ] = False,
    frames: Annotated[str | None, typer.Option(help="Frames to examine, start:stop. All by default.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the lens: .yaml.")] = Path("lens.yaml"),
    as_json: JsonOption = None,
) -> None:
    """Calibrate a lens: focal length, principal point and distortion, with standard deviations.

    Print a chessboard, glue it to something flat, and record it for half a minute with the settings (resolution, zoom,
    stabilization off) of the later videos. Bring it near, so that it fills half of the picture, to all corners, and
    tilt it by 30 to 45 degrees to all sides. Move slowly: blurred pictures are left out.

        gradsim calibrate board.mp4 --board 9x6 --square 0.025 -o lens.yaml

        gradsim calibrate pictures/ --board 7x5 --square 0.03 --charuco 0.022 --dictionary 5X5_100
    """
    from gradsim.footage.calibration import MAX_EXAMINED, calibrate_lens
    from gradsim.footage.lens_files import check_suffix, save_lens
    from gradsim.footage.pictures import open_pictures

    check_suffix(out)
    own = _board(board, square, charuco, dictionary, legacy)
    selected = None if frames is None else slice(*parse_frames(frames))
    total = len(open_pictures(source, frames=selected).spread(MAX_EXAMINED))
    with ProgressBar(STAGE, total, unit="pictures") as bar:
        calibration = calibrate_lens(source, own, frames=selected, progress=lambda count: bar.update(count, STAGE))
    make_folder(out.parent)
    save_lens(calibration.lens, out)
    console = result_console(as_json)
    for line in summary(calibration):
        console.print_line(line)
    console.print_line(f"lens: {out}")
    if as_json is not None:
        write_json(as_json, _content(calibration, out))


def summary(calibration: Calibration) -> list[str]:
    """Returns what the calibration found, line by line."""
    lens, sd, found = calibration.lens, calibration.lens.sd, calibration.found
    used = f"{len(calibration.views)} used, {len(calibration.rejected)} left out as blurred or misread"
    values = {name: f"{name} {getattr(lens, name):.4g} ± {sd[name]:.1g}" for name in ("k1", "k2", "p1", "p2", "k3")}
    if not lens.k3:
        values["k3"] = "k3 0 (not needed)"
    lines = [
        f"pictures: board found in {len(found.views)} of {found.examined}; {used}",
        f"size: {lens.size[0]} x {lens.size[1]} pixels (H x W)",
        f"focal length: fx {lens.fx:.2f} ± {sd['fx']:.2f} px, fy {lens.fy:.2f} ± {sd['fy']:.2f} px",
        f"field of view: {lens.fov.value:.3f} ± {lens.fov.sd:.3f} degrees, vertical",
        f"principal point: {lens.cx:.2f} ± {sd['cx']:.2f}, {lens.cy:.2f} ± {sd['cy']:.2f} px",
        f"distortion: {', '.join(values.values())}",
        f"reprojection error: {calibration.error:.3f} px",
    ]
    if calibration.covered < SMALL_COVERAGE:
        part = f"{100 * calibration.covered:.0f} % of the picture"
        lines.append(f"unsure: the boards cover only {part}; distortion outside of it is extrapolated")
    return lines


def _board(board: str, square: float, charuco: float | None, dictionary: str, legacy: bool) -> Board:
    from gradsim.footage.boards import CharucoBoard, Chessboard

    match = re.fullmatch(rf"({WHOLE})[xX×]({WHOLE})", board.strip())
    if match is None:
        raise InvalidInput("--board", board, "must be columns x rows, such as 9x6")
    columns, rows = int(match[1]), int(match[2])
    if charuco is None:
        return Chessboard(columns, rows, square)
    return CharucoBoard(columns, rows, square, charuco, dictionary, legacy)


def _content(calibration: Calibration, out: Path) -> dict[str, Any]:
    lens = calibration.lens
    names = ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3")
    return {
        "lens": str(out),
        "size": lens.size,
        "values": {name: getattr(lens, name) for name in names},
        "sd": lens.sd,
        "fov": {"value": lens.fov.value, "sd": lens.fov.sd},
        "reprojection_error": calibration.error,
        "covered": calibration.covered,
        "found": [view.number for view in calibration.found.views],
        "used": [view.number for view in calibration.views],
        "rejected": [view.number for view in calibration.rejected],
    }

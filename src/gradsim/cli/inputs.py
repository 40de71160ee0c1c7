"""A scene file and a video of it, for commands that compare the two."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradsim.cli.shared import Dtype, aside, parsed_crop, parsed_frames, parsed_size
from gradsim.scene.errors import InvalidInput, SceneFileError
from gradsim.scene.files.load import SceneFile, load_scene_file
from gradsim.video.load import load_video
from gradsim.video.video import Video

SHORTER = 128  # [px], of the shorter side of pictures that are compared, unless a size is given
RANGE = (64, 160)  # [px], of that side, in which one is looked for that can be halved often
HALVES = 8  # what the sides of such pictures are divided by

UnknownsArgument = Annotated[str, typer.Argument(help="A scene file with unknowns, or the name of a ready scene.")]
SeenArgument = Annotated[Path, typer.Argument(help="The video: .mp4 .mov .avi .gif .npz .npy, or a folder of PNG.")]
FramesOption = Annotated[
    str | None, typer.Option(help="Frames of the video, start:stop; the scene starts with the first of them.")
]
CropOption = Annotated[str | None, typer.Option(help="Part of the pictures: top,left,height,width in pixels.")]
FpsOption = Annotated[
    float | None, typer.Option(help="Frames a second, where the video does not tell or tells wrong.", min=1e-3)
]


def load_seen(
    scene: str,
    video: Path,
    *,
    frames: str | None,
    crop: str | None,
    size: str | None,
    fps: float | None,
    dtype: Dtype = Dtype.FLOAT64,
) -> tuple[SceneFile, Video, float]:
    """The scene, the video in pictures of a size that can be compared quickly, and its rate."""
    start, stop = (0, None) if frames is None else parsed_frames(frames)
    window = None if crop is None else parsed_crop(crop)
    pixels = None if size is None else parsed_size(size)
    file = load_scene_file(scene)
    if not file.scene.unknowns:
        remedy = "mark what is to be found: mass: {unknown: 2.0, low: 1.0, high: 10.0}"
        raise SceneFileError(str(file.path), None, "unknowns", "none", remedy)
    if file.scene.camera is None:
        remedy = "a video is seen by a camera: give the scene one, camera: {eye: [0, 1, 4], target: [0, 0, 0]}"
        raise SceneFileError(str(file.path), None, "camera", "missing", remedy)
    chosen = slice(start, stop)
    if pixels is None:
        first = load_video(video, frames=slice(start, start + 1), crop=window)
        pixels = comparable(first.size)
        if pixels != first.size:
            shown = " x ".join(map(str, pixels))
            aside.print(f"pictures of {first.size[0]} x {first.size[1]} are reduced to {shown}", highlight=False)
    seen = load_video(video, frames=chosen, crop=window, size=pixels, fps=fps, dtype=dtype.torch)
    if len(seen) < 2:
        raise InvalidInput("video", f"{len(seen)} frame", "motion needs at least two frames")
    return file, seen, fps or seen.fps or file.time.fps


def comparable(size: tuple[int, int]) -> tuple[int, int]:
    """The size to reduce pictures to: of the same shape, about 128 pixels high, best of sides that can be halved."""
    height, width = size
    shorter, longer = min(size), max(size)
    if shorter <= SHORTER:
        return size
    found = []
    for side in range(RANGE[0], min(RANGE[1], shorter) + 1, HALVES):
        other = round(side * longer / shorter)
        if other % HALVES == 0 and abs(side * longer / shorter - other) < 0.5:
            found.append((abs(side - SHORTER), side, other))
    _, side, other = min(found, default=(0, SHORTER, round(SHORTER * longer / shorter)))
    return (side, other) if height <= width else (other, side)

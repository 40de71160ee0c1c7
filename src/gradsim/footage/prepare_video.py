"""`gs.prepare`: from a video file to a scene with unknowns, in one call."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gradsim.footage.choices import Box, Choices
from gradsim.footage.lens import Lens
from gradsim.footage.lens_files import load_lens
from gradsim.footage.prepare import Prepared
from gradsim.footage.prepare import prepare as prepare_recording
from gradsim.footage.recording import open_recording
from gradsim.video.load import Frames


def prepare(
    video: str | os.PathLike[str],
    *,
    scale: tuple[float, float, float, float, float] | None = None,
    diameter: float | None = None,
    object: tuple[float, float] | None = None,
    object_frame: int | None = None,
    floor: Box | None = None,
    ignore: Sequence[Box] = (),
    motion: str | None = None,
    gravity: float | None = None,
    mass: float | None = None,
    level: bool = False,
    lens: Lens | str | os.PathLike[str] | None = None,
    rolling_shutter: float = 0.0,
    frames: Frames = None,
    fps: float | None = None,
) -> Prepared:
    """Finds the moving object of a video, measures its path, and drafts a scene that moves like it.

    `gs.estimate(prepared)` estimates its unknowns, `prepared.save(folder)` writes a folder for `gradsim estimate`, and
    `print(prepared)` shows what was found. Pixels are counted from the upper left corner of the upright picture.

    Example:
        `gs.prepare("throw.mp4", scale=(272, 446, 273, 47, 1.0))`

    Args:
        video: A video file of one moving object, or of a double pendulum, recorded by a still camera.
        scale: Ends of a known length in the plane of the motion and the length: x1, y1, x2, y2 [px], [m].
        diameter: Diameter of the object [m], in place of `scale`.
        object: A pixel of the object (x, y) [px], if several things move.
        object_frame: Frame in which `object` was picked; any one if None.
        floor: Line on which the object lands, x1, y1, x2, y2 [px].
        ignore: Rectangles in which nothing is looked for, each x1, y1, x2, y2 [px].
        motion: "flight", "bounce", "pendulum", "double_pendulum", "slide" or "oscillation"; chosen by the path if
            None.
        gravity: Known gravity [m/s^2]. If None, it is estimated where a length is known and 9.81 otherwise.
        mass: Mass of the object [kg].
        level: Whether the camera was levelled, so that pitch and roll are below a few degrees.
        lens: Calibrated lens, or the file that `gradsim calibrate` wrote.
        rolling_shutter: Time from the exposure of the first row of a frame to that of the last [s].
        frames: Frames to use, a slice or a pair (start, stop); all if None.
        fps: Frames per second that replace the times in the file, such as the recording rate of slow motion.

    Raises:
        VideoFileError: The file cannot be read.
        MovingCamera: The camera moves.
        SceneCut: The video has a cut, or frames are missing.
        NoMovingObject: Nothing moves, or nothing at the chosen place.
        AmbiguousObject: Two objects move alike, and none was chosen.
        UnexplainedMotion: No kind of motion explains the path, or the one that does is impossible.
    """
    choices = Choices(
        object=object,
        object_frame=object_frame,
        scale=scale,
        diameter=diameter,
        floor=floor,
        ignore=tuple(ignore),
        motion=motion,
        gravity=gravity,
        mass=mass,
        level=level,
        rolling_shutter=rolling_shutter,
    )
    known_lens = lens if lens is None or isinstance(lens, Lens) else load_lens(lens)
    return prepare_recording(open_recording(video, frames=frames, fps=fps), choices, lens=known_lens)

"""The focal length of a camera without a calibration: from the metadata of the file, or what phones usually have.

Metadata state the focal length that would give the same field of view on a sensor of 36 mm x 24 mm (the 35 mm format),
rounded to millimetres. Photographs relate it to the diagonal (CIPA DCG-001). Videos show less than photographs: 16:9
cuts the sensor, and stabilization crops the picture by up to a fifth.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from gradsim.footage.measured import Measured
from gradsim.scene.arguments import checked_path
from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import VideoFileError
from gradsim.video.decode import decode_timed_frames, open_video
from gradsim.video.load import IMAGES, check_not_empty

SENSOR = (24.0, 36.0)  # height and width that equivalent focal lengths refer to [mm]
PHOTO_SD = 0.03  # relative: rounding to millimetres, and makers that relate it to the width
VIDEO_SD = 0.08  # relative: the crop of stabilization is unknown
DIAGONAL_FOV = 70.0  # usual diagonal field of view of phone videos [degrees]; most have 65 to 75
PRIOR_SD = 0.15  # relative deviation of the focal length
VIDEO_KEYS = ("com.apple.quicktime.camera.focal_length.35mm_equivalent", "camera.focal_length.35mm_equivalent")
EXIF_FOLDER, EXIF_FOCAL, EXIF_WIDTH, EXIF_HEIGHT = 0x8769, 0xA405, 0xA002, 0xA003
PLAUSIBLE = (5.0, 2000.0)  # equivalent focal lengths [mm]
CROPPED = 0.01  # relative difference of aspect ratios that shows a cropped photograph


def focal_length(path: str | os.PathLike[str]) -> Measured:
    """Returns the focal length [px] that the metadata of a video or image state, or else what phones usually have."""
    found = focal_from_metadata(path)
    return found if found is not None else focal_prior(_size(checked_path("path", path)))


def focal_prior(size: tuple[int, int]) -> Measured:
    """Returns the usual focal length [px] of phone videos of `size` (H, W), main camera, with standard deviation.

    The diagonal field of view is 70 degrees, and one standard deviation of the focal length 15 %, that is from 62 to 79
    degrees. Wide-angle and telephoto lenses lie outside. Use `log_normal()` for a prior.
    """
    height, width = checked_pixels("size", size)
    focal = math.hypot(height, width) / (2 * math.tan(math.radians(DIAGONAL_FOV / 2)))
    source = f"usual for phones: diagonal field of view {DIAGONAL_FOV:.0f} degrees"
    return Measured(focal, PRIOR_SD * focal, "px", source)


def focal_from_metadata(path: str | os.PathLike[str]) -> Measured | None:
    """Returns the focal length [px] that the metadata of a video or image state; None where they state none.

    Reads the 35 mm equivalent in the EXIF data of .jpg and .png images, and QuickTime's
    `camera.focal_length.35mm_equivalent` of videos.

    Raises:
        VideoFileError: The file is missing, empty or unreadable.
    """
    file = checked_path("path", path)
    check_not_empty(file)
    return _photo_focal(file) if file.suffix.lower() in IMAGES else _video_focal(file)


def _photo_focal(file: Path) -> Measured | None:
    try:
        with Image.open(file) as image:
            width, height = image.size
            tags = image.getexif().get_ifd(EXIF_FOLDER)
    except (UnidentifiedImageError, OSError, ValueError) as error:
        raise VideoFileError(str(file), "unreadable", f"needs a complete image: copy it again ({error})") from None
    equivalent = _number(tags.get(EXIF_FOCAL))
    if equivalent is None or _is_cropped((height, width), tags.get(EXIF_HEIGHT), tags.get(EXIF_WIDTH)):
        return None
    focal = equivalent * math.hypot(height, width) / math.hypot(*SENSOR)
    return Measured(focal, PHOTO_SD * focal, "px", f"metadata: {equivalent:g} mm equivalent")


def _video_focal(file: Path) -> Measured | None:
    with open_video(file) as (container, _):
        stated = [container.metadata, *(stream.metadata for stream in container.streams.video)]
        values = [tags[key] for tags in stated for key in VIDEO_KEYS if key in tags]
    equivalent = _number(values[0]) if values else None
    if equivalent is None:
        return None
    # 16:9 keeps the width of the sensor: related to the width, the result lies between both definitions.
    focal = equivalent * max(_size(file)) / max(SENSOR)
    return Measured(focal, VIDEO_SD * focal, "px", f"metadata: {equivalent:g} mm equivalent")


def _number(value: object) -> float | None:
    """Returns a plausible focal length [mm]; None for a missing one, or zero, which stands for unknown."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if PLAUSIBLE[0] <= number <= PLAUSIBLE[1] else None


def _is_cropped(size: tuple[int, int], height: object, width: object) -> bool:
    """Returns whether the picture has another shape than the photograph that its metadata describe."""
    if not (isinstance(height, int) and isinstance(width, int) and height and width):
        return False
    stated = max(height, width) / min(height, width)
    return abs(max(size) / min(size) / stated - 1) > CROPPED


def _size(file: Path) -> tuple[int, int]:
    """Returns the height and width of the pictures of a file [px]."""
    check_not_empty(file)
    for frame in decode_timed_frames(file, range(1), short_side=64):
        return frame.size
    raise VideoFileError(str(file), "no frames", "needs a video of at least one frame")

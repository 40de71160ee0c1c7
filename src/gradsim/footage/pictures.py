"""Pictures of a video file, a folder of images or a single image, one by one at full resolution."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradsim.scene.arguments import checked_path
from gradsim.scene.errors import VideoFileError
from gradsim.video.decode import DecodedFrame, decode_timed_frames, probe
from gradsim.video.load import IMAGES, MOVIES, Frames, check_not_empty, selected_frames


@dataclass(frozen=True, eq=False)
class Picture:
    """One picture.

    Args:
        number: Number of the frame in the video, or of the image in the sorted folder.
        time: Presentation time of the frame [s]; None where the file states none.
        name: Name for messages: "frame 12", or the name of the image.
        image: The picture [H, W, 3], 8 bits per channel.
    """

    number: int
    time: float | None
    name: str
    image: NDArray[np.uint8] = field(repr=False)


@dataclass(frozen=True)
class PictureSource:
    """A video file, or the images of a folder, probed but not decoded.

    Args:
        path: The file or folder.
        numbers: Numbers of the selected pictures.
        files: Images of the folder; none for a video.
    """

    path: Path
    numbers: range
    files: tuple[Path, ...] = ()

    def __len__(self) -> int:
        return len(self.numbers)

    def spread(self, count: int) -> PictureSource:
        """Returns at most `count` of the pictures, evenly spread."""
        step = -(-len(self.numbers) // count)
        return PictureSource(self.path, self.numbers[:: max(step, 1)], self.files)

    def read(self) -> Iterator[Picture]:
        """Decodes the pictures and yields them in order. Rotation metadata is applied.

        Raises:
            VideoFileError: A picture is unreadable, or has another size than the first.
        """
        size: tuple[int, int] | None = None
        for picture in self._decode():
            size = size or picture.image.shape[:2]
            if picture.image.shape[:2] != size:
                found = f"{picture.name} of {picture.image.shape[0]} x {picture.image.shape[1]} pixels"
                raise VideoFileError(str(self.path), found, f"needs {size[0]} x {size[1]} pixels, like the first")
            yield picture

    def _decode(self) -> Iterator[Picture]:
        if not self.files:
            for number, frame in zip(self.numbers, decode_timed_frames(self.path, self.numbers), strict=False):
                yield Picture(number, frame.time, f"frame {number}", _eight_bit(frame))
            return
        for number in self.numbers:
            frame = next(decode_timed_frames(self.files[number], range(1)))
            yield Picture(number, None, self.files[number].name, _eight_bit(frame))


def open_pictures(path: str | os.PathLike[str], *, frames: Frames = None) -> PictureSource:
    """Finds the pictures of a video file, of a folder of images, or a single image.

    Args:
        path: A video (.mp4 .m4v .mov .avi .mkv .webm .gif), an image (.png .jpg), or a folder of images.
        frames: Pictures to read: a slice or a pair (start, stop), as in Python. All if None.

    Raises:
        VideoFileError: The file is missing, empty or of an unsupported format, or the folder has no images.
    """
    file = checked_path("path", path)
    if file.is_dir():
        files = tuple(sorted(own for own in file.iterdir() if own.suffix.lower() in IMAGES))
        if not files:
            raise VideoFileError(str(file), "no images in this folder", f"needs files of {' '.join(IMAGES)}")
        return PictureSource(file, selected_frames(file, frames, len(files), 0), files)
    suffix = file.suffix.lower()
    if suffix not in MOVIES + IMAGES:
        kinds = f"needs one of {' '.join(MOVIES + IMAGES)}, or a folder of {' '.join(IMAGES)}"
        raise VideoFileError(str(file), f"extension '{suffix}'", kinds)
    check_not_empty(file)
    if suffix in IMAGES:
        return PictureSource(file, selected_frames(file, frames, 1, 0), (file,))
    found = probe(file)
    return PictureSource(file, selected_frames(file, frames, found.count, 0))  # the readable part of a truncated file


def _eight_bit(frame: DecodedFrame) -> NDArray[np.uint8]:
    image = frame.image
    return np.ascontiguousarray(image if image.dtype == np.uint8 else image >> 8).astype(np.uint8, copy=False)

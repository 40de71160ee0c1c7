"""A recorded video: the true times of its frames, and images in two sizes.

A first pass over the file keeps a reduced copy of all frames, in which objects are found. A second pass yields frames
at full resolution one by one, so that only the windows around an object are kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.repeats import repeated_frames
from gradsim.scene.arguments import checked_path
from gradsim.scene.errors import OutOfRange, VideoFileError
from gradsim.video.decode import DecodedFrame, LazyFrame, decode_lazily, decode_timed_frames, probe
from gradsim.video.load import MOVIES, Frames, check_not_empty, selected_frames, truncation_error
from gradsim.video.video import checked_fps

SHORT_SIDE = 270  # largest shorter side of the reduced copy [px]: a quarter of 1080p, an eighth of 4K
MIN_SHORT_SIDE = 160  # of the reduced copy of a long recording [px]
REDUCED_BYTES = 450_000_000  # memory for the reduced copy, if it is not too small then
MIN_FRAMES = 4  # a tracklet has at least as many
MAX_FRAMES = 7200  # 2 min at 60 fps: the reduced copy then takes about 1 GB


@dataclass(frozen=True, eq=False)
class Recording:
    """The selected frames of a video file.

    Args:
        path: The file.
        numbers: Numbers of the frames in the file; those that repeat the one before are left out.
        times: Presentation times of the frames [T] [s], strictly increasing, not necessarily evenly spaced.
        size: Height and width of the upright frames [px].
        reduced: Copy of the frames at low resolution [T, h, w, 3], 8 bits per channel.
        stamps: Times of the frames in ticks of the file [T]; None if the file does not state them.
        repeated: Number of frames that were left out because they repeat the one before.
    """

    path: Path
    numbers: Sequence[int]
    times: NDArray[np.float64]
    size: tuple[int, int]
    reduced: NDArray[np.uint8] = field(repr=False)
    stamps: tuple[int, ...] | None = field(repr=False, default=None)
    repeated: int = 0

    def __len__(self) -> int:
        return len(self.times)

    @property
    def scale(self) -> NDArray[np.float64]:
        """Pixels of the full frames per pixel of the reduced copy, along x and y [2]."""
        height, width = self.reduced.shape[1:3]
        return np.array([self.size[1] / width, self.size[0] / height])

    def lazy_frames(self, indices: Sequence[int]) -> Iterator[tuple[int, LazyFrame]]:
        """Decodes frames with increasing indices in the recording; only windows of them are converted to RGB."""
        numbers = [self.numbers[k] for k in indices]
        stamps = None if self.stamps is None else {self.numbers[k]: self.stamps[k] for k in indices}
        for number, frame in decode_lazily(self.path, numbers, stamps):
            yield self.numbers.index(number), frame

    def full_frames(self) -> Iterator[NDArray[np.uint8]]:
        """Decodes the file again and yields the frames [H, W, 3] one by one, at full resolution."""
        for frame in decode_timed_frames(self.path, self.numbers):
            yield _eight_bit(frame)


def open_recording(path: str | os.PathLike[str], *, frames: Frames = None, fps: float | None = None) -> Recording:
    """Reads the times and the reduced copy of a video file. Rotation metadata is applied.

    Args:
        path: A video file (.mp4 .m4v .mov .avi .mkv .webm .gif).
        frames: Frames to read: a slice or a pair (start, stop), as in Python. All if None.
        fps: Frames per second that replace the times in the file, such as the recording rate of slow motion.

    Raises:
        VideoFileError: The file is missing, empty, truncated, not a video, without times, or has too few or too many
            frames.
    """
    file = checked_path("path", path)
    if file.suffix.lower() not in MOVIES:
        raise VideoFileError(str(file), f"extension '{file.suffix.lower()}'", f"needs one of {' '.join(MOVIES)}")
    check_not_empty(file)
    checked_fps(fps)
    probed = probe(file)
    numbers = selected_frames(file, frames, probed.count, probed.missing)
    _check_count(file, numbers)
    found = _first_pass(file, numbers)
    times = np.asarray(numbers) / fps if fps is not None else _checked_times(file, numbers, found.times)
    return _without_repeats(replace(found, times=times))


def _without_repeats(recording: Recording) -> Recording:
    """Returns the recording without frames that repeat the one before, unless hardly any are left."""
    repeated = repeated_frames(recording.reduced)
    kept = np.flatnonzero(~repeated)
    if len(kept) in (len(recording), *range(MIN_FRAMES)):
        return recording
    stamps = None if recording.stamps is None else tuple(recording.stamps[k] for k in kept)
    return replace(
        recording,
        numbers=tuple(recording.numbers[int(k)] for k in kept),
        times=recording.times[kept],
        reduced=recording.reduced[kept],
        stamps=stamps,
        repeated=int(repeated.sum()),
    )


def reduced_short_side(count: int) -> int:
    """Returns the largest shorter side of the reduced copy of `count` frames [px]: long recordings are reduced more."""
    fitting = int(np.sqrt(REDUCED_BYTES / count / (3 * 16 / 9)))
    return max(MIN_SHORT_SIDE, min(SHORT_SIDE, fitting))


def _first_pass(file: Path, numbers: range) -> Recording:
    """Returns the recording with the times that the file states, NaN where it states none."""
    times = np.full(len(numbers), np.nan)
    stamps: list[int | None] = []
    reduced: NDArray[np.uint8] | None = None
    size = (0, 0)
    count = 0
    short_side = reduced_short_side(len(numbers))
    for count, frame in enumerate(decode_timed_frames(file, numbers, short_side=short_side), 1):
        if reduced is None:
            reduced, size = np.empty((len(numbers), *frame.image.shape), np.uint8), frame.size
        if frame.size != size:
            remedy = f"needs frames of one size: those before have {size[0]} x {size[1]} pixels"
            raise VideoFileError(str(file), f"frame {numbers[count - 1]} of {frame.size[0]} x {frame.size[1]}", remedy)
        times[count - 1] = np.nan if frame.time is None else frame.time
        stamps.append(frame.stamp)
        reduced[count - 1] = _eight_bit(frame)
    if reduced is None or count < len(numbers):
        raise truncation_error(file, numbers[count], len(numbers) - count)
    known = tuple(stamp for stamp in stamps if stamp is not None)
    unique = len(set(known)) == len(stamps)
    return Recording(file, numbers, times, size, reduced, known if unique else None)


def _check_count(file: Path, numbers: range) -> None:
    if len(numbers) < MIN_FRAMES:
        remedy = f"needs at least {MIN_FRAMES} frames to tell a moving object from the background"
        raise VideoFileError(str(file), f"{len(numbers)} frames" if len(numbers) > 1 else "a single frame", remedy)
    if len(numbers) > MAX_FRAMES:
        remedy = f"must be at most {MAX_FRAMES}: select the motion with frames=(start, stop)"
        raise OutOfRange("number of frames", len(numbers), remedy)


def _checked_times(file: Path, numbers: range, times: NDArray[np.float64]) -> NDArray[np.float64]:
    bad = np.flatnonzero(~(np.diff(times) > 0))
    if len(bad):
        found = f"frames {numbers[bad[0]]} and {numbers[bad[0] + 1]} at {times[bad[0]]:g} and {times[bad[0] + 1]:g} s"
        raise VideoFileError(str(file), found, "needs increasing times: pass fps= to assume a constant rate")
    return times


def _eight_bit(frame: DecodedFrame) -> NDArray[np.uint8]:
    image = frame.image
    return np.ascontiguousarray(image if image.dtype == np.uint8 else image >> 8).astype(np.uint8, copy=False)

"""Windows around an object and the background behind it, in linear light, from one pass over the file.

Large objects are reduced by a whole factor: the mean of linear light over an area loses nothing that an outline of some
tens of pixels has, and bounds memory and time. If the reduced copy of a long recording is as fine as that, the windows
are cut out of it, and the file is not decoded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.detection import Detection
from gradsim.footage.objects import Blob
from gradsim.footage.plate import masked_median
from gradsim.footage.recording import Recording
from gradsim.footage.stabilization import shift_image
from gradsim.footage.window import Window
from gradsim.video.decode import LazyFrame

MAX_DIAMETER = 44.0  # of the object in the reduced windows [px]
MANY_FRAMES = 300  # from which on windows are reduced further, so that time and memory stay bounded
MARGIN = 0.35  # around the box of a blob [diameters]
HIDDEN_MARGIN = 0.2  # around the box of a blob that hides the background [diameters]
PADDING = 30  # frames before and after the object that may show the background
SAMPLES = 31  # frames of the plate
PLATE_VALUES = 60_000_000  # that are sorted at most
MAX_DECODED = 3e9  # pixels that are decoded again where the reduced copy would do: 360 frames of 4K


@dataclass(frozen=True, eq=False)
class Crops:
    """Windows around an object, reduced by a whole factor.

    Args:
        factor: Pixels of the full picture per pixel of the windows.
        windows: Window of each frame, by the index of the frame; its edges are multiples of the factor.
        light: Linear light in the windows [h, w, 3], at the exposure of the plate.
        plates: Linear light of the background in the windows [h, w, 3].
        mean_of_values: Whether the pixels are means of sRGB values instead of light, as those of the reduced copy.
    """

    factor: int
    windows: dict[int, Window] = field(repr=False)
    light: dict[int, NDArray[np.float16]] = field(repr=False)
    plates: dict[int, NDArray[np.float32]] = field(repr=False)
    mean_of_values: bool = False


def read_crops(detection: Detection, blobs: Sequence[Blob], hiding: Sequence[Blob], diameter: float) -> Crops:
    """Reads the windows around an object: decodes its frames once, or takes them from the reduced copy.

    Args:
        detection: The objects of a recording.
        blobs: Blobs of the object, one for each window.
        hiding: All blobs that hide the background of the plate.
        diameter: Of the object [px of the full picture].
    """
    recording = detection.recording
    largest = MAX_DIAMETER * min(1.0, np.sqrt(MANY_FRAMES / len(blobs)))
    factor = max(1, int(np.ceil(diameter / largest)))
    copied = copied_factor(recording, blobs)
    from_copy = copied is not None and copied <= factor
    factor = copied if from_copy and copied is not None else factor
    windows = {own.frame: _window(own, recording.scale, recording.size, MARGIN, factor) for own in blobs}
    region = Window.around(list(windows.values()))
    union = _union(windows, region, factor)
    samples = _plate_frames(sorted(windows), len(recording), int(union.sum()))
    light: dict[int, NDArray[np.float16]] = {}
    backgrounds: list[NDArray[np.float16]] = []
    for k, frame in _source(recording, sorted({*windows, *samples}), from_copy):
        if k in windows:
            light[k] = _light(detection, frame, k, windows[k], factor).astype(np.float16)
        if k in samples:
            backgrounds.append(_light(detection, frame, k, region, factor)[union].astype(np.float16))
    hidden = _hidden(hiding, samples, region, recording.scale, recording.size, factor)[:, union]
    plate = np.zeros((*union.shape, 3), np.float32)
    plate[union] = masked_median(np.stack(backgrounds), hidden)
    known = np.zeros(union.shape, np.bool_)
    known[union] = ~hidden.all(0)
    plate = _filled(plate, known, diameter / factor)
    plates = {k: plate[own.inside(region, factor)] for k, own in windows.items()}
    return Crops(factor, {k: windows[k] for k in light}, light, plates, from_copy)


def copied_factor(recording: Recording, blobs: Sequence[Blob]) -> int | None:
    """Returns the whole factor of the reduced copy of a recording that takes long to decode; else None."""
    height, width = recording.size
    factor = round(float(recording.scale[0]))
    exact = recording.reduced.shape[1:3] == (height / factor, width / factor)
    long = (blobs[-1].frame - blobs[0].frame + 1) * height * width > MAX_DECODED
    return factor if exact and long else None


def _source(recording: Recording, indices: Sequence[int], from_copy: bool) -> Iterator[tuple[int, LazyFrame | None]]:
    """Yields the frames with some indices; None instead of each if the reduced copy is used."""
    return ((k, None) for k in indices) if from_copy else recording.lazy_frames(indices)


def _window(blob: Blob, scale: NDArray[np.float64], size: tuple[int, int], margin: float, factor: int) -> Window:
    """Returns the window around a blob, with room for the soft edge of the object and for background."""
    left, top, width, height = blob.box
    room = margin * blob.diameter * scale + 4 * factor
    low = np.floor(np.array([left, top]) * scale - room).astype(np.int64)
    high = np.ceil(np.array([left + width, top + height]) * scale + room).astype(np.int64)
    return Window.clipped(low, high, size, factor)


def _union(windows: dict[int, Window], region: Window, factor: int) -> NDArray[np.bool_]:
    """Returns the pixels of a region that belong to a window."""
    union = np.zeros((region.height // factor, region.width // factor), np.bool_)
    for own in windows.values():
        union[own.inside(region, factor)] = True
    return union


def _plate_frames(frames: Sequence[int], count: int, pixels: int) -> list[int]:
    """Returns the indices of the frames of a plate: spread over those with the object and some before and after."""
    first, last = max(0, frames[0] - PADDING), min(count - 1, frames[-1] + PADDING)
    number = int(np.clip(PLATE_VALUES // (3 * max(pixels, 1)), 9, SAMPLES))
    return np.unique(np.linspace(first, last, min(number, last - first + 1)).astype(int)).tolist()


def _hidden(
    blobs: Sequence[Blob],
    samples: Sequence[int],
    region: Window,
    scale: NDArray[np.float64],
    size: tuple[int, int],
    factor: int,
) -> NDArray[np.bool_]:
    """Returns the pixels [N, h, w] of a region that the object hides in some frames."""
    hidden = np.zeros((len(samples), region.height // factor, region.width // factor), np.bool_)
    places = {frame: n for n, frame in enumerate(samples)}
    for blob in blobs:
        if blob.frame in places:
            own = _window(blob, scale, size, HIDDEN_MARGIN, factor)
            top, left = (own.top - region.top) // factor, (own.left - region.left) // factor
            bottom, right = top + own.height // factor, left + own.width // factor
            hidden[places[blob.frame], max(0, top) : max(0, bottom), max(0, left) : max(0, right)] = True
    return hidden


def _light(detection: Detection, frame: LazyFrame | None, k: int, window: Window, factor: int) -> NDArray[np.float32]:
    """Returns the linear light in a window of a frame, stabilized and at the exposure of the plate, reduced."""
    if frame is None:
        return detection.exposure.light(_copied(detection, k, window, factor), k)
    image = _stabilized(detection, frame, k, window)
    light = detection.exposure.light(image, k)
    if factor == 1:
        return light
    size = (window.width // factor, window.height // factor)
    return np.asarray(cv2.resize(light, size, interpolation=cv2.INTER_AREA), np.float32)


def _copied(detection: Detection, k: int, window: Window, factor: int) -> NDArray[np.uint8]:
    """Returns the window of a frame of the reduced copy [h, w, 3] without the shift of the camera."""
    image: NDArray[Any] = detection.recording.reduced[k]
    if detection.camera.stabilized:
        image = shift_image(image, -detection.camera.shift[k])
    return np.ascontiguousarray(image[window.inside(Window(0, 0, 0, 0), factor)])


def _stabilized(detection: Detection, frame: LazyFrame, k: int, window: Window) -> NDArray[np.uint8]:
    """Returns the window of a frame [h, w, 3] without the shift of the camera."""
    if not detection.camera.stabilized:
        return frame.window(*window.slices)
    shift = detection.camera.shift[k] * detection.recording.scale
    whole = np.round(shift).astype(int)
    rows, columns = (
        _inside(window.top + whole[1], window.height, detection.recording.size[0]),
        _inside(window.left + whole[0], window.width, detection.recording.size[1]),
    )
    low, high = (rows[0], columns[0]), (rows[-1] + 1, columns[-1] + 1)
    part: NDArray[Any] = frame.window(slice(int(low[0]), int(high[0])), slice(int(low[1]), int(high[1])))
    return shift_image(np.ascontiguousarray(part[np.ix_(rows - low[0], columns - low[1])]), whole - shift)


def _inside(start: int, length: int, end: int) -> NDArray[np.int64]:
    """Returns indices from `start`, with those outside of the picture moved to its edge."""
    return np.clip(np.arange(start, start + length), 0, end - 1)


def _filled(plate: NDArray[np.float32], known: NDArray[np.bool_], diameter: float) -> NDArray[np.float32]:
    """Returns a plate [h, w, 3] whose unknown pixels have the mean of those around them, if some are known there."""
    weight = known.astype(np.float32)
    total = cv2.GaussianBlur(weight, (0, 0), max(1.0, diameter / 2))
    mean = (
        cv2.GaussianBlur(plate * weight[..., None], (0, 0), max(1.0, diameter / 2)) / np.maximum(total, 1e-6)[..., None]
    )
    return np.where((~known & (total > 1e-3))[..., None], mean, plate).astype(np.float32)

"""Soft alpha masks of an object at full resolution, and the centres and sizes that follow from them.

Each pixel near the object is explained as a mixture of the background and the colour of the object. A shadow darkens
the background without adding the colour of the object, so it gets an alpha of zero.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.detection import Detection
from gradsim.footage.objects import Blob
from gradsim.footage.plate import Plate, background_plate, sample_numbers
from gradsim.footage.recording import Recording
from gradsim.footage.stabilization import CameraMotion, shift_image
from gradsim.footage.track import ObjectTrack, Window
from gradsim.footage.tracklets import Tracklet

AREA_RANGE = (0.72, 1.4)  # a blob of another area, relative to its neighbours, is partly hidden or merged
NEIGHBORS = 7  # blobs on either side
MIN_RUN = 4  # blobs between two gaps
RIDGE = 0.03  # weight of "background and object add up to one" against the colours
ALPHA_RANGE = (0.07, 0.96)  # values of the mixture that are stretched to 0 and 1
MIN_ALPHA = 0.15  # of the pixels that are connected with the object
MAX_CUT = 0.25  # length at the edge of the picture of an object that is still whole, in diameters
PLATE_BYTES = 400_000_000  # largest memory for the frames of a plate at full resolution


def measure_object(detection: Detection, tracklet: Tracklet | None = None) -> ObjectTrack:
    """Measures an object at full resolution, in windows around its blobs. Decodes the file twice.

    Args:
        detection: The objects of a recording.
        tracklet: The object; the best one if None.
    """
    blobs = whole_blobs((tracklet or detection.best).blobs)
    recording, camera = detection.recording, detection.camera
    windows = {blob.frame: _window(blob, recording) for blob in blobs}
    region = _region(list(windows.values()))
    plate = _full_plate(recording, camera, windows, region)
    crops = _crops(recording, camera, windows)
    color = _object_color(crops, windows, blobs, recording.scale)
    alphas = {k: _alpha(crops[k], plate.color[windows[k].inside(region)], color) for k in windows}
    frames = np.array([k for k in windows if not _is_cut(alphas[k], windows[k], recording.size)], np.int64)
    moments = np.array([_moments(alphas[k], windows[k]) for k in frames]).reshape(-1, 3)
    return ObjectTrack(
        recording=recording,
        frames=frames,
        times=recording.times[frames],
        centers=moments[:, :2],
        diameters=np.sqrt(4 * moments[:, 2] / np.pi),
        color=color,
        windows=tuple(windows[k] for k in frames),
        alphas=tuple(alphas[k] for k in frames),
    )


def whole_blobs(blobs: tuple[Blob, ...]) -> list[Blob]:
    """Returns the blobs whose area is that of the object: partly hidden, merged and smeared ones are left out."""
    areas = np.array([blob.area for blob in blobs])
    local = np.array([np.median(areas[max(0, k - NEIGHBORS) : k + NEIGHBORS + 1]) for k in range(len(areas))])
    usual = (local + np.median(areas)) / 2
    whole = [blob for blob, ratio in zip(blobs, areas / usual, strict=True) if AREA_RANGE[0] < ratio < AREA_RANGE[1]]
    breaks = np.flatnonzero(np.diff([blob.frame for blob in whole]) > MIN_RUN) + 1
    runs = [run for run in np.split(np.arange(len(whole)), breaks) if len(run) >= MIN_RUN]
    return [whole[k] for run in runs for k in run] if runs else list(blobs)


def _window(blob: Blob, recording: Recording) -> Window:
    """Returns the window around a blob, with room for the soft edge of the object and for background."""
    scale = recording.scale
    left, top, width, height = blob.box
    margin = 0.25 * blob.diameter * scale + 4
    low = np.floor(np.array([left, top]) * scale - margin).astype(int)
    high = np.ceil(np.array([left + width, top + height]) * scale + margin).astype(int)
    return Window.clipped(low, high, recording.size)


def _region(windows: list[Window]) -> Window:
    """Returns the smallest window that contains all others."""
    low = np.min([(own.left, own.top) for own in windows], 0)
    high = np.max([(own.left + own.width, own.top + own.height) for own in windows], 0)
    return Window(int(low[0]), int(low[1]), int(high[0] - low[0]), int(high[1] - low[1]))


def _full_plate(recording: Recording, camera: CameraMotion, windows: dict[int, Window], region: Window) -> Plate:
    """Returns the background of a region at full resolution, without the object where it is."""
    limit = max(9, PLATE_BYTES // (3 * region.width * region.height))
    numbers = sample_numbers(len(recording), min(41, limit))
    crops = _crops(recording, camera, {int(k): region for k in numbers})
    hidden = np.zeros((len(numbers), region.height, region.width), np.bool_)
    for n, k in enumerate(numbers):
        if int(k) in windows:
            hidden[n][windows[int(k)].inside(region)] = True
    return background_plate(np.stack([crops[int(k)] for k in numbers]), hidden)


def _crops(recording: Recording, camera: CameraMotion, windows: dict[int, Window]) -> dict[int, NDArray[np.uint8]]:
    """Returns the windows of the frames at full resolution [height, width, 3], stabilized if the camera shakes."""
    crops = {}
    for k, image in enumerate(recording.full_frames()):
        if k not in windows:
            continue
        if camera.stabilized:
            image = shift_image(image, -camera.shift[k] * recording.scale)
        crops[k] = image[windows[k].slices].copy()
    return crops


def _object_color(
    crops: dict[int, NDArray[np.uint8]], windows: dict[int, Window], blobs: list[Blob], scale: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the median colour around the centres of the blobs [3], in [0, 1]."""
    colors = []
    for blob in blobs:
        own, radius = windows[blob.frame], max(1, int(0.2 * blob.diameter * scale.min()))
        x, y = (np.array(blob.center) * scale - (own.left, own.top)).astype(int)
        core = crops[blob.frame][max(0, y - radius) : y + radius + 1, max(0, x - radius) : x + radius + 1]
        colors.append(np.median(core.reshape(-1, 3), 0))
    return np.median(colors, 0) / 255


def _alpha(crop: NDArray[np.uint8], plate: NDArray[np.float32], color: NDArray[np.float64]) -> NDArray[np.float32]:
    """Returns the alpha [height, width] of the connected region of the object."""
    mixture = color_mixture(crop.astype(np.float64) / 255, plate.astype(np.float64), color)
    alpha = np.clip((mixture - ALPHA_RANGE[0]) / (ALPHA_RANGE[1] - ALPHA_RANGE[0]), 0, 1)
    count, labels = cv2.connectedComponents((alpha > MIN_ALPHA).astype(np.uint8))
    if count > 2:
        largest = 1 + int(np.argmax(np.bincount(labels.ravel(), alpha.ravel(), minlength=count)[1:]))
        region = (labels == largest).astype(np.uint8)
    else:
        region = (labels > 0).astype(np.uint8)
    return (np.maximum(alpha, _interior(alpha)) * cv2.dilate(region, np.ones((5, 5), np.uint8))).astype(np.float32)


def color_mixture(
    image: NDArray[np.float64], plate: NDArray[np.float64], color: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the coefficient a [h, w] of the least-squares fit image = g plate + a color, with g + a near one."""
    plate_plate = (plate * plate).sum(-1) + RIDGE
    plate_color = plate @ color + RIDGE
    color_color = float(color @ color) + RIDGE
    image_plate = (image * plate).sum(-1) + RIDGE
    image_color = image @ color + RIDGE
    determinant = np.maximum(plate_plate * color_color - plate_color**2, 1e-6)
    return (plate_plate * image_color - plate_color * image_plate) / determinant


def _interior(alpha: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Returns the pixels inside the outline of the object: highlights and texture do not make holes."""
    solid = (alpha > 0.5).astype(np.uint8)
    outlines, _ = cv2.findContours(solid, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = np.zeros_like(solid)
    cv2.drawContours(filled, outlines, -1, 1, cv2.FILLED)
    return np.asarray(cv2.erode(filled, np.ones((3, 3), np.uint8), iterations=2), np.uint8)


def _is_cut(alpha: NDArray[np.float32], window: Window, size: tuple[int, int]) -> bool:
    """Whether an edge of a picture of `size` (H, W) cuts the object."""
    edges = (
        (window.top == 0, alpha[0]),
        (window.left == 0, alpha[:, 0]),
        (window.top + window.height == size[0], alpha[-1]),
        (window.left + window.width == size[1], alpha[:, -1]),
    )
    length = max(at_edge * int((line > 0.5).sum()) for at_edge, line in edges)
    return length > MAX_CUT * float(np.sqrt(4 * alpha.sum() / np.pi))


def _moments(alpha: NDArray[np.float32], window: Window) -> tuple[float, float, float]:
    """Returns the centre (x, y) [px of the full picture] and the area [px^2]."""
    area = max(float(alpha.sum()), 1e-9)
    x = window.left + float(alpha.sum(0) @ (np.arange(window.width) + 0.5)) / area
    y = window.top + float(alpha.sum(1) @ (np.arange(window.height) + 0.5)) / area
    return x, y, area

"""Measuring an object at full resolution: masks, centres, sizes and the exposure time.

Alpha masks in linear light come first. A disc that is smeared by its motion is fitted to each of them. If the object is
not round, the centroid and the area of alpha are used instead, which motion blur does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gradsim.footage.crops import Crops, read_crops
from gradsim.footage.detection import Detection
from gradsim.footage.masks import Masks, Steps, measured_steps
from gradsim.footage.mixture import main_colors, missed_share, object_alpha, shadow_tint
from gradsim.footage.objects import Blob
from gradsim.footage.outlines import fit_discs, measured_outlines
from gradsim.footage.recording import Recording
from gradsim.footage.rotation import measured_angles
from gradsim.footage.threads import map_in_threads
from gradsim.footage.track import ObjectTrack, PointMap
from gradsim.footage.tracklets import Tracklet
from gradsim.scene.errors import NoMovingObject
from gradsim.video.srgb import linear_to_srgb

AREA_RANGE = (0.72, 1.4)  # a blob of another area, relative to its neighbours, is partly hidden or merged
NEIGHBORS = 7  # blobs on either side
MIN_RUN = 4  # blobs between two gaps
MAX_CUT = 0.25  # length at the edge of the picture of an object that is still whole, in diameters
CORE = 0.32  # radius in which the colours of the object are sampled [diameters]
COLOR_FRAMES = 20
MIN_SEVERAL = 16.0  # diameter of an object whose colours can be told from its edge [px]
MAX_MISSED = 0.12  # part of an object that the colours of its middle do not explain
LARGE_DRIFT = 0.1  # of the exposure, which is worth a remark
TONE_FRAMES = 12  # the fastest ones tell how the recording mixes colours
TONE_MARGIN = 0.85  # misfit with mixed sRGB values, relative to that with mixed light, below which they are used
MIN_TONE_STEP = 4.0  # motion in a frame [px of the windows]


def measure_object(
    detection: Detection, tracklet: Tracklet | None = None, *, lens: PointMap | None = None, attached: bool = False
) -> ObjectTrack:
    """Measures an object at full resolution, in windows around its blobs. Decodes its frames once.

    Args:
        detection: The objects of a recording.
        tracklet: The object; the best one if None.
        lens: Removes the distortion of the lens from points: see `ObjectTrack.undistorted`.
        attached: Whether rods may be attached to the object: see `measured_outlines`.

    Raises:
        NoMovingObject: The object is whole in fewer than four frames.
    """
    own = tracklet or detection.best
    blobs = whole_blobs(own.blobs)
    diameter = _slow_diameter(blobs) * float(np.sqrt(np.prod(detection.recording.scale)))
    crops = read_crops(detection, blobs, own.blobs, diameter)
    colors = _object_colors(crops, blobs, detection.recording.scale)
    speeds = _speeds(blobs)
    slow = {own.frame for own, speed in zip(blobs, speeds, strict=True) if speed <= np.median(speeds)}
    masks = _masks(detection, crops, colors, diameter / crops.factor, slow)
    track = _assembled(detection, own, crops, colors[0], masks, attached)
    return track if lens is None else track.undistorted(lens)


def whole_blobs(blobs: Sequence[Blob]) -> list[Blob]:
    """Returns the blobs whose area is that of the object: partly hidden and merged ones are left out.

    Motion blur makes a blob longer by up to its speed, or shorter where its ends are faint.
    """
    areas = np.array([blob.area for blob in blobs])
    local = np.array([np.median(areas[max(0, k - NEIGHBORS) : k + NEIGHBORS + 1]) for k in range(len(areas))])
    ratios = areas / ((local + np.median(areas)) / 2)
    stretch = np.minimum(_speeds(blobs) / np.sqrt(4 * np.median(areas) / np.pi), 2.0)
    good = (ratios > AREA_RANGE[0] - 0.15 * stretch) & (ratios < AREA_RANGE[1] + 0.6 * stretch)
    whole = [blob for blob, own in zip(blobs, good, strict=True) if own]
    breaks = np.flatnonzero(np.diff([blob.frame for blob in whole]) > MIN_RUN) + 1
    runs = [run for run in np.split(np.arange(len(whole)), breaks) if len(run) >= MIN_RUN]
    return [whole[k] for run in runs for k in run] if runs else list(blobs)


def _speeds(blobs: Sequence[Blob]) -> NDArray[np.float64]:
    """Returns how far each blob moves in a frame, the slower of before and after [N] [px of the reduced copy]."""
    centers = np.array([blob.center for blob in blobs])
    steps = np.linalg.norm(np.diff(centers, axis=0), axis=1) / np.diff([blob.frame for blob in blobs])
    return np.minimum(np.append(steps, steps[-1]), np.insert(steps, 0, steps[0]))


def _slow_diameter(blobs: Sequence[Blob]) -> float:
    """Returns the diameter of the slower half of the blobs [px of the reduced copy]."""
    slow = np.argsort(_speeds(blobs))[: max(4, len(blobs) // 2)]
    return float(np.median([blobs[k].diameter for k in slow]))


def _object_colors(crops: Crops, blobs: Sequence[Blob], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the colours of the object [K, 3] in linear light, from the middle of the slower half of the blobs."""
    speeds, samples = _speeds(blobs), []
    slow = [own for own, speed in zip(blobs, speeds, strict=True) if speed <= np.median(speeds)]
    for blob in slow[:: max(1, len(slow) // COLOR_FRAMES)]:
        if blob.frame in crops.light:
            window, radius = crops.windows[blob.frame], CORE * blob.diameter * scale.min() / crops.factor
            image = crops.light[blob.frame].astype(np.float64)
            x, y = (np.array(blob.center) * scale - (window.left, window.top)) / crops.factor
            rows, columns = (np.arange(length) + 0.5 for length in image.shape[:2])
            samples.append(image[np.hypot(columns - x, rows[:, None] - y) < max(radius, 1.0)])
    return main_colors(np.concatenate(samples))


def _masks(detection: Detection, crops: Crops, colors: NDArray[np.float64], diameter: float, slow: set[int]) -> Masks:
    """Returns the alpha masks of all frames, with light or sRGB values mixed, whichever explains the motion blur.

    The masks in slow frames show whether the object has colours that its middle does not have.
    """
    in_values = crops.mean_of_values
    alphas, usable = _mixed(crops, colors, diameter, in_values)
    chosen = [k for k in alphas if k in slow] or list(alphas)
    missed = [missed_share(crops.light[k].astype(float), crops.plates[k].astype(float), alphas[k]) for k in chosen]
    several = bool(np.median(missed) > MAX_MISSED) and diameter > MIN_SEVERAL
    if several:
        alphas, usable = _mixed(crops, colors, diameter, in_values, several)
    masks = Masks(crops.factor, crops.windows, detection.recording.times, diameter, alphas, usable)
    steps = measured_steps(masks.times[masks.frames], masks.moments(masks.frames)[:, :2])
    lengths = np.linalg.norm(steps.mean, axis=1)
    fast = np.sort(np.argsort(lengths)[-TONE_FRAMES:])
    if in_values or len(fast) < TONE_FRAMES // 2 or np.median(lengths[fast]) < MIN_TONE_STEP:
        return masks
    part, frames = Steps(steps.before[fast], steps.after[fast]), [masks.frames[n] for n in fast]
    alphas, usable = _mixed(crops, colors, diameter, True, several)
    values = replace(masks, alphas=alphas, usable=usable)
    misfits = [
        np.median([1 - own.overlap for own in fit_discs(own_masks, frames, part)]) for own_masks in (values, masks)
    ]
    return values if misfits[0] < TONE_MARGIN * misfits[1] else masks


def _mixed(
    crops: Crops, colors: NDArray[np.float64], diameter: float, in_values: bool, several: bool = False
) -> tuple[dict[int, NDArray[np.float64]], dict[int, NDArray[np.bool_]]]:
    """Returns the alpha masks and usable pixels of all frames, with light or sRGB values mixed."""

    def converted(image: NDArray[Any]) -> NDArray[np.float64]:
        own = image.astype(np.float64)
        return linear_to_srgb(torch.from_numpy(np.clip(own, 0, 1))).numpy() if in_values else own

    images = {k: (converted(crops.light[k]), converted(crops.plates[k])) for k in crops.light}
    palette = converted(colors)
    some = list(images.values())[:: max(1, len(images) // COLOR_FRAMES)]
    tint = shadow_tint([own[0] for own in some], [own[1] for own in some], palette)
    alphas = partial(object_alpha, colors=palette, diameter=diameter, tint=tint, several_colors=several)
    found = dict(zip(images, map_in_threads(lambda own: alphas(*own), images.values()), strict=True))
    return {k: own[0] for k, own in found.items()}, {k: own[1] for k, own in found.items()}


def _assembled(
    detection: Detection,
    tracklet: Tracklet,
    crops: Crops,
    color: NDArray[np.float64],
    masks: Masks,
    attached: bool,
) -> ObjectTrack:
    recording = detection.recording
    whole = [k for k in masks.frames if not _is_cut(masks, k, recording.size)]
    if len(whole) < MIN_RUN:
        raise _too_short(recording, len(whole))
    measured = measured_outlines(masks, whole, attached=attached)
    if len(measured.frames) < MIN_RUN:
        raise _too_short(recording, len(measured.frames))
    angles = measured_angles(crops, masks, measured)
    ranges = tuple(detection.free_ranges(tracklet))
    return ObjectTrack(
        recording=recording,
        frames=measured.frames,
        times=recording.times[measured.frames],
        centers=measured.centers,
        center_std=measured.center_std,
        diameters=measured.diameters,
        diameter_std=measured.diameter_std,
        smears=measured.smears,
        color=linear_to_srgb(torch.from_numpy(np.clip(color, 0, 1))).numpy(),
        windows=tuple(masks.windows[int(k)] for k in measured.frames),
        covers=tuple(masks.alphas[int(k)].astype(np.float32) for k in measured.frames),
        is_round=measured.is_round,
        shutter=measured.shutter,
        shutter_std=measured.shutter_std,
        angles=None if angles is None else angles[0],
        angle_std=None if angles is None else angles[1],
        free_ranges=ranges,
        remarks=_remarks(detection, tracklet, measured.frames, ranges),
    )


def _too_short(recording: Recording, count: int) -> NoMovingObject:
    remedy = f"needs an object that is whole, and not hidden by a hand, in at least {MIN_RUN} frames"
    return NoMovingObject(str(recording.path), f"the object is whole in {count} frames", remedy)


def _is_cut(masks: Masks, frame: int, size: tuple[int, int]) -> bool:
    """Whether an edge of a picture of `size` (H, W) cuts the object."""
    alpha, window = masks.alphas[frame], masks.windows[frame]
    edges = (
        (window.top == 0, alpha[0]),
        (window.left == 0, alpha[:, 0]),
        (window.top + window.height > size[0] - masks.factor, alpha[-1]),
        (window.left + window.width > size[1] - masks.factor, alpha[:, -1]),
    )
    length = max(at_edge * int((line > 0.5).sum()) for at_edge, line in edges)
    return length > MAX_CUT * float(np.sqrt(4 * alpha.sum() / np.pi))


def _remarks(
    detection: Detection, tracklet: Tracklet, frames: NDArray[np.int64], ranges: Sequence[tuple[int, int]]
) -> tuple[str, ...]:
    """Returns sentences about what limits the measurement."""
    remarks, numbers = [], detection.recording.numbers
    if any(blob.at_edge for blob in tracklet.blobs):
        first, last = numbers[int(frames[0])], numbers[int(frames[-1])]
        remarks.append(f"The object is cut by the edge of the picture outside of frames {first} to {last}.")
    if ranges and ranges[0][1] - ranges[0][0] < 0.9 * (tracklet.frames[-1] + 1 - tracklet.frames[0]):
        start, stop = numbers[ranges[0][0]], numbers[ranges[0][1] - 1] + 1
        remarks.append(f"Something larger is next to the object at times: it is free in frames {start} to {stop - 1}.")
    missing = int(frames[-1] + 1 - frames[0]) - len(frames)
    if missing:
        remarks.append(f"The object is hidden or not whole in {missing} of {len(frames) + missing} frames.")
    if detection.camera.stabilized:
        remarks.append("The camera shakes: the frames were stabilized, which limits the accuracy of centres.")
    if detection.exposure.largest > LARGE_DRIFT:
        remarks.append(f"Exposure or white balance drift by {100 * detection.exposure.largest:.0f} %: corrected.")
    if detection.ambiguous:
        remarks.append(f"Another object moves alike, with {detection.ambiguity:.2f} of the score of this one.")
    return tuple(remarks)

"""What a report shows of a prepared recording: pictures of the motion, its track, background and masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.lens import Lens
from gradsim.footage.prepare import Prepared
from gradsim.footage.stabilization import shift_image
from gradsim.footage.window import Window

SIDE = 480  # longer side of the pictures [px]
MAX_PICTURES = 180  # of the motion; every n-th frame of a longer one
MAX_DECODED = 6e8  # pixels that are decoded again for pictures at full resolution: 290 frames of 1080p
MARGIN = 1.5  # around the path in the pictures, in diameters
MIN_PART = 0.3  # of the picture's longer side that is shown at least
MAX_MASKS = 12  # masks that are shown


@dataclass(frozen=True, eq=False)
class FootageView:
    """A prepared recording as a report shows it.

    Args:
        summary: What was found, as plain values; see `summary`.
        times: Times of the frames of the motion from the first [M] [s].
        points: Centres of the object in the undistorted picture [M, 2] [px].
        deviations: Standard deviations of the centres [M, 2] [px].
        lens: Lens of the camera, which distorts the pictures.
        window: The part of the picture that is shown.
        rows: Frames of the motion that have a picture [F], indices of `times`.
        pictures: The shown part of these frames [F, h, w, 3], at most 480 px wide and high.
        plate: Background [h, w, 3].
        masks: Numbers of frames in the file, and masks of the object in them.
    """

    summary: Mapping[str, Any]
    times: NDArray[np.float64] = field(repr=False)
    points: NDArray[np.float64] = field(repr=False)
    deviations: NDArray[np.float64] = field(repr=False)
    lens: Lens = field(repr=False)
    window: Window
    rows: NDArray[np.int64] = field(repr=False)
    pictures: NDArray[np.uint8] = field(repr=False)
    plate: NDArray[np.uint8] = field(repr=False)
    masks: tuple[tuple[int, NDArray[np.uint8]], ...] = field(repr=False)

    @property
    def scale(self) -> NDArray[np.float64]:
        """Pixels of a shown picture per pixel of the recording, along x and y [2]."""
        height, width = self.pictures.shape[1:3]
        return np.array([width / self.window.width, height / self.window.height])


def shown_rows(count: int) -> NDArray[np.int64]:
    """Returns the frames of a motion of `count` frames that have a picture: all, or every n-th."""
    return np.arange(0, count, -(-count // MAX_PICTURES), dtype=np.int64)


def shown_masks(count: int) -> list[int]:
    """Returns the indices of the masks that are shown, spread over `count` frames."""
    return sorted({int(k) for k in np.linspace(0, count - 1, min(count, MAX_MASKS)).round()})


def shown_window(prepared: Prepared) -> Window:
    """Returns the part of the picture around the path of the motion."""
    centers = prepared.track.centers[prepared.fit.frames]
    low, high = centers.min(0), centers.max(0)
    least = MIN_PART * max(prepared.recording.size)
    reach = np.maximum((high - low) / 2 + MARGIN * prepared.track.diameter, least / 2)
    middle = (low + high) / 2
    return Window.clipped((middle - reach).astype(np.int64), (middle + reach).astype(np.int64), prepared.recording.size)


def motion_pictures(prepared: Prepared, window: Window) -> NDArray[np.uint8]:
    """Returns the shown part of the frames of the motion [F, h, w, 3], without the shake of the camera."""
    factor = min(1.0, SIDE / max(window.width, window.height))
    size = tuple(max(2, round(side * factor / 2) * 2) for side in (window.width, window.height))
    frames = prepared.track.frames[prepared.fit.frames]
    frames = frames[shown_rows(len(frames))]
    height, width = prepared.recording.size
    few = (int(frames[-1]) - int(frames[0]) + 1) * height * width <= MAX_DECODED
    return np.stack(list((_decoded if few else _enlarged)(prepared, frames, window, (size[0], size[1]))))


def _decoded(
    prepared: Prepared, frames: NDArray[np.int64], window: Window, size: tuple[int, int]
) -> Iterator[NDArray[np.uint8]]:
    """Yields a window of frames, decoded again at full resolution, at a size (width, height)."""
    shifts = prepared.detection.camera.shift * prepared.recording.scale
    for k, frame in prepared.recording.lazy_frames([int(own) for own in frames]):
        part = np.ascontiguousarray(frame.window(*window.slices))
        part = np.asarray(shift_image(part, -shifts[k]), np.uint8) if shifts[k].any() else part
        yield np.asarray(cv2.resize(part, size, interpolation=cv2.INTER_AREA), np.uint8)


def _enlarged(
    prepared: Prepared, frames: NDArray[np.int64], window: Window, size: tuple[int, int]
) -> Iterator[NDArray[np.uint8]]:
    """Yields a window of frames of the reduced copy, at a size (width, height)."""
    scale = prepared.recording.scale
    step = np.array([window.width, window.height]) / size / scale
    for k in frames:
        corner = np.array([window.left, window.top]) / scale + prepared.detection.camera.shift[k]
        matrix = np.column_stack([np.diag(step), corner + step / 2 - 0.5])  # of the centres of pixels
        image = prepared.recording.reduced[k]
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        yield np.asarray(cv2.warpAffine(image, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE), np.uint8)


def footage_view(prepared: Prepared) -> FootageView:
    """Returns what a report shows of a prepared recording."""
    window, track = shown_window(prepared), prepared.track
    part = prepared.path.part(prepared.fit.frames)
    numbers = np.asarray(prepared.recording.numbers)
    return FootageView(
        summary(prepared),
        prepared.times,
        part.points[:, :2],
        prepared.deviations[:, :2],
        prepared.lens,
        window,
        shown_rows(len(part)),
        motion_pictures(prepared, window),
        plate_image(prepared),
        tuple((int(numbers[track.frames[k]]), mask_image(track.alpha(k))) for k in shown_masks(len(track))),
    )


def plate_image(prepared: Prepared) -> NDArray[np.uint8]:
    """Returns the background [h, w, 3], at the size of the reduced copy."""
    return np.round(255 * np.clip(prepared.detection.plate.color, 0, 1)).astype(np.uint8)


def mask_image(alpha: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Returns an alpha with 8 bits."""
    return np.round(255 * np.clip(alpha, 0, 1)).astype(np.uint8)


def summary(prepared: Prepared) -> dict[str, Any]:
    """Returns what was found, as plain values."""
    view, track, recording = prepared.view, prepared.track, prepared.recording
    scale = view.scale
    return {
        "video": recording.path.name,
        "frames": [int(prepared.frames[0]), int(prepared.frames[-1]) + 1],
        "object": {"frames": len(track), "diameter_px": track.diameter, "color": track.color.tolist()},
        "motion": {
            "kind": prepared.fit.kind,
            "explained": prepared.fit.explained,
            "spread_px": np.median(np.broadcast_to(prepared.fit.spread, (len(prepared.times), 2)), axis=0).tolist(),
            "sigma_px": float(np.median(prepared.path.part(prepared.fit.frames).sigma)),
            "others": {fit.kind: fit.explained for fit in prepared.fits if fit is not prepared.fit},
        },
        "camera": {
            "focal_px": view.focal.value,
            "focal_sd": view.focal.relative_sd,
            "focal_source": view.focal.source,
            "distortion": prepared.lens.distortion.tolist(),
            "pixels_per_metre": None if scale is None else scale.value,
            "scale_sd": None if scale is None else scale.relative_sd,
            "scale_source": "gravity" if scale is None else scale.source,
        },
        "wanted": list(prepared.draft.wanted),
        "notes": list(prepared.notes),
    }

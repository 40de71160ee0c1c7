"""Pictures of a prepared recording: the predicted outline over the observed frames, and masks side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from gradsim.fit.observations.points import Point
from gradsim.fit.observations.tracks import Tracks
from gradsim.fit.result import Fit
from gradsim.footage.footage_view import FootageView
from gradsim.footage.lens import distort_points
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

SIDE = 720  # longer side of the video [px]
DURATION = 4.0  # least duration of the video [s]: it is slowed down
OBSERVED, PREDICTED = (255, 210, 0), (0, 210, 255)  # colours
DARK = (0, 0, 0)  # outline of thin lines, so that they are visible on any background
SPHERE_POINTS = 400  # on a ball, whose convex hull is its outline
SMALL = 36  # largest diameter of an object that is not marked by a cross [px]
CLOSE_UPS, CLOSE_UP, CLOSE_REACH = 6, 180, 1.25  # number, side [px] and half side [diameters] of enlarged pictures
TILE = 96  # side of a mask in a contact strip [px]
RADII = ("radius", "bob", "thickness")  # attributes of bodies that are seen as balls
FINE = 4  # subpixel bits of the shapes that OpenCV draws

Image = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class PredictedTrack:
    """The fitted motion in the undistorted picture.

    Args:
        points: Predicted centres [M, 2] [px].
        outlines: Outlines of the body in each frame [N, 2] [px].
    """

    points: NDArray[np.float64] = field(repr=False)
    outlines: tuple[NDArray[np.float64], ...] = field(repr=False)


def predicted_track(fit: Fit) -> PredictedTrack:
    """Returns the fitted motion of the tracked body of the first trial."""
    trial, values = fit.trials[0], fit.trial_values(0)
    observation = next(item for item in trial.observations if isinstance(item, Tracks))
    with torch.no_grad():
        scene, trajectory = trial.simulate(values)
        point = observation.points[0]
        view = observation.view(scene)
        centers = observation.projected(view, point.positions(scene, trajectory)[:, None])[:, 0]
        shape = observation.projected(view, _body_points(point, scene, trajectory))
    hulls = [cv2.convexHull(own.astype(np.float32))[:, 0] for own in shape.double().numpy()]
    return PredictedTrack(centers.double().numpy(), tuple(np.asarray(hull, np.float64) for hull in hulls))


def _body_points(point: Point, scene: Scene, trajectory: Trajectory) -> torch.Tensor:
    """Returns points whose convex hull is the tracked body [T, V, 3] [m]."""
    body: Any = scene[point.body]
    center = point.positions(scene, trajectory)[:, None]
    radius = next((getattr(body, name) for name in RADII if hasattr(body, name)), None)
    if radius is None:
        outline = point.outline(scene, trajectory)
        return center if outline is None else outline
    return center + float(radius) * _sphere().to(center)


def _sphere() -> torch.Tensor:
    """Returns evenly spread points of the unit sphere [N, 3], on a spiral."""
    k = torch.arange(SPHERE_POINTS, dtype=torch.float64) + 0.5
    z, angle = 1 - 2 * k / SPHERE_POINTS, torch.pi * (1 + 5**0.5) * k
    across = (1 - z * z).sqrt()
    return torch.stack([across * angle.cos(), across * angle.sin(), z], 1)


def overlay_frames(view: FootageView, predicted: PredictedTrack) -> Image:
    """Returns the pictures of a motion with the predicted outline and path and the observed centres [F, H, W, 3]."""
    height, width = view.pictures.shape[1:3]
    factor = SIDE / max(height, width)
    size = (round(width * factor / 2) * 2, round(height * factor / 2) * 2)
    scale = view.scale * np.array(size) / (width, height)

    def place(points: NDArray[np.float64]) -> NDArray[np.float64]:
        corner = np.array([view.window.left, view.window.top])
        return (distort_points(view.lens, points) - corner) * scale

    path, centers = place(predicted.points), place(view.points)
    images = []
    for row, picture in zip(view.rows, view.pictures, strict=True):
        image = cv2.resize(picture, size, interpolation=cv2.INTER_CUBIC)
        _draw_line(image, path, PREDICTED, closed=False)
        for center in centers[: row + 1]:
            _draw_dot(image, center)
        _draw_line(image, place(predicted.outlines[row]), PREDICTED, closed=True)
        if np.ptp(place(predicted.outlines[row]), axis=0).max() > SMALL:  # else it would cover the object
            _draw_cross(image, centers[row])
        images.append(np.asarray(image, np.uint8))
    return np.stack(images)


def close_up_rows(view: FootageView) -> list[int]:
    """Returns the indices of the pictures that are enlarged, spread over the motion."""
    count = len(view.rows)
    return sorted({int(k) for k in np.linspace(0, count - 1, min(count, CLOSE_UPS)).round()})


def close_ups(view: FootageView, predicted: PredictedTrack) -> Image:
    """Returns enlarged pictures of the object with its predicted outline and measured centre, side by side."""
    corner = np.array([view.window.left, view.window.top])
    tiles = []
    for k in close_up_rows(view):
        row = view.rows[k]
        outline = (distort_points(view.lens, predicted.outlines[row]) - corner) * view.scale
        center = (distort_points(view.lens, view.points[row]) - corner) * view.scale
        half = CLOSE_REACH * float(np.ptp(outline, axis=0).max())
        factor, origin = CLOSE_UP / (2 * half), outline.mean(0) - half
        matrix = np.array([[factor, 0, -factor * origin[0]], [0, factor, -factor * origin[1]]])
        matrix[:, 2] += 0.5 * factor - 0.5  # pixels are squares, and OpenCV counts from their centres
        size, border = (CLOSE_UP, CLOSE_UP), (128, 128, 128)
        tile = cv2.warpAffine(view.pictures[k], matrix, size, flags=cv2.INTER_CUBIC, borderValue=border)
        cv2.polylines(tile, [_fixed((outline - origin) * factor)], True, PREDICTED, 1, cv2.LINE_AA, FINE)
        _draw_dot(tile, (center - origin) * factor)
        tiles.append(tile)
    return np.asarray(np.concatenate(tiles, 1), np.uint8)


def playback_rate(view: FootageView) -> tuple[float, float]:
    """Returns the frames per second of the overlay, and its speed relative to the recording."""
    duration = float(view.times[-1] - view.times[0])
    speed = min(1.0, duration / DURATION)
    return speed * max(len(view.rows) - 1, 1) / max(duration, 1e-6), speed


def mask_strip(masks: Sequence[tuple[int, Image]]) -> Image:
    """Returns masks side by side [TILE, W, 3], each fitted into a square."""
    tiles = [_tile(mask) for _, mask in masks]
    strip = np.concatenate(tiles, 1)
    return np.repeat(strip[..., None], 3, 2)


def _tile(mask: Image) -> Image:
    factor = (TILE - 4) / max(mask.shape)
    width, height = (max(1, round(side * factor)) for side in mask.shape[::-1])
    own = cv2.resize(mask, (width, height), interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_NEAREST)
    tile = np.full((TILE, TILE), 40, np.uint8)
    top, left = (TILE - height) // 2, (TILE - width) // 2
    tile[top : top + height, left : left + width] = own
    return tile


def _draw_line(image: Any, points: NDArray[np.float64], color: tuple[int, int, int], *, closed: bool) -> None:
    shape = [_fixed(points)]
    cv2.polylines(image, shape, closed, DARK, 4, cv2.LINE_AA, FINE)
    cv2.polylines(image, shape, closed, color, 2, cv2.LINE_AA, FINE)


def _draw_dot(image: Any, point: NDArray[np.float64]) -> None:
    x, y = (int(number) for number in _fixed(point))
    cv2.circle(image, (x, y), 3 << FINE, DARK, -1, cv2.LINE_AA, FINE)
    cv2.circle(image, (x, y), 2 << FINE, OBSERVED, -1, cv2.LINE_AA, FINE)


def _draw_cross(image: Any, point: NDArray[np.float64]) -> None:
    for reach in ((7.0, 0.0), (0.0, 7.0)):
        _draw_line(image, np.array([point - reach, point + reach]), OBSERVED, closed=False)


def _fixed(points: NDArray[np.float64]) -> NDArray[np.int32]:
    """Returns points with subpixel bits, relative to the centre of the first pixel as OpenCV counts."""
    return np.round((np.clip(points, -1e4, 1e4) - 0.5) * (1 << FINE)).astype(np.int32)

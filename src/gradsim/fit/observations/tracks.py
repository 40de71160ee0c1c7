"""Tracks: positions of points over time, in the image or in space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gradsim.fit.observations.base import Adjust, Observation, brief, measurements
from gradsim.fit.observations.points import Point, Vertex, vertex_positions
from gradsim.render.camera import projection
from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory


class Tracks(Observation):
    """Positions of K points over time, in the image or in space; NaN where a point is not seen.

    Example:
        `gs.estimate(scene, gs.Tracks([gs.Center("cube")], pixels, (480, 640), noise=0.4), fps=60.0)`

    Args:
        points: Points of bodies: `gs.Vertex`, `gs.Center`, `gs.Bob`, `gs.FacePoint`, `gs.Marker`; or indices of
            vertices by body, such as `{"cube": [0, 3, 6]}`.
        pixels: Image positions (x, y) from the upper left corner [px], [T, K, 2].
        size: Height and width of the image that `pixels` refers to [px].
        positions: Positions in space [m], [T, K, 3], in place of `pixels`.
        weights: Weights of the points, [K] or [T, K], or of their coordinates, [T, K, 2] or [T, K, 3].
        drift: Standard deviation of errors that last for about two frames, in px or m: an outline moves with the
            background and the light behind it. The motion absorbs a part of them, so that residuals do not show
            their size; they widen the intervals. Weights do not change it.
        options: `noise` and `robust` in px or m, `frames`, `offset`, and `camera` for image positions; see
            `Observation`.
    """

    points: tuple[Point, ...]
    pixels: torch.Tensor | None
    size: tuple[int, int] | None
    positions: torch.Tensor | None

    def __init__(
        self,
        points: Sequence[Point] | Mapping[str, Sequence[int]],
        pixels: Any = None,
        size: tuple[int, int] | None = None,
        *,
        positions: Any = None,
        weights: Any = None,
        drift: float = 0.0,
        **options: Any,
    ):
        given = _checked_points(points)
        if (pixels is None) == (positions is None):
            raise InvalidInput("pixels/positions", "both or neither", "give image positions, or positions in space")
        name, values, width = ("pixels", pixels, 2) if positions is None else ("positions", positions, 3)
        tracks = _checked_tracks(name, values, len(given), width)
        if positions is not None:
            for option, value in (("size", size), ("camera", options.get("camera"))):
                if value is not None:
                    raise InvalidInput(option, brief(value), "does not apply to positions in space")
        elif size is None:
            raise InvalidInput("size", None, "image positions need the size of the image (H, W) [px]")
        arguments = {"points": given, "pixels": pixels, "size": size, "positions": positions, "weights": weights}
        arguments["drift"] = _checked_drift(drift)
        super().__init__(len(tracks), options, arguments)
        vars(self).pop("weights")  # a method has this name
        vars(self).update({name: tracks}, size=None if size is None else checked_pixels("size", size), _tracks=tracks)
        vars(self).update(unit="px" if positions is None else "m")
        vars(self).update(_point_weights=None if weights is None else _checked_weights(weights, tracks))

    def entries(self, level: int) -> int:
        tracks: torch.Tensor = vars(self)["_tracks"]
        return tracks.shape[1] * tracks.shape[2]

    def entry_weights(self, level: int) -> torch.Tensor | None:
        tracks, given = vars(self)["_tracks"], vars(self)["_point_weights"]
        missing = torch.isnan(tracks).any(-1)
        if given is None and not bool(missing.any()):
            return None
        weights = torch.ones_like(tracks) if given is None else given
        if weights.ndim < 3:
            weights = weights.expand(*tracks.shape[:2])[..., None].expand_as(tracks)
        return torch.where(missing[..., None], 0.0, weights).flatten(1)

    def series(self) -> torch.Tensor:
        tracks: torch.Tensor = vars(self)["_tracks"]
        return tracks.flatten(1)

    def difference(
        self,
        scene: Scene,
        trajectory: Trajectory,
        level: int,
        *,
        samples: int = 1,
        readouts: int = 1,
        adjust: Adjust | None = None,
    ) -> torch.Tensor:
        self.check_no_images(samples, adjust)
        simulated = self.simulated(scene, trajectory)
        if readouts > 1:
            simulated = simulated.unflatten(-3, (-1, readouts)).diagonal(dim1=-3, dim2=-2).movedim(-1, -2)
        if self.size is not None:
            simulated = self.projected(self.view(scene), simulated)
        target = vars(self)["_tracks"][: simulated.shape[-3]]
        seen = ~torch.isnan(target).any(-1, keepdim=True)
        return torch.where(seen, simulated - target.nan_to_num(), 0.0).flatten(-2)

    def simulated(self, scene: Scene, trajectory: Trajectory) -> torch.Tensor:
        """Returns the simulated positions of the points in space [m], [..., T', K, 3]."""
        parts: list[torch.Tensor] = []
        for (kind, _), group in itertools.groupby(self.points, lambda point: (type(point), point.body)):
            points: list[Any] = list(group)
            if kind is Vertex:
                parts.append(vertex_positions(trajectory, points))
            else:
                parts += [point.positions(scene, trajectory)[..., None, :] for point in points]
        return torch.cat(parts, -2)

    def rows(self) -> torch.Tensor | None:
        """Measured rows relative to the height of the image, [T, K], half of it where missing; None in space."""
        if self.size is None:
            return None
        tracks: torch.Tensor = vars(self)["_tracks"]
        return (tracks[..., 1] / self.size[0]).nan_to_num(0.5).clamp(0.0, 1.0)

    def apparent_diameters(self, scene: Scene, trajectory: Trajectory) -> list[float]:
        """Median apparent diameters of the bodies whose centres are tracked [px]; NaN for points that are no centres.

        The diameter is the mean of width and height of the body in the image.
        """
        outlines = [point.outline(scene, trajectory) for point in self.points]
        return [math.nan if points is None else self._diameter(scene, points) for points in outlines]

    def _diameter(self, scene: Scene, points: torch.Tensor) -> float:
        image = self.projected(self.view(scene), points)
        extent = image.amax(-2) - image.amin(-2)
        return float(extent.mean(-1).median())

    def projected(self, scene: Scene, points: torch.Tensor) -> torch.Tensor:
        """Image positions [px], [..., T', K, 2]; points behind the near plane are moved onto it."""
        if scene.camera is None or self.size is None:
            remedy = "image positions need one: set the camera of the scene, or gs.Tracks(..., camera=gs.Camera(...))"
            raise InvalidInput("scene.camera", None, remedy)
        matrix, eye = projection(scene.camera, self.size, points.dtype, points.device)
        image = (points - eye[..., None, None, :]) @ matrix[..., None, :, :].mT
        return image[..., :2] / image[..., 2:].clamp_min(float(scene.camera.near))


def _checked_points(points: Any) -> tuple[Point, ...]:
    if isinstance(points, Mapping):
        points = [Vertex(body, int(index)) for body, indices in points.items() for index in indices]
    if not isinstance(points, Sequence) or not all(isinstance(point, Point) for point in points):
        remedy = "must be a list of gs.Vertex, gs.Center, gs.Bob, gs.FacePoint and gs.Marker, or vertices by body"
        raise WrongType("points", brief(points), remedy)
    if not points:
        raise WrongShape("points", "empty", "give at least one point")
    return tuple(points)


def _checked_tracks(name: str, values: Any, count: int, width: int) -> torch.Tensor:
    tracks = measurements(name, values)
    if tracks.ndim != 3 or tuple(tracks.shape[1:]) != (count, width):
        axes = "(x, y) [px]" if width == 2 else "(x, y, z) [m]"
        valid = f"must be [T, {count}, {width}], {axes} of each of the {count} points"
        raise WrongShape(name, f"shape {tuple(tracks.shape)}", valid)
    return tracks


def _checked_drift(drift: Any) -> float:
    if isinstance(drift, bool) or not isinstance(drift, (int, float)) or not 0 <= drift < math.inf:
        raise OutOfRange("drift", drift, "must be a standard deviation >= 0, in px or m")
    return float(drift)


def _checked_weights(weights: Any, tracks: torch.Tensor) -> torch.Tensor:
    array, whole = measurements("weights", weights), tuple(tracks.shape)
    shape = whole[:2]
    if tuple(array.shape) not in (shape, shape[1:], whole):
        remedy = f"must be {shape[1:]} or {shape}, one per point, or {whole}, one per coordinate"
        raise WrongShape("weights", f"shape {tuple(array.shape)}", remedy)
    if not float(array.min()) >= 0:
        raise OutOfRange("weights", f"smallest weight {float(array.min()):g}", "must be >= 0")
    return array

"""The trial of a prepared recording."""

from __future__ import annotations

import numpy as np

from gradsim.fit.observations.points import Bob, Center, Point, Vertex
from gradsim.fit.observations.tracks import Tracks
from gradsim.fit.trials import Trial
from gradsim.footage.prepare import Prepared
from gradsim.scene.errors import InvalidInput

POINTS: dict[str, type[Vertex] | type[Bob]] = {"vertex": Vertex, "bob": Bob}  # points with an index


def named_point(path: str) -> Point:
    """Returns the point of a path such as "ball.center", "cube.vertex3" or "arm.bob0"."""
    body, _, point = path.partition(".")
    if point == "center":
        return Center(body)
    for word, kind in POINTS.items():
        if point.startswith(word) and point[len(word) :].isdigit():
            return kind(body, int(point[len(word) :]))
    raise InvalidInput("point", repr(path), "must be named like cube.center.x, cube.vertex3.x or arm.bob0.x")


def weights_from_deviations(deviations: np.ndarray) -> np.ndarray:
    """Returns weights of standard deviations [T, K] or [T, K, n]; 0 where one is NaN.

    A coordinate with the median standard deviation has a weight of 1; of several coordinates the better one counts.
    """
    points = deviations if deviations.ndim == 2 else deviations.min(-1)
    return np.nan_to_num((np.nanmedian(points) / deviations) ** 2)


def prepared_trial(prepared: Prepared) -> Trial:
    """Returns the trial of a prepared recording: its scene and the tracks of its objects."""
    part = prepared.path.part(prepared.fit.frames)
    weights = weights_from_deviations(prepared.deviations.reshape(len(part), -1, 2))
    points = [named_point(path) for path in prepared.draft.points]
    centers = part.points.reshape(len(part), -1, 2)
    tracks = Tracks(points, centers, prepared.view.size, weights=weights, drift=prepared.drift)
    return Trial(prepared.draft.scene, tracks, times=prepared.times, name=prepared.recording.path.stem)

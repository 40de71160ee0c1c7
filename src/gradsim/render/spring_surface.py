"""The surface of a mass-spring body: an octahedron at each node and a bar of square section along each spring."""

from __future__ import annotations

import functools
from collections.abc import Hashable

import numpy as np
import torch

from gradsim.scene.bodies import Springs
from gradsim.scene.quantity import to_numpy
from gradsim.scene.surfaces import box

OCTAHEDRON = np.concatenate([np.eye(3), -np.eye(3)])
OCTAHEDRON_FACES = np.array([[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]])


@functools.cache
def _bar() -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of a unit cube, whose y axis is mapped to the spring."""
    cube = box(1.0)
    return cube.vertices, cube.faces


def _initial_points(body: Springs) -> np.ndarray:
    """Points of the first world [m], [N, 3]."""
    points = to_numpy(body.points)
    assert points is not None
    return points.reshape(-1, *points.shape[-2:])[0]


def spring_mesh(body: Springs) -> tuple[np.ndarray, np.ndarray, Hashable]:
    """Returns vertices at the start [m], [V, 3], faces, [F, 3], and a key.

    The key leaves out the points: the angles at edges, which the topology depends on, are the same for all.
    """
    points = _initial_points(body)
    octahedra = OCTAHEDRON_FACES + len(OCTAHEDRON) * np.arange(len(points))[:, None, None]
    first_bar = len(OCTAHEDRON) * len(points)
    bars = first_bar + _bar()[1] + len(_bar()[0]) * np.arange(len(body.edges))[:, None, None]
    faces = np.concatenate([octahedra.reshape(-1, 3), bars.reshape(-1, 3)])
    rest = spring_vertices(body, torch.from_numpy(points.astype(np.float64))).numpy()
    return rest, faces, ("springs", len(points), body.edges.tobytes())


def spring_vertices(body: Springs, points: torch.Tensor) -> torch.Tensor:
    """Returns the vertices of octahedra and bars [m], [..., V, 3], from nodes [..., N, 3], differentiably."""

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, dtype=points.dtype, device=points.device)

    octahedra = (points[..., None, :] + body.thickness * tensor(OCTAHEDRON)).flatten(-3, -2)
    first, second = (torch.tensor(end, dtype=torch.int64, device=points.device) for end in body.edges.T)
    origin = points.index_select(-2, first)[..., None, :]
    axis = points.index_select(-2, second)[..., None, :] - origin
    # The reference direction is fixed, so that bars do not twist: the world axis most perpendicular to the initial bar.
    along = np.diff(_initial_points(body)[body.edges], axis=1)[:, 0]
    reference = tensor(np.eye(3)[np.abs(along).argmin(axis=1)])[:, None].expand_as(axis)
    x = torch.nn.functional.normalize(torch.linalg.cross(axis, reference), dim=-1)
    z = torch.nn.functional.normalize(torch.linalg.cross(x, axis), dim=-1)
    local = tensor(_bar()[0])
    across = body.thickness * (local[:, :1] * x + local[:, 2:] * z)
    bars = origin + (local[:, 1:2] + 0.5) * axis + across
    return torch.cat([octahedra, bars.flatten(-3, -2)], -2)

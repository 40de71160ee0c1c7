"""What is seen of masses on springs: octahedra at the nodes, and bars of square section between them."""

from __future__ import annotations

import functools
from collections.abc import Hashable

import numpy as np
import torch

from gradsim.scene.bodies import Springs
from gradsim.scene.quantity import to_numpy
from gradsim.scene.surfaces import box

TIPS = np.concatenate([np.eye(3), -np.eye(3)])
SIDES = np.array([[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]])


@functools.cache
def _bar() -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of a cube of edge 1, whose y will run along a spring."""
    cube = box(1.0)
    return cube.vertices, cube.faces


def bar_mesh(body: Springs) -> tuple[np.ndarray, np.ndarray, Hashable]:
    """Vertices at the start [m], [V, 3], faces, [F, 3], and a key: the angles at edges do not depend on the points."""
    start = to_numpy(body.points)
    assert start is not None
    points = start.reshape(-1, *start.shape[-2:])[0]
    tips = SIDES + 6 * np.arange(len(points))[:, None, None]
    bars = 6 * len(points) + _bar()[1] + 8 * np.arange(len(body.edges))[:, None, None]
    faces = np.concatenate([tips.reshape(-1, 3), bars.reshape(-1, 3)])
    rest = bar_vertices(body, torch.from_numpy(points.astype(np.float64))).numpy()
    return rest, faces, ("springs", len(points), body.edges.tobytes())


def bar_vertices(body: Springs, points: torch.Tensor) -> torch.Tensor:
    """Vertices of octahedra and bars [m], [..., V, 3], from the nodes, [..., N, 3], differentiably."""
    start = to_numpy(body.points)
    assert start is not None
    along = np.diff(start.reshape(-1, *start.shape[-2:])[0][body.edges], axis=1)[:, 0]

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, dtype=points.dtype, device=points.device)

    tips = (points[..., None, :] + body.thickness * tensor(TIPS)).flatten(-3, -2)
    first, second = (torch.tensor(end, dtype=torch.int64, device=points.device) for end in body.edges.T)
    origin = points.index_select(-2, first)[..., None, :]
    axis = points.index_select(-2, second)[..., None, :] - origin
    # A bar keeps its side: it is turned towards the axis of the world that the spring was furthest from at the start.
    aside = tensor(np.eye(3)[np.abs(along).argmin(axis=1)])[:, None].expand_as(axis)
    x = torch.nn.functional.normalize(torch.linalg.cross(axis, aside), dim=-1)
    z = torch.nn.functional.normalize(torch.linalg.cross(x, axis), dim=-1)
    local = tensor(_bar()[0])
    across = body.thickness * (local[:, :1] * x + local[:, 2:] * z)
    bars = origin + (local[:, 1:2] + 0.5) * axis + across
    return torch.cat([tips, bars.flatten(-3, -2)], -2)

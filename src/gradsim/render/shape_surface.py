"""Surfaces of static shapes whose place or size is a tensor or changes in time."""

from __future__ import annotations

from typing import Any

import torch

from gradsim.scene.batcher import Batcher
from gradsim.scene.materials import Ground
from gradsim.scene.motion import interpolate, motion_samples, moved_samples, rotation_samples, unit
from gradsim.scene.rotation import rotate
from gradsim.scene.shapes import StaticBox, StaticCapsule, StaticSphere
from gradsim.scene.trajectory import Trajectory


def shape_vertices(
    shape: StaticSphere | StaticCapsule | StaticBox, rest: torch.Tensor, trajectory: Trajectory, batcher: Batcher
) -> torch.Tensor:
    """Returns the vertices of a shape at all frames [m], [1 or W, 1 or T, V, 3].

    Args:
        shape: The shape.
        rest: Vertices of the shape of unit size at the origin, as from `shape_mesh`, [V, 3].
        trajectory: Gives the times of the frames.
        batcher: The batch.
    """
    if isinstance(shape, StaticSphere):
        x = rest * batcher.per_world(shape.radius)[:, None, None] + batcher.per_world(shape.position, (3,))[:, None]
        center = batcher.per_world(shape.position, (3,))
    elif isinstance(shape, StaticBox):
        center = batcher.per_world(shape.position, (3,))
        turn = unit(batcher.per_world(shape.rotation, (4,)))[:, None]
        x = rotate(turn, rest * batcher.per_world(shape.size, (3,))[:, None]) + center[:, None]
    else:
        x, center = _capsule_vertices(shape, rest, batcher)
    return moved_vertices(x, shape.motion, center, trajectory, batcher)


def _capsule_vertices(shape: StaticCapsule, rest: torch.Tensor, batcher: Batcher) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the vertices of a capsule before its motion, [1 or W, V, 3], and its centre."""
    start, end = batcher.per_world(shape.start, (3,)), batcher.per_world(shape.end, (3,))
    height = (end - start).norm(dim=-1, keepdim=True)
    axis = (end - start) / height
    # The smallest rotation from y to the axis, and half a turn about x for -y.
    x, y, z = axis.unbind(-1)
    down = y < -1.0 + 1e-12
    turn = torch.stack([torch.where(down, torch.ones_like(x), z), torch.zeros_like(x), -x, 1.0 + y], -1)
    offset = torch.zeros_like(rest)
    offset[:, 1] = 0.5 * rest[:, 1].sign()  # of the hemispheres' centres, at unit height
    radius = batcher.per_world(shape.radius)[:, None, None]
    local = (rest - offset) * radius + offset * height[:, None]
    center = (start + end) / 2
    return rotate(unit(turn)[:, None], local) + center[:, None], center


def moved_vertices(
    x: torch.Tensor, motion: Any, center: torch.Tensor, trajectory: Trajectory, batcher: Batcher
) -> torch.Tensor:
    """Returns vertices [1 or W, V, 3] at all frames, [1 or W, 1 or T, V, 3]; they turn about `center` [1 or W, 3]."""
    if motion is None:
        return x[:, None]
    turns = rotation_samples(motion, batcher.per_element)
    fractions = trajectory.fractions
    fractions = batcher.per_world(fractions, tuple(fractions.shape[-1:]))
    origin = moved_samples(center[:, None, None], motion, turns, center[:, None], batcher.per_element)
    path = _at(origin, fractions)
    arms = x[:, None] - center[:, None, None]
    return path + (arms if turns is None else rotate(unit(_at(turns, fractions)), arms))


def plane_path(ground: Ground, trajectory: Trajectory, batcher: Batcher) -> torch.Tensor:
    """Returns the displacement of a moving plane at all frames [m], [1 or W, T, 3]."""
    motion: Any = ground.motion
    samples = motion_samples(motion.displacement, 1, (3,), batcher.per_element, motion.sample_count)
    fractions = trajectory.fractions
    return _at(samples, batcher.per_world(fractions, tuple(fractions.shape[-1:])))[..., 0, :]


def _at(samples: torch.Tensor, fractions: torch.Tensor) -> torch.Tensor:
    worlds = max(len(samples), len(fractions))
    return interpolate(samples.expand(worlds, *(-1,) * (samples.ndim - 1)), fractions.expand(worlds, -1))

"""Derivatives of images with respect to the apparent position of each body, for model errors that shift it."""

from __future__ import annotations

from typing import Any

import torch

from gradsim.render.camera import projection
from gradsim.scene.articulated_motion import ArticulatedMotion
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import BodyMotion, Trajectory

MAX_SHIFTED_BODIES = 4  # bodies whose apparent position may deviate from the model
SHIFT = 0.05  # finite difference of an apparent position [px]


def shift_columns(trial: Any, number: int, filled: tuple[Scene, Trajectory, Any]) -> list[torch.Tensor]:
    """Returns derivatives with respect to the position of each body in the image [1/px], along x and y, [T, N] each."""
    scene, trajectory, values = filled
    camera = trial.observations[number].camera or scene.camera
    names = [name for name, motion in trajectory.motions.items() if hasattr(motion, "vertices")]
    if camera is None or not 1 <= len(names) <= MAX_SHIFTED_BODIES:
        return []
    columns = []
    with torch.no_grad():
        for name in names:
            for step in _image_steps(camera, trial.observations[number].size, trajectory.motions[name].vertices):
                pair = [
                    trial.difference(scene, _shifted(trajectory, name, sign * SHIFT * step), values, number, 0)
                    for sign in (1.0, -1.0)
                ]
                columns.append(((pair[0] - pair[1]) / (2 * SHIFT)).reshape(pair[0].shape[-2:]))
    return columns


def _image_steps(camera: Any, size: tuple[int, int], vertices: torch.Tensor) -> list[torch.Tensor]:
    """Returns displacements [3] that move points at the mean depth of a body by one pixel along x and y [m/px]."""
    matrix, eye = projection(camera, size, torch.float64, vertices.device)
    matrix, eye = matrix.reshape(-1, 3, 3)[0], eye.reshape(-1, 3)[0]
    mean = vertices.reshape(-1, 3).to(torch.float64).mean(0)
    depth = (matrix @ (mean - eye))[2]
    inverse = torch.linalg.inv(matrix)
    return [depth * inverse[:, axis] for axis in (0, 1)]


def _shifted(trajectory: Trajectory, name: str, shift: torch.Tensor) -> Trajectory:
    """Returns a motion with one body displaced by the same vector [m] at all frames."""
    motion = trajectory.motions[name]
    if isinstance(motion, ArticulatedMotion):
        moved: Any = motion.displaced(shift)
    else:
        moved = BodyMotion(motion.vertices + shift, motion.velocities)
    return Trajectory(trajectory.time, {**trajectory.motions, name: moved}, {})

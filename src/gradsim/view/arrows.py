"""Forces on rigid bodies as arrows: known pushes, and the mean of all forces but gravity between two frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradsim.scene.quantity import unwrap
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import RigidMotion, Trajectory

MAX_WEIGHTS = 5.0  # longest arrow, as a multiple of the weight's


@torch.no_grad()
def force_arrows(scene: Scene, trajectory: Trajectory, length: float, world: int = 0) -> np.ndarray:
    """Returns the mean force other than gravity on each rigid body, as arrows from its centre of mass.

    The force between frames k and k + 1 is mass (dv/dt - gravity): contact, pushes, drag and forces between bodies
    together. It is exact as a mean over the interval; an impact within a frame is not resolved.

    Args:
        scene: The scene.
        trajectory: Its motion, T frames.
        length: Length of the arrow of a force that equals the weight [m]; longer ones end at five times that.
        world: World of the batch.

    Returns:
        Start and end of the arrows [m], [T - 1, bodies, 2, 3].
    """
    arrows = []
    times = _world(trajectory.time, 1, world)
    for body in scene.bodies:
        motion = trajectory.motions.get(body.name)
        if not isinstance(motion, RigidMotion) or len(trajectory) < 2:
            continue
        velocity, center = _world(motion.velocity, 2, world), _world(motion.center_of_mass, 2, world)
        gravity = _world(motion.column, 2, world)[:, 1:4]
        rate = np.diff(velocity, axis=0) / np.diff(times)[:, None] - gravity  # force per mass [m/s^2]
        weight = max(float(np.linalg.norm(gravity)), 1.0)
        ratio = rate / weight
        size = np.linalg.norm(ratio, axis=1, keepdims=True)
        ratio *= np.minimum(1.0, MAX_WEIGHTS / np.maximum(size, 1e-9))
        arrows.append(np.stack([center[:-1], center[:-1] + length * ratio], 1))
    return np.stack(arrows, 1) if arrows else np.zeros((max(len(trajectory) - 1, 0), 0, 2, 3))


@torch.no_grad()
def push_arrows(scene: Scene, trajectory: Trajectory, frame: int, length: float, world: int = 0) -> np.ndarray:
    """Returns the pushes that act at a frame as arrows of one length that end where they act, [N, 2, 3] [m]."""
    time = float(_world(trajectory.time, 1, world)[frame])
    step = float(np.diff(_world(trajectory.time, 1, world)).min()) if len(trajectory) > 1 else 0.0
    arrows = []
    for body in scene.bodies:
        motion = trajectory.motions.get(body.name)
        if not isinstance(body, Rigid) or not isinstance(motion, RigidMotion):
            continue
        for push in body.pushes:
            end = push.start if push.end is None and push.impulse is not None else push.end or np.inf
            pushed = _first(push.impulse if push.force is None else push.force, 1)
            if not push.start - step <= time <= end + step or not pushed.any():
                continue
            rotation = torch.as_tensor(_world(motion.rotation, 2, world)[frame])
            place = _world(motion.center_of_mass, 2, world)[frame]
            if push.point is not None:
                point = torch.as_tensor(_first(push.point, 1), dtype=rotation.dtype)
                place = _world(motion.position, 2, world)[frame] + rotate(rotation, point).numpy()
            arrows.append([place - length * pushed / np.linalg.norm(pushed), place])
    return np.array(arrows).reshape(-1, 2, 3)


def _world(tensor: torch.Tensor, dims: int, world: int) -> np.ndarray:
    """Returns one world of a tensor with `dims` dimensions after the batch."""
    flat = tensor.reshape(-1, *tensor.shape[-dims:])
    return flat[min(world, len(flat) - 1)].detach().cpu().numpy()


def _first(value: Any, dims: int) -> np.ndarray:
    """Returns the first value of a quantity whose single value has `dims` dimensions."""
    array = unwrap(value)
    found = array.detach().cpu().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)
    return found.reshape(-1, *found.shape[found.ndim - dims :])[0]

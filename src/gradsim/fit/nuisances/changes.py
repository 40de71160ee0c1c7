"""Changed copies of quantities and of parts of a scene, and lengths and speeds that uncertainties are relative to."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from gradsim.scene.bodies import body_size
from gradsim.scene.quantity import Signal, is_per_element, rewrap, to_numpy, unwrap
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
DEGREE = math.pi / 180.0


def tensor_of(value: Any, amount: torch.Tensor) -> torch.Tensor:
    """Returns the numbers of a quantity as a tensor; plain numbers get the type of the amount."""
    array = unwrap(value)
    if isinstance(array, torch.Tensor):
        return array
    return torch.tensor(array, dtype=amount.dtype, device=amount.device)


def changed(
    value: Any,
    amount: torch.Tensor,
    shape: Sequence[int],
    change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Any:
    """Returns change(numbers, amount) of a quantity whose single value has `shape`, in the quantity's wrappers.

    The amount [...] gets the trailing dimensions of the numbers, so that it broadcasts with their batch.
    """
    numbers = tensor_of(value, amount)
    trailing = len(shape) + int(is_per_element(value)) + int(isinstance(value, Signal))
    return rewrap(value, change(numbers, amount.to(numbers).reshape((*amount.shape, *[1] * trailing))))


def multiplied(value: Any, log: torch.Tensor, shape: Sequence[int] = ()) -> Any:
    """Returns a quantity times exp(log)."""
    return changed(value, log, shape, lambda numbers, a: numbers * torch.exp(a))


def added(value: Any, amount: torch.Tensor, direction: Sequence[float]) -> Any:
    """Returns a vector quantity plus an amount [...] along a direction [3]."""
    return changed(value, amount, (3,), lambda numbers, a: numbers + a * vector(direction, numbers))


def vector(values: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values), dtype=like.dtype, device=like.device)


def turned(x: torch.Tensor, axis: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    """Rotates vectors [..., 3] by angles [..., 1] [rad] about unit axes [..., 3] (Rodrigues)."""
    x, axis = torch.broadcast_tensors(x, axis)
    along = (axis * x).sum(-1, keepdim=True) * axis
    return along + (x - along) * torch.cos(angle) + torch.linalg.cross(axis, x) * torch.sin(angle)


def perpendicular(direction: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns two unit vectors perpendicular to vectors [..., 3] and to each other: x and z for one along -y."""
    unit = direction / direction.norm(dim=-1, keepdim=True)
    x, z = vector(AXES["x"], unit), vector(AXES["z"], unit)
    steep = unit.detach()[..., :1].abs() > 0.9
    reference = torch.where(steep, z, x)
    first = reference - (reference * unit).sum(-1, keepdim=True) * unit
    first = first / first.norm(dim=-1, keepdim=True)
    return first, torch.linalg.cross(first, unit)


def with_body(scene: Scene, name: str, **values: Any) -> Scene:
    """Returns a copy of a scene with other fields of one body."""
    bodies = [dataclasses.replace(body, **values) if body.name == name else body for body in scene.bodies]  # type: ignore[type-var]
    return dataclasses.replace(scene, bodies=bodies)


def with_obstacle(scene: Scene, name: str, **values: Any) -> Scene:
    """Returns a copy of a scene with other fields of its ground or of one static shape."""
    if name == "ground" and scene.ground is not None:
        return dataclasses.replace(scene, ground=dataclasses.replace(scene.ground, **values))
    shapes = {own: dataclasses.replace(s, **values) if own == name else s for own, s in scene.shapes.items()}
    return dataclasses.replace(scene, shapes=shapes)


def magnitude(value: Any) -> float:
    """Returns the mean length of the vectors of a quantity [..., 3]."""
    numbers = to_numpy(value)
    return 0.0 if numbers is None else float(np.linalg.norm(numbers, axis=-1).mean())


def mean(value: Any) -> float:
    """Returns the mean of all numbers of a quantity."""
    numbers = to_numpy(value)
    return 0.0 if numbers is None else float(np.mean(numbers))


def size_of(body: Any) -> float:
    """Largest extent of a body [m]; the diameter of the bobs of a pendulum."""
    return 2.0 * body.bob if hasattr(body, "bob") else body_size(body)


def speed_of(body: Any, scene: Scene, trajectory: Trajectory | None) -> float:
    """Typical speed of a body [m/s], > 0: the larger of the initial and the mean one; for one at rest, a tenth of the
    speed after falling its own size."""
    moving = 0.0
    if trajectory is not None:
        moving = float(trajectory[body.name].velocity.detach().square().sum(-1).mean().sqrt())
    weight = magnitude(scene.gravity) or size_of(body)
    return max(magnitude(body.velocity), moving, 0.1 * math.sqrt(weight * size_of(body)))


def center_of(scene: Scene) -> np.ndarray:
    """Mean of the initial positions of all bodies [m], [3]."""
    places = []
    for body in scene.bodies:
        position = getattr(body, "position", getattr(body, "pivot", None))
        if position is None:
            continue
        numbers = to_numpy(position)
        place = np.zeros(3) if numbers is None else numbers.reshape(-1, 3).mean(0)
        if hasattr(body, "points"):
            own = to_numpy(body.points)
            place = place + (np.zeros(3) if own is None else own.reshape(-1, 3).mean(0))
        elif hasattr(body, "mesh"):
            place = place + body.mesh.vertices.mean(0)
        places.append(place)
    return np.mean(places, axis=0) if places else np.zeros(3)

"""Nuisances of the initial state: position, rotation, velocity and spin of each body, angles and rates of pendula."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from gradsim.fit.nuisances import wording
from gradsim.fit.nuisances.changes import (
    AXES,
    DEGREE,
    added,
    magnitude,
    size_of,
    speed_of,
    tensor_of,
    vector,
    with_body,
)
from gradsim.fit.nuisances.nuisance import Nuisance, SceneChange
from gradsim.scene.bodies import Springs
from gradsim.scene.body import NodeBody
from gradsim.scene.pendula import DoublePendulum, Pendulum
from gradsim.scene.quantity import PerElement, is_per_element, to_numpy
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

POSITION = 0.02  # of the body's size
ROTATION = 1.0  # [degree]
SPEED = 0.02  # of the body's typical speed or spin


def start_nuisances(scene: Scene, trajectory: Trajectory | None) -> Iterator[Nuisance]:
    for body in scene.bodies:
        if isinstance(body, (Rigid, NodeBody)):
            yield from _free_body(body, scene, trajectory)
        elif isinstance(body, (Pendulum, DoublePendulum)):
            yield from _pendulum(body, scene, trajectory)


def _free_body(body: Any, scene: Scene, trajectory: Trajectory | None) -> Iterator[Nuisance]:
    name, size, speed = body.name, size_of(body), speed_of(body, scene, trajectory)
    turn_paths = (f"{name}.points",) if isinstance(body, Springs) else (f"{name}.rotation",)
    spin_paths = (f"{name}.angular_velocity",) if isinstance(body, Rigid) else (f"{name}.velocity",)
    for k, axis in enumerate(AXES):
        text = wording.shifted(f"start of {name}", axis, "m")
        change = _vector_change(name, "position", axis)
        paths = (f"{name}.position[{k}]",)
        yield Nuisance(f"{name}.start.position.{axis}", "start", "m", POSITION * size, text, change, changes=paths)
    for k, axis in enumerate(AXES):
        text = wording.shifted(f"initial velocity of {name}", axis, "m/s")
        change = _vector_change(name, "velocity", axis)
        paths = (f"{name}.velocity[{k}]",)
        yield Nuisance(f"{name}.start.velocity.{axis}", "start", "m/s", SPEED * speed, text, change, changes=paths)
    for axis in AXES:
        text = wording.of(f"rotation of {name} about {axis} at the start", "degree")
        change = _points_turn(name, axis) if isinstance(body, Springs) else _turn(name, axis)
        yield Nuisance(f"{name}.start.rotation.{axis}", "start", "degree", ROTATION, text, change, changes=turn_paths)
    spin = _typical_spin(body, speed / size, trajectory)
    for k, axis in enumerate(AXES):
        text = wording.shifted(f"initial spin of {name}", axis, "rad/s")
        change = _vector_change(name, "angular_velocity", axis) if isinstance(body, Rigid) else _node_spin(name, axis)
        paths = (f"{spin_paths[0]}[{k}]",) if isinstance(body, Rigid) else spin_paths
        yield Nuisance(f"{name}.start.spin.{axis}", "start", "rad/s", SPEED * spin, text, change, changes=paths)


def _typical_spin(body: Any, rate: float, trajectory: Trajectory | None) -> float:
    """[rad/s], > 0; at least half of the rate at which the body passes its own size."""
    if not isinstance(body, Rigid):
        return rate
    turning = 0.0
    if trajectory is not None:
        turning = float(trajectory[body.name].angular_velocity.detach().square().sum(-1).mean().sqrt())
    return max(magnitude(body.angular_velocity), turning, 0.5 * rate)


def _vector_change(name: str, field: str, axis: str) -> SceneChange:
    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        return with_body(scene, name, **{field: added(getattr(scene[name], field), amount, AXES[axis])})

    return change


def _quaternion(axis: str, amount: torch.Tensor) -> torch.Tensor:
    """Rotations by angles [...] [degree] about an axis of the world, [..., 4]."""
    half = 0.5 * DEGREE * amount[..., None]
    return torch.cat([torch.sin(half) * vector(AXES[axis], amount), torch.cos(half)], -1)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The rotation b followed by a, as quaternions (x, y, z, w)."""
    a, b = torch.broadcast_tensors(a, b)
    (u, s), (v, t) = ((q[..., :3], q[..., 3:]) for q in (a, b))
    return torch.cat([s * v + t * u + torch.linalg.cross(u, v), s * t - (u * v).sum(-1, keepdim=True)], -1)


def _turn(name: str, axis: str) -> SceneChange:
    """Rotation of a body with a mesh about the middle of its mesh."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        body = scene[name]
        given = np.array([0.0, 0.0, 0.0, 1.0]) if body.rotation is None else body.rotation
        q, position = tensor_of(given, amount), tensor_of(body.position, amount)
        by = _quaternion(axis, amount)
        middle = rotate(q / q.norm(dim=-1, keepdim=True), vector(body.mesh.vertices.mean(0), q))
        return with_body(scene, name, rotation=_product(by, q), position=position + middle - rotate(by, middle))

    return change


def _points_turn(name: str, axis: str) -> SceneChange:
    """Rotation of springs about the mean of their points."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        points = tensor_of(scene[name].points, amount)
        middle = points.mean(-2, keepdim=True)
        moved = middle + rotate(_quaternion(axis, amount)[..., None, :], points - middle)
        return with_body(scene, name, points=moved)

    return change


def _node_spin(name: str, axis: str) -> SceneChange:
    """Rotation of the velocities of all nodes about their mean position."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        body = scene[name]
        arms = node_positions(body, amount)
        arms = arms - arms.mean(-2, keepdim=True)
        velocity = tensor_of(body.velocity, amount)
        velocity = velocity if is_per_element(body.velocity) else velocity[..., None, :]
        spin = torch.linalg.cross(vector(AXES[axis], arms).expand_as(arms), arms)
        return with_body(scene, name, velocity=PerElement(velocity + amount[..., None, None] * spin))

    return change


def node_positions(body: Any, amount: torch.Tensor) -> torch.Tensor:
    """Initial positions of a body's nodes relative to its position [m], [..., N, 3]."""
    if isinstance(body, Springs):
        return tensor_of(body.points, amount)
    points = tensor_of(body.mesh.vertices.copy() if body.vertices is None else body.vertices, amount)
    if body.rotation is None:
        return points
    q = tensor_of(body.rotation, amount)
    return rotate((q / q.norm(dim=-1, keepdim=True))[..., None, :], points)


def _pendulum(body: Any, scene: Scene, trajectory: Trajectory | None) -> Iterator[Nuisance]:
    name, links = body.name, len(body.links())
    double = isinstance(body, DoublePendulum)
    angle, rate = ("angles", "rates") if double else ("angle", "rate")
    rates = to_numpy(getattr(body, rate))
    typical = 0.0 if rates is None else float(np.abs(rates).mean())
    if trajectory is not None:
        typical = max(typical, float(trajectory[name].rate.detach().square().mean().sqrt()))
    lengths = to_numpy(body.lengths if double else body.length)
    natural = np.sqrt(magnitude(scene.gravity) / (1.0 if lengths is None else float(lengths.mean()))) or 1.0
    sd_rate = SPEED * max(typical, 0.1 * float(natural))
    for k in range(links):
        label = f"[{k}]" if double else ""
        which = f"angle{label} of {name} at the start"
        change = _link_change(name, angle, k if double else None, DEGREE)
        paths = (f"{name}.{angle}{label}",)
        text = wording.shifted_by(which, "degrees")
        yield Nuisance(f"{name}.start.angle{label}", "start", "degree", ROTATION, text, change, changes=paths)
        change = _link_change(name, rate, k if double else None, 1.0)
        text = wording.shifted_by(f"initial rate{label} of {name}", "rad/s")
        paths = (f"{name}.{rate}{label}",)
        yield Nuisance(f"{name}.start.rate{label}", "start", "rad/s", sd_rate, text, change, changes=paths)
    for k, axis in enumerate(AXES):
        text = wording.shifted(f"pivot of {name}", axis, "m")
        change = _vector_change(name, "pivot", axis)
        paths = (f"{name}.pivot[{k}]",)
        yield Nuisance(
            f"{name}.start.pivot.{axis}", "start", "m", POSITION * size_of(body), text, change, changes=paths
        )


def _link_change(name: str, field: str, link: int | None, unit: float) -> SceneChange:
    """An angle or rate of a pendulum, or of one link of a double one, plus an amount in multiples of `unit`."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        value = tensor_of(getattr(scene[name], field), amount)
        if link is None:
            return with_body(scene, name, **{field: value + unit * amount})
        one = torch.nn.functional.one_hot(torch.tensor(link), 2).to(value)
        return with_body(scene, name, **{field: value + unit * amount[..., None] * one})

    return change

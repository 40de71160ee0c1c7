"""Nuisances of the camera: pose and field of view."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from gradsim.fit.nuisances import wording
from gradsim.fit.nuisances.changes import DEGREE, center_of, multiplied, tensor_of, turned
from gradsim.fit.nuisances.nuisance import Nuisance
from gradsim.scene.camera import Camera
from gradsim.scene.quantity import to_numpy
from gradsim.scene.scene import Scene

ANGLE = 0.5  # [degree]
SHIFT = 0.003  # of the distance to the bodies
FOV = 1.0  # [%]

# Axis of the camera and sign of a rotation. A positive yaw turns it to the right, a positive pitch upwards, and a
# positive roll turns the image counter-clockwise.
ROTATIONS = {"yaw": (1, -1.0), "pitch": (0, 1.0), "roll": (2, 1.0)}
DISTANCES = ("camera.distance", "camera.view_height")
SHIFTS = {"right": 0, "up": 1, "forward": 2}


def camera_nuisances(scene: Scene) -> Iterator[Nuisance]:
    camera = scene.camera
    if camera is None:
        return
    pose = camera.pose is not None
    for name, (axis, sign) in ROTATIONS.items():
        yield Nuisance(
            f"camera.{name}",
            "camera",
            "degree",
            ANGLE,
            wording.of(f"camera {name}", "degree"),
            scene=_camera_change(_rotation(axis, sign * DEGREE)),
            changes=("camera.pose",) if pose else ("camera.up",) if name == "roll" else ("camera.target",),
            moves=False,
        )
    distance = _distance(scene)
    for name, axis in SHIFTS.items():
        yield Nuisance(
            f"camera.shift.{name}",
            "camera",
            "m",
            SHIFT * distance,
            _shift_text(name),
            scene=_camera_change(_shift(axis)),
            changes=("camera.pose",) if pose else ("camera.eye", *(DISTANCES if name == "forward" else ())),
            moves=False,
        )
    yield Nuisance(
        "camera.fov",
        "camera",
        "%",
        FOV,
        wording.larger("field of view", words=("wider", "narrower")),
        scene=_camera_change(_field_of_view),
        changes=("camera.fov",) if camera.fov is not None else ("camera.fx", "camera.fy"),
        moves=False,
    )


def _shift_text(name: str) -> wording.Text:
    opposite = {"right": "left", "up": "down", "forward": "back"}[name]
    return lambda a: f"a camera {wording.number(abs(a))} m further {name if a >= 0 else opposite}"


def _distance(scene: Scene) -> float:
    """Distance from the eye to the middle of the bodies [m]."""
    camera: Any = scene.camera
    camera = camera.with_eye()
    pose = to_numpy(camera.pose)
    eye = pose[..., :3, 3] if pose is not None else to_numpy(camera.eye)
    return float(np.linalg.norm(eye - center_of(scene), axis=-1).mean())


def _camera_change(change: Callable[[Any, torch.Tensor], dict[str, Any]]) -> Callable[[Scene, torch.Tensor], Scene]:
    """Returns a function that replaces fields of the scene's camera."""

    def scene_change(scene: Scene, amount: torch.Tensor) -> Scene:
        given: Any = scene.camera
        camera = given.with_eye()
        return dataclasses.replace(scene, camera=dataclasses.replace(camera, **change(camera, amount)))

    return scene_change


def _axes(camera: Camera, amount: torch.Tensor) -> torch.Tensor:
    """Unit vectors to the right, up and forward as rows, [..., 3, 3]."""
    if camera.pose is not None:
        right, down, forward = tensor_of(camera.pose, amount)[..., :3, :3].unbind(-1)
        return torch.stack([right, -down, forward], -2)
    eye, target, up = (tensor_of(value, amount) for value in (camera.eye, camera.target, camera.up))
    view, up = torch.broadcast_tensors(target - eye, up)
    forward = view / view.norm(dim=-1, keepdim=True)
    right = torch.linalg.cross(forward, up)
    right = right / right.norm(dim=-1, keepdim=True)
    return torch.stack([right, torch.linalg.cross(right, forward), forward], -2)


def _rotation(axis: int, radians: float) -> Callable[[Any, torch.Tensor], dict[str, Any]]:
    """Rotation of the camera about one of its axes through the eye; the amount is in units of `radians`."""

    def change(camera: Camera, amount: torch.Tensor) -> dict[str, Any]:
        about, angle = _axes(camera, amount)[..., axis, :], radians * amount[..., None]
        if camera.pose is not None:
            pose = tensor_of(camera.pose, amount)
            columns = turned(pose[..., :3, :3].mT, about[..., None, :], angle[..., None]).mT
            return {"pose": _pose(columns, pose[..., :3, 3])}
        eye, target, up = (tensor_of(value, amount) for value in (camera.eye, camera.target, camera.up))
        return {"target": eye + turned(target - eye, about, angle), "up": turned(up, about, angle)}

    return change


def _shift(axis: int) -> Callable[[Any, torch.Tensor], dict[str, Any]]:
    """Translation of the camera along one of its axes."""

    def change(camera: Camera, amount: torch.Tensor) -> dict[str, Any]:
        offset = _axes(camera, amount)[..., axis, :] * amount[..., None]
        if camera.pose is not None:
            pose = tensor_of(camera.pose, amount)
            return {"pose": _pose(pose[..., :3, :3], pose[..., :3, 3] + offset)}
        return {"eye": tensor_of(camera.eye, amount) + offset, "target": tensor_of(camera.target, amount) + offset}

    return change


def _pose(axes: torch.Tensor, eye: torch.Tensor) -> torch.Tensor:
    """[..., 4, 4], from the axes as columns [..., 3, 3] and the eye [..., 3]."""
    batch = torch.broadcast_shapes(axes.shape[:-2], eye.shape[:-1])
    upper = torch.cat([axes.expand(*batch, 3, 3), eye[..., None].expand(*batch, 3, 1)], -1)
    last = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=axes.dtype, device=axes.device)
    return torch.cat([upper, last.expand(*batch, 1, 4)], -2)


def _field_of_view(camera: Camera, amount: torch.Tensor) -> dict[str, Any]:
    if camera.fov is not None:
        return {"fov": multiplied(camera.fov, amount / 100)}
    return {name: multiplied(getattr(camera, name), -amount / 100) for name in ("fx", "fy")}

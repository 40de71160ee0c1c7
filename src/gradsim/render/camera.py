"""The projection of a camera: the linear map from points of the world to homogeneous pixels."""

from __future__ import annotations

import math
from typing import Any

import torch

from gradsim.scene.camera import Camera
from gradsim.scene.quantity import unwrap


def projection(
    camera: Camera, size: tuple[int, int], dtype: torch.dtype, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the matrix M [..., 3, 3] and the eye [..., 3] of a camera, for an image of `size` (H, W).

    A point X is projected to (x w, y w, w) = M (X - eye): x to the right and y down in pixels, from the image's upper
    left corner, and w the depth along the optical axis [m]. Differentiable in all quantities of the camera.
    """

    def tensor(value: Any) -> torch.Tensor:
        array = unwrap(value)
        return array if isinstance(array, torch.Tensor) else torch.tensor(array, dtype=dtype, device=device)

    camera = camera.with_eye()
    if camera.pose is not None:
        pose = tensor(camera.pose)
        axes, eye = pose[..., :3, :3].mT, pose[..., :3, 3]
    else:
        eye = tensor(camera.eye)
        axes = _view_axes(tensor(camera.target) - eye, tensor(camera.up))
    fx, fy, cx, cy = _intrinsics(camera, size, tensor)
    right, down, forward = axes.unbind(-2)
    rows = (_scaled(fx, right) + _scaled(cx, forward), _scaled(fy, down) + _scaled(cy, forward), forward)
    return torch.stack(torch.broadcast_tensors(*rows), -2), eye


def _scaled(factor: torch.Tensor, axis: torch.Tensor) -> torch.Tensor:
    return factor[..., None] * axis


def _view_axes(view: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Unit vectors to the right, down and forward as rows, [..., 3, 3]."""
    view, up = torch.broadcast_tensors(view, up)
    forward = view / view.norm(dim=-1, keepdim=True)
    right = torch.linalg.cross(forward, up)
    right = right / right.norm(dim=-1, keepdim=True)
    return torch.stack([right, torch.linalg.cross(forward, right), forward], -2)


def _intrinsics(camera: Camera, size: tuple[int, int], tensor: Any) -> tuple[torch.Tensor, ...]:
    """Focal lengths and principal point for an image of `size` [px], each [...]."""
    height, width = size
    if camera.resolution is None:
        focal = height / 2 / torch.tan(tensor(camera.fov) * (math.pi / 360.0))
        return focal, focal, torch.full_like(focal, width / 2), torch.full_like(focal, height / 2)
    y_scale, x_scale = height / camera.resolution[0], width / camera.resolution[1]
    return (
        tensor(camera.fx) * x_scale,
        tensor(camera.fy) * y_scale,
        tensor(camera.cx) * x_scale,
        tensor(camera.cy) * y_scale,
    )

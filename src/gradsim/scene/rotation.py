"""Rotations by unit quaternions (x, y, z, w)."""

from __future__ import annotations

import math
from functools import cache

import torch


def rotate(q: torch.Tensor, x: torch.Tensor, *, back: bool = False) -> torch.Tensor:
    """Rotates vectors [..., 3] by unit quaternions [..., 4], or by their inverses if `back`."""
    axis, x = torch.broadcast_tensors(-q[..., :3] if back else q[..., :3], x)
    cross = torch.linalg.cross(axis, x)
    return x + 2.0 * (q[..., 3:] * cross + torch.linalg.cross(axis, cross))


def multiply(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Returns the product of quaternions [..., 4]: the rotation by q followed by that by p."""
    products = p[..., :, None] * q[..., None, :]
    return (products.flatten(-2).view(-1, 16) @ _product_signs(q.dtype, q.device)).view(products.shape[:-1])


def rotation_by(vector: torch.Tensor) -> torch.Tensor:
    """Returns unit quaternions [..., 4] from rotation vectors [..., 3]: axis times angle [rad]."""
    half = torch.linalg.vector_norm(vector, dim=-1, keepdim=True) / 2
    return torch.cat([vector * (torch.sinc(half / math.pi) / 2), torch.cos(half)], -1)


def axes_of(q: torch.Tensor) -> torch.Tensor:
    """Returns the basis vectors rotated by unit quaternions [..., 4], as rows, [..., 3, 3].

    One matrix product replaces the many small operations of `rotate`, which dominate the time for few quaternions.
    """
    identity, coefficients = _axes_coefficients(q.dtype, q.device)
    pairs = (q[..., :, None] * q[..., None, :]).reshape(-1, 16)
    return torch.addmm(identity, pairs, coefficients).view(*q.shape[:-1], 3, 3)


@cache  # one entry for each dtype and device
def _product_signs(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Returns the coefficients of the products of components in the product of two quaternions, [16, 4]."""
    with torch.inference_mode(False), torch.no_grad():
        signs = torch.zeros(4, 4, 4, dtype=dtype, device=device)
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            signs[i, j, k], signs[j, i, k] = 1.0, -1.0
            signs[3, k, k] = signs[k, 3, k] = 1.0
            signs[k, k, 3] = -1.0
        signs[3, 3, 3] = 1.0
        return signs.view(16, 4)


@cache  # one entry for each dtype and device
def _axes_coefficients(dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the identity [9], and the coefficients of the products of two quaternion components, [16, 9].

    The rotated axes minus the identity are a quadratic form of the quaternion; polarization gives its coefficients.
    """

    def quadratic(q: torch.Tensor) -> torch.Tensor:
        return (rotate(q[..., None, :], identity) - identity).flatten(-2)

    with torch.inference_mode(False), torch.no_grad():
        identity, basis = (torch.eye(n, dtype=dtype, device=device) for n in (3, 4))
        sums = quadratic(basis[:, None] + basis)
        bilinear = (sums - quadratic(basis)[:, None] - quadratic(basis)) / 2
        return identity.flatten(), bilinear.reshape(16, 9)


def rotation_vector(start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    """Returns the rotation vectors [rad], [..., 3], in world axes, that turn unit quaternions into others, [..., 4].

    A quaternion and its negative are the same rotation. The angle is at most pi.
    """
    a, b = -start[..., :3], end[..., :3]
    a, b = torch.broadcast_tensors(a, b)
    axis = end[..., 3:] * a + start[..., 3:] * b + torch.linalg.cross(b, a)
    cosine = end[..., 3:] * start[..., 3:] - (a * b).sum(-1, keepdim=True)
    axis, cosine = torch.where(cosine < 0, -axis, axis), cosine.abs()
    square = (axis * axis).sum(-1, keepdim=True)
    small = square < 1e-20  # the angle's ratio to its sine is 1 to rounding, and has no gradient
    sine = torch.where(small, 1.0, square).sqrt()
    return axis * torch.where(small, 2.0 / cosine.clamp_min(0.5), 2.0 * torch.atan2(sine, cosine) / sine)


def aligned_signs(q: torch.Tensor, dim: int) -> torch.Tensor:
    """Returns signs, 1 or -1, that give neighbouring quaternions [..., 4] along a dimension positive products."""
    rows = q.detach().movedim(dim, 0)
    products = (rows[1:] * rows[:-1]).sum(-1, keepdim=True)
    steps = torch.where(products < 0, -torch.ones_like(products), torch.ones_like(products))
    return torch.cat([torch.ones_like(steps[:1]), steps.cumprod(0)]).movedim(0, dim)

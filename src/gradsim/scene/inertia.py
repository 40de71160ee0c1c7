"""Mass, centre of mass and inertia tensor of a solid of uniform density or of point masses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradsim.scene.errors import OutOfRange, WrongShape


class MassProperties(NamedTuple):
    """Mass, centre of mass and inertia tensor; leading dimensions are a batch."""

    mass: Tensor  # [kg], [...]; at unit density, the volume [m^3]
    center: Tensor  # [m], [..., 3]
    inertia: Tensor  # about the centre of mass, in the axes of the points [kg m^2], [..., 3, 3]


def solid(vertices: Tensor | NDArray[np.float64], faces: NDArray[Any], density: Tensor | float = 1.0) -> MassProperties:
    """Computes the exact mass properties of the solid inside a closed surface, differentiable in vertices and density.

    The solid is the signed sum of the tetrahedra spanned by a point and each face. The second moments of a tetrahedron
    with corners 0, a, b, c are det(a, b, c) / 120 (aa' + bb' + cc' + ss'), s = a + b + c.

    Args:
        vertices: Positions [m], [..., V, 3].
        faces: Vertex indices, [F, 3], of a surface that passes `check_closed`.
        density: [kg/m^3], [...]; a tensor also determines dtype and device of the result.
    """
    points = _tensor(vertices)
    corners = torch.tensor(np.asarray(faces), dtype=torch.int64, device=points.device)
    # The sum does not depend on the point; a point nearby keeps cancellation small.
    origin = points.detach().mean(dim=-2, keepdim=True)
    a, b, c = ((points - origin)[..., corners[:, k], :] for k in range(3))
    s = a + b + c
    det = torch.linalg.vecdot(torch.linalg.cross(a, b), c)
    volume = det.sum(-1) / 6.0
    center = (det[..., None] * s).sum(-2) / 24.0 / volume[..., None]
    second = sum((_moments(det, x) for x in (a, b, c, s)), start=torch.zeros_like(volume)[..., None, None]) / 120.0
    about_center = second - volume[..., None, None] * _outer(center)
    rho = density if isinstance(density, Tensor) else volume.new_tensor(density)
    batch = torch.broadcast_shapes(rho.shape, volume.shape)
    return MassProperties(
        rho * volume.to(rho),
        (center + origin[..., 0, :]).to(rho).expand(*batch, 3),
        rho[..., None, None] * _inertia(about_center).to(rho),
    )


def scaled_solid(unscaled: MassProperties, scale: Tensor) -> MassProperties:
    """Returns the mass properties of a solid that is scaled along its axes by factors [..., 3] at the same density."""
    mass, center, inertia = unscaled
    half_trace = inertia.diagonal(dim1=-2, dim2=-1).sum(-1) / 2.0
    identity = torch.eye(3, dtype=inertia.dtype, device=inertia.device)
    second = half_trace[..., None, None] * identity - inertia
    factor = scale.prod(-1)
    return MassProperties(mass * factor, center * scale, _inertia(factor[..., None, None] * _outer(scale) * second))


def point_masses(points: Tensor | NDArray[np.float64], masses: Tensor | NDArray[np.float64]) -> MassProperties:
    """Computes the mass properties of point masses, differentiable in positions and masses.

    Args:
        points: Positions [m], [..., N, 3].
        masses: [kg], [..., N]; a tensor also determines dtype and device of the result.
    """
    weights = _tensor(masses)
    positions = _tensor(points).to(weights)
    if positions.ndim < 2 or positions.shape[-1] != 3 or weights.shape[-1:] != positions.shape[-2:-1]:
        shapes = f"{list(weights.shape)} for points of shape {list(positions.shape)}"
        raise WrongShape("masses", shapes, "needs one mass [..., N] for each point [..., N, 3]")
    mass = weights.sum(-1)
    if bool((mass <= 0.0).any()):
        raise OutOfRange("masses", f"sum {float(mass.detach().min()):g}", "needs a positive total mass [kg]")
    center = (weights[..., None] * positions).sum(-2) / mass[..., None]
    return MassProperties(mass, center, _inertia(_moments(weights, positions - center[..., None, :])))


def _tensor(values: Any) -> Tensor:
    return values if isinstance(values, Tensor) else torch.tensor(np.asarray(values, dtype=np.float64))


def _outer(x: Tensor) -> Tensor:
    return x[..., :, None] * x[..., None, :]


def _moments(weights: Tensor, x: Tensor) -> Tensor:
    """Returns the weighted sum of xx' over points, [..., 3, 3]."""
    return (weights[..., None] * x).mT @ x


def _inertia(second: Tensor) -> Tensor:
    """Returns the inertia tensor of second moments, [..., 3, 3], exactly symmetric."""
    second = (second + second.mT) / 2.0
    trace = second.diagonal(dim1=-2, dim2=-1).sum(-1)
    return trace[..., None, None] * torch.eye(3, dtype=second.dtype, device=second.device) - second

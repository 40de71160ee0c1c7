"""Basis of smoke: sines and cosines along x and y that fit the walls or the period of a domain.

The transforms are products with dense matrices, which up to about 500 cells a side are as fast as an FFT and work for
both boundaries. Fields are [channel, world, H, W], modes are [channel, world, kx, ky], lengths are in cells.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.scene.smoke import Boundary, Closed

GHOSTS = 2  # ghost cells that the four spline coefficients along an axis may reach


@dataclass(frozen=True, eq=False)
class Waves:
    """Sine and cosine basis of a domain, with its transforms, derivatives and projection.

    Along an axis the waves are pairs with odd' = k even and even' = -k odd. The velocity component along the axis is a
    sum of odd waves, which vanish at a wall; everything else is a sum of even waves.
    """

    square: torch.Tensor  # [kx, ky]: squared wave numbers
    unit: torch.Tensor  # [2, 1, kx, ky]: directions of the wave vectors; 0 for the uniform flow
    at_x: torch.Tensor  # [2, kx, W]: waves of both components of velocity at the nodes
    at_y: torch.Tensor  # [2, ky, H]
    spline_x: torch.Tensor  # [2, kx, W + 2 GHOSTS]: their spline coefficients
    spline_y: torch.Tensor  # [2, ky, H + 2 GHOSTS]
    derivative_x: torch.Tensor  # [2, W, W]: from values to derivatives
    derivative_y: torch.Tensor  # [2, H, H]
    even_x: torch.Tensor  # [W, W + 2 GHOSTS]: from values to spline coefficients, for the density
    even_y: torch.Tensor  # [H + 2 GHOSTS, H]
    nodes: torch.Tensor  # [2, 1, H, W]: x and y
    up: torch.Tensor  # [2, 1, 1, 1]: unit vector
    extent: torch.Tensor  # [2, 1, 1, 1]: W and H
    closed: bool

    def analyse(self, flow: torch.Tensor) -> torch.Tensor:
        """Returns the modes [2, B, kx, ky] of a flow [2, B, H, W]."""
        return _transform(flow, self.at_x.mT, self.at_y.mT)

    def values(self, modes: torch.Tensor) -> torch.Tensor:
        """Returns the flow at the nodes, [2, B, H, W]."""
        return _transform(modes, self.at_y, self.at_x)

    def coefficients(self, modes: torch.Tensor) -> torch.Tensor:
        """Returns the spline coefficients of a flow, [2, B, H + 2 GHOSTS, W + 2 GHOSTS]."""
        return _transform(modes, self.spline_y, self.spline_x)

    def spline(self, rho: torch.Tensor) -> torch.Tensor:
        """Returns the spline coefficients [1, B, H + 2 GHOSTS, W + 2 GHOSTS] of a density [B, H, W]."""
        return (self.even_y @ (rho @ self.even_x))[None]

    def derivatives(self, flow: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the derivatives of a flow along x and along y, each [2, B, H, W]."""
        _, worlds, height, width = flow.shape
        dx = torch.bmm(flow.reshape(2, worlds * height, width), self.derivative_x).view(flow.shape)
        return dx, self.derivative_y[:, None] @ flow

    def derivatives_transposed(self, along_x: torch.Tensor, along_y: torch.Tensor) -> torch.Tensor:
        """Adjoint of `derivatives`."""
        _, worlds, height, width = along_x.shape
        to_flow = torch.bmm(along_x.reshape(2, worlds * height, width), self.derivative_x.mT).view(along_x.shape)
        return to_flow.add_(self.derivative_y.mT[:, None] @ along_y)

    def project(self, modes: torch.Tensor) -> torch.Tensor:
        """Returns the divergence-free part of a flow: without the pressure gradient, parallel to the wave vectors."""
        return modes - self.unit * (self.unit * modes).sum(0)


def _transform(fields: torch.Tensor, last: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """Multiplies both axes of [C, B, P, Q] by matrices [C, Q, Q'] and [C, P, P'] and swaps them: [C, B, Q', P']."""
    channels, worlds, p, q = fields.shape
    half = torch.bmm(fields.reshape(channels, worlds * p, q), last).view(channels, worlds, p, -1).mT
    q = half.shape[2]
    return torch.bmm(half.reshape(channels, worlds * q, p), first).view(channels, worlds, q, -1)


@functools.lru_cache(maxsize=16)
def waves_for(height: int, width: int, boundary: Boundary, dtype: torch.dtype, device: torch.device) -> Waves:
    """Returns the basis of a domain, computed once for each."""
    x, y = _Axis.of(width, boundary), _Axis.of(height, boundary)

    @torch.inference_mode(False)  # later calls may need gradients
    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=device)

    k = np.stack(np.meshgrid(x.k, y.k, indexing="ij"))
    norm = np.sqrt((k**2).sum(0))
    return Waves(
        square=tensor(norm**2),
        unit=tensor((k / np.where(norm > 0, norm, 1.0))[:, None]),
        at_x=tensor(np.stack([x.odd, x.even])),
        at_y=tensor(np.stack([y.even, y.odd])),
        spline_x=tensor(np.stack([x.odd_spline, x.even_spline])),
        spline_y=tensor(np.stack([y.even_spline, y.odd_spline])),
        derivative_x=tensor(np.stack([x.odd.T @ (x.k[:, None] * x.even), -x.even.T @ (x.k[:, None] * x.odd)])),
        derivative_y=tensor(np.stack([-y.odd.T @ (y.k[:, None] * y.even), y.even.T @ (y.k[:, None] * y.odd)])),
        even_x=tensor(x.to_spline.T),
        even_y=tensor(y.to_spline),
        nodes=tensor(np.stack(np.meshgrid(np.arange(width), np.arange(height)))[:, None]),
        up=tensor(np.array([0.0, 1.0]).reshape(2, 1, 1, 1)),
        extent=tensor(np.array([width, height]).reshape(2, 1, 1, 1)),
        closed=isinstance(boundary, Closed),
    )


@dataclass(frozen=True, eq=False)
class _Axis:
    """Orthonormal waves along one axis of n cells, without the shortest one, of alternating sign."""

    k: np.ndarray  # [K], per cell
    odd: np.ndarray  # [K, n]
    even: np.ndarray  # [K, n]
    odd_spline: np.ndarray  # [K, n + 2 GHOSTS]
    even_spline: np.ndarray  # [K, n + 2 GHOSTS]
    to_spline: np.ndarray  # [n + 2 GHOSTS, n]

    @classmethod
    def of(cls, n: int, boundary: Boundary) -> _Axis:
        reach = np.arange(-GHOSTS, n + GHOSTS)
        if isinstance(boundary, Closed):  # half waves between walls at -1/2 and n - 1/2
            k, phase = math.pi / n * np.arange(n), np.zeros(n)
            fold = reach % (2 * n)
            fold = np.where(fold < n, fold, 2 * n - 1 - fold)
        else:  # whole waves, each with phase 0 and a quarter
            count = np.arange(1, (n - 1) // 2 + 1)
            k = 2 * math.pi / n * np.concatenate([[0], count, count])
            phase = 0.5 * math.pi * np.concatenate([[0], np.zeros(len(count)), np.ones(len(count))])
            fold = reach % n
        angle = k[:, None] * (reach + 0.5) - phase[:, None]
        scale = np.sqrt(np.where(k > 0, 2.0, 1.0) / n)[:, None]
        odd, even = scale * np.sin(angle), scale * np.cos(angle)
        if not isinstance(boundary, Closed):
            odd[0] = even[0]  # the uniform flow
        # The value of a spline at a node is a mean of coefficients, (1, 4, 1) / 6 = 1 - d. The exact inverse amplifies
        # waves of the length of a cell, so that density in a rough flow diverges. The approximation 1 + d + d^2 keeps
        # it bounded, and its error d^3 damps only waves of 5 cells or less.
        d = (1 - np.cos(k[:, None])) / 3
        sharpen = 1 + d + d * d
        unit = np.eye(n)
        d = unit - sum(w * unit[fold[GHOSTS + o : n + GHOSTS + o]] for o, w in ((-1, 1 / 6), (0, 4 / 6), (1, 1 / 6)))
        inner = slice(GHOSTS, n + GHOSTS)
        return cls(k, odd[:, inner], even[:, inner], sharpen * odd, sharpen * even, (unit + d + d @ d)[fold])

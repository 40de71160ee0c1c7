"""Smoke in two dimensions: an incompressible flow that carries a density, after Stam (1999).

A step carries velocity and density back along the flow (semi-Lagrangian, stable for any time step) and projects the
velocity onto the flows without divergence. Three things differ from Stam, for accuracy and for smooth gradients:

- Fields are cubic splines (fourth order, twice continuously differentiable) instead of bilinear, and feet of
  trajectories are second order in time, so that vortices neither smear out nor swallow smoke.
- A step has two halves. After the first the velocity is reflected, v -> 2 P v - v, instead of projected, P v
  (Zehnder, Narain and Thomaszewski 2018): the energy that plain projection loses is kept, and time is second order.
- Projection, viscosity and spline coefficients are exact in waves along x and y, sines and cosines that fit the walls
  or the period. Divergence is the derivative of these waves, so it vanishes to rounding.

The transforms are products with dense matrices, which at up to some 500 cells a side are as fast as an FFT and serve
both boundaries. Here fields are [channel, world, H, W], modes [channel, world, kx, ky], lengths are in cells.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from gradsim.scene.errors import Diverged, OutOfRange, WrongShape
from gradsim.scene.smoke import Boundary, Closed, Smoke, SmokeMotion

GHOSTS = 2  # cells beyond a wall that a spline's four coefficients along an axis may reach


def smoke_motion(
    smoke: Smoke,
    *,
    frames: int,
    fps: float,
    substeps: int = 1,
    dtype: torch.dtype | None = None,
    recompute: bool = False,
) -> SmokeMotion:
    """Let smoke move; see `smoke_rollout`.

    Args:
        smoke: What there is. Batch dimensions of its tensors are worlds of their own.
        frames: States to return, at times i / fps, the first being the start.
        fps: Frames a second [1/s].
        substeps: Steps between two frames; dt = 1 / (fps substeps).
        dtype: torch.float64 or torch.float32; that of the smoke's tensors if None, float64 if it has none.
        recompute: Keep only the states at frames for the backward pass.
    """
    values = (smoke.density, smoke.velocity, smoke.viscosity, smoke.buoyancy)
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    dtype = dtype or (tensors[0].dtype if tensors else torch.float64)
    device = tensors[0].device if tensors else torch.device("cpu")
    density, velocity, viscosity, buoyancy = (torch.as_tensor(v, dtype=dtype, device=device) for v in values)
    if density.ndim == 0:
        density = density.expand(smoke.size)
    if velocity.ndim == 1:
        velocity = velocity.expand(*smoke.size, 2)
    densities, velocities = smoke_rollout(
        density,
        velocity,
        viscosity,
        buoyancy,
        boundary=smoke.boundary,
        length=smoke.length,
        frames=frames,
        dt=1.0 / (fps * substeps),
        substeps=substeps,
        name=smoke.name,
        recompute=recompute,
    )
    return SmokeMotion(densities, velocities)


def smoke_rollout(
    density: torch.Tensor,
    velocity: torch.Tensor,
    viscosity: torch.Tensor,
    buoyancy: torch.Tensor,
    *,
    boundary: Boundary,
    length: float,
    frames: int,
    dt: float,
    substeps: int = 1,
    name: str = "smoke",
    recompute: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """States of smoke at the frames, differentiable in density, velocity, viscosity and buoyancy.

    Element [row, column] of a field lies at x = (column + 1/2) h, y = (row + 1/2) h, h = length / W: x points right, y
    up, and row 0 is the bottom one. Frame 0 has the velocity that projection leaves of the given one.

    Args:
        density: [..., H, W].
        velocity: [m/s], [..., H, W, 2].
        viscosity: [m^2/s], [...].
        buoyancy: Upward acceleration of unit density [m/s^2], [...].
        boundary: `Closed()` or `Periodic()`.
        length: Width of the domain [m].
        frames: States to return, the first being the start.
        dt: Time step [s].
        substeps: Steps between two frames.
        name: What errors call it.
        recompute: Keep only the states at frames for the backward pass, and take the steps between once more.

    Returns:
        Densities [..., frames, H, W] and velocities [m/s], [..., frames, H, W, 2].
    """
    for label, value in (("frames", frames), ("substeps", substeps)):
        if not isinstance(value, int) or value < 1:
            raise OutOfRange(label, value, "must be a whole number >= 1")
    if not dt > 0:
        raise OutOfRange("dt", dt, "must be > 0 [s]")
    height, width = density.shape[-2:]
    try:
        batch = torch.broadcast_shapes(density.shape[:-2], velocity.shape[:-3], viscosity.shape, buoyancy.shape)
    except RuntimeError:
        shapes = [tuple(t.shape) for t in (density, velocity, viscosity, buoyancy)]
        raise WrongShape(name, f"shapes {shapes}", "batch dimensions must broadcast, as in PyTorch") from None
    if velocity.shape[-3:] != (height, width, 2):
        raise WrongShape(
            f"{name}.velocity", f"shape {tuple(velocity.shape)}", f"must have shape [..., {height}, {width}, 2]"
        )
    waves = waves_for(height, width, boundary, density.dtype, density.device)
    cell = length / width
    rho = density.expand(*batch, height, width).reshape(-1, height, width)
    flow = velocity.expand(*batch, height, width, 2).reshape(-1, height, width, 2).permute(3, 0, 1, 2)
    # Time is in half steps, length in cells.
    half = 0.5 * dt
    decay = torch.exp(-(viscosity * (half / cell**2)).expand(batch).reshape(-1, 1, 1) * waves.square)
    lift = (buoyancy * (half * half / cell)).expand(batch).reshape(-1, 1, 1)
    modes = waves.project(waves.analyse(flow * (half / cell)))

    def frame(rho: torch.Tensor, modes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for _ in range(substeps):
            rho, modes = step(waves, rho, modes, decay, lift)
        return rho, modes

    states = [(rho, modes)]
    for _ in range(frames - 1):
        last = states[-1]
        states.append(checkpoint(frame, *last, use_reentrant=False) if recompute else frame(*last))
    densities = torch.stack([rho for rho, _ in states], 1)
    velocities = waves.values(torch.cat([modes for _, modes in states], 1)) * (cell / half)
    velocities = velocities.view(2, frames, -1, height, width).permute(2, 1, 3, 4, 0)
    _check_finite(name, velocities.detach(), dt, substeps)
    return densities.view(*batch, *densities.shape[1:]), velocities.reshape(*batch, *velocities.shape[1:])


def step(
    waves: Waves, rho: torch.Tensor, modes: torch.Tensor, decay: torch.Tensor, lift: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Density [B, H, W] and modes of a flow without divergence [2, B, kx, ky], one time step later."""
    rho, carried = carry(waves, rho, modes, modes, lift)
    carried = carried * decay
    middle = waves.project(carried)
    rho, carried = carry(waves, rho, 2.0 * middle - carried, middle, lift)
    return rho, waves.project(carried * decay)


def carry(
    waves: Waves, rho: torch.Tensor, modes: torch.Tensor, along: torch.Tensor, lift: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Density and flow carried for half a step along a flow [cells per half step], the density then lifting the flow.

    What arrives at x left x - v + (v . grad) v / 2: second order in time, and areas change by no more than fourth.
    """
    v = waves.values(along)
    dx, dy = waves.slopes(v)
    foot = waves.nodes - v + 0.5 * (v[0] * dx + v[1] * dy)
    moved = _Sample.apply(torch.cat([waves.coefficients(modes), waves.spline(rho)]), foot, waves.extent, waves.closed)
    rho = moved[2]
    return rho, waves.analyse(torch.stack([moved[0], moved[1] + lift * rho]))


@dataclass(frozen=True, eq=False)
class Waves:
    """Waves along x and y that fit a domain, and what is done with them.

    Along an axis they come in pairs with odd' = k even and even' = -k odd. The velocity's component along the axis is
    made of odd ones, which at a wall are zero; everything else of even ones.
    """

    kx: torch.Tensor  # [kx, 1], per cell
    ky: torch.Tensor  # [1, ky]
    square: torch.Tensor  # kx^2 + ky^2
    inverse: torch.Tensor  # 1 / square; 0 for the uniform flow, which has no divergence
    at_x: torch.Tensor  # [2, kx, W]: waves of both components of velocity at the nodes
    at_y: torch.Tensor  # [2, ky, H]
    spline_x: torch.Tensor  # [2, kx, W + 2 GHOSTS]: their spline coefficients
    spline_y: torch.Tensor  # [2, ky, H + 2 GHOSTS]
    slope_x: torch.Tensor  # [2, W, W]: from values to derivatives
    slope_y: torch.Tensor  # [2, H, H]
    even_x: torch.Tensor  # [W, W + 2 GHOSTS]: from values to spline coefficients, for the density
    even_y: torch.Tensor  # [H + 2 GHOSTS, H]
    nodes: torch.Tensor  # [2, 1, H, W]: x and y
    extent: torch.Tensor  # [2, 1, 1, 1]: W and H
    closed: bool

    def analyse(self, flow: torch.Tensor) -> torch.Tensor:
        """Modes [2, B, kx, ky] of a flow [2, B, H, W]."""
        return _transform(flow, self.at_x.mT, self.at_y.mT)

    def values(self, modes: torch.Tensor) -> torch.Tensor:
        """The flow at the nodes, [2, B, H, W]."""
        return _transform(modes, self.at_y, self.at_x)

    def coefficients(self, modes: torch.Tensor) -> torch.Tensor:
        """Coefficients of the spline through the flow, [2, B, H + 2 GHOSTS, W + 2 GHOSTS]."""
        return _transform(modes, self.spline_y, self.spline_x)

    def spline(self, rho: torch.Tensor) -> torch.Tensor:
        """Coefficients of the spline through a density [B, H, W], [1, B, H + 2 GHOSTS, W + 2 GHOSTS]."""
        return (self.even_y @ (rho @ self.even_x))[None]

    def slopes(self, flow: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Derivatives of a flow along x and along y, each [2, B, H, W]."""
        _, worlds, height, width = flow.shape
        dx = torch.bmm(flow.reshape(2, worlds * height, width), self.slope_x).view(flow.shape)
        return dx, self.slope_y[:, None] @ flow

    def divergence(self, modes: torch.Tensor) -> torch.Tensor:
        """Modes of the divergence, [B, kx, ky]."""
        return self.kx * modes[0] + self.ky * modes[1]

    def project(self, modes: torch.Tensor) -> torch.Tensor:
        """The part of a flow that has no divergence: what is left without the gradient of the pressure."""
        pressure = self.divergence(modes) * self.inverse
        return torch.stack([modes[0] - self.kx * pressure, modes[1] - self.ky * pressure])


def _transform(fields: torch.Tensor, last: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """Matrices [C, Q, Q'] and [C, P, P'] applied to both axes of [C, B, P, Q], which change places: [C, B, Q', P']."""
    channels, worlds, p, q = fields.shape
    half = torch.bmm(fields.reshape(channels, worlds * p, q), last).view(channels, worlds, p, -1).mT
    q = half.shape[2]
    return torch.bmm(half.reshape(channels, worlds * q, p), first).view(channels, worlds, q, -1)


@functools.lru_cache(maxsize=16)
def waves_for(height: int, width: int, boundary: Boundary, dtype: torch.dtype, device: torch.device) -> Waves:
    """The waves of a domain, made once for each."""
    x, y = _Axis.of(width, boundary), _Axis.of(height, boundary)

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(np.ascontiguousarray(array), dtype=dtype, device=device)

    square = x.k[:, None] ** 2 + y.k[None, :] ** 2
    return Waves(
        kx=tensor(x.k[:, None]),
        ky=tensor(y.k[None, :]),
        square=tensor(square),
        inverse=tensor(np.divide(1.0, square, out=np.zeros_like(square), where=square > 0)),
        at_x=tensor(np.stack([x.odd, x.even])),
        at_y=tensor(np.stack([y.even, y.odd])),
        spline_x=tensor(np.stack([x.odd_spline, x.even_spline])),
        spline_y=tensor(np.stack([y.even_spline, y.odd_spline])),
        slope_x=tensor(np.stack([x.odd.T @ (x.k[:, None] * x.even), -x.even.T @ (x.k[:, None] * x.odd)])),
        slope_y=tensor(np.stack([-y.odd.T @ (y.k[:, None] * y.even), y.even.T @ (y.k[:, None] * y.odd)])),
        even_x=tensor(x.to_spline.T),
        even_y=tensor(y.to_spline),
        nodes=tensor(np.stack(np.meshgrid(np.arange(width), np.arange(height)))[:, None]),
        extent=tensor(np.array([width, height]).reshape(2, 1, 1, 1)),
        closed=isinstance(boundary, Closed),
    )


@dataclass(frozen=True, eq=False)
class _Axis:
    """Waves along one axis of n cells, orthonormal, the shortest (one cell up, one down) left out."""

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
        else:  # whole waves, each shifted by none and by a quarter
            count = np.arange(1, (n - 1) // 2 + 1)
            k = 2 * math.pi / n * np.concatenate([[0], count, count])
            phase = 0.5 * math.pi * np.concatenate([[0], np.zeros(len(count)), np.ones(len(count))])
            fold = reach % n
        angle = k[:, None] * (reach + 0.5) - phase[:, None]
        scale = np.sqrt(np.where(k > 0, 2.0, 1.0) / n)[:, None]
        odd, even = scale * np.sin(angle), scale * np.cos(angle)
        if not isinstance(boundary, Closed):
            odd[0] = even[0]  # the uniform flow
        damping = (2 + np.cos(k[:, None])) / 3  # of a wave, by the mean (1, 4, 1) / 6 that takes coefficients to values
        mean = sum(w * np.eye(n)[fold[GHOSTS + o : n + GHOSTS + o]] for o, w in ((-1, 1 / 6), (0, 4 / 6), (1, 1 / 6)))
        inner = slice(GHOSTS, n + GHOSTS)
        return cls(k, odd[:, inner], even[:, inner], odd / damping, even / damping, np.linalg.inv(mean)[fold])


class _Sample(torch.autograd.Function):
    """Cubic splines of a flow and a density, given by coefficients [3, B, H', W'], at points [2, B, H, W].

    A spline's weights are positive, so its 16 terms are four bilinear look-ups at shifted points (Sigg and Hadwiger
    2005), for which PyTorch has a fast function. Nothing but the arguments is kept for the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, coefficients: torch.Tensor, points: torch.Tensor, extent: torch.Tensor, closed: bool) -> Any:
        ctx.save_for_backward(coefficients, points, extent)
        ctx.closed = closed
        places = _places(points, extent, closed)
        found = (places.weights[:, :, None] * _look_up(coefficients, places.grid)).sum(0).transpose(0, 1)
        if places.sign is not None:
            found[:2] *= places.sign
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        coefficients, points, extent = ctx.saved_tensors
        places = _places(points, extent, ctx.closed)
        if places.sign is not None:
            grad = torch.cat([grad[:2] * places.sign, grad[2:]])
        grad = grad.transpose(0, 1)
        with torch.enable_grad():
            leaves = coefficients.detach().requires_grad_(), places.grid.requires_grad_()
            looked = _look_up(*leaves)
        to_coefficients, to_grid = torch.autograd.grad(looked, leaves, places.weights[:, :, None] * grad)
        # The four look-ups are (low, low), (high, low), (low, high), (high, high) in x and y.
        to_grid = to_grid.view(2, 2, *to_grid.shape[1:])
        to_share = (looked.detach() * grad).sum(2).view(2, 2, *grad.shape[:1], *grad.shape[2:])
        share = places.share  # [2, 2, B, H, W]: low and high, x and y
        to_low = torch.stack([to_grid[:, 0, ..., 0].sum(0), to_grid[0, :, ..., 1].sum(0)])
        to_high = torch.stack([to_grid[:, 1, ..., 0].sum(0), to_grid[1, :, ..., 1].sum(0)])
        more = to_share[:, 1] - to_share[:, 0], to_share[1] - to_share[0]
        to_more = torch.stack([(more[0] * share[:, 1]).sum(0), (more[1] * share[:, 0]).sum(0)])
        low_slope, high_slope, more_slope = places.slopes()
        to_points = to_low * low_slope + to_high * high_slope + to_more * more_slope
        if places.sign is not None:
            to_points *= places.sign
        return to_coefficients, to_points, None, None


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the four look-ups of points go, and what they weigh."""

    t: torch.Tensor  # [2, B, H, W]: part of a cell beyond the node below
    share: torch.Tensor  # [2, 2, B, H, W]: low and high look-up, x and y
    scale: torch.Tensor  # [2, 1, 1, 1]: from cells to `grid_sample`'s -1 .. 1
    grid: torch.Tensor  # [4, B, H, W, 2]
    weights: torch.Tensor  # [4, B, H, W]
    sign: torch.Tensor | None  # [2, B, H, W]: -1 where a point lies beyond a wall, in the mirror

    def slopes(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Derivatives of the low and high look-up's place and of the high one's share by the point."""
        t, (low, high) = self.t, self.share
        r = 1.0 - t
        more = 0.5 + t * r
        low_slope = (0.5 * r * r - (r * r * r / 6.0) * more / low) / low * self.scale
        high_slope = (0.5 * t * t - (t * t * t / 6.0) * more / high) / high * self.scale
        return low_slope, high_slope, more


def _places(points: torch.Tensor, extent: torch.Tensor, closed: bool) -> _Places:
    sign = None
    if closed:
        turned = extent - torch.remainder(points + 0.5, 2.0 * extent)
        sign = torch.where(turned < 0.0, -1.0, 1.0).to(points.dtype)
        points = extent - 0.5 - turned.abs()
    else:
        points = torch.remainder(points, extent)
    below = torch.floor(points)
    t = points - below
    r = 1.0 - t
    high = (1.0 + t * (3.0 + t * (3.0 - 2.0 * t))) / 6.0
    low = 1.0 - high
    share = torch.stack([low, high])
    scale = 2.0 / (extent + (2 * GHOSTS - 1))
    below = below * scale + (GHOSTS * scale - 1.0)
    grid = points.new_empty(2, 2, *points.shape[1:], 2)
    to_low, to_high = below - r * r * r / (6.0 * low) * scale, below + (1.0 + t * t * t / (6.0 * high)) * scale
    grid[:, 0, ..., 0], grid[:, 1, ..., 0] = to_low[0], to_high[0]
    grid[0, ..., 1], grid[1, ..., 1] = to_low[1], to_high[1]
    weights = share[:, None, 1] * share[None, :, 0]
    return _Places(t, share, scale, grid.flatten(0, 1), weights.flatten(0, 1), sign)


def _look_up(coefficients: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """Coefficients [C, B, H', W'] bilinearly at places [4, B, H, W, 2], [4, B, C, H, W]."""
    worlds = coefficients.transpose(0, 1).expand(len(grid), -1, -1, -1, -1)
    found = F.grid_sample(worlds.flatten(0, 1), grid.flatten(0, 1), align_corners=True, padding_mode="border")
    return found.view(*grid.shape[:2], *found.shape[1:])


def _check_finite(name: str, velocities: torch.Tensor, dt: float, substeps: int) -> None:
    """Raise if a rollout's velocities [B, T, H, W, 2] left the finite numbers."""
    finite = torch.isfinite(velocities).flatten(2).all(2)
    if not bool(finite.all()):
        world, frame = (int(i) for i in torch.nonzero(~finite)[0])
        raise Diverged(name, frame * substeps, frame * substeps * dt, world, dt, math.inf)

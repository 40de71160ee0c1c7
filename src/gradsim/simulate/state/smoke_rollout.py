"""Smoke in two dimensions: an incompressible flow that carries a density, after Stam (1999).

A step carries velocity and density along the flow, looking back to where things come from, and projects the velocity
onto the flows without divergence. What differs from Stam, for accuracy and for smooth gradients:

- Fields are cubic splines, twice continuously differentiable, instead of bilinear, and feet of trajectories are second
  order in time, so that vortices neither smear out nor swallow smoke.
- Two steps are a pair. The first does not project, v -> P v, but reflects, v -> 2 P v - v, and so keeps the energy that
  projection throws away (Zehnder, Narain and Thomaszewski 2018); the second carries along what makes both together
  follow the velocity in the middle. A pair is second order in time; a step left over before a frame is Stam's, first.
- Projection and viscosity are exact in waves along x and y, sines and cosines that fit the walls or the period.
  Divergence is the derivative of these waves, so it vanishes to rounding.

The transforms are products with dense matrices, which up to some 500 cells a side are as fast as an FFT and serve both
boundaries. In here fields are [channel, world, H, W], modes [channel, world, kx, ky]; a cell and a step are the units.
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
from torch.utils.checkpoint import checkpoint

from gradsim.scene.autograd import once_differentiable
from gradsim.scene.errors import BrokenGradient, Diverged, OutOfRange, WrongShape
from gradsim.scene.smoke import Boundary, Closed

GHOSTS = 2  # cells beyond a border that a spline's four coefficients along an axis may reach


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
    substeps: int = 2,
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
        substeps: Steps between two frames; an even number makes time second order.
        name: What errors call it.
        recompute: Keep only some states for the backward pass, and take the steps between once more.

    Returns:
        Densities [..., frames, H, W] and velocities [m/s], [..., frames, H, W, 2].
    """
    for label, value in (("frames", frames), ("substeps", substeps)):
        if not isinstance(value, int) or value < 1:
            raise OutOfRange(label, value, "must be a whole number >= 1")
    if not dt > 0:
        raise OutOfRange("dt", dt, "must be > 0 [s]")
    height, width = density.shape[-2:]
    if velocity.shape[-3:] != (height, width, 2):
        wanted = f"must have shape [..., {height}, {width}, 2]"
        raise WrongShape(f"{name}.velocity", f"shape {tuple(velocity.shape)}", wanted)
    leading = density.shape[:-2], velocity.shape[:-3], viscosity.shape, buoyancy.shape
    try:
        batch = torch.broadcast_shapes(*leading)
    except RuntimeError:
        raise WrongShape(name, f"batch shapes {[tuple(s) for s in leading]}", "must broadcast, as in PyTorch") from None

    waves = waves_for(height, width, boundary, density.dtype, density.device)
    cell = length / width
    rho = density.expand(*batch, height, width).reshape(-1, height, width)
    flow = velocity.expand(*batch, height, width, 2).reshape(-1, height, width, 2).permute(3, 0, 1, 2) * (dt / cell)
    decay = torch.exp((viscosity * (-0.5 * dt / cell**2)).expand(batch).reshape(-1, 1, 1) * waves.square)
    lift = (buoyancy * (dt**2 / cell)).expand(batch).reshape(-1, 1, 1) * waves.up
    for label, tensor in (("density", rho), ("velocity", flow), ("viscosity", decay), ("buoyancy", lift)):
        _guard(tensor, f"the gradient of {name}.{label} is not finite: simulate a shorter time")

    run: Callable[..., Any] = functools.partial(checkpoint, advance, use_reentrant=False) if recompute else advance
    # Whole pairs, so that cutting changes nothing; few enough for the states between to weigh what the steps within do.
    most = 2 * math.ceil(math.sqrt((frames - 1) * substeps) / 6) if recompute else substeps
    modes = waves.project(waves.analyse(flow))
    states = [(rho, modes)]
    for _ in range(frames - 1):
        for done in range(0, substeps, most):
            rho, modes = run(waves, rho, modes, decay, lift, min(most, substeps - done))
        states.append((rho, modes))
    densities = torch.stack([rho for rho, _ in states], 1)
    flows = waves.values(torch.cat([modes for _, modes in states], 1)) * (cell / dt)
    velocities = flows.view(2, frames, -1, height, width).permute(2, 1, 3, 4, 0)
    _check_finite(name, velocities.detach(), dt, substeps)
    for tensor in (densities, velocities):
        _guard(tensor, f"the gradient that reached {name} is not finite: look at the loss")
    return densities.view(*batch, *densities.shape[1:]), velocities.reshape(*batch, *velocities.shape[1:])


def advance(
    waves: Waves, rho: torch.Tensor, modes: torch.Tensor, decay: torch.Tensor, lift: torch.Tensor, steps: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Density [B, H, W] and modes of a flow without divergence [2, B, kx, ky], some steps later.

    Args:
        waves: The domain's.
        rho: Density.
        modes: Flow.
        decay: What viscosity leaves of each wave in half a step, [B, kx, ky].
        lift: Change of velocity in a step, of unit density, [2, B, 1, 1].
        steps: How many.
    """
    along = before = modes  # `modes` may be reflected, `along` never has divergence
    for i in range(steps):
        second = i % 2 == 1
        way = 2.0 * along - before if second else along  # the pair's mean way is that of its middle
        coefficients = torch.cat([waves.coefficients(modes * decay), waves.spline(rho)])
        moved = _Carried.apply(coefficients, waves.values(way), waves)
        rho = moved[2]  # constant along the way, and so is the lift
        modes = waves.analyse(moved[:2] + lift * rho) * decay
        before, along = along, waves.project(modes)
        modes = along if second or i + 1 == steps else 2.0 * along - modes
    return rho, along


def divergence(velocity: torch.Tensor, boundary: Boundary, length: float) -> torch.Tensor:
    """Divergence of a velocity [..., H, W, 2] in m/s, [..., H, W] in 1/s: the derivative of its waves."""
    *batch, height, width, _ = velocity.shape
    waves = waves_for(height, width, boundary, velocity.dtype, velocity.device)
    dx, dy = waves.slopes(velocity.reshape(-1, height, width, 2).permute(3, 0, 1, 2) * (width / length))
    return (dx[0] + dy[1]).view(*batch, height, width)


@dataclass(frozen=True, eq=False)
class Waves:
    """Waves along x and y that fit a domain, and what is done with them.

    Along an axis they come in pairs with odd' = k even and even' = -k odd. The velocity's component along the axis is
    made of odd ones, which at a wall are zero; everything else of even ones.
    """

    square: torch.Tensor  # [kx, ky]: wave vectors squared
    unit: torch.Tensor  # [2, 1, kx, ky]: their directions; 0 for the uniform flow, which has no divergence
    at_x: torch.Tensor  # [2, kx, W]: waves of both components of velocity at the nodes
    at_y: torch.Tensor  # [2, ky, H]
    spline_x: torch.Tensor  # [2, kx, W + 2 GHOSTS]: their spline coefficients
    spline_y: torch.Tensor  # [2, ky, H + 2 GHOSTS]
    slope_x: torch.Tensor  # [2, W, W]: from values to derivatives
    slope_y: torch.Tensor  # [2, H, H]
    even_x: torch.Tensor  # [W, W + 2 GHOSTS]: from values to spline coefficients, for the density
    even_y: torch.Tensor  # [H + 2 GHOSTS, H]
    nodes: torch.Tensor  # [2, 1, H, W]: x and y
    up: torch.Tensor  # [2, 1, 1, 1]: unit vector
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

    def slopes_transposed(self, along_x: torch.Tensor, along_y: torch.Tensor) -> torch.Tensor:
        """Adjoint of `slopes`."""
        _, worlds, height, width = along_x.shape
        to_flow = torch.bmm(along_x.reshape(2, worlds * height, width), self.slope_x.mT).view(along_x.shape)
        return to_flow.add_(self.slope_y.mT[:, None] @ along_y)

    def project(self, modes: torch.Tensor) -> torch.Tensor:
        """The part of a flow that has no divergence: without the gradient of a pressure, which is along the waves."""
        return modes - self.unit * (self.unit * modes).sum(0)


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

    @torch.inference_mode(False)  # they serve later calls, which may need gradients
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
        slope_x=tensor(np.stack([x.odd.T @ (x.k[:, None] * x.even), -x.even.T @ (x.k[:, None] * x.odd)])),
        slope_y=tensor(np.stack([-y.odd.T @ (y.k[:, None] * y.even), y.even.T @ (y.k[:, None] * y.odd)])),
        even_x=tensor(x.to_spline.T),
        even_y=tensor(y.to_spline),
        nodes=tensor(np.stack(np.meshgrid(np.arange(width), np.arange(height)))[:, None]),
        up=tensor(np.array([0.0, 1.0]).reshape(2, 1, 1, 1)),
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
        # A spline has at a node a mean of its coefficients, (1, 4, 1) / 6 = 1 - d. The exact inverse amplifies what is
        # as short as a cell, so that density in a rough flow blows up; 1 + d + d^2 keeps it bounded, and its error
        # d^3 takes away waves of 5 cells or less only.
        d = (1 - np.cos(k[:, None])) / 3
        sharpen = 1 + d + d * d
        unit = np.eye(n)
        d = unit - sum(w * unit[fold[GHOSTS + o : n + GHOSTS + o]] for o, w in ((-1, 1 / 6), (0, 4 / 6), (1, 1 / 6)))
        inner = slice(GHOSTS, n + GHOSTS)
        return cls(k, odd[:, inner], even[:, inner], sharpen * odd, sharpen * even, (unit + d + d @ d)[fold])


class _Carried(torch.autograd.Function):
    """What a flow v [2, B, H, W] in cells brings to the nodes, of splines with coefficients [3, B, H', W'].

    What arrives at x left x - v + (v . grad) v / 2: second order in time, and areas change only by fourth.

    A cubic spline's weights are positive, so its 16 terms are four bilinear look-ups at shifted points (Sigg and
    Hadwiger 2005), for which PyTorch has a fast function. Nothing but the arguments is kept for the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, coefficients: torch.Tensor, v: torch.Tensor, waves: Waves) -> Any:
        ctx.save_for_backward(coefficients, v)
        ctx.waves = waves
        dx, dy = waves.slopes(v)
        places = _places(_foot(v, dx, dy, waves), waves)
        looked = _look_up(coefficients, places.grid)
        found = places.weights[0] * looked[0]
        for k in range(1, 4):
            found.addcmul_(places.weights[k], looked[k])
        found = found.transpose(0, 1)
        if places.sign is not None:
            found[:2] *= places.sign
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        coefficients, v = ctx.saved_tensors
        waves = ctx.waves
        dx, dy = waves.slopes(v)
        places = _places(_foot(v, dx, dy, waves), waves)
        if places.sign is not None:
            grad = torch.cat([grad[:2] * places.sign, grad[2:]])
        grad = grad.transpose(0, 1)
        with torch.enable_grad():
            leaves = coefficients.detach().requires_grad_(), places.grid.requires_grad_()
            looked = _look_up(*leaves)
        to_coefficients, to_grid = torch.autograd.grad(looked, leaves, places.weights * grad)
        to_share = (looked.detach() * grad).sum(2)
        to_foot = places.to_points(to_grid, to_share)
        to_v = torch.stack([(to_foot * dx).sum(0), (to_foot * dy).sum(0)])
        to_v += waves.slopes_transposed(to_foot * v[0], to_foot * v[1])
        return to_coefficients, torch.sub(0.5 * to_v, to_foot), None


def _foot(v: torch.Tensor, dx: torch.Tensor, dy: torch.Tensor, waves: Waves) -> torch.Tensor:
    return (waves.nodes - v).addcmul_(v[0], dx, value=0.5).addcmul_(v[1], dy, value=0.5)


@dataclass(frozen=True, eq=False)
class _Places:
    """Where the four look-ups of points go, and what they weigh: (low, low), (high, low), (low, high), (high, high)."""

    t: torch.Tensor  # [2, B, H, W]: part of a cell beyond the node below
    low: torch.Tensor  # [2, B, H, W]: share of the lower look-up in x and in y
    high: torch.Tensor
    scale: torch.Tensor  # [2, 1, 1, 1]: from cells to `grid_sample`'s -1 .. 1
    grid: torch.Tensor  # [4, B, H, W, 2]
    weights: torch.Tensor  # [4, B, 1, H, W]
    sign: torch.Tensor | None  # [2, B, H, W]: -1 where a point lies beyond a wall, in the mirror; None if none does

    def to_points(self, to_grid: torch.Tensor, to_share: torch.Tensor) -> torch.Tensor:
        """Adjoint of the points [2, B, H, W], from those of the grid and of the weights [4, B, H, W]."""
        t, low, high = self.t, self.low, self.high
        r, tt = 1.0 - t, t * t
        rr = r * r
        slope = 0.5 + t * r  # of the high share
        low_slope = (0.5 * rr - rr * r * slope / (6.0 * low)) / low
        high_slope = (0.5 * tt - tt * t * slope / (6.0 * high)) / high
        to_low = torch.stack([to_grid[0, ..., 0] + to_grid[2, ..., 0], to_grid[0, ..., 1] + to_grid[1, ..., 1]])
        to_high = torch.stack([to_grid[1, ..., 0] + to_grid[3, ..., 0], to_grid[2, ..., 1] + to_grid[3, ..., 1]])
        more_x = torch.lerp(to_share[1] - to_share[0], to_share[3] - to_share[2], high[1])
        more_y = torch.lerp(to_share[2] - to_share[0], to_share[3] - to_share[1], high[0])
        moved = (to_low * low_slope).addcmul_(to_high, high_slope).mul_(self.scale)
        moved.addcmul_(slope, torch.stack([more_x, more_y]))
        return moved if self.sign is None else moved.mul_(self.sign)


def _places(points: torch.Tensor, waves: Waves) -> _Places:
    extent, sign = waves.extent, None
    if not waves.closed:
        points = points - extent * torch.floor(points / extent)
    elif any(p.min() < -0.5 or p.max() > n - 0.5 for p, n in zip(points, extent.flatten(), strict=True)):
        turned = extent - torch.remainder(points + 0.5, 2.0 * extent)
        sign = torch.where(turned < 0.0, -1.0, 1.0).to(points.dtype)
        points = extent - 0.5 - turned.abs()
    below = torch.floor(points)
    t = points - below
    r = 1.0 - t
    high = (1.0 + t * (3.0 + t * (3.0 - 2.0 * t))) / 6.0
    low = 1.0 - high
    scale = 2.0 / (extent + (2 * GHOSTS - 1))
    below += GHOSTS
    to_low = (below - r * r * r / (6.0 * low)) * scale - 1.0
    to_high = (below + (1.0 + t * t * t / (6.0 * high))) * scale - 1.0
    grid = points.new_empty(2, 2, *points.shape[1:], 2)
    grid[:, 0, ..., 0], grid[:, 1, ..., 0] = to_low[0], to_high[0]
    grid[0, ..., 1], grid[1, ..., 1] = to_low[1], to_high[1]
    weights = torch.stack([low[0] * low[1], high[0] * low[1], low[0] * high[1], high[0] * high[1]])
    return _Places(t, low, high, scale, grid.flatten(0, 1), weights[:, :, None], sign)


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


def _guard(value: torch.Tensor, message: str) -> None:
    """Let the backward pass raise when it brings NaN or infinity to a tensor."""

    def check(gradient: torch.Tensor | None) -> None:
        if gradient is not None and not bool(torch.isfinite(gradient).all()):
            raise BrokenGradient(message)

    if value.requires_grad:
        value.register_hook(check)

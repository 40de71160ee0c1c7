"""Smoke in two dimensions: an incompressible flow that carries a density, after Stam (1999).

A step advects velocity and density by the semi-Lagrangian method and projects the velocity onto the divergence-free
flows. The differences from Stam are for accuracy and smooth gradients:

- Fields are cubic splines, twice continuously differentiable, instead of bilinear, and the departure points are second
  order in time, so that vortices are not smeared out and density is not lost.
- Two steps form a pair. The first does not project, v -> P v, but reflects, v -> 2 P v - v, and so keeps the energy
  that projection dissipates (Zehnder, Narain and Thomaszewski 2018). The second advects along a velocity chosen so that
  the pair follows the velocity at its middle. A pair is second order in time; a single step before a frame is Stam's,
  of first order.
- Projection and viscosity are exact in the basis of `smoke_waves.py`, sines and cosines that fit the walls or the
  period. The divergence is computed from derivatives of the basis, so it vanishes to rounding.

In this file fields are [channel, world, H, W], modes are [channel, world, kx, ky], and the units of
length and time are a cell and a step.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from gradsim.scene.autograd import once_differentiable
from gradsim.scene.errors import BrokenGradient, Diverged, OutOfRange, WrongShape
from gradsim.scene.smoke import Boundary
from gradsim.simulate.state.smoke_waves import GHOSTS, Waves, waves_for


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
    """Simulates smoke, differentiably in density, velocity, viscosity and buoyancy.

    Element [row, column] of a field is at x = (column + 1/2) h, y = (row + 1/2) h, h = length / W: x points right, y
    up, and row 0 is at the bottom. The velocity of frame 0 is the projection of the given one.

    Args:
        density: [..., H, W].
        velocity: [m/s], [..., H, W, 2].
        viscosity: [m^2/s], [...].
        buoyancy: Upward acceleration of unit density [m/s^2], [...].
        boundary: `Closed()` or `Periodic()`.
        length: Width of the domain [m].
        frames: States to return, the first of which is the initial state.
        dt: Time step [s].
        substeps: Steps between two frames; an even number is second order in time.
        name: Name in errors.
        recompute: Whether the backward pass recomputes steps from checkpoints instead of storing all of them.

    Returns:
        Densities [..., frames, H, W] and velocities [m/s], [..., frames, H, W, 2].
    """
    batch = _checked_batch(density, velocity, viscosity, buoyancy, frames, substeps, dt, name)
    height, width = density.shape[-2:]
    waves = waves_for(height, width, boundary, density.dtype, density.device)
    cell = length / width
    rho = density.expand(*batch, height, width).reshape(-1, height, width)
    flow = velocity.expand(*batch, height, width, 2).reshape(-1, height, width, 2).permute(3, 0, 1, 2) * (dt / cell)
    decay = torch.exp((viscosity * (-0.5 * dt / cell**2)).expand(batch).reshape(-1, 1, 1) * waves.square)
    lift = (buoyancy * (dt**2 / cell)).expand(batch).reshape(-1, 1, 1) * waves.up
    for label, tensor in (("density", rho), ("velocity", flow), ("viscosity", decay), ("buoyancy", lift)):
        _guard(tensor, f"the gradient of {name}.{label} is not finite: simulate a shorter time")

    run: Callable[..., Any] = functools.partial(checkpoint, advance, use_reentrant=False) if recompute else advance
    # Chunks are whole pairs, so that checkpoints do not change the result, and about as large as all checkpoints.
    chunk = 2 * math.ceil(math.sqrt((frames - 1) * substeps) / 6) if recompute else substeps
    modes = waves.project(waves.analyse(flow))
    states = [(rho, modes)]
    for _ in range(frames - 1):
        for done in range(0, substeps, chunk):
            rho, modes = run(waves, rho, modes, decay, lift, min(chunk, substeps - done))
        states.append((rho, modes))
    densities = torch.stack([rho for rho, _ in states], 1)
    flows = waves.values(torch.cat([modes for _, modes in states], 1)) * (cell / dt)
    velocities = flows.view(2, frames, -1, height, width).permute(2, 1, 3, 4, 0)
    _check_finite(name, velocities.detach(), dt, substeps)
    for tensor in (densities, velocities):
        _guard(tensor, f"the gradient that reached {name} is not finite: look at the loss")
    return densities.view(*batch, *densities.shape[1:]), velocities.reshape(*batch, *velocities.shape[1:])


def _checked_batch(
    density: torch.Tensor,
    velocity: torch.Tensor,
    viscosity: torch.Tensor,
    buoyancy: torch.Tensor,
    frames: int,
    substeps: int,
    dt: float,
    name: str,
) -> torch.Size:
    """Returns the batch shape of all inputs, after checking them."""
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
    return batch


def advance(
    waves: Waves, rho: torch.Tensor, modes: torch.Tensor, decay: torch.Tensor, lift: torch.Tensor, steps: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Takes some steps.

    Args:
        waves: Basis of the domain.
        rho: Density, [B, H, W].
        modes: Divergence-free flow, [2, B, kx, ky].
        decay: Viscous decay of each mode in half a step, [B, kx, ky].
        lift: Change of velocity per step and unit density, [2, B, 1, 1].
        steps: Number of steps.

    Returns:
        Density and modes after the steps.
    """
    flow = before = modes  # `modes` may be reflected, `flow` is divergence-free
    for i in range(steps):
        second = i % 2 == 1
        advecting = 2.0 * flow - before if second else flow  # the mean of a pair is the flow at its middle
        coefficients = torch.cat([waves.coefficients(modes * decay), waves.spline(rho)])
        moved = _Advection.apply(coefficients, waves.values(advecting), waves)
        rho = moved[2]  # constant along a trajectory, and so is the lift
        modes = waves.analyse(moved[:2] + lift * rho) * decay
        before, flow = flow, waves.project(modes)
        modes = flow if second or i + 1 == steps else 2.0 * flow - modes
    return rho, flow


def divergence(velocity: torch.Tensor, boundary: Boundary, length: float) -> torch.Tensor:
    """Returns the divergence [1/s], [..., H, W], of a velocity [m/s], [..., H, W, 2]."""
    *batch, height, width, _ = velocity.shape
    waves = waves_for(height, width, boundary, velocity.dtype, velocity.device)
    dx, dy = waves.derivatives(velocity.reshape(-1, height, width, 2).permute(3, 0, 1, 2) * (width / length))
    return (dx[0] + dy[1]).view(*batch, height, width)


class _Advection(torch.autograd.Function):
    """Advects splines with coefficients [3, B, H', W'] by a flow v [2, B, H, W] [cells]; returns values at the nodes.

    The departure point of x is x - v + (v . grad) v / 2, second order in time; areas change only at fourth order.

    The weights of a cubic spline are positive, so its 16 terms are four bilinear look-ups at shifted points (Sigg and
    Hadwiger 2005), for which PyTorch has a fast function. Only the arguments are saved for the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, coefficients: torch.Tensor, v: torch.Tensor, waves: Waves) -> Any:
        ctx.save_for_backward(coefficients, v)
        ctx.waves = waves
        dx, dy = waves.derivatives(v)
        places = _places(_departure(v, dx, dy, waves), waves)
        looked = _look_up(coefficients, places.grid)
        values = places.weights[0] * looked[0]
        for k in range(1, 4):
            values.addcmul_(places.weights[k], looked[k])
        values = values.transpose(0, 1)
        if places.sign is not None:
            values[:2] *= places.sign
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        coefficients, v = ctx.saved_tensors
        waves = ctx.waves
        dx, dy = waves.derivatives(v)
        places = _places(_departure(v, dx, dy, waves), waves)
        if places.sign is not None:
            grad = torch.cat([grad[:2] * places.sign, grad[2:]])
        grad = grad.transpose(0, 1)
        with torch.enable_grad():
            leaves = coefficients.detach().requires_grad_(), places.grid.requires_grad_()
            looked = _look_up(*leaves)
        to_coefficients, to_grid = torch.autograd.grad(looked, leaves, places.weights * grad)
        to_share = (looked.detach() * grad).sum(2)
        to_points = places.points_adjoint(to_grid, to_share)
        to_v = torch.stack([(to_points * dx).sum(0), (to_points * dy).sum(0)])
        to_v += waves.derivatives_transposed(to_points * v[0], to_points * v[1])
        return to_coefficients, torch.sub(0.5 * to_v, to_points), None


def _departure(v: torch.Tensor, dx: torch.Tensor, dy: torch.Tensor, waves: Waves) -> torch.Tensor:
    return (waves.nodes - v).addcmul_(v[0], dx, value=0.5).addcmul_(v[1], dy, value=0.5)


@dataclass(frozen=True, eq=False)
class _Places:
    """Positions and weights of the look-ups of points: (low, low), (high, low), (low, high), (high, high)."""

    t: torch.Tensor  # [2, B, H, W]: fraction of a cell above the node below
    low: torch.Tensor  # [2, B, H, W]: weight of the lower look-up in x and in y
    high: torch.Tensor
    scale: torch.Tensor  # [2, 1, 1, 1]: from cells to `grid_sample`'s -1 .. 1
    grid: torch.Tensor  # [4, B, H, W, 2]
    weights: torch.Tensor  # [4, B, 1, H, W]
    sign: torch.Tensor | None  # [2, B, H, W]: -1 where a point is mirrored at a wall; None if no point is

    def points_adjoint(self, to_grid: torch.Tensor, to_share: torch.Tensor) -> torch.Tensor:
        """Returns the adjoint of the points [2, B, H, W] from those of the grid and of the weights [4, B, H, W]."""
        t, low, high = self.t, self.low, self.high
        r, tt = 1.0 - t, t * t
        rr = r * r
        slope = 0.5 + t * r  # derivative of the high weight
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
    """Interpolates coefficients [C, B, H', W'] bilinearly at positions [4, B, H, W, 2]; returns [4, B, C, H, W]."""
    worlds = coefficients.transpose(0, 1).expand(len(grid), -1, -1, -1, -1)
    found = F.grid_sample(worlds.flatten(0, 1), grid.flatten(0, 1), align_corners=True, padding_mode="border")
    return found.view(*grid.shape[:2], *found.shape[1:])


def _check_finite(name: str, velocities: torch.Tensor, dt: float, substeps: int) -> None:
    """Raises if velocities [B, T, H, W, 2] are not finite."""
    finite = torch.isfinite(velocities).flatten(2).all(2)
    if not bool(finite.all()):
        world, frame = (int(i) for i in torch.nonzero(~finite)[0])
        raise Diverged(name, frame * substeps, frame * substeps * dt, world, dt, math.inf)


def _guard(value: torch.Tensor, message: str) -> None:
    """Makes the backward pass raise if the gradient of a tensor is not finite."""

    def check(gradient: torch.Tensor | None) -> None:
        if gradient is not None and not bool(torch.isfinite(gradient).all()):
            raise BrokenGradient(message)

    if value.requires_grad:
        value.register_hook(check)

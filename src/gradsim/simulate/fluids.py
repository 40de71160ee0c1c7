"""Smoke as a body of a scene: from its noun and a scene's batch to its states at the frames."""

from __future__ import annotations

import numpy as np
import torch

from gradsim.scene.errors import WrongShape
from gradsim.scene.smoke import Smoke
from gradsim.scene.trajectory import State
from gradsim.simulate.assemble import Assembly
from gradsim.simulate.smoke import smoke_rollout

FIELDS_A_STEP = 25  # scalars a cell that the backward pass of a step keeps, measured


def smoke_states(
    smoke: Smoke,
    assembly: Assembly,
    start: State | None,
    *,
    frames: int,
    dt: float,
    substeps: int,
    limit: float,
) -> dict[str, torch.Tensor]:
    """Density and both components of the velocity at the frames, [..., T, H, W] each, named after the smoke."""

    def tensor(value: object) -> torch.Tensor:
        if isinstance(value, torch.Tensor):
            return value
        return torch.tensor(value, dtype=assembly.dtype, device=assembly.device)

    density, velocity = tensor(smoke.density), tensor(smoke.velocity)
    density = density if density.ndim else density.expand(smoke.size)
    velocity = velocity if velocity.ndim > 1 else velocity.expand(*smoke.size, 2)
    if start is not None:
        values = start.values()
        names = [f"{smoke.name}.{field}" for field in ("density", "velocity_x", "velocity_y")]
        for name in names:
            if name not in values or values[name].shape[-2:] != smoke.size:
                raise WrongShape(f"start {name}", "missing or of another size", f"the scene needs {smoke.size}")
        density, velocity = values[names[0]], torch.stack([values[name] for name in names[1:]], -1)
    steps = (frames - 1) * substeps * assembly.world_count
    kept = steps * FIELDS_A_STEP * int(np.prod(smoke.size)) * assembly.dtype.itemsize
    densities, velocities = smoke_rollout(
        density.expand(*assembly.batch, *smoke.size),
        velocity.expand(*assembly.batch, *smoke.size, 2),
        tensor(smoke.viscosity),
        tensor(smoke.buoyancy),
        boundary=smoke.boundary,
        length=smoke.length,
        frames=frames,
        dt=dt,
        substeps=substeps,
        name=smoke.name,
        recompute=kept > limit,
    )
    return {
        f"{smoke.name}.density": densities,
        f"{smoke.name}.velocity_x": velocities[..., 0],
        f"{smoke.name}.velocity_y": velocities[..., 1],
    }

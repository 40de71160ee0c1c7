"""Smoke in a scene: its states at the frames, and its motion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from gradsim.scene.errors import WrongShape
from gradsim.scene.smoke import Smoke, SmokeMotion
from gradsim.scene.time import Time
from gradsim.scene.trajectory import State
from gradsim.simulate.compile.compiled_scene import CompiledScene
from gradsim.simulate.state.smoke_rollout import smoke_rollout

SCALARS_PER_CELL = 25  # that a step stores for its backward pass, measured


def smoke_states(
    smoke: Smoke, compiled: CompiledScene, start: State | None, time: Time, limit: float
) -> dict[str, torch.Tensor]:
    """Returns density, x and y velocity at the frames, [..., T, H, W] each, by names such as "smoke.density"."""

    def tensor(value: object) -> torch.Tensor:
        if isinstance(value, torch.Tensor):
            return value
        return torch.tensor(value, dtype=compiled.dtype, device=compiled.device)

    density, velocity = tensor(smoke.density), tensor(smoke.velocity)
    density = density if density.ndim else density.expand(smoke.size)
    velocity = velocity if velocity.ndim > 1 else velocity.expand(*smoke.size, 2)
    if start is not None:
        values = start.others
        names = smoke_state_names(smoke)
        for name in names:
            if name not in values or values[name].shape[-2:] != smoke.size:
                raise WrongShape(f"start {name}", "missing or of another size", f"the scene needs {smoke.size}")
        density, velocity = values[names[0]], torch.stack([values[name] for name in names[1:]], -1)
    steps = time.steps * compiled.world_count
    stored = steps * SCALARS_PER_CELL * int(np.prod(smoke.size)) * compiled.dtype.itemsize  # [bytes]
    densities, velocities = smoke_rollout(
        density.expand(*compiled.batch, *smoke.size),
        velocity.expand(*compiled.batch, *smoke.size, 2),
        tensor(smoke.viscosity),
        tensor(smoke.buoyancy),
        boundary=smoke.boundary,
        length=smoke.length,
        frames=time.frames,
        dt=time.dt,
        substeps=time.steps_per_frame,
        name=smoke.name,
        recompute=stored > limit,
    )
    return dict(zip(smoke_state_names(smoke), (densities, velocities[..., 0], velocities[..., 1]), strict=True))


def smoke_state_names(body: Smoke) -> tuple[str, str, str]:
    """Returns the names of the states of a body of smoke: density, x and y velocity."""
    return f"{body.name}.density", f"{body.name}.velocity_x", f"{body.name}.velocity_y"


def smoke_motion(body: Smoke, states: dict[str, torch.Tensor]) -> Callable[[], SmokeMotion]:
    """Returns a function for the motion of smoke."""

    def motion() -> SmokeMotion:
        flow = torch.stack([states[f"{body.name}.velocity_{axis}"] for axis in "xy"], -1)
        return SmokeMotion(states[f"{body.name}.density"], flow)

    return motion


def has_smoke_states(body: Smoke, states: dict[str, torch.Tensor]) -> bool:
    """Whether states hold those of a body of smoke."""
    return f"{body.name}.density" in states

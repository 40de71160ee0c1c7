"""A gradient problem, and the helpers that the problems share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.check.gradcheck import Values
from gradsim.scene.materials import Ground
from gradsim.scene.scene import Scene


@dataclass(frozen=True)
class GradientProblem:
    """A scene as a function of its parameters, and the duration of its rollout."""

    name: str
    system: str  # "deformable object", "cloth", "mass-spring", "rigid body", "moving shapes", "simple pendulum", ...
    build: Callable[[Values], Scene]
    values: Callable[[], Values]  # returns the parameters, float64, always the same
    frames: int = 5
    fps: float = 100.0  # [1/s]
    substeps: int = 25


def tensor(value: object) -> torch.Tensor:
    """Returns a float64 tensor."""
    return torch.as_tensor(np.asarray(value, dtype=np.float64))


def noise(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Returns normally distributed numbers of standard deviation `scale`."""
    return scale * np.random.default_rng(seed).standard_normal(shape)


def lognormal(seed: int, median: float, *shape: int) -> torch.Tensor:
    """Returns positive numbers with a spread of a fifth around their median."""
    return tensor(median * np.exp(0.2 * noise(seed, *shape)))


def contact_values(ke: float, kd: float, kf: float, mu: float) -> Values:
    """Returns the parameters of `ground`."""
    return {
        "ke": tensor(ke),
        "kd": tensor(kd),
        "kf": tensor(kf),
        "friction": tensor(mu),
        "delta": tensor(0.004),
        "normal": tensor([0.05, 1.0, -0.03]),
        "offset": tensor(0.01),
    }


def ground(p: Values) -> Ground:
    """Returns a plane with these parameters."""
    return Ground(p["ke"], p["kd"], p["kf"], p["friction"], p["delta"], normal=p["normal"], offset=p["offset"])

"""A video of a data set before it is recorded: its scene and the true values of its unknowns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import Unknown, unknown

Ranges = Mapping[str, tuple[Any, Any]]  # lowest and highest value by path


@dataclass(frozen=True, eq=False)
class Sample:
    """A scene whose unknowns have random guesses, and their true values."""

    object: str
    scene: Scene
    truth: Mapping[str, Any]  # by path of the unknowns: a number, or [3]
    time: Time

    @property
    def true_scene(self) -> Scene:
        """The scene with the true values."""
        return self.scene.with_values(dict(self.truth))

    @property
    def columns(self) -> dict[str, float]:
        """The true values by path, those of vectors by component, such as cloth.velocity[0]."""
        listed: dict[str, float] = {}
        for path, value in self.truth.items():
            array = np.asarray(value, dtype=np.float64)
            names = [path] if array.ndim == 0 else [f"{path}[{k}]" for k in range(array.size)]
            listed |= dict(zip(names, array.reshape(-1).tolist(), strict=True))
        return listed


def generators(seed: int, number: int) -> tuple[np.random.Generator, np.random.Generator]:
    """Returns the random generators of the scene and of the guesses of a video: they depend on nothing else."""
    return np.random.default_rng([seed, number, 0]), np.random.default_rng([seed, number, 1])


def draw_truth(rng: np.random.Generator, ranges: Ranges) -> dict[str, Any]:
    """Returns values that are uniformly distributed within their ranges."""
    return {path: rng.uniform(low, high) for path, (low, high) in ranges.items()}


def draw_unknowns(rng: np.random.Generator, ranges: Ranges) -> dict[str, Unknown]:
    """Returns unknowns with guesses that are uniformly distributed within their ranges, which are their bounds."""
    return {path: unknown(rng.uniform(low, high), low=low, high=high) for path, (low, high) in ranges.items()}

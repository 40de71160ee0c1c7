"""The problem of Table 1: the mass of an object of the data set from one video, all else known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch

from gradsim.datasets.items import STATE_NAMES, Settings, split_of
from gradsim.datasets.objects import mesh, volume
from gradsim.datasets.recording import record
from gradsim.datasets.sample import Sample
from gradsim.fit.observations.states import States
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene

DENSITY = "body.density"
SIDE = 128  # frame height and width [px]
TRAINING = 800  # videos


@dataclass(frozen=True, eq=False)
class MassProblem:
    """A video of the data set whose only unknown is the density."""

    sample: Sample
    seed: int  # of random choices of a method

    @cached_property
    def scene(self) -> Scene:
        """The scene, with the density unknown at a random guess and everything else at its true value."""
        known = {path: value for path, value in self.sample.truth.items() if path != DENSITY}
        return self.sample.scene.with_values(known)

    @cached_property
    def _recorded(self) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        with torch.no_grad():
            trajectory, (video,) = record(self.sample.true_scene, self.sample.time, SIDE)
        return video, {f"body.{name}": getattr(trajectory["body"], name) for name in STATE_NAMES}

    @property
    def video(self) -> torch.Tensor:
        """The exact frames, [T, SIDE, SIDE, 3]."""
        return self._recorded[0]

    @property
    def states(self) -> States:
        """The 3D states at the frames."""
        return States(
            self._recorded[1], noise={"position": 1.0, "rotation": 1.0, "velocity": 1.0, "angular_velocity": 1.0}
        )

    @property
    def body(self) -> Rigid:
        (body,) = self.scene.bodies
        assert isinstance(body, Rigid)
        return body

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest density [kg/m^3]."""
        unknown = self.scene.unknowns[DENSITY]
        return float(np.asarray(unknown.low)), float(np.asarray(unknown.high))

    @property
    def guess(self) -> float:
        """Initial density [kg/m^3]."""
        return float(self.scene.unknowns[DENSITY].guess)

    @property
    def volume(self) -> float:
        """Volume of the object [m^3]."""
        return sample_volume(self.sample)

    @property
    def mass(self) -> float:
        """True mass [kg]."""
        return float(self.sample.truth[DENSITY]) * self.volume


def problem(seed: int, number: int) -> MassProblem:
    """Returns a problem of the test split of the data set."""
    tests = [k for k in range(1000) if split_of(k) == "test"]
    return MassProblem(Settings("rigid", seed).sample(tests[number % len(tests)]), number)


def sample_volume(sample: Sample) -> float:
    """Returns the volume of the object of a sample [m^3]."""
    (body,) = sample.scene.bodies
    assert isinstance(body, Rigid)
    shape = mesh(sample.object)
    return volume(shape) * float(np.prod(np.asarray(body.size) / np.ptp(shape.vertices, axis=0)))


@cache
def training_masses(seed: int) -> tuple[float, ...]:
    """Returns the true masses of the training split [kg]."""
    numbers = [k for k in range(1000) if split_of(k) == "train"]
    samples = (Settings("rigid", seed).sample(number) for number in numbers)
    return tuple(float(sample.truth[DENSITY]) * sample_volume(sample) for sample in samples)

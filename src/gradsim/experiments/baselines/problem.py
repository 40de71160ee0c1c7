"""The problems of Tables 1 and 2: parameters of an object of the data set from one video, all else known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch

from gradsim.datasets import rigid
from gradsim.datasets.items import STATE_NAMES, Settings, split_of
from gradsim.datasets.objects import mesh, object_volume
from gradsim.datasets.recording import record
from gradsim.datasets.sample import Sample
from gradsim.fit.observations.states import States
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene

DENSITY = "body.density"
PATHS = {  # by name in the tables, in the order of Table 2
    "mass": DENSITY,
    "kd": "ground.kd",
    "ke": "ground.ke",
    "kf": "ground.kf",
    "mu": "ground.mu",
}
MASS, ALL = ("mass",), tuple(PATHS)  # what Tables 1 and 2 ask for
SIDE = 128  # frame height and width [px]
SMALL = 64  # the same for networks
STATE_NOISE = 1e-6  # standard deviation that exact 3D states are compared with, in SI units


@dataclass(frozen=True, eq=False)
class Problem:
    """A video of the data set, some of whose parameters are unknown.

    Args:
        sample: The scene and its true values.
        asked: Names of the unknown parameters, keys of `PATHS`.
        seed: Of random choices of a method.
    """

    sample: Sample
    asked: tuple[str, ...]
    seed: int

    @cached_property
    def scene(self) -> Scene:
        """The scene, with what is asked for unknown at a random guess and everything else at its true value."""
        asked = {PATHS[name] for name in self.asked}
        return self.sample.scene.with_values({path: v for path, v in self.sample.truth.items() if path not in asked})

    @property
    def truth(self) -> dict[str, float]:
        """True values by name; the mass in kg."""
        return {name: self.value(name, float(self.sample.truth[PATHS[name]])) for name in self.asked}

    def value(self, name: str, parameter: float) -> float:
        """Returns the value of a table from that of the scene: the mass [kg] from the density."""
        return parameter * self.volume if name == "mass" else parameter

    @cached_property
    def _recorded(self) -> tuple[torch.Tensor, torch.Tensor, Mapping[str, torch.Tensor]]:
        with torch.no_grad():
            trajectory, (video, small) = record(self.sample.true_scene, self.sample.time, SIDE, SMALL)
        return video, small, {f"body.{name}": getattr(trajectory["body"], name) for name in STATE_NAMES}

    @property
    def video(self) -> torch.Tensor:
        """The exact frames, [T, SIDE, SIDE, 3]."""
        return self._recorded[0]

    @property
    def small_video(self) -> torch.Tensor:
        """The frames for networks, [T, SMALL, SMALL, 3]."""
        return self._recorded[1]

    @property
    def trajectory(self) -> Mapping[str, torch.Tensor]:
        """The 3D states at the frames by path, such as body.position [T, 3]."""
        return self._recorded[2]

    @property
    def states(self) -> States:
        """The 3D states as observations, exact but for `STATE_NOISE`."""
        return States(self.trajectory, noise=dict.fromkeys(STATE_NAMES, STATE_NOISE))

    @property
    def body(self) -> Rigid:
        (body,) = self.scene.bodies
        assert isinstance(body, Rigid)
        return body

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Lowest and highest value of each unknown parameter by path."""
        unknowns = self.scene.unknowns.items()
        return {path: (float(np.asarray(item.low)), float(np.asarray(item.high))) for path, item in unknowns}

    @property
    def guess(self) -> dict[str, float]:
        """Initial value of each unknown parameter by path."""
        return {path: float(item.guess) for path, item in self.scene.unknowns.items()}

    @property
    def volume(self) -> float:
        """Volume of the object [m^3]."""
        return sample_volume(self.sample)


def problem(seed: int, number: int, asked: tuple[str, ...] = MASS) -> Problem:
    """Returns a problem of the test split of the data set."""
    tests = [k for k in range(1000) if split_of(k) == "test"]
    return Problem(Settings("rigid", seed).sample(tests[number % len(tests)]), asked, number)


def sample_volume(sample: Sample) -> float:
    """Returns the volume of the object of a sample [m^3]."""
    (body,) = sample.scene.bodies
    assert isinstance(body, Rigid)
    shape = mesh(sample.object)
    return object_volume(sample.object) * float(np.prod(np.asarray(body.size) / np.ptp(shape.vertices, axis=0)))


def training_numbers() -> list[int]:
    """Returns the numbers of the 800 videos of the training split."""
    return [number for number in range(1000) if split_of(number) == "train"]


def true_values(seed: int, number: int) -> list[float]:
    """Returns the true values of a video in the order of `PATHS`; the mass in kg."""
    truth = rigid.true_values(seed, number)
    return [truth[path] * (truth["volume"] if name == "mass" else 1.0) for name, path in PATHS.items()]


@cache
def training_values(seed: int) -> np.ndarray:
    """Returns the true values of the training split, [800, 5] in the order of `PATHS`."""
    return np.array([true_values(seed, number) for number in training_numbers()])

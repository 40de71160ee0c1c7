"""Unknowns as unconstrained coordinates for an optimizer.

Positive quantities use a logarithmic scale, quantities between two bounds a logit scale, rotations a rotation vector
relative to the guess, and all others a linear scale. One coordinate unit is a step of natural size: a factor of e,
about a quarter of the distance between two bounds, a radian, or the magnitude of the guess.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.scene.errors import InvalidInput
from gradsim.scene.quantity import Spec, inner_unknown
from gradsim.scene.scene import Scene
from gradsim.scene.unknown import Unknown

LOGIT_MARGIN = 1e-9  # smallest distance from the bounds, as a fraction of the distance between them
SAMPLE_MARGIN = 0.02  # the same, for random samples


@dataclass(frozen=True, eq=False)
class ScaledUnknown:
    """An unknown and its coordinates; `from_value` and `to_value` are inverse to each other, elementwise."""

    path: str
    unit: str
    shape: tuple[int, ...]
    scale: str  # "log", "logit", "linear", "rotation"
    guess: torch.Tensor  # value, [*shape]
    low: torch.Tensor  # bounds of the value, infinite where there are none, [*shape]
    high: torch.Tensor
    step: float | None = None  # value of one unit of a linear coordinate; None for the magnitude of the guess

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return 3 if self.scale == "rotation" else math.prod(self.shape)

    @property
    def unit_step(self) -> torch.Tensor:
        """Value of one unit of a linear coordinate, [*shape]."""
        if self.step is not None:
            return torch.full_like(self.guess, self.step)
        distance = torch.where(torch.isfinite(self.high - self.low), self.high - self.low, 0.0)
        magnitude = torch.maximum(self.guess.abs().max(), 0.25 * distance.max())
        return torch.full_like(self.guess, float(magnitude) if magnitude > 0 else 1.0)

    def to_value(self, z: torch.Tensor) -> torch.Tensor:
        """Converts coordinates [..., size] to values [..., *shape]."""
        if self.scale == "rotation":
            return _rotated(self.guess, z)
        z = z.reshape((*z.shape[:-1], *self.shape))
        if self.scale == "log":
            return torch.exp(z)
        if self.scale == "logit":
            return self.low + (self.high - self.low) * torch.sigmoid(z)
        return z * self.unit_step

    def from_value(self, value: torch.Tensor) -> torch.Tensor:
        """Converts values [..., *shape] to coordinates [..., size]; any rotation is taken to be the guess (zero)."""
        if self.scale == "rotation":
            return value.new_zeros(*value.shape[:-1], 3)
        if self.scale == "log":
            z = torch.log(value)
        elif self.scale == "logit":
            fraction = (value - self.low) / (self.high - self.low)
            z = torch.logit(fraction.clamp(LOGIT_MARGIN, 1 - LOGIT_MARGIN))
        else:
            z = value / self.unit_step
        return z.reshape(*z.shape[: z.ndim - len(self.shape)], self.size)

    def bounds(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the lower and upper bounds of the coordinates, [size] each."""
        infinite = torch.full((self.size,), torch.inf, dtype=self.guess.dtype)
        if self.scale == "rotation":
            return -infinite, infinite
        if self.scale == "logit":
            largest = math.log(1 / LOGIT_MARGIN)
            return torch.full_like(infinite, -largest), torch.full_like(infinite, largest)
        low = torch.log(self.low.clamp_min(0.0)) if self.scale == "log" else self.low / self.unit_step
        high = torch.log(self.high) if self.scale == "log" else self.high / self.unit_step
        return low.reshape(-1), high.reshape(-1)

    def sample(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Returns random coordinates [count, size]: uniform between two bounds, otherwise normal about the guess.

        Logit coordinates are uniform in the value. The standard deviation about the guess is half a coordinate unit.
        """
        low, high = self.bounds()
        center = self.from_value(self.guess)
        if self.scale == "logit":
            fraction = torch.rand(count, self.size, generator=generator, dtype=center.dtype)
            return torch.logit(fraction.clamp(SAMPLE_MARGIN, 1 - SAMPLE_MARGIN))
        uniform = torch.rand(count, self.size, generator=generator, dtype=center.dtype)
        normal = center + 0.5 * torch.randn(count, self.size, generator=generator, dtype=center.dtype)
        bounded = torch.isfinite(low) & torch.isfinite(high)
        between = torch.where(bounded, low, 0.0) + uniform * torch.where(bounded, high - low, 0.0)
        return torch.where(bounded, between, torch.clamp(normal, low, high))

    def prior_center(self) -> torch.Tensor:
        """Center of the plausible range, in coordinates [size]."""
        low, high = self.bounds()
        if self.scale == "logit":
            return torch.zeros_like(low)
        center = (low + high) / 2
        return torch.where(torch.isfinite(center), center, self.from_value(self.guess))

    def prior_width(self) -> torch.Tensor:
        """Half width of the plausible range, in coordinates [size]."""
        low, high = self.bounds()
        if self.scale == "logit":
            return torch.full_like(low, 3.0)
        half = (high - low) / 2
        return torch.where(torch.isfinite(half), half, 2.0)


def _rotated(start: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Returns the quaternion `start` rotated by rotation vectors z [..., 3] in world axes."""
    half = 0.5 * z
    angle = torch.sqrt((half * half).sum(-1, keepdim=True) + 1e-32)
    vector, scalar = half * (torch.sin(angle) / angle), torch.cos(angle)
    q = start / torch.linalg.vector_norm(start)
    v, w = q[:3].expand_as(vector), q[3]
    imaginary = scalar * v + w * vector + torch.linalg.cross(vector, v)
    return torch.cat([imaginary, scalar * w - (vector * v).sum(-1, keepdim=True)], -1)


class Parameters:
    """All unknowns of a scene as one vector of coordinates [P]."""

    def __init__(
        self,
        scene: Scene,
        time_unknowns: Mapping[str, Unknown] | None = None,
        dtype: torch.dtype = torch.float64,
        extra: Sequence[ScaledUnknown] = (),
    ):
        """Args:
        scene: Scene with unknowns.
        time_unknowns: Unknown times that are not part of the scene [s], by path.
        dtype: Precision of the coordinates.
        extra: Further unknowns, such as weights of policies.
        """
        self.scene, self.dtype = scene, dtype
        quantities = (*scene.quantities(), *scene.view_quantities())
        declared = [(path, inner_unknown(value), spec) for path, value, spec in quantities]
        declared += [(path, unknown, Spec("s")) for path, unknown in (time_unknowns or {}).items()]
        self.unknowns = [_scaled(path, u, spec, dtype) for path, u, spec in declared if u is not None]
        self.unknowns += extra
        if not self.unknowns:
            raise InvalidInput("scene", "no unknowns", "mark unknown quantities: mass=gs.unknown(2.0, low=1, high=10)")
        self._assign_slices()

    @classmethod
    def shared(cls, scenes: Sequence[Scene], time_unknowns: Mapping[str, Unknown] | None = None) -> Parameters:
        """Returns the unknowns of several scenes; unknowns with the same path are shared and must be equal."""
        parameters = cls(scenes[0], time_unknowns)
        for scene in scenes[1:]:
            for unknown in cls(scene).unknowns:
                known = next((u for u in parameters.unknowns if u.path == unknown.path), None)
                if known is None:
                    parameters.unknowns.append(unknown)
                elif not torch.equal(known.guess, unknown.guess) or known.scale != unknown.scale:
                    raise InvalidInput(
                        unknown.path,
                        "different guess or bounds",
                        "must be declared equally in all scenes that share it",
                    )
        parameters._assign_slices()
        return parameters

    def _assign_slices(self) -> None:
        ends = np.cumsum([0, *(unknown.size for unknown in self.unknowns)])
        self.slices = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]

    @property
    def count(self) -> int:
        """Number of coordinates P."""
        return self.slices[-1].stop

    @property
    def names(self) -> list[str]:
        """Name of each coordinate: the path of the unknown, with an index if it has several values."""
        names = []
        for unknown in self.unknowns:
            path, size = unknown.path, unknown.size
            names += [path] if size == 1 else [f"{path}[{k}]" for k in range(size)]
        return names

    def initial(self) -> torch.Tensor:
        """Coordinates of the guesses, [P]."""
        return torch.cat([unknown.from_value(unknown.guess) for unknown in self.unknowns])

    def bounds(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Lower and upper bounds of the coordinates, [P] each."""
        low, high = zip(*(unknown.bounds() for unknown in self.unknowns), strict=True)
        return torch.cat(low), torch.cat(high)

    def sample(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Random coordinates [count, P]; see `ScaledUnknown.sample`."""
        return torch.cat([unknown.sample(count, generator) for unknown in self.unknowns], -1)

    def prior(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Center and half width of the plausible range, [P] each."""
        centers = [unknown.prior_center() for unknown in self.unknowns]
        widths = [unknown.prior_width() for unknown in self.unknowns]
        return torch.cat(centers), torch.cat(widths)

    def values(self, z: torch.Tensor) -> dict[str, torch.Tensor]:
        """Converts coordinates [..., P] to values by path, [..., *shape] each."""
        return {unknown.path: unknown.to_value(z[..., part]) for unknown, part in self.items()}

    def items(self) -> Iterator[tuple[ScaledUnknown, slice]]:
        """Iterates over the unknowns and the slices of their coordinates."""
        return zip(self.unknowns, self.slices, strict=True)

    def coordinates(self, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Converts values by path to coordinates [..., P]."""
        return torch.cat([unknown.from_value(values[unknown.path]) for unknown in self.unknowns], -1)

    def fill(self, z: torch.Tensor) -> Scene:
        """Returns the scene with the values at z [..., P]; leading dimensions are a batch of worlds."""
        in_scene = self.scene.unknowns
        return self.scene.with_values({path: value for path, value in self.values(z).items() if path in in_scene})


def _scaled(path: str, unknown: Unknown, spec: Spec, dtype: torch.dtype) -> ScaledUnknown:
    """Chooses the scale of an unknown from its bounds and the valid range of the quantity."""
    guess = torch.tensor(unknown.guess, dtype=dtype)
    smallest = max((bound for bound in (spec.above, spec.low) if bound is not None), default=-math.inf)
    low = torch.full_like(guess, smallest) if unknown.low is None else torch.tensor(unknown.low, dtype=dtype)
    largest = math.inf if spec.below is None else spec.below
    high = torch.full_like(guess, largest) if unknown.high is None else torch.tensor(unknown.high, dtype=dtype)
    if path.endswith(".rotation"):
        scale = "rotation"
    elif bool((low >= 0).all() and (guess > 0).all()) and (bool((low > 0).all()) or bool(torch.isinf(high).any())):
        scale = "log"
    elif bool(torch.isfinite(low).all() and torch.isfinite(high).all()):
        scale = "logit"
    else:
        scale = "linear"
    return ScaledUnknown(path, spec.unit, tuple(guess.shape), scale, guess, low, high)

"""Unknowns as coordinates an optimizer can move freely.

Positive quantities move on a logarithmic scale, those between two bounds on the scale of the logit, rotations along the
tangents of the start, and the rest as they are. One unit of a coordinate is a natural step: a factor of e, a third of
the way between bounds, a radian, or the size of the guess.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.scene.errors import InvalidInput
from gradsim.scene.quantity import Spec, inner_unknown
from gradsim.scene.scene import Scene
from gradsim.scene.unknown import Unknown

EDGE = 1e-9  # how close to its bounds a bounded quantity may come, as a share of their distance


@dataclass(frozen=True, eq=False)
class Coordinate:
    """One unknown on its scale: `from_value` and `to_value` are inverse to each other, elementwise."""

    path: str
    unit: str
    shape: tuple[int, ...]
    scale: str  # "log", "logit", "linear", "rotation"
    guess: torch.Tensor  # value, [*shape]
    low: torch.Tensor  # bounds of the value, infinite where there are none, [*shape]
    high: torch.Tensor
    natural: float | None = None  # what one unit of a linear coordinate is worth, if not the size of the guess

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return 3 if self.scale == "rotation" else math.prod(self.shape)

    @property
    def step(self) -> torch.Tensor:
        """What one unit of a linear coordinate is worth, [*shape]."""
        if self.natural is not None:
            return torch.full_like(self.guess, self.natural)
        reach = torch.where(torch.isfinite(self.high - self.low), self.high - self.low, 0.0)
        size = torch.maximum(self.guess.abs().max(), 0.25 * reach.max())
        return torch.full_like(self.guess, float(size) if size > 0 else 1.0)

    def to_value(self, z: torch.Tensor) -> torch.Tensor:
        """Coordinates [..., size] to values [..., *shape]."""
        if self.scale == "rotation":
            return _turned(self.guess, z)
        z = z.reshape((*z.shape[:-1], *self.shape))
        if self.scale == "log":
            return torch.exp(z)
        if self.scale == "logit":
            return self.low + (self.high - self.low) * torch.sigmoid(z)
        return z * self.step

    def from_value(self, value: torch.Tensor) -> torch.Tensor:
        """Values [..., *shape] to coordinates [..., size]; rotations are counted from the guess."""
        if self.scale == "rotation":
            return value.new_zeros(*value.shape[:-1], 3)
        if self.scale == "log":
            z = torch.log(value)
        elif self.scale == "logit":
            share = ((value - self.low) / (self.high - self.low)).clamp(EDGE, 1 - EDGE)
            z = torch.logit(share)
        else:
            z = value / self.step
        return z.reshape(*z.shape[: z.ndim - len(self.shape)], self.size)

    def limits(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Bounds of the coordinates, [size] each."""
        infinite = torch.full((self.size,), torch.inf, dtype=self.guess.dtype)
        if self.scale == "rotation":
            return -infinite, infinite
        if self.scale == "logit":
            edge = math.log(1 / EDGE)
            return torch.full_like(infinite, -edge), torch.full_like(infinite, edge)
        low = torch.log(self.low.clamp_min(0.0)) if self.scale == "log" else self.low / self.step
        high = torch.log(self.high) if self.scale == "log" else self.high / self.step
        return low.reshape(-1), high.reshape(-1)

    def draw(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Random coordinates [count, size]: even between the bounds, or a natural step about the guess."""
        low, high = self.limits()
        center = self.from_value(self.guess)
        if self.scale == "logit":  # even in the value itself
            share = torch.rand(count, self.size, generator=generator, dtype=center.dtype)
            return torch.logit(share.clamp(0.02, 0.98))
        even = torch.rand(count, self.size, generator=generator, dtype=center.dtype)
        around = center + 0.5 * torch.randn(count, self.size, generator=generator, dtype=center.dtype)
        bounded = torch.isfinite(low) & torch.isfinite(high)
        between = torch.where(bounded, low, 0.0) + even * torch.where(bounded, high - low, 0.0)
        return torch.where(bounded, between, torch.clamp(around, low, high))

    def spread(self) -> torch.Tensor:
        """Half the width of what is plausible, in coordinates, [size]: of a weak prior about the middle."""
        low, high = self.limits()
        if self.scale == "logit":
            return torch.full_like(low, 3.0)
        half = (high - low) / 2
        return torch.where(torch.isfinite(half), half, 2.0)

    def middle(self) -> torch.Tensor:
        """Middle of what is plausible, [size]."""
        low, high = self.limits()
        if self.scale == "logit":
            return torch.zeros_like(low)
        center = (low + high) / 2
        return torch.where(torch.isfinite(center), center, self.from_value(self.guess))


def _turned(start: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """The quaternion `start` turned by rotation vectors z [..., 3] in the world's axes."""
    half = 0.5 * z
    angle = torch.sqrt((half * half).sum(-1, keepdim=True) + 1e-32)
    vector, scalar = half * (torch.sin(angle) / angle), torch.cos(angle)
    q = start / torch.linalg.vector_norm(start)
    v, w = q[:3].expand_as(vector), q[3]
    turned = scalar * v + w * vector + torch.linalg.cross(vector, v)
    return torch.cat([turned, scalar * w - (vector * v).sum(-1, keepdim=True)], -1)


class Parameters:
    """All unknowns of a scene, one after another."""

    def __init__(
        self,
        scene: Scene,
        others: Mapping[str, Unknown] | None = None,
        dtype: torch.dtype = torch.float64,
        besides: Sequence[Coordinate] = (),
    ):
        """Args:
        scene: With unknowns.
        others: What is unknown besides, by path, in seconds.
        dtype: Of the coordinates.
        besides: What else moves.
        """
        self.scene, self.dtype = scene, dtype
        given = [(path, inner_unknown(value), spec) for path, value, spec in _everything(scene)]
        given += [(path, unknown, Spec("s")) for path, unknown in (others or {}).items()]
        self.coordinates = [_coordinate(path, u, spec, dtype) for path, u, spec in given if u is not None]
        self.coordinates += besides
        if not self.coordinates:
            raise InvalidInput("scene", "no unknowns", "mark what is to be found: mass=gs.unknown(2.0, low=1, high=10)")
        self._number()

    @classmethod
    def shared(cls, scenes: Sequence[Scene], others: Mapping[str, Unknown] | None = None) -> Parameters:
        """Unknowns of several scenes: those with the same path are one, and must be declared alike."""
        whole = cls(scenes[0], others)
        for scene in scenes[1:]:
            for c in cls(scene).coordinates:
                known = next((k for k in whole.coordinates if k.path == c.path), None)
                if known is None:
                    whole.coordinates.append(c)
                elif not torch.equal(known.guess, c.guess) or known.scale != c.scale:
                    raise InvalidInput(
                        c.path, "another guess or bounds", "scenes that share an unknown declare it alike"
                    )
        whole._number()
        return whole

    def _number(self) -> None:
        ends = np.cumsum([0, *(c.size for c in self.coordinates)])
        self.slices = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]

    @property
    def count(self) -> int:
        return self.slices[-1].stop

    @property
    def names(self) -> list[str]:
        """A name for each coordinate: the path, with an index where there are several."""
        found = []
        for c in self.coordinates:
            found += [c.path] if c.size == 1 else [f"{c.path}[{k}]" for k in range(c.size)]
        return found

    def start(self) -> torch.Tensor:
        """Coordinates of the guesses, [P]."""
        return torch.cat([c.from_value(c.guess) for c in self.coordinates])

    def limits(self) -> tuple[torch.Tensor, torch.Tensor]:
        low, high = zip(*(c.limits() for c in self.coordinates), strict=True)
        return torch.cat(low), torch.cat(high)

    def draw(self, count: int, generator: torch.Generator) -> torch.Tensor:
        return torch.cat([c.draw(count, generator) for c in self.coordinates], -1)

    def prior(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Middle and half width of what is plausible, [P] each."""
        return torch.cat([c.middle() for c in self.coordinates]), torch.cat([c.spread() for c in self.coordinates])

    def values(self, z: torch.Tensor) -> dict[str, torch.Tensor]:
        """Values by path, [..., *shape], from coordinates [..., P]."""
        return {c.path: c.to_value(z[..., s]) for c, s in self.pairs()}

    def pairs(self) -> Iterator[tuple[Coordinate, slice]]:
        """Each unknown, and where its coordinates stand."""
        return zip(self.coordinates, self.slices, strict=True)

    def coordinates_of(self, values: dict[str, torch.Tensor]) -> torch.Tensor:
        """Coordinates [..., P] of values."""
        return torch.cat([c.from_value(values[c.path]) for c in self.coordinates], -1)

    def fill(self, z: torch.Tensor) -> Scene:
        """The scene with values for its unknowns; leading dimensions of z are worlds."""
        mine = self.scene.unknowns
        return self.scene.with_values({path: value for path, value in self.values(z).items() if path in mine})


def _everything(scene: Scene) -> list[tuple[str, Any, Spec]]:
    return [*scene.quantities(), *scene.view_quantities()]


def _coordinate(path: str, unknown: Unknown, spec: Spec, dtype: torch.dtype) -> Coordinate:
    guess = torch.tensor(unknown.guess, dtype=dtype)
    floor = max((bound for bound in (spec.above, spec.low) if bound is not None), default=-math.inf)
    low = torch.full_like(guess, floor) if unknown.low is None else torch.tensor(unknown.low, dtype=dtype)
    ceiling = math.inf if spec.below is None else spec.below
    high = torch.full_like(guess, ceiling) if unknown.high is None else torch.tensor(unknown.high, dtype=dtype)
    if path.endswith(".rotation"):
        scale = "rotation"
    elif bool((low >= 0).all() and (guess > 0).all()) and (bool((low > 0).all()) or bool(torch.isinf(high).any())):
        scale = "log"
    elif bool(torch.isfinite(low).all() and torch.isfinite(high).all()):
        scale = "logit"
    else:
        scale = "linear"
    return Coordinate(path, spec.unit, tuple(guess.shape), scale, guess, low, high)

"""Coordinates of an unknown for an optimizer.

Positive quantities use a logarithmic scale, quantities between two bounds a logit scale, rotations a rotation vector
relative to the guess, and all others a linear scale. One coordinate unit is a step of natural size: a factor of e,
about a quarter of the distance between two bounds, a radian, or the magnitude of the guess.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradsim.scene.errors import InvalidInput
from gradsim.scene.priors import LogNormal, Prior, prior_center
from gradsim.scene.quantity import Spec
from gradsim.scene.unknown import Unknown

LOGIT_MARGIN = 1e-9  # smallest distance from the bounds, as a fraction of the distance between them
SAMPLE_MARGIN = 0.02  # the same, for random samples
PRIOR_WIDTH = 2.0  # half width of the plausible range of an unknown with a prior, in standard deviations


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
    prior_mean: Any = None  # mean of the prior in coordinates, [size]; None takes the guess
    prior_sd: Any = None  # its standard deviation in coordinates, [size], infinite without a prior; None is infinite
    varies: bool = False  # whether the values of the trials scatter about a mean
    nuisance: bool = False  # whether no verdict is given about it
    trial: int | None = None  # index of the trial to which the value belongs; None if trials share it
    reaches_low: bool = False  # whether the lower bound is a possible value, such as a friction of zero

    def __post_init__(self) -> None:
        if self.prior_mean is None:
            object.__setattr__(self, "prior_mean", self.from_value(self.guess))
        if self.prior_sd is None:
            object.__setattr__(self, "prior_sd", torch.full_like(self.prior_mean, torch.inf))

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
        """Converts values [..., *shape] to coordinates [..., size]."""
        if self.scale == "rotation":
            return _rotation_vector(self.guess, value)
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

    def interval(self, z: torch.Tensor, margin: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the ends [*shape] of an interval of values about coordinates z [size], with half widths `margin`.

        Errors of a quantity that may be zero, such as a small friction, are those of the value: its lower end is also
        at least as far away as on a linear scale, where that of a logarithmic scale would never reach zero.
        """
        ends = [self.to_value((z + side * margin).clamp(*self.bounds())) for side in (-1, 1)]
        low, high = torch.minimum(*ends), torch.maximum(*ends)
        if self.reaches_low and self.scale in ("log", "logit"):
            value = self.to_value(z)
            share: Any = (self.high - value) / (self.high - self.low) if self.scale == "logit" else 1.0
            half = (value - self.low) * share * margin.reshape(self.shape)
            low = torch.minimum(low, torch.maximum(value - half, self.low))
        return low, high

    def sample(self, count: int, generator: torch.Generator) -> torch.Tensor:
        """Returns random coordinates [count, size] from the prior; without one, uniform between two bounds, otherwise
        normal about the guess.

        Logit coordinates are uniform in the value. The standard deviation about the guess is half a coordinate unit.
        """
        low, high = self.bounds()
        spread = self._sample_without_prior(count, generator)
        known = torch.isfinite(self.prior_sd)
        if not bool(known.any()):
            return spread
        normal = torch.randn(count, self.size, generator=generator, dtype=spread.dtype)
        from_prior = self.prior_mean + torch.where(known, self.prior_sd, 0.0) * normal
        return torch.where(known, torch.clamp(from_prior, low, high), spread)

    def _sample_without_prior(self, count: int, generator: torch.Generator) -> torch.Tensor:
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
        """Center of the plausible range, in coordinates [size]: of the prior, or between the bounds."""
        low, high = self.bounds()
        center = torch.zeros_like(low) if self.scale == "logit" else (low + high) / 2
        center = torch.where(torch.isfinite(center), center, self.from_value(self.guess))
        return torch.where(torch.isfinite(self.prior_sd), self.prior_mean, center)

    def prior_width(self) -> torch.Tensor:
        """Half width of the plausible range, in coordinates [size]: two standard deviations where there is a prior."""
        low, high = self.bounds()
        half = torch.full_like(low, 3.0) if self.scale == "logit" else (high - low) / 2
        half = torch.where(torch.isfinite(half), half, 2.0)
        return torch.where(torch.isfinite(self.prior_sd), PRIOR_WIDTH * self.prior_sd, half)


def scaled_unknown(
    path: str, unknown: Unknown, spec: Spec, dtype: torch.dtype, magnitude: float = 0.0
) -> ScaledUnknown:
    """Chooses the scale of an unknown from its bounds and the valid range of the quantity.

    `magnitude` is that of the other components of the quantity, which gives a component its natural step.
    """
    guess = torch.tensor(unknown.guess, dtype=dtype)
    smallest = max((bound for bound in (spec.above, spec.low) if bound is not None), default=-math.inf)
    low = torch.full_like(guess, smallest) if unknown.low is None else torch.tensor(unknown.low, dtype=dtype)
    largest = min((bound for bound in (spec.below, spec.high) if bound is not None), default=math.inf)
    high = torch.full_like(guess, largest) if unknown.high is None else torch.tensor(unknown.high, dtype=dtype)
    if path.endswith(".rotation"):
        scale = "rotation"
    elif _is_logarithmic(guess, low, high, unknown.prior):
        scale = "log"
    elif bool(torch.isfinite(low).all() and torch.isfinite(high).all()):
        scale = "logit"
    else:
        scale = "linear"
    step = None
    if scale == "linear" and not bool(torch.isfinite(high - low).any()):
        step = _unbounded_step(guess, unknown.prior, magnitude)
    reaches_low = spec.low is not None and bool((low <= spec.low).all())
    flags = {"varies": unknown.varies, "nuisance": unknown.nuisance, "reaches_low": reaches_low}
    scaled = ScaledUnknown(path, spec.unit, tuple(guess.shape), scale, guess, low, high, step, **flags)
    return scaled if unknown.prior is None else _with_prior(scaled, unknown.prior)


def _is_logarithmic(guess: torch.Tensor, low: torch.Tensor, high: torch.Tensor, prior: Prior | None) -> bool:
    """Whether a quantity is positive and has no natural upper end, or has a log-normal prior."""
    if not bool((low >= 0).all() and (guess > 0).all()):
        return False
    return isinstance(prior, LogNormal) or bool((low > 0).all()) or bool(torch.isinf(high).any())


def _unbounded_step(guess: torch.Tensor, prior: Prior | None, magnitude: float) -> float | None:
    """Returns the unit of a linear coordinate without bounds: the size of the quantity, or the deviation of a prior if
    the guess is zero."""
    if prior is not None and not bool((guess != 0).any()):
        return float(prior.sd.max())
    return max(magnitude, float(guess.abs().max())) if magnitude > 0 else None


def _with_prior(unknown: ScaledUnknown, prior: Prior) -> ScaledUnknown:
    """Returns an unknown with its prior in coordinates, linearized at the center of the prior.

    The result is exact for a log-normal prior on a logarithmic scale and a normal prior on a linear scale.
    """
    center = torch.as_tensor(prior_center(prior), dtype=unknown.guess.dtype).expand(unknown.guess.shape)
    sd = torch.as_tensor(prior.sd, dtype=unknown.guess.dtype)
    if unknown.scale == "rotation":
        if sd.ndim or isinstance(prior, LogNormal):
            remedy = "the prior of a rotation is gs.Normal(quaternion, sd) with one angle about each axis [rad]"
            raise InvalidInput(unknown.path, prior, remedy)
        return replace(unknown, prior_mean=unknown.from_value(center), prior_sd=sd.expand(3).clone())
    deviation = sd * center if isinstance(prior, LogNormal) else sd  # of the value
    if unknown.scale == "log":
        deviation = deviation / center
    elif unknown.scale == "logit":
        deviation = deviation * (unknown.high - unknown.low) / ((center - unknown.low) * (unknown.high - center))
    else:
        deviation = deviation / unknown.unit_step
    mean, prior_sd = unknown.from_value(center), deviation.expand(unknown.shape).reshape(-1).clone()
    if not bool((torch.isfinite(mean) & torch.isfinite(prior_sd) & (prior_sd > 0)).all()):
        remedy = "the center of the prior must lie inside the bounds and the valid range, not at an end of them"
        raise InvalidInput(unknown.path, prior, remedy)
    return replace(unknown, prior_mean=mean, prior_sd=prior_sd)


def _rotated(start: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Returns the quaternion `start` rotated by rotation vectors z [..., 3] in world axes."""
    half = 0.5 * z
    angle = torch.sqrt((half * half).sum(-1, keepdim=True) + 1e-32)
    vector, scalar = half * (torch.sin(angle) / angle), torch.cos(angle)
    q = start / torch.linalg.vector_norm(start)
    v, w = q[:3].expand_as(vector), q[3]
    imaginary = scalar * v + w * vector + torch.linalg.cross(vector, v)
    return torch.cat([imaginary, scalar * w - (vector * v).sum(-1, keepdim=True)], -1)


def _rotation_vector(start: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Returns the rotation vectors [..., 3] in world axes that rotate the quaternion `start` to q [..., 4]."""
    q = q / torch.linalg.vector_norm(q, dim=-1, keepdim=True)
    s = start / torch.linalg.vector_norm(start)
    v, w = q[..., :3], q[..., 3:]
    imaginary = s[3] * v - w * s[:3] - torch.linalg.cross(v, s[:3].expand_as(v))
    scalar = w * s[3] + (v * s[:3]).sum(-1, keepdim=True)
    sign = torch.where(scalar < 0, -1.0, 1.0)  # q and -q are the same rotation
    length = torch.sqrt((imaginary * imaginary).sum(-1, keepdim=True) + 1e-32)
    return imaginary * (sign * 2 * torch.atan2(length, scalar.abs()) / length)

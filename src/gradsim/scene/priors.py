"""Prior distributions of unknowns: what is known about a value before the video is seen, such as a ruler's reading."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from gradsim.scene.errors import OutOfRange, WrongShape, WrongType
from gradsim.scene.spelling import abbreviate


@dataclass(frozen=True, eq=False)
class Normal:
    """A normal distribution, written `prior=gs.Normal(mean, sd)`.

    Example:
        `gs.unknown(45.0, prior=gs.Normal(45.0, 0.5))`

    Args:
        mean: Number, or array of the quantity's shape, in the unit of the quantity.
        sd: Standard deviation > 0, in the same unit; for a rotation the angle about each axis [rad].
    """

    mean: Any
    sd: Any

    def __post_init__(self) -> None:
        _validate(self)

    def __repr__(self) -> str:
        return _text(self)


@dataclass(frozen=True, eq=False)
class LogNormal:
    """A normal distribution of the logarithm, for a positive quantity that is known up to a factor.

    Example:
        `gs.unknown(2.0, prior=gs.LogNormal(2.0, 0.1))`

    Args:
        median: Number > 0, or array of the quantity's shape, in the unit of the quantity.
        sd: Standard deviation > 0 of the natural logarithm: 0.1 is about 10 %, 0.7 a factor of two.
    """

    median: Any
    sd: Any

    def __post_init__(self) -> None:
        _validate(self)
        if not (self.median > 0).all():
            raise OutOfRange("LogNormal.median", _short(self.median), "must be > 0; use gs.Normal for other quantities")

    def __repr__(self) -> str:
        return _text(self)


Prior: TypeAlias = "Normal | LogNormal"


def prior_center(prior: Prior) -> np.ndarray:
    """Returns the mean of a normal distribution or the median of a log-normal one."""
    center: np.ndarray = prior.mean if isinstance(prior, Normal) else prior.median
    return center


def check_prior(prior: Any, shape: tuple[int, ...]) -> None:
    """Raises WrongType or WrongShape unless `prior` is a prior for values of `shape`."""
    if not isinstance(prior, (Normal, LogNormal)):
        raise WrongType("unknown.prior", abbreviate(prior), "must be gs.Normal(mean, sd) or gs.LogNormal(median, sd)")
    for field in fields(prior):
        given = getattr(prior, field.name).shape
        if given not in ((), shape):
            remedy = f"must be one number, or have the shape of the guess, {shape}"
            raise WrongShape(f"unknown.prior.{field.name}", f"shape {given}", remedy)


def equal_priors(prior: Prior | None, other: Prior | None) -> bool:
    """Returns whether two priors have the same type and the same numbers."""
    if prior is None or other is None:
        return prior is other
    names = [field.name for field in fields(prior)]
    return type(prior) is type(other) and all(
        np.array_equal(getattr(prior, name), getattr(other, name)) for name in names
    )


def _validate(prior: Any) -> None:
    """Stores the numbers of a prior as float64 arrays."""
    for field in fields(prior):
        name, given = f"{type(prior).__name__}.{field.name}", getattr(prior, field.name)
        try:
            array = np.array(given, dtype=np.float64)
        except (TypeError, ValueError, RuntimeError):
            raise WrongType(name, abbreviate(given), "must be a number or an array of numbers") from None
        if not np.isfinite(array).all():
            raise OutOfRange(name, _short(array), "must be finite")
        object.__setattr__(prior, field.name, array)
    if not (prior.sd > 0).all():
        name = f"{type(prior).__name__}.sd"
        raise OutOfRange(name, _short(prior.sd), "must be > 0; give a known quantity its value instead of an unknown")


def _short(array: np.ndarray) -> str:
    return f"{float(array):g}" if array.ndim == 0 else f"array of shape {array.shape}"


def _text(prior: Any) -> str:
    values = ", ".join(_short(getattr(prior, field.name)) for field in fields(prior))
    return f"{type(prior).__name__}({values})"

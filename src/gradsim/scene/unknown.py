"""Unknown quantities: an initial guess and bounds in place of a value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.memory import check_memory
from gradsim.scene.priors import Prior, check_prior, equal_priors, prior_center
from gradsim.scene.spelling import abbreviate

BYTES_FACTOR = 4  # arrays of an unknown: guess, bounds, coordinates
FLAGS = ("per_trial", "varies", "nuisance")  # options that are true or false


@dataclass(frozen=True, eq=False)
class Unknown:
    """A quantity to be estimated, written `gs.unknown(guess, low=..., high=...)`.

    One object used in several places is one unknown.
    """

    guess: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    prior: Prior | None = None
    per_trial: bool = False
    varies: bool = False
    nuisance: bool = False

    def __repr__(self) -> str:
        options = "".join(f", {name}={_short(value)}" for name, value in self.bounds.items())
        options += f", prior={self.prior}" if self.prior is not None else ""
        options += "".join(f", {name}=True" for name in FLAGS if getattr(self, name))
        return f"unknown({_short(self.guess)}{options})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.guess.shape

    @property
    def ndim(self) -> int:
        return self.guess.ndim

    @property
    def bounds(self) -> dict[str, np.ndarray]:
        """The bounds that are given, by name: `low`, `high`."""
        return {name: value for name in ("low", "high") if (value := getattr(self, name)) is not None}


def equal_declarations(unknown: Unknown, other: Unknown) -> bool:
    """Returns whether two unknowns have the same guess, bounds, prior and options."""
    arrays = (np.array_equal(getattr(unknown, name), getattr(other, name)) for name in ("guess", "low", "high"))
    options = (getattr(unknown, name) == getattr(other, name) for name in FLAGS)
    return all(arrays) and all(options) and equal_priors(unknown.prior, other.prior)


def _short(value: np.ndarray) -> str:
    return f"{float(value):g}" if value.ndim == 0 else f"array of shape {value.shape}"


def unknown(
    guess: Any,
    low: Any = None,
    high: Any = None,
    shape: tuple[int, ...] | None = None,
    *,
    prior: Prior | None = None,
    per_trial: bool = False,
    varies: bool = False,
    nuisance: bool = False,
) -> Unknown:
    """Declares a quantity to be estimated, in place of a number or vector of a scene.

    Positive quantities are optimized on a logarithmic scale, bounded ones between their bounds, rotations on the sphere
    of unit quaternions. Initial guesses for restarts are sampled from the prior, or between the bounds.

    One object used in several places, also in the scenes of several trials, is one unknown. Trials share the unknowns
    that have the same path.

    Example:
        `gs.unknown(1.5, low=0.0, high=3.0)`

    Args:
        guess: Initial guess, a number or an array of the quantity's shape.
        low, high: Bounds, numbers or arrays; None leaves the valid range of the quantity.
        shape: Shape of an unknown with many values and the same guess for all, as in
            `mass=gs.per_element(gs.unknown(0.1, low=0.01, high=1.0, shape=(node_count,)))`.
        prior: What is known beforehand, `gs.Normal(mean, sd)` or `gs.LogNormal(median, sd)`.
        per_trial: Whether each trial has a value of its own, as for the initial position of a toss.
        varies: Whether the values of the trials scatter about a mean; mean and scatter are estimated.
        nuisance: Whether the value is of no interest itself, as the tilt of a camera that was levelled by eye. It needs
            a prior. It is estimated and widens the intervals of the others; no verdict is given about it.
    """
    arrays = {name: _array(name, value) for name, value in (("guess", guess), ("low", low), ("high", high))}
    start = arrays["guess"]
    if start is None:
        raise WrongType("unknown.guess", None, "must be a number or an array to start from")
    if shape is not None:
        shape = _checked_shape(shape)
        check_memory("unknown.shape", shape, 8.0 * BYTES_FACTOR * math.prod(map(float, shape)), "give fewer values")
        try:
            start = np.broadcast_to(start, shape).copy()
        except ValueError:
            raise WrongShape("unknown.guess", f"shape {start.shape}", f"does not fit shape={shape}") from None
    for name in ("low", "high"):
        bound = arrays[name]
        if bound is None:
            continue
        try:
            arrays[name] = np.broadcast_to(bound, start.shape).copy()
        except ValueError:
            raise WrongShape(
                f"unknown.{name}", f"shape {bound.shape}", f"must fit the shape of the guess, {start.shape}"
            ) from None
    low_, high_ = arrays["low"], arrays["high"]
    if low_ is not None and high_ is not None and not np.all(low_ < high_):
        raise OutOfRange("unknown.low", f"{low_.min():g}", f"must lie below high = {high_.max():g}")
    if (low_ is not None and np.any(start < low_)) or (high_ is not None and np.any(start > high_)):
        raise OutOfRange("unknown.guess", _short(start), "must lie between low and high")
    if per_trial and varies:
        raise InvalidInput("unknown.per_trial", "True, with varies=True", "give one of the two: varies is per trial")
    if prior is not None:
        check_prior(prior, start.shape)
        center = prior_center(prior)
        if (low_ is not None and np.any(center < low_)) or (high_ is not None and np.any(center > high_)):
            raise OutOfRange("unknown.prior", prior, "its center must lie between low and high")
    if nuisance and (prior is None or start.ndim):
        raise InvalidInput(
            "unknown.nuisance", True, "a nuisance is a single number and needs prior=gs.Normal(mean, sd)"
        )
    return Unknown(start, low_, high_, prior, bool(per_trial), bool(varies), bool(nuisance))


def _checked_shape(shape: Any) -> tuple[int, ...]:
    whole = isinstance(shape, (tuple, list)) and all(isinstance(n, int) and not isinstance(n, bool) for n in shape)
    if not whole or any(n < 1 for n in shape):
        raise WrongType("unknown.shape", abbreviate(shape), "must be whole numbers >= 1, such as (3,) or (10, 3)")
    return tuple(shape)


def _array(name: str, value: Any) -> np.ndarray | None:
    if value is None:
        return None
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        raise WrongType(f"unknown.{name}", abbreviate(value), "must be a number or an array of numbers") from None
    if not np.isfinite(array).all():
        raise OutOfRange(f"unknown.{name}", _short(array), "must be finite")
    return array

"""Validation of quantities against their specifications, and checks that several scene objects share."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np
import torch

from gradsim.scene.components import Components, as_components, index_text, joined
from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, WrongShape, WrongType
from gradsim.scene.limits import LARGEST, SMALLEST
from gradsim.scene.priors import LogNormal, prior_center
from gradsim.scene.quantity import (
    PerElement,
    Signal,
    Spec,
    has_values,
    is_per_element,
    quantities_of,
    sample_count,
    to_numpy,
    unwrap,
)
from gradsim.scene.spelling import abbreviate
from gradsim.scene.transforms import outside_transforms
from gradsim.scene.unknown import Unknown

FEW_NUMBERS = 16  # of a quantity that is checked number by number


def validate_quantities(scene_object: Any, label: str) -> None:
    """Validates every quantity of a frozen scene object and stores numbers and lists as float64 arrays."""
    values = vars(scene_object)  # scenes are created again in every call: faster than object.__setattr__
    cls: Any = type(scene_object)
    for name, spec, default, array in _with_defaults(cls):
        value = values[name]
        if value is None and spec.optional:
            continue
        if value is default and array is not None:
            values[name] = array.copy()
        else:
            values[name] = _validated(f"{label}.{name}", value, spec)


@functools.cache  # one entry per class
def _with_defaults(cls: Any) -> tuple[tuple[str, Spec, Any, np.ndarray | None], ...]:
    """Returns name, specification and default of every quantity, and a default of plain numbers as a valid array."""
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    return tuple((name, spec, defaults[name], _plain_array(defaults[name], spec)) for name, spec in quantities_of(cls))


def _plain_array(value: Any, spec: Spec) -> np.ndarray | None:
    """Returns a valid number, or a list of as many as a value has, as an array; None for anything else.

    This is the usual case, in a fraction of the time of the others.
    """
    kind = type(value)
    if kind is float or kind is int:
        is_valid = not spec.shape and spec.smallest <= value <= spec.largest
    elif (kind is tuple or kind is list) and spec.shape == (len(value),):
        is_valid = all(type(part) in (float, int) and spec.smallest <= part <= spec.largest for part in value)
    else:
        is_valid = False
    return np.array(value, dtype=np.float64) if is_valid else None


def _validated(name: str, value: Any, spec: Spec) -> Any:
    """Returns a valid quantity, with its wrappers."""
    plain = _plain_array(value, spec)
    if plain is not None:
        return plain
    if isinstance(value, torch.Tensor):
        return _validated_whole(name, value, spec)
    if value is None:
        if spec.optional:
            return None
        raise WrongType(name, value, f"must be a number or tensor [{spec.unit}]")
    if isinstance(value, Signal):
        return _validated_signal(name, value, spec)
    if isinstance(value, PerElement):
        if isinstance(value.values, Signal):
            raise WrongType(name, "per_element(Signal(...))", "write it the other way round: Signal(per_element(...))")
        if spec.per is None:
            raise WrongType(name, "per_element(...)", "is one value for the whole body; give a number or tensor")
        return PerElement(validated_array(name, value.values, spec))
    components = as_components(name, value)
    if components is not None:
        if components.shape != spec.shape:
            expected = f"{_expected(spec)}; batches of worlds and unknowns do not mix in one list"
            raise WrongShape(name, f"a list of shape {components.shape}", expected)
        return _validated_components(name, components, spec)
    if isinstance(value, Unknown) and value.shape != spec.shape:
        expected = f"a guess of shape {spec.shape}" if spec.shape else "one number as a guess"
        alternative = f", or gs.per_element(gs.unknown(...)) for one per {spec.per}" if spec.per else ""
        raise WrongShape(name, value, f"needs {expected}{alternative}")
    return _validated_whole(name, value, spec)


def _validated_signal(name: str, value: Signal, spec: Spec) -> Signal:
    if not spec.signal:
        raise WrongType(name, "Signal", "cannot vary in time; give a number or tensor")
    sample_spec = dataclasses.replace(spec, signal=False, optional=False)
    validate = _validated if isinstance(value.values, (PerElement, Signal)) else validated_array  # leading samples
    signal = Signal(validate(name, value.values, sample_spec))
    samples = sample_count(signal, spec.shape)
    if samples < 2:
        raise WrongShape(name, f"Signal with {samples} sample(s)", "a signal needs at least two samples in time")
    return signal


def validated_array(name: str, value: Any, spec: Spec) -> Any:
    """Returns a valid tensor or unknown as it is, and other numbers as a float64 array.

    Lists with unknowns or tensors become `Components`, or a tensor if all components are known.
    """
    plain = _plain_array(value, spec)
    if plain is not None:
        return plain
    components = as_components(name, value)
    if components is not None:
        return _validated_components(name, components, spec)
    return _validated_whole(name, value, spec)


def _validated_whole(name: str, value: Any, spec: Spec) -> Any:
    """Returns a valid tensor, unknown or array; numbers and lists of numbers become float64 arrays."""
    if isinstance(value, Unknown):
        _check_array(f"{name}'s guess", value.guess, spec)
        # A bound may equal an exclusive limit of the quantity, such as 0 for a mass.
        limit = spec.low if spec.above is None else spec.above
        below = None if spec.below is None else float(np.nextafter(spec.below, np.inf))
        for end, bound in value.bounds.items():
            _check_array(f"{name}'s {end}", bound, dataclasses.replace(spec, above=None, low=limit, below=below))
        _check_prior(name, value, spec)
        return value
    if isinstance(value, torch.Tensor):
        readable = has_values(value)
        if not readable:
            value = outside_transforms(value)
            readable = has_values(value)
        if not value.is_floating_point() or value.layout is not torch.strided:
            found = value.dtype if value.layout is torch.strided else value.layout
            raise WrongType(name, f"tensor of {found}", "must be a dense floating-point tensor")
        array: Any = value.detach()
        if readable and not (value.ndim or spec.shape) and spec.smallest <= array.item() <= spec.largest:
            return value
    elif isinstance(value, (str, bytes, bool)):
        raise WrongType(name, repr(value), _expected(spec))
    else:
        try:
            value = array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise WrongType(name, abbreviate(value), _expected(spec)) from None
    _check_array(name, array, spec)
    return value


def _validated_components(name: str, components: Components, spec: Spec) -> Any:
    """Returns valid components; joined if all are known."""
    trailing = components.shape[components.ndim - len(spec.shape) :]
    if trailing != spec.shape:
        raise WrongShape(name, f"a list of shape {components.shape}", _expected(spec))
    single = dataclasses.replace(spec, shape=())

    def validated(index: tuple[int, ...], value: Any) -> Any:
        path = name + index_text(index)
        if isinstance(value, Unknown) and value.shape:
            raise WrongShape(path, value, "a component is one number: give one number as a guess")
        return validated_array(path, value, single)

    valid = components.map(validated)
    known = not any(isinstance(value, Unknown) for _, value in valid.items())
    return joined(name, valid) if known else valid


def _check_prior(name: str, value: Unknown, spec: Spec) -> None:
    """Raises OutOfRange unless the prior of an unknown fits the valid range of the quantity."""
    if value.prior is None:
        return
    _check_range(f"{name}'s prior", prior_center(value.prior), spec)
    limits = [limit for limit in (spec.above, spec.low) if limit is not None]
    limits += [] if value.low is None else [float(value.low.min())]
    if isinstance(value.prior, LogNormal) and max(limits, default=-np.inf) < 0.0:
        remedy = "is only for quantities that cannot be negative: use gs.Normal, or give low=0"
        raise OutOfRange(f"{name}'s prior", value.prior, remedy)


def _expected(spec: Spec) -> str:
    shape = "a number" if not spec.shape else " x ".join(map(str, spec.shape)) + " numbers"
    return f"must be {shape} [{spec.unit}], or a tensor of them"


def _check_array(name: str, array: Any, spec: Spec) -> None:
    """Raises WrongShape, NotFinite or OutOfRange unless an array conforms to its specification."""
    trailing = tuple(array.shape[array.ndim - len(spec.shape) :])
    if trailing != spec.shape:
        expected = ", ".join(map(str, spec.shape))
        raise WrongShape(name, f"shape {tuple(array.shape)}", f"must have trailing shape ({expected}), batch first")
    _check_range(name, array, spec)


def _check_range(name: str, array: Any, spec: Spec) -> None:
    if isinstance(array, torch.Tensor) and not has_values(array):
        return
    if 0 in array.shape:
        return
    smallest, largest = _extremes(array)
    if not -math.inf < smallest <= largest < math.inf:
        finite = torch.isfinite(array) if isinstance(array, torch.Tensor) else np.isfinite(array)
        count = int((~finite).sum())
        raise NotFinite(name, _summary(array), f"{count} of its values are NaN or infinite; all must be finite")
    if max(largest, -smallest) > LARGEST:
        worst = largest if largest > -smallest else smallest
        raise OutOfRange(name, _summary(array, worst), f"must be at most {LARGEST:g} in magnitude [{spec.unit}]")
    if spec.above == 0.0 and 0.0 < smallest < SMALLEST:
        raise OutOfRange(name, _summary(array, smallest), f"must be >= {SMALLEST:g} [{spec.unit}]")
    if spec.above is not None and smallest <= spec.above:
        raise OutOfRange(name, _summary(array, smallest), f"must be > {spec.above:g} [{spec.unit}]")
    if spec.low is not None and smallest < spec.low:
        raise OutOfRange(name, _summary(array, smallest), f"must be >= {spec.low:g} [{spec.unit}]")
    if spec.below is not None and largest >= spec.below:
        raise OutOfRange(name, _summary(array, largest), f"must be < {spec.below:g} [{spec.unit}]")
    if spec.high is not None and largest > spec.high:
        raise OutOfRange(name, _summary(array, largest), f"must be <= {spec.high:g} [{spec.unit}]")


def _extremes(array: Any) -> tuple[float, float]:
    """Returns the smallest and the largest value of an array; NaN if it contains one.

    Most quantities are one or three numbers, for which an array operation takes longer than a loop.
    """
    if math.prod(array.shape) > FEW_NUMBERS:
        smallest, largest = array.aminmax() if isinstance(array, torch.Tensor) else (array.min(), array.max())
        return float(smallest), float(largest)
    values = array.reshape(-1).tolist()
    return (math.nan, math.nan) if any(map(math.isnan, values)) else (min(values), max(values))


def _summary(array: Any, worst: float | None = None) -> str:
    if array.ndim == 0:
        return f"{float(array):g}"
    return f"array of shape {tuple(array.shape)}" + ("" if worst is None else f" reaching {worst:g}")


def check_element_count(name: str, value: Any, spec: Spec, count: int) -> None:
    """Raises WrongShape if a quantity per element does not have `count` values."""
    if not is_per_element(value):
        return
    array = unwrap(value)
    axis = array.ndim - len(spec.shape) - 1
    given = array.shape[axis] if axis >= 0 else None
    if given != count:
        plural = "vertices" if spec.per == "vertex" else f"{spec.per}s"
        raise WrongShape(
            name,
            f"per_element(...) of shape {tuple(array.shape)}",
            f"its body has {count} {plural}; give [..., {count}]",
        )


def check_exactly_one(label: str, scene_object: Any, *names: str) -> None:
    """Raises InvalidInput unless exactly one of several alternative fields is given."""
    given = [name for name in names if getattr(scene_object, name) is not None]
    if len(given) != 1:
        text = " and ".join(given) if given else "neither" if len(names) == 2 else "none"
        choice = f"{', '.join(names[:-1])} and {names[-1]}"
        raise InvalidInput(f"{label}.{'/'.join(names)}", text, f"give exactly one of {choice}")


def check_positive_length(name: str, value: Any) -> None:
    """Raises WrongType or OutOfRange unless a value is a finite number > 0 [m]."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongType(name, repr(value), "must be a number [m]")
    if not SMALLEST <= value <= LARGEST:
        raise OutOfRange(name, value, f"must be > 0 and from {SMALLEST:g} to {LARGEST:g} [m]")


def has_zero_vector(value: Any) -> bool:
    """Returns whether a vector quantity is zero, in one of its worlds or samples; False if it holds no values."""
    array = to_numpy(value)
    if array is None or not array.size:
        return False
    if array.ndim == 1:
        return sum(part * part for part in array.tolist()) <= 0.0
    return bool((array * array).sum(-1).min() <= 0.0)

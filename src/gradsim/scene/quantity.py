"""Physical quantities: a number, a tensor, one value for each node or element, or a signal over time.

A noun declares its quantities as dataclass fields made by `quantity`, which carry unit, shape and valid range once, for
validation, messages and documentation alike.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, WrongShape, WrongType
from gradsim.scene.unknown import Unknown

Plain: TypeAlias = "float | Sequence[Any] | np.ndarray | torch.Tensor"


@dataclass(frozen=True, eq=False)
class PerElement:
    """One value for each node or element a quantity lives on: trailing dimensions count them.

    Written `gs.per_element(values)`. Without it, leading dimensions of a tensor are a batch of worlds.
    """

    values: Any  # [..., count] or [..., count, 3]

    def __repr__(self) -> str:
        return f"per_element(array of shape {tuple(np.shape(self.values))})"


def per_element(values: Plain) -> PerElement:
    """One value for each node or element, such as `mu=gs.per_element(torch.rand(tet_count))`.

    Args:
        values: Tensor or array [..., count], for vectors [..., count, 3]; leading dimensions are a batch.
    """
    return PerElement(values)


@dataclass(frozen=True, eq=False)
class Signal:
    """A quantity that changes in time: samples spread evenly over the rollout, linear between.

    The first sample is the value at t = 0, the last that at the final frame.

    Args:
        values: Samples [..., K]; for one signal an element `gs.per_element(values)` with [..., K, count] (or
            [..., K, count, 3] for vectors). K >= 2; leading dimensions are a batch.
    """

    values: Any


Quantity: TypeAlias = "Plain | PerElement | Signal | Unknown"


@dataclass(frozen=True)
class Spec:
    """What a quantity must be: SI unit, shape of one value, valid range."""

    unit: str
    shape: tuple[int, ...] = ()
    above: float | None = None  # exclusive
    low: float | None = None  # inclusive
    below: float | None = None  # exclusive
    per: str | None = None  # what `each` counts: "node", "tet", ...
    signal: bool = False
    optional: bool = False


def quantity(default: Any, unit: str, **spec: Any) -> Any:
    """A dataclass field that holds a physical quantity; see `Spec`."""
    optional = default is None
    return dataclasses.field(default=default, metadata={"spec": Spec(unit=unit, optional=optional, **spec)})


def quantities(noun: Any) -> tuple[tuple[str, Spec], ...]:
    """Names and specifications of a noun's quantities."""
    kind: Any = type(noun)
    return _quantities(kind)


@functools.cache
def _quantities(kind: type) -> tuple[tuple[str, Spec], ...]:
    fields = dataclasses.fields(kind)
    return tuple((field.name, field.metadata["spec"]) for field in fields if "spec" in field.metadata)


def validate_quantities(noun: Any, label: str) -> None:
    """Check every quantity of a frozen noun and store plain values as float64 arrays."""
    for name, spec in quantities(noun):
        object.__setattr__(noun, name, validated(f"{label}.{name}", getattr(noun, name), spec))


def validated(name: str, value: Any, spec: Spec) -> Any:
    if value is None:
        if spec.optional:
            return None
        raise WrongType(name, value, f"must be a number or tensor [{spec.unit}]")
    if isinstance(value, Signal):
        if not spec.signal:
            raise WrongType(name, "Signal", "does not change in time; give a number or tensor")
        inner = Spec(spec.unit, spec.shape, spec.above, spec.low, spec.below, spec.per)
        checked = Signal(validated(name, value.values, inner))
        samples = sample_count(checked, spec.shape)
        if samples < 2:
            raise WrongShape(name, f"Signal with {samples} sample(s)", "a signal needs at least two samples in time")
        return checked
    if isinstance(value, PerElement):
        if isinstance(value.values, Signal):
            raise WrongType(name, "per_element(Signal(...))", "write it the other way round: Signal(per_element(...))")
        if spec.per is None:
            raise WrongType(name, "per_element(...)", "is one value for the whole body; give a number or tensor")
        return PerElement(validated_array(name, value.values, spec))
    if isinstance(value, Unknown) and value.shape != spec.shape:
        wanted = f"a guess of shape {spec.shape}" if spec.shape else "one number as a guess"
        many = f", or gs.per_element(gs.unknown(...)) for one a {spec.per}" if spec.per else ""
        raise WrongShape(name, value, f"needs {wanted}{many}")
    return validated_array(name, value, spec)


def validated_array(name: str, value: Any, spec: Spec) -> Any:
    if isinstance(value, Unknown):
        _check_array(f"{name}'s guess", value.guess, spec)
        floor = spec.low if spec.above is None else spec.above
        for end, bound in value.bounds.items():  # which may stand where the quantity itself may not
            _check_array(f"{name}'s {end}", bound, dataclasses.replace(spec, above=None, low=floor, below=None))
        return value
    if isinstance(value, torch.Tensor):
        if not value.is_floating_point():
            raise WrongType(name, f"tensor of {value.dtype}", "must be a floating-point tensor")
        array: Any = value.detach()
    elif isinstance(value, (str, bytes, bool)):
        raise WrongType(name, repr(value), _kind(spec))
    else:
        try:
            value = array = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise WrongType(name, repr(value)[:80], _kind(spec)) from None
    _check_array(name, array, spec)
    return value


def _kind(spec: Spec) -> str:
    shape = "a number" if not spec.shape else " x ".join(map(str, spec.shape)) + " numbers"
    return f"must be {shape} [{spec.unit}], or a tensor of them"


def _check_array(name: str, array: Any, spec: Spec) -> None:
    tail = tuple(array.shape[array.ndim - len(spec.shape) :])
    if tail != spec.shape:
        wanted = ", ".join(map(str, spec.shape))
        raise WrongShape(name, f"shape {tuple(array.shape)}", f"must have trailing shape ({wanted}), batch first")
    _check_range(name, array, spec)


def _check_range(name: str, array: Any, spec: Spec) -> None:
    if isinstance(array, torch.Tensor) and array.is_meta:
        return  # a tensor without values
    finite = torch.isfinite(array) if isinstance(array, torch.Tensor) else np.isfinite(array)
    if not bool(finite.all()):
        bad = int((~finite).sum())
        raise NotFinite(name, _short(array), f"{bad} of its values are NaN or infinite; all must be finite")
    if 0 in array.shape:
        return
    least, most = float(array.min()), float(array.max())
    if spec.above is not None and least <= spec.above:
        raise OutOfRange(name, _short(array, least), f"must be > {spec.above:g} [{spec.unit}]")
    if spec.low is not None and least < spec.low:
        raise OutOfRange(name, _short(array, least), f"must be >= {spec.low:g} [{spec.unit}]")
    if spec.below is not None and most >= spec.below:
        raise OutOfRange(name, _short(array, most), f"must be < {spec.below:g} [{spec.unit}]")


def _short(array: Any, worst: float | None = None) -> str:
    if array.ndim == 0:
        return f"{float(array):g}"
    return f"array of shape {tuple(array.shape)}" + ("" if worst is None else f" reaching {worst:g}")


def unwrap(value: Any) -> Any:
    """The array or tensor inside `PerElement` and `Signal`; of an unknown its guess."""
    while isinstance(value, (PerElement, Signal)):
        value = value.values
    return value.guess if isinstance(value, Unknown) else value


def inner_unknown(value: Any) -> Unknown | None:
    """The unknown a quantity is, or holds inside `PerElement` and `Signal`."""
    while isinstance(value, (PerElement, Signal)):
        value = value.values
    return value if isinstance(value, Unknown) else None


def check_known(path: str, value: Any) -> None:
    """Raise where a quantity is still to be found."""
    if inner_unknown(value) is not None:
        remedy = "is unknown: give it a value with scene.with_values({...}), or find it with gs.estimate(scene, video)"
        raise InvalidInput(path, inner_unknown(value), remedy)


def filled(value: Any, found: Any) -> Any:
    """A quantity with `found` in place of what is inside its `PerElement` and `Signal`, unless it brings its own."""
    if isinstance(value, (PerElement, Signal)) and not isinstance(found, (PerElement, Signal)):
        return type(value)(filled(value.values, found))
    return found


def to_numpy(value: Any) -> np.ndarray | None:
    """A quantity's values for looking at, without gradient; None for None and for tensors that have no values."""
    array = unwrap(value)
    if isinstance(array, torch.Tensor):
        return None if array.is_meta else array.detach().cpu().numpy()
    return array


def is_per_element(value: Any) -> bool:
    return isinstance(value, PerElement) or (isinstance(value, Signal) and isinstance(value.values, PerElement))


def sample_count(value: Any, shape: tuple[int, ...] = ()) -> int:
    """Samples in time of a quantity whose single value has `shape`; 1 for a constant one."""
    if not isinstance(value, Signal):
        return 1
    array = unwrap(value)
    trailing = len(shape) + (1 if is_per_element(value) else 0)
    if array.ndim <= trailing:
        return 0
    return int(array.shape[array.ndim - trailing - 1])


def batch_shape(value: Any, shape: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Leading batch dimensions of a quantity whose single value has `shape`."""
    array = unwrap(value)
    trailing = len(shape) + int(is_per_element(value)) + int(isinstance(value, Signal))
    return tuple(array.shape[: array.ndim - trailing])


def check_counts(name: str, value: Any, spec: Spec, count: int) -> None:
    """Raise unless an `each` has as many values as there are things to count."""
    if not is_per_element(value):
        return
    array = unwrap(value)
    position = array.ndim - len(spec.shape) - 1
    got = array.shape[position] if position >= 0 else None
    if got != count:
        plural = "vertices" if spec.per == "vertex" else f"{spec.per}s"
        raise WrongShape(
            name,
            f"per_element(...) of shape {tuple(array.shape)}",
            f"its body has {count} {plural}; give [..., {count}]",
        )


def exactly_one(label: str, noun: Any, *names: str) -> None:
    """Raise unless exactly one of the alternative fields is given."""
    given = [name for name in names if getattr(noun, name) is not None]
    if len(given) != 1:
        text = " and ".join(given) if given else "neither"
        raise InvalidInput(f"{label}.{'/'.join(names)}", text, f"give exactly one of {' and '.join(names)}")

"""Physical quantities: a number, a tensor, one value per node or element, a signal in time, or an unknown.

A scene object declares its quantities as dataclass fields created by `quantity`. The field holds unit, shape and valid
range in one place; validation, error messages and the schema of scene files read them from there.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from gradsim.scene.components import Components, index_text
from gradsim.scene.errors import InvalidInput
from gradsim.scene.limits import LARGEST, SMALLEST
from gradsim.scene.transforms import is_transformed
from gradsim.scene.unknown import Unknown

TensorLike: TypeAlias = "float | Sequence[Any] | np.ndarray | torch.Tensor"


@dataclass(frozen=True, eq=False)
class PerElement:
    """One value per node or element of a body; a trailing dimension counts the elements.

    Written `gs.per_element(values)`. Without it, leading dimensions of a tensor are a batch of worlds.
    """

    values: Any  # [..., count] or [..., count, 3]

    def __repr__(self) -> str:
        return f"per_element(array of shape {tuple(np.shape(self.values))})"


def per_element(values: TensorLike) -> PerElement:
    """Assigns one value to each node or element, as in `mu=gs.per_element(torch.rand(tet_count))`.

    Example:
        `gs.NeoHookean(mu=gs.per_element(torch.full((30,), 1e4)), lam=1e4)`

    Args:
        values: Tensor or array [..., count], for vectors [..., count, 3]; leading dimensions are a batch of worlds.
    """
    return PerElement(values)


@dataclass(frozen=True, eq=False)
class Signal:
    """A quantity that varies in time: samples at equal intervals over the rollout, linearly interpolated.

    The first sample is the value at t = 0, the last one the value at the final frame.

    Example:
        `gs.Revolute(torque=gs.Signal(np.sin(np.linspace(0.0, 9.0, 61))))`

    Args:
        values: Samples [..., K]; `gs.per_element(values)` with [..., K, count], or [..., K, count, 3] for vectors, for
            one signal per element. K >= 2; leading dimensions are a batch of worlds.
    """

    values: Any


Quantity: TypeAlias = "TensorLike | PerElement | Signal | Unknown | Components"


@dataclass(frozen=True)
class Spec:
    """Specification of a quantity: SI unit, shape of one value, valid range."""

    unit: str
    shape: tuple[int, ...] = ()
    above: float | None = None  # exclusive lower limit
    low: float | None = None  # inclusive lower limit
    below: float | None = None  # exclusive upper limit
    high: float | None = None  # inclusive upper limit
    per: str | None = None  # element that `per_element` counts: "node", "tet", ...; None if it is not allowed
    signal: bool = False  # whether a Signal is allowed
    optional: bool = False  # whether None is allowed

    @functools.cached_property
    def smallest(self) -> float:
        """The smallest valid number."""
        above = SMALLEST if self.above == 0.0 else None
        if self.above is not None and above is None:
            above = math.nextafter(self.above, math.inf)
        return max(limit for limit in (-LARGEST, above, self.low) if limit is not None)

    @functools.cached_property
    def largest(self) -> float:
        """The largest valid number."""
        below = None if self.below is None else math.nextafter(self.below, -math.inf)
        return min(limit for limit in (LARGEST, below, self.high) if limit is not None)

    def narrowed(self, other: Spec) -> Spec:
        """Returns this specification with the valid range of both."""

        def limit(name: str, choose: Callable[..., float]) -> float | None:
            return choose((x for s in (self, other) if (x := getattr(s, name)) is not None), default=None)

        narrow = {name: limit(name, max) for name in ("above", "low")}
        narrow |= {name: limit(name, min) for name in ("below", "high")}
        changes: Any = narrow
        return dataclasses.replace(self, **changes)


def quantity(default: Any, unit: str, *, implied: float | None = None, kw_only: bool = False, **spec: Any) -> Any:
    """Returns a dataclass field for a physical quantity.

    Example:
        `strength: gs.Quantity = gs.quantity(1.0, "N", low=0.0, signal=True)`

    Args:
        default: Value if none is given.
        unit: SI unit.
        implied: Value that the scene object fills in where the default None stands for it.
        kw_only: Whether the constructor takes it by keyword only.
        spec: `shape` of one value, valid range (`above`, `low`, `below`, `high`), `per` and `signal`.
    """
    metadata = {"spec": Spec(unit=unit, optional=default is None, **spec), "implied": implied}
    return dataclasses.field(default=default, kw_only=kw_only, metadata=metadata)


def quantities(scene_object: Any) -> tuple[tuple[str, Spec], ...]:
    """Returns the names and specifications of the quantities of a scene object."""
    cls: Any = type(scene_object)
    return quantities_of(cls)


def specs_of(cls: type) -> dict[str, Spec]:
    """Returns the specifications of the quantities of a class of scene objects, by name."""
    return dict(quantities_of(cls))


@functools.cache  # one entry per class
def quantities_of(cls: Any) -> tuple[tuple[str, Spec], ...]:
    """Returns the names and specifications of the quantities of a class of scene objects."""
    fields = dataclasses.fields(cls)
    return tuple((field.name, field.metadata["spec"]) for field in fields if "spec" in field.metadata)


def bare(value: Any) -> Any:
    """Returns the array, tensor, unknown or components inside `PerElement` and `Signal`."""
    while isinstance(value, (PerElement, Signal)):
        value = value.values
    return value


def unwrap(value: Any) -> Any:
    """Returns the array or tensor inside `PerElement` and `Signal`; for unknowns, their guesses."""
    value = bare(value)
    if isinstance(value, Components):
        return value.guesses()
    return value.guess if isinstance(value, Unknown) else value


def rewrap(value: Any, replacement: Any) -> Any:
    """Returns `replacement` in the `PerElement` and `Signal` wrappers of `value`, unless it has wrappers itself."""
    if isinstance(value, (PerElement, Signal)) and not isinstance(replacement, (PerElement, Signal)):
        return type(value)(rewrap(value.values, replacement))
    return replacement


def unknowns_in(path: str, value: Any) -> Iterator[tuple[str, Unknown]]:
    """Yields path and unknown of a quantity that is unknown, or of each of its unknown components."""
    value = bare(value)
    if isinstance(value, Unknown):
        yield path, value
    elif isinstance(value, Components):
        for index, part in value.items():
            if isinstance(part, Unknown):
                yield path + index_text(index), part


def is_unknown(value: Any) -> bool:
    """Whether a quantity, or a component of it, is unknown."""
    return isinstance(bare(value), (Unknown, Components))


def check_known(path: str, value: Any) -> None:
    """Raises InvalidInput if a quantity, or a component of it, is unknown."""
    for place, unknown in unknowns_in(path, value):
        remedy = "is unknown: give it a value with scene.with_values({...}), or find it with gs.estimate(scene, video)"
        raise InvalidInput(place, unknown, remedy)


def has_values(tensor: torch.Tensor) -> bool:
    """Whether the values of a tensor can be read: not those of meta tensors, nor those inside `torch.func.vmap`."""
    return not (tensor.is_meta or is_transformed(tensor))


def to_numpy(value: Any) -> np.ndarray | None:
    """Returns the values of a quantity without gradient; None for None and for tensors without values."""
    array = unwrap(value)
    if isinstance(array, torch.Tensor):
        return array.detach().cpu().numpy() if has_values(array) else None
    return array


def is_zero(value: Any) -> bool:
    """Whether a quantity is a literal zero, which needs no gradient."""
    return not isinstance(value, Signal) and isinstance(unwrap(value), np.ndarray) and not unwrap(value).any()


def component(value: Any, axis: int) -> Any:
    """One component of a vector quantity."""
    if isinstance(value, (PerElement, Signal)):
        return type(value)(component(value.values, axis))
    return value[..., axis]


def is_per_element(value: Any) -> bool:
    """Returns whether a quantity has one value per element, constant or as a signal."""
    return isinstance(value, PerElement) or (isinstance(value, Signal) and isinstance(value.values, PerElement))


def sample_count(value: Any, shape: tuple[int, ...] = ()) -> int:
    """Returns the number of samples in time of a quantity with values of `shape`; 1 for a constant."""
    if not isinstance(value, Signal):
        return 1
    array = unwrap(value)
    trailing = len(shape) + (1 if is_per_element(value) else 0)
    if array.ndim <= trailing:
        return 0
    return int(array.shape[array.ndim - trailing - 1])


def batch_shape(value: Any, shape: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Returns the leading batch dimensions of a quantity with values of `shape`."""
    array = unwrap(value)
    trailing = len(shape) + int(is_per_element(value)) + int(isinstance(value, Signal))
    return tuple(array.shape[: array.ndim - trailing])

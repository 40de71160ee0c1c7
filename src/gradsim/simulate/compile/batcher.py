"""Conversion of quantities to tensors over all worlds of a batch; what depends on plain numbers alone is built once."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from gradsim.cache import Cache
from gradsim.scene.inertia import MassProperties
from gradsim.scene.quantity import Signal, is_per_element, unwrap
from gradsim.scene.rigid import Rigid

if TYPE_CHECKING:
    from gradsim.simulate.compile.signature import SceneSignature

V = TypeVar("V")

LARGEST_KEY = 512  # numbers of a quantity that is looked up by value; hashing more takes as long as converting them
LARGEST_VALUE = 16384  # numbers of a tensor that is kept

_tensors: Cache[torch.Tensor] = Cache(512)  # of plain numbers, by their values


class Batcher:
    """Turns quantities into tensors [B, count, *shape], signals into [B, samples, count, *shape].

    Args:
        signature: Batch shape, dtype, device and what scenes of this signature share.
        begin: Time at which the rollout starts [s].
    """

    def __init__(self, signature: SceneSignature, begin: float = 0.0):
        self.batch, self.dtype, self.device = signature.batch, signature.dtype, signature.device
        self.begin = begin
        self.worlds = math.prod(signature.batch)
        self.uses_tensors = False  # whether a tensor of the scene was read since this was last reset
        self._shared = signature.shared
        self._mass_properties: dict[str, MassProperties] = {}

    def __call__(self, value: Any, count: int, shape: tuple[int, ...] = ()) -> torch.Tensor:
        array = unwrap(value)
        if isinstance(array, torch.Tensor):
            self.uses_tensors = True
            return self._expanded(array, value, count, shape)
        if array.size > LARGEST_KEY:
            return self._expanded(self.tensor(array), value, count, shape)
        kind = (is_per_element(value), isinstance(value, Signal))
        key = (self.batch, self.dtype, self.device, count, shape, kind, array.shape, array.tobytes())
        return _tensors.get(key, lambda: self._expanded(self.tensor(array), value, count, shape))

    def broadcastable(self, value: Any, count: int) -> torch.Tensor:
        """A quantity of single numbers that broadcasts with [B, rows, count], in as few operations as possible."""
        array = unwrap(value)
        if isinstance(array, torch.Tensor) and not array.ndim:
            self.uses_tensors = True
            return array
        return self(value, count if is_per_element(value) else 1).unsqueeze(1)

    def tensor(self, array: Any) -> torch.Tensor:
        """An array as a tensor."""
        with torch.inference_mode(False):  # a later call may differentiate through it
            return torch.tensor(array, dtype=self.dtype, device=self.device)

    def geometry(self, body: Any, compute: Callable[[], np.ndarray]) -> Any:
        """A number computed from a body's shape: a tensor where the shape itself is one, since it varies with it."""
        points = unwrap(getattr(body, "points", None))
        return self.tensor(compute()) if isinstance(points, torch.Tensor) else compute()

    def _expanded(self, tensor: torch.Tensor, value: Any, count: int, shape: tuple[int, ...]) -> torch.Tensor:
        signal, single = isinstance(value, Signal), not is_per_element(value)
        if single and count == 1 and not signal:
            if tensor.shape != (*self.batch, *shape):
                tensor = tensor.expand(*self.batch, *shape)
            return tensor.reshape(self.worlds, 1, *shape)
        if single:
            tensor = tensor.unsqueeze(tensor.ndim - len(shape))
        time = tensor.shape[tensor.ndim - len(shape) - 2 : tensor.ndim - len(shape) - 1]
        inner = (*(time if signal else ()), count, *shape)
        if len(self.batch) < 2:
            return tensor.expand(self.worlds, *inner)
        return tensor.expand(*self.batch, *inner).reshape(self.worlds, *inner)

    def cached(self, key: Hashable, build: Callable[[], V]) -> V:
        """Returns build(), or its result for an earlier scene of the signature if no tensor of that was read in it."""
        found: V | None = self._shared.get(key)
        if found is None:
            before, self.uses_tensors = self.uses_tensors, False
            found = build()
            if not self.uses_tensors and _is_small(found):
                self._shared[key] = found
            self.uses_tensors = self.uses_tensors or before
        return found

    def rows(self, key: Hashable, values: Sequence[Any], count: int) -> torch.Tensor:
        """One row for each quantity, [B, rows, count]; rows of signals are zero.

        Args:
            key: Identifies the scene's elements whose quantities these are.
            values: Quantities of single numbers.
            count: Elements.
        """
        given = [None if isinstance(value, Signal) else value for value in values]
        tensors = {row: value for row, value in enumerate(given) if isinstance(unwrap(value), torch.Tensor)}

        def plain_rows() -> torch.Tensor:
            numbers = [np.zeros(()) if value is None or row in tensors else value for row, value in enumerate(given)]
            return torch.stack([self(value, count) for value in numbers], 1)

        table = self.cached(("rows", key), plain_rows)
        for row, value in tensors.items():
            table = torch.where(_row_mask(row, len(given), self.device), self.broadcastable(value, count), table)
        return table

    def concatenate(self, pieces: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
        return pieces[0] if len(pieces) == 1 else torch.cat(list(pieces), dim)

    def unit_quaternion(self, key: Hashable, rotation: Any) -> torch.Tensor:
        """A rotation as a unit quaternion, [B, 1, 4]; None is no rotation."""

        def build() -> torch.Tensor:
            q = self(np.array([0.0, 0.0, 0.0, 1.0]) if rotation is None else rotation, 1, (4,))
            return q / q.norm(dim=-1, keepdim=True)

        return self.cached(key, build)

    def mass_properties(self, body: Rigid) -> MassProperties:
        """Mass properties of a rigid body, computed once per rollout."""
        if body.name not in self._mass_properties:
            self._mass_properties[body.name] = body.mass_properties(self.dtype, self.device)
        return self._mass_properties[body.name]


def _is_small(value: Any) -> bool:
    """Whether a value may be kept for other rollouts."""
    return not isinstance(value, torch.Tensor) or (value.numel() <= LARGEST_VALUE and not value.is_inference())


@cache
def _row_mask(row: int, count: int, device: torch.device) -> torch.Tensor:
    """Selects one of `count` rows, [count, 1]."""
    with torch.inference_mode(False):  # a later call may differentiate through it
        return torch.arange(count, device=device)[:, None] == row

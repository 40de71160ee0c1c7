"""Conversion of quantities to tensors over all worlds of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import torch

from gradsim.cache import Cache, cache_key
from gradsim.scene.quantity import Signal, is_per_element, unwrap

MAX_CONSTANT = 1 << 17  # memory of a cached tensor [bytes]


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor.untyped_storage().nbytes() <= MAX_CONSTANT


class Batcher:
    """Converts quantities to tensors with one leading dimension over all W worlds of a batch.

    Args:
        batch: Batch dimensions, which are flattened into W worlds.
        dtype: Type of tensors made from plain numbers.
        device: Their device.
    """

    constant_size: ClassVar[int] = 64  # most numbers of a plain quantity whose tensor is cached
    constants: ClassVar[Cache[torch.Tensor]] = Cache(512, keep=_is_small)

    def __init__(self, batch: tuple[int, ...], dtype: torch.dtype, device: torch.device):
        self.batch, self.dtype, self.device = batch, dtype, device
        self.world_count = math.prod(batch)
        self.key: Hashable = (batch, dtype, device)  # equal for batchers that give equal tensors

    def per_world(self, value: Any, shape: tuple[int, ...] = ()) -> torch.Tensor:
        """Returns a quantity whose single value has `shape` as [W, *shape], or [1, *shape] if all worlds share it."""
        array = unwrap(value)
        if isinstance(array, torch.Tensor):
            return self._over_worlds(array, shape)
        return self.constant(("per_world", shape), array, lambda: self._over_worlds(self.tensor(array), shape))

    def per_element(self, value: Any, count: int, shape: tuple[int, ...] = ()) -> torch.Tensor:
        """Returns a quantity as [W, count, *shape], a signal as [W, samples, count, *shape].

        A value that elements, or worlds of a batch with one dimension, share is expanded, not repeated in memory.

        Args:
            value: A quantity whose single value has `shape`; `per_element` values have `count` of them.
            count: Elements.
            shape: Shape of a single value.
        """
        array = unwrap(value)
        if isinstance(array, torch.Tensor):
            return self._over_elements(array, value, count, shape)
        return self.constant(
            ("per_element", count, shape), value, lambda: self._over_elements(self.tensor(array), value, count, shape)
        )

    def constant(self, tag: Hashable, value: Any, build: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Returns `build()`, cached by `value` if that is plain numbers, and few of them.

        Args:
            tag: Everything else that the result depends on.
            value: A quantity or a tuple of quantities; nothing is cached if there is a tensor among them.
            build: Computes the result.
        """
        key = cache_key(value, size=self.constant_size)
        return build() if key is None else self.constants.get((tag, key, self.key), build)

    def tensor(self, array: Any) -> torch.Tensor:
        """Converts plain numbers."""
        return torch.tensor(array, dtype=self.dtype, device=self.device)

    def _over_worlds(self, tensor: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        if math.prod(tensor.shape[: tensor.ndim - len(shape)]) == 1:
            return tensor.reshape(1, *shape)
        return tensor.expand(*self.batch, *shape).reshape(self.world_count, *shape)

    def _over_elements(self, tensor: torch.Tensor, value: Any, count: int, shape: tuple[int, ...]) -> torch.Tensor:
        signal, single = isinstance(value, Signal), not is_per_element(value)
        if single and count == 1 and not signal:
            if tensor.shape != (*self.batch, *shape):
                tensor = tensor.expand(*self.batch, *shape)
            return tensor.reshape(self.world_count, 1, *shape)
        if single:
            tensor = tensor.unsqueeze(tensor.ndim - len(shape))
        samples = tensor.shape[tensor.ndim - len(shape) - 2 : tensor.ndim - len(shape) - 1]
        inner = (*(samples if signal else ()), count, *shape)
        if len(self.batch) < 2:
            return tensor.expand(self.world_count, *inner)
        return tensor.expand(*self.batch, *inner).reshape(self.world_count, *inner)

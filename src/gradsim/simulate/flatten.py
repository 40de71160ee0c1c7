"""From quantities to tensors over all worlds; what is made of plain numbers alone is made once."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
import torch

from gradsim.scene.inertia import MassProperties
from gradsim.scene.quantity import Signal, is_per_element, unwrap
from gradsim.scene.rigid import Rigid
from gradsim.simulate.pattern import Pattern

KNOWN_COUNT = 512  # tensors remembered of a batch shape, dtype and device
KNOWN_NUMBERS = 512  # in a quantity that is looked up by its numbers; hashing more takes as long as converting them
KNOWN_SIZE = 16384  # of a remembered tensor


@functools.lru_cache(maxsize=16)
def _known(batch: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> dict[Hashable, torch.Tensor]:
    """What was made of plain numbers for batches like this."""
    return {}


class Flattener:
    """Turns quantities into tensors [B, count, *shape], signals into [B, samples, count, *shape]."""

    def __init__(self, pattern: Pattern, begin: float = 0.0):
        self.batch, self.dtype, self.device = pattern.batch, pattern.dtype, pattern.device
        self.begin = begin  # time the rollout starts at [s]
        self.worlds = math.prod(pattern.batch)
        self.varies = False  # whether a tensor of the scene went into what was made, since this was last reset
        self._facts = pattern.facts
        self._masses: dict[str, MassProperties] = {}

    def __call__(self, value: Any, count: int, shape: tuple[int, ...] = ()) -> torch.Tensor:
        array = unwrap(value)
        if isinstance(array, torch.Tensor):
            self.varies = True
            return self._spread(array, value, count, shape)

        def build() -> torch.Tensor:
            return self._spread(torch.tensor(array, dtype=self.dtype, device=self.device), value, count, shape)

        return self.remember((count, shape), (value,), build)

    def across(self, value: Any, count: int) -> torch.Tensor:
        """A quantity of single numbers that broadcasts with [B, rows, count], with as few operations as that takes."""
        array = unwrap(value)
        if isinstance(array, torch.Tensor) and not array.ndim:
            self.varies = True
            return array
        return self(value, count if is_per_element(value) else 1).unsqueeze(1)

    def _spread(self, tensor: torch.Tensor, value: Any, count: int, shape: tuple[int, ...]) -> torch.Tensor:
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

    def remember(self, tag: Hashable, values: Iterable[Any], build: Callable[[], torch.Tensor]) -> torch.Tensor:
        """build(), or what it gave before with the same tag and values if these are plain numbers, and not many.

        Values are compared by their numbers, not by identity: arrays can be written to. `tag` stands for everything
        else that the result depends on.
        """
        key: list[Hashable] = [tag]
        for value in values:
            array = unwrap(value)
            if array is None:
                key.append(None)
            elif isinstance(array, np.ndarray) and array.size <= KNOWN_NUMBERS:
                kind = None if array is value else (is_per_element(value), isinstance(value, Signal))
                key += (kind, array.shape, array.tobytes())
            else:
                self.varies = self.varies or isinstance(array, torch.Tensor)
                return build()
        place, known = tuple(key), _known(self.batch, self.dtype, self.device)
        found = known.get(place)
        if found is None:
            varies = self.varies
            found = build()
            self.varies = varies  # constants of a topology are tensors too
            if is_small(found):
                if len(known) >= KNOWN_COUNT:
                    known.clear()
                known[place] = found
        return found

    def once(self, place: Hashable, build: Callable[[], torch.Tensor]) -> torch.Tensor:
        """build(), or what it gave for another scene of the pattern, if no tensor of the scene goes into it."""
        found: torch.Tensor | None = self._facts.get(place)
        if found is None:
            before, self.varies = self.varies, False
            found = build()
            if not self.varies and is_small(found):
                self._facts[place] = found
            self.varies = self.varies or before
        return found

    def join(self, pieces: list[torch.Tensor], dim: int) -> torch.Tensor:
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)

    def mass_properties(self, body: Rigid) -> MassProperties:
        """A rigid body's, worked out once a rollout."""
        if body.name not in self._masses:
            self._masses[body.name] = body.mass_properties(self.dtype, self.device)
        return self._masses[body.name]


def is_small(tensor: torch.Tensor) -> bool:
    """Whether a tensor may be kept for other rollouts."""
    return tensor.numel() <= KNOWN_SIZE and not tensor.is_inference()

"""The cache for everything that is built once and looked up by an explicit key.

Keys are built from values, never from identities, because arrays can change in place. The numbers of a tensor are never
part of a key, since they may change in place or carry a gradient: `cache_key` returns None for tensors, and
`signature_key` uses their shape, dtype and device.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch

V = TypeVar("V")

_ATOMS = frozenset((str, int, float, bool, np.float64, torch.dtype, torch.device))


class Cache(Generic[V]):
    """A bounded mapping from keys to values; the least recently used entry is dropped first.

    Args:
        size: Largest number of entries.
        keep: Function that returns whether to store a value; all are stored if None.
    """

    def __init__(self, size: int, keep: Callable[[V], bool] | None = None):
        self.size, self.keep = size, keep
        self._values: dict[Hashable, V] = {}
        self._latest: V | None = None  # the most recently used
        self._lock = threading.Lock()

    def get(self, key: Hashable | None, build: Callable[[], V]) -> V:
        """Returns the value of a key, or of `build()` if the cache has none. Nothing is stored under the key None.

        Values are built outside inference mode, so that later calls can differentiate through them. They are shared,
        so no caller may change them in place.
        """
        if key is None:
            return build()
        value = self._values.get(key)
        if value is not None:
            if value is not self._latest:
                with self._lock:
                    self._values.pop(key, None)
                    self._values[key] = self._latest = value
            return value
        with torch.inference_mode(False):
            value = build()
        if self.keep is not None and not self.keep(value):
            return value
        with self._lock:
            self._values[key] = self._latest = value
            while len(self._values) > self.size:
                del self._values[next(iter(self._values))]
        return value

    def values(self) -> Iterator[V]:
        """Returns all values, the least recently used first."""
        return iter(tuple(self._values.values()))

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def clear(self) -> None:
        """Removes all entries."""
        with self._lock:
            self._values.clear()
            self._latest = None


class _NoKey(Exception):
    """A value has no key."""


def cache_key(*values: Any, size: int = 64) -> Hashable | None:
    """Returns a key that is equal for equal values; None if they contain a tensor or a large array.

    Args:
        values: Numbers, strings, arrays, sequences, mappings and dataclasses of these.
        size: Largest array [numbers]; hashing a larger one takes as long as converting it.
    """
    if len(values) == 1 and type(values[0]) is np.ndarray:  # the most frequent case takes half of the time here
        (array,) = values
        return (array.shape, array.dtype, array.tobytes()) if array.size <= size else None
    try:
        return _key(values, size, (), tensors=False)
    except _NoKey:
        return None


def signature_key(*values: Any, size: int = 16384, skip: tuple[str, ...] = ()) -> Hashable | None:
    """Returns a key that is equal for values that differ only in the numbers of their tensors; None for large arrays.

    Args:
        values: As for `cache_key`, and tensors.
        size: Largest array [numbers].
        skip: Names of dataclass fields to leave out.
    """
    try:
        return _key(values, size, skip, tensors=True)
    except _NoKey:
        return None


def _key(values: Iterable[Any], size: int, skip: tuple[str, ...], *, tensors: bool) -> Hashable:
    key: list[Any] = []
    arrays: list[np.ndarray] = []
    _extend(key, arrays, values, size, _readers(skip), tensors)
    try:
        return *key, b"".join(arrays)  # type: ignore[arg-type]
    except TypeError:  # some are not contiguous
        return *key, b"".join(array.tobytes() for array in arrays)


def _extend(
    key: list[Any],
    arrays: list[np.ndarray],
    values: Iterable[Any],
    size: int,
    readers: _Readers,
    tensors: bool,
) -> None:
    """Appends values to a key. Every entry determines where the next one begins, so that keys are unambiguous."""
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            if value.size > size:
                raise _NoKey
            key += (value.shape, value.dtype.num)
            arrays.append(value)
        elif value is None:
            key.append(None)
        elif kind in _ATOMS:
            key.append(value)
        elif (reader := readers[kind]) is not None:
            key.append(kind)
            _extend(key, arrays, reader(value), size, readers, tensors)
        elif isinstance(value, torch.Tensor):
            if not tensors:
                raise _NoKey
            key += (torch.Tensor, value.shape, value.dtype, value.device)
        elif kind is tuple or kind is list:
            key += (Sequence, len(value))
            _extend(key, arrays, value, size, readers, tensors)
        elif isinstance(value, Mapping):
            key += (Mapping, tuple(value))
            _extend(key, arrays, value.values(), size, readers, tensors)
        else:
            raise _NoKey


class _Readers(dict[type, Callable[[Any], tuple[Any, ...]] | None]):
    """For each dataclass a function that reads its fields but for those to skip; None for other types.

    A dataclass with a property `key` is known by that alone.
    """

    def __init__(self, skip: tuple[str, ...]):
        super().__init__()
        self._skip = skip

    def __missing__(self, kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
        self[kind] = reader = self._create(kind) if is_dataclass(kind) else None
        return reader

    def _create(self, kind: Any) -> Callable[[Any], tuple[Any, ...]]:
        if hasattr(kind, "key"):
            return lambda scene_object: (scene_object.key,)
        names = [item.name for item in fields(kind) if item.name not in self._skip]
        if len(names) == 1:
            read_one = operator.attrgetter(names[0])
            return lambda scene_object: (read_one(scene_object),)
        return operator.attrgetter(*names) if names else lambda scene_object: ()


_readers = functools.cache(_Readers)

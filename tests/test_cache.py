"""The cache, and the keys that values are looked up by."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.cache import Cache, cache_key, signature_key


@dataclass(frozen=True, eq=False)
class Thing:
    mass: Any
    name: str = "thing"


def test_values_are_built_once():
    cache, built = Cache(4), []
    for key in (1, 2, 1, 2):
        cache.get(key, lambda key=key: built.append(key) or key)
    assert built == [1, 2]


def test_the_least_recently_used_value_is_dropped():
    cache = Cache(2)
    for key in ("a", "b", "a", "c"):
        cache.get(key, object)
    assert "a" in cache
    assert "b" not in cache
    assert len(cache) == 2


def test_nothing_is_stored_without_a_key():
    cache = Cache(2)
    assert cache.get(None, object) is not cache.get(None, object)
    assert len(cache) == 0


def test_values_that_are_not_kept_are_built_again():
    cache = Cache(2, keep=lambda value: value < 3)
    assert [cache.get(key, lambda key=key: key) for key in (1, 5, 1, 5)] == [1, 5, 1, 5]
    assert 1 in cache
    assert 5 not in cache


def test_keys_compare_values():
    array = np.arange(3.0)
    assert cache_key(array) == cache_key(array.copy()) == cache_key(np.arange(6.0)[::2] / 2)
    assert cache_key(array) != cache_key(array.reshape(3, 1))
    assert cache_key(array) != cache_key(array.astype(np.float32))
    assert cache_key(Thing(array), "x") == cache_key(Thing(array.copy()), "x")
    assert cache_key(Thing(array), "x") != cache_key(Thing(array + 1), "x")
    assert cache_key([1, 2], 3) != cache_key([1], 2, 3)


def test_tensors_and_large_arrays_have_no_key():
    assert cache_key(torch.zeros(3)) is None
    assert cache_key(Thing(torch.zeros(3))) is None
    assert cache_key(np.zeros(65)) is None
    assert cache_key(np.zeros(65), size=65) is not None


def test_signatures_ignore_the_numbers_of_tensors():
    assert signature_key(Thing(torch.zeros(3))) == signature_key(Thing(torch.ones(3)))
    assert signature_key(Thing(torch.zeros(3))) != signature_key(Thing(torch.zeros(4)))
    assert signature_key(Thing(np.zeros(3))) != signature_key(Thing(np.ones(3)))
    assert signature_key(Thing(1.0, "a"), skip=("name",)) == signature_key(Thing(1.0, "b"), skip=("name",))

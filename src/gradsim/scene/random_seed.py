"""The range of random seeds."""

from __future__ import annotations

import operator
from typing import Any

from gradsim.scene.errors import OutOfRange

LARGEST_SEED = 2**62  # a search has further seeds, counted from the given one, and Torch's have 64 bits


def checked_seed(seed: Any) -> int:
    """Returns a random seed, or raises unless it is a whole number in range."""
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if not 0 <= number <= LARGEST_SEED:
        raise OutOfRange("seed", seed, f"must be a whole number from 0 to {LARGEST_SEED}")
    return number

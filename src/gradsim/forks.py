"""Forked processes: a child has its parent's memory but not its threads, and locks that these held stay locked."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[[], object])


def after_fork(renew: F) -> F:
    """Decorator for a function that makes locks or threads anew: every forked child calls it first."""
    if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
        os.register_at_fork(after_in_child=renew)
    return renew

"""Clocks: the least time of many runs, rivals in turn, and the machine it was measured on."""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

import gradsim

ROUNDS = 5
WARM = 2  # runs before the clock starts: compilation, recording of graphs, first touch of memory


def least_times(calls: Mapping[str, Callable[[], object]], *, seconds: float = 1.0) -> dict[str, float]:
    """Least time of each call [s].

    The minimum, because other work on a machine only ever adds time. Rivals take turns over several rounds, so that a
    slow minute of the machine cannot fall on one of them alone.

    Args:
        calls: What to run, by name.
        seconds: Time spent on each call [s], at least one run a round.
    """
    least = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        for _ in range(WARM):
            call()
    with undisturbed():
        for _ in range(ROUNDS):
            for name, call in calls.items():
                end = perf_counter() + seconds / ROUNDS
                while True:
                    start = perf_counter()
                    call()
                    now = perf_counter()
                    least[name] = min(least[name], now - start)
                    if now >= end:
                        break
    return least


def both_ways(
    simulate: Callable[[], torch.Tensor], unknowns: Iterable[torch.Tensor], weights: torch.Tensor
) -> dict[str, Callable[[], object]]:
    """A rollout alone, and with the gradients that its weighted end has in the unknowns."""
    leaves = tuple(unknowns)

    def forward() -> None:
        with torch.no_grad():
            simulate()

    def both() -> None:
        for leaf in leaves:
            leaf.grad = None
        (simulate() * weights).sum().backward()

    return {"forward": forward, "both": both}


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """No collection of garbage in the middle of a measurement."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True)
class Machine:
    """What a measurement ran on; a number without it says nothing."""

    cpu: str
    cores: int
    versions: dict[str, str | None]  # None: not installed


def this_machine(*packages: str) -> Machine:
    """This machine, with the versions of gradsim, of Python and of the packages."""
    versions: dict[str, str | None] = {"gradsim": gradsim.__version__, "python": platform.python_version()}
    versions |= {package: _version(package) for package in packages}
    return Machine(_cpu_name(), os.cpu_count() or 1, versions)


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None

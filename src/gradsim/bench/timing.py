"""Clocks: the least time of many runs, rivals in turn, and the machine it was measured on."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib.metadata
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import torch

import gradsim

ROUNDS = 5
WARM = 2  # runs before the clock starts: compilation, recording of graphs, first touch of memory
PATIENCE = 4.0  # times as long as planned that a measurement may take, waiting for the machine's full speed
SLOWER = 1.15  # by which the machine may fall behind its full speed


def least_times(calls: Mapping[str, Callable[[], object]], *, seconds: float = 1.0) -> dict[str, float]:
    """Least time of each call [s].

    The minimum, because other work on a machine only ever adds time. Rivals take turns over several rounds, so that a
    slow minute of the machine cannot fall on one of them alone; see `steady_rounds`.

    Args:
        calls: What to run, by name.
        seconds: Time spent on each call [s], at least one run a round.
    """
    least = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        for _ in range(WARM):
            call()
    with undisturbed():
        for _ in steady_rounds(ROUNDS, PATIENCE * seconds * len(calls)):
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


def steady_rounds(count: int, patience: float) -> Iterator[int]:
    """Numbers of rounds to measure in, 0 to count - 1.

    Shared machines run at two thirds of their speed for seconds at a time. A round waits for full speed, and comes
    again if it was lost meanwhile, while `patience` [s] lasts.
    """
    if patience <= 0:
        yield from range(count)
        return
    end = perf_counter() + patience
    steady = _reference().is_fast()
    for k in range(count):
        while True:
            while not steady and perf_counter() < end:
                sleep(0.1)
                steady = _reference().is_fast()
            yield k
            was_steady, steady = steady, _reference().is_fast()
            if (was_steady and steady) or perf_counter() >= end:
                break


class _Reference:
    """A small piece of work for all cores, to see whether the machine runs at its full speed."""

    def __init__(self) -> None:
        self.cores = os.cpu_count() or 1
        self.pool = ThreadPoolExecutor(self.cores)
        self.least = float("inf")  # seconds it ever took

    def is_fast(self) -> bool:
        times = []
        for _ in range(3):
            start = perf_counter()
            list(self.pool.map(self._work, range(self.cores)))
            times.append(perf_counter() - start)
        self.least = min(self.least, *times)
        return min(times) <= SLOWER * self.least

    @staticmethod
    def _work(core: int) -> None:
        numbers = np.linspace(0.0, 1.0, 10_000)
        for _ in range(20):
            np.exp(numbers)


_reference = functools.cache(_Reference)


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

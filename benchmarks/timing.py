"""Timing: the minimum over many runs, with the compared calls interleaved, and the machine they ran on."""

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
from typing import TypeVar

import numpy as np
import torch

import gradsim

ROUNDS = 5
WARMUP_RUNS = 2  # compilation, graph capture and first touch of memory happen before the clock starts
WAIT_FACTOR = 4.0  # a measurement takes at most this many times its planned time, waiting for full speed included
SLOWDOWN = 1.15  # the machine runs at full speed if the probe takes at most this multiple of its minimum time

Call = Callable[[], object]
T = TypeVar("T")


def minimum_times(calls: Mapping[str, Call], *, seconds: float = 1.0) -> dict[str, float]:
    """Returns the minimum time of each call [s].

    The minimum is used because other processes can only add time. The calls are interleaved over several rounds, so
    that a slow period of the machine affects all of them; see `steady_rounds`.

    Args:
        calls: Functions to time, by name.
        seconds: Time spent on each call [s]; every call runs at least once a round.
    """
    least = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        for _ in range(WARMUP_RUNS):
            call()
    with gc_disabled():
        for _ in steady_rounds(ROUNDS, WAIT_FACTOR * seconds * len(calls)):
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


def steady_rounds(count: int, max_seconds: float) -> Iterator[int]:
    """Yields the indices of measurement rounds, 0 to count - 1, while the machine runs at full speed.

    Shared machines run at two thirds of their speed for seconds at a time. Each round starts once the machine is at
    full speed, and is repeated if the speed dropped during it. After `max_seconds` [s] rounds run without waiting.
    """
    if max_seconds <= 0:
        yield from range(count)
        return
    end = perf_counter() + max_seconds
    steady = _speed_probe().is_fast()
    for k in range(count):
        while True:
            while not steady and perf_counter() < end:
                sleep(0.1)
                steady = _speed_probe().is_fast()
            yield k
            was_steady, steady = steady, _speed_probe().is_fast()
            if (was_steady and steady) or perf_counter() >= end:
                break


class SpeedProbe:
    """Times a small fixed workload on all cores, to detect when the machine runs below its full speed."""

    def __init__(self) -> None:
        self.cores = os.cpu_count() or 1
        self.pool = ThreadPoolExecutor(self.cores)
        self.minimum = float("inf")  # over all runs [s]

    def is_fast(self) -> bool:
        times = []
        for _ in range(3):
            start = perf_counter()
            list(self.pool.map(self._workload, range(self.cores)))
            times.append(perf_counter() - start)
        self.minimum = min(self.minimum, *times)
        return min(times) <= SLOWDOWN * self.minimum

    @staticmethod
    def _workload(core: int) -> None:
        numbers = np.linspace(0.0, 1.0, 10_000)
        for _ in range(20):
            np.exp(numbers)


_speed_probe = functools.cache(SpeedProbe)


def forward_backward_calls(
    simulate: Callable[[], torch.Tensor], unknowns: Iterable[torch.Tensor], weights: torch.Tensor
) -> dict[str, Call]:
    """Returns the calls "forward" (no gradient) and "forward_backward" (gradients of the weighted sum of the output).

    Args:
        simulate: Returns the output to differentiate.
        unknowns: Leaves whose gradients the backward pass computes.
        weights: Weights of the output in the loss, of the output's shape.
    """
    leaves = tuple(unknowns)

    def forward() -> None:
        with torch.no_grad():
            simulate()

    def forward_backward() -> None:
        for leaf in leaves:
            leaf.grad = None
        (simulate() * weights).sum().backward()

    return {"forward": forward, "forward_backward": forward_backward}


def on_threads(count: int, call: Callable[[], T]) -> Callable[[], T]:
    """Returns `call` with torch's number of threads set before each run."""

    def run() -> T:
        torch.set_num_threads(count)
        return call()

    return run


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Sets torch's number of threads in this scope."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def gc_disabled() -> Iterator[None]:
    """Disables garbage collection in this scope."""
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
    """The processor and the package versions of a measurement."""

    cpu: str
    cores: int
    versions: dict[str, str | None]  # None: not installed


def this_machine(*packages: str) -> Machine:
    """Returns this machine, with the versions of gradsim, Python and `packages`."""
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

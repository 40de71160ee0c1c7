"""Where Torch and Warp meet: memory both see, captured graphs, and how types and devices are called on either side.

The only file that imports both. Memory is allocated by Torch and viewed by Warp without a copy.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
import warp as wp

P = ParamSpec("P")
T = TypeVar("T")

running = threading.RLock()  # recording graphs is global in Warp: calls from several threads take turns
ALIGNED = 16  # scalars, 64 bytes at least: where Torch lets memory begin


@functools.cache
def initialize() -> None:
    """Start Warp, without its greeting and without its word on a missing GPU."""
    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)
    with contextlib.nullcontext() if torch.cuda.is_available() else _silent_stderr():
        wp.init()


def kernels_cached(dtype: torch.dtype) -> bool:
    """Whether any of gradsim's kernels of a precision were compiled on this machine before."""
    initialize()
    precision = "double" if dtype == torch.float64 else "float"
    return any(Path(wp.config.kernel_cache_dir).glob(f"wp_gradsim.*.{precision}_*"))


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Drop what native code writes to the standard error stream."""
    saved = os.dup(2)
    try:
        with open(os.devnull, "w") as sink:
            os.dup2(sink.fileno(), 2)
            yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def on_one_torch_thread(function: Callable[P, T]) -> Callable[P, T]:
    """A function whose own Torch operations stay on the thread that calls it.

    The threads Torch helps itself with take milliseconds to wake and then turn idly for some more, on the cores that
    the shares of a batch are to run on. No operation beside a rollout is long enough for that.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        before = torch.get_num_threads()
        if before == 1:
            return function(*args, **kwargs)
        torch.set_num_threads(1)
        try:
            return function(*args, **kwargs)
        finally:
            torch.set_num_threads(before)

    return run


def real_type(dtype: torch.dtype) -> Any:
    """Warp's scalar type for a Torch dtype."""
    return {torch.float32: wp.float32, torch.float64: wp.float64}[dtype]


def has_device(device: torch.device) -> bool:
    """Whether kernels can run where a tensor lives: on the CPU, or on a CUDA device that Warp has found."""
    if device.type == "cpu":
        return True
    initialize()
    return device.type == "cuda" and bool(wp.is_cuda_available())


def warp_device(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"


@dataclass(frozen=True)
class Buffer:
    """One piece of memory, seen by Torch as `tensor` and by Warp as `array`."""

    tensor: torch.Tensor
    array: Any


@dataclass(frozen=True)
class Table:
    """Parameters [rows, elements] and their gradients, seen by kernels as .value and .grad."""

    tensor: torch.Tensor
    tensor_grad: torch.Tensor
    value: Any
    grad: Any


def fast_view(tensor: torch.Tensor) -> Any:
    """A tensor as what reads and writes a few of its numbers fastest: on the CPU NumPy, in half of Torch's time."""
    return tensor.numpy() if tensor.is_cpu else tensor


def _memory(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):  # whoever comes first: others may write to it, and ask for gradients
        return torch.zeros(shape, dtype=dtype, device=device)


class Pool:
    """Memory that several buffers share, one after another, so that all can be cleared or looked through at once."""

    def __init__(self, shapes: Iterable[tuple[int, ...]], dtype: torch.dtype, device: torch.device):
        """Room for buffers of these shapes, taken in any order."""
        self.tensor = _memory((sum(map(_room, shapes)),), dtype, device)
        self._used = 0

    def take(self, shape: tuple[int, ...]) -> torch.Tensor:
        """The next buffer's memory, zeroed."""
        first, self._used = self._used, self._used + _room(shape)
        return self.tensor[first : first + math.prod(shape)].view(shape)

    @property
    def rest(self) -> torch.Tensor:
        """What no buffer has taken yet."""
        return self.tensor[self._used :]

    def all_finite_fast(self) -> bool:
        """Whether no number is NaN, infinite, or so large that the sum is; also of those between the buffers."""
        return math.isfinite(self.tensor.sum().item())


def _room(shape: tuple[int, ...]) -> int:
    """Scalars a buffer takes in a pool, so that the next begins where Torch would let it begin."""
    return -(-math.prod(shape) // ALIGNED) * ALIGNED


def numbers(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Buffer:
    """Zeroed scalars."""
    tensor = _memory(shape, dtype, device)
    return Buffer(tensor, wp.from_torch(tensor, dtype=real_type(dtype)))


def vectors(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    width: int = 3,
    pool: Pool | None = None,
    row: int | None = None,
) -> Buffer:
    """Zeroed vectors: tensor [*shape, width], array [*shape] of vectors, of quaternions where the width is four.

    They lie `row` scalars apart, their width if None.
    """
    whole = (*shape, row or width)
    tensor = (_memory(whole, dtype, device) if pool is None else pool.take(whole))[..., :width]
    real = real_type(dtype)
    kind = wp.types.quaternion(real) if width == 4 else wp.types.vector(width, real)
    return Buffer(tensor, wp.from_torch(tensor, dtype=kind))


class Settings:
    """A few numbers that Python sets before a graph is replayed and kernels read from `array`."""

    def __init__(self, count: int, dtype: torch.dtype, device: torch.device):
        self._tensor = _memory((count,), dtype, device)
        kind = wp.int32 if dtype == torch.int32 else real_type(dtype)
        self.array = wp.from_torch(self._tensor, dtype=kind)
        # Torch takes ten times as long as NumPy to write three numbers.
        self._numbers = self._tensor.numpy() if device.type == "cpu" else None

    def set(self, *values: float) -> None:
        if self._numbers is not None:
            self._numbers[:] = values
        else:
            self._tensor.copy_(torch.tensor(values, dtype=self._tensor.dtype))


def table(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, pool: Pool | None = None) -> Table:
    """Zeroed parameters; `pool` has room for their gradients."""
    value, grad = _memory(shape, dtype, device), _memory(shape, dtype, device) if pool is None else pool.take(shape)
    real = real_type(dtype)
    return Table(value, grad, wp.from_torch(value, dtype=real), wp.from_torch(grad, dtype=real))


def constant(array: np.ndarray, dtype: torch.dtype, device: torch.device, columns: str = "") -> Any:
    """A Warp array with the content of a NumPy one.

    Args:
        array: Integers stay integers; floats become `dtype`.
        dtype: Torch scalar type of float arrays.
        device: Where it lives.
        columns: "vector" or "matrix" to see trailing dimensions as Warp vectors or matrices.
    """
    integer = np.issubdtype(array.dtype, np.integer)
    real = wp.int32 if integer else real_type(dtype)
    kinds = {"": lambda: real, "vector": lambda: wp.types.vector(array.shape[-1], real)}
    kinds["matrix"] = lambda: wp.types.matrix(array.shape[-2:], real)
    scalar = np.int32 if integer else np.dtype(str(dtype).removeprefix("torch."))
    return wp.array(np.ascontiguousarray(array, dtype=scalar), dtype=kinds[columns](), device=warp_device(device))


class Graph:
    """Kernel launches recorded once and replayed without Python."""

    def __init__(self, launches: Callable[[], None], device: torch.device):
        with wp.ScopedCapture(device=warp_device(device)) as capture:
            launches()
        self._graph = capture.graph

    def replay(self) -> None:
        wp.capture_launch(self._graph)

"""Torch and Warp together: shared memory, captured graphs, and the names of types and devices in both libraries.

This is the only file that imports both. Torch allocates memory and Warp views it without a copy.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
import warp as wp

from gradsim.forks import after_fork
from gradsim.kernel_cache import remove_damaged_modules

P = ParamSpec("P")
T = TypeVar("T")

graph_lock = threading.RLock()  # Warp captures one graph at a time: calls from several threads take turns


@after_fork
def _renew_locks_and_threads() -> None:
    """Torch waits forever for OpenMP's threads, which a forked process does not have; it needs none on one thread."""
    global graph_lock
    graph_lock = threading.RLock()
    torch.set_num_threads(1)


ALIGNMENT = 16  # scalars, at least 64 bytes, as for memory that Torch allocates


@functools.cache
def initialize() -> None:
    """Starts Warp without its banner and without its message about a missing GPU."""
    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)
    with contextlib.nullcontext() if torch.cuda.is_available() else _silent_stderr():
        try:
            wp.init()
        except OSError as error:  # such as a home folder that cannot be written
            remedy = "the kernel cache cannot be written; WARP_CACHE_PATH may name another folder"
            raise OSError(error.errno, f"{error.strerror}: {remedy}", error.filename) from error
    with contextlib.suppress(OSError):  # a cache that cannot be read or changed is used as it is
        remove_damaged_modules(Path(wp.config.kernel_cache_dir))


def kernels_cached(dtype: torch.dtype) -> bool:
    """Returns whether the cache on this machine has compiled gradsim kernels of a precision."""
    initialize()
    precision = "double" if dtype == torch.float64 else "float"
    return any(Path(wp.config.kernel_cache_dir).glob(f"wp_gradsim.*.{precision}_*"))


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discards what native code writes to the standard error stream."""
    saved = os.dup(2)
    try:
        with open(os.devnull, "w") as sink:
            os.dup2(sink.fileno(), 2)
            yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


_kernel_threads: ContextVar[int | None] = ContextVar("kernel_threads", default=None)


def kernel_threads() -> int:
    """Number of threads of the native kernels: those of Torch, also where `on_one_torch_thread` restricts Torch."""
    return _kernel_threads.get() or torch.get_num_threads()


def on_one_torch_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Wraps a function so that its Torch operations run on the calling thread only; native kernels keep their threads.

    Torch's intra-op threads take milliseconds to wake and then spin on the cores that the shards of a batch use. Apart
    from the rollout no operation is long enough to profit from them. Sums over several threads also round differently,
    so that an estimate would depend on their number.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        before = torch.get_num_threads()
        if before == 1:
            return function(*args, **kwargs)
        token = _kernel_threads.set(kernel_threads())
        torch.set_num_threads(1)
        try:
            return function(*args, **kwargs)
        finally:
            torch.set_num_threads(before)
            _kernel_threads.reset(token)

    return run


def real_type(dtype: torch.dtype) -> Any:
    """Returns Warp's scalar type for a Torch dtype."""
    return {torch.float32: wp.float32, torch.float64: wp.float64}[dtype]


def has_device(device: torch.device) -> bool:
    """Whether kernels can run where a tensor lives: on the CPU, or on a CUDA device that Warp has found."""
    if device.type == "cpu":
        return True
    initialize()
    return device.type == "cuda" and bool(wp.is_cuda_available())


def warp_device(device: torch.device) -> str:
    """Returns Warp's name of a device."""
    return "cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"


@dataclass(frozen=True)
class Buffer:
    """Memory that is a Torch `tensor` and a Warp `array` at once."""

    tensor: torch.Tensor
    array: Any


@dataclass(frozen=True)
class Table:
    """A parameter table [rows, elements] and its gradient, as Torch tensors and as Warp arrays."""

    tensor: torch.Tensor
    tensor_grad: torch.Tensor
    value: Any  # Warp array of `tensor`
    grad: Any  # Warp array of `tensor_grad`


def fast_view(tensor: torch.Tensor) -> Any:
    """Returns a view that is fast for small reads and writes: NumPy on the CPU, which takes half of Torch's time."""
    return tensor.numpy() if tensor.is_cpu else tensor


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):  # later calls may write to it outside inference mode, with gradients
        return torch.zeros(shape, dtype=dtype, device=device)


class Pool:
    """One block of memory divided into buffers, so that all of them can be cleared or checked at once.

    Args:
        shapes: Shapes of the buffers, which may be taken in any order.
        dtype: Scalar type.
        device: Device of the memory.
    """

    def __init__(self, shapes: Iterable[tuple[int, ...]], dtype: torch.dtype, device: torch.device):
        self.tensor = _zeros((sum(map(_padded_size, shapes)),), dtype, device)
        self._used = 0

    def take(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Returns the memory of the next buffer, zeroed."""
        first, self._used = self._used, self._used + _padded_size(shape)
        return self.tensor[first : first + math.prod(shape)].view(shape)

    @property
    def rest(self) -> torch.Tensor:
        """The memory that no buffer has taken yet."""
        return self.tensor[self._used :]

    def all_finite_fast(self) -> bool:
        """Returns whether the sum of the block is finite; False also if finite values overflow the sum."""
        return math.isfinite(self.tensor.sum().item())


def _padded_size(shape: tuple[int, ...]) -> int:
    """Returns the scalars that a buffer takes in a pool, so that the next one is aligned."""
    return -(-math.prod(shape) // ALIGNMENT) * ALIGNMENT


def scalars(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Buffer:
    """Returns a zeroed buffer of scalars."""
    tensor = _zeros(shape, dtype, device)
    return Buffer(tensor, wp.from_torch(tensor, dtype=real_type(dtype)))


def vectors(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    device: torch.device,
    width: int = 3,
    pool: Pool | None = None,
    row: int | None = None,
) -> Buffer:
    """Returns a zeroed buffer of vectors, or of quaternions if the width is four.

    Args:
        shape: Shape of the Warp array; the tensor is [*shape, width].
        dtype: Scalar type.
        device: Device of the memory.
        width: Scalars of a vector.
        pool: Block that the memory is taken from; allocated if None.
        row: Scalars between the starts of two vectors; the width if None.
    """
    padded = (*shape, row or width)
    tensor = (_zeros(padded, dtype, device) if pool is None else pool.take(padded))[..., :width]
    real = real_type(dtype)
    kind = wp.types.quaternion(real) if width == 4 else wp.types.vector(width, real)
    return Buffer(tensor, wp.from_torch(tensor, dtype=kind))


class Settings:
    """Numbers that Python sets before a graph is replayed and that kernels read from `array`."""

    def __init__(self, count: int, dtype: torch.dtype, device: torch.device):
        self._tensor = _zeros((count,), dtype, device)
        kind = wp.int32 if dtype == torch.int32 else real_type(dtype)
        self.array = wp.from_torch(self._tensor, dtype=kind)
        # NumPy writes three numbers in a tenth of Torch's time.
        self._numbers = self._tensor.numpy() if device.type == "cpu" else None

    def set(self, *values: float) -> None:
        """Writes all numbers."""
        if self._numbers is not None:
            self._numbers[:] = values
        else:
            self._tensor.copy_(torch.tensor(values, dtype=self._tensor.dtype))


def table(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, pool: Pool | None = None) -> Table:
    """Returns a zeroed parameter table; the memory of its gradient is taken from `pool`, or allocated if None."""
    value = _zeros(shape, dtype, device)
    grad = _zeros(shape, dtype, device) if pool is None else pool.take(shape)
    real = real_type(dtype)
    return Table(value, grad, wp.from_torch(value, dtype=real), wp.from_torch(grad, dtype=real))


def constant(array: np.ndarray, dtype: torch.dtype, device: torch.device, columns: str = "") -> Any:
    """Returns a Warp array with the content of a NumPy array.

    Args:
        array: Integers stay integers; floats become `dtype`.
        dtype: Torch scalar type of float arrays.
        device: Device of the result.
        columns: "vector" or "matrix" makes Warp vectors or matrices of the trailing dimensions.
    """
    integer = np.issubdtype(array.dtype, np.integer)
    real = wp.int32 if integer else real_type(dtype)
    kinds = {"": lambda: real, "vector": lambda: wp.types.vector(array.shape[-1], real)}
    kinds["matrix"] = lambda: wp.types.matrix(array.shape[-2:], real)
    scalar = np.int32 if integer else np.dtype(str(dtype).removeprefix("torch."))
    return wp.array(np.ascontiguousarray(array, dtype=scalar), dtype=kinds[columns](), device=warp_device(device))


class Graph:
    """Kernel launches that are captured once and replayed without Python."""

    def __init__(self, launches: Callable[[], None], device: torch.device):
        with wp.ScopedCapture(device=warp_device(device)) as capture:
            launches()
        self._graph = capture.graph

    def replay(self) -> None:
        """Runs all captured launches."""
        wp.capture_launch(self._graph)

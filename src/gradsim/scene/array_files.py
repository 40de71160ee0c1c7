"""Arrays of numbers in .npy and .npz files, whose size is known before anything is read.

NumPy's own reader raises errors of many kinds for malformed files, and inflates whatever a small file expands to.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from gradsim.scene.errors import GradsimError, InvalidInput
from gradsim.scene.memory import check_memory

KINDS = "biuf"  # of NumPy's types: truth values, integers and real numbers
CHUNK = 1 << 24  # that is inflated at once [bytes]


def read_array(file: Path, name: str, valid: str) -> NDArray[Any]:
    """Reads a .npy file.

    Args:
        file: The file.
        name: Path of the quantity that errors name.
        valid: What the file has to be, for errors.

    Raises:
        InvalidInput: There is no such file, or it does not hold one array of real numbers.
        OutOfMemory: The array would take more than half of the machine's memory.
    """
    with _readable(file, name, valid), file.open("rb") as stream:
        return _read(stream, file, name, 0)[0]


def read_arrays(file: Path, name: str, valid: str, names: tuple[str, ...] | None = None) -> dict[str, NDArray[Any]]:
    """Reads the arrays of a .npz file; the arguments and errors are those of `read_array`.

    Args:
        names: The arrays to read, of which those that the file does not have are left out; all if None.
    """
    arrays: dict[str, NDArray[Any]] = {}
    size = 0
    with _readable(file, name, valid), zipfile.ZipFile(file) as archive:
        for member in archive.namelist():
            key = member.removesuffix(".npy")
            if key in arrays:
                raise ValueError(f"it has two arrays {key!r}")
            if names is None or key in names:
                with archive.open(member) as stream:
                    arrays[key], size = _read(stream, file, name, size)
    return arrays


def array_names(file: Path, name: str, valid: str) -> tuple[str, ...]:
    """Returns the names of the arrays in a .npz file; the arguments and errors are those of `read_array`."""
    with _readable(file, name, valid), zipfile.ZipFile(file) as archive:
        return tuple(member.removesuffix(".npy") for member in archive.namelist())


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Returns the shape of an array, whether it is stored by columns, and its type."""
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return read(stream)


def _read(stream: IO[bytes], file: Path, name: str, size: int) -> tuple[NDArray[Any], int]:
    """Returns an array, and the memory that it and those before it, of a given size, take [bytes]."""
    shape, by_columns, dtype = read_header(stream)
    if dtype.kind not in KINDS:
        raise ValueError(f"it holds {dtype} in place of real numbers")
    size += math.prod(shape) * dtype.itemsize
    check_memory(name, f"{file}, an array {list(shape)}", size, "store fewer numbers")
    content = np.empty(math.prod(shape), dtype)
    _fill(stream, content.view(np.uint8))
    native = content.astype(dtype.newbyteorder("="), copy=False)
    return native.reshape(shape, order="F" if by_columns else "C"), size


def _fill(stream: IO[bytes], memory: NDArray[np.uint8]) -> None:
    """Reads bytes until an array is full."""
    done = 0
    while done < len(memory):
        content = stream.read(min(CHUNK, len(memory) - done))
        if not content:
            raise ValueError("an array is cut off")
        memory[done : done + len(content)] = np.frombuffer(content, np.uint8)
        done += len(content)


@contextmanager
def _readable(file: Path, name: str, valid: str) -> Iterator[None]:
    """Converts errors of reading to InvalidInput."""
    try:
        if not file.is_file():
            raise ValueError("a folder, device or pipe" if file.exists() else "no such file")
        yield
    except (GradsimError, MemoryError):
        raise
    except Exception as error:  # NumPy and zipfile raise many kinds for malformed files
        raise InvalidInput(name, str(file), f"{valid} ({error})") from error

"""Videos as arrays in .npy and .npz files, read frame by frame: an array is never inflated as a whole."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from gradsim.scene.array_files import read_header
from gradsim.scene.errors import VideoFileError

FRAMES = "frames"  # name of the array in .npz files that have several


@dataclass(frozen=True)
class ArrayFile:
    """An array file whose header is read."""

    file: Path
    member: str | None  # of a .npz file
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fps: float | None  # that the file states [1/s]

    def read(self, selected: range) -> Iterator[NDArray[Any]]:
        """Yields the selected frames, [H, W, C]."""
        frame_shape = self.shape[1:]
        size = int(np.prod(frame_shape)) * self.dtype.itemsize
        with _unreadable(self.file), _open_array(self.file, self.member) as stream:
            read_header(stream)
            for number in range(selected[-1] + 1):
                content = stream.read(size)
                if len(content) < size:
                    raise ValueError(f"the file ends in frame {number}")
                if number in selected:
                    yield np.frombuffer(content, self.dtype).reshape(frame_shape)


def open_array_file(file: Path) -> ArrayFile:
    """Reads the header of an array file.

    Raises:
        VideoFileError: It is not an array file, or its array is not stored frame by frame.
    """
    with _unreadable(file):
        member, fps = _npz_contents(file) if zipfile.is_zipfile(file) else (None, None)
        with _open_array(file, member) as stream:
            shape, by_columns, dtype = read_header(stream)
    if dtype.hasobject:
        raise VideoFileError(str(file), f"dtype {dtype}", "needs a numeric array")
    if by_columns and len(shape) > 1:
        raise VideoFileError(str(file), "an array in Fortran order", "save np.ascontiguousarray(frames)")
    return ArrayFile(file, member, shape, dtype, fps)


def _npz_contents(file: Path) -> tuple[str, float | None]:
    """Returns the member with the frames and the frame rate of a .npz file."""
    with np.load(file, allow_pickle=False) as content:
        names = [name for name in content.files if name != "fps"]
        name = names[0] if len(names) == 1 else FRAMES
        if name not in names:
            raise ValueError(f"it has the arrays {', '.join(names) or 'none'}")
        return name, float(content["fps"]) if "fps" in content.files else None


@contextmanager
def _open_array(file: Path, member: str | None) -> Iterator[IO[bytes]]:
    if member is None:
        with file.open("rb") as stream:
            yield stream
    else:
        with zipfile.ZipFile(file) as archive, archive.open(f"{member}.npy") as stream:
            yield stream


@contextmanager
def _unreadable(file: Path) -> Iterator[None]:
    """Converts errors of reading to `VideoFileError`; NumPy and zipfile raise many kinds for malformed files."""
    try:
        yield
    except VideoFileError:
        raise
    except Exception as error:
        remedy = f"needs a numeric array, in .npz files under the name {FRAMES} ({error})"
        raise VideoFileError(str(file), "unreadable", remedy) from error

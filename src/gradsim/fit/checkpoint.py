"""Checkpoints: files by which a long search resumes.

An estimate is a sequence of least-squares solves from starts that follow from the results of the previous ones. A
checkpoint contains the finished solves and the last state of the one that was interrupted. A second call with the same
arguments takes the results of the finished solves from the file and continues the interrupted one, so that it ends with
the same numbers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim._version import __version__
from gradsim.fit.gauss_newton import SolverState
from gradsim.fit.observations.base import Observation
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput, WrongType
from gradsim.scene.spelling import abbreviate

EFFORT = 0.05  # largest fraction of the time for writing unfinished solves, whose residuals may be large
SAME_START = 1e-7  # largest difference of starts of the same solve, in coordinate units: rounding with other threads

Solve = dict[str, Any]  # start and fields of `SolverState`


def checkpoint_file(checkpoint: Any) -> Path:
    """Returns the path of a checkpoint; raises unless its folder exists."""
    if not isinstance(checkpoint, (str, os.PathLike)) or not str(checkpoint) or "\0" in str(checkpoint):
        raise WrongType("checkpoint", abbreviate(checkpoint), "must be the path of a file")
    file = Path(checkpoint)
    if not file.name:
        raise InvalidInput("checkpoint", str(checkpoint), "must be the path of a file")
    if not file.parent.is_dir():
        raise InvalidInput(str(checkpoint), "no such folder", "needs an existing folder: create it first")
    return file


def write_checkpoint(file: Path, content: Any) -> None:
    """Writes tensors, numbers, lists and dictionaries atomically."""
    buffer = io.BytesIO()  # on a full disk, torch.save to a file raises a RuntimeError without the reason
    torch.save(content, buffer)
    write_atomically(file, lambda target: target.write_bytes(buffer.getbuffer()), InvalidInput)


def read_checkpoint(file: Path, function: str) -> Any:
    """Reads what `write_checkpoint` wrote; `function` is named in the error."""
    try:
        if not file.is_file():
            raise ValueError("a folder, device or pipe")
        return torch.load(file, weights_only=True)
    except Exception as error:  # torch.load raises many kinds for files of other formats
        raise InvalidInput("checkpoint", str(file), f"must be a checkpoint of {function}, and complete") from error


class SolveRecord:
    """The solves of an estimate, in their order, in a file; see `gradsim.fit.gauss_newton.SolveLog`."""

    def __init__(self, file: str | Path, arguments: str):
        """Opens a checkpoint, which is created by the first solve if it does not exist.

        Args:
            file: File in an existing folder.
            arguments: Fingerprint of the arguments of the estimate.
        """
        self.file, self.arguments = checkpoint_file(file), arguments
        self.solves: list[Solve] = []
        self.unfinished: Solve | None = None
        self.position = 0  # of the next solve
        self.next_time = 0.0  # from which on an unfinished solve is written again [s]
        if self.file.exists():
            self._read()

    def _read(self) -> None:
        content = read_checkpoint(self.file, "gs.estimate")
        if not isinstance(content, dict) or set(content) != {"arguments", "solves", "unfinished"}:
            raise InvalidInput("checkpoint", str(self.file), "must be a checkpoint of gs.estimate")
        if content["arguments"] != self.arguments:
            remedy = "belongs to an estimate with another scene, other observations, options or another version"
            raise InvalidInput("checkpoint", str(self.file), f"{remedy}: delete it, or choose another file")
        self.solves, self.unfinished = content["solves"], content["unfinished"]

    def find(self, start: torch.Tensor) -> SolverState | None:
        """Returns the result of the next solve if it is in the file and has these starts [K, P]; None otherwise."""
        if self.position == len(self.solves):
            return None
        found = self.solves[self.position]
        if not _same(found["start"], start):  # rounding has led the search elsewhere: the rest is of no use
            del self.solves[self.position :]
            self.unfinished = None
            return None
        self.position += 1
        return _state(found)

    def resume(self, start: torch.Tensor) -> SolverState | None:
        """Returns the last state of an unfinished solve with these starts [K, P]; None if there is none."""
        unfinished = self.unfinished
        return _state(unfinished) if unfinished and _same(unfinished["start"], start) else None

    def save(self, start: torch.Tensor, state: SolverState, *, finished: bool) -> None:
        """Writes the state of the present solve from starts [K, P]; an unfinished one if it can continue from there."""
        begin = time.monotonic()
        if not finished and (not state.memory or begin < self.next_time):
            return
        fields = {item.name: getattr(state, item.name) for item in dataclasses.fields(state)}
        solve = _cloned({"start": start, **fields, "memory": {} if finished else _cloned(state.memory)})
        self.unfinished = None if finished else solve
        if finished:
            self.solves.append(solve)
            self.position = len(self.solves)
        content = {"arguments": self.arguments, "solves": self.solves, "unfinished": self.unfinished}
        write_checkpoint(self.file, content)
        self.next_time = time.monotonic() + (time.monotonic() - begin) / EFFORT


def _state(solve: Solve) -> SolverState:
    return SolverState(**{name: value for name, value in solve.items() if name != "start"})


def _cloned(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in values.items()}


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(((a - b).abs() <= SAME_START).all())


def fingerprint(*values: Any) -> str:
    """Returns a text that is equal for equal arguments of this version of gradsim: a hash of all their numbers."""
    digest = hashlib.blake2b(__version__.encode(), digest_size=16)
    for part in _parts(values):
        digest.update(part)
    return digest.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    """Yields bytes that identify a value; every container yields its length first, so that they are unambiguous."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        yield f"array {value.shape} {value.dtype}".encode()
        if value.dtype == object:  # components of which some are unknown: the bytes would be addresses
            yield from _parts(value.ravel().tolist())
        else:
            yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, Observation):
        yield type(value).__name__.encode()
        yield from _parts(vars(value)["_arguments"])
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value).__qualname__.encode()
        yield from _parts({item.name: getattr(value, item.name) for item in dataclasses.fields(value) if item.compare})
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}".encode()
        for key, item in value.items():
            yield from _parts(key)
            yield from _parts(item)
    elif isinstance(value, (list, tuple)):
        yield f"list {len(value)}".encode()
        for item in value:
            yield from _parts(item)
    elif callable(value):
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}".encode()
    else:
        yield f"{type(value).__name__} {value!r}".encode()

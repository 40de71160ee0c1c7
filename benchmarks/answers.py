"""Time to answer: seconds and memory of whole estimates, from an observation to values with intervals.

Every question is asked in a process of its own, twice: the first time with compiled kernels on disk, the second time
with everything in memory. Recordings are made with another integrator or a finer step than the fit uses, with noise, or
are real. Peers get the same video and the same starts.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
from rich.table import Table

import gradsim as gs
from benchmarks.answer_peers import PEER_SECONDS, PEERS, PeerRow, ask_peer
from benchmarks.questions import QUESTIONS
from benchmarks.report import Progress, Requirement, Section, footer, new_table, no_progress
from benchmarks.timing import Machine, this_machine
from gradsim.datasets.recording import soft_ground

MEMORY = 600e6  # required: most memory of an estimate from a video beyond imports [bytes]


@dataclass(frozen=True)
class AnswerRow:
    """Cost and accuracy of the answer to one question."""

    question: str
    first: float  # in a new process, kernels compiled [s]
    again: float  # [s]
    cpu: float  # of the second time [s]
    memory: float  # largest, beyond imports [bytes]
    error: float | None  # largest relative error of a value
    half_width: float  # median, relative
    offset: float | None  # largest distance of the truth from the middle of the interval, in half widths
    status: str
    max_seconds: float | None


@dataclass(frozen=True)
class AnswerResults:
    """The measurements, and the machine they were made on."""

    rows: tuple[AnswerRow, ...]
    peers: tuple[PeerRow, ...]
    left_out: tuple[str, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        return {
            "machine": asdict(self.machine),
            "rows": [asdict(row) for row in self.rows],
            "peers": [asdict(row) for row in self.peers],
            "left out": self.left_out,
        }


def measure_answers(
    data: Path | None = None, *, peers: bool = True, only: str = "", progress: Progress = no_progress
) -> AnswerResults:
    """Asks all questions, each in a new process.

    Args:
        data: Folder of real recordings; their questions are left out if None.
        peers: Whether CMA-ES and Adam get three of the videos too.
        only: Part of the names of the questions that are asked.
        progress: Called with one line before each measurement.
    """
    chosen = {name: question for name, question in QUESTIONS.items() if only in name}
    left_out = tuple(name for name, question in chosen.items() if question.needs_data and data is None)
    available = [peer for peer in PEERS if peer != "CMA-ES" or find_spec("cma") is not None]  # of the extra bench
    rows, others = [], []
    for name, question in chosen.items():
        if name in left_out:
            continue
        progress(name)
        rows.append(_in_new_process(_answer, name, data))
        if peers and question.has_peers:
            for peer in available:
                progress(f"{name}: {peer}")
                others.append(_in_new_process(ask_peer, name, peer, rows[-1].half_width))
    return AnswerResults(tuple(rows), tuple(others), left_out, this_machine("torch", "warp-lang"))


def _in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _answer(name: str, data: Path | None) -> AnswerRow:
    warnings.simplefilter("ignore")
    question = QUESTIONS[name]
    imported = _memory("VmRSS")
    asked = question.ask(data)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak of the memory
    begin = perf_counter()
    with soft_ground():
        asked.estimate()
        first, peak = perf_counter() - begin, _memory("VmHWM")
        begin, cpu = perf_counter(), process_time()
        fit = asked.estimate()
    again, cpu = perf_counter() - begin, process_time() - cpu
    widths = [_half_widths(fit, path) / fit.values[path].abs() for path in fit.intervals]
    error = max((float(_relative_errors(fit, path, true).max()) for path, true in asked.truth.items()), default=None)
    offset = max((float(_offsets(fit, path, true).max()) for path, true in asked.truth.items()), default=None)
    half_width = float(torch.cat([width.flatten() for width in widths]).median())
    status = f"{fit.status}{', certain' if fit.certain else ''}"
    used = peak - imported
    return AnswerRow(name, first, again, cpu, used, error, half_width, offset, status, question.max_seconds)


def _memory(field: str) -> float:
    """Returns a field of the process's status [bytes]."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024.0 * next(float(line.split()[1]) for line in lines if line.startswith(field))


def _half_widths(fit: gs.Fit, path: str) -> torch.Tensor:
    low, high = fit.intervals[path]
    return (high - low) / 2


def _relative_errors(fit: gs.Fit, path: str, true: Any) -> torch.Tensor:
    true = torch.as_tensor(true, dtype=torch.float64)
    return (fit.values[path] - true).abs() / true.abs()


def _offsets(fit: gs.Fit, path: str, true: Any) -> torch.Tensor:
    low, high = fit.intervals[path]
    return (torch.as_tensor(true, dtype=torch.float64) - (low + high) / 2).abs() / _half_widths(fit, path)


def requirements(results: AnswerResults) -> list[Requirement]:
    """Returns the requirements for which there are measurements."""
    found = []
    for row in results.rows:
        if row.max_seconds is not None:
            met = row.again <= row.max_seconds
            found.append(
                Requirement(f"answers: {row.question}: at most {row.max_seconds:g} s", f"{row.again:.1f} s", met)
            )
    if results.rows:
        most = max(results.rows, key=lambda row: row.memory)
        text = f"answers: at most {MEMORY / 1e6:.0f} MB beyond imports"
        found.append(Requirement(text, f"{most.memory / 1e6:.0f} MB ({most.question})", most.memory <= MEMORY))
    return found


def section(results: AnswerResults) -> Section:
    """Returns the section of the report."""
    return Section("Time to answer", table(results), results.as_dict(), tuple(requirements(results)))


def table(results: AnswerResults) -> Table:
    """Returns the measurements as a table."""
    heads = ("question", "first\ns", "again\ns", "CPU\ns", "memory\nMB", "error", "half\nwidth", "offset", "status")
    found = new_table("Seconds and memory from an observation to values with intervals", heads)
    for row in results.rows:
        error, offset = ("" if value is None else f"{value:.2g}" for value in (row.error, row.offset))
        numbers = (f"{row.first:.1f}", f"{row.again:.1f}", f"{row.cpu:.1f}", f"{row.memory / 1e6:.0f}")
        found.add_row(row.question, *numbers, error, f"{row.half_width:.2g}", offset, row.status)
        for peer in results.peers:
            if peer.question == row.question:
                cells = (
                    "",
                    f"{peer.seconds:.1f}",
                    "",
                    "",
                    f"{peer.error:.2g}",
                    "",
                    "",
                    f"{peer.simulations} simulations",
                )
                found.add_row(f"  {peer.peer}", *cells)
    left_out = (
        f"\nleft out, --data gives the real recordings: {', '.join(results.left_out)}" if results.left_out else ""
    )
    found.caption = (
        "error: largest relative one; half width: median, relative; offset: of the truth from the middle of the "
        "interval, in half widths\n"
        f"peers stop when as accurate as our half width, or after {PEER_SECONDS:g} s{left_out}\n"
        f"{footer(results.machine)}"
    )
    return found

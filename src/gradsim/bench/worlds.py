"""What a second core gives: batches of 16 worlds on one thread and on two, beside what the machine itself can give."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from rich.table import Table

import gradsim as gs
from gradsim.bench.cloth import CELLS as SHEETS
from gradsim.bench.cloth import Sheet
from gradsim.bench.physics import CELLS as BEAMS
from gradsim.bench.physics import Beam
from gradsim.bench.result import Bar, footer, new_table, pair, rollout_steps
from gradsim.bench.rigid import Cubes
from gradsim.bench.timing import Machine, both_ways, least_times, this_machine
from gradsim.simulate.assemble import assemble
from gradsim.simulate.layout import worlds_together

WORLDS = 16
CUBE_STEPS = 48_000  # a batch of cubes takes a quarter of a microsecond a step, a call as much as thousands of them
SPEEDUP = 1.7  # least, where a batch can be cut in two


@dataclass(frozen=True)
class Batch:
    """Worlds that differ in their parameters."""

    scene: gs.Scene
    simulate: Callable[[gs.Scene, int], torch.Tensor]  # positions after some steps [m]
    unknowns: tuple[torch.Tensor, ...]
    weights: torch.Tensor  # of the positions in the loss
    steps: int

    @property
    def shares(self) -> int:
        """Shares that are worth a thread: worlds in the lanes of a march take as long as one of them."""
        assembly = assemble(self.scene)
        together = worlds_together(assembly.topology, assembly.dtype, assembly.device)
        return -(-assembly.world_count // together)

    def calls(self, steps: int) -> dict[str, Callable[[], object]]:
        return both_ways(lambda: self.simulate(self.scene, steps), self.unknowns, self.weights)

    def results(self, steps: int) -> list[torch.Tensor]:
        """The end of the rollout and its gradients."""
        end = self.simulate(self.scene, steps)
        return [end.detach(), *torch.autograd.grad((end * self.weights).sum(), self.unknowns)]


def _beam(dtype: torch.dtype) -> Batch:
    beam = Beam(BEAMS[1000])
    mu, lam = (_spread(values) for values in beam.lame(dtype))
    weights = torch.as_tensor(beam.weights, dtype=dtype)
    return Batch(beam.scene(mu, lam), beam.simulate, (mu, lam), weights, rollout_steps(1000))


def _sheet(dtype: torch.dtype) -> Batch:
    sheet = Sheet(SHEETS[512])
    unknowns = {name: _spread(values) for name, values in sheet.unknowns(dtype).items()}
    weights = torch.as_tensor(sheet.weights, dtype=dtype)
    return Batch(sheet.scene(unknowns), sheet.simulate, tuple(unknowns.values()), weights, rollout_steps(512))


def _cubes(dtype: torch.dtype) -> Batch:
    cubes = Cubes(WORLDS)
    unknowns = {name: values.requires_grad_() for name, values in cubes.unknowns(dtype).items()}
    weights = torch.as_tensor(cubes.weights, dtype=dtype)
    return Batch(cubes.scene(unknowns), cubes.simulate, tuple(unknowns.values()), weights, CUBE_STEPS)


def _spread(values: torch.Tensor) -> torch.Tensor:
    """Values of the elements [E], somewhat different in every world [WORLDS, E]."""
    factors = torch.linspace(0.9, 1.1, WORLDS, dtype=values.dtype)
    return (factors[:, None] * values).requires_grad_()


SCENES: dict[str, Callable[[torch.dtype], Batch]] = {
    "beam of 1,000 tets": _beam,
    "sheet of 512 triangles": _sheet,
    "cube on a plane": _cubes,
}


@dataclass(frozen=True)
class Times:
    """Least times of a rollout [s]."""

    forward: float
    both: float  # forward and backward

    def __truediv__(self, other: Times) -> Times:
        return Times(self.forward / other.forward, self.both / other.both)

    def __rmul__(self, factor: float) -> Times:
        return Times(factor * self.forward, factor * self.both)


@dataclass(frozen=True)
class Row:
    """One scene and precision."""

    scene: str
    dtype: str
    steps: int
    shares: int  # that the batch can be cut into with profit
    one: Times  # on one thread
    two: Times  # on two threads
    beside: Times  # on one thread, while another process works through the same batch on a thread of its own
    equal: bool  # whether threads change no bit of the end and of its gradients

    @property
    def speedup(self) -> Times:
        return self.one / self.two

    @property
    def ceiling(self) -> Times:
        """What two processes that share nothing get done together, in units of one alone."""
        return 2.0 * (self.one / self.beside)


@dataclass(frozen=True)
class Bench:
    """What was measured, and on what."""

    rows: tuple[Row, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = [{**asdict(r), "speedup": asdict(r.speedup), "ceiling": asdict(r.ceiling)} for r in self.rows]
        return {"machine": asdict(self.machine), "worlds": WORLDS, "rows": rows}


def bench_worlds(
    scenes: Sequence[str] = tuple(SCENES),
    *,
    dtypes: Sequence[str] = ("float32", "float64"),
    steps: int | None = None,
    seconds: float = 1.0,
    progress: Callable[[str], None] = lambda text: None,
) -> Bench:
    """Measure batches on one thread and on two, and one thread beside a busy process.

    Args:
        scenes: What to simulate, of `SCENES`.
        dtypes: "float32" and "float64".
        steps: Steps of a rollout; as many as the scene has in other benches if None, 48,000 of cubes.
        seconds: Time spent on each number [s].
        progress: Called with a line before each measurement.
    """
    rows = []
    before = torch.get_num_threads()
    try:
        for scene in scenes:
            for dtype in dtypes:
                progress(f"{WORLDS} worlds of a {scene}, {dtype}")
                rows.append(_row(scene, dtype, steps, seconds))
    finally:
        torch.set_num_threads(before)
    return Bench(tuple(rows), this_machine("torch", "warp-lang"))


def _row(scene: str, dtype: str, steps: int | None, seconds: float) -> Row:
    batch = SCENES[scene](getattr(torch, dtype))
    steps = steps or batch.steps
    calls: dict[str, Callable[[], object]] = {}
    with _neighbour(scene, dtype, steps) as beside:
        for name, call in batch.calls(steps).items():
            calls[f"{name} one"] = _on(1, call)
            calls[f"{name} two"] = _on(2, call)
            calls[f"{name} beside"] = _on(1, beside(call))
        least = least_times(calls, seconds=seconds)
    times = {way: Times(least[f"forward {way}"], least[f"both {way}"]) for way in ("one", "two", "beside")}
    results = [_on(threads, lambda: batch.results(steps))() for threads in (1, 2)]
    equal = all(map(torch.equal, *results))
    return Row(scene=scene, dtype=dtype, steps=steps, shares=batch.shares, equal=equal, **times)


def _on(threads: int, call: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        torch.set_num_threads(threads)
        return call()

    return run


@contextlib.contextmanager
def _neighbour(scene: str, dtype: str, steps: int) -> Iterator[Callable[[Callable[[], object]], Callable[[], object]]]:
    """A process that works through the same batch, forward and back, while a call that it is put beside lasts."""
    spawn = multiprocessing.get_context("spawn")
    mine, its = spawn.Pipe()
    process = spawn.Process(target=_keep_busy, args=(its, scene, dtype, steps), daemon=True)
    process.start()
    assert process.pid is not None
    pid = process.pid

    def beside(call: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            os.kill(pid, signal.SIGCONT)
            try:
                call()
            finally:
                os.kill(pid, signal.SIGSTOP)

        return run

    try:
        its.close()  # its own end is the only one left: recv() fails if the process ends
        mine.recv()
        os.kill(pid, signal.SIGSTOP)
        yield beside
    finally:
        process.kill()
        process.join()


def _keep_busy(ready: Connection, scene: str, dtype: str, steps: int) -> None:
    torch.set_num_threads(1)
    both = SCENES[scene](getattr(torch, dtype)).calls(steps)["both"]
    both()
    ready.send(True)
    while True:
        both()


def bars(bench: Bench) -> list[Bar]:
    """What must hold: the speed-up wherever there are two shares, and the last bit everywhere."""
    found = []
    for row in (row for row in bench.rows if row.shares > 1):
        least = min(row.speedup.forward, row.speedup.both)
        most = min(row.ceiling.forward, row.ceiling.both)
        text = f"worlds: {WORLDS} of a {row.scene}, {row.dtype}: two threads at least {SPEEDUP} times as fast"
        found.append(Bar(text, f"{least:.2f}, and two processes {most:.2f}", least >= SPEEDUP))
    same = sum(row.equal for row in bench.rows)
    text = "worlds: states and gradients on two threads are bitwise equal"
    return [*found, Bar(text, f"{same} of {len(bench.rows)} are", same == len(bench.rows))]


def table(bench: Bench) -> Table:
    """The measurements for a terminal."""
    title = f"{WORLDS} worlds on one thread and on two, milliseconds a rollout: forward / with backward"
    headings = ("world", "dtype", "steps", "one thread", "two threads", "speed-up", "two\nprocesses", "bitwise\nequal")
    result = new_table(title, headings)
    for row in bench.rows:
        times = [pair(1e3 * time.forward, 1e3 * time.both, ".1f") for time in (row.one, row.two)]
        ratios = [pair(ratio.forward, ratio.both, ".2f") for ratio in (row.speedup, row.ceiling)]
        result.add_row(row.scene, row.dtype, f"{row.steps:,}", *times, *ratios, "yes" if row.equal else "NO")
    whole = sorted({f"a {row.scene} in {row.dtype}" for row in bench.rows if row.shares == 1})
    alone = f"{WORLDS} worlds of {', '.join(whole)} fill one block of lanes: a second thread has nothing to take"
    remark = "two processes: what two of them, each with one thread and the whole batch, get done in the time of one"
    result.caption = footer(bench.machine, remark, alone if whole else None)
    return result

"""Commands that are killed at random moments: files must be whole or absent, and a resumed run must end with the same.

A server process imports gradsim once and forks a child for each run, which needs no import of its own. The server never
simulates, so that no thread exists when it forks.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WATCHED = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree")  # audit events
TIMES = ("seconds", "s", "CPU s")  # keys and columns that differ from run to run
KILLED, LIMIT = -9, 600.0  # exit code; longest run [s]
LONGEST_PAUSE = 1.0  # between two looks at a child; a longer one means that the machine was suspended [s]


@dataclass(frozen=True)
class Command:
    """A command that writes into the folder it is started in."""

    name: str
    arguments: tuple[str, ...]
    inputs: Callable[[Path], None] = lambda folder: None  # writes the files that it reads
    weight: int = 1  # share of the kills


@dataclass
class Kill:
    """The moment of a kill: after a time, or at a certain operation on files of the folder."""

    seconds: float = LIMIT
    operation: int = sys.maxsize


@dataclass
class Outcome:
    """What happened to a command that was killed until it was done."""

    kills: int = 0
    runs: int = 0
    faults: list[str] = field(default_factory=list)


def check_server() -> None:
    """Raises if threads exist, which a fork would not copy."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"{threads} threads exist: set OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1")


def start_child(function: Callable[[], None], log: Path) -> int:
    """Runs a function in a forked child, which writes its output to a file. Returns the child's process number."""
    child = os.fork()
    if child == 0:
        _run_child(function, log)
    return child


def in_child(function: Callable[[], None], log: Path, kill: Kill | None = None) -> int:
    """Runs a function in a forked child that is killed at some moment. Returns its exit code, -9 if it was killed."""
    return _watched_child(function, log, kill)[0]


def _watched_child(function: Callable[[], None], log: Path, kill: Kill | None) -> tuple[int, float]:
    """Runs a function as `in_child`. Returns its exit code and how long it ran [s].

    Time in which this process did not run either, because the machine or both were suspended, does not count.
    """
    child = start_child(function, log)
    limit, seconds, last = LIMIT if kill is None else min(kill.seconds, LIMIT), 0.0, time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), seconds
        if seconds >= limit:
            os.killpg(child, signal.SIGKILL)  # worker processes too
            os.waitpid(child, 0)
            return KILLED, seconds
        time.sleep(0.002)
        now = time.monotonic()
        seconds, last = seconds + min(now - last, LONGEST_PAUSE), now


def _run_child(function: Callable[[], None], log: Path) -> None:
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code: Any = 0
    try:
        function()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


def run_command(
    command: Command, folder: Path, log: Path, kill: Kill | None = None, *, file_size: int | None = None
) -> tuple[int, int, float]:
    """Runs a command in a folder. Returns its exit code, the number of its operations on files there, and its time [s].

    Args:
        command: Command.
        folder: Folder that it starts in.
        log: File for its output; the number of operations is written beside it.
        kill: When to kill it; None for never.
        file_size: Largest file that it can write [bytes], which fails as on a full disk; None for no limit.
    """
    count = log.with_suffix(".count")
    count.unlink(missing_ok=True)

    def run() -> None:
        from gradsim.cli.app import main

        os.chdir(folder)
        if file_size is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
        _watch(folder, sys.maxsize if kill is None else kill.operation, count if kill is None else None)
        sys.argv = ["gradsim", *command.arguments]
        main()

    code, seconds = _watched_child(run, log, kill)
    return code, len(count.read_bytes()) if count.exists() else 0, seconds


def _watch(folder: Path, fatal: int, count: Path | None) -> None:
    """Kills this process at an operation on the files of a folder; writes a byte to `count` for each operation."""
    place, number = str(folder.resolve()), 0
    counter = None if count is None else os.open(count, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal number
        if event not in WATCHED or not isinstance(arguments[0], (str, Path)):
            return
        if not os.path.abspath(arguments[0]).startswith(place):
            return
        number += 1
        if counter is not None:
            os.write(counter, b".")
        if number == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


class KillTest:
    """Kills a command until it is done, and compares what it wrote with that of a run that was not killed."""

    def __init__(self, command: Command, folder: Path):
        """Runs the command undisturbed, in a new folder below `folder`."""
        self.command, self.folder = command, folder
        self.log = folder / "output.txt"
        self.inputs = folder / "inputs"
        self._make_inputs()
        self.reference = self._new_folder("reference")
        code, self.operations, self.seconds = run_command(command, self.reference, self.log)
        if code not in (0, 1):  # 1: a claim of an experiment does not hold
            raise RuntimeError(f"{command.name}: exit code {code}\n{self.log.read_text()[-2000:]}")
        self.code = code

    def _make_inputs(self) -> None:
        self.inputs.mkdir()
        log = self.folder / "inputs.txt"
        if in_child(lambda: self.command.inputs(self.inputs), log):
            raise RuntimeError(f"{self.command.name}: {log.read_text()[-2000:]}")

    def _new_folder(self, name: str) -> Path:
        return Path(shutil.copytree(self.inputs, self.folder / name))

    def run(self, seed: str, kills: int) -> Outcome:
        """Kills the command up to `kills` times, then lets it finish."""
        chance, outcome = random.Random(seed), Outcome()
        folder = self._new_folder("killed")
        while True:
            kill = self._moment(chance) if outcome.kills < kills else None
            code, _, _ = run_command(self.command, folder, self.log, kill)
            outcome.runs += 1
            if code != KILLED:
                break
            outcome.kills += 1
            outcome.faults += self._in_child(lambda: list(damaged_files(folder)))
        if code != self.code:
            outcome.faults.append(f"exit code {code} after a kill: {self.log.read_text()[-500:]}")
        outcome.faults += self._in_child(lambda: list(differences(self.reference, folder)))
        shutil.rmtree(folder)
        return outcome

    def _moment(self, chance: random.Random) -> Kill:
        if chance.random() < 0.5:
            return Kill(seconds=chance.uniform(0.0, self.seconds))
        return Kill(operation=chance.randint(1, max(1, self.operations)))

    def _in_child(self, function: Callable[[], list[str]]) -> list[str]:
        """Returns the lines that a function finds; decoders start threads, so it runs in a child."""
        log = self.folder / "check.txt"
        code = in_child(lambda: print("\n".join(function())), log)
        lines = [line for line in log.read_text().splitlines() if line]
        return lines if code == 0 or lines else [f"check failed with exit code {code}"]


def damaged_files(folder: Path) -> Iterator[str]:
    """Yields a line for each file that is not whole; temporary folders of a killed process do not count."""
    for file in _files(folder):
        if any(part.startswith(".") for part in file.relative_to(folder).parts):
            continue
        try:
            READERS.get(file.suffix, Path.read_bytes)(file)
        except Exception as error:
            yield f"{file.relative_to(folder)} is damaged: {type(error).__name__}: {error}"


def differences(expected: Path, found: Path) -> Iterator[str]:
    """Yields a line for each file that is missing, left over or has other numbers."""
    names = [{path.relative_to(folder) for path in folder.rglob("*")} for folder in (expected, found)]
    yield from (f"{name} is missing" for name in sorted(names[0] - names[1]))
    yield from (f"{name} is left over" for name in sorted(names[1] - names[0]))
    for name in sorted(names[0] & names[1]):
        read = READERS.get(name.suffix, Path.read_bytes)
        if (expected / name).is_file() and read(expected / name) != read(found / name):
            yield f"{name} differs"


def _files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.is_file()]


def _read_json(file: Path) -> Any:
    return _without_times(json.loads(file.read_text()))


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(item) for key, item in value.items() if key not in TIMES}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def _read_yaml(file: Path) -> Any:
    import yaml

    return yaml.safe_load(file.read_text())


def _read_arrays(file: Path) -> Any:
    import numpy as np

    with np.load(file) as arrays:
        return {name: (array.shape, array.dtype.str, array.tobytes()) for name, array in arrays.items()}


def _read_video(file: Path) -> Any:
    import gradsim as gs

    return gs.load_video(file).frames.numpy().tobytes()


def _read_table(file: Path) -> Any:
    text = file.read_text()
    if not text.endswith("\n"):
        raise ValueError("the last line is not complete")
    return [{key: cell for key, cell in row.items() if key not in TIMES} for row in csv.DictReader(io.StringIO(text))]


def _read_page(file: Path) -> None:
    """Pages state times and are not compared."""
    if not file.read_text(encoding="utf-8").rstrip().endswith("</html>"):
        raise ValueError("the end of the page is missing")


def _read_checkpoint(file: Path) -> None:
    import torch

    torch.load(file, weights_only=True)


def write_recording(folder: Path, count: int = 1) -> None:
    """Writes a scene file and noisy videos of a box that falls, slides and turns, with unknown friction and speed."""
    import torch

    import gradsim as gs

    def fallen(mu: Any, speed: Any) -> gs.Scene:
        box = gs.Rigid("box", gs.meshes.box(0.4), 1.0, position=(0.0, 0.35, 0.0), velocity=(speed, 0.0, 0.2))
        camera = gs.Camera(eye=(0.0, 0.8, 3.0), target=(0.0, 0.3, 0.0), fov=45)
        return gs.Scene([box], ground=gs.Ground(ke=1500.0, kd=20.0, mu=mu), camera=camera)

    unknown = fallen(gs.unknown(0.2, low=0.05, high=1.0), gs.unknown(0.8, low=0.0, high=3.0))
    unknown.save(folder / "scene.yaml", time=gs.Time(frames=6, fps=20, substeps=32))
    for number in range(count):
        truth = fallen(0.4, 1.2 + 0.2 * number)
        motion = gs.simulate(truth, frames=6, fps=20, substeps=48, integrator=gs.RungeKutta4())
        frames = gs.render(truth, motion, (12, 12))
        noise = torch.randn(frames.shape, generator=torch.Generator().manual_seed(number), dtype=frames.dtype)
        gs.save_video(folder / f"video{number}.npz", frames + 0.01 * noise, 20.0)


def _write_many(folder: Path) -> None:
    write_recording(folder, 3)
    rows = "".join(f"video{number}.npz,scene.yaml\n" for number in range(3))
    (folder / "many.csv").write_text(f"video,scene\n{rows}")


DATASET = ("dataset", "rigid", "--size", "16", "--frames", "4", "-o", "set")
COMMANDS = (
    Command(
        "estimate",
        ("estimate", "scene.yaml", "video0.npz", "-o", "out", "--corrections", "1", "--resume"),
        write_recording,
        60,
    ),
    Command("estimate --many", ("estimate", "--many", "many.csv", "-o", "fits", "--corrections", "0"), _write_many, 40),
    Command("control", ("control", "cloth", "--goal", "hidden", "--iterations", "1", "-o", "out"), weight=20),
    Command("reproduce", ("reproduce", "mass", "--objects", "1", "--json", "rows.json"), weight=15),
    Command("dataset", (*DATASET, "--videos", "4"), weight=60),
    Command("dataset --jobs", (*DATASET, "--videos", "8", "--jobs", "2"), weight=5),
)

READERS: dict[str, Callable[[Path], Any]] = {
    ".json": _read_json,
    ".yaml": _read_yaml,
    ".npz": _read_arrays,
    ".mp4": _read_video,
    ".mkv": _read_video,
    ".csv": _read_table,
    ".html": _read_page,
    ".pt": _read_checkpoint,
}

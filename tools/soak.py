"""An hour of random work in one process: memory, file handles and threads by the minute, results as in fresh processes.

    python tools/soak.py [--minutes 60] [--seed 0] [--checks 0.02] [--file out/soak.md]

simulates, renders, differentiates, fits, and writes and reads files, in random order and with random sizes. A part of
the work is repeated in fresh processes, whose results must be equal to the last bit. Prints a row a minute, and exits
with 1 if a result differs, or if memory or handles grow from the second quarter to the last one. Minutes are those in
which the process computes: other work on the machine makes it take longer, not do less. Ctrl-C ends it early. Needs the
extra `dev`.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GROWTH = 0.05  # of the median memory from the second quarter to the last one, above which it is not flat
HEAD = ("CPU minute", "work items", "memory [MB]", "handles", "threads", "repeated", "different")


@dataclass(frozen=True)
class Reading:
    """What the process holds at the end of a minute."""

    minute: int  # of CPU time
    items: int
    memory: float  # resident [MB]
    handles: int
    threads: int
    repeated: int  # items repeated in fresh processes so far
    different: int

    def row(self) -> str:
        cells = (self.minute, self.items, f"{self.memory:.0f}", self.handles, self.threads)
        return "| " + " | ".join(map(str, (*cells, self.repeated, self.different))) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="CPU time of the process (60)")
    parser.add_argument("--seed", type=int, default=0, help="of the work (0)")
    parser.add_argument("--checks", type=float, default=0.02, help="fraction repeated in fresh processes (0.02)")
    parser.add_argument("--file", type=Path, default=ROOT / "out" / "soak.md", help="for the table (out/soak.md)")
    parser.add_argument("--one", type=int, metavar="SEED", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(digest_of(options.one))
        return 0
    options.file.parent.mkdir(parents=True, exist_ok=True)
    readings = soak(options.minutes, options.seed, options.checks, options.file)
    return judge(readings)


def soak(minutes: float, seed: int, checks: float, file: Path) -> list[Reading]:
    """Works until the time is over, or until Ctrl-C; writes the table after every minute."""
    stopped: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: stopped.append(number))
    begin = time.process_time()
    chance = random.Random(seed)
    items = repeated = different = 0
    readings: list[Reading] = []
    print_row(file, "| " + " | ".join(HEAD) + " |\n" + "|--:" * len(HEAD) + "|", new=True)
    while len(readings) < minutes and not stopped:
        item = chance.randrange(2**31)
        found = digest_of(item)
        items += 1
        if chance.random() < checks:
            repeated += 1
            fresh = digest_in_fresh_process(item)
            if fresh != found:
                different += 1
                print(f"item {item} ({found.split()[0]}) differs from a fresh process", file=sys.stderr, flush=True)
        if time.process_time() - begin >= 60.0 * (len(readings) + 1):
            gc.collect()
            readings.append(Reading(len(readings) + 1, items, *held(), repeated, different))
            print_row(file, readings[-1].row())
    return readings


def held() -> tuple[float, int, int]:
    """Returns resident memory [MB], open file handles and threads of this process."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) / 1e3, len(os.listdir("/proc/self/fd")) - 1, int(status["Threads"])


def print_row(file: Path, text: str, *, new: bool = False) -> None:
    print(text, flush=True)
    with file.open("w" if new else "a", encoding="utf-8") as stream:
        stream.write(text + "\n")


def judge(readings: list[Reading]) -> int:
    """Prints whether memory and handles are flat and results equal; returns 1 if not."""
    if not readings:
        print("interrupted before the first minute")
        return 1
    quarter = max(1, len(readings) // 4)
    early, late = readings[quarter : 2 * quarter] or readings[:1], readings[-quarter:]
    growth = median(late, "memory") / median(early, "memory") - 1.0
    handles = median(late, "handles") - median(early, "handles")
    threads = median(late, "threads") - median(early, "threads")
    print(
        f"memory {growth:+.1%}, handles {handles:+.0f}, threads {threads:+.0f} from the second quarter to the last one"
    )
    return int(growth > GROWTH or handles > 0 or threads > 0 or readings[-1].different > 0)


def median(readings: list[Reading], name: str) -> float:
    return statistics.median(getattr(reading, name) for reading in readings)


def digest_in_fresh_process(item: int) -> str:
    command = [sys.executable, __file__, "--one", str(item)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, start_new_session=True
    ).stdout.strip()


def digest_of(item: int) -> str:
    """Does one item of work; returns its kind and a digest of all numbers and bytes that came out."""
    from tests.robustness.work import WORK

    from gradsim.scene.errors import GradsimError

    chance = random.Random(item)
    name = chance.choice(list(WORK))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f"{name} {digest(WORK[name](chance, Path(folder)))}"
        except GradsimError as error:  # such as a step that is too large for a stiff body
            return f"{name} {digest([str(error).encode()])}"


def digest(results: Iterable[Any]) -> str:
    import torch

    found = hashlib.blake2b(digest_size=16)
    for value in results:
        part = value if isinstance(value, bytes) else torch.as_tensor(value).detach().contiguous().numpy().tobytes()
        found.update(part)
    return found.hexdigest()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())

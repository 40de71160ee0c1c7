"""The standing attack on gradsim: thousands of odd, hostile and damaged inputs, each answered or refused by name.

    python tools/fuzz.py [--cases 10000] [--seed 0] [--folder out/fuzz]

runs portions of cases in processes of their own, forked from one that has all kernels, so that a crash or the memory of
one does not end the others, writes the result of each portion to the folder, and goes on where it was interrupted. It
prints a table and the smallest failing input of each portion, and exits with 1 if any input was neither answered nor
refused by name. Needs the extra `dev`.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import queue
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PORTION = 250  # cases
PORTION_LIMIT = 900.0  # after which a portion counts as a hang [s]
MEMORY_LIMIT = 8 << 30  # of a process [bytes]
CRASH = "crash"
COLUMNS = ("answered", "refused", "raw exception", "not finite", "hang", CRASH)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="number of inputs (10000)")
    parser.add_argument("--seed", type=int, default=0, help="of the inputs (0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "fuzz", help="for results (out/fuzz)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    names = attack_names()
    portions = max(1, round(options.cases / len(names) / PORTION))
    size = -(-options.cases // (len(names) * portions))
    work = [(name, options.seed * 1000 + k) for k in range(portions) for name in names]
    servers = [Server() for _ in range(options.jobs)]
    free: queue.SimpleQueue[Server] = queue.SimpleQueue()
    for server in servers:
        free.put(server)
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda one: _portion_in_process(*one, size, options.folder, free), work))
    for server in servers:
        server.stop()
    return _print_table(names, results)


def attack_names() -> list[str]:
    from tests.robustness.attack import ATTACKS

    return [attack.name for attack in ATTACKS]


def run_portion(kind: str, seed: int, cases: int) -> dict[str, Any]:
    """Tries `cases` inputs of one kind in this process."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from tests.robustness.attack import ATTACKS, Failure, outcome

    attack = next(attack for attack in ATTACKS if attack.name == kind)
    counts: collections.Counter[str] = collections.Counter()
    failures: dict[str, str] = {}

    @seeded(seed)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(attack.inputs)
    def run(value: Any) -> None:
        try:
            counts[outcome(attack, value)] += 1
        except Failure as failure:
            counts[failure.outcome] += 1
            text = repr(value)
            known = failures.get(str(failure))
            failures[str(failure)] = text if known is None or len(text) < len(known) else known

    run()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"kind": kind, "seed": seed, "counts": counts, "failures": failures, "memory": memory}


def serve() -> None:
    """Reads portions line by line and runs each in a child; imports and kernels are loaded once for all.

    Prints a line of JSON for each: the result, or the reason why there is none.
    """
    from tests.robustness.attack import build_kernels
    from tests.robustness.kills import check_server

    build_kernels()
    check_server()
    for line in sys.stdin:
        kind, seed, cases = json.loads(line)
        print(json.dumps(_in_child(kind, seed, cases)), flush=True)


def _in_child(kind: str, seed: int, cases: int) -> dict[str, Any] | str:
    """Returns the result of a portion that runs in a forked child, or the reason why there is none."""
    with tempfile.TemporaryDirectory() as name:
        result, log = Path(name) / "result.json", Path(name) / "log.txt"

        def run() -> None:
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
            result.write_text(json.dumps(run_portion(kind, seed, cases)))

        from tests.robustness.kills import KILLED, Kill, in_child

        code = in_child(run, log, Kill(seconds=PORTION_LIMIT))
        if code == 0:
            return json.loads(result.read_text())  # type: ignore[no-any-return]
        if code == KILLED:
            return f"no end within {PORTION_LIMIT:.0f} s"
        return f"exit code {code}: {log.read_text(errors='replace')[-500:]}"


class Server:
    """A process that runs portions in children of its own."""

    def __init__(self) -> None:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }  # threads do not survive a fork
        command = [sys.executable, __file__, "--serve"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, kind: str, seed: int, cases: int) -> dict[str, Any] | str:
        """Runs a portion."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps((kind, seed, cases)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())  # type: ignore[no-any-return]

    def stop(self) -> None:
        """Ends the process."""
        self.process.communicate()


def _portion_in_process(
    kind: str, seed: int, cases: int, folder: Path, free: queue.SimpleQueue[Server]
) -> dict[str, Any]:
    file = folder / f"{kind.replace(' ', '-')}-{seed}-{cases}.json"
    if file.exists():
        return json.loads(file.read_text())  # type: ignore[no-any-return]
    begin = time.monotonic()
    server = free.get()
    try:
        result = server.run(kind, seed, cases)
    finally:
        free.put(server)
    if isinstance(result, str):
        return {"kind": kind, "seed": seed, "counts": {CRASH: 1}, "failures": {CRASH: result}, "memory": 0}
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(result))
    temporary.replace(file)
    print(f"{kind}, seed {seed}: {dict(result['counts'])} in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return result


def _print_table(names: list[str], results: list[dict[str, Any]]) -> int:
    print(f"{'kind':12}{'tried':>8}" + "".join(f"{column:>15}" for column in COLUMNS) + f"{'memory [MB]':>13}")
    bad = 0
    for name in names:
        own = [result for result in results if result["kind"] == name]
        counts = collections.Counter[str]()
        for result in own:
            counts.update(result["counts"])
        tried, memory = sum(counts.values()), max(result["memory"] for result in own)
        print(f"{name:12}{tried:8d}" + "".join(f"{counts[c]:15d}" for c in COLUMNS) + f"{memory / 1e6:13.0f}")
        bad += tried - counts["answered"] - counts["refused"]
    for result in results:
        for failure, value in result["failures"].items():
            print(f"\n{result['kind']}, seed {result['seed']}: {failure}\n  {value[:2000]}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())

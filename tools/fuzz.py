"""The standing attack on gradsim: thousands of odd, hostile and damaged inputs, each answered or refused by name.

    python tools/fuzz.py [--cases 10000] [--seed 0] [--folder out/fuzz]

runs portions of cases in processes of their own, so that a crash or the memory of one does not end the others, writes
the result of each portion to the folder, and goes on where it was interrupted. It prints a table and the smallest
failing input of each portion, and exits with 1 if any input was neither answered nor refused by name. Needs the extra
`dev`.
"""

from __future__ import annotations

import argparse
import collections
import json
import resource
import subprocess
import sys
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
    parser.add_argument("--portion", nargs=3, metavar=("KIND", "SEED", "CASES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.portion:
        kind, seed, cases = options.portion
        print(json.dumps(run_portion(kind, int(seed), int(cases))))
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    names = attack_names()
    portions = max(1, round(options.cases / len(names) / PORTION))
    size = -(-options.cases // (len(names) * portions))
    work = [(name, options.seed * 1000 + k) for k in range(portions) for name in names]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda one: _portion_in_process(*one, size, options.folder), work))
    return _print_table(names, results)


def attack_names() -> list[str]:
    from tests.robustness.attack import ATTACKS

    return [attack.name for attack in ATTACKS]


def run_portion(kind: str, seed: int, cases: int) -> dict[str, Any]:
    """Tries `cases` inputs of one kind in this process."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from tests.robustness.attack import ATTACKS, Failure, build_kernels, outcome

    build_kernels()
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


def _portion_in_process(kind: str, seed: int, cases: int, folder: Path) -> dict[str, Any]:
    file = folder / f"{kind.replace(' ', '-')}-{seed}-{cases}.json"
    if file.exists():
        return json.loads(file.read_text())  # type: ignore[no-any-return]
    begin = time.monotonic()
    command = [sys.executable, __file__, "--portion", kind, str(seed), str(cases)]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))

    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=PORTION_LIMIT, preexec_fn=limited, check=False
        )
        result = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None  # readers print warnings
        reason = f"exit code {done.returncode}: {done.stderr[-500:]}"
    except subprocess.TimeoutExpired:
        result, reason = None, f"no end within {PORTION_LIMIT:.0f} s"
    if result is None:
        return {"kind": kind, "seed": seed, "counts": {CRASH: 1}, "failures": {CRASH: reason}, "memory": 0}
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(result))
    temporary.replace(file)
    print(f"{kind}, seed {seed}: {dict(result['counts'])} in {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return result  # type: ignore[no-any-return]


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

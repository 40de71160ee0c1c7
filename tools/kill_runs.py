"""Kills long commands at random moments, lets them finish, and compares their files with those of undisturbed runs.

    python tools/kill_runs.py [--kills 200] [--seed 0] [--only estimate]

Half of the kills come after a random time, half at a random operation on files. After each kill every file has to be
whole or absent; at the end no temporary file may be left, and all numbers have to be equal to the last bit. Prints a
table, and exits with 1 if anything was lost, damaged or different. Needs the extra `dev`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 4  # kills of one run until it may finish


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="over all commands (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (0)")
    parser.add_argument("--only", help="the name of one command")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # threads do not survive a fork

    from tests.robustness.kills import COMMANDS, check_server

    import gradsim.cli.app  # noqa: F401  imported before the forks

    check_server()
    commands = [command for command in COMMANDS if options.only in (None, command.name)]
    print(f"{'command':18}{'run [s]':>9}{'operations':>12}{'kills':>8}{'runs':>8}{'faults':>8}", flush=True)
    faults = 0
    total = sum(command.weight for command in commands)
    for number, command in enumerate(commands):
        before = sum(one.weight for one in commands[:number])
        kills = options.kills * (before + command.weight) // total - options.kills * before // total
        with tempfile.TemporaryDirectory() as folder:
            faults += kill_command(command, Path(folder), kills, options.seed)
    return int(faults > 0)


def kill_command(command, folder: Path, kills: int, seed: int) -> int:  # type: ignore[no-untyped-def]
    """Kills a command until it was killed so many times; returns the number of faults."""
    from tests.robustness.kills import KillTest

    test = KillTest(command, folder)
    done = runs = series = 0
    faults: list[str] = []
    while done < kills:
        outcome = test.run(f"{seed} {command.name} {series}", min(MOST, kills - done))
        done, runs, series = done + outcome.kills, runs + outcome.runs, series + 1
        faults += [f"seed {seed}, series {series - 1}: {fault}" for fault in outcome.faults]
    row = f"{command.name:18}{test.seconds:9.1f}{test.operations:12d}{done:8d}{runs:8d}{len(faults):8d}"
    print("\n".join([row, *faults]), flush=True)
    return len(faults)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())

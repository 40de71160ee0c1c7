"""Runs commands on full and read-only disks, and two at once in one folder; prints what happened as JSON.

A script of its own, because the commands run in forked children of a process without threads; see `kills`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
READ_ONLY = Path("/sys/kernel")  # where nobody may create files, not even the administrator
FILE_SIZE = 256  # largest file on the full disk [bytes]
COMMANDS = {
    "simulate": ("simulate", "scene.yaml", "--frames", "3", "--size", "32x32", "-o", "{out}/video.mp4"),
    "estimate": ("estimate", "scene.yaml", "video0.npz", "--corrections", "0", "-o", "{out}"),
    "dataset": ("dataset", "rigid", "--videos", "2", "--size", "16", "--frames", "2", "-o", "{out}"),
}


def main() -> None:
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    sys.path.insert(0, str(ROOT))
    from tests.robustness.kills import check_server, in_child, write_recording

    import gradsim.cli.app  # noqa: F401  imported before the forks

    check_server()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if in_child(lambda: write_recording(folder), folder / "log.txt"):
            raise RuntimeError((folder / "log.txt").read_text())
        for command in COMMANDS:
            out = folder / f"full-{command}"
            out.mkdir()
            found[f"full {command}"] = run(command, folder, out, FILE_SIZE)
            if READ_ONLY.is_dir():
                found[f"read-only {command}"] = run(command, folder, READ_ONLY)
        found["two"] = run_two(folder)
    print(json.dumps(found))


def run(name: str, folder: Path, out: Path, file_size: int | None = None) -> dict[str, Any]:
    """Runs a command; returns its exit code, its output and the files that it left with their sizes."""
    from tests.robustness.kills import Command, run_command

    log = folder / "log.txt"
    command = Command(name, tuple(argument.format(out=out) for argument in COMMANDS[name]))
    code, _, _ = run_command(command, folder, log, file_size=file_size)
    left = {} if out == READ_ONLY else {str(p): p.stat().st_size for p in out.rglob("*") if p.is_file()}
    return {"code": code, "output": log.read_text(), "out": str(out), "left": left}


def run_two(folder: Path) -> dict[str, Any]:
    """Makes the same data set by two processes at once, and by one alone; returns exit codes and differences."""
    from tests.robustness.kills import Command, differences, in_child, run_command, start_child

    def make(name: str) -> None:
        command = Command(name, tuple(argument.format(out=folder / name) for argument in COMMANDS["dataset"]))
        raise SystemExit(run_command(command, folder, folder / f"{name}-{os.getpid()}.txt")[0])

    alone = in_child(lambda: make("alone"), folder / "a.txt")
    both = [start_child(lambda: make("both"), folder / f"{k}.txt") for k in "bc"]
    codes = [alone, *(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in both)]
    log = folder / "log.txt"
    in_child(lambda: print("\n".join(differences(folder / "alone", folder / "both"))), log)
    return {"codes": codes, "differences": log.read_text().split("\n")[:-1]}


if __name__ == "__main__":
    main()

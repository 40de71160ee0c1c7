"""Processes that are killed, and processes that share a folder; tools/kill_runs.py kills many more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradsim.experiments.experiment import Case, Experiment, run_experiment
from gradsim.scene.atomic import MARK, remove_unfinished, write_atomically
from gradsim.scene.errors import InvalidInput

ROOT = Path(__file__).resolve().parent.parent.parent
WRITER = """
import os, signal, sys
from pathlib import Path
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput

def write(target):
    target.mkdir()
    (target / "a.txt").write_text("new")
    print("writing", flush=True)
    sys.stdin.readline()

def stop(event, arguments):
    if event == "os.rename" and Path(arguments[1]).name == "place" and sys.argv[2] == "replacing":
        if sum(1 for _ in Path(sys.argv[1]).glob(".*/.replaced*/place")):
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(stop)
write_atomically(Path(sys.argv[1]) / "place", write, InvalidInput)
"""


def writer(folder: Path, mode: str = "") -> subprocess.Popen[str]:
    """Starts a process that is in the middle of writing folder/place."""
    command = [sys.executable, "-c", WRITER, str(folder), mode]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def test_what_a_killed_process_left_is_removed_and_what_a_running_one_writes_stays(tmp_path):
    killed, running = writer(tmp_path), writer(tmp_path)
    killed.kill()
    killed.communicate()
    assert len(list(tmp_path.glob(f".place{MARK}*"))) == 2
    write_atomically(tmp_path / "other.txt", lambda target: target.write_text("x"), InvalidInput)
    assert len(list(tmp_path.glob(f".*{MARK}*"))) == 1
    running.communicate("\n", timeout=60)
    assert running.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.txt", "place"]


def test_a_process_killed_between_both_moves_of_a_replacement_loses_nothing(tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "a.txt").write_text("old")
    process = writer(tmp_path, "replacing")
    process.communicate("\n", timeout=60)
    assert process.returncode == -9
    assert not (tmp_path / "place").exists()
    remove_unfinished(tmp_path)
    assert (tmp_path / "place" / "a.txt").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


def test_two_processes_write_the_same_folder(tmp_path):
    processes = [writer(tmp_path), writer(tmp_path)]
    for process in processes:
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    assert [path.name for path in tmp_path.rglob("*")] == ["place", "a.txt"]


def test_a_folder_that_another_process_wrote_meanwhile_can_be_kept(tmp_path):
    def write(target: Path) -> None:
        target.mkdir()
        (target / "a.txt").write_text("late")
        (tmp_path / "place").mkdir()
        (tmp_path / "place" / "a.txt").write_text("early")

    write_atomically(tmp_path / "place", write, InvalidInput, keep=True)
    assert (tmp_path / "place" / "a.txt").read_text() == "early"


def test_a_table_that_was_complete_when_its_process_was_killed_is_tidied_up(tmp_path):
    """The second run writes nothing, and removes what the first left."""
    (tmp_path / "rows.json").write_text('{"experiment": "mass", "rows": {"a": {"error": 0.0}}}')
    process = writer(tmp_path)
    process.kill()
    process.communicate()
    assert len(list(tmp_path.iterdir())) == 2
    case = Case("a", lambda progress: pytest.fail("computed again"))
    experiment = Experiment("mass", "Masses", (), (case,), lambda rows: [])
    assert list(run_experiment(experiment, tmp_path / "rows.json")) == [{"error": 0.0}]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


@pytest.mark.parametrize("name", ["estimate", "dataset"])
def test_killed_commands_end_with_the_same_files(name):
    command = [sys.executable, str(ROOT / "tools" / "kill_runs.py"), "--kills", "4", "--only", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, env=os.environ, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

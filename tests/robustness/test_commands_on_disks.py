"""Commands on full and read-only disks: one line that names the file, exit code 2, nothing half written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.robustness.disk_faults import COMMANDS, FILE_SIZE, READ_ONLY


@pytest.fixture(scope="module")
def outcomes():
    """What happened to each command."""
    script = Path(__file__).with_name("disk_faults.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_reported(outcomes, name):
    found = outcomes[f"full {name}"]
    assert found["code"] == 2, found["output"]
    assert "Traceback" not in found["output"]
    assert found["out"] in found["output"]
    assert all(size < FILE_SIZE for size in found["left"].values()), found["left"]


@pytest.mark.skipif(not READ_ONLY.is_dir(), reason="needs Linux")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_read_only_folder_is_reported(outcomes, name):
    found = outcomes[f"read-only {name}"]
    assert found["code"] == 2, found["output"]
    assert "Traceback" not in found["output"]
    assert found["out"] in found["output"]


def test_two_processes_make_one_data_set(outcomes):
    assert outcomes["two"]["codes"] == [0, 0, 0]
    assert outcomes["two"]["differences"] == [""] or outcomes["two"]["differences"] == []

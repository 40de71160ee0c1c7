"""A damaged kernel cache heals by itself."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import warp as wp

from gradsim.kernel_cache import remove_damaged_modules
from gradsim.native import kernel_module

PROGRAM = """
import gradsim as gs
scene = gs.Scene([gs.Pendulum("bob", length=1.0, angle=0.7)])
print(float(gs.simulate(scene, frames=2, fps=10, substeps=1)["bob"].angle[-1]))
"""


def run(cache) -> str:
    environment = {**os.environ, "WARP_CACHE_PATH": str(cache)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no warnings of the compiler
    return done.stdout


def test_cut_empty_and_missing_files(tmp_path):
    answer = run(tmp_path)
    objects = sorted(tmp_path.rglob("wp_gradsim.*/*.o"))
    assert objects
    for k, file in enumerate(objects):
        content = file.read_bytes()
        file.write_bytes((b"", content[: len(content) // 2], content[:-1])[k % 3])
    assert run(tmp_path) == answer
    for file in tmp_path.rglob("wp_gradsim.*/*.meta"):
        file.write_text("{")
    assert run(tmp_path) == answer
    assert remove_damaged_modules(next(tmp_path.rglob("wp_gradsim.*")).parent) == []


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"\0" * 4096])
def test_a_damaged_object_is_removed_with_its_metadata(tmp_path, damage):
    for name in ("wp_gradsim.a", "wp_other.b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.o").write_bytes(damage)
        (tmp_path / name / "a.meta").write_text("{}")
    assert remove_damaged_modules(tmp_path) == ["wp_gradsim.a"]
    assert not list((tmp_path / "wp_gradsim.a").iterdir())
    assert len(list((tmp_path / "wp_other.b").iterdir())) == 2


def test_what_a_killed_process_left_is_removed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    folders = [
        tmp_path / f"wp_gradsim.{name}_0123456_p{number}_t1"
        for name, number in (("a", process.pid), ("b", os.getpid()))
    ]
    for folder in folders:
        folder.mkdir()
        (folder / "a.cpp").write_text("")
    remove_damaged_modules(tmp_path)
    assert all(folder.exists() for folder in folders)  # another machine may be at work there
    for folder in folders:
        os.utime(folder, (0.0, 0.0))
    remove_damaged_modules(tmp_path)
    assert [folder.exists() for folder in folders] == [False, True]


def test_two_processes_share_a_cold_cache(tmp_path):
    command = [sys.executable, "-c", PROGRAM]
    environment = {**os.environ, "WARP_CACHE_PATH": str(tmp_path)}
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = {process.communicate(timeout=300)[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert len(answers) == 1
    assert run(tmp_path) in answers


def test_a_module_that_another_process_is_compiling_is_left_alone(tmp_path):
    building = tmp_path / "wp_gradsim.a_0123456_p77_t140518013225856"
    moving = tmp_path / "wp_gradsim.b"
    for folder in (building, moving):
        folder.mkdir()
    (building / "a.o").write_bytes(b"\x7fELF")  # partly written
    (moving / "b.o").write_bytes(b"\x7fELF")  # moved just now, its metadata come next
    assert remove_damaged_modules(tmp_path) == []
    os.utime(moving / "b.o", (0.0, 0.0))
    assert remove_damaged_modules(tmp_path) == ["wp_gradsim.b"]


def test_a_full_disk_is_named_before_the_compiler_ends_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1000))
    monkeypatch.setattr("warp.config.kernel_cache_dir", str(tmp_path))
    with pytest.raises(OSError, match="No space left on device: the kernel cache needs"):
        kernel_module("missing", wp.float64)
    (tmp_path / "wp_gradsim.present.double_0123456").mkdir()
    (tmp_path / "wp_gradsim.present.double_0123456" / "a.o").write_bytes(b"")
    kernel_module("present", wp.float64)


def test_a_cache_that_cannot_be_written_is_named_with_a_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    environment = {**os.environ, "WARP_CACHE_PATH": str(tmp_path / "file")}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert "the kernel cache cannot be written; WARP_CACHE_PATH may name another folder" in done.stderr

"""Ctrl-C ends long native calls: a rollout of many steps, and the rendering of many large frames."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import gradsim as gs
camera = gs.Camera(eye=(0, 1, 3), target=(0, 1, 0))
scene = gs.Scene([gs.Rigid("ball", gs.meshes.icosphere(0.3, 5), 1.0, position=(0, 1, 0))], camera=camera)
trajectory = gs.simulate(scene, frames=2, fps=10, substeps=1)
gs.render(scene, trajectory, (8, 8))
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted")
"""
CALLS = {  # each takes minutes if it is not interrupted
    "simulate": "gs.simulate(scene, frames=3, fps=10, substeps=20_000_000)",
    "render": "gs.render(scene, trajectory, (512, 512), frames=[0, 1] * 500)",
}


@pytest.mark.parametrize("name", CALLS)
def test_a_long_call_is_interrupted(name):
    program = PROGRAM.format(call=CALLS[name])
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=1.0)  # the call is running
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60.0)
        finally:
            process.kill()
    assert output == "interrupted\n"


COMPILING = """
import os, sys
from pathlib import Path
import gradsim as gs

cloth = gs.Cloth("sheet", gs.meshes.grid(0.5, 2), mass=0.1)
ball = gs.Ball("ball", radius=0.1, mass=1.0, position=(0, -0.2, 0))
scene = gs.Scene([cloth, ball], forces=[gs.NodeContact("touch", "sheet", "ball")])
print("ready", flush=True)
try:
    gs.simulate(scene, frames=2, fps=100, substeps=4)
except KeyboardInterrupt:
    found = list(Path(os.environ["WARP_CACHE_PATH"]).rglob("wp_gradsim.world_rollout*/*.o"))
    print("interrupted while compiling" if not found else "interrupted too late", flush=True)
    os._exit(0)
"""


def test_waiting_for_the_compiler_is_interrupted(tmp_path):
    """The rollout of cloth and rigid bodies takes tens of seconds to compile."""
    environment = {**os.environ, "WARP_CACHE_PATH": str(tmp_path)}
    command = [sys.executable, "-c", COMPILING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            while not list(tmp_path.rglob("wp_gradsim.world_rollout*/*.cpp")) and process.poll() is None:
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=300.0)
        finally:
            process.kill()
    assert output == "interrupted while compiling\n"


@pytest.mark.parametrize("delay", [0.2, 0.8])
def test_an_interrupt_during_the_import_prints_nothing(delay):
    program = "import gradsim_command; print('importing', flush=True); gradsim_command.main()"
    command = [sys.executable, "-c", program, "--version"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        try:
            process.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60.0)
    assert "Traceback" not in errors
    assert process.returncode == -signal.SIGINT or output  # the process may have finished first

"""Ctrl-C ends long native calls: a rollout of many steps, and the rendering of many large frames."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest
import torch

import gradsim as gs

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


INTERRUPTS = 120


def differentiated(number):
    """The value and gradient of a small video; each number needs other arrays and graphs."""
    mass = torch.tensor(1.0 + 0.1 * number, dtype=torch.float64, requires_grad=True)
    boxes = [gs.Rigid(f"box{k}", gs.meshes.box(0.3), mass, position=(0.1 * k, 0.3 + 0.4 * k, 0.0)) for k in range(2)]
    cloth = gs.Cloth("cloth", gs.meshes.grid(0.4, 3), mass=0.1 * mass, position=(0.0, 1.0, 0.0))
    camera = gs.Camera(eye=(0.0, 0.8, 3.0), target=(0.0, 0.3, 0.0), fov=45)
    bodies = [boxes[:1], boxes, [cloth]][number % 3]
    scene = gs.Scene(bodies, ground=gs.Ground(ke=1500.0, kd=20.0, mu=0.4), camera=camera)
    motion = gs.simulate(scene, frames=3 + number % 5, fps=200, substeps=128 + number % 7)
    loss = gs.render(scene, motion, (8 + number % 4, 12)).square().sum()
    loss.backward()
    return loss.item(), mass.grad.item()


def test_results_after_an_interrupt_are_those_without():
    chance = random.Random(0)
    begin = time.perf_counter()
    expected = [differentiated(number) for number in range(60)]
    duration = (time.perf_counter() - begin) / len(expected)
    interrupted = 0

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(INTERRUPTS):
            number = chance.randrange(len(expected))
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-4, duration))
                differentiated(number)
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            except KeyboardInterrupt:
                interrupted += 1
            assert differentiated(number) == expected[number]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > INTERRUPTS // 10

"""Threads and forked processes that use gradsim at the same time or after each other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch

import gradsim as gs

PROGRAM = """
import os, sys
import torch
import gradsim as gs

torch.set_num_threads(2)

def gradient():
    mass = torch.linspace(1.0, 2.0, 24, dtype=torch.float64, requires_grad=True)
    box = gs.Rigid("box", gs.meshes.box(0.3), mass, position=(0, 1, 0), pushes=[gs.Push(force=(1.0, 0.0, 0.0))])
    scene = gs.Scene([box], camera=gs.Camera(eye=(0, 1, 3), target=(0, 1, 0)))
    motion = gs.simulate(scene, frames=3, fps=20, substeps=8)
    (gs.render(scene, motion, (12, 12)).sum() + motion["box"].position.sum()).backward()
    return mass.grad.numpy().tobytes().hex()

first = gradient()
children = []
for _ in range(2):
    end, begin = os.pipe()
    if os.fork() == 0:
        os.write(begin, gradient().encode())
        os._exit(0)
    os.close(begin)
    children.append(end)
print(all(os.fdopen(end).read() == first for end in children), gradient() == first)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_wait_for_threads_of_its_parent():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "True True\n", done.stderr[-2000:]


def _gradients(worlds: int) -> list[torch.Tensor]:
    """Gradients of one scene, again and again."""
    found = []
    for _ in range(10):
        mass = torch.linspace(1.0, 2.0, worlds, dtype=torch.float64, requires_grad=True)
        box = gs.Rigid("box", gs.meshes.box(0.3), mass, position=(0, 1, 0), pushes=[gs.Push(force=(1.0, 0.0, 0.0))])
        scene = gs.Scene([box], camera=gs.Camera(eye=(0, 1, 3), target=(0, 1, 0)))
        motion = gs.simulate(scene, frames=3, fps=20, substeps=8)
        (gs.render(scene, motion, (12, 12)).sum() + motion["box"].position.sum()).backward()
        assert mass.grad is not None
        found.append(mass.grad)
    return found


def test_threads_that_share_scenes_get_the_gradients_of_one_thread():
    expected = {worlds: _gradients(worlds)[0] for worlds in (1, 3)}
    found: dict[int, list[torch.Tensor]] = {}

    def work(number: int) -> None:
        found[number] = _gradients((1, 3)[number % 2])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert sorted(found) == [0, 1, 2, 3]
    for number, gradients in found.items():
        assert all(torch.equal(gradient, expected[(1, 3)[number % 2]]) for gradient in gradients)

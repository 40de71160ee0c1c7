"""Friction and centre of mass of a tossed block, from motion capture.

Eight tosses share the friction of the floor and the block's centre of mass, which is not in its middle. Each toss
starts in its measured first state. The recordings come from a simulation with another integrator and a finer step, with
noise; in one of them someone touched the block. A robust loss bounds the weight of such a recording, and the fit names
it.
"""

from typing import Any

import torch

import gradsim as gs

MU, CENTER = 0.25, 0.006  # truth: friction, height of the centre of mass above the middle [m]
FPS, FRAMES = 120.0, 45

block, random = gs.meshes.box((0.12, 0.08, 0.1)), torch.Generator().manual_seed(1)


def noise(*shape: int, size: float) -> torch.Tensor:
    return size * torch.randn(*shape, generator=random, dtype=torch.float64)


def toss(start: dict[str, torch.Tensor], mu: Any, center: Any) -> gs.Scene:
    """A block that hits the floor; `velocity` is that of its middle, which motion capture follows."""
    body = gs.Rigid("block", block, mass=0.4, center=(0.0, center, 0.0), velocity_point=(0.0, 0.0, 0.0), **start)
    return gs.Scene([body], ground=gs.Ground(ke=5e3, kd=15.0, kf=20.0, mu=mu, delta=5e-4))


def record(touched: bool) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    """First state as measured, and measured positions and rotations."""
    start = {"position": noise(3, size=0.02) + torch.tensor([0.0, 0.16, 0.0]), "rotation": noise(4, size=1.0)}
    start["rotation"] /= start["rotation"].norm()
    start |= {"velocity": noise(3, size=0.1) + torch.tensor([1.0, 0.0, 0.3]), "angular_velocity": noise(3, size=3.0)}
    true = gs.simulate(toss(start, MU, CENTER), frames=FRAMES, fps=FPS, substeps=64, integrator=gs.SymplecticEuler())
    position = true["block"].position + noise(FRAMES, 3, size=5e-5)
    if touched:
        position[25:, 2] += torch.linspace(0.0, 0.1, FRAMES - 25, dtype=torch.float64)
    return start, position, true["block"].rotation


mu, center = gs.unknown(0.6, low=0.02, high=1.0), gs.unknown(0.0, low=-0.02, high=0.02)
trials = []
for number in range(8):
    start, position, rotation = record(touched=number == 5)
    states = {"block.position": position, "block.rotation": rotation}
    robust = {"position": gs.Cauchy(0.003), "rotation": gs.Cauchy(0.05)}
    trials.append(gs.Trial(toss(start, mu, center), gs.States(states, robust=robust), fps=FPS, name=f"toss {number}"))

fit = gs.estimate(trials, substeps=16, corrections=0)
print(fit)
print(f"truth: friction {MU}, centre of mass {1000 * CENTER} mm above the middle; {fit.seconds:.0f} s")
assert abs(float(fit.values["ground.mu"]) - MU) < 0.02
assert abs(float(fit.values["block.center[1]"]) - CENTER) < 0.001
assert list(fit.outliers) == ["toss 5"]

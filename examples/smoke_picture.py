"""Control of smoke: the initial velocity field that turns a disc of smoke into a letter.

A disc of smoke is at rest in a closed box. Adam optimizes the initial velocity, 2 x 110 x 110 numbers, so that after 99
steps the smoke has the shape of a G. The flow is incompressible: it moves smoke but neither creates nor compresses it.
"""

import time

import numpy as np
import torch

import gradsim as gs

SIZE, ITERATIONS = 110, 50
torch.set_num_threads(1)  # at this size a second thread saves a quarter at best, and costs more on a busy machine


def shape(distance: np.ndarray) -> torch.Tensor:
    """Density with an edge one cell wide, from the signed distance to the outline, positive inside."""
    return torch.as_tensor(1.0 / (1.0 + np.exp(-2.0 * SIZE * distance)), dtype=torch.float32)


def letter(thickness: float) -> torch.Tensor:
    """The letter G: an arc with a gap, and a bar."""
    radius, angle = np.hypot(x - 0.5, y - 0.5), np.arctan2(y - 0.5, x - 0.5)
    arc = np.where((angle > 0.0) & (angle < 0.9), -0.05, thickness - np.abs(radius - 0.28))
    bar = np.minimum(thickness - np.abs(y - 0.5), np.minimum(x - 0.5, 0.78 - x))
    return shape(np.maximum(arc, bar))


x, y = np.meshgrid(*2 * [(np.arange(SIZE) + 0.5) / SIZE])
disc = shape(0.25 - np.hypot(x - 0.35, y - 0.42))
goal = min((letter(t) for t in np.linspace(0.03, 0.1, 71)), key=lambda g: abs((g - disc).sum().item()))  # equal mass
velocity = torch.zeros(SIZE, SIZE, 2, requires_grad=True)
optimizer = torch.optim.Adam([velocity], lr=0.03)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, ITERATIONS)


def loss() -> torch.Tensor:
    """Mean squared difference to the goal after one second."""
    smoke = gs.Smoke("smoke", (SIZE, SIZE), density=disc, velocity=velocity)
    motion = gs.simulate(gs.Scene([smoke]), frames=2, fps=1, substeps=99)["smoke"]
    return (motion.densities[-1] - goal).pow(2).mean()


start, first = time.perf_counter(), loss().item()
for _ in range(ITERATIONS):
    optimizer.zero_grad()
    loss().backward()
    optimizer.step()
    schedule.step()
last = loss().item()
print(f"loss from {first:.4f} to {last:.4f}, {100 * last / first:.1f} % ({time.perf_counter() - start:.0f} s)")
assert last < 0.032 * first

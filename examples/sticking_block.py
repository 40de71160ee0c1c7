"""Coefficient of friction of a block that sticks and slips.

A block on the ground is pushed by known forces, some too weak to move it. Its recorded positions follow Coulomb's law
in one dimension, with time steps of its own. Sticking friction finds the coefficient; regularized friction creeps where
the block rests, and a larger one compensates for that. The method is Gauss-Newton with the exact gradient of the path,
from a low guess: a block that never moves says nothing about its friction.
"""

import torch

import gradsim as gs

MASS, MU, GUESS = 2.0, 0.6, 0.3  # [kg], truth, initial value
FORCES = (0.0, 18.0, 0.0, 9.0, 20.0, 0.0, -10.0, -18.0, -5.0, 0.0)  # along x, each for a fifth of a second [N]
FRAMES, FPS = 61, 30  # 2 s


def recorded() -> torch.Tensor:
    """Positions under Coulomb friction [m], [61]."""
    steps = 2000
    x, v, h, limit, path = 0.0, 0.0, 1.0 / (FPS * steps), MU * 9.81, [0.0]
    for frame in range(FRAMES - 1):
        pull = FORCES[frame // 6] / MASS
        for _ in range(steps):
            free = v + h * pull
            v = 0.0 if abs(free) <= h * limit else free - h * limit * (1.0 if free > 0.0 else -1.0)
            x += h * v
        path.append(x)
    return torch.tensor(path, dtype=torch.float64)


def simulated(mu: torch.Tensor, kf: float | None) -> torch.Tensor:
    """Positions of the simulated block [m], [61]; friction is regularized with kf [N s/m], or sticks if None."""
    pushes = [gs.Push(force=(f, 0.0, 0.0), start=k / 5, end=(k + 1) / 5) for k, f in enumerate(FORCES) if f]
    block = gs.Rigid("block", gs.meshes.box((0.4, 0.1, 0.4)), mass=MASS, position=(0.0, 0.0485, 0.0), pushes=pushes)
    friction = gs.Sticking() if kf is None else gs.Regularized()
    ground = gs.Ground(ke=5e3, kd=30.0, mu=mu, kf=kf, friction=friction)
    substeps = 32 if kf is None else 128  # strong viscous friction needs smaller steps
    return gs.simulate(gs.Scene([block], ground), frames=FRAMES, fps=FPS, substeps=substeps)["block"].position[:, 0]


def estimate(path: torch.Tensor, kf: float | None) -> float:
    """Coefficient of friction whose path is nearest to the recorded one."""
    mu = torch.tensor(GUESS, dtype=torch.float64)
    for _ in range(12):
        slope = torch.autograd.functional.jacobian(lambda m: simulated(m, kf), mu)
        change = -slope @ (simulated(mu, kf) - path) / (slope @ slope)
        mu = (mu + change.clamp(-0.1, 0.1)).clamp(0.05, 1.5)
    return mu.item()


path = recorded()
found, creeping = estimate(path, None), estimate(path, 200.0)
print(f"coefficient of friction, truth {MU}: sticking {found:.4f}, regularized {creeping:.4f}")
assert abs(found - MU) < 0.01

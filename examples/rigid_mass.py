"""Mass of a cube from its motion after a known impulse.

Free fall does not depend on mass. A known impulse makes the mass identifiable; applied off-centre, it also makes the
cube rotate. The observations are the positions of the corners over one second, here from the same simulation with the
true mass. L-BFGS optimizes the logarithm, which keeps the mass positive.
"""

import math

import torch

import gradsim as gs

TRUTH = 0.7  # [kg]
GUESS = 5.0  # [kg]

push = gs.Push(impulse=(0.6, 0.9, -0.3), point=(-0.1, -0.05, 0.1), start=0.1)  # [N s], [m], [s]


def motion(mass: torch.Tensor | float) -> torch.Tensor:
    """Positions of the cube's corners at 31 frames [m], [31, 8, 3]."""
    cube = gs.Rigid("cube", gs.meshes.box(0.2), mass=mass, position=(0.0, 1.0, 0.0), pushes=[push])
    return gs.simulate(gs.Scene([cube]), frames=31, fps=30, substeps=10)["cube"].vertices


observed = motion(TRUTH)
log_mass = torch.tensor(math.log(GUESS), dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.LBFGS([log_mass], max_iter=30, tolerance_change=0.0, line_search_fn="strong_wolfe")
losses = []


def loss() -> torch.Tensor:
    optimizer.zero_grad()
    value = (motion(log_mass.exp()) - observed).pow(2).sum()
    value.backward()
    losses.append(value.item())
    return value


optimizer.step(loss)
mass = log_mass.exp().item()
error = abs(mass / TRUTH - 1.0)
print(f"mass: guess {GUESS} kg, estimate {mass:.12f} kg, truth {TRUTH} kg")
print(f"relative error {error:.1e} after {len(losses)} rollouts; loss from {losses[0]:.1e} to {losses[-1]:.1e} m^2")
assert error < 1e-9

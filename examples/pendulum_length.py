"""Length and joint damping of a pendulum from the trajectory of its bob.

The bob is observed at 30 frames per second for three seconds, here in the same simulation with the true parameters.
L-BFGS optimizes logarithms, which keeps length and damping positive and similarly scaled.
"""

import torch

import gradsim as gs

TRUTH = torch.tensor([0.8, 0.15], dtype=torch.float64)  # length [m], damping [N m s]
GUESS = torch.tensor([1.2, 0.02], dtype=torch.float64)


def path(unknowns: torch.Tensor) -> torch.Tensor:
    """Positions of the bob at 91 frames [m], [91, 3]."""
    length, damping = unknowns
    pendulum = gs.Pendulum("pendulum", length, mass=1.0, angle=2.0, damping=damping)
    angle = gs.simulate(gs.Scene([pendulum]), frames=91, fps=30, substeps=8)["pendulum"].angle[:, 0]
    return length * torch.stack([angle.sin(), -angle.cos(), torch.zeros_like(angle)], -1)


observed = path(TRUTH)
logs = GUESS.log().requires_grad_()
optimizer = torch.optim.LBFGS([logs], max_iter=40, tolerance_change=0.0, line_search_fn="strong_wolfe")
losses = []


def loss() -> torch.Tensor:
    optimizer.zero_grad()
    value = (path(logs.exp()) - observed).pow(2).sum()
    value.backward()
    losses.append(value.item())
    return value


optimizer.step(loss)
estimate = logs.detach().exp()
errors = (estimate / TRUTH - 1.0).abs()
for k, name in enumerate(("length [m]", "damping [N m s]")):
    print(f"{name:15}  guess {GUESS[k]:.2f}, estimate {estimate[k]:.9f}, truth {TRUTH[k]:.2f}")
print(f"largest error {errors.max():.1e} after {len(losses)} rollouts; loss {losses[0]:.1e} to {losses[-1]:.1e} m^2")
assert errors.max() < 1e-8

"""Lengths of a double pendulum from the trajectory of its lower bob, in spite of chaos.

The position of the bob is observed for six seconds, with Gaussian noise of 1 cm. Over that time nearby trajectories
diverge, and the loss as a function of the lengths has many local minima; over one second it has one. So the horizon
grows: the estimate from a short part of the trajectory is the initial guess for a longer part.
"""

import torch

import gradsim as gs

TRUTH = torch.tensor([1.0, 0.7], dtype=torch.float64)  # [m]
GUESS = torch.tensor([1.2, 0.9], dtype=torch.float64)
NOISE = 0.01  # [m]


def path(lengths: torch.Tensor, frames: int) -> torch.Tensor:
    """Positions of the lower bob at 30 frames per second [m], [frames, 2]."""
    pendulum = gs.DoublePendulum("pendulum", lengths, masses=(1.0, 0.8), angles=(2.2, 2.6))
    angle = gs.simulate(gs.Scene([pendulum]), frames=frames, fps=30, substeps=8)["pendulum"].angle  # [frames, 2]
    rods = lengths[:, None] * torch.stack([angle.sin(), -angle.cos()], -1)
    return rods.sum(-2)


def fit(guess: torch.Tensor, frames: int) -> torch.Tensor:
    """Lengths that fit the first frames, starting from a guess."""
    logs = guess.log().requires_grad_()
    optimizer = torch.optim.LBFGS([logs], max_iter=15, tolerance_change=0.0, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = (path(logs.exp(), frames) - observed[:frames]).pow(2).sum()
        value.backward()
        return value

    optimizer.step(loss)
    return logs.detach().exp()


def error(lengths: torch.Tensor) -> float:
    return (lengths / TRUTH - 1.0).abs().max().item()


torch.manual_seed(0)
observed = path(TRUTH, 181)
observed += NOISE * torch.randn_like(observed)
direct = fit(GUESS, 181)
print(f"all 6 s directly, from {GUESS.tolist()} m: largest error {error(direct):.0e}")
lengths = GUESS
for frames in (31, 61, 91, 121, 151, 181):
    lengths = fit(lengths, frames)
    print(f"horizon {frames // 30} s: largest error {error(lengths):.0e}")
print(f"estimate {lengths[0]:.5f} and {lengths[1]:.5f} m, truth {TRUTH.tolist()} m")
assert error(lengths) < 3e-4

"""Contact parameters from the motion of a bouncing cube: stiffness, damping and friction.

A cube is thrown, tumbles, bounces and slides for half a second. The observations are the positions of its corners, here
simulated with a quarter of the time step, so that the estimate contains the discretization error, as with a real cube.
All four contact parameters are unknown within a factor of ten. 128 random guesses are evaluated in one batch. L-BFGS
then optimizes logarithms from the best guess, through all impacts.
"""

import torch

import gradsim as gs

NAMES = ("ke [N/m]", "kd [N s/m]", "kf [N s/m]", "mu")
TRUTH = torch.tensor([4000.0, 15.0, 30.0, 0.3], dtype=torch.float64)


def motion(contact: torch.Tensor, substeps: int = 400) -> torch.Tensor:
    """Positions of the corners at 16 frames [m], [..., 16, 8, 3], for contact parameters [..., 4]."""
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(0.4),
        mass=4.0,
        position=(0.0, 0.5, 0.0),
        rotation=(0.1, 0.05, 0.2, 1.0),
        velocity=(2.0, -1.0, 0.5),
        angular_velocity=(0.5, 1.0, -1.0),
    )
    scene = gs.Scene([cube], gs.Ground(*contact.unbind(-1)))
    return gs.simulate(scene, frames=16, fps=30, substeps=substeps)["cube"].vertices


def misfit(contact: torch.Tensor) -> torch.Tensor:
    """Mean squared distance to the observations [m^2], [...]."""
    return (motion(contact) - observed).pow(2).sum(-1).mean((-2, -1))


observed = motion(TRUTH, substeps=1600)
torch.manual_seed(0)
guesses = TRUTH * 10 ** torch.empty(128, 4, dtype=torch.float64).uniform_(-1, 1)
best = guesses[misfit(guesses).argmin()]
unknown = best.log().requires_grad_()
optimizer = torch.optim.LBFGS([unknown], max_iter=40, tolerance_change=0.0, line_search_fn="strong_wolfe")


def loss() -> torch.Tensor:
    optimizer.zero_grad()
    value = misfit(unknown.exp())
    value.backward()
    return value


optimizer.step(loss)
estimate = unknown.detach().exp()
for name, *values in zip(NAMES, best.tolist(), estimate.tolist(), TRUTH.tolist(), strict=True):
    print(f"{name:11} best guess {values[0]:8.3g}, estimate {values[1]:8.5g}, truth {values[2]:8.5g}")
error = (estimate / TRUTH - 1).abs().max()
print(f"largest error {error:.1e}; RMS error of the corners {1e3 * misfit(estimate).sqrt():.2f} mm")
assert error < 0.01

"""How stiff is a beam? Its Young's modulus from the way it sags.

A rubber beam is clamped at one end and let go. The positions of its nodes over half a second are observed, here made by
the same simulation with the modulus to be found. L-BFGS works on the logarithm: it keeps the modulus positive.
"""

import math

import torch

import gradsim as gs

TRUTH = 1e6  # Young's modulus [Pa]
GUESS = 1.4 * TRUTH


def motion(young: torch.Tensor | float) -> torch.Tensor:
    """Positions of the beam's nodes at 16 frames [m], [16, V, 3]."""
    beam = gs.Soft(
        "beam",
        gs.meshes.tet_box((1.0, 0.2, 0.2), (10, 2, 2)),
        density=1000.0,
        material=gs.NeoHookean.from_young(young, 0.4, damping=100.0),
        pinned=gs.Region(high=(-0.499, None, None)),
    )
    return gs.simulate(gs.Scene([beam]), frames=16, fps=30, substeps=100)["beam"].vertices


observed = motion(TRUTH)
log_young = torch.tensor(math.log(GUESS), dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.LBFGS([log_young], max_iter=12, tolerance_change=0.0, line_search_fn="strong_wolfe")
losses = []


def loss() -> torch.Tensor:
    optimizer.zero_grad()
    value = (motion(log_young.exp()) - observed).pow(2).sum()
    value.backward()
    losses.append(value.item())
    return value


optimizer.step(loss)
young = log_young.exp().item()
error = abs(young / TRUTH - 1.0)
print(f"Young's modulus: guess {GUESS:.0f} Pa, found {young:.6f} Pa, truth {TRUTH:.0f} Pa")
print(f"relative error {error:.1e} after {len(losses)} rollouts; loss from {losses[0]:.1e} to {losses[-1]:.1e} m^2")
assert error < 1e-6

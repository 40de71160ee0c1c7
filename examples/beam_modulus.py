"""How stiff is a beam? Its Young's modulus from the way it sags.

A rubber beam is clamped at one end and let go. From the positions of its nodes over the first half second, L-BFGS on the
logarithm of the modulus (positive, and of unknown size) finds the value the motion was made with.
"""

import math

import torch

import gradsim as gs

TRUTH = 2e5  # Young's modulus [Pa]
GUESS = 1.4 * TRUTH


def motion(young: torch.Tensor | float) -> torch.Tensor:
    """Positions of the beam's nodes at 16 frames [m], [16, V, 3]."""
    beam = gs.Soft(
        "beam",
        gs.meshes.tet_box((1.0, 0.1, 0.1), (10, 1, 1)),
        density=1000.0,
        material=gs.NeoHookean.from_young(young, 0.4, damping=100.0),
        pinned=gs.Region(high=(-0.499, None, None)),
    )
    return gs.simulate(gs.Scene([beam]), frames=16, fps=30, substeps=64)["beam"].vertices


observed = motion(TRUTH)
log_young = torch.tensor(math.log(GUESS), dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.LBFGS([log_young], max_iter=20, tolerance_grad=0, tolerance_change=0, line_search_fn="strong_wolfe")
calls = []


def loss() -> torch.Tensor:
    optimizer.zero_grad()
    value = (motion(log_young.exp()) - observed).pow(2).sum()
    value.backward()
    calls.append(value.item())
    return value


optimizer.step(loss)
error = log_young.exp().item() / TRUTH - 1
print(f"start {GUESS:.6e} Pa, found {log_young.exp().item():.6e} Pa, truth {TRUTH:.6e} Pa")
print(f"relative error {error:.1e} after {len(calls)} rollouts; squared distance {calls[0]:.1e} -> {calls[-1]:.1e} m^2")
assert abs(error) < 1e-6

"""Initial velocity of a cloth from its final shape.

A cloth flies through air, with drag and lift, for half a second. Only the final positions of its nodes are observed.
L-BFGS, starting from zero velocity, finds the initial velocity.
"""

import torch

import gradsim as gs

TRUTH = torch.tensor([2.0, 3.0, -1.0], dtype=torch.float64)  # [m/s]


def final_shape(velocity: torch.Tensor) -> torch.Tensor:
    """Positions of the nodes after half a second [m], [V, 3]."""
    cloth = gs.Cloth(
        "cloth",
        gs.meshes.grid((0.6, 0.6), (8, 8)),
        density=0.2,
        material=gs.Membrane(mu=100.0, lam=100.0, damping=0.05),
        bending=gs.Bending(stiffness=1e-3),
        drag=0.5,
        lift=0.5,
        rotation=(0.2, 0.0, 0.1, 1.0),
        velocity=velocity,
    )
    return gs.simulate(gs.Scene([cloth]), frames=2, fps=2, substeps=500)["cloth"].vertices[-1]


observed = final_shape(TRUTH)
velocity = torch.zeros(3, dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.LBFGS([velocity], max_iter=20, tolerance_change=0.0, line_search_fn="strong_wolfe")
losses = []


def loss() -> torch.Tensor:
    optimizer.zero_grad()
    value = (final_shape(velocity) - observed).pow(2).sum()
    value.backward()
    losses.append(value.item())
    return value


optimizer.step(loss)
estimate = velocity.detach()
error = (estimate - TRUTH).norm().item()
print(f"velocity: estimate ({', '.join(f'{v:.6f}' for v in estimate.tolist())}) m/s, truth {tuple(TRUTH.tolist())} m/s")
print(f"error {error:.1e} m/s after {len(losses)} rollouts; loss from {losses[0]:.1e} to {losses[-1]:.1e} m^2")
assert error < 1e-6

"""Stiffness of each spring of a net from its motion.

A net hangs from two corners, and every node has a random initial velocity. The stiffnesses differ by a factor of up to
four. All 85 are unknown; one backward pass gives their gradient. L-BFGS optimizes the logarithms.
"""

import torch

import gradsim as gs

torch.manual_seed(0)
net = gs.meshes.grid((1.0, 1.0), (5, 5))
kick = torch.randn(len(net.vertices), 3, dtype=torch.float64)  # [m/s]
truth = 200.0 * torch.empty(len(net.edges), dtype=torch.float64).uniform_(0.5, 2.0)  # [N/m]


def motion(stiffness: torch.Tensor) -> torch.Tensor:
    """Positions of the nodes over one second [m], [31, V, 3]."""
    springs = gs.Springs(
        "net",
        net.vertices,
        net.edges,
        mass=0.05,
        stiffness=gs.per_element(stiffness),
        damping=0.1,
        velocity=gs.per_element(kick),
        pinned=[0, 5],
    )
    return gs.simulate(gs.Scene([springs]), frames=31, fps=30, substeps=16)["net"].vertices


observed = motion(truth)
log_stiffness = torch.full_like(truth, 200.0).log().requires_grad_()
optimizer = torch.optim.LBFGS(
    [log_stiffness], max_iter=250, history_size=100, tolerance_change=0.0, line_search_fn="strong_wolfe"
)
losses = []


def loss() -> torch.Tensor:
    optimizer.zero_grad()
    value = (motion(log_stiffness.exp()) - observed).pow(2).sum()
    value.backward()
    losses.append(value.item())
    return value


optimizer.step(loss)
errors = (log_stiffness.detach().exp() / truth - 1.0).abs()
print(f"{len(truth)} stiffnesses from {truth.min():.0f} to {truth.max():.0f} N/m, initial guess 200 N/m")
print(f"relative error: median {errors.median():.1e}, largest {errors.max():.1e}, after {len(losses)} rollouts")
assert errors.max() < 1e-3

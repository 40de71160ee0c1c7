"""64 beams in one call: a tensor of moduli is a batch of worlds.

Leading dimensions of any quantity are worlds of their own, broadcast as in PyTorch. One call gives 64 trajectories, one
backward pass the gradient of each tip's height in its own modulus; single calls give the same numbers.
"""

import torch

import gradsim as gs

mesh = gs.meshes.tet_box((1.0, 0.2, 0.2), (10, 2, 2))
tip = gs.Region(low=(0.499, None, None))(mesh.vertices)  # mask of the nodes at the free end


def tip_height(young: torch.Tensor) -> torch.Tensor:
    """Height of the beam's free end after half a second, from that of the clamped one [m], [...]."""
    beam = gs.Soft(
        "beam",
        mesh,
        density=1000.0,
        material=gs.NeoHookean.from_young(young, 0.4, damping=100.0),
        pinned=gs.Region(high=(-0.499, None, None)),
    )
    vertices = gs.simulate(gs.Scene([beam]), frames=16, fps=30, substeps=100)["beam"].vertices  # [..., 16, V, 3]
    return vertices[..., -1, tip, 1].mean(-1)


moduli = torch.logspace(5.5, 6.5, 64, dtype=torch.float64).requires_grad_()  # [Pa], [64]
heights = tip_height(moduli)  # [64]
(gradients,) = torch.autograd.grad(heights.sum(), moduli)  # worlds do not touch: gradients[k] is that of heights[k]

print("Young [Pa]  height [m]  d height / d Young [m/Pa]")
for k in range(0, 64, 9):
    print(f"{moduli[k]:10.3e}  {heights[k]:10.6f}  {gradients[k]:12.4e}")

for k in (0, 30, 63):
    one = moduli[k].detach().requires_grad_()
    height = tip_height(one)
    (gradient,) = torch.autograd.grad(height, one)
    assert abs(height - heights[k]) < 1e-12
    assert abs(gradient / gradients[k] - 1.0) < 1e-9
print("worlds 0, 30 and 63 alone: the same heights and gradients")

"""Batches: 64 beams with different moduli in one call.

Leading dimensions of any quantity are independent worlds and broadcast as in PyTorch. One call returns 64 trajectories,
and one backward pass the gradient of each tip height with respect to its own modulus. Single calls give the same
numbers.
"""

import torch

import gradsim as gs

mesh = gs.meshes.tet_box((1.0, 0.2, 0.2), (10, 2, 2))
tip = gs.Region(low=(0.499, None, None))(mesh.vertices)  # mask of the nodes at the free end


def tip_height(young: torch.Tensor) -> torch.Tensor:
    """Height of the free end relative to the clamped end after half a second [m], [...]."""
    beam = gs.Soft(
        "beam",
        mesh,
        density=1000.0,
        material=gs.NeoHookean.from_young(young, 0.4, damping=100.0),
        pinned=gs.Region(high=(-0.499, None, None)),
    )
    time = {"frames": 16, "fps": 30, "substeps": 100}
    integrator = gs.SymplecticEuler()  # stable at larger steps than the default, for stiff beams
    vertices = gs.simulate(gs.Scene([beam]), **time, integrator=integrator)["beam"].vertices  # [..., 16, V, 3]
    return vertices[..., -1, tip, 1].mean(-1)


moduli = torch.logspace(5.5, 6.5, 64, dtype=torch.float64).requires_grad_()  # [Pa], [64]
heights = tip_height(moduli)  # [64]
(gradients,) = torch.autograd.grad(heights.sum(), moduli)  # worlds are independent: gradients[k] is that of heights[k]

print("Young [Pa]  height [m]  d height / d Young [m/Pa]")
for k in range(0, 64, 9):
    print(f"{moduli[k]:10.3e}  {heights[k]:10.6f}  {gradients[k]:12.4e}")

for k in (0, 30, 63):
    one = moduli[k].detach().requires_grad_()
    height = tip_height(one)
    (gradient,) = torch.autograd.grad(height, one)
    assert abs(height - heights[k]) < 1e-12
    assert abs(gradient / gradients[k] - 1.0) < 1e-9
print("worlds 0, 30 and 63 in single calls: same heights and gradients")

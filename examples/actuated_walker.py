"""Locomotion: the actuation of each element of a soft block over time, optimized for distance.

A block lies on the ground. Actuation changes the equilibrium volume of each tetrahedron by up to 40 %, as a signal of
24 samples over 1.5 s: 2,880 numbers, initially zero. Adam follows the gradient of the distance covered, through all
contacts. The gait is then simulated with half the time step, to show that it is not an artefact of the discretization.
"""

import torch

import gradsim as gs

block = gs.meshes.tet_box((0.6, 0.2, 0.2), (6, 2, 2))
ground = gs.Ground(ke=4e3, kd=10.0, kf=20.0, mu=0.6, delta=0.01)


def walk(weights: torch.Tensor, substeps: int = 50) -> torch.Tensor:
    """Positions of the nodes over 1.5 s [m], [46, V, 3]."""
    body = gs.Soft(
        "block",
        block,
        density=500.0,
        material=gs.NeoHookean.from_young(4e4, 0.3, damping=50.0),
        position=(0.0, 0.1, 0.0),
        actuation=gs.Signal(gs.per_element(0.4 * weights.tanh())),
    )
    return gs.simulate(gs.Scene([body], ground), frames=46, fps=30, substeps=substeps)["block"].vertices


def distance(vertices: torch.Tensor) -> torch.Tensor:
    """Displacement of the mean of the nodes along x [m]."""
    return vertices[-1, :, 0].mean()


weights = torch.zeros(24, len(block.tets), dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([weights], lr=0.05)
for step in range(51):
    covered = distance(walk(weights))
    if step % 10 == 0:
        print(f"step {step:2d}: {covered.item():.3f} m")
    optimizer.zero_grad()
    (-covered).backward()
    optimizer.step()

with torch.no_grad():
    coarse, fine = walk(weights), walk(weights, substeps=100)
print(f"the block, 0.6 m long, moves {distance(coarse):.3f} m; with half the time step {distance(fine):.3f} m")
print(f"largest penetration of the compliant ground: {-100 * fine[..., 1].min():.1f} cm")
assert distance(coarse) > 0.6
assert abs(distance(fine) / distance(coarse) - 1.0) < 0.05

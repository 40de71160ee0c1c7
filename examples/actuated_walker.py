"""Can a soft block walk? The actuation of each of its elements over time, optimized for distance.

A block lies on the ground. Every tetrahedron may strive for a volume up to 40 % larger or smaller, as a signal of 24
samples over 1.5 s: 2,880 numbers, all zero at first, no gait prescribed. Adam follows the gradient of the distance
covered, through every contact on the way. The gait found is then run again with half the time step, to see that it is
physics and not an artefact of the step.
"""

import torch

import gradsim as gs

block = gs.meshes.tet_box((0.6, 0.2, 0.2), (6, 2, 2))
ground = gs.Ground(ke=4e3, kd=10.0, kf=20.0, mu=0.6, delta=0.01)


def walk(drive: torch.Tensor, substeps: int = 50) -> torch.Tensor:
    """Positions of the nodes over 1.5 s [m], [46, V, 3]."""
    body = gs.Soft(
        "block",
        block,
        density=500.0,
        material=gs.NeoHookean.from_young(4e4, 0.3, damping=50.0),
        position=(0.0, 0.1, 0.0),
        actuation=gs.Signal(gs.per_element(0.4 * drive.tanh())),
    )
    return gs.simulate(gs.Scene([body], ground), frames=46, fps=30, substeps=substeps)["block"].vertices


def distance(vertices: torch.Tensor) -> torch.Tensor:
    """How far the middle of the block has come along x [m]."""
    return vertices[-1, :, 0].mean()


drive = torch.zeros(24, len(block.tets), dtype=torch.float64, requires_grad=True)
optimizer = torch.optim.Adam([drive], lr=0.05)
for step in range(51):
    reached = distance(walk(drive))
    if step % 10 == 0:
        print(f"step {step:2d}: {reached.item():.3f} m")
    optimizer.zero_grad()
    (-reached).backward()
    optimizer.step()

with torch.no_grad():
    coarse, fine = walk(drive), walk(drive, substeps=100)
print(f"the block, 0.6 m long, covers {distance(coarse):.3f} m, with half the time step {distance(fine):.3f} m")
print(f"its lowest node sinks {-100 * fine[..., 1].min():.1f} cm into the compliant ground")
assert distance(coarse) > 0.6
assert abs(distance(fine) / distance(coarse) - 1.0) < 0.05

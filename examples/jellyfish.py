"""A jellyfish learns to swim: the contraction of each ring of its bell over time, optimized for height.

The bell is a sheet in a fluid, without gravity: each triangle feels drag and lift. The actuation changes the area of
the triangles in four rings by up to 40 %, as a signal of 12 samples that repeats every second. Adam follows the
gradient of the height covered. The motion is then simulated with half the time step.
"""

import numpy as np
import torch

import gradsim as gs

RINGS, SEGMENTS, SAMPLES, SECONDS = 4, 12, 12, 2

polar = np.repeat(0.5 * np.pi * np.arange(1, RINGS + 1) / RINGS, SEGMENTS)
around = np.tile(2 * np.pi * np.arange(SEGMENTS) / SEGMENTS, RINGS)
dome = 0.3 * np.stack([np.sin(polar) * np.cos(around), np.cos(polar), np.sin(polar) * np.sin(around)], -1)
faces = []
for a, b in ((1 + k, 1 + (k + 1) % SEGMENTS) for k in range(SEGMENTS)):
    faces.append((0, b, a))
    for i, j in ((a + ring * SEGMENTS, b + ring * SEGMENTS) for ring in range(RINGS - 1)):
        faces += [(i, j, j + SEGMENTS), (i, j + SEGMENTS, i + SEGMENTS)]
bell = gs.TriMesh(np.vstack([(0.0, 0.3, 0.0), dome]), np.array(faces))
ring_of_face = torch.as_tensor((bell.faces.max(1) - 1) // SEGMENTS)


def swim(weights: torch.Tensor, substeps: int = 60) -> torch.Tensor:
    """Height covered by the mean of the nodes [m], for weights [SAMPLES, RINGS]."""
    actuation = 0.4 * weights.tanh()[:, ring_of_face].repeat(SECONDS, 1)
    body = gs.Cloth(
        "jellyfish",
        bell,
        density=1.0,
        material=gs.Membrane(mu=200.0, lam=200.0, damping=1.0),
        bending=gs.Bending(stiffness=0.02, damping=1e-3),
        drag=40.0,
        lift=40.0,
        actuation=gs.Signal(gs.per_element(actuation)),
    )
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0))
    motion = gs.simulate(scene, frames=30 * SECONDS + 1, fps=30, substeps=substeps)["jellyfish"].vertices
    return (motion[-1] - motion[0])[:, 1].mean()


start = 0.1 * torch.randn(SAMPLES, RINGS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
weights = start.clone().requires_grad_()
optimizer = torch.optim.Adam([weights], lr=0.2)
for step in range(16):
    height = swim(weights)
    if step % 5 == 0:
        print(f"step {step:2d}: {height.item():.3f} m")
    optimizer.zero_grad()
    (-height).backward()
    optimizer.step()

with torch.no_grad():
    coarse, fine = swim(weights), swim(weights, substeps=120)
print(f"the jellyfish, 0.6 m wide, swims {coarse:.3f} m in {SECONDS} s; with half the time step {fine:.3f} m")
assert coarse > 0.15
assert abs(fine / coarse - 1.0) < 0.02

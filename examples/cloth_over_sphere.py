"""Contact with moving surfaces: a sheet falls on a turning sphere, which carries it along.

The sphere follows a `gs.Motion`. `gs.NodeContact` makes the nodes of the sheet and the centres of its faces touch it,
and `self_contact` keeps its folds from passing through each other. The gradient with respect to the sphere's radius,
and to the samples of its motion, comes from the same backward pass.
"""

import numpy as np
import torch

import gradsim as gs

F64 = torch.float64
mesh = gs.meshes.grid(0.4, 10)
THICKNESS = 0.01  # between the sphere and the middle of the sheet, whose coarse faces cut corners [m]
radius = torch.tensor(0.12, dtype=F64, requires_grad=True)
angles = torch.linspace(0.0, 1.0, 5, dtype=F64).requires_grad_()  # [rad], over the whole motion


def turning_scene(radius: torch.Tensor, angles: torch.Tensor) -> gs.Scene:
    zero = torch.zeros_like(angles)
    turns = torch.stack([zero, torch.sin(angles / 2), zero, torch.cos(angles / 2)], -1)
    sphere = gs.Ball("sphere", radius=radius, mass=1.0, motion=gs.Motion(rotation=gs.Signal(turns)))
    touch = gs.NodeContact(
        "touch", body="sheet", rigid="sphere", ke=100.0, kd=0.02, kf=1.0, mu=0.8, thickness=THICKNESS
    )
    sheet = gs.Cloth(
        "sheet",
        mesh,
        density=0.2,
        material=gs.Membrane(60.0, 60.0, 0.02),
        bending=gs.Bending(1e-3, 1e-5),
        drag=0.2,
        position=(0.0, 0.13, 0.0),
        self_contact=gs.SelfContact(ke=60.0, kd=0.01, kf=0.02),
    )
    return gs.Scene([sheet, sphere], forces=[touch])


def turned(trajectory: gs.Trajectory) -> torch.Tensor:
    """Mean angle of the sheet about the vertical at the end [rad]."""
    x, start = trajectory["sheet"].vertices[-1], torch.tensor(mesh.vertices)
    cross = x[:, 0] * start[:, 2] - x[:, 2] * start[:, 0]
    return torch.atan2(cross.sum(), (x[:, 0] * start[:, 0] + x[:, 2] * start[:, 2]).sum())


trajectory = gs.simulate(turning_scene(radius, angles), frames=10, fps=30, substeps=160)
angle = turned(trajectory)
angle.backward()
print(f"the sphere turned by {angles[-1].item():.2f} rad, the sheet by {angle.item():.2f} rad")
print(f"d angle / d radius = {radius.grad.item():.2f} rad/m, d angle / d samples = {np.round(angles.grad.numpy(), 2)}")
x = trajectory["sheet"].vertices[-1]
points = torch.cat([x, x[torch.tensor(mesh.faces.astype(int))].mean(1)])  # nodes, and centres of faces
outside = points.norm(dim=-1).min() - radius
print(f"the lowest point of the sheet is {1e3 * outside.item():.1f} mm above the sphere")
assert angle > 0.2
assert outside > 0.0

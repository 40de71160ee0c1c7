"""Prescribed motion: how must a clamp move so that the beam it carries arrives at rest?

A soft beam is clamped at one end and carried by 0.4 m in one second. Carried evenly, its tip swings. The samples of the
clamp's motion are differentiable, so a few Gauss-Newton steps find a motion that ends without swing.
"""

import torch

import gradsim as gs

mesh = gs.meshes.tet_box((0.1, 0.5, 0.1), (1, 5, 1))
F64 = torch.float64


def swing(inner: torch.Tensor) -> torch.Tensor:
    """Velocities of all nodes at the end [m/s], [..., nodes]."""
    zero, end = torch.zeros_like(inner[..., :1]), torch.full_like(inner[..., :1], 0.4)
    path = torch.cat([zero, zero, inner, end, end], -1)  # [m], at nine times
    clamp = gs.Motion(gs.Signal(torch.stack([path, 0 * path, 0 * path], -1)))
    beam = gs.Soft(
        "beam",
        mesh,
        density=500.0,
        material=gs.NeoHookean.from_young(2e5, 0.3, damping=20.0),
        pinned=gs.Region(low=(None, 0.249, None)),  # it hangs from its upper end
        motion=clamp,
    )
    motion = gs.simulate(gs.Scene([beam]), frames=3, fps=2, substeps=1024)["beam"]
    return motion.velocities[..., -1, :, 0]


def rms(velocities: torch.Tensor) -> float:
    return float(velocities.detach().square().mean().sqrt())


even = torch.linspace(0.0, 0.4, 7, dtype=F64)[1:-1]  # the five samples in between
inner = even.clone()
print(f"carried evenly: rms velocity at the end {rms(swing(inner)):.4f} m/s")
for _ in range(3):
    columns = []
    for k in range(5):  # one world for each sample, by differences: few unknowns, many velocities
        step = torch.zeros(5, dtype=F64)
        step[k] = 1e-4
        columns.append((swing(inner + step) - swing(inner - step)) / 2e-4)
    jacobian = torch.stack(columns, -1)
    inner = inner - torch.linalg.lstsq(jacobian, swing(inner)).solution
print(f"found: {', '.join(f'{x:.3f}' for x in inner.tolist())} m, rms velocity {rms(swing(inner)):.1e} m/s")

leaf = even.clone().requires_grad_()
swing(leaf).square().mean().backward()
print(f"gradient of the swing with respect to the samples: {', '.join(f'{g:.2f}' for g in leaf.grad.tolist())}")
assert rms(swing(inner)) < 0.05 * rms(swing(even))

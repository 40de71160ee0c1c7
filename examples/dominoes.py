"""A row of dominoes that knock each other over, and the gradient of the wave's speed in the friction between them."""

import torch

import gradsim as gs

COUNT, SPACING, SIZE = 8, 0.03, (0.01, 0.05, 0.025)  # spacing of the centres, and sides [m]
FPS, FRAMES = 100, 51


def row(mu: torch.Tensor) -> gs.Scene:
    """Dominoes on a table with a coefficient of friction between them; the first one is pushed at its top."""
    contact = gs.Contact(ke=5e3, kd=2.0, mu=mu, delta=1e-4, friction=gs.Sticking())
    table = {"ground": gs.Contact(ke=1e3, kd=0.2, mu=0.6, delta=1e-4, friction=gs.Sticking())}
    push = gs.Push(force=(0.15, 0.0, 0.0), point=(0.0, SIZE[1] / 2, 0.0), start=0.0, end=0.1)
    dominoes = [
        gs.Rigid(
            f"domino{k}",
            gs.meshes.box(SIZE),
            mass=0.02,
            position=(k * SPACING, SIZE[1] / 2 - 1e-4, 0.0),
            contact=table | {f"domino{other}": contact for other in range(COUNT) if abs(other - k) == 1},
            pushes=[push] if k == 0 else [],
        )
        for k in range(COUNT)
    ]
    return gs.Scene(dominoes, gs.Ground())


mu = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
run = gs.simulate(row(mu), frames=FRAMES, fps=FPS, substeps=80)
turns = [run[f"domino{k}"].rotation for k in range(COUNT)]
tilt = torch.stack([2.0 * torch.atan2(-q[:, 2], q[:, 3]) for q in turns])  # [rad], [8, 51]
falls = [int((own > 0.2).nonzero()[0]) / FPS for own in tilt]  # at a tilt of 0.2 rad [s]
speed = SPACING * 3 / (falls[6] - falls[3])
(gradient,) = torch.autograd.grad(tilt[5, int(falls[5] * FPS)], mu)
print("time at which each domino falls [s]:", *(f"{t:.2f}" for t in falls))
print(
    f"speed of the wave {speed:.2f} m/s; tilt of the sixth domino changes by {float(gradient):.2f} rad per unit of mu"
)
assert falls == sorted(falls)
assert gradient < 0.0  # friction slows the wave

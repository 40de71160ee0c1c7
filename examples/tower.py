"""A tower of 3 x 3 x 3 blocks that stands, until a ball hits it.

Friction sticks, so that the blocks stay exactly where they are; with regularized friction a tower creeps apart. The
gradient of the ball's place in its speed passes through the impacts of all blocks that it has hit so far.
"""

import itertools
from typing import Any

import torch

import gradsim as gs

SIDE, GAP = 0.1, 0.004  # of the blocks [m]
CONTACT = gs.Contact(ke=2e4, kd=40.0, mu=0.5, delta=2e-4, friction=gs.Sticking())
COLORS = ((0.80, 0.36, 0.24), (0.90, 0.72, 0.36), (0.36, 0.52, 0.60))


def tower(speed: Any) -> gs.Scene:
    """A tower on the ground and a ball that flies towards it at `speed` [m/s]."""
    blocks = [
        gs.Rigid(
            f"block_{x}{y}{z}",
            gs.meshes.box(SIDE),
            mass=0.5,
            position=((x - 1) * (SIDE + GAP), SIDE / 2 - 2e-4 + y * (SIDE - 5e-4), (z - 1) * (SIDE + GAP)),
            contact=CONTACT,
            look=gs.Look(color=COLORS[(x + y + z) % 3]),
        )
        for x, y, z in itertools.product(range(3), repeat=3)
    ]
    forward = torch.tensor([1.0, 0.15, 0.05], dtype=torch.float64)
    start = {"position": (-0.8, 0.16, -0.07), "velocity": torch.as_tensor(speed, dtype=torch.float64) * forward}
    ball = gs.Ball("ball", radius=0.08, mass=5.0, contact=CONTACT, look=gs.Look(color=(0.2, 0.2, 0.22)), **start)
    ground = gs.Ground(ke=5e3, kd=20.0, mu=0.5, friction=gs.Sticking(), look=gs.Checker())
    camera = gs.Camera(eye=(0.2, 0.75, 1.7), target=(0.15, 0.12, 0.0), fov=40)
    return gs.Scene([*blocks, ball], ground, camera=camera)


def places(run: gs.Trajectory, frame: int) -> torch.Tensor:
    """Positions of all blocks [m], [27, 3]."""
    names = [f"block_{x}{y}{z}" for x, y, z in itertools.product(range(3), repeat=3)]
    return torch.stack([run[name].position[frame] for name in names])


if __name__ == "__main__":
    speed = torch.tensor(6.0, dtype=torch.float64, requires_grad=True)
    standing = gs.simulate(tower(0.0), frames=11, fps=20, substeps=100)
    drift = (places(standing, -1) - places(standing, 5))[:, [0, 2]].abs().max()
    run = gs.simulate(tower(speed), frames=17, fps=20, substeps=100)
    moved = (places(run, -1) - places(run, 0)).norm(dim=-1)
    (gradient,) = torch.autograd.grad(run["ball"].position[4, 0], speed)
    print(f"the tower stands: blocks drift by {float(drift) * 1e3:.1e} mm")
    print(f"{int((moved > SIDE / 2).sum())} of 27 blocks have moved by more than half a side")
    print(f"gradient of the ball's place after 0.2 s in its speed: {float(gradient):.3f} s")
    assert drift < 1e-5
    assert int((moved > SIDE / 2).sum()) > 9

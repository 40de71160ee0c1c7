"""Which throw puts a ball into each of three cups? The cups are hollow meshes, free to move on the ground.

Three throws are a batch of three worlds. Gauss-Newton steps move the place where each ball comes down to the middle of
its cup, with derivatives from one backward pass through the flight; then the balls fall in, bounce and stay.
"""

import dataclasses

import numpy as np
import torch
import trimesh

import gradsim as gs

F64 = torch.float64
profile = np.array([(0.0, 0.0), (0.05, 0.0), (0.065, 0.11), (0.045, 0.11), (0.032, 0.02), (0.0, 0.02)])
revolved = trimesh.creation.revolve(profile, sections=24)
cup = gs.TriMesh(np.asarray(revolved.vertices)[:, [1, 2, 0]], np.asarray(revolved.faces))
PLACES = torch.tensor([0.4, 0.6, 0.8], dtype=F64)  # of the cups [m]


def cups_scene(speed: torch.Tensor) -> gs.Scene:
    """A ball is thrown sideways at speeds [m/s], one per world, at three cups in a row."""
    zero = torch.zeros_like(speed)
    ball = gs.Ball(
        "ball", radius=0.02, mass=0.03, position=(0.0, 0.5, 0.0), velocity=torch.stack([speed, zero, zero], -1)
    )
    cups = [gs.Rigid(f"cup_{k}", cup, mass=0.2, position=(float(x), 0.0, 0.0)) for k, x in enumerate(PLACES)]
    pairs: dict[str, gs.Contact | None] = {
        f"ball-cup_{k}": gs.Contact(ke=2e4, restitution=0.4, mu=0.3) for k in range(3)
    }
    pairs |= {"cup_0-cup_1": None, "cup_1-cup_2": None, "cup_0-cup_2": None}  # these stay apart
    camera = gs.Camera(eye=(0.75, 0.75, 0.95), target=(0.38, 0.22, 0.0), fov=45)
    return gs.Scene([ball, *cups], gs.Ground(ke=200.0, kd=0.2, kf=2.0, mu=0.6), pairs=pairs, camera=camera)


def landing(speed: torch.Tensor) -> torch.Tensor:
    """Where the ball is when it reaches the height of the cups' rims [m]."""
    fall = np.sqrt(2 * (0.5 - 0.11) / 9.81)
    flight = dataclasses.replace(cups_scene(speed), bodies=cups_scene(speed).bodies[:1], pairs=True)
    run = gs.simulate(flight, frames=2, fps=1 / fall, substeps=50)
    return run["ball"].position[:, -1, 0]


speed = torch.full((3,), 1.0, dtype=F64)
for _ in range(3):
    leaf = speed.clone().requires_grad_()
    place = landing(leaf)
    (slope,) = torch.autograd.grad(place.sum(), leaf)
    speed = (speed - (place - PLACES) / slope).detach()
print(f"speeds: {', '.join(f'{v:.3f}' for v in speed.tolist())} m/s")

run = gs.simulate(cups_scene(speed), frames=21, fps=30, substeps=200)
for k in range(3):
    ball, own = run["ball"].position[k, -1], run[f"cup_{k}"].position[k, -1]
    beside = (ball - own)[[0, 2]].norm()
    print(f"cup {k}: the ball ends {1e3 * beside:.0f} mm beside its axis, {1e3 * ball[1]:.0f} mm high")
    assert beside < 0.03
    assert 0.02 < ball[1] < 0.08

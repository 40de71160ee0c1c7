"""How to throw a box so that it is seen where a picture shows it, half a second later."""

import torch

import gradsim as gs


def thrown(velocity):
    box = gs.Rigid(
        "box",
        gs.meshes.box((0.5, 0.3, 0.4)),
        density=200.0,
        position=(-1.5, 0.5, 0.0),
        velocity=velocity,
        angular_velocity=(1.0, 2.0, 3.0),
        look=gs.Look(color=(0.2, 0.6, 0.9)),
    )
    camera = gs.Camera(eye=(0.0, 1.0, 5.0), target=(0.0, 0.5, 0.0))
    return gs.Scene([box], camera=camera, background=(0.0, 0.0, 0.0))


time = {"frames": 16, "fps": 30.0, "substeps": 8}
true = torch.tensor([3.5, 3.0, -1.0], dtype=torch.float64)
picture = gs.render(thrown(true), gs.simulate(thrown(true), **time), (96, 96), frames=[-1], alpha=True)[0]

plan = gs.control(thrown(gs.unknown((0.0, 0.0, 0.0))), picture, **time)
print(plan)

error = (plan.best.values["box.velocity"] - true).norm() / true.norm()
print(f"relative error of the velocity {error:.1e}")
assert error < 1e-9

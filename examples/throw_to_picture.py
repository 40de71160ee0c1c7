"""Initial velocity of a thrown box from an image of it half a second later.

With three unknowns, `gs.control` uses Gauss-Newton, whose Jacobian comes from finite differences.
"""

import torch

import gradsim as gs


def scene(velocity):
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
image = gs.render(scene(true), gs.simulate(scene(true), **time), (96, 96), frames=[-1], alpha=True)[0]

plan = gs.control(scene(gs.unknown((0.0, 0.0, 0.0))), image, **time)
print(plan)

error = (plan.best.values["box.velocity"] - true).norm() / true.norm()
print(f"relative error of the velocity {error:.1e}")
assert error < 1e-9

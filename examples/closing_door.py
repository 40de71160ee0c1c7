"""Spring and damping of a door closer from a video of the closing door, and the time that the door takes to close."""

import torch

import gradsim as gs

LEAF = gs.meshes.box((0.8, 1.0, 0.05))
FPS = 12.0  # [1/s]


def door(stiffness, damping):
    hinge = gs.Revolute(
        (0.0, 1.0, 0.0), angle=1.2, stiffness=stiffness, damping=damping, low=0.0, limit_stiffness=200.0
    )
    leaf = gs.Link(hinge, position=(-0.4, 0.0, 0.0), mass=20.0, center=(0.4, 0.0, 0.0), mesh=LEAF)
    frame = gs.Camera(eye=(0.5, 1.0, 3.0), target=(0.0, 0.0, 0.0), fov=45)
    return gs.Scene([gs.Articulated("door", {"leaf": leaf})], camera=frame)


truth = {"door.links.leaf.joint.stiffness": 12.0, "door.links.leaf.joint.damping": 6.0}
true = door(*truth.values())
motion = gs.simulate(true, frames=20, fps=FPS, substeps=64, integrator=gs.RungeKutta4())
video = gs.render(true, motion, (64, 64))
video = video + 0.01 * torch.randn(video.shape, generator=torch.Generator().manual_seed(0), dtype=video.dtype)

scene = door(gs.unknown(20.0, low=2.0, high=80.0), gs.unknown(3.0, low=0.2, high=30.0))
fit = gs.estimate(scene, gs.Pixels(video, noise=0.01), fps=FPS)
print(fit)
for path, value in truth.items():
    assert abs(float(fit.values[path]) / value - 1) < 0.01

closing = gs.simulate(fit.scene, frames=201, fps=40.0, substeps=8)["door"].angle("leaf")
closed = int((closing > 0.02).sum()) / 40.0
print(f"the door is closed, up to a degree, after {closed:.2f} s")
assert 1.0 < closed < 5.0

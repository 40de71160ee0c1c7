"""Velocity and contact damping of a thrown ball, from its centre as tracked in a video.

A tracker gives the centre of the ball in pixels, and loses it in some frames. One camera sees how large things are only
relative to their distance: the distance of the throw was measured with a tape, which enters as a prior, and the fall
under gravity determines it as well. The tracks come from a simulation with another integrator and a finer step, with
noise.
"""

from typing import Any

import torch

import gradsim as gs

DEPTH, VELOCITY, DAMPING = 0.04, (1.9, 1.0), 12.0  # truth: [m] behind the tape's mark, [m/s], [N s/m]
FPS, FRAMES, SIZE = 60.0, 48, (480, 640)
NOISE = 0.4  # of the tracker [px]

mesh = gs.meshes.icosphere(0.1, 1)


def throw(depth: Any, velocity: Any, kd: Any) -> gs.Scene:
    """A ball that crosses the view and bounces once; z points to the camera."""
    ball = gs.Rigid("ball", mesh, mass=0.15, position=(-0.8, 0.8, depth), velocity=(*velocity, 0.0))
    ground = gs.Ground(ke=8e3, kd=kd, mu=0.3, delta=1e-3)
    return gs.Scene([ball], ground=ground, camera=gs.Camera(eye=(0.0, 0.6, 3.0), target=(0.0, 0.5, 0.0), fov=40))


def projected(scene: gs.Scene, points: torch.Tensor) -> torch.Tensor:
    """Pixels (x, y) of points [T, 3] in the image of the scene's camera, by the pinhole equations."""
    eye, target = (torch.as_tensor(x, dtype=torch.float64) for x in (scene.camera.eye, scene.camera.target))
    forward = (target - eye) / (target - eye).norm()
    right = torch.linalg.cross(forward, torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64))
    right = right / right.norm()
    down = torch.linalg.cross(forward, right)
    focal = 0.5 * SIZE[0] / torch.tan(torch.deg2rad(torch.tensor(20.0, dtype=torch.float64)))
    x, y, z = ((points - eye) @ torch.stack([right, down, forward]).T).unbind(-1)
    return torch.stack([SIZE[1] / 2 + focal * x / z, SIZE[0] / 2 + focal * y / z], -1)


random = torch.Generator().manual_seed(0)
truth = throw(DEPTH, VELOCITY, DAMPING)
true = gs.simulate(truth, frames=FRAMES, fps=FPS, substeps=256, integrator=gs.RungeKutta4())
pixels = projected(truth, true["ball"].position)
pixels = pixels + NOISE * torch.randn(FRAMES, 2, generator=random, dtype=torch.float64)
pixels[20:23] = torch.nan  # lost

tape = gs.unknown(0.0, prior=gs.Normal(0.0, 0.05))  # [m], within 5 cm
speeds = gs.unknown(1.5, low=0.0, high=4.0), gs.unknown(0.5, low=-2.0, high=3.0)
scene = throw(tape, speeds, gs.unknown(5.0, low=0.5, high=100.0))
fit = gs.estimate(scene, gs.Tracks([gs.Center("ball")], pixels[:, None], SIZE, noise=NOISE), fps=FPS)
print(fit)
print(f"truth: depth {DEPTH}, velocity {VELOCITY}, kd {DAMPING}; {fit.seconds:.0f} s")
assert fit.certain, fit.status
true_values = {"ball.position[2]": DEPTH, "ball.velocity[0]": VELOCITY[0], "ground.kd": DAMPING}
for path, value in true_values.items():
    low, high = fit.intervals[path]
    assert abs(fit.values[path] - value) < high - low, path

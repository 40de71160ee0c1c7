"""Friction under a sliding box, from the images of a depth camera.

The camera measures depth in metres, with noise and with pixels that it misses, and an image of the empty room gives the
background. The recording comes from a simulation with another integrator and a finer step, at four times the
resolution, averaged over pixels.
"""

from typing import Any

import torch

import gradsim as gs

MU, SPEED = 0.31, 1.7  # truth: friction, velocity at the first frame [m/s]
FPS, FRAMES, SIZE, FINE = 30.0, 16, (36, 48), 4
NOISE = 0.005  # [m]


def slide(mu: Any, speed: Any) -> gs.Scene:
    """A box that slides along the floor and stops."""
    box = gs.Rigid("box", gs.meshes.box((0.3, 0.2, 0.2)), mass=1.0, position=(-0.5, 0.1, 0.0), velocity=(speed, 0, 0))
    ground = gs.Ground(ke=4e3, kd=40.0, kf=200.0, mu=mu, delta=1e-3)
    camera = gs.Camera(eye=(0.0, 1.0, 2.0), target=(0.0, 0.1, 0.0), fov=40)
    return gs.Scene([box], ground=ground, camera=camera)


def averaged(images: torch.Tensor) -> torch.Tensor:
    """Images [T, H, W] averaged to the resolution of the camera."""
    return torch.nn.functional.avg_pool2d(images[:, None], FINE)[:, 0]


truth, large = slide(MU, SPEED), (FINE * SIZE[0], FINE * SIZE[1])
true = gs.simulate(truth, frames=FRAMES, fps=FPS, substeps=512, integrator=gs.SymplecticEuler())
video, depth = gs.render(truth, true, large, alpha=True, depth=True)
wall = torch.linspace(2.6, 2.0, large[0], dtype=torch.float64)[:, None].expand(large)  # a slanted wall behind the box
random = torch.Generator().manual_seed(0)
recorded = averaged(torch.where(torch.isinf(depth), wall, torch.lerp(wall, depth.nan_to_num(), video[..., 3])))
recorded = recorded + NOISE * torch.randn(recorded.shape, generator=random, dtype=torch.float64)
recorded[torch.rand(recorded.shape, generator=random) < 0.05] = torch.nan  # missed

scene = slide(gs.unknown(0.6, low=0.05, high=1.0), gs.unknown(1.0, low=0.2, high=4.0))
observed = gs.Depth(recorded, background=averaged(wall[None])[0], noise=NOISE)
fit = gs.estimate(scene, observed, fps=FPS)
print(fit)
print(f"truth: mu {MU}, velocity {SPEED} m/s; {fit.seconds:.0f} s")
assert fit.certain, fit.status
for path, value in {"ground.mu": MU, "box.velocity[0]": SPEED}.items():
    low, high = fit.intervals[path]
    assert abs(fit.values[path] - value) < high - low

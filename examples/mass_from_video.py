"""Mass of a cube from a video of 24 frames, 64 x 64 pixels, 8 bits.

A known impulse makes a cube tumble over a checkered ground. The loss is the mean squared difference of pixels; its
gradient with respect to the mass passes through the renderer and the physics. It is useful only while the rendered and
the observed cube overlap, so the fit begins with the first frames, in which a wrong mass causes small displacements.
"""

import math

import torch

import gradsim as gs

TRUTH = 0.7  # [kg]
GUESS = 1.5  # [kg]

camera = gs.Camera(eye=(0.2, 1.2, 2.2), target=(0.2, 0.7, 0.0), fov=40)
push = gs.Push(impulse=(0.4, 1.2, -0.2), point=(-0.1, -0.05, 0.1), start=0.05)  # [N s], [m], [s]
red = gs.Look(color=(0.8, 0.3, 0.2))


def video(mass: torch.Tensor | float, frames: int = 24) -> torch.Tensor:
    """Rendered frames, [frames, 64, 64, 3]."""
    cube = gs.Rigid("cube", gs.meshes.box(0.3), mass=mass, position=(0.0, 0.5, 0.0), pushes=[push], look=red)
    scene = gs.Scene([cube], ground=gs.Ground(look=gs.Checker()), camera=camera)
    trajectory = gs.simulate(scene, frames=frames, fps=30, substeps=64)
    return gs.render(scene, trajectory, size=(64, 64))


observed = (255 * video(TRUTH)).round() / 255
log_mass = torch.tensor(math.log(GUESS), dtype=torch.float64, requires_grad=True)


def fit(frames: int) -> None:
    """Optimizes the mass for the first frames, from the current estimate."""
    optimizer = torch.optim.LBFGS([log_mass], max_iter=20, tolerance_change=0.0, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = (video(log_mass.exp(), frames) - observed[:frames]).pow(2).mean()
        value.backward()
        return value

    optimizer.step(loss)
    print(f"from {frames:2} frames: {log_mass.exp().item():.9f} kg")


for frames in (4, 8, 24):
    fit(frames)
mass = log_mass.exp().item()
error = abs(mass / TRUTH - 1.0)
print(f"mass: guess {GUESS} kg, estimate {mass:.9f} kg, truth {TRUTH} kg, relative error {error:.1e}")
assert error < 1e-6

"""Camera pose and field of view from one image of a known scene.

The loss is the mean squared difference of pixels, minimized at three resolutions: its gradient is useful only while
rendered and observed objects overlap, and coarse pixels extend that range. The image is rounded to 8 bits, as in files.
"""

import torch

import gradsim as gs

TRUTH = torch.tensor([1.2, 1.5, 3.0, 0.1, 0.3, 40.0], dtype=torch.float64)  # eye [m], target x and y [m], fov [degrees]
GUESS = torch.tensor([0.8, 1.8, 3.4, 0.0, 0.4, 45.0], dtype=torch.float64)
SCALE = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 20.0], dtype=torch.float64)  # of the unknowns

wood, paint = gs.Look(color=(0.93, 0.68, 0.29)), gs.Look(color=(0.18, 0.53, 0.67))
box = gs.Rigid("box", gs.meshes.box((0.8, 0.5, 0.5)), mass=1.0, position=(-0.3, 0.25, 0.0), look=wood)
ball = gs.Rigid("ball", gs.meshes.icosphere(0.3, 2), mass=1.0, position=(0.5, 0.3, 0.4), look=paint)


def image(camera: torch.Tensor, size: int) -> torch.Tensor:
    """Image of the scene, [size, size, 3]."""
    target = torch.cat([camera[3:5], torch.zeros(1, dtype=torch.float64)])
    view = gs.Camera(eye=camera[:3], target=target, fov=camera[5])
    scene = gs.Scene([box, ball], ground=gs.Ground(look=gs.Checker(size=4.0)), camera=view, background=(0.9, 0.95, 1.0))
    return gs.render(scene, gs.simulate(scene, frames=1), size=(size, size))[0]


def fit(size: int) -> None:
    """Optimizes the camera at one resolution, from the current estimate."""
    observed = (255 * image(TRUTH, size)).round() / 255
    optimizer = torch.optim.LBFGS([unknown], max_iter=60, tolerance_change=0.0, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = (image(unknown * SCALE, size) - observed).pow(2).mean()
        value.backward()
        return value

    optimizer.step(loss)
    errors = (unknown.detach() * SCALE - TRUTH).abs()
    print(f"{size:3} pixels: error of the eye {errors[:3].max():.1e} m, of the field of view {errors[5]:.1e} degrees")


unknown = (GUESS / SCALE).requires_grad_()
for size in (16, 32, 128):
    fit(size)
error = (unknown.detach() * SCALE / TRUTH - 1).abs().max()
print(f"largest relative error {error:.1e}")
assert error < 1e-3

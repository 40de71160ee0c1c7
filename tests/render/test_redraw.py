"""Without a backward pass, pixels that do not change are copied from another frame: not a bit of the video differs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import gradsim as gs

CAMERA = gs.Camera(eye=(0.0, 1.0, 5.0), target=(0.0, 0.5, 0.0), fov=45)
CUBE = gs.Rigid(
    "cube",
    gs.meshes.box(0.5),
    1.0,
    position=(-1.0, 1.2, 0.0),
    velocity=(1.5, 0.0, 0.0),
    angular_velocity=(1.0, 2.0, 3.0),
)
BALLS = [
    gs.Rigid(f"ball{k}", gs.meshes.icosphere(0.3, 2), 1.0, position=(0.8 * k - 1.5, 1.0, -0.5 * k), velocity=(3, 0, -1))
    for k in range(3)
]
TOWARDS = gs.Rigid("cube", gs.meshes.box(0.5), 1.0, position=(0.0, 0.9, 4.0), velocity=(0.3, 0.0, 6.0))
FAST = replace(CUBE, velocity=(8.0, 0.0, 0.0))
GROUND = gs.Ground(look=gs.Checker())
CHECKED = torch.rand(37, 61, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

SCENES = {
    "one body": ([CUBE], {}),
    "bodies that intersect": ([CUBE, *BALLS], {}),
    "a body that passes the camera": ([TOWARDS], {}),
    "a fast body": ([FAST], {}),
    "an image behind": ([CUBE], {"background": CHECKED}),
    "no light": ([CUBE], {"lights": ()}),
}


def videos(scene, size, **options):
    """The video as it is rendered without gradients, and with them."""
    trajectory = gs.simulate(scene, frames=8, fps=15, substeps=320, **options)
    copied = gs.render(scene, trajectory, size, alpha=True)
    background = torch.as_tensor(scene.background, dtype=copied.dtype).clone().requires_grad_()
    return copied, gs.render(replace(scene, background=background), trajectory, size, alpha=True)


@pytest.mark.parametrize("case", SCENES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_copied_pixels_equal_drawn_ones(case, dtype):
    bodies, options = SCENES[case]
    if "background" in options:
        options = {"background": options["background"].to(dtype)}
    scene = gs.Scene(bodies, ground=GROUND, camera=CAMERA, pairs=False, **options)
    copied, drawn = videos(scene, (37, 61), dtype=dtype)
    assert drawn.requires_grad
    assert torch.equal(copied, drawn)
    assert not torch.equal(copied[0], copied[-1])


def test_worlds_with_backgrounds_and_cameras_of_their_own():
    eye = torch.tensor([[0.0, 1.0, 5.0], [0.1, 1.0, 5.0], [0.1, 1.0, 5.0]], dtype=torch.float64)
    background = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [0.9, 1.0, 1.0]], dtype=torch.float64)
    scene = gs.Scene([CUBE], ground=GROUND, camera=replace(CAMERA, eye=eye), background=background)
    copied, drawn = videos(scene, (40, 40))
    assert torch.equal(copied, drawn)
    assert not torch.equal(copied[0], copied[1])
    assert not torch.equal(copied[1], copied[2])


def test_depth():
    velocity = torch.tensor([1.5, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    scene = gs.Scene([replace(CUBE, velocity=velocity)], ground=GROUND, camera=CAMERA)

    def depth():
        return gs.render(scene, gs.simulate(scene, frames=6, fps=15, substeps=160), (40, 40), depth=True)[1]

    drawn = depth()
    assert drawn.requires_grad
    with torch.no_grad():
        assert torch.equal(depth(), drawn)


def test_a_still_scene_is_the_same_in_every_frame():
    scene = gs.Scene([CUBE], ground=GROUND, camera=CAMERA)
    trajectory = gs.simulate(scene, frames=2, fps=15, substeps=160)
    video = gs.render(scene, trajectory, (40, 40), frames=[1, 1, 1])
    assert torch.equal(video, gs.render(scene, trajectory, (40, 40), frames=[1]).expand(3, -1, -1, -1))

"""The public function render()."""

import dataclasses

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.render.memory import LARGE
from gradsim.scene.errors import WrongShape


def scene_of(x=0.0, **options) -> gs.Scene:
    ball = gs.Rigid("ball", gs.meshes.icosphere(0.4, 1), mass=1.0, velocity=(0.5, 1.0, 0.0), look=gs.Look(specular=0.3))
    position = torch.stack([torch.as_tensor(x, dtype=torch.float64), torch.zeros(()).double(), torch.ones(()).double()])
    cube = gs.Rigid("cube", gs.meshes.box(0.5), mass=1.0, position=position, look=gs.Look(color=(0.8, 0.2, 0.1)))
    options.setdefault("camera", gs.Camera(eye=(0.5, 0.4, 4.0), target=(0.0, 0.0, 0.0), fov=40))
    return gs.Scene([ball, cube], pairs=False, **options)  # the bodies never meet


def test_60_frames_of_8_worlds_equal_480_calls():
    gravity = torch.tensor([0.0, -2.0, 0.0]).double() * torch.linspace(0.5, 2.0, 8).double()[:, None]
    scene = scene_of(gravity=gravity)
    trajectory = gs.simulate(scene, frames=60, fps=60, substeps=4)
    video = gs.render(scene, trajectory, (32, 40))
    assert video.shape == (8, 60, 32, 40, 3)
    worst = 0.0
    for world in range(8):
        single = scene_of(gravity=gravity[world])
        motion = gs.simulate(single, frames=60, fps=60, substeps=4)
        for frame in range(60):
            image = gs.render(single, motion, (32, 40), frames=[frame])
            worst = max(worst, float((image[0] - video[world, frame]).abs().max()))
    assert worst < 1e-12


def test_gradient_of_pixels_in_mass():
    push = gs.Push(impulse=(1.0, 0.5, 0.0), point=(0.1, 0.0, 0.1))

    def loss(mass):
        cube = gs.Rigid("cube", gs.meshes.box(0.5), mass=mass, pushes=[push])
        scene = gs.Scene([cube], camera=gs.Camera(eye=(0.0, 0.0, 3.0), target=(0.0, 0.0, 0.0)))
        video = gs.render(scene, gs.simulate(scene, frames=6, fps=20, substeps=8), (48, 48))
        return ((video - 0.3) ** 2).mean((-4, -3, -2, -1))

    mass = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    loss(mass).backward()
    step = 1e-5
    ends = loss(torch.tensor([2.0 + step, 2.0 - step], dtype=torch.float64))
    assert mass.grad.item() == pytest.approx(((ends[0] - ends[1]) / (2 * step)).item(), rel=1e-6)


def test_frames_alpha_and_depth():
    scene = scene_of()
    trajectory = gs.simulate(scene, frames=5, fps=30, substeps=4)
    whole = gs.render(scene, trajectory, (24, 32), alpha=True)
    assert whole.shape == (5, 24, 32, 4)
    assert torch.equal(gs.render(scene, trajectory, (24, 32), frames=[4, -5]), whole[[4, 0], ..., :3])
    assert torch.equal(gs.render(scene, trajectory, (24, 32), frames=slice(1, 4)), whole[1:4, ..., :3])
    for renderer in (gs.Exact(), gs.SoftRas(), gs.DIBR()):
        _, depth = gs.render(scene, trajectory, (24, 32), renderer, depth=True)
        assert depth.shape == (5, 24, 32)
        assert depth[0, 0, 0] == torch.inf
        assert depth.min() == pytest.approx(4.0 - 1.0, abs=0.4)


def test_depth_of_a_plane_is_its_distance():
    wall = gs.Rigid("wall", gs.meshes.box((10.0, 10.0, 1.0)), mass=1.0)
    scene = gs.Scene([wall], camera=gs.Camera(eye=(0.0, 0.0, 3.0), target=(0.0, 0.0, 0.0)))
    _, depth = gs.render(scene, gs.simulate(scene, frames=1), (8, 8), depth=True)
    assert torch.allclose(depth, torch.full_like(depth, 2.5), atol=1e-12)


def test_depth_has_gradient():
    x = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)

    def total(value):
        scene = scene_of(value)
        _, depth = gs.render(scene, gs.simulate(scene, frames=1), (24, 32), depth=True)
        return depth[depth.isfinite()].sum()

    (gradient,) = torch.autograd.grad(total(x), x)
    with torch.no_grad():
        difference = (total(x + 1e-6) - total(x - 1e-6)) / 2e-6
    assert gradient.item() == pytest.approx(difference.item(), rel=1e-5)


@pytest.mark.parametrize("renderer", [gs.Exact(), gs.SoftRas(), gs.DIBR()], ids=lambda r: type(r).__name__)
def test_results_are_deterministic(renderer):
    scene = scene_of()
    trajectory = gs.simulate(scene, frames=9, fps=30, substeps=4)
    assert torch.equal(*(gs.render(scene, trajectory, (24, 32), renderer) for _ in range(2)))


def test_camera_of_each_world_and_background_images():
    eyes = torch.tensor([[0.5, 0.4, 4.0], [0.4, 0.3, 3.0]], dtype=torch.float64)
    image = torch.rand(24, 32, 3, dtype=torch.float64)
    scene = scene_of(camera=gs.Camera(eye=eyes, target=(0.0, 0.0, 0.0), fov=40), background=image)
    video = gs.render(scene, gs.simulate(scene, frames=2, fps=30, substeps=4), (24, 32))
    assert video.shape == (2, 2, 24, 32, 3)
    assert torch.equal(video[0, 0, 0], image[0])
    assert not torch.equal(video[0], video[1])


def test_single_precision():
    scene = scene_of().bodies[0]
    scene = gs.Scene([scene], camera=gs.Camera(eye=(0.5, 0.4, 4.0), target=(0.0, 0.0, 0.0)))
    single, double = (
        gs.render(scene, gs.simulate(scene, frames=2, dtype=dtype), (24, 32))
        for dtype in (torch.float32, torch.float64)
    )
    assert single.dtype == torch.float32
    assert (single - double).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": (0, 10)}, "size"),
        ({"size": 64}, "size"),
        ({"renderer": "softras"}, "gs.Exact()"),
        ({"frames": [7]}, "frames"),
    ],
)
def test_errors_of_bad_calls_name_valid_values(change, words):
    scene = scene_of()
    trajectory = gs.simulate(scene, frames=2)
    arguments = {"size": (8, 8), **change}
    with pytest.raises(gs.InvalidInput) as error:
        gs.render(scene, trajectory, **arguments)
    assert words in str(error.value)


def test_a_nan_gradient_raises():
    x = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
    scene = scene_of(x)
    video = gs.render(scene, gs.simulate(scene, frames=1), (16, 16))
    with pytest.raises(gs.BrokenGradient):
        (video * torch.nan).sum().backward()


def test_second_derivatives_are_refused():
    x = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    scene = scene_of(x)
    video = gs.render(scene, gs.simulate(scene, frames=1), (16, 16))
    with pytest.raises(gs.BrokenGradient, match="gradients of gradients"):
        torch.autograd.grad(video.square().sum(), x, create_graph=True)


def test_a_trajectory_of_another_body_is_refused():
    small, large = (
        gs.Scene([gs.Rigid("body", mesh, mass=1.0)], camera=gs.Camera(eye=(0.0, 0.0, 3.0), target=(0.0, 0.0, 0.0)))
        for mesh in (gs.meshes.box(1.0), gs.meshes.icosphere(0.5, 2))
    )
    with pytest.raises(gs.InvalidInput, match="render the scene that was simulated"):
        gs.render(large, gs.simulate(small, frames=1), (16, 16))


def test_default_texture_is_not_mirrored():
    """A texture with a bright upper left corner, on all six sides of a cube."""
    texture = torch.full((8, 8, 3), 0.2, dtype=torch.float64)
    texture[:4, :4] = 1.0
    cube = gs.Rigid("cube", gs.meshes.box(1.0), mass=1.0, look=gs.Look(texture=texture, lit=False))
    for eye in ((0, 0, 3), (0, 0, -3), (3, 0, 0), (-3, 0, 0), (0, 3, 0), (0, -3, 0)):
        up = (0, 1, 0) if eye[1] == 0 else (0, 0, -eye[1])
        scene = gs.Scene([cube], camera=gs.Camera(eye=eye, target=(0, 0, 0), up=up, fov=15), background=(0, 0, 0))
        image = gs.render(scene, gs.simulate(scene, frames=1), (32, 32))[0, ..., 0]
        assert image[:16, :16].mean() > 2 * image[:16, 16:].mean(), eye
        assert image[:16, :16].mean() > 2 * image[16:, :16].mean(), eye


def test_recycled_memory_does_not_overwrite_videos_in_use():
    """Memory of large videos is recycled only once nothing refers to it."""
    scene = scene_of()
    trajectory = gs.simulate(scene, frames=8, fps=20)
    first = gs.render(scene, trajectory, (128, 128))
    assert first.nbytes > LARGE
    frame, before = first[2:3], first.clone()
    moved = scene_of(x=0.3)
    other = gs.simulate(moved, frames=8, fps=20)
    for _ in range(3):
        assert not torch.equal(gs.render(moved, other, (128, 128)), before)
    assert torch.equal(first, before)
    del first
    gs.render(moved, other, (128, 128))
    assert torch.equal(frame, before[2:3])


def test_cached_views_follow_the_values_of_the_camera():
    eye = np.array([0.5, 0.4, 4.0])
    scene = scene_of(camera=gs.Camera(eye=eye, target=(0.0, 0.0, 0.0), fov=40))
    trajectory = gs.simulate(scene, frames=1, fps=20)
    with torch.inference_mode():
        before = gs.render(scene, trajectory, (24, 24)).clone()
    eye[0] = 0.9
    changed = gs.render(scene, trajectory, (24, 24))
    again = scene_of(camera=gs.Camera(eye=(0.9, 0.4, 4.0), target=(0.0, 0.0, 0.0), fov=40))
    assert not torch.equal(changed, before)
    assert torch.equal(changed, gs.render(again, trajectory, (24, 24)))


def test_gradients_after_rendering_in_inference_mode():
    x = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    camera = gs.Camera(eye=(0.51, 0.4, 4.0), target=(0.0, 0.0, 0.0), fov=41)
    with torch.inference_mode():
        still = scene_of(camera=camera)
        gs.render(still, gs.simulate(still, frames=1, fps=20), (24, 24))
    scene = scene_of(x, camera=camera)
    gs.render(scene, gs.simulate(scene, frames=1, fps=20), (24, 24)).square().sum().backward()
    assert x.grad.abs() > 0


def test_hidden_textures_do_not_leak():
    """Also where the edge between two front triangles crosses a texture."""

    def picture(texture):
        wall = gs.Rigid("wall", gs.meshes.box((2.0, 2.0, 0.1)), mass=1.0, position=(0.0, 0.6, 1.0), look=gs.Look())
        ball = gs.Rigid("ball", gs.meshes.icosphere(0.4, 2), mass=1.0, position=(-0.3, 0.5, -0.9))
        ball = dataclasses.replace(ball, look=gs.Look(texture=texture))
        camera = gs.Camera(eye=(0.0, 1.0, 3.0), target=(0.0, 0.4, 0.0), fov=40)
        scene = gs.Scene([wall, ball], gravity=(0.0, 0.0, 0.0), camera=camera)
        return gs.render(scene, gs.simulate(scene, frames=1, fps=30), (48, 64))

    random = torch.rand(8, 8, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.equal(picture(random), picture(torch.full_like(random, 0.3)))


def test_larger_background_images_are_averaged():
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(24, 36, 3, generator=generator, dtype=torch.float64)
    scene = scene_of(camera=gs.Camera(eye=(0.0, 0.0, 4.0), target=(0.0, 0.0, 0.0), fov=40), background=image)
    motion = gs.simulate(scene, frames=1, fps=10, substeps=1)
    small = gs.render(scene, motion, (8, 12), alpha=True)[0]
    expected = image.reshape(8, 3, 12, 3, 3).mean((1, 3))
    empty = small[..., 3] == 0.0
    assert int(empty.sum()) > 40
    torch.testing.assert_close(small[empty][:, :3], expected[empty])
    for size, text in (((48, 72), "at least as large"), ((8, 8), "aspect ratio")):
        with pytest.raises(WrongShape, match=text):
            gs.render(scene, motion, size)

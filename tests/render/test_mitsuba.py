"""Path tracing: agreement with the exact renderer in camera, colours and lights, and no gradient."""

import sys

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import InvalidInput, MissingExtra, OutOfRange, WrongType

SIZE = (64, 64)
TILT = (0.2, 0.3, 0.1, 0.9273618495495703)
CAMERA = gs.Camera(eye=(1.2, 0.9, 3.1), target=(0.1, 0.05, -0.1), up=(0.2, 1.0, 0.1), fov=35)
SUN = gs.DirectionalLight((-0.5, -1.0, -0.8), 0.9, (1.0, 0.8, 0.6))
BOX, BALL = gs.meshes.box(0.7), gs.meshes.icosphere(0.5)
RANDOM = np.random.default_rng(0)
PAINTED = gs.Look(face_colors=RANDOM.uniform(0.1, 0.9, (12, 3)))


@pytest.fixture
def mitsuba():
    return pytest.importorskip("mitsuba", reason="needs Mitsuba: pip install 'gradsim[mitsuba]'")


def body(look=PAINTED, mesh=BOX, name="box", **options):
    return gs.Rigid(name, mesh, **{"mass": 1.0, "rotation": TILT, "look": look, **options})


def scene_of(*bodies, **options):
    return gs.Scene(bodies, **{"camera": CAMERA, "lights": (), "background": (0.2, 0.3, 0.6), **options})


def still(scene, frames=1):
    return gs.simulate(scene, frames=frames, fps=10, substeps=4)


def both(scene, samples, **options):
    """The first frame by Mitsuba and by `Exact`, RGBA."""
    trajectory = still(scene)
    traced = gs.render(scene, trajectory, SIZE, gs.Mitsuba(samples=samples, **options), alpha=True)
    return traced[0], gs.render(scene, trajectory, SIZE, alpha=True)[0]


def inside(traced, exact):
    """Mean colours of fully covered pixels."""
    whole = (exact[..., 3] > 0.999) & (traced[..., 3] > 0.999)
    return traced[whole][:, :3].mean(0), exact[whole][:, :3].mean(0)


def centroid(image):
    height, width = torch.meshgrid(torch.arange(SIZE[0]) + 0.5, torch.arange(SIZE[1]) + 0.5, indexing="ij")
    weight = image[..., 3] / image[..., 3].sum()
    return torch.stack([(weight * width).sum(), (weight * height).sum()])


SHIFTED = gs.Camera(eye=(1.2, 0.9, 3.1), target=(0.1, 0.05, -0.1), fx=70.0, fy=70.0, cx=24.0, cy=38.5, resolution=SIZE)
ACROSS = gs.Camera(eye=(0.2, 0.3, 0.9), target=(0.0, 0.1, 0.0), fov=80, near=0.6)  # its near plane clips the box


@pytest.mark.usefixtures("mitsuba")
class TestAgreesWithExact:
    @pytest.mark.parametrize("camera", [CAMERA, SHIFTED], ids=["centred", "shifted"])
    def test_unlit_colours_and_silhouettes(self, camera):
        ball = body(gs.Look(color=(0.9, 0.3, 0.1)), BALL, "ball", position=(-0.5, -0.3, 0.6))
        traced, exact = both(scene_of(body(position=(0.3, 0.2, 0.0)), ball, camera=camera), 256)
        assert (traced - exact).abs().mean() < 3e-4
        assert (traced - exact).abs().max() < 0.05
        assert (centroid(traced) - centroid(exact)).abs().max() < 0.02

    def test_near_plane(self):
        traced, exact = both(scene_of(body(gs.Look(color=(0.9, 0.3, 0.1), two_sided=True)), camera=ACROSS), 64)
        assert 0.3 < exact[..., 3].mean() < 0.95
        assert (traced - exact).abs().mean() < 2e-3

    def test_background_image(self):
        image = RANDOM.uniform(0.0, 1.0, (*SIZE, 3))
        traced, exact = both(scene_of(body(), background=image), 16)
        empty = exact[..., 3] == 0.0
        assert torch.equal(traced[empty], exact[empty])
        assert (traced - exact).abs().mean() < 5e-3

    @pytest.mark.parametrize("lights", [(), (SUN,)], ids=["unlit", "lit"])
    def test_texture(self, lights):
        look = gs.Look(color=(0.9, 0.8, 0.7), texture=RANDOM.uniform(0.1, 0.9, (3, 4, 3)))
        traced, exact = both(scene_of(body(look), lights=lights), 64)
        assert (traced - exact).abs().mean() < 2e-3

    def test_vertex_colours(self):
        look = gs.Look(vertex_colors=RANDOM.uniform(0.1, 0.9, (len(BOX.vertices), 3)))
        traced, exact = both(scene_of(body(look)), 64)
        assert (traced - exact).abs().mean() < 1e-3

    @pytest.mark.parametrize(
        "light", [SUN, gs.AmbientLight(0.7, (1.0, 0.5, 0.7)), gs.PointLight((40.0, 60.0, 70.0), 0.8)]
    )
    def test_light_on_a_convex_diffuse_body(self, light):
        traced, exact = both(scene_of(body(gs.Look(color=(0.8, 0.5, 0.3), diffuse=1.0)), lights=(light,)), 64)
        assert torch.allclose(*inside(traced, exact), rtol=0.01)
        assert (traced - exact).abs().mean() < 5e-3

    def test_a_batch_of_lights(self):
        light = gs.PointLight((40.0, 60.0, 70.0), torch.tensor([0.5, 0.9], dtype=torch.float64))
        scene = scene_of(body(), lights=(light,))
        trajectory = still(scene)
        traced = gs.render(scene, trajectory, SIZE, gs.Mitsuba(samples=16))
        exact = gs.render(scene, trajectory, SIZE)
        assert traced.shape == exact.shape == (2, 1, *SIZE, 3)
        assert (traced - exact).abs().mean() < 2e-3

    def test_smooth_shading(self):
        lights = (SUN, gs.AmbientLight(0.2))
        traced, exact = both(scene_of(body(gs.Look(color=(0.8, 0.5, 0.3)), BALL), lights=lights), 64)
        assert torch.allclose(*inside(traced, exact), rtol=0.02)
        assert (traced - exact).abs().mean() < 5e-3

    def test_width_and_strength_of_highlights(self):
        lights = (gs.DirectionalLight((-0.3, -0.5, -1.0), 0.9),)
        look = gs.Look(color=(0.3, 0.2, 0.1), specular=0.5, shininess=30.0)
        traced, exact = both(scene_of(body(look, BALL), lights=lights), 64)
        assert traced.max() == pytest.approx(exact.max().item(), rel=0.1)
        assert torch.allclose(*inside(traced, exact), rtol=0.1)

    def test_unlit_colours_among_lit_ones(self):
        ball = body(gs.Look(color=(0.9, 0.3, 0.1), lit=False), BALL, "ball", position=(-0.5, -0.3, 0.6))
        traced, exact = both(scene_of(body(position=(0.3, 0.2, 0.0)), ball, lights=(SUN,)), 16)
        bare = (exact[..., :3] - torch.tensor([0.9, 0.3, 0.1], dtype=torch.float64)).abs().amax(-1) < 1e-9
        assert bare.sum() > 100
        assert (traced - exact)[bare].abs().amax(-1).median() < 1e-5

    def test_depth(self):
        scene = scene_of(body(), lights=(SUN,))
        trajectory = still(scene)
        _, traced = gs.render(scene, trajectory, SIZE, gs.Mitsuba(samples=16), depth=True)
        _, exact = gs.render(scene, trajectory, SIZE, depth=True)
        covered = torch.isfinite(traced) & torch.isfinite(exact)
        assert covered.sum() > 300
        assert (traced - exact)[covered].median().abs() < 5e-5
        assert (torch.isfinite(traced) != torch.isfinite(exact)).sum() < 20


@pytest.mark.usefixtures("mitsuba")
class TestVideo:
    def test_deterministic_for_any_frames_and_in_a_batch(self):
        moving = {"velocity": (0.5, 0.0, 0.0), "angular_velocity": (0.0, 2.0, 1.0)}
        scene = scene_of(body(**moving), lights=(SUN, gs.AmbientLight(0.3)))
        trajectory, tracer = still(scene, frames=4), gs.Mitsuba(samples=4)
        video = gs.render(scene, trajectory, SIZE, tracer)
        assert video.shape == (4, *SIZE, 3)
        assert torch.equal(gs.render(scene, trajectory, SIZE, tracer, frames=[2, -1]), video[[2, 3]])
        assert not torch.equal(gs.render(scene, trajectory, SIZE, gs.Mitsuba(samples=4, seed=1)), video)
        mass = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
        worlds = scene_of(body(**moving, mass=mass), lights=scene.lights)
        batch = gs.render(worlds, still(worlds, frames=4), SIZE, tracer, alpha=True)
        assert batch.shape == (2, 1, 4, *SIZE, 4)
        assert torch.equal(batch[0, 0, ..., :3], video)

    def test_empty_view(self):
        scene = scene_of(body(position=(0.0, 50.0, 0.0)))
        image, depth = gs.render(scene, still(scene), SIZE, gs.Mitsuba(samples=4), alpha=True, depth=True)
        assert torch.equal(image[0, 0, 0], torch.tensor([0.2, 0.3, 0.6, 0.0], dtype=torch.float64))
        assert torch.isinf(depth).all()

    def test_restores_the_variant(self, mitsuba):
        before = mitsuba.variant()
        mitsuba.set_variant("scalar_spectral")
        try:
            scene = scene_of(body())
            gs.render(scene, still(scene), (8, 8), gs.Mitsuba(samples=1))
            assert mitsuba.variant() == "scalar_spectral"
        finally:
            mitsuba.set_variant(before or "scalar_rgb")


@pytest.mark.usefixtures("mitsuba")
class TestRefuses:
    def test_gradients(self):
        color = torch.tensor([0.3, 0.4, 0.5], dtype=torch.float64, requires_grad=True)
        mass = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
        for scene in (scene_of(body(gs.Look(color=color))), scene_of(body(mass=mass, pushes=[gs.Push((1.0, 0, 0))]))):
            trajectory = still(scene, frames=2)
            with pytest.raises(InvalidInput, match=r"Mitsuba\(\): has no gradient.*torch.no_grad\(\).*gs.Exact\(\)"):
                gs.render(scene, trajectory, SIZE, gs.Mitsuba(samples=1))
            with torch.no_grad():
                assert not gs.render(scene, trajectory, SIZE, gs.Mitsuba(samples=1)).requires_grad

    def test_pixels_that_are_not_square(self):
        camera = gs.Camera(eye=(0, 0, 3), target=(0, 0, 0), fx=70.0, fy=71.0, cx=32.0, cy=32.0, resolution=SIZE)
        scene = scene_of(body(), camera=camera)
        with pytest.raises(InvalidInput, match="fx = fy"):
            gs.render(scene, still(scene), SIZE, gs.Mitsuba(samples=1))

    def test_texture_with_several_colours(self):
        scene = scene_of(body(gs.Look(face_colors=PAINTED.face_colors, texture=np.ones((2, 2, 3)))))
        with pytest.raises(InvalidInput, match="box.look.texture"):
            gs.render(scene, still(scene), SIZE, gs.Mitsuba(samples=1))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"samples": 0}, OutOfRange),
        ({"samples": 4.0}, WrongType),
        ({"bounces": 0}, OutOfRange),
        ({"seed": -1}, OutOfRange),
    ],
)
def test_options(options, error):
    with pytest.raises(error, match=f"Mitsuba.{next(iter(options))}"):
        gs.Mitsuba(**options)


def test_missing_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mitsuba", None)
    scene = scene_of(body())
    with pytest.raises(MissingExtra, match=r"pip install 'gradsim\[mitsuba\]'"):
        gs.render(scene, still(scene), SIZE, gs.Mitsuba())

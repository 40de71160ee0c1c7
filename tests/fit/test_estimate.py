"""estimate(): values, intervals and identifiability from small videos."""

import numpy as np
import pytest
import torch

import gradsim as gs

SIDES = np.repeat(np.random.default_rng(0).uniform(0.2, 1.0, (6, 3)), 2, axis=0)
PUSH = gs.Push(impulse=(5.0, 3.0, -1.0), point=(0.05, 0.0, 0.1))


def flight(mass=3.7, *, push=True, gravity=(0.0, -2.0, 0.0), eye=(0.0, 0.0, 5.0)) -> gs.Scene:
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(0.8),
        mass=mass,
        position=(-0.9, -0.3, 0.0),
        angular_velocity=(0.9, 0.7, 0.0),
        pushes=[PUSH] if push else [],
        look=gs.Look(face_colors=SIDES),
    )
    camera = gs.Camera(eye=eye, target=(0.0, 0.0, 0.0), fov=40)
    return gs.Scene([cube], gravity=gravity, camera=camera, background=(0.0, 0.0, 0.0))


def record(scene: gs.Scene, frames: int = 12, size: int = 48, substeps: int = 8) -> torch.Tensor:
    trajectory = gs.simulate(scene, frames=frames, fps=10, substeps=substeps, integrator=gs.Midpoint())
    return gs.render(scene, trajectory, (size, size))


@pytest.mark.parametrize("guess", [1.2, 5.0, 15.0])
def test_mass_of_a_pushed_cube(guess):
    fit = gs.estimate(flight(gs.unknown(guess, low=1.0, high=20.0)), record(flight()), fps=10, substeps=8)
    assert float(fit.values["cube.mass"]) == pytest.approx(3.7, rel=5e-9)
    assert fit.status == "converged"
    assert fit.certain
    assert fit.identifiability["cube.mass"].level == "identifiable"
    assert not fit.scene.unknowns
    assert "cube.mass [kg]" in str(fit)


def test_intervals_of_a_noisy_video_contain_the_truth():
    noise = 0.02 * torch.randn(12, 48, 48, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fit = gs.estimate(flight(gs.unknown(5.0, low=1.0, high=20.0)), record(flight()) + noise, fps=10, substeps=8)
    low, high = fit.intervals["cube.mass"]
    assert low < 3.7 < high
    assert high - low < 0.05
    assert fit.noise == pytest.approx(0.02, rel=0.05)


def test_values_and_intervals_do_not_depend_on_the_number_of_threads():
    noise = 0.02 * torch.randn(12, 96, 96, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    video = record(flight(), size=96) + noise
    before, fits = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            fits.append(gs.estimate(flight(gs.unknown(5.0, low=1.0, high=20.0)), video, fps=10, substeps=8))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert fits[0].values == fits[1].values
    assert fits[0].intervals == fits[1].intervals
    assert fits[0].misfit.chi2 == fits[1].misfit.chi2


def test_mass_without_a_push_is_not_identifiable():
    scene = flight(gs.unknown(5.0, low=1.0, high=20.0), push=False)
    fit = gs.estimate(scene, record(flight(push=False)), fps=10, substeps=8)
    assert fit.identifiability["cube.mass"].level == "not identifiable"
    assert "push" in fit.identifiability["cube.mass"].reason
    assert not fit.certain
    low, high = fit.intervals["cube.mass"]
    assert high > 3 * low


def drop(density, ke, *, impulse=0.0) -> gs.Scene:
    push = [gs.Push(impulse=(impulse, 0.0, 0.0))] if impulse else []
    ball = gs.Rigid(
        "ball",
        gs.meshes.icosphere(0.4, 1),
        mass=density,
        position=(0.0, 1.0, 0.0),
        contact=gs.Contact(ke=ke, kd=0.0, kf=0.0, mu=0.0, delta=0.01),
        pushes=push,
        look=gs.Look(smooth=0.0),
    )
    camera = gs.Camera(eye=(0.0, 0.6, 3.5), target=(0.0, 0.6, 0.0), fov=45)
    return gs.Scene([ball], ground=gs.Ground(), camera=camera)


@pytest.mark.filterwarnings("ignore::gradsim.ContactWarning")
def test_only_the_ratio_of_stiffness_to_mass_is_identifiable_without_a_push():
    scene = drop(gs.unknown(1.5, low=0.5, high=5.0), gs.unknown(250.0, low=50.0, high=1000.0))
    fit = gs.estimate(scene, record(drop(1.0, 200.0), frames=16, size=32, substeps=32), fps=10, substeps=32)
    assert not fit.certain
    assert any(
        "ball.mass / ball.contact.ke" in text or "ball.contact.ke / ball.mass" in text
        for text in fit.undetermined_directions
    )
    ratio = fit.values["ball.contact.ke"] / fit.values["ball.mass"]
    assert float(ratio) == pytest.approx(200.0, rel=1e-3)


def test_states_masks_and_tracks_instead_of_pixels():
    scene, unknown = flight(), flight(gs.unknown(5.0, low=1.0, high=20.0))
    trajectory = gs.simulate(scene, frames=12, fps=10, substeps=8, integrator=gs.Midpoint())
    states = gs.States({"cube.position": trajectory["cube"].position, "cube.velocity": trajectory["cube"].velocity})
    masks = gs.Masks(gs.render(scene, trajectory, (32, 32), alpha=True)[..., 3])
    depth = 5.0 - trajectory["cube"].vertices[..., 2]
    focal = 32 / np.tan(np.deg2rad(20.0))
    x = 32 + focal * trajectory["cube"].vertices[..., 0] / depth
    y = 32 - focal * trajectory["cube"].vertices[..., 1] / depth
    tracks = gs.Tracks({"cube": [0, 3, 6]}, torch.stack([x, y], -1)[:, [0, 3, 6]], (64, 64))
    for observation in (states, masks, tracks):
        fit = gs.estimate(unknown, observation, fps=10, substeps=8)
        assert float(fit.values["cube.mass"]) == pytest.approx(3.7, rel=1e-7), type(observation)


def test_two_cameras_share_mass_and_gravity():
    def make(eye, mass=3.7, gravity=(0.0, -2.0, 0.0)):
        return flight(mass, gravity=gravity, eye=eye)

    eyes = [(0.0, 0.0, 5.0), (5.0, 0.5, 0.0)]
    unknowns = {"mass": gs.unknown(5.0, low=1.0, high=20.0), "gravity": gs.unknown((0.3, -1.0, 0.0))}
    fit = gs.estimate([make(eye, **unknowns) for eye in eyes], [record(make(eye)) for eye in eyes], fps=10, substeps=8)
    assert float(fit.values["cube.mass"]) == pytest.approx(3.7, rel=1e-7)
    assert torch.allclose(fit.values["scene.gravity"], torch.tensor([0.0, -2.0, 0.0]).double(), atol=1e-7)


def test_masked_pixels_and_excluded_frames_are_ignored():
    video = record(flight())
    video[5] = 0.3
    video[:, :8] = 0.9
    mask = torch.ones(48, 48)
    mask[:8] = 0.0
    scene = flight(gs.unknown(5.0, low=1.0, high=20.0))
    frames = [k for k in range(12) if k != 5]
    fit = gs.estimate(scene, video, fps=10, substeps=8, mask=mask, frames=frames)
    assert float(fit.values["cube.mass"]) == pytest.approx(3.7, rel=1e-7)


def test_flicker_and_outliers():
    video = record(flight())
    video = video * torch.linspace(0.8, 1.2, 12).double()[:, None, None, None]
    scene = flight(gs.unknown(5.0, low=1.0, high=20.0))
    fit = gs.estimate(scene, video, fps=10, substeps=8, brightness=True)
    assert float(fit.values["cube.mass"]) == pytest.approx(3.7, rel=1e-6)
    corrupted = record(flight())
    corrupted[:, 20:24, 20:24] = 1.0
    quadratic, robust = (
        gs.estimate(scene, corrupted, fps=10, substeps=8, robust=threshold) for threshold in (None, 0.01)
    )
    errors = [abs(float(fit.values["cube.mass"]) - 3.7) for fit in (quadratic, robust)]
    assert errors[1] < 0.5 * errors[0]


def record_late(offset: float) -> torch.Tensor:
    """A video whose first frame is at the time `offset` [s]."""
    scene = flight()
    fine = gs.simulate(scene, frames=1150, fps=1000, substeps=1, integrator=gs.Midpoint())
    return gs.render(scene, fine, (48, 48), frames=[max(0, round(1000 * (k / 10 + offset))) for k in range(11)])


@pytest.mark.parametrize("offset", [0.021, -0.013])
def test_time_offset_is_estimated(offset):
    """The first frames are excluded: the push makes the velocity discontinuous between them."""
    unknown = flight(gs.unknown(5.0, low=1.0, high=20.0))
    guess = gs.unknown(0.0, low=-0.05, high=0.05)
    fit = gs.estimate(unknown, record_late(offset), fps=10, substeps=64, offset=guess, frames=range(2, 11))
    assert float(fit.values["video.offset"]) == pytest.approx(offset, abs=2e-4)
    assert float(fit.values["cube.mass"]) == pytest.approx(3.7, rel=1e-3)


def test_bootstrap_preserves_the_time_offset(tmp_path, monkeypatch):
    monkeypatch.setattr("gradsim.fit.bootstrap.COPIES", 2)
    gs.save_video(tmp_path / "video.mp4", record_late(0.021), 10.0, quality=12)
    unknown = flight(gs.unknown(5.0, low=1.0, high=20.0))
    options = {"substeps": 16, "offset": gs.unknown(0.0, low=-0.05, high=0.05), "frames": range(2, 11)}
    fit = gs.estimate(unknown, gs.load_video(tmp_path / "video.mp4"), **options)
    assert fit.interval_method.startswith("bootstrap")
    assert float(fit.values["video.offset"]) == pytest.approx(0.021, abs=2e-3)


def test_a_wrong_scene_is_not_reported_as_converged():
    other = flight()
    other = gs.Scene(other.bodies, gravity=(2.0, 2.0, 0.0), camera=other.camera, background=(0.0, 0.0, 0.0))
    fit = gs.estimate(flight(gs.unknown(5.0, low=1.0, high=20.0)), record(other), fps=10, substeps=8)
    assert fit.status == "does not explain the video"
    assert fit.misfit.explained < 0.5
    assert all(item.level == "not identifiable" for item in fit.identifiability.values())
    assert not fit.certain


def test_interrupting_returns_the_best_so_far():
    steps = []

    def progress(step):
        if steps:
            raise KeyboardInterrupt
        steps.append(step)

    scene = flight(gs.unknown(5.0, low=1.0, high=20.0))
    fit = gs.estimate(scene, record(flight()), fps=10, substeps=8, progress=progress)
    assert fit.status == "interrupted"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fps": None}, "fps"),
        ({"fps": -1.0}, "fps"),
        ({"video": torch.zeros(3, 8, 8)}, "[T, H, W, 3]"),
        ({"video": "video.mp4"}, "gs.States"),
        ({"mask": torch.ones(3, 3)}, "mask"),
        ({"frames": [99]}, "99"),
        ({"bootstrap": True}, "compressed"),
        ({"scene": flight()}, "unknown"),
    ],
)
def test_invalid_arguments(arguments, message):
    valid = {
        "scene": flight(gs.unknown(5.0, low=1.0, high=20.0)),
        "video": record(flight(), frames=3, size=16),
        "fps": 10,
        "substeps": 8,
        **arguments,
    }
    with pytest.raises(gs.InvalidInput) as error:
        gs.estimate(**valid)
    assert message in str(error.value)


def test_rough_words_that_apply_to_nothing_are_refused():
    motion = gs.simulate(flight(), frames=6, fps=10, substeps=8, integrator=gs.RungeKutta4())
    states = gs.States({"cube.position": motion["cube"].position}, noise=1e-3)
    with pytest.raises(gs.InvalidInput, match="roughly = 'light'"):
        gs.estimate(flight(gs.unknown(5.0, low=1.0, high=20.0)), states, fps=10, roughly=["start", "light"])

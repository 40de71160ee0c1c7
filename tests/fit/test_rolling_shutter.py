"""Rolling shutters: tracks and images whose rows have times of their own, drawn without gradsim."""

import numpy as np
import pytest
import torch
from tests.fit.paths import COUNT, FPS, HEIGHT, WIDTH, dropped_ball, positions, project

import gradsim as gs
from gradsim.fit.observations.images import exposed
from gradsim.fit.parameters import Parameters
from gradsim.fit.trials import make_trial_model
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongType

READOUT = 0.03  # [s]


def rolling_path() -> torch.Tensor:
    """Image positions at the times at which their own rows are read out, by fixed-point iteration, [T, 1, 2]."""
    start = np.arange(COUNT) / FPS
    path = project(positions(start))
    for _ in range(50):
        path = project(positions(start + READOUT * path[:, 1] / HEIGHT))
    return torch.as_tensor(path)[:, None]


@pytest.mark.parametrize("readout", [READOUT, 0.0])
def test_tracks_are_compared_at_the_times_of_their_rows(readout):
    scene = dropped_ball(gravity=(0.0, gs.unknown(-9.0, low=-20.0, high=-1.0), 0.0))
    tracks = gs.Tracks([gs.Center("ball")], rolling_path(), (HEIGHT, WIDTH), noise=0.1)
    fit = gs.estimate(gs.Trial(scene, tracks, fps=FPS, readout=readout), corrections=0)
    error = abs(float(fit.values["scene.gravity[1]"]) + 9.81)
    assert error < 2e-3 if readout else error > 0.1


def marked_plate(readout, fps=20.0) -> gs.Trial:
    """Two markers on a plate that moves sideways at 2 m/s, one above the other: the lower one is seen further along."""
    speed = 2.0
    plate = gs.Rigid(
        "plate", gs.meshes.box((0.5, 1.0, 0.01)), mass=1.0, velocity=(gs.unknown(1.0, low=0.0, high=4.0), 0.0, 0.0)
    )
    camera = gs.Camera(eye=(0.0, 0.0, 4.0), target=(0.0, 0.0, 0.0), fov=45.0)
    scene = gs.Scene([plate], gravity=(0.0, 0.0, 0.0), camera=camera)
    focal, height, t = 50.0 / np.tan(np.deg2rad(22.5)), np.array([0.4, -0.4]), np.arange(8)[:, None] / fps
    y = 50.0 - focal * height / 4.0
    x = 50.0 + focal * speed * (t + READOUT * y / 100.0) / 4.0
    pixels = np.stack([x, np.broadcast_to(y, x.shape)], -1)
    points = [gs.Marker("plate", (0.0, h, 0.0)) for h in height]
    return gs.Trial(scene, gs.Tracks(points, pixels, (100, 100), noise=0.01), fps=fps, readout=readout)


def test_each_of_several_points_has_the_time_of_its_row():
    fit = gs.estimate(marked_plate(READOUT), corrections=0)
    assert fit.values["plate.velocity[0]"] == pytest.approx(2.0, abs=1e-6)
    assert fit.misfit.chi2 < 1e-6


def test_an_unknown_readout_is_estimated_from_tracks():
    fit = gs.estimate(marked_plate(gs.unknown(0.01, low=0.0, high=0.05)), corrections=0)
    assert fit.values["video.readout"] == pytest.approx(READOUT, abs=1e-6)
    assert fit.values["plate.velocity[0]"] == pytest.approx(2.0, abs=1e-6)


SIZE, RATE, FRAMES, SIDE, SPEED = 32, 20.0, 8, 0.8, 1.0


def card(x, speed) -> gs.Scene:
    """A dark square card that moves sideways before a white wall."""
    body = gs.Rigid(
        "card",
        gs.meshes.box((SIDE, SIDE, 1e-3)),
        mass=1.0,
        position=(x, 0.0, 0.0),
        velocity=(speed, 0.0, 0.0),
        look=gs.Look(color=(0.1, 0.2, 0.3)),
    )
    camera = gs.Camera(eye=(0.0, 0.0, 4.0), target=(0.0, 0.0, 0.0), fov=40.0)
    return gs.Scene([body], gravity=(0.0, 0.0, 0.0), camera=camera, lights=[gs.AmbientLight(1.0)])


def drawn(readout: float, x: float = -0.3, factor: int = 32) -> torch.Tensor:
    """The card drawn with numpy: exact coverage along lines in every row, each at its own time, [T, H, W, 3]."""
    scale = SIZE / (2 * 4.0 * np.tan(np.deg2rad(20.0)))  # pixels of a metre at the distance of the card
    lines = (np.arange(SIZE * factor) + 0.5) / factor  # [px]
    left = np.arange(SIZE)
    frames = []
    for k in range(FRAMES):
        center = SIZE / 2 + scale * (x + SPEED * (k / RATE + readout * lines[:, None] / SIZE))
        half = scale * SIDE / 2
        covered = (np.minimum(left + 1, center + half) - np.maximum(left, center - half)).clip(0.0, 1.0)
        covered = covered * (np.abs(lines - SIZE / 2) < half)[:, None]
        cover = covered.reshape(SIZE, factor, SIZE).mean(1)[..., None]
        frames.append(cover * np.array([0.1, 0.2, 0.3]) + 1.0 - cover)
    return torch.as_tensor(np.stack(frames))


@pytest.mark.parametrize("readout", [0.04, 0.0])
def test_images_of_a_rolling_shutter(readout):
    """The card is a parallelogram. Without the readout its position is that of its middle row, half of it later."""
    scene = card(gs.unknown(-0.25, low=-1.0, high=1.0), gs.unknown(0.8, low=0.0, high=3.0))
    fit = gs.estimate(scene, drawn(0.04), fps=RATE, readout=readout, noise=0.01, corrections=0)
    error = abs(float(fit.values["card.position[0]"]) + 0.3)
    assert float(fit.values["card.velocity[0]"]) == pytest.approx(SPEED, abs=0.01)
    if readout:
        assert error < 2e-3
        assert fit.misfit.moving_chi2 < 1.0
    else:
        assert error == pytest.approx(SPEED * 0.02, abs=3e-3)
        assert fit.misfit.moving_chi2 > 3.0


def test_an_unknown_readout_is_estimated_from_images():
    scene = card(gs.unknown(-0.25, low=-1.0, high=1.0), gs.unknown(0.8, low=0.0, high=3.0))
    unknown = gs.unknown(0.01, low=0.0, high=0.05)
    fit = gs.estimate(scene, drawn(0.04), fps=RATE, readout=unknown, noise=0.01, corrections=0)
    # Four renderings of a frame are too coarse for these edges: the value is rough, and not called certain.
    assert float(fit.values["video.readout"]) == pytest.approx(0.04, rel=0.1)
    assert float(fit.values["card.position[0]"]) == pytest.approx(-0.3, abs=3e-3)
    assert not fit.certain


def images_trial(readout) -> gs.Trial:
    return gs.Trial(card(gs.unknown(-0.28, low=-1.0, high=1.0), SPEED), drawn(0.03), fps=RATE, readout=readout)


@pytest.mark.parametrize(("make", "tolerance"), [(marked_plate, 1e-6), (images_trial, 2e-3)], ids=["tracks", "images"])
def test_gradient_of_the_readout(make, tolerance):
    """Against central differences at three steps; pixels of images have kinks where edges pass their sides."""
    trial = make(gs.unknown(0.021, low=0.0, high=0.05))
    model = make_trial_model(trial, name="0", substeps=8, integrator=gs.Midpoint())
    parameters = Parameters(model.scene, time_unknowns=trial.time_unknowns)
    weights = torch.randn(1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def loss(z: torch.Tensor) -> torch.Tensor:
        values = parameters.model_values(parameters.values(z[None]), 0)
        scene, _ = model.simulate(values)
        difference = model.difference(scene, model.simulate_grid(scene), values, 0, 0)
        return (difference**2 + weights * difference).sum()

    z = parameters.initial().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(z), z)
    place = parameters.names.index("video.readout")
    assert gradient[place] != 0
    for step in (1e-3, 1e-4, 1e-5):
        move = torch.zeros_like(z)
        move[place] = step
        with torch.no_grad():
            difference = float(loss(z + move) - loss(z - move)) / (2 * step)
        assert float(gradient[place]) == pytest.approx(difference, rel=tolerance)


def test_rows_are_interpolated_between_readouts():
    images = torch.rand(
        2 * 3 * 2, 6, 4, 1, dtype=torch.float64, requires_grad=True
    )  # two frames, 3 readouts, 2 samples
    joined = exposed(images, 2, 3)
    assert joined.shape == (2, 6, 4, 1)
    means = images.reshape(2, 3, 2, 6, 4, 1).mean(2)
    torch.testing.assert_close(joined[:, 0], means[:, 0, 0] * (5 / 6) + means[:, 1, 0] * (1 / 6))
    torch.testing.assert_close(joined[:, 5], means[:, 1, 5] * (1 / 6) + means[:, 2, 5] * (5 / 6))
    assert torch.autograd.gradcheck(lambda x: exposed(x, 2, 3), images)


@pytest.mark.parametrize(
    ("readout", "error"), [(-0.01, OutOfRange), (float("nan"), WrongType), ("fast", WrongType)], ids=str
)
def test_bad_readouts(readout, error):
    with pytest.raises(error, match="readout"):
        gs.Trial(card(0.0, 1.0), drawn(0.0), fps=RATE, readout=readout)


def test_an_unknown_readout_needs_an_upper_bound():
    trial = gs.Trial(card(gs.unknown(0.0, low=-1, high=1), 1.0), drawn(0.0), fps=RATE, readout=gs.unknown(0.01, low=0))
    with pytest.raises(InvalidInput, match=r"video.readout.*needs bounds"):
        gs.estimate(trial)


def test_states_have_no_rows():
    """A rolling shutter does not change states: they are measured at the times of the frames."""
    scene = card(gs.unknown(-0.25, low=-1.0, high=1.0), SPEED)
    x = -0.3 + SPEED * np.arange(FRAMES) / RATE
    states = gs.States({"card.position": np.stack([x, 0 * x, 0 * x], 1)}, noise=0.001)
    fit = gs.estimate(gs.Trial(scene, states, fps=RATE, readout=0.03), corrections=0)
    assert float(fit.values["card.position[0]"]) == pytest.approx(-0.3, abs=1e-6)

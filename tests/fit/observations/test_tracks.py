"""Tracks: image positions and positions in space."""

import math

import pytest
import torch
from tests.fit.observations.scenes import FRAMES, SIDE_CAMERA, UNKNOWN_MASS, motion, noise, pushed_cube

import gradsim as gs
from gradsim.scene.errors import OutOfRange

SCENE = pushed_cube()
SIZE = (96, 128)
POINTS = [gs.Vertex("cube", 0), gs.Center("cube"), gs.Marker("cube", (0.1, 0.2, 0.4)), gs.Vertex("cube", 6)]


@pytest.fixture(scope="module")
def trajectory() -> gs.Trajectory:
    return motion(SCENE)


def space(trajectory: gs.Trajectory) -> torch.Tensor:
    """Positions of the points [m], [T, 4, 3]."""
    return torch.stack([point.positions(SCENE, trajectory) for point in POINTS], 1)


def image(points: torch.Tensor) -> torch.Tensor:
    """Pinhole projection into the camera of the scene, written without the package."""
    focal = SIZE[0] / 2 / torch.tan(torch.deg2rad(torch.tensor(20.0, dtype=torch.float64)))
    depth = 5.0 - points[..., 2]
    x = SIZE[1] / 2 + focal * points[..., 0] / depth
    return torch.stack([x, SIZE[0] / 2 - focal * points[..., 1] / depth], -1)


def test_the_right_motion_has_no_difference(trajectory):
    for observation, unit, width in (
        (gs.Tracks(POINTS, image(space(trajectory)), SIZE), "px", 2),
        (gs.Tracks(POINTS, positions=space(trajectory)), "m", 3),
    ):
        assert (observation.unit, observation.entries(0)) == (unit, 4 * width)
        assert observation.difference(SCENE, trajectory[:3], 0).shape == (3, 4 * width)
        assert float(observation.difference(SCENE, trajectory, 0).abs().max()) < 1e-9


def test_differences_keep_the_order_of_points(trajectory):
    shift = torch.arange(4 * 3, dtype=torch.float64).view(4, 3)
    observation = gs.Tracks(POINTS, positions=space(trajectory) - shift)
    assert torch.allclose(observation.difference(SCENE, trajectory, 0), shift.flatten().expand(FRAMES, -1))


def test_vertices_by_body(trajectory):
    tracks = gs.Tracks({"cube": [0, 6]}, positions=space(trajectory)[:, [0, 3]])
    assert tracks.points == (gs.Vertex("cube", 0), gs.Vertex("cube", 6))
    assert float(tracks.difference(SCENE, trajectory, 0).abs().max()) == 0


def test_points_that_are_not_seen_weigh_nothing(trajectory):
    pixels = image(space(trajectory))
    pixels[2, 1, 0] = torch.nan  # one missing coordinate makes the point missing
    pixels[4] = torch.nan
    observation = gs.Tracks(POINTS, pixels + 0.5, SIZE, weights=[1.0, 4.0, 0.0, 1.0])
    residual = observation.residual(SCENE, trajectory, 0).view(FRAMES, 4, 2)
    assert float(residual[2, 1].abs().max()) == 0
    assert float(residual[4].abs().max()) == 0
    assert torch.allclose(residual[0, :, 0], torch.tensor([-0.5, -1.0, 0.0, -0.5], dtype=torch.float64))
    timed = torch.ones(FRAMES, 4)
    timed[3] = 0.0
    weights = gs.Tracks(POINTS, pixels, SIZE, weights=timed, frames=range(4)).weights(0)
    assert weights.sum(-1).tolist() == [8, 8, 6, 0, 0, 0, 0, 0, 0, 0]


def test_its_own_camera_has_precedence(trajectory):
    seen = gs.Tracks(POINTS, torch.zeros(FRAMES, 4, 2), SIZE).difference(pushed_cube(camera=SIDE_CAMERA), trajectory, 0)
    own = gs.Tracks(POINTS, torch.zeros(FRAMES, 4, 2), SIZE, camera=SIDE_CAMERA).difference(SCENE, trajectory, 0)
    assert torch.equal(seen, own)
    with pytest.raises(gs.InvalidInput, match="scene.camera"):
        gs.Tracks(POINTS, torch.zeros(FRAMES, 4, 2), SIZE).difference(pushed_cube(camera=None), trajectory, 0)


def test_a_point_behind_the_camera_has_a_finite_difference():
    scene = pushed_cube(position=(0.0, 0.0, 9.0))
    difference = gs.Tracks(POINTS, torch.zeros(2, 4, 2), SIZE).difference(scene, motion(scene, 2), 0)
    assert bool(torch.isfinite(difference).all())


@pytest.mark.parametrize("kind", ["pixels", "positions"])
def test_gradient_with_respect_to_the_motion(trajectory, kind):
    target = image(space(trajectory)) if kind == "pixels" else space(trajectory)
    size = {"size": SIZE} if kind == "pixels" else {}
    observation = gs.Tracks(POINTS, **{kind: target + 1.0}, **size, robust=gs.Huber(0.7))

    def residual(velocity):
        scene = pushed_cube(velocity=velocity)
        moved = gs.simulate(scene, frames=4, fps=10, substeps=2)
        return observation.residual(scene, moved, 0).square().sum()

    start = torch.tensor([1.31, 0.77, -0.21], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(residual, start, eps=1e-6, rtol=1e-6)


@pytest.mark.parametrize("given", [True, False])
def test_mass_from_noisy_tracks_with_gaps(trajectory, given):
    pixels = image(space(trajectory))
    pixels = pixels + noise(pixels.shape, 0.3)
    pixels[3:5, 0] = torch.nan
    observation = gs.Tracks(POINTS, pixels, SIZE, noise=0.3 if given else None)
    fit = gs.estimate(pushed_cube(mass=UNKNOWN_MASS), observation, fps=10.0)
    low, high = (float(end) for end in fit.intervals["cube.mass"])
    assert fit.status == "converged", fit.advice
    assert abs(float(fit.values["cube.mass"]) - 3.7) < 0.75 * (high - low)  # three standard deviations
    assert high - low < 0.8
    assert fit.noise == pytest.approx(0.3, rel=0.3)


@pytest.mark.parametrize("given", [0.3, None])
def test_tracks_of_another_motion_are_not_explained(trajectory, given):
    """The observed points move backwards; the noise may not absorb that."""
    pixels = image(space(trajectory)).flip(0)
    observation = gs.Tracks(POINTS, pixels + noise(pixels.shape, 0.3), SIZE, noise=given)
    fit = gs.estimate(pushed_cube(mass=UNKNOWN_MASS), observation, fps=10.0, corrections=0)
    assert fit.status == "does not explain the observations"
    assert not fit.certain


def test_a_mistracked_point_is_an_outlier(trajectory):
    positions = space(trajectory)
    positions = positions + noise(positions.shape, 0.001)
    positions[5:, 3] += 1.0
    scene = pushed_cube(mass=UNKNOWN_MASS)
    robust = gs.estimate(scene, gs.Tracks(POINTS, positions=positions, noise=0.001, robust=gs.Cauchy(0.003)), fps=10.0)
    assert float(robust.values["cube.mass"]) == pytest.approx(3.7, rel=0.01)
    plain = gs.estimate(scene, gs.Tracks(POINTS, positions=positions, noise=0.001), fps=10.0, corrections=0)
    assert plain.status.startswith("does not explain")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pixels": torch.zeros(3, 4, 3)}, r"pixels.*\[T, 4, 2\]"),
        ({"pixels": torch.zeros(3, 2, 2)}, r"pixels.*\[T, 4, 2\]"),
        ({"pixels": None}, "pixels/positions"),
        ({"positions": torch.zeros(3, 4, 3)}, "pixels/positions"),
        ({"size": None}, "size"),
        ({"size": (0, 4)}, "size"),
        ({"points": []}, "points"),
        ({"points": ["cube"]}, "points"),
        ({"weights": [1.0, 2.0]}, "weights"),
        ({"weights": [-1.0, 1.0, 1.0, 1.0]}, "weights"),
        ({"mask": torch.ones(3)}, "mask.*does not apply to gs.Tracks"),
        ({"renderer": gs.Exact()}, "renderer.*does not apply to gs.Tracks"),
        ({"pixels": None, "positions": torch.zeros(3, 4, 3)}, "size.*does not apply"),
        ({"pixels": None, "size": None, "positions": torch.zeros(3, 4, 3), "camera": SIDE_CAMERA}, "camera"),
        ({"pixels": None, "size": None, "positions": torch.zeros(3, 4, 2)}, r"positions.*\[T, 4, 3\]"),
    ],
)
def test_invalid_arguments_are_named(arguments, message):
    with pytest.raises(gs.InvalidInput, match=message):
        gs.Tracks(**{"points": POINTS, "pixels": torch.zeros(3, 4, 2), "size": SIZE, **arguments})


def test_options_of_images_do_not_apply(trajectory):
    observation = gs.Tracks(POINTS, positions=space(trajectory))
    with pytest.raises(gs.InvalidInput, match="samples"):
        observation.difference(SCENE, trajectory, 0, samples=4)
    with pytest.raises(gs.InvalidInput, match="adjust"):
        observation.difference(SCENE, trajectory, 0, adjust=lambda x: x)


@pytest.mark.parametrize("drift", [-0.1, math.nan, True, "0.2"])
def test_drift_is_a_standard_deviation(drift):
    with pytest.raises(OutOfRange, match="drift"):
        gs.Tracks([gs.Center("ball")], torch.zeros(3, 1, 2), (48, 64), drift=drift)

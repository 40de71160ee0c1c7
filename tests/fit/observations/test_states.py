"""States: rotations on the manifold, units, widths, weights, missing values."""

import pytest
import torch
from tests.fit.observations.scenes import FRAMES, UNKNOWN_MASS, motion, noise, pushed_cube

import gradsim as gs

SCENE = pushed_cube()


@pytest.fixture(scope="module")
def trajectory() -> gs.Trajectory:
    return motion(SCENE)


def quaternion(axis: torch.Tensor, angle: float) -> torch.Tensor:
    half = torch.tensor(angle / 2, dtype=torch.float64)
    return torch.cat([axis / axis.norm() * half.sin(), half.cos()[None]])


def multiply(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    pv, pw, qv, qw = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    vector = pw * qv + qw * pv + torch.linalg.cross(pv.expand_as(qv), qv)
    return torch.cat([vector, pw * qw - (pv * qv).sum(-1, keepdim=True)], -1)


def test_entries_and_units(trajectory):
    cube = trajectory["cube"]
    observation = gs.States(
        {"cube.position": cube.position, "cube.rotation": cube.rotation, "cube.velocity": cube.velocity}
    )
    assert observation.entries(0) == 9
    assert observation.unit == "m, rad, m/s"
    assert [name for name, _ in observation.groups()] == ["position", "rotation", "velocity"]
    assert observation.group_unit("rotation") == "rad"
    assert float(observation.difference(SCENE, trajectory, 0).abs().max()) < 1e-7
    assert observation.difference(SCENE, trajectory[:3], 0).shape == (3, 9)


@pytest.mark.parametrize("angle", [1e-9, 1e-3, 1.0, 3.1])
def test_rotations_are_compared_by_their_rotation_vector_whatever_the_sign(trajectory, angle):
    axis = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    measured = multiply(quaternion(axis, -angle), trajectory["cube"].rotation)
    signs = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(FRAMES // 2)[:, None]
    for q in (measured, -measured, signs * measured):
        difference = gs.States({"cube.rotation": q}).difference(SCENE, trajectory, 0)
        assert torch.allclose(difference, angle * axis / axis.norm(), rtol=1e-6, atol=1e-12)


def test_a_rotation_with_one_missing_number_is_missing(trajectory):
    rotation = trajectory["cube"].rotation.clone()
    rotation[2, 1] = torch.nan
    position = trajectory["cube"].position.clone() + 0.5
    position[3, 1] = torch.nan
    observation = gs.States({"cube.position": position, "cube.rotation": rotation})
    weights, difference = observation.weights(0), observation.difference(SCENE, trajectory, 0)
    assert weights[2].tolist() == [1, 1, 1, 0, 0, 0]
    assert weights[3].tolist() == [1, 0, 1, 1, 1, 1]
    assert difference[3, :3].tolist() == pytest.approx([-0.5, 0.0, -0.5])
    assert float(difference[2, 3:].abs().max()) == 0
    assert bool(torch.isnan(observation.series()[2, 3:]).all())


def test_the_gradient_at_a_missing_rotation_is_finite(trajectory):
    rotation = trajectory["cube"].rotation.clone()
    rotation[1] = torch.nan
    velocity = torch.tensor([1.4, 0.8, -0.3], dtype=torch.float64, requires_grad=True)
    scene = pushed_cube(velocity=velocity)
    observation = gs.States({"cube.rotation": rotation, "cube.position": trajectory["cube"].position + 0.1})
    loss = observation.residual(scene, motion(scene), 0).square().sum()
    (gradient,) = torch.autograd.grad(loss, velocity)
    assert bool(torch.isfinite(gradient).all())


def test_gradient_with_respect_to_the_motion(trajectory):
    rotation = multiply(quaternion(torch.tensor([0.0, 1.0, 1.0]).double(), 0.4), trajectory["cube"].rotation)
    robust = {"rotation": gs.Cauchy(0.3), "angular_velocity": 0.2}
    observation = gs.States(
        {"cube.rotation": -rotation, "cube.angular_velocity": trajectory["cube"].angular_velocity + 0.3}, robust=robust
    )

    def residual(mass):
        scene = pushed_cube(mass=mass)
        return observation.residual(scene, gs.simulate(scene, frames=4, fps=10, substeps=2), 0).square().sum()

    start = torch.tensor(3.1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(residual, start, eps=1e-6, rtol=1e-6)


def test_weights_by_path_and_frames(trajectory):
    cube = trajectory["cube"]
    timed = torch.ones(FRAMES)
    timed[4] = 0.0
    observation = gs.States(
        {"cube.position": cube.position + 1.0, "cube.velocity": cube.velocity + 1.0},
        weights={"cube.position": 4.0, "cube.velocity": timed},
        frames=range(2, 6),
    )
    residual = observation.residual(SCENE, trajectory, 0)
    assert residual[3].tolist() == pytest.approx([-2.0] * 3 + [-1.0] * 3)
    assert residual[4].tolist() == pytest.approx([-2.0] * 3 + [0.0] * 3)
    assert float(residual[[0, 1, 6, 9]].abs().max()) == 0


def test_robust_losses_by_attribute(trajectory):
    cube = trajectory["cube"]
    values = {"cube.position": cube.position + 1.0, "cube.velocity": cube.velocity + 1.0}
    residual = gs.States(values, robust={"velocity": gs.Huber(0.5)}).residual(SCENE, trajectory, 0)
    assert residual[0].tolist() == pytest.approx([-1.0] * 3 + [-((2 * 0.5 - 0.25) ** 0.5)] * 3)


def test_states_of_a_batch_of_worlds(trajectory):
    scene = pushed_cube(mass=torch.tensor([3.7, 2.0], dtype=torch.float64))
    cube = trajectory["cube"]
    observation = gs.States({"cube.rotation": cube.rotation, "cube.vertices": cube.vertices})
    difference = observation.difference(scene, motion(scene), 0)
    assert difference.shape == (2, FRAMES, 3 + 24)
    assert float(difference[0].abs().max()) < 1e-7 < float(difference[1].abs().max())


def test_angles_of_a_pendulum():
    scene = gs.Scene([gs.Pendulum("bob", length=1.0, angle=0.7)])
    swing = gs.simulate(scene, frames=5, fps=20)
    observation = gs.States({"bob.angle": swing["bob"].angle, "bob.bobs": swing["bob"].bobs})
    assert observation.unit == "rad, m"
    assert float(observation.difference(scene, swing, 0).abs().max()) == 0


@pytest.mark.parametrize("given", [True, False])
def test_mass_from_noisy_states_with_gaps_and_flipped_quaternions(trajectory, given):
    cube = trajectory["cube"]
    position = cube.position + noise(cube.position.shape, 0.003)
    position[4:6] = torch.nan
    small = noise((FRAMES, 3), 0.01, 1)
    rotation = torch.stack(
        [multiply(quaternion(v, float(v.norm())), q) for v, q in zip(small, cube.rotation, strict=True)]
    )
    rotation[::3] *= -1
    sd = {"position": 0.003, "rotation": 0.01} if given else None
    observation = gs.States({"cube.position": position, "cube.rotation": rotation}, noise=sd)
    fit = gs.estimate(pushed_cube(mass=UNKNOWN_MASS), observation, fps=10.0)
    low, high = fit.intervals["cube.mass"]
    assert fit.status == "converged", fit.advice
    assert low < 3.7 < high
    assert high - low < 0.2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cube.rotation": torch.zeros(3, 3)}, r"cube.rotation.*\[T, 4\].*quaternion"),
        ({"cube.rotation": torch.ones(3, 4)}, "cube.rotation.*unit quaternions"),
        ({"cube.position": torch.zeros(3, 4)}, r"cube.position.*\[T, 3\]"),
        ({"cube.position": torch.zeros(3)}, r"cube.position.*\[T, 3\]"),
        ({"cube.velocity": torch.zeros(3, 2)}, r"cube.velocity.*\[T, 3\]"),
        ({"cube": torch.zeros(3, 3)}, "cube.position"),
        ({"cube.position": torch.zeros(3, 3), "cube.velocity": torch.zeros(4, 3)}, "same number of frames"),
        ({"cube.position": torch.zeros(0, 3)}, "frame"),
        ({"cube.position": "here"}, "cube.position"),
        ({"cube.position": torch.full((3, 3), torch.inf)}, "cube.position.*infinite"),
        ({}, "values"),
        (torch.zeros(3, 3), "values"),
    ],
)
def test_invalid_values_are_named(values, message):
    with pytest.raises(gs.InvalidInput, match=message):
        gs.States(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cube.vertices": torch.zeros(FRAMES, 7, 3)}, r"cube.vertices.*\[T, 8, 3\]"),
        ({"cube.angle": torch.zeros(FRAMES, 1)}, "cube.angle.*no 'angle', but"),
        ({"ball.position": torch.zeros(FRAMES, 3)}, "ball"),
    ],
)
def test_values_that_do_not_fit_the_motion_are_named(trajectory, values, message):
    with pytest.raises(gs.GradsimError, match=message):
        gs.States(values).difference(SCENE, trajectory, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 0.01}, "noise.*units are m, rad"),
        ({"robust": 0.01}, "robust.*units are m, rad"),
        ({"noise": {"spin": 0.1}}, "noise.*attributes are position, rotation"),
        ({"noise": {"position": -0.1}}, "noise"),
        ({"weights": {"cube.velocity": 1.0}}, "weights.*cube.velocity"),
        ({"weights": {"cube.position": [1.0, 2.0]}}, "weights"),
        ({"weights": {"cube.position": -1.0}}, "weights"),
        ({"weights": [1.0]}, "weights"),
        ({"camera": gs.Camera(eye=(0, 0, 1), target=(0, 0, 0))}, "camera.*does not apply to gs.States"),
        ({"renderer": gs.Exact()}, "renderer.*does not apply to gs.States"),
        ({"mask": torch.ones(3)}, "mask.*does not apply to gs.States"),
    ],
)
def test_invalid_options_are_named(options, message):
    rotation = torch.tensor([0.0, 0.0, 0.0, 1.0]).expand(3, 4)
    with pytest.raises(gs.InvalidInput, match=message):
        gs.States({"cube.position": torch.zeros(3, 3), "cube.rotation": rotation}, **options)


def test_one_noise_for_entries_of_one_unit():
    observation = gs.States({"cube.position": torch.zeros(3, 3), "cube.vertices": torch.zeros(3, 8, 3)}, noise=0.01)
    assert observation.group_noise("vertices") == 0.01


def test_copies_keep_all_arguments(trajectory):
    observation = gs.States({"cube.position": trajectory["cube"].position}, weights={"cube.position": 2.0}, offset=0.01)
    copied = observation.replaced(noise=0.1)
    assert torch.equal(copied.weights(0), observation.weights(0))
    assert (copied.offset, copied.noise) == (0.01, 0.1)

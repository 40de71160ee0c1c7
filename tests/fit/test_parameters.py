"""Unknowns and their coordinates."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.fit.parameters import Parameters


def scene(**unknowns) -> gs.Scene:
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(0.5),
        mass=unknowns.get("mass", 1.0),
        velocity=unknowns.get("velocity", (0.0, 0.0, 0.0)),
        rotation=unknowns.get("rotation"),
        pushes=[gs.Push(impulse=unknowns.get("impulse", (1.0, 0.0, 0.0)))],
        look=gs.Look(color=unknowns.get("color", (0.5, 0.5, 0.5))),
    )
    ground = gs.Ground(ke=unknowns.get("ke", 1e4), mu=unknowns.get("mu", 0.5))
    camera = gs.Camera(eye=unknowns.get("eye", (0.0, 1.0, 4.0)), target=(0.0, 0.0, 0.0), fov=unknowns.get("fov", 45.0))
    return gs.Scene([cube], ground=ground, camera=camera, gravity=unknowns.get("gravity", (0.0, -9.81, 0.0)))


FULL = {
    "mass": gs.unknown(2.0, low=1.0, high=10.0),
    "velocity": gs.unknown((1.0, 0.0, -1.0)),
    "rotation": gs.unknown((0.0, 0.0, 0.6, 0.8)),
    "impulse": gs.unknown((1.0, 2.0, 3.0)),
    "color": gs.unknown((0.2, 0.5, 0.7), low=0.0, high=1.0),
    "ke": gs.unknown(1e3),
    "mu": gs.unknown(0.3, low=0.0, high=1.0),
    "eye": gs.unknown((0.0, 1.0, 4.0)),
    "fov": gs.unknown(40.0),
    "gravity": gs.unknown((0.0, -9.0, 0.0)),
}


def test_unknowns_by_path_and_scale():
    parameters = Parameters(scene(**FULL))
    scales = {unknown.path: unknown.scale for unknown in parameters.unknowns}
    assert scales == {
        "scene.gravity": "linear",
        "ground.ke": "log",
        "ground.mu": "logit",
        "cube.mass": "log",
        "cube.rotation": "rotation",
        "cube.velocity": "linear",
        "cube.pushes[0].impulse": "linear",
        "camera.eye": "linear",
        "camera.fov": "logit",
        "cube.look.color": "logit",
    }
    assert parameters.count == 3 + 1 + 1 + 1 + 3 + 3 + 3 + 3 + 1 + 3
    assert parameters.names[0] == "scene.gravity[0]"


def test_coordinates_and_values_are_inverse():
    parameters = Parameters(scene(**FULL))
    z = parameters.initial()
    for path, value in parameters.values(z).items():
        assert torch.allclose(value, torch.tensor(parameters.scene.unknowns[path].guess), rtol=1e-12), path
    samples = parameters.sample(7, torch.Generator().manual_seed(0))
    samples = torch.cat([samples[:, :6], torch.zeros(7, 3).double(), samples[:, 9:]], 1)  # rotations map to zero
    again = parameters.coordinates(parameters.values(samples))
    assert torch.allclose(again, samples, atol=1e-9)


def test_samples_are_within_the_bounds():
    parameters = Parameters(scene(**FULL))
    values = parameters.values(parameters.sample(200, torch.Generator().manual_seed(0)))
    assert 1.0 <= values["cube.mass"].min() < values["cube.mass"].max() <= 10.0
    assert 0.0 <= values["ground.mu"].min() < values["ground.mu"].max() <= 1.0
    assert torch.allclose(values["cube.rotation"].norm(dim=-1), torch.ones(200).double())


def test_the_interval_of_a_friction_reaches_zero_as_on_a_linear_scale():
    (friction,) = Parameters(scene(mu=gs.unknown(0.1, low=0.0, high=2.0))).unknowns
    slope = 0.1 * (1 - 0.1 / 2)  # of the value by the coordinate
    z = friction.from_value(torch.tensor(0.1, dtype=torch.float64))
    low, high = friction.interval(z, torch.tensor([0.08 / slope], dtype=torch.float64))
    assert float(low) == pytest.approx(0.02)
    assert float(high) > 0.18
    assert float(friction.interval(z, torch.tensor([0.2 / slope], dtype=torch.float64))[0]) == 0.0


def test_the_interval_of_a_mass_stays_positive():
    (mass,) = Parameters(scene(mass=gs.unknown(2.0))).unknowns
    low, high = mass.interval(mass.from_value(mass.guess), torch.ones(1, dtype=torch.float64))
    assert (float(low), float(high)) == pytest.approx((2 / np.e, 2 * np.e))


def test_a_filled_scene_can_be_simulated():
    parameters = Parameters(scene(**FULL))
    filled = parameters.fill(parameters.sample(3, torch.Generator().manual_seed(0)))
    assert not filled.unknowns
    assert gs.simulate(filled, frames=2)["cube"].position.shape == (3, 2, 3)


def test_per_element_unknowns():
    mesh = gs.meshes.tet_box((1, 1, 1), (1, 1, 1))
    soft = gs.Soft("soft", mesh, mass=gs.per_element(gs.unknown(0.1, low=0.01, high=1.0, shape=(8,))))
    parameters = Parameters(gs.Scene([soft]))
    assert parameters.count == 8
    assert isinstance(parameters.fill(parameters.initial())["soft"].mass.values, torch.Tensor)


def test_a_scene_with_unknowns_cannot_be_simulated():
    with pytest.raises(gs.InvalidInput, match=r"cube\.mass .*is unknown: give it a value"):
        gs.simulate(scene(mass=gs.unknown(2.0)), frames=2)
    open_view = scene(fov=gs.unknown(30.0))
    with pytest.raises(gs.InvalidInput, match=r"camera\.fov .*is unknown"):
        gs.render(open_view, gs.simulate(open_view, frames=1), (8, 8))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gs.unknown("heavy"), "must be a number"),
        (lambda: gs.unknown(2.0, low=3.0), "between low and high"),
        (lambda: gs.unknown(2.0, low=5.0, high=1.0), "below high"),
        (lambda: gs.unknown(np.nan), "finite"),
        (lambda: gs.unknown((1.0, 2.0), shape=(3,)), "does not fit"),
        (lambda: gs.unknown(1.0, low=(0.0, 0.0)), "must fit"),
        (lambda: scene(mass=gs.unknown(-1.0)), "must be > 0"),
        (lambda: scene(mass=gs.unknown(1.0, low=-1.0)), "must be >= 0"),
        (lambda: scene(velocity=gs.unknown(1.0)), "shape (3,)"),
        (lambda: scene(mass=gs.unknown((1.0, 2.0))), "one number"),
        (lambda: Parameters(scene()), "no unknowns"),
        (lambda: scene().with_values({"cube.mas": 1.0}), "did you mean 'cube.mass'"),
    ],
)
def test_invalid_unknowns(make, message):
    with pytest.raises(gs.InvalidInput) as error:
        make()
    assert message in str(error.value)


def coordinate_of(parameters: Parameters, path: str):
    return next(unknown for unknown in parameters.unknowns if unknown.path == path)


@pytest.mark.parametrize(
    ("unknown", "mean", "sd"),
    [
        (gs.unknown(1.0, prior=gs.LogNormal(2.0, 0.3)), np.log(2.0), 0.3),  # exact
        (gs.unknown(1.0, low=0.0, high=5.0, prior=gs.LogNormal(2.0, 0.3)), np.log(2.0), 0.3),
        (gs.unknown(1.0, prior=gs.Normal(2.0, 0.1)), np.log(2.0), 0.05),
        (gs.unknown(1.0, low=0.0, high=4.0, prior=gs.Normal(1.0, 0.1)), np.log(1 / 3), 0.1 * 4 / 3),
    ],
)
def test_priors_in_coordinates(unknown, mean, sd):
    parameters = Parameters(scene(mass=unknown))
    found_mean, found_sd = parameters.prior_normal()
    assert float(found_mean) == pytest.approx(mean, rel=1e-12)
    assert float(found_sd) == pytest.approx(sd, rel=1e-12)
    center, width = parameters.prior()
    assert (float(center), float(width)) == pytest.approx((mean, 2 * sd))
    samples = parameters.sample(4000, torch.Generator().manual_seed(0))
    assert float(samples.mean()) == pytest.approx(mean, abs=4 * sd / 4000**0.5)
    assert float(samples.std()) == pytest.approx(sd, rel=0.06)


def test_a_linear_prior_is_exact_and_gives_a_zero_guess_its_unit():
    prior = gs.Normal((0.0, 0.1, 0.0), 0.02)
    parameters = Parameters(scene(velocity=gs.unknown((0.0, 0.0, 0.0), prior=prior)))
    mean, sd = parameters.prior_normal()
    assert torch.allclose(mean, torch.tensor([0.0, 5.0, 0.0]).double())
    assert torch.allclose(sd, torch.ones(3).double())
    assert torch.allclose(parameters.values(mean)["cube.velocity"], torch.tensor([0.0, 0.1, 0.0]).double())


def test_the_prior_of_a_rotation_is_a_rotation_vector():
    guess, angle = (0.0, 0.0, 0.0, 1.0), 0.3
    mean = (-np.sin(angle / 2), 0.0, 0.0, -np.cos(angle / 2))  # the sign of a quaternion does not matter
    parameters = Parameters(scene(rotation=gs.unknown(guess, prior=gs.Normal(mean, 0.1))))
    found, sd = parameters.prior_normal()
    assert torch.allclose(found, torch.tensor([angle, 0.0, 0.0]).double(), atol=1e-12)
    assert torch.allclose(sd, torch.full((3,), 0.1).double())


def test_rotations_and_their_coordinates_are_inverse():
    parameters = Parameters(scene(rotation=FULL["rotation"]))
    z = torch.tensor([[0.3, -0.2, 1.0], [0.0, 0.0, 0.0], [-2.0, 1.5, 0.1]]).double()
    assert torch.allclose(parameters.coordinates(parameters.values(z)), z, atol=1e-12)


def test_unknowns_without_prior_have_infinite_deviation():
    mean, sd = Parameters(scene(**FULL)).prior_normal()
    assert torch.isinf(sd).all()
    assert torch.isfinite(mean).all()


def trials(**unknowns) -> list[gs.Scene]:
    return [scene(**{name: make(k) for name, make in unknowns.items()}) for k in range(3)]


def test_trials_share_unknowns_by_path_and_own_those_per_trial():
    scenes = trials(
        mass=lambda k: gs.unknown(2.0, low=1.0, high=10.0),
        velocity=lambda k: gs.unknown((float(k), 0.0, 0.0), per_trial=True),
        mu=lambda k: gs.unknown(0.1 * (k + 1), low=0.0, high=1.0, varies=True),
    )
    parameters = Parameters(scenes, trial_names=["a", "b", "c"])
    paths = {unknown.path: (unknown.trial, unknown.varies) for unknown in parameters.unknowns}
    assert paths == {
        "ground.mu@a": (0, True),
        "ground.mu@b": (1, True),
        "ground.mu@c": (2, True),
        "cube.mass": (None, False),
        "cube.velocity@a": (0, False),
        "cube.velocity@b": (1, False),
        "cube.velocity@c": (2, False),
    }
    assert parameters.count == 3 + 1 + 9
    assert "cube.velocity@b[2]" in parameters.names
    values = parameters.values(parameters.initial())
    for k in range(3):
        own = parameters.trial_values(values, k)
        assert own.keys() == {"ground.mu", "cube.mass", "cube.velocity"}
        assert own["cube.velocity"].tolist() == [k, 0.0, 0.0]
        assert float(own["ground.mu"]) == pytest.approx(0.1 * (k + 1))
        assert not scenes[k].with_values(own).unknowns


def test_a_single_scene_has_plain_paths():
    unknown = gs.unknown(2.0, per_trial=True)
    assert Parameters(scene(mass=unknown)).names == ["cube.mass"]
    assert Parameters([scene(mass=unknown)]).names == ["cube.mass@0"]


def test_one_unknown_object_is_one_unknown():
    tied = gs.unknown(0.3, low=0.0, high=1.0)
    first = gs.Scene([scene(mass=2.0)["cube"]], ground=gs.Ground(mu=tied, ke=gs.unknown(1e3)))
    second = gs.Scene([scene(mass=2.0)["cube"]], shapes={"ramp": gs.StaticBox(mu=tied)})
    parameters = Parameters([first, second])
    assert parameters.names == ["ground.ke", "ground.mu"]
    values = parameters.values(parameters.initial())
    assert parameters.trial_values(values, 1) == {"ramp.mu": values["ground.mu"]}
    assert parameters.trial_values(values, 0).keys() == {"ground.ke", "ground.mu"}


def test_time_unknowns_are_shared_or_per_trial():
    scenes = trials(mass=lambda k: gs.unknown(2.0))
    shared = Parameters(scenes, {"video.offset": gs.unknown(0.0, low=-0.1, high=0.1)})
    assert shared.names == ["cube.mass", "video.offset"]
    own = Parameters(scenes, {"video.offset": gs.unknown(0.0, low=-0.1, high=0.1, per_trial=True)})
    assert own.names == ["cube.mass", "video.offset@0", "video.offset@1", "video.offset@2"]
    values = own.values(own.initial())
    assert own.trial_values(values, 2).keys() == {"cube.mass"}
    assert own.trial_times(values, 2) == {"video.offset": values["video.offset@2"]}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gs.Normal(1.0, 0.0), "Normal.sd = 0: must be > 0"),
        (lambda: gs.Normal("long", 1.0), "Normal.mean"),
        (lambda: gs.Normal(np.inf, 1.0), "finite"),
        (lambda: gs.LogNormal(-1.0, 0.1), "LogNormal.median = -1: must be > 0"),
        (lambda: gs.unknown(1.0, prior=2.0), "gs.Normal(mean, sd)"),
        (lambda: gs.unknown(1.0, prior=gs.Normal((1.0, 1.0), 0.1)), "unknown.prior.mean"),
        (lambda: gs.unknown(1.0, low=0.5, prior=gs.Normal(0.1, 0.1)), "between low and high"),
        (lambda: gs.unknown(1.0, per_trial=True, varies=True), "give one of the two"),
        (lambda: scene(velocity=gs.unknown((1.0, 1.0, 1.0), prior=gs.LogNormal(1.0, 0.1))), "cube.velocity's prior"),
        (lambda: scene(mass=gs.unknown(1.0, prior=gs.Normal(-1.0, 0.1))), "cube.mass's prior"),
        (lambda: Parameters(scene(mu=gs.unknown(1.0, prior=gs.Normal(0.0, 0.1)))), "ground.mu = Normal(0, 0.1)"),
        (
            lambda: Parameters(scene(rotation=gs.unknown((0, 0, 0, 1.0), prior=gs.Normal((0, 0, 0, 1), (1, 1, 1, 1))))),
            "one angle about each axis",
        ),
        (lambda: Parameters(trials(mass=lambda k: gs.unknown(k + 1.0))), "cube.mass"),
        (lambda: Parameters(trials(mass=lambda k: gs.unknown(1.0, high=k + 2.0))), "must be declared equally"),
        (lambda: Parameters(trials(mass=lambda k: gs.unknown(1.0, per_trial=k > 0))), "must be declared equally"),
        (lambda: Parameters(trials(mass=lambda k: gs.unknown(1.0, varies=True, high=k + 2))), "declared equally"),
        (lambda: Parameters(trials(mass=lambda k: gs.unknown(1.0)), trial_names=["a", "a", "b"]), "3 different names"),
        (lambda: Parameters(trials(mass=lambda k: gs.unknown(1.0))).fill(torch.zeros(1)), "3 scenes"),
    ],
)
def test_invalid_priors_and_trials(make, message):
    with pytest.raises(gs.InvalidInput) as error:
        make()
    assert message in str(error.value)

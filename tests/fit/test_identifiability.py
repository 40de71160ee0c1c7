"""identifiability() and best_design(): what a recording would determine, before it is made."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import gradsim as gs

MASS = gs.unknown(3.0, low=1.0, high=9.0)
SIDES = np.repeat(np.random.default_rng(0).uniform(0.2, 1.0, (6, 3)), 2, axis=0)


def flight(mass=MASS, *, impulse=4.0, unit=1.0, eye=5.0) -> gs.Scene:
    """A thrown cube; lengths are in units of 1 / unit m."""
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(0.8 * unit),
        mass=mass,
        position=(-0.6 * unit, 0.0, 0.0),
        velocity=(0.3 * unit, 0.4 * unit, 0.0),
        pushes=[gs.Push(impulse=(impulse * unit, 0.0, 0.0))] if impulse else [],
        look=gs.Look(face_colors=SIDES),
    )
    camera = gs.Camera(eye=(0.0, 0.0, eye * unit), target=(0.0, 0.0, 0.0), fov=40.0)
    return gs.Scene([cube], gravity=(0.0, -2.0 * unit, 0.0), camera=camera)


def sliding(mu, *, speed, unit=1.0) -> gs.Scene:
    """A cube that rests on the ground or slides; lengths are in units of 1 / unit m."""
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(0.4 * unit),
        mass=1.0,
        position=(-0.4 * unit, 0.2 * unit, 0.0),
        velocity=(speed * unit, 0.0, 0.0),
        look=gs.Look(face_colors=SIDES),
    )
    ground = gs.Ground(ke=2000.0, kd=20.0, kf=50.0, mu=mu, look=None)
    camera = gs.Camera(eye=(0.0, 0.6 * unit, 3.0 * unit), target=(0.0, 0.2 * unit, 0.0), fov=40.0)
    return gs.Scene([cube], ground=ground, gravity=(0.0, -9.81 * unit, 0.0), camera=camera)


def rolled(look) -> gs.Scene:
    spin = gs.unknown((1.0, 0.5, 2.0), low=-4.0, high=4.0)
    mesh = gs.meshes.icosphere(0.4, 2)
    ball = gs.Rigid("ball", mesh, mass=1.0, velocity=(0.3, 0.0, 0.0), angular_velocity=spin, look=look)
    return gs.Scene([ball], gravity=(0.0, 0.0, 0.0), camera=gs.Camera(eye=(0.0, 0.0, 3.0), target=(0.0, 0.0, 0.0)))


RECORDING = {"frames": 8, "fps": 10.0, "size": (24, 24), "samples": 3}


def levels(result) -> dict[str, str]:
    return {name: interval.level for name, interval in result.intervals.items()}


@pytest.mark.parametrize("unit", [1.0, 1000.0], ids=["metres", "millimetres"])
def test_mass_needs_a_push(unit):
    free = gs.identifiability(flight(impulse=0.0, unit=unit), **RECORDING)
    assert levels(free) == {"cube.mass": "not identifiable"}
    assert "push the body" in free.intervals["cube.mass"].reason
    assert "hardly depends on cube.mass" in str(free)
    assert not free.determined
    pushed = gs.identifiability(flight(unit=unit), **RECORDING)
    assert levels(pushed) == {"cube.mass": "identifiable"}
    assert pushed.determined


@pytest.mark.parametrize("unit", [1.0, 1000.0], ids=["metres", "millimetres"])
def test_friction_is_determined_only_where_something_slips(unit):
    mu = gs.unknown(0.5, low=0.3, high=0.8)
    sticking = gs.identifiability(sliding(mu, speed=0.0, unit=unit), **RECORDING)
    assert levels(sticking) == {"ground.mu": "not identifiable"}
    assert "slips" in sticking.intervals["ground.mu"].reason
    slipping = gs.identifiability(sliding(mu, speed=2.0, unit=unit), **RECORDING)
    assert levels(slipping) == {"ground.mu": "identifiable"}


def test_relative_intervals_do_not_depend_on_the_unit_of_length():
    first, second = (
        gs.identifiability(flight(unit=unit), **RECORDING, roughly=["camera", "start"]) for unit in (1.0, 1000.0)
    )
    assert first.score == pytest.approx(second.score, rel=1e-3)


def test_spin_of_a_sphere_needs_a_texture():
    plain = gs.identifiability(rolled(gs.Look(color=(0.8, 0.3, 0.2))), **RECORDING)
    assert set(levels(plain).values()) == {"not identifiable"}
    colors = np.random.default_rng(1).uniform(0.1, 1.0, (320, 3))
    marked = gs.identifiability(rolled(gs.Look(face_colors=colors)), **RECORDING)
    assert set(levels(marked).values()) == {"identifiable"}
    states = gs.identifiability(rolled(gs.Look()), **RECORDING, observe=["ball.rotation"], noise=0.01)
    assert set(levels(states).values()) == {"identifiable"}


@pytest.mark.parametrize("gravity", [0.0, -9.81])
def test_distance_of_the_camera_and_scale_are_determined_only_by_a_known_length(gravity):
    speed, distance = gs.unknown(1.0, low=0.5, high=2.0), gs.unknown(4.0, low=2.0, high=8.0)
    ball = gs.Rigid("ball", gs.meshes.icosphere(0.1, 1), mass=1.0, velocity=(speed, 0.0, 0.0))
    camera = gs.Camera(eye=(0.0, 0.0, distance), target=(0.0, 0.0, 0.0))
    scene = gs.Scene([ball], gravity=(0.0, gravity, 0.0), camera=camera)
    result = gs.identifiability(scene, **RECORDING, observe=[gs.Center("ball")], noise=0.1)
    if gravity:
        assert set(levels(result).values()) == {"identifiable"}
    else:
        assert set(levels(result).values()) == {"not identifiable"}
        (text,) = result.undetermined_directions
        assert "camera.eye[2]" in text
        assert "ball.velocity[0]" in text


def test_expected_intervals_agree_with_those_of_an_estimate():
    expected = gs.identifiability(flight(), frames=10, fps=10.0, size=(32, 32), noise=0.02, samples=1)
    truth = flight(3.0)
    motion = gs.simulate(truth, frames=10, fps=10, substeps=1024, integrator=gs.RungeKutta4())
    noise = 0.02 * torch.randn(10, 32, 32, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fit = gs.estimate(flight(), gs.render(truth, motion, (32, 32)) + noise, fps=10)
    low, high = fit.intervals["cube.mass"]
    assert float(high - low) / 2 == pytest.approx(expected.intervals["cube.mass"].half_widths[0], rel=0.1)


def test_intervals_grow_with_the_noise_and_with_what_is_rough():
    widths = [
        gs.identifiability(flight(), **RECORDING, noise=noise, roughly=rough).intervals["cube.mass"].half_widths[0]
        for noise, rough in ((0.01, ()), (0.02, ()), (0.01, ("camera", "start")))
    ]
    assert widths[1] == pytest.approx(2 * widths[0], rel=1e-3)
    assert widths[2] > 2 * widths[0]


def test_an_unknown_with_a_prior_that_the_data_do_not_narrow():
    mass = gs.unknown(3.0, prior=gs.LogNormal(3.0, 0.1))
    result = gs.identifiability(flight(mass, impulse=0.0), **RECORDING)
    assert levels(result) == {"cube.mass": "from the prior"}
    row = result.intervals["cube.mass"]
    assert row.low[0] == pytest.approx(3.0 * np.exp(-0.196), rel=1e-3)


def test_candidates_are_ranked():
    candidates = {"no push": flight(impulse=0.0), "hard": flight(impulse=8.0), "slow": {"frames": 4}}
    result = gs.identifiability(flight(), **RECORDING, candidates=candidates)
    assert list(result.candidates) == ["hard", "as given", "slow", "no push"]
    assert result.best == "hard"
    lines = str(result).splitlines()
    assert lines[-4].startswith("hard")
    assert lines[-1].endswith("cube.mass")
    assert result.as_dict()["candidates"]["hard"]["score"] < result.score


def test_a_design_by_gradient_narrows_the_intervals():
    scene = flight(impulse=0.0)
    impulse, eye = gs.unknown(1.0, low=-6.0, high=6.0), gs.unknown(7.0, low=4.0, high=10.0)
    cube = replace(scene["cube"], pushes=[gs.Push(impulse=(impulse, 0.0, 0.0))])
    camera = gs.Camera(eye=(0.0, 0.0, eye), target=(0.0, 0.0, 0.0), fov=40.0)
    scene = replace(scene, bodies=[cube], camera=camera)
    recording = {key: value for key, value in RECORDING.items() if key != "samples"}
    design = gs.best_design(scene, ["cube.pushes[0].impulse[0]", "camera.eye[2]"], samples=2, **recording)
    assert design.after.score < 0.4 * design.before.score
    assert float(design.values["cube.pushes[0].impulse[0]"]) > 3.0
    assert float(design.values["camera.eye[2]"]) < 6.5
    assert list(design.scene.unknowns) == ["cube.mass"]
    assert list(design.history) == sorted(design.history, reverse=True)
    assert "typical half width" in str(design)


def test_invalid_arguments():
    scene = flight()
    with pytest.raises(gs.InvalidInput, match="two frames"):
        gs.identifiability(scene, frames=1)
    with pytest.raises(gs.InvalidInput, match="observe"):
        gs.identifiability(scene, frames=4, observe="pixels")
    with pytest.raises(gs.InvalidInput, match="needs its standard deviation"):
        gs.identifiability(scene, frames=4, observe=lambda s, m: gs.States({"cube.position": m["cube"].position}))
    with pytest.raises(gs.InvalidInput, match="states need the standard deviation"):
        gs.identifiability(scene, frames=4, observe=["cube.position"])
    with pytest.raises(gs.InvalidInput, match="the arguments are"):
        gs.identifiability(scene, **RECORDING, candidates={"a": {"rate": 3.0}})
    with pytest.raises(gs.InvalidInput, match="must have the unknowns of the given scene"):
        gs.identifiability(scene, **RECORDING, candidates={"a": sliding(gs.unknown(0.5), speed=1.0)})
    with pytest.raises(gs.InvalidInput, match=r"did you mean 'cube\.mass'"):
        gs.best_design(scene, ["cube.mas"], frames=4)
    with pytest.raises(gs.InvalidInput, match="nothing is left to estimate"):
        gs.best_design(scene, ["cube.mass"], frames=4)
    with pytest.raises(gs.InvalidInput, match="needs low and high"):
        gs.best_design(flight(gs.unknown(3.0)), ["cube.mass"], frames=4)

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

"""Rigid bodies of a given size: surface, inertia and contact points of a scaled mesh, and estimates of the size."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.check.gradcheck import adjoint_gradients, central_differences
from gradsim.check.gradient_problems.rigid import RIGID_SIZE
from gradsim.check.gradients import objective
from gradsim.scene.errors import OutOfRange, WrongShape
from gradsim.scene.inertia import solid
from gradsim.scene.meshes import TriMesh

F64, CPU = torch.float64, torch.device("cpu")
SIZE = (0.3, 0.2, 0.25)
SMALL = {"frames": 8, "fps": 50.0, "substeps": 40}


def wedge(size=None):
    """Returns a slanted box away from the origin, built with the extents `size` if given."""
    box = gs.meshes.box(1.0).vertices
    points = box + np.where(box[:, 1] > 0, 0.4 * box[:, 0], 0.0)[:, None] * [0.0, 1.0, 0.0] + [0.1, -0.2, 0.3]
    factors = 1.0 if size is None else np.array(size) / np.ptp(points, axis=0)
    return TriMesh(points * factors, gs.meshes.box(1.0).faces)


def thrown(mesh, **options):
    given = {"position": (0.0, 0.2, 0.0), "rotation": (0.1, 0.0, 0.3, 1.0), "velocity": (1.0, -1.5, 0.4)}
    return gs.Rigid("body", mesh, **(given | {"angular_velocity": (1.0, 2.0, -3.0), "face_samples": True} | options))


def scene(body):
    shapes = {"hill": gs.StaticSphere(1e3, kd=3.0, radius=0.3, position=(0.15, -0.27, 0.1))}
    camera = gs.Camera(eye=(0.0, 0.4, 1.5), target=(0.0, 0.1, 0.0), fov=45.0)
    return gs.Scene(
        [body], gs.Ground(1e3, kd=3.0), shapes=shapes, camera=camera, lights=[gs.DirectionalLight((-1.0, -2.0, -1.0))]
    )


@pytest.mark.parametrize(
    "mass", [{"density": 200.0}, {"mass": 2.0}, {"mass": gs.per_element(np.linspace(0.1, 0.4, 8))}]
)
def test_a_scaled_mesh_equals_a_mesh_of_that_size(mass):
    built = gs.simulate(scene(thrown(wedge(SIZE), **mass)), **SMALL)
    for size in (SIZE, torch.tensor([SIZE] * 3, dtype=F64)):
        own = thrown(wedge(), size=size, **mass)
        scaled = gs.simulate(scene(own), **SMALL)
        assert (scaled["body"].vertices - built["body"].vertices).abs().max() < 1e-12
        assert (scaled["body"].velocities - built["body"].velocities).abs().max() < 1e-11
        images = gs.render(scene(own), scaled, size=(24, 32))
        expected = gs.render(scene(thrown(wedge(SIZE), **mass)), built, size=(24, 32))
        assert (images - expected).abs().max() < 1e-9
    assert built["body"].vertices[..., 1].min() < -0.005  # it touches the ground


def test_mass_properties_are_those_of_the_scaled_solid():
    expected = solid(wedge(SIZE).vertices, wedge().faces, 200.0)
    found = thrown(wedge(), density=200.0, size=SIZE).mass_properties(F64, CPU)
    for own, other in zip(found, expected, strict=True):
        assert torch.allclose(own, other, rtol=1e-13, atol=1e-15)
    sizes = torch.tensor([SIZE, (0.1, 0.5, 0.2)], dtype=F64)
    batch = thrown(wedge(), mass=torch.tensor([[1.0], [3.0]], dtype=F64), size=sizes).mass_properties(F64, CPU)
    assert batch.inertia.shape == (2, 2, 3, 3)
    single = thrown(wedge(), mass=3.0, size=sizes[1]).mass_properties(F64, CPU)
    assert torch.allclose(batch.inertia[1, 1], single.inertia, rtol=1e-14)


def test_given_center_and_inertia_do_not_change_with_the_size():
    own = {"center": (0.01, 0.02, 0.03), "inertia": np.diag([0.02, 0.03, 0.025])}
    found = thrown(wedge(), mass=2.0, size=SIZE, **own).mass_properties(F64, CPU)
    assert found.center.tolist() == list(own["center"])
    assert np.array_equal(found.inertia.numpy(), own["inertia"])


@pytest.mark.parametrize("integrator", [gs.SymplecticEuler(), gs.Midpoint()], ids=lambda i: type(i).__name__)
def test_gradient_agrees_with_differences_of_several_steps(integrator):
    loss, values = objective(RIGID_SIZE, integrator), RIGID_SIZE.values()
    gradient = adjoint_gradients(loss, values)["size"]
    axes = torch.eye(3, dtype=F64)
    errors = [
        float((central_differences(loss, values, "size", axes, step) - gradient).abs().max() / gradient.abs().max())
        for step in (1e-3, 1e-4, 1e-5)
    ]
    assert errors[1] < 0.02 * errors[0]  # second order
    assert errors[2] < 1e-6


def test_one_unknown_is_the_diameter_of_a_ball():
    d = gs.unknown(0.2, low=0.05, high=0.5)
    declared = scene(gs.Rigid("ball", gs.meshes.sphere(0.5, 8, 16), mass=1.0, size=(d, d, d)))
    assert list(declared.unknowns) == ["ball.size[0]"]
    known = declared.with_values({"ball.size[0]": torch.tensor(0.3, dtype=F64)})
    extents = gs.simulate(known, frames=1)["ball"].vertices[0]
    assert torch.allclose(extents.amax(0) - extents.amin(0), torch.full((3,), 0.3, dtype=F64))


def test_errors_name_the_size():
    with pytest.raises(OutOfRange, match=r"body\.size"):
        thrown(wedge(), mass=1.0, size=(0.1, 0.0, 0.1))
    with pytest.raises(WrongShape, match=r"body\.size"):
        thrown(wedge(), mass=1.0, size=0.1)
    with pytest.raises(OutOfRange, match=r"body\.size\[1\]"):
        thrown(wedge(), mass=1.0, size=(0.1, gs.unknown(-0.1), 0.1))


def test_a_scene_file_keeps_the_size(tmp_path):
    d = gs.unknown(0.2, low=0.05, high=0.5)
    scene(thrown(gs.meshes.box(1.0), mass=1.0, size=(d, 0.1, d))).save(tmp_path / "scene.yaml")
    loaded = gs.load_scene(tmp_path / "scene.yaml")
    assert list(loaded.unknowns) == ["body.size[0]"]
    assert loaded["body"].size.values[1] == 0.1


def test_stable_step_follows_the_size():
    built = gs.stable_dt(scene(thrown(gs.meshes.box((0.6, 0.4, 0.5)), density=200.0)))
    scaled = gs.stable_dt(scene(thrown(gs.meshes.box((0.3, 0.2, 0.25)), density=200.0, size=(0.6, 0.4, 0.5))))
    assert scaled == pytest.approx(built, rel=1e-12)

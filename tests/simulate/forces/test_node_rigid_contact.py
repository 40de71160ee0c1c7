"""Contact of nodes and faces with moving rigid bodies: conservation, gradients, native kernels, no crossing."""

import numpy as np
import pytest
import torch
from tests.simulate.differences import assert_gradients, assert_native_equals_portable, gradient_errors, tensors

import gradsim as gs
from gradsim.scene.errors import InvalidInput, OutOfRange, UnknownName
from gradsim.scene.rotation import rotate
from gradsim.simulate.compile.compiled_scene import compile_scene

SHEET = gs.meshes.grid(0.4, 6)
BLOCK = gs.meshes.tet_box((0.2, 0.1, 0.2), (2, 1, 2))
TIME = {"frames": 6, "fps": 50.0, "substeps": 64}


def values_of(kind):
    given = {
        "ke": 200.0,
        "kd": 0.1,
        "kf": 1.0,
        "mu": 0.4,
        "delta": 0.004,
        "thickness": 0.004,
        "velocity": [0.1, 1.5, 0.05],
        "spin": [1.0, 0.5, -2.0],
        "mass": 0.4,
        "position": [0.0, 0.1, 0.0],
        "center": [0.01, 0.005, -0.01],
    }
    shape = {"radius": 0.1} if kind == "ball" else {"size": [0.2, 0.16, 0.18], "rounding": 0.03}
    return tensors({**given, **shape})


def hit(p, soft=False):
    """A ball or box flies into a sheet or a soft block, with no other forces."""
    if soft:
        body = gs.Soft("body", BLOCK, 60.0, material=gs.NeoHookean(4e3, 4e3, 3.0), position=(0.02, 0.27, 0.01))
    else:
        body = gs.Cloth("body", SHEET, 0.5, material=gs.Membrane(100.0, 100.0, 0.1), position=(0.0, 0.23, 0.0))
    common = {"mass": p["mass"], "position": p["position"], "velocity": p["velocity"], "center": p["center"]}
    common["angular_velocity"] = p["spin"]
    if "radius" in p:
        hard = gs.Ball("hard", radius=p["radius"], **common)
    else:
        hard = gs.Rigid("hard", gs.meshes.box(0.2), size=p["size"], rotation=(0.2, 0.1, 0.3, 1.0), **common)
    names = ("ke", "kd", "kf", "mu", "delta", "thickness", "rounding")
    between = gs.NodeContact("between", body="body", rigid="hard", **{name: p[name] for name in names if name in p})
    return gs.Scene([body, hard], gravity=(0.0, 0.0, 0.0), forces=[between])


@pytest.mark.parametrize("kind", ["ball", "box"])
@pytest.mark.parametrize("soft", [False, True], ids=["cloth", "soft"])
def test_momentum_and_angular_momentum_are_conserved(kind, soft):
    scene = hit(values_of(kind), soft)
    trajectory = gs.simulate(scene, integrator=gs.SymplecticEuler(), **TIME)
    mass = 1.0 / compile_scene(scene).parameters["node"][0, 0]
    body, hard = trajectory["body"], trajectory["hard"]
    nodes, whole = mass[:, None] * body.velocities, scene["hard"].mass * hard.velocity
    momentum = nodes.sum(-2) + whole
    angular = torch.linalg.cross(body.vertices, nodes).sum(-2) + hard.angular_momentum
    angular = angular + torch.linalg.cross(hard.center_of_mass, whole)
    assert nodes[-1].sum(0).norm() > 0.01
    assert (momentum - momentum[0]).abs().max() < 1e-12 * momentum.abs().max()
    assert (angular - angular[0]).abs().max() < 1e-12 * angular.abs().max()


@pytest.mark.parametrize("kind", ["ball", "box"])
@pytest.mark.parametrize("soft", [False, True], ids=["cloth", "soft"])
def test_gradients_equal_differences(kind, soft):
    assert_gradients(lambda p: hit(p, soft), values_of(kind), **TIME)


@pytest.mark.parametrize("kind", ["ball", "box"])
def test_gradients_hold_at_useful_steps(kind):
    errors = gradient_errors(hit, values_of(kind), steps=(1e-3, 1e-4, 1e-5), **TIME)
    medians = np.median(np.array(list(errors.values())), axis=0)
    assert (medians < [2e-3, 2e-4, 1e-5]).all(), errors


@pytest.mark.parametrize("kind", ["ball", "box"])
@pytest.mark.parametrize("soft", [False, True], ids=["cloth", "soft"])
def test_native_contact_equals_portable_contact(kind, soft):
    values = {name: torch.stack([v, v * 1.03]) for name, v in values_of(kind).items()}
    assert_native_equals_portable(hit(values, soft), gs.Midpoint(), steps=90, dt=4e-4)


def test_cloth_falls_on_the_corner_of_a_box_and_stays_outside():
    """The box stands on a corner and follows a motion without any, so that forces do not move it."""
    turn = np.array([0.3647, 0.0, -0.2796, 0.8881])  # a corner up
    still = gs.Motion(gs.Signal(np.zeros((2, 3))))
    box = gs.Rigid("box", gs.meshes.box(0.2), mass=5.0, rotation=turn, motion=still)
    cloth = gs.Cloth(
        "cloth", gs.meshes.grid(0.5, 16), 0.2, material=gs.Membrane(80.0, 80.0, 0.02), position=(0.0, 0.21, 0.0)
    )
    between = gs.NodeContact("between", body="cloth", rigid="box", ke=60.0, kd=0.02, kf=0.1, thickness=0.012)
    scene = gs.Scene([cloth, box], forces=[between])
    trajectory = gs.simulate(scene, frames=31, fps=50.0, substeps=64)
    x = trajectory["cloth"].vertices
    local = box_frame(x, trajectory["box"])
    faces = x[:, torch.tensor(cloth.mesh.faces.astype(int))].mean(-2)
    for points in (local, box_frame(faces, trajectory["box"])):
        outside = (points.abs() - 0.1).amax(-1)
        assert outside.min() > -0.012, "a point is inside the rounded box"
    assert (trajectory["cloth"].velocities[-1].norm(dim=-1) < 3.0).all()


def box_frame(x, motion):
    return rotate(motion.rotation[:, None], x - motion.position[:, None], back=True)


def test_scene_files_and_errors(tmp_path):
    scene = hit(values_of("box"))
    scene.save(tmp_path / "scene.yaml")
    loaded = gs.load_scene(tmp_path / "scene.yaml")
    assert torch.equal(gs.simulate(loaded, **TIME).vertices, gs.simulate(scene, **TIME).vertices)
    bodies = [gs.Cloth("body", SHEET, 0.5), gs.Rigid("hard", gs.meshes.icosphere(0.1), mass=1.0)]
    with pytest.raises(InvalidInput, match="whose mesh is an upright box"):
        gs.Scene(bodies, forces=[gs.NodeContact("between", body="body", rigid="hard")])
    with pytest.raises(UnknownName, match="the bodies that it can act on are body"):
        gs.Scene(bodies, forces=[gs.NodeContact("between", body="sheet", rigid="hard")])
    bodies[1] = gs.Rigid("hard", gs.meshes.box(0.1), mass=1.0)
    with pytest.raises(OutOfRange, match="less than half of the box's shortest edge"):
        gs.Scene(bodies, forces=[gs.NodeContact("between", body="body", rigid="hard", rounding=0.06)])

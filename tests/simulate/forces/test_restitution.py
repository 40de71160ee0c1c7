"""Restitution and air drag of rigid bodies: declarations, files, stability and gradients at special values."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.check.gradcheck import adjoint_gradients, central_differences
from gradsim.check.gradient_problems.balls import BALL, RESTITUTION
from gradsim.check.gradients import objective
from gradsim.scene.restitution import loss_factor

F64 = torch.float64
SMALL = {"frames": 3, "fps": 20.0, "substeps": 400}


def dropped(restitution, *, slope=0.0, speed=2.0, mass=0.1, ke=2e4, drag=None, **contact):
    """Returns a ball that starts in contact with the ground, with restitution."""
    ball = gs.Ball("ball", radius=0.05, mass=mass, position=(0.0, 0.05, 0.0), velocity=(0.5, -speed, 0.0), drag=drag)
    ground = gs.Ground(ke=ke, restitution=restitution, restitution_slope=slope, mu=0.3, **contact)
    return gs.Scene([ball], ground, gravity=(0.0, 0.0, 0.0))


def height(values):
    """Returns the height of the ball after the impact [m]."""
    return gs.simulate(dropped(values["restitution"], slope=values["slope"]), **SMALL)["ball"].position[..., -1, 1]


@pytest.mark.parametrize("restitution", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("slope", [0.0, 0.1])
def test_gradients_also_at_slope_zero_and_without_loss(restitution, slope):
    """A difference may not exceed a restitution of 1, so there the gradient is compared with that just below."""
    values = {"restitution": torch.tensor(restitution, dtype=F64), "slope": torch.tensor(slope, dtype=F64)}
    gradient = adjoint_gradients(height, values)
    nearby = values | {"restitution": values["restitution"].clamp_max(0.9999)}
    found = {
        name: float(central_differences(height, nearby, name, torch.ones(1, dtype=F64), 1e-5)[0]) for name in values
    }
    assert float(gradient["restitution"]) == pytest.approx(
        found["restitution"], rel=1e-3 if restitution == 1.0 else 1e-6
    )
    assert abs(found["restitution"]) > 0.01
    if restitution < 1.0:
        assert float(gradient["slope"]) == pytest.approx(found["slope"], rel=1e-6)
        assert found["slope"] < -1e-3


@pytest.mark.parametrize("problem", [RESTITUTION, BALL], ids=lambda p: p.name)
def test_gradients_agree_with_differences_of_several_steps(problem):
    """Differences of large steps cross the moments of impact."""
    loss, values = objective(problem, gs.Midpoint()), problem.values()
    gradients = adjoint_gradients(loss, values)
    for name in {"restitution", "slope", "ke", "density", "radius", "linear", "quadratic"} & values.keys():
        expected = float(gradients[name] * values[name])
        for step, tolerance in ((1e-3, 2e-3), (1e-4, 2e-5)):
            (found,) = central_differences(loss, values, name, values[name][None], step)
            assert float(found) == pytest.approx(expected, rel=tolerance), name


def test_loss_factor_inverts_the_energy_balance():
    """The restitution of A follows from d log E / dx = 2 A x^2 / (1 + A x (1 - x^2)) while the depth increases and
    2 A x^2 / (1 + A x^3) afterwards."""
    x = (torch.arange(20000, dtype=F64) + 0.5) / 20000
    for e in (0.1, 0.2, 0.5, 0.9, 0.99):
        a = float(loss_factor(torch.tensor(e, dtype=F64)))
        loss = 2 * a * x**2 / (1 + a * x * (1 - x**2)) + 2 * a * x**2 / (1 + a * x**3)
        assert math.exp(-0.5 * float(loss.mean())) == pytest.approx(e, rel=2e-3)


def test_exactly_one_of_damping_and_restitution():
    assert float(gs.Ground().kd) == 1.0
    assert gs.Ground(restitution=0.5).kd is None
    with pytest.raises(gs.InvalidInput, match=r"Ground\.kd/restitution = kd and restitution: give exactly one"):
        gs.Ground(kd=1.0, restitution=0.5)
    with pytest.raises(gs.InvalidInput, match=r"Contact\.restitution_slope"):
        gs.Contact(restitution_slope=0.1)
    for value, limit in ((0.0, "> 0"), (1.2, "<= 1")):
        with pytest.raises(gs.InvalidInput, match=f"restitution = {value:g}: must be {limit}"):
            gs.StaticSphere(restitution=value)


def test_bodies_made_of_nodes_have_no_restitution():
    soft = gs.Soft("jelly", gs.meshes.tet_box(0.1, 1), 500.0)
    with pytest.raises(gs.InvalidInput, match=r"jelly\.contact = restitution of 'ground': is for rigid bodies"):
        gs.Scene([soft], gs.Ground(restitution=0.5))
    damped = gs.Soft("jelly", gs.meshes.tet_box(0.1, 1), 500.0, contact=gs.Contact(kd=2.0))
    gs.simulate(gs.Scene([damped], gs.Ground(restitution=0.5)), frames=2, substeps=150)


def test_a_restitution_is_an_unknown_by_its_path():
    scene = dropped(gs.unknown(0.5), slope=gs.unknown(0.0, prior=gs.Normal(0.0, 0.1)))
    assert list(scene.unknowns) == ["ground.restitution", "ground.restitution_slope"]
    batch = scene.with_values(
        {"ground.restitution": torch.tensor([0.2, 0.9], dtype=F64), "ground.restitution_slope": 0.0}
    )
    speeds = gs.simulate(batch, **SMALL)["ball"].velocity[:, -1, 1]
    assert speeds.tolist() == pytest.approx([0.4, 1.8], rel=0.02)


def test_scene_files_keep_restitution_drag_and_radius(tmp_path):
    drag = gs.Drag(quadratic=gs.unknown(0.01, low=0.0, high=0.1))
    scene = dropped(gs.unknown(0.5, low=0.1, high=1.0), slope=0.1, restitution_speed=2.0, drag=drag)
    ball = gs.Ball("other", radius=gs.unknown(0.1), density=300.0, position=(1.0, 1.0, 0.0), contact=gs.Contact(kd=3.0))
    gs.Scene([*scene.bodies, ball], scene.ground).save(tmp_path / "scene.yaml")
    text = (tmp_path / "scene.yaml").read_text()
    assert "kd: null" not in text
    assert "mesh" not in text
    loaded = gs.load_scene(tmp_path / "scene.yaml")
    assert set(loaded.unknowns) == {"ground.restitution", "other.radius", "ball.drag.quadratic"}
    assert float(loaded.ground.restitution_slope) == 0.1
    assert float(loaded.ground.restitution_speed) == 2.0
    assert loaded.ground.kd is None
    assert isinstance(loaded["other"], gs.Ball)
    loaded.save(tmp_path / "again.yaml")
    assert (tmp_path / "again.yaml").read_text() == text


@pytest.mark.parametrize("integrator", [gs.SymplecticEuler(), gs.Midpoint()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("restitution", [0.02, 0.1, 0.4])
def test_a_ball_comes_to_rest_at_the_estimated_step(restitution, integrator):
    """A small restitution damps so strongly that it limits the step; at four times that step the ball does not rest."""
    scene = dataclasses.replace(dropped(restitution, speed=0.02), gravity=(0.0, -9.81, 0.0))
    speeds = []
    for factor in (1.0, 4.0):
        substeps = math.ceil(1.0 / (factor * gs.stable_dt(scene, integrator)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gs.StabilityWarning)
            motion = gs.simulate(scene, frames=3, fps=1.0, substeps=substeps, integrator=integrator)["ball"]
        speeds.append(float(motion.velocity[-1, 1].abs()))
    assert speeds[0] < 1e-5
    assert speeds[1] > 20 * speeds[0]


def test_a_cube_at_rest_stays_at_rest():
    cube = gs.Rigid("cube", gs.meshes.box(0.1), mass=0.5, position=(0.0, 0.06, 0.0), rotation=(0.1, 0.2, 0.05, 1.0))
    scene = gs.Scene([cube], gs.Ground(ke=2e4, restitution=0.3))
    substeps = math.ceil(1.0 / gs.stable_dt(scene))
    motion = gs.simulate(scene, frames=4, fps=1.0, substeps=substeps)["cube"]
    assert float(motion.velocity[-1, 1].abs()) < 1e-6
    depth = 0.05 - float(motion.position[-1, 1])
    assert depth == pytest.approx(math.sqrt(2 * 0.0005 * 0.5 * 9.81 / (4 * 2e4)), rel=1e-3)  # ke c^2 / (2 delta)


def test_drag_needs_a_drag_object():
    with pytest.raises(gs.InvalidInput, match=r"ball\.drag = float: must be a gs\.Drag"):
        gs.Ball("ball", radius=0.1, mass=1.0, drag=0.1)
    with pytest.raises(gs.InvalidInput, match=r"Drag\.linear = -1: must be >= 0"):
        gs.Drag(linear=-1.0)


def test_a_ball_moves_equally_beside_coupled_bodies():
    """A tether moves all rigid bodies of its scene to the rollout of whole worlds."""
    node = gs.Springs("node", [[0.3, 1.0, 0.0]], np.zeros((0, 2)), mass=0.5, contact=gs.Contact())
    cube = gs.Rigid("cube", gs.meshes.box(0.1), mass=2.0, position=(0.0, 1.0, 0.0), contact=gs.Contact())
    rope = gs.Tether("rope", body="node", nodes=0, rigid="cube", stiffness=50.0, rest_length=0.2)
    found = []
    for coupled in (False, True):
        e, k = (torch.tensor(value, dtype=F64, requires_grad=True) for value in (0.6, 0.05))
        alone = dropped(e, slope=0.1, drag=gs.Drag(quadratic=k))
        scene = gs.Scene([*alone.bodies, node, cube], alone.ground, forces=[rope]) if coupled else alone
        scene = dataclasses.replace(scene, gravity=(0.0, -9.81, 0.0))
        motion = gs.simulate(scene, **SMALL)["ball"]
        gradients = torch.autograd.grad(motion.position.sum() + motion.angular_velocity.sum(), (e, k))
        found.append((motion.position.detach(), *gradients))
    for apart, together in zip(*found, strict=True):
        assert torch.allclose(apart, together, rtol=1e-11, atol=0.0)

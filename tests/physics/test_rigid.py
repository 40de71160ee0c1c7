"""Rigid bodies and pendula beyond the references: masses over six decades, pushes, and limits of pendula."""

import math
import re
import warnings

import numpy as np
import pytest
import torch

import gradsim as gs

G = 9.81
STILL = (0.0, 0.0, 0.0)
TILTED = (0.3, 0.2, -0.1, 0.9)  # a cube that lands on a corner
INTEGRATORS = [gs.SymplecticEuler(), gs.Midpoint()]


def dropped(body: gs.Rigid, integrator: gs.SymplecticEuler | gs.Midpoint, substeps: int | None = None) -> gs.Trajectory:
    """Two seconds of a fall on the default ground, with the substeps that `stable_dt` advises; warnings are errors."""
    scene = gs.Scene([body], ground=gs.Ground())
    substeps = substeps or math.ceil(1.0 / (30.0 * gs.stable_dt(scene, integrator)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", gs.ContactWarning)  # a tonne sinks in deep, as it should
        return gs.simulate(scene, frames=61, fps=30.0, substeps=substeps, integrator=integrator)


def energy(body: gs.Rigid, motion: gs.Trajectory) -> np.ndarray:
    """Kinetic and potential energy at the frames [J]."""
    mass, _, inertia = body.mass_properties(torch.float64, torch.device("cpu"))
    w, v = motion.angular_velocity, motion.velocity
    spin = 0.5 * float(inertia[0, 0]) * (w * w).sum(-1)  # of cubes and balls, the same about every axis
    return (mass * (G * motion.center_of_mass[:, 1] + 0.5 * (v * v).sum(-1)) + spin).numpy()


@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda integrator: type(integrator).__name__)
@pytest.mark.parametrize("mass", [1e-3, 1e-1, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("rotation", [None, TILTED], ids=["flat", "tilted"])
def test_a_cube_of_any_mass_bounces_at_the_advised_step(mass, integrator, rotation):
    cube = gs.Rigid("cube", gs.meshes.box(0.2), mass=mass, position=(0.0, 1.0, 0.0), rotation=rotation)
    motion = dropped(cube, integrator)["cube"]
    lowest, total = motion.vertices[..., 1].amin(-1).numpy(), energy(cube, motion)
    touch = int(np.argmax(motion.velocity[1:, 1].numpy() > motion.velocity[:-1, 1].numpy()))
    assert touch > 5, "it falls before it touches"
    assert lowest[touch:].max() > (0.02 if mass >= 0.1 else 0.0), "it comes up again"
    # One corner alone would stop it at depth d, where ke d^2 / 2 = m g (h + d).
    weight, ke = mass * G, 1e4
    deepest = (weight + math.sqrt(weight**2 + 2 * ke * weight * lowest[0])) / ke + 0.005 * 0.2
    assert lowest.min() > -1.1 * deepest
    # At 1/30 s, enough for a tonne, SymplecticEuler's fall alone is g dt / 2 too slow or too fast at a frame.
    assert total.max() < 1.1 * total[0]


@pytest.mark.parametrize("mass", [1e-3, 1e-1, 1.0])
def test_too_large_a_step_is_told_with_the_body_and_the_substeps_that_do(mass):
    cube = gs.Rigid("my_cube", gs.meshes.box(0.2), mass=mass, position=(0.0, 1.0, 0.0))
    with pytest.warns(gs.StabilityWarning, match="contact stiffness or friction of 'my_cube'") as told:
        gs.simulate(gs.Scene([cube], ground=gs.Ground()), frames=2, fps=30.0, substeps=4)
    advice = re.search(r"substeps >= (\d+)", str(told[0].message))
    assert advice is not None
    total = energy(cube, dropped(cube, gs.SymplecticEuler(), int(advice[1]))["my_cube"])
    assert total.max() < 1.01 * total[0]


@pytest.mark.parametrize("case", ["ball", "fine cube in a slanted mesh"])
def test_round_and_slanted_bodies_gain_no_energy_at_the_advised_step(case):
    mesh, rotation = gs.meshes.icosphere(0.1, 3), None
    if case != "ball":
        q = np.array(TILTED) / np.linalg.norm(TILTED)
        rotation = q * (-1.0, -1.0, -1.0, 1.0)
        mesh = gs.TriMesh(fine_box(0.2, 8).vertices @ rotation_matrix(q).T, fine_box(0.2, 8).faces)
    body = gs.Rigid("body", mesh, mass=10.0, position=(0.0, 1.0, 0.0), rotation=rotation)
    total = energy(body, dropped(body, gs.SymplecticEuler())["body"])
    assert total.max() < 1.1 * total[0]


def fine_box(size: float, cells: int) -> gs.TriMesh:
    """The surface of a cube with `cells` squares along each edge."""
    solid = gs.meshes.tet_box(size, cells)
    used, faces = np.unique(solid.surface, return_inverse=True)
    return gs.TriMesh(solid.vertices[used], faces.reshape(-1, 3))


def rotation_matrix(q: np.ndarray) -> np.ndarray:
    x, y, z, w = q
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


# --- pushes -----------------------------------------------------------------------------------------------------------


def pushed(push: gs.Push, *, frames: int, fps: float, substeps: int = 1, **start: object) -> gs.Trajectory:
    body = gs.Rigid("body", gs.meshes.box((0.2, 0.3, 0.4)), mass=2.0, pushes=[push], **start)
    return gs.simulate(gs.Scene([body], gravity=STILL), frames=frames, fps=fps, substeps=substeps)


@pytest.mark.parametrize("start", [0.55, 0.5166666666666667])
def test_an_impulse_halfway_between_steps_acts_once(start):
    motion = pushed(gs.Push(impulse=(2.0, 0.0, 0.0), start=start), frames=31, fps=30.0)["body"]
    assert float(motion.velocity[-1, 0]) == pytest.approx(1.0, abs=1e-12)


def test_a_push_keeps_its_time_in_a_continued_rollout():
    body = gs.Rigid("body", gs.meshes.box(0.2), mass=2.0, pushes=[gs.Push(impulse=(2.0, 0.0, 0.0), start=0.15)])
    scene = gs.Scene([body], gravity=STILL)
    half = gs.simulate(scene, frames=2, fps=10.0, substeps=10)
    motion = gs.simulate(scene, frames=2, fps=10.0, substeps=10, start=half.final)["body"]
    assert float(motion.velocity[-1, 0]) == pytest.approx(1.0, abs=1e-12)


def test_a_push_turns_with_the_body_but_keeps_its_direction():
    """After a quarter turn about z the point on x lies on y: a push along x there turns it backwards about z."""
    quarter = 0.5  # [s]
    push = gs.Push(impulse=(1.0, 0.0, 0.0), point=(0.1, 0.0, 0.0), start=quarter)
    spin = (0.0, 0.0, 0.5 * math.pi / quarter)
    run = pushed(push, frames=12, fps=10.0, substeps=200, angular_velocity=spin)
    momenta = run.states["rigid.l"][:, 0].numpy()
    assert momenta[-1] - momenta[0] == pytest.approx((0.0, 0.0, -0.1), abs=2e-4)
    assert run["body"].velocity[-1].numpy() == pytest.approx((0.5, 0.0, 0.0), abs=1e-12)


def test_a_push_without_a_point_acts_on_the_centre_of_mass():
    cone = gs.Rigid("cone", gs.meshes.cone(0.2, 0.4), mass=2.0, pushes=[gs.Push(impulse=(1.0, 2.0, 3.0))])
    run = gs.simulate(gs.Scene([cone], gravity=STILL), frames=2, fps=10.0)
    assert run["cone"].velocity[-1].numpy() == pytest.approx((0.5, 1.0, 1.5), abs=1e-12)
    assert run["cone"].angular_velocity[-1].numpy() == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


# --- pendula ----------------------------------------------------------------------------------------------------------


def test_a_pendulum_in_slanted_gravity_is_one_that_hangs_slanted():
    tilt, start = 0.4, 0.9
    straight = gs.simulate(gs.Scene([gs.Pendulum("bob", angle=start)]), frames=31)["bob"].angle
    gravity = (G * math.sin(tilt), -G * math.cos(tilt), 0.0)
    slanted = gs.simulate(gs.Scene([gs.Pendulum("bob", angle=start + tilt)], gravity=gravity), frames=31)["bob"].angle
    assert float((slanted - tilt - straight).abs().max()) < 1e-12


def test_a_double_pendulum_with_a_light_end_swings_as_a_simple_one():
    simple = gs.Pendulum("links", length=0.7, angle=1.2, mass=2.0, damping=0.3)
    light = gs.DoublePendulum("links", lengths=(0.7, 0.5), masses=(2.0, 2e-9), angles=(1.2, 0.3), damping=(0.3, 0.0))
    expected = gs.simulate(gs.Scene([simple]), frames=31, substeps=64)["links"].angle[:, 0]
    got = gs.simulate(gs.Scene([light]), frames=31, substeps=64)["links"].angle[:, 0]
    assert float((got - expected).abs().max()) < 1e-7


def test_bobs_are_where_the_angles_say():
    angles, lengths = (0.4, -1.1), (0.7, 0.5)
    pivot = np.array([0.3, 2.0, -0.1])
    body = gs.DoublePendulum("links", lengths=lengths, angles=angles, rates=(1.5, -0.7), pivot=pivot)
    motion = gs.simulate(gs.Scene([body]), frames=3, fps=1000.0, substeps=4)["links"]
    place, count = pivot, motion.vertices.shape[-2] // 2
    for k in range(2):
        place = place + lengths[k] * np.array([math.sin(angles[k]), -math.cos(angles[k]), 0.0])
        bob = motion.vertices[0, (k + 1) * count - 162 : (k + 1) * count].mean(0).numpy()  # an icosphere, cut twice
        assert bob == pytest.approx(place, abs=1e-12)
    seen = (motion.vertices[2] - motion.vertices[0]) / 0.002
    assert float((seen - motion.velocities[1]).abs().max()) < 1e-4

"""Rigid bodies and pendula: contact over six decades of mass, pushes, and limiting cases of pendula."""

import math
import re
import warnings

import numpy as np
import pytest
import torch

import gradsim as gs

G = 9.81
NO_GRAVITY = (0.0, 0.0, 0.0)
TILTED = (0.3, 0.2, -0.1, 0.9)  # a cube that lands on a corner
EULER = gs.SymplecticEuler()
INTEGRATORS = [EULER, gs.Midpoint()]


def drop(body: gs.Rigid, integrator: gs.SymplecticEuler | gs.Midpoint, substeps: int | None = None) -> gs.Trajectory:
    """Simulates 2 s of a fall on the default ground, with the substeps of `stable_dt`; warnings are errors."""
    scene = gs.Scene([body], ground=gs.Ground())
    substeps = substeps or math.ceil(1.0 / (30.0 * gs.stable_dt(scene, integrator)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", gs.ContactWarning)  # expected: a tonne sinks in deep
        return gs.simulate(scene, frames=61, fps=30.0, substeps=substeps, integrator=integrator)


def total_energy(body: gs.Rigid, motion: gs.Trajectory) -> np.ndarray:
    """Kinetic and potential energy at the frames [J]."""
    mass, _, inertia = body.mass_properties(torch.float64, torch.device("cpu"))
    w, v = motion.angular_velocity, motion.velocity
    rotational = 0.5 * float(inertia[0, 0]) * (w * w).sum(-1)  # cubes and balls have the same inertia about all axes
    return (mass * (G * motion.center_of_mass[:, 1] + 0.5 * (v * v).sum(-1)) + rotational).numpy()


@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda integrator: type(integrator).__name__)
@pytest.mark.parametrize("mass", [1e-3, 1e-1, 1.0, 10.0, 1e3])
@pytest.mark.parametrize("rotation", [None, TILTED], ids=["flat", "tilted"])
def test_a_cube_of_any_mass_bounces_at_the_stable_step(mass, integrator, rotation):
    cube = gs.Rigid("cube", gs.meshes.box(0.2), mass=mass, position=(0.0, 1.0, 0.0), rotation=rotation)
    motion = drop(cube, integrator)["cube"]
    lowest, total = motion.vertices[..., 1].amin(-1).numpy(), total_energy(cube, motion)
    impact = int(np.argmax(motion.velocity[1:, 1].numpy() > motion.velocity[:-1, 1].numpy()))
    assert impact > 5, "the cube falls before the impact"
    assert lowest[impact:].max() > (0.02 if mass >= 0.1 else 0.0), "the cube rebounds"
    # A single corner stops the cube at the depth d with ke d^2 / 2 = m g (h + d).
    weight, ke = mass * G, 1e4
    deepest = (weight + math.sqrt(weight**2 + 2 * ke * weight * lowest[0])) / ke + 0.005 * 0.2
    assert lowest.min() > -1.1 * deepest
    # At 1/30 s, the stable step of a tonne, SymplecticEuler's velocity of the fall is wrong by g dt / 2.
    assert total.max() < 1.1 * total[0]


@pytest.mark.parametrize("mass", [1e-3, 1e-1, 1.0])
def test_the_warning_of_an_unstable_step_names_the_body_and_enough_substeps(mass):
    cube = gs.Rigid("my_cube", gs.meshes.box(0.2), mass=mass, position=(0.0, 1.0, 0.0))
    with pytest.warns(gs.StabilityWarning, match="contact stiffness or friction of 'my_cube'") as caught:
        gs.simulate(gs.Scene([cube], ground=gs.Ground()), frames=2, fps=30.0, substeps=4, integrator=EULER)
    advice = re.search(r"substeps >= (\d+)", str(caught[0].message))
    assert advice is not None
    total = total_energy(cube, drop(cube, EULER, int(advice[1]))["my_cube"])
    assert total.max() < 1.01 * total[0]


@pytest.mark.parametrize("case", ["ball", "fine cube in a rotated mesh"])
def test_round_and_rotated_bodies_gain_no_energy_at_the_stable_step(case):
    mesh, rotation = gs.meshes.icosphere(0.1, 3), None
    if case != "ball":
        q = np.array(TILTED) / np.linalg.norm(TILTED)
        rotation = q * (-1.0, -1.0, -1.0, 1.0)
        mesh = gs.TriMesh(fine_box(0.2, 8).vertices @ rotation_matrix(q).T, fine_box(0.2, 8).faces)
    body = gs.Rigid("body", mesh, mass=10.0, position=(0.0, 1.0, 0.0), rotation=rotation)
    total = total_energy(body, drop(body, EULER)["body"])
    assert total.max() < 1.1 * total[0]


def fine_box(size: float, cells: int) -> gs.TriMesh:
    """Returns the surface of a cube with `cells` squares along each edge."""
    solid = gs.meshes.tet_box(size, cells)
    used, faces = np.unique(solid.surface, return_inverse=True)
    return gs.TriMesh(solid.vertices[used], faces.reshape(-1, 3))


def rotation_matrix(q: np.ndarray) -> np.ndarray:
    x, y, z, w = q
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


# --- pushes -----------------------------------------------------------------------------------------------------------


def simulate_push(push: gs.Push, *, frames: int, fps: float, substeps: int = 1, **start: object) -> gs.Trajectory:
    body = gs.Rigid("body", gs.meshes.box((0.2, 0.3, 0.4)), mass=2.0, pushes=[push], **start)
    scene = gs.Scene([body], gravity=NO_GRAVITY)
    return gs.simulate(scene, frames=frames, fps=fps, substeps=substeps, integrator=EULER)


@pytest.mark.parametrize("start", [0.55, 0.5166666666666667])
def test_an_impulse_between_steps_acts_once(start):
    motion = simulate_push(gs.Push(impulse=(2.0, 0.0, 0.0), start=start), frames=31, fps=30.0)["body"]
    assert float(motion.velocity[-1, 0]) == pytest.approx(1.0, abs=1e-12)


def test_a_push_acts_at_its_time_in_a_continued_rollout():
    body = gs.Rigid("body", gs.meshes.box(0.2), mass=2.0, pushes=[gs.Push(impulse=(2.0, 0.0, 0.0), start=0.15)])
    scene = gs.Scene([body], gravity=NO_GRAVITY)
    options = {"frames": 2, "fps": 10.0, "substeps": 10, "integrator": EULER}
    first = gs.simulate(scene, **options)
    motion = gs.simulate(scene, **options, start=first.final)["body"]
    assert float(motion.velocity[-1, 0]) == pytest.approx(1.0, abs=1e-12)


def test_the_point_of_a_push_rotates_with_the_body_but_its_direction_does_not():
    """After a quarter turn about z the point on x is on y: a push along x there has a negative torque about z."""
    quarter = 0.5  # [s]
    push = gs.Push(impulse=(1.0, 0.0, 0.0), point=(0.1, 0.0, 0.0), start=quarter)
    spin = (0.0, 0.0, 0.5 * math.pi / quarter)
    run = simulate_push(push, frames=12, fps=10.0, substeps=200, angular_velocity=spin)
    momenta = run["body"].angular_momentum.numpy()
    assert momenta[-1] - momenta[0] == pytest.approx((0.0, 0.0, -0.1), abs=2e-4)
    assert run["body"].velocity[-1].numpy() == pytest.approx((0.5, 0.0, 0.0), abs=1e-12)


def test_a_push_without_a_point_acts_on_the_centre_of_mass():
    cone = gs.Rigid("cone", gs.meshes.cone(0.2, 0.4), mass=2.0, pushes=[gs.Push(impulse=(1.0, 2.0, 3.0))])
    run = gs.simulate(gs.Scene([cone], gravity=NO_GRAVITY), frames=2, fps=10.0, integrator=EULER)
    assert run["cone"].velocity[-1].numpy() == pytest.approx((0.5, 1.0, 1.5), abs=1e-12)
    assert run["cone"].angular_velocity[-1].numpy() == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


# --- pendula ----------------------------------------------------------------------------------------------------------


def test_tilted_gravity_shifts_the_angle_of_a_pendulum():
    tilt, start = 0.4, 0.9
    straight = gs.simulate(gs.Scene([gs.Pendulum("bob", angle=start)]), frames=31)["bob"].angle
    gravity = (G * math.sin(tilt), -G * math.cos(tilt), 0.0)
    tilted = gs.simulate(gs.Scene([gs.Pendulum("bob", angle=start + tilt)], gravity=gravity), frames=31)["bob"].angle
    assert float((tilted - tilt - straight).abs().max()) < 1e-12


def test_a_double_pendulum_with_a_light_end_moves_like_a_simple_one():
    simple = gs.Pendulum("links", length=0.7, angle=1.2, mass=2.0, damping=0.3)
    light = gs.DoublePendulum("links", lengths=(0.7, 0.5), masses=(2.0, 2e-9), angles=(1.2, 0.3), damping=(0.3, 0.0))
    expected = gs.simulate(gs.Scene([simple]), frames=31, substeps=64)["links"].angle[:, 0]
    got = gs.simulate(gs.Scene([light]), frames=31, substeps=64)["links"].angle[:, 0]
    assert float((got - expected).abs().max()) < 1e-7


def test_a_double_pendulum_with_heavy_rods_moves_like_an_articulated_body():
    lengths, masses, rods, damping = (0.5, 0.4), (1.0, 0.8), (0.6, 0.3), (0.02, 0.01)
    angles, rates, times = (1.2, 0.3), (0.5, -1.0), {"frames": 31, "fps": 60.0, "substeps": 16}
    quantities = {"lengths": lengths, "masses": masses, "rod_masses": rods, "damping": damping}
    body = gs.DoublePendulum("links", angles=angles, rates=rates, **quantities)
    got = gs.simulate(gs.Scene([body]), **times)["links"].bobs

    def link(k, **place):
        length, mass = lengths[k], masses[k] + rods[k]
        center = (masses[k] * length + rods[k] * length / 2) / mass
        about = masses[k] * (length - center) ** 2 + rods[k] * (length**2 / 12 + (center - length / 2) ** 2)
        angle, rate = (np.diff(own, prepend=0.0)[k] for own in (angles, rates))
        hinge = gs.Revolute(angle=angle, rate=rate, damping=damping[k])
        return gs.Link(hinge, mass=mass, center=(0, -center, 0), inertia=np.diag([1e-3, 1e-3, about]), **place)

    tip = gs.Link(parent="lower", position=(0, -lengths[1], 0))
    lower = link(1, parent="upper", position=(0, -lengths[0], 0))
    scene = gs.Scene([gs.Articulated("bars", {"upper": link(0), "lower": lower, "tip": tip})])
    motion = gs.simulate(scene, integrator=gs.RungeKutta4(), **times)
    for k, name in enumerate(("lower", "tip")):
        expected = gs.Marker("bars", link=name).positions(scene, motion)
        assert float((got[:, k] - expected).abs().max()) < 1e-12


def test_drag_of_the_bobs_takes_energy_from_a_double_pendulum():
    lengths, masses, drag = torch.tensor((0.5, 0.4)), torch.tensor((1.0, 0.8)), torch.tensor((0.1, 0.2))
    body = gs.DoublePendulum("links", lengths=lengths, masses=masses, angles=(2.0, 1.0), drag=drag)
    motion = gs.simulate(gs.Scene([body]), frames=601, fps=300.0, substeps=8)["links"]
    along = torch.stack([torch.cos(motion.angle), torch.sin(motion.angle)], -1)
    square = ((motion.rate * lengths)[..., None] * along).cumsum(-2).square().sum(-1)  # of the speeds of the bobs
    energy = (masses * (0.5 * square + G * motion.bobs[..., 1])).sum(-1)
    lost = torch.trapezoid((drag * square).sum(-1), dx=1 / 300)
    assert float(lost) > 2.0
    assert float(energy[0] - energy[-1]) == pytest.approx(float(lost), rel=1e-5)


def test_positions_of_the_bobs_agree_with_the_angles():
    angles, lengths = (0.4, -1.1), (0.7, 0.5)
    pivot = np.array([0.3, 2.0, -0.1])
    body = gs.DoublePendulum("links", lengths=lengths, angles=angles, rates=(1.5, -0.7), pivot=pivot)
    motion = gs.simulate(gs.Scene([body]), frames=3, fps=1000.0, substeps=4)["links"]
    position, count = pivot, motion.vertices.shape[-2] // 2
    for k in range(2):
        position = position + lengths[k] * np.array([math.sin(angles[k]), -math.cos(angles[k]), 0.0])
        vertices = motion.vertices[0, (k + 1) * count - 162 : (k + 1) * count]  # an icosphere, subdivided twice
        bob = vertices.mean(0).numpy()
        assert bob == pytest.approx(position, abs=1e-12)
    differences = (motion.vertices[2] - motion.vertices[0]) / 0.002
    assert float((differences - motion.velocities[1]).abs().max()) < 1e-4

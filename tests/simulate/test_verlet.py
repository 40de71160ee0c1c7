"""Velocity Verlet: order with damping, carried forces across graphs, frames and checkpoints, kernels and gradients."""

import functools
import itertools

import numpy as np
import pytest
import torch
from tests.simulate.differences import F64, assert_native_equals_portable
from tests.simulate.scenes import beam

import gradsim as gs
from gradsim.check.gradient_problems import PROBLEMS
from gradsim.check.gradients import check_problem
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.engine import engine, memory

CHECKED = (
    "soft body hits the ground",
    "soft bodies with sticking friction",
    "cloth in the air",
    "rigid body, pushed",
    "rigid body hits the ground",
    "box with sticking friction",
    "beam in a moving clamp",
    "a ball flies into a sheet",
)


def problem(name):
    return next(p for p in PROBLEMS if p.name == name)


def damped_errors(ratio, substeps):
    """Distances of a damped oscillator of 2 rad/s from x = exp(-d t) cos(w t) + ... after a second in one frame [m]."""
    frequency, rate = 2.0, 2.0 * ratio * 2.0
    damped = frequency * np.sqrt(1.0 - ratio**2)
    points = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    options = {"stiffness": frequency**2, "rest_length": 0.0, "damping": rate, "pinned": [0]}
    body = gs.Springs("spring", points, [[0, 1]], mass=1.0, **options)
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0))
    exact = np.exp(-0.5 * rate) * (np.cos(damped) + 0.5 * rate / damped * np.sin(damped))
    ends = [gs.simulate(scene, frames=2, fps=1.0, substeps=n, integrator=gs.Verlet()).vertices[-1, 1] for n in substeps]
    return [abs(float(end[0]) - exact) for end in ends]


@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.5])
def test_second_order_with_damping(ratio):
    errors = damped_errors(ratio, (64, 128, 256))
    assert all(coarse / fine == pytest.approx(4.0, rel=0.06) for coarse, fine in itertools.pairwise(errors))


def test_second_order_for_a_rotating_body_with_drag_and_torque():
    """A box whose push turns with it; the reference has a step 16 times finer."""
    push = gs.Push(force=(0.0, 3.0, 1.0), point=(0.1, 0.0, 0.05), start=0.0, end=1.0)
    body = gs.Rigid(
        "box", gs.meshes.box((0.4, 0.2, 0.1)), mass=2.0, angular_velocity=(0.5, 3.0, 2.0), pushes=[push],
        drag=gs.Drag(linear=0.4),
    )  # fmt: skip
    motions = {
        n: gs.simulate(gs.Scene([body]), frames=2, fps=1.0, substeps=n, integrator=gs.Verlet())["box"]
        for n in (128, 256, 512, 8192)
    }
    for state in ("position", "rotation"):
        ends = {n: getattr(motion, state)[-1] for n, motion in motions.items()}
        errors = [float((ends[n] - ends[8192]).norm()) for n in (128, 256, 512)]
        assert all(coarse / fine == pytest.approx(4.0, rel=0.15) for coarse, fine in itertools.pairwise(errors)), state


def test_energy_of_an_undamped_beam_stays_bounded_near_the_stability_limit():
    """Explicit midpoint multiplies the highest oscillations at this step."""
    scene = beam(2e4, damping=0.0, velocity=(0.0, 0.5, 0.0))
    substeps = int(np.ceil(1.0 / (30.0 * gs.stable_dt(scene, gs.Verlet()))))
    motion = gs.simulate(scene, frames=31, substeps=substeps, integrator=gs.Verlet())
    assert float(motion.velocities.norm(dim=-1).max()) < 3.0
    assert gs.stable_dt(scene, gs.Verlet()) > 6.0 * gs.stable_dt(scene, gs.Midpoint())


def test_a_state_at_a_frame_determines_the_rest():
    scene, options = beam(2e4, damping=20.0), {"fps": 30.0, "substeps": 40, "integrator": gs.Verlet()}
    whole = gs.simulate(scene, frames=5, **options)
    first = gs.simulate(scene, frames=3, **options)
    rest = gs.simulate(scene, frames=3, start=first.final, **options)
    assert torch.equal(rest.vertices, whole.vertices[2:])
    assert torch.equal(rest.velocities, whole.velocities[2:])


@pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])
@pytest.mark.parametrize("bodies", ["soft", "rigid"])
def test_rollouts_and_gradients_do_not_depend_on_graphs_and_checkpoints(bodies, native, monkeypatch):
    """The force is carried across graphs within a frame, and is part of a checkpoint."""

    monkeypatch.setattr(Topology, "is_native", native)

    def run(limit, graph_steps):
        monkeypatch.setattr(engine, "plan_memory", functools.partial(_planned, graph_steps))
        engine.ENGINES.clear()
        mu = torch.tensor(2e4, dtype=F64, requires_grad=True)
        if bodies == "soft":
            scene = beam(mu, cells=(2, 1, 1), damping=20.0)
        else:
            box = gs.Rigid("box", gs.meshes.box(0.2), mass=mu * 1e-4, position=(0.0, 0.12, 0.0), velocity=(1, -1, 0.2))
            scene = gs.Scene([box], gs.Ground(2e4, kd=20.0, kf=30.0, mu=0.4))
        motion = gs.simulate(scene, frames=3, fps=10.0, substeps=96, integrator=gs.Verlet(), memory=limit)
        (motion.vertices[-1] ** 2).sum().backward()
        return motion.vertices.detach(), mu.grad

    vertices, gradient = run(1e9, 96)
    for limit, graph_steps in ((1e9, 20), (1e5, 20)):
        other, found = run(limit, graph_steps)
        assert torch.equal(other, vertices)
        assert float(found) == pytest.approx(float(gradient), rel=1e-12)
    engine.ENGINES.clear()


def _planned(longest, **options):
    return memory.plan_memory(**{**options, "graph_steps": longest})


@pytest.mark.parametrize("name", CHECKED)
def test_native_kernels_equal_portable_ones(name):
    own = problem(name)
    values = {key: torch.stack([value, value * 1.01]) for key, value in own.values().items()}
    step = 1.0 / (own.fps * own.substeps)
    assert_native_equals_portable(own.build(values), gs.Verlet(), dt=step, steps=8, tolerance=1e-10)


@pytest.mark.parametrize("name", CHECKED)
def test_adjoint_agrees_with_differences(name):
    assert not [result for result in check_problem(problem(name), gs.Verlet()) if not result.ok]

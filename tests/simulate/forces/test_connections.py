"""Connections of links and rigid bodies: closed loops against their exact motion, gradients, momentum, errors."""

import math

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import InvalidInput, UnknownName


def rod(length, mass):
    """Returns mass properties of a rod that hangs from its joint."""
    inertia = np.diag([mass * length**2 / 12, 1e-4, mass * length**2 / 12])
    return {"mass": mass, "center": (0.0, -length / 2, 0.0), "inertia": inertia}


def parallelogram(stiffness=2e5, second_point=(0.4, 0.0, 0.0)):
    """Two equal rods that hang side by side, with a coupler between their ends: it swings without turning."""
    links = {
        "left": gs.Link(gs.Revolute(angle=0.6), **rod(0.5, 1.0)),
        "right": gs.Link(gs.Revolute(angle=0.6), position=(0.4, 0.0, 0.0), **rod(0.5, 1.0)),
        "coupler": gs.Link(
            gs.Revolute(angle=-0.6),
            "left",
            (0.0, -0.5, 0.0),
            mass=0.8,
            center=(0.2, 0.0, 0.0),
            inertia=np.eye(3) * 0.01,
        ),
    }
    pin = gs.Connection(
        "pin", "linkage/coupler", "linkage/right", second_point, (0.0, -0.5, 0.0), stiffness=stiffness, damping=200.0
    )
    return gs.Scene([gs.Articulated("linkage", links)], forces=[pin])


def test_a_parallelogram_swings_like_one_pendulum():
    """Its coordinate is one angle: (I_left + I_right + m L^2) a'' = -(m_rods L / 2 + m L) g sin(a)."""
    motion = gs.simulate(parallelogram(), frames=31, fps=30.0, substeps=64)["linkage"]
    inertia = 2 * 0.5**2 / 3 + 0.8 * 0.5**2
    arm = (2 * 1.0 * 0.25 + 0.8 * 0.5) / inertia
    angle, rate, dt = 0.6, 0.0, 1e-4
    for _ in range(10_000):
        middle = angle + dt / 2 * rate
        rate -= dt * 9.81 * arm * math.sin(middle)
        angle = middle + dt / 2 * rate
    assert float(motion.angle("left")[-1]) == pytest.approx(angle, abs=2e-4)
    assert float((motion.angle("left") - motion.angle("right")).abs().max()) < 1e-3
    assert float((motion.angle("left") + motion.angle("coupler")).abs().max()) < 1e-3


def test_gradients_agree_with_differences():
    weights = torch.linspace(-1.0, 1.0, 3, dtype=torch.float64)

    def loss(values):
        motion = gs.simulate(parallelogram(1e3 * values[0], values[1:4]), frames=3, fps=50.0, substeps=20)
        return (motion["linkage"].angles * weights).sum()

    values = torch.tensor([1.0, 0.42, 0.01, 0.02], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss(values), values)
    with torch.no_grad():
        for k in range(4):
            step = torch.zeros(4, dtype=torch.float64)
            step[k] = 1e-4
            difference = float((loss(values + step) - loss(values - step)) / 2e-4)
            assert float(gradient[k]) == pytest.approx(difference, rel=1e-6, abs=1e-8)


def test_rigid_bodies_hang_from_the_world_and_from_each_other():
    cubes = [
        gs.Rigid(name, gs.meshes.box(0.1), mass=0.5, position=(0.0, y, 0.0)) for name, y in (("a", 0.9), ("b", 0.7))
    ]
    hooks = [
        gs.Connection("hook", "a", "", (0.0, 0.1, 0.0), (0.0, 1.0, 0.0), stiffness=1e4, damping=20.0),
        gs.Connection("chain", "b", "a", (0.0, 0.1, 0.0), (0.0, -0.1, 0.0), stiffness=1e4, damping=20.0),
    ]
    motion = gs.simulate(gs.Scene(cubes, forces=hooks), frames=31, fps=30.0, substeps=64)
    assert float(motion["a"].position[-1, 1]) == pytest.approx(0.9 - 9.81 / 1e4, abs=1e-5)
    assert float(motion["b"].position[-1, 1]) == pytest.approx(0.7 - 1.5 * 9.81 / 1e4, abs=1e-5)


def test_a_tether_holds_a_link():
    bar = gs.Articulated("bar", {"rod": gs.Link(gs.Revolute(angle=0.5, damping=0.5), **rod(0.5, 1.0))})
    cord = gs.Springs("cord", *gs.meshes.chain(0.4, 4), mass=0.01, stiffness=500.0, damping=0.5, pinned=[0])
    knot = gs.Tether("knot", "cord", 4, "bar/rod", points=(0.0, -0.5, 0.0), stiffness=200.0, damping=0.5)
    motion = gs.simulate(gs.Scene([bar, cord], forces=[knot]), frames=4, fps=30.0, substeps=64)
    assert abs(float(motion["bar"].angles[-1, 0])) < 1.5


def test_stable_steps_follow_the_stiffness():
    soft, stiff = (gs.stable_dt(parallelogram(stiffness), gs.SymplecticEuler()) for stiffness in (1e6, 4e6))
    assert soft / stiff == pytest.approx(2.0, rel=0.3)


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        ("linkage/hand", "", UnknownName),
        ("linkage/left", "linkage/left", InvalidInput),
        ("", "linkage/left", UnknownName),
    ],
)
def test_invalid_connections_are_named(first, second, error):
    with pytest.raises(error, match="pin"):
        gs.Scene([parallelogram().bodies[0]], forces=[gs.Connection("pin", first, second)])


def test_scene_files_keep_connections(tmp_path):
    parallelogram().save(tmp_path / "linkage.yaml")
    loaded = gs.load_scene(tmp_path / "linkage.yaml").forces[0]
    assert (loaded.first, loaded.second) == ("linkage/coupler", "linkage/right")
    np.testing.assert_allclose(np.asarray(loaded.first_point), (0.4, 0.0, 0.0))

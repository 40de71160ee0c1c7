"""The largest stable step, and the errors of rollouts that diverge."""

import math
import warnings

import numpy as np
import pytest
import torch
from tests.simulate.scenes import beam

import gradsim as gs

F64 = torch.float64


def test_divergence_error_has_time_body_and_stable_step():
    stiff = gs.Scene(
        [
            gs.Soft(
                "jelly",
                gs.meshes.tet_box(0.2, 2),
                100.0,
                material=gs.NeoHookean(1e7, 1e7),
                velocity=(0, 0, 1.0),
                force=(0, 5, 0),
            )
        ]
    )
    estimate = gs.stable_dt(stiff)
    with pytest.warns(gs.StabilityWarning, match="jelly"), pytest.raises(gs.Diverged) as caught:
        gs.simulate(stiff, frames=30, fps=30, substeps=4)
    error = caught.value
    assert error.body == "jelly"
    assert error.stable_dt == pytest.approx(estimate)
    assert error.time == pytest.approx(error.step / 120)
    assert 0 < error.step < 29 * 4
    assert "raise substeps" in str(error)
    needed = math.ceil(1 / (30 * estimate))
    gs.simulate(stiff, frames=30, fps=30, substeps=needed)  # the advice works


def test_divergence_error_has_world_and_step():
    """Only the third of four worlds is too stiff; the step in the error is the first that is not finite."""
    moduli = torch.tensor([1e4, 1e4, 1e9, 1e4], dtype=F64)
    with pytest.warns(gs.StabilityWarning), pytest.raises(gs.Diverged) as caught:
        gs.simulate(beam(moduli, damping=0.0), frames=10, fps=30, substeps=100)
    assert caught.value.world == 2
    step = caught.value.step
    alone = beam(1e9, damping=0.0)
    with pytest.warns(gs.StabilityWarning):
        before = gs.simulate(alone, frames=2, fps=3000 / (step - 1), substeps=step - 1)
    assert torch.isfinite(before.vertices).all()
    with pytest.warns(gs.StabilityWarning), pytest.raises(gs.Diverged) as again:
        gs.simulate(alone, frames=2, fps=3000 / step, substeps=step)
    assert again.value.step == step


@pytest.mark.parametrize("integrator", [gs.SymplecticEuler(), gs.Midpoint()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("kind", ["soft", "cloth", "springs"])
def test_stable_dt_is_stable_and_within_a_factor_of_three_of_the_limit(kind, integrator):
    rng = np.random.default_rng(0)
    if kind == "soft":
        mesh = gs.meshes.tet_box((0.4, 0.2, 0.2), (4, 2, 2))
        body = gs.Soft(
            "it", mesh, 100.0, material=gs.NeoHookean(1e5, 1e5), velocity=gs.per_element(rng.normal(size=(45, 3)))
        )
    elif kind == "cloth":
        sheet = gs.meshes.grid((0.4, 0.4), (4, 4))
        jitter = gs.per_element(0.1 * rng.normal(size=(25, 3)))
        body = gs.Cloth("it", sheet, 0.3, material=gs.Membrane(300.0, 300.0), bending=gs.Bending(0.05), velocity=jitter)
    else:
        points, edges = gs.meshes.chain(1.0, 10)
        body = gs.Springs(
            "it", points, edges, mass=0.1, stiffness=1e4, velocity=gs.per_element(rng.normal(size=(11, 3)))
        )
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0))
    dt = gs.stable_dt(scene, integrator)

    def energy_growth(step):
        motion = gs.simulate(scene, frames=11, fps=1 / (40 * step), substeps=40, integrator=integrator)
        speeds = motion.velocities.pow(2).sum((-1, -2))
        return float(speeds[1:].max() / speeds[:2].max())

    assert energy_growth(0.9 * dt) < 30.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.StabilityWarning)
        try:
            growth = energy_growth(3.0 * dt)
        except gs.Diverged:
            growth = math.inf
    assert growth > 30.0


def test_stable_dt_of_a_contact_equals_that_of_an_oscillator():
    mass = gs.Springs("mass", np.zeros((1, 3)), np.zeros((0, 2)), mass=0.1)
    euler = gs.SymplecticEuler()
    assert gs.stable_dt(gs.Scene([mass], gs.Ground(ke=1e5, kd=0.0, kf=0.0)), euler) == pytest.approx(2e-3)
    assert gs.stable_dt(gs.Scene([mass], gs.Ground(ke=0.0, kd=0.0, kf=200.0)), euler) == pytest.approx(1e-3)
    assert gs.stable_dt(gs.Scene([mass])) == math.inf


def test_aerodynamic_drag_limits_the_stable_step():
    sheet = gs.meshes.grid(0.4, 4)
    light = gs.Scene([gs.Cloth("sheet", sheet, 0.05, drag=50.0, velocity=(0.0, 10.0, 0.0))])
    with pytest.warns(gs.StabilityWarning, match="membrane stiffness or air"), pytest.raises(gs.Diverged):
        gs.simulate(light, frames=2, fps=30, substeps=10)

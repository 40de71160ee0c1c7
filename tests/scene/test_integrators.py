"""Time integrators: order of convergence, stability limits, validation of stages, and scene files."""

import itertools

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.scene.integrators import TOLERATED_GROWTH, Integrator, Stage, explicit_runge_kutta

F64 = torch.float64
INTEGRATORS = [gs.SymplecticEuler(), gs.Midpoint(), gs.RungeKutta4(), gs.Verlet()]
BY_NAME = {"argvalues": INTEGRATORS, "ids": lambda integrator: type(integrator).__name__}


def orbit(frequency):
    """A unit mass on a circle of radius 1 m, on a spring of rest length zero: x = cos(frequency t)."""
    points = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    velocity = gs.per_element([[0.0, 0.0, 0.0], [0.0, frequency, 0.0]])
    options = {"stiffness": frequency**2, "rest_length": 0.0, "damping": 0.0, "velocity": velocity, "pinned": [0]}
    return gs.Scene([gs.Springs("orbit", points, [[0, 1]], mass=1.0, **options)], gravity=(0.0, 0.0, 0.0))


def orbit_error(integrator, substeps, frequency=2.0):
    """Distance from the exact position after one second [m]."""
    motion = gs.simulate(orbit(frequency), frames=2, fps=1.0, substeps=substeps, integrator=integrator)
    exact = torch.tensor([np.cos(frequency), np.sin(frequency), 0.0], dtype=F64)
    return float((motion.vertices[-1, 1] - exact).norm())


@pytest.mark.parametrize("integrator", **BY_NAME)
def test_order_of_convergence(integrator):
    errors = [orbit_error(integrator, substeps) for substeps in (32, 64, 128)]
    for coarse, fine in itertools.pairwise(errors):
        assert coarse / fine == pytest.approx(2.0**integrator.order, rel=0.05)


@pytest.mark.parametrize("integrator", **BY_NAME)
def test_stages_end_with_the_step(integrator):
    last = integrator.stages[-2 if integrator.carries else -1]  # the last one that moves positions
    assert last.time == pytest.approx(1.0)
    assert integrator.stage_times[0] == 0.0
    assert len(integrator.stage_times) == integrator.evaluations + integrator.carries


@pytest.mark.parametrize(
    "stages",
    [
        (Stage((1.0,), ()),),
        (Stage((1.0, 0.0), (1.0, 0.0)),),
        explicit_runge_kutta((0.5,), (1.0,)),
    ],
    ids=["no velocity weight", "weight of a later stage", "missing weight"],
)
def test_stages_need_one_weight_per_stage_so_far(stages):
    before = list(Integrator.kinds)
    with pytest.raises(TypeError, match=r"Wrong\.stages\[\d\] needs \d weights of each kind"):
        type("Wrong", (Integrator,), {"stages": stages, "order": 1})
    assert Integrator.kinds == before


@pytest.mark.parametrize("frequency", [0.5, 10.0])
def test_stable_dt_of_undamped_oscillators(frequency):
    """Symplectic Euler and Verlet have limits of 2, Runge-Kutta sqrt(8); the midpoint rule is limited by its growth."""
    limits = [frequency * integrator.stable_dt(frequency, 0.0) for integrator in INTEGRATORS]
    assert limits[0] == pytest.approx(2.0)
    assert limits[1] == pytest.approx((8.0 * TOLERATED_GROWTH) ** 0.25, rel=1e-3)
    assert limits[2] == pytest.approx(8.0**0.5, rel=1e-3)
    assert limits[3] == pytest.approx(2.0)


@pytest.mark.parametrize(("ratio", "limit"), [(0.0, 2.0), (0.1, 1.640), (0.5, 0.828), (2.0, 0.2462)])
def test_stable_dt_of_verlet_is_that_of_its_stages(ratio, limit):
    frequency = 7.0
    closed = gs.Verlet().stable_dt(frequency, 2.0 * ratio * frequency)
    assert frequency * closed == pytest.approx(limit, rel=1e-3)
    assert Integrator.stable_dt(gs.Verlet(), frequency, 2.0 * ratio * frequency) == pytest.approx(closed, rel=2e-3)


def test_only_kick_and_drift_can_carry_their_force():
    with pytest.raises(TypeError, match=r"Wrong\.stages must be a kick with a drift"):
        type("Wrong", (Integrator,), {"stages": gs.Midpoint.stages, "order": 2, "carries": True})


@pytest.mark.parametrize("integrator", **BY_NAME)
def test_amplitudes_stay_bounded_up_to_the_stable_dt(integrator):
    amplitudes = []
    for factor in (0.98, 1.5):
        dt, x, v, largest = factor * integrator.stable_dt(10.0, 0.0), 1.0, 0.0, 0.0
        for _ in range(2000):
            x, v = one_step(integrator, 10.0, dt, x, v)
            largest = max(largest, abs(x))
            if largest > 1e6:
                break
        amplitudes.append(largest)
    assert amplitudes[0] < 20.0
    assert amplitudes[1] > 1e3


def one_step(integrator, frequency, dt, x0, v0):
    """Position and velocity of an undamped oscillator after a step, straight from the definition of the stages."""
    x, v, accelerations, velocities = x0, v0, [], []
    for stage in integrator.stages:
        accelerations.append(-(frequency**2) * x)
        velocities.append(v)
        v = v0 + dt * np.dot(stage.acceleration, accelerations)
        if stage.holds_position:
            continue
        x = x0 + dt * (np.dot(stage.velocity, velocities) + stage.new_velocity * v)
    return x, v


@pytest.mark.parametrize(("frequency", "damping"), [(10.0, 0.0), (10.0, 5.0), (10.0, 21.0), (0.0, 3.0), (7.0, 14.0)])
def test_midpoint_grows_by_the_tolerated_rate_at_its_stable_dt(frequency, damping):
    most = 8.0 / (damping + np.hypot(damping, 2.0 * frequency))
    rates = np.array([[0.0, 1.0], [-(frequency**2), -damping]])

    def growth(dt):
        return np.abs(np.linalg.eigvals(np.eye(2) + dt * rates + 0.5 * dt**2 * rates @ rates)).max() - 1.0

    dt = gs.Midpoint().stable_dt(frequency, damping)
    assert 0.0 < dt <= most
    assert growth(0.999 * dt) < TOLERATED_GROWTH
    if dt < most * (1.0 - 1e-9):
        assert growth(dt) == pytest.approx(TOLERATED_GROWTH, rel=1e-6)


@pytest.mark.parametrize("integrator", **BY_NAME)
def test_no_force_has_no_stability_limit(integrator):
    assert integrator.stable_dt(0.0, 0.0) == np.inf


@pytest.mark.parametrize("integrator", **BY_NAME)
def test_scene_files_keep_the_integrator(integrator, tmp_path):
    time = gs.Time(frames=7, fps=24.0, substeps=3, integrator=integrator)
    orbit(1.0).save(tmp_path / "orbit.yaml", time=time)
    assert gs.load_scene_file(tmp_path / "orbit.yaml").time == time

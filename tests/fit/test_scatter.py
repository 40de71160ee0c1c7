"""Unknowns that vary between trials: mean and scatter."""

import math

import pytest
import torch
from tests.fit.observations.scenes import motion, noise, pushed_cube

import gradsim as gs
from gradsim.fit.parameters import Parameters
from gradsim.fit.scatter import random_effects, student_95, trial_scatter


def draws(count: int, groups: int, spread: float, own: torch.Tensor) -> torch.Tensor:
    """Estimates [count, groups] about 5 with a scatter between groups and errors of their own."""
    generator = torch.Generator().manual_seed(3)
    between, within = (torch.randn(count, groups, generator=generator, dtype=torch.float64) for _ in range(2))
    return 5.0 + spread * between + own * within


@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0])
def test_random_effects_recover_mean_and_scatter(spread):
    own = torch.linspace(0.1, 0.6, 12, dtype=torch.float64)
    found = [random_effects(values, own**2) for values in draws(300, 12, spread, own)]
    mean, mean_sd, sd = (torch.stack(column) for column in zip(*found, strict=True))
    assert float(mean.mean()) == pytest.approx(5.0, abs=4 * float(mean.std()) / 17)
    assert float((sd**2).mean()) == pytest.approx(spread**2, rel=0.15, abs=0.02)
    inside = (mean - 5.0).abs() < student_95(11) * mean_sd
    assert 0.9 <= float(inside.double().mean()) <= 0.99


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_intervals_of_few_trials_are_wide_enough(groups):
    own = torch.full((groups,), 0.1, dtype=torch.float64)
    found = [random_effects(values, own**2) for values in draws(300, groups, 1.0, own)]
    inside = [abs(float(mean) - 5.0) < student_95(groups - 1) * float(sd) for mean, sd, _ in found]
    assert 0.91 <= sum(inside) / 300 <= 0.99


@pytest.mark.parametrize(("freedom", "value"), [(1, 12.706), (2, 4.303), (4, 2.776), (7, 2.365), (30, 2.042)])
def test_quantiles_of_students_distribution(freedom, value):
    assert student_95(freedom) == pytest.approx(value, rel=0.004)


def varying(guess) -> gs.unknown:
    return gs.unknown(guess, varies=True)


def test_components_and_different_guesses():
    """The guesses scale linear coordinates differently; the scatter is that of the values."""
    guesses = [(0.5, 1.0, 2.0), (5.0, 0.1, 0.1), (1.0, 1.0, 1.0), (2.0, 4.0, 0.3)]
    parameters = Parameters([pushed_cube(velocity=varying(guess)) for guess in guesses])
    values = {f"cube.velocity@{k}": torch.tensor([1.0 + k, 3.0, -2.0 * k]).double() for k in range(4)}
    z = parameters.coordinates(values)
    found = trial_scatter(parameters, z, torch.full_like(z, 1e-9))
    assert list(found) == [f"cube.velocity[{k}]" for k in range(3)]
    assert found["cube.velocity[0]"].mean == pytest.approx(2.5)
    assert found["cube.velocity[0]"].sd == pytest.approx(math.sqrt(5 / 3))
    assert found["cube.velocity[1]"].sd == pytest.approx(0.0, abs=1e-6)
    assert found["cube.velocity[2]"].mean == pytest.approx(-3.0)
    assert found["cube.velocity[0]"].unit == "m/s"
    low, high = found["cube.velocity[0]"].mean_low, found["cube.velocity[0]"].mean_high
    assert high - low == pytest.approx(2 * student_95(3) * math.sqrt(5 / 3) / 2)


def test_one_trial_and_shared_unknowns_have_no_scatter():
    shared = Parameters([pushed_cube(mass=gs.unknown(3.0, low=1.0, high=9.0))] * 3)
    assert trial_scatter(shared, shared.initial(), torch.ones(1)) == {}
    single = Parameters([pushed_cube(velocity=varying((1.0, 1.0, 1.0)))])
    assert trial_scatter(single, single.initial(), torch.ones(3)) == {}


def test_mean_and_scatter_of_masses_are_estimated():
    generator = torch.Generator().manual_seed(1)
    masses = (4.0 * torch.exp(0.15 * torch.randn(8, generator=generator, dtype=torch.float64))).tolist()
    trials = []
    for k, mass in enumerate(masses):
        truth = pushed_cube(mass=mass)
        positions = motion(truth)["cube"].vertices
        scene = pushed_cube(mass=gs.unknown(3.0, low=1.0, high=20.0, varies=True))
        observed = gs.Tracks({"cube": range(8)}, positions=positions + noise(positions.shape, 0.002, k), noise=0.002)
        trials.append(gs.Trial(scene, observed, fps=10.0))
    fit = gs.estimate(trials)
    scatter = fit.scatter["cube.mass"]
    exact = torch.tensor(masses).log()
    assert fit.status == "converged", fit.advice
    assert scatter.mean == pytest.approx(float(exact.mean().exp()), rel=0.01)
    assert scatter.sd / scatter.mean == pytest.approx(float(exact.std()), rel=0.15)
    assert scatter.mean_low < 4.0 < scatter.mean_high
    for k, mass in enumerate(masses):
        assert float(fit.values[f"cube.mass@{k}"]) == pytest.approx(mass, rel=0.03)
    assert "varies between trials" in str(fit)

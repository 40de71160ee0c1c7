"""Many trials: batches, subsets, structured Jacobians, outliers, and the scatter between groups."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import gradsim as gs
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.misfit import outlying_trials
from gradsim.fit.parameters import Parameters, representative_trials
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.residuals import forward_jacobian, jacobian
from gradsim.fit.student import student_95
from gradsim.fit.subsamples import group_scatter
from gradsim.fit.trials import make_trial_model
from gradsim.scene.integrators import Midpoint
from gradsim.scene.rotation import rotate

FPS, FRAMES = 60.0, 12


def slide(mu, velocity=(1.0, 0.0, 0.0), inertia=None, center=None):
    """A flat box that slides on the ground."""
    shape = gs.meshes.box((0.2, 0.05, 0.2))
    body = gs.Rigid(
        "box", shape, mass=1.0, position=(0, 0.0248, 0), velocity=velocity, inertia=inertia, center=center, look=None
    )
    return gs.Scene([body], ground=gs.Ground(ke=2e3, kd=20.0, kf=50.0, mu=mu))


def problem_of(count, *, start=False, frictions=None):
    """Trials with friction shared, and with `start` a velocity of each trial's own."""
    models, times = [], []
    for k in range(count):
        mu = 0.3 if frictions is None else frictions[k]
        speed = 0.6 + 0.1 * k
        true = gs.simulate(slide(mu, (speed, 0.0, 0.1)), frames=FRAMES, fps=FPS, substeps=64)["box"].position
        first = gs.unknown(speed, low=0.1, high=9.0, per_trial=True) if start else speed
        scene = slide(gs.unknown(0.4, low=0.05, high=1.0), (first, 0.0, 0.1))
        trial = gs.Trial(scene, gs.States({"box.position": true}), fps=FPS, name=f"t{k}")
        models.append(make_trial_model(trial, name=f"t{k}", substeps=32, integrator=Midpoint()))
        times.append(trial.time_unknowns)
    names = [model.name for model in models]
    parameters = Parameters([model.scene for model in models], time_unknowns=times, trial_names=names)
    return EstimationProblem(parameters, tuple(models))


def test_trials_with_unknown_components_run_as_one_batch_with_their_own_known_components():
    problem = problem_of(3, start=True)
    assert [len(group.trials) for group in problem.groups] == [3]
    z = problem.parameters.initial()[None]
    together = problem.residual()(z)
    values = problem.parameters.values(z)
    alone = []
    for k, trial in enumerate(problem.trials):
        own = problem.parameters.model_values(values, k)
        scene = trial.fill(own)
        difference = trial.difference(scene, trial.simulate_grid(scene), own, 0, 0)
        alone.append((difference * problem.unit_scale(0) / problem.noise[k, 0].floored).flatten(-2))
    torch.testing.assert_close(together, torch.cat(alone, -1), rtol=1e-9, atol=1e-12)


def test_known_components_beside_unknown_ones_differ_between_trials():
    scenes = [slide(0.3, (gs.unknown(1.0, low=0.1, high=3.0), 0.0, side)) for side in (0.1, 0.7)]
    states = gs.States({"box.position": torch.zeros(4, 3)})
    models = tuple(
        make_trial_model(gs.Trial(scene, states, fps=FPS), name=str(k), substeps=32, integrator=Midpoint())
        for k, scene in enumerate(scenes)
    )
    problem = EstimationProblem(Parameters([model.scene for model in models]), models)
    (group,) = problem.groups
    values = {"box.velocity[0]": torch.ones(1, dtype=torch.float64)}
    velocities = [motion["box"].velocity[0, 0, 2] for _, motion in group.simulate([values] * 2, 2)]
    torch.testing.assert_close(torch.stack(velocities), torch.tensor([0.1, 0.7], dtype=torch.float64))


def test_tied_entries_of_a_matrix_are_filled_in_a_batch():
    moment = gs.unknown(0.004, low=1e-3, high=1e-2)
    inertia = ((moment, 0.0, 0.0), (0.0, moment, 0.0), (0.0, 0.0, moment))
    states = gs.States({"box.position": torch.zeros(4, 3)})
    models = tuple(
        make_trial_model(
            gs.Trial(slide(0.3, (v, 0, 0), inertia), states, fps=FPS), name=str(v), substeps=32, integrator=Midpoint()
        )
        for v in (0.5, 1.0)
    )
    problem = EstimationProblem(Parameters([model.scene for model in models]), models)
    assert [len(group.trials) for group in problem.groups] == [2]


def test_structured_jacobian_equals_the_dense_one():
    problem = problem_of(3, start=True)
    z, residual, structure = problem.parameters.initial()[None], problem.residual(), problem.structure()
    dense = jacobian(residual, z, 64)
    torch.testing.assert_close(jacobian(residual, z, 64, structure=structure), dense, rtol=1e-4, atol=1e-6)
    steps = torch.full_like(z, 1e-6)
    forward, known = forward_jacobian(residual, z, residual(z), steps, 64, problem.parameters.bounds(), structure)
    assert bool(known.all())
    torch.testing.assert_close(forward, dense, rtol=1e-3, atol=1e-4 * float(dense.abs().max()))


def test_subsets_keep_shared_and_own_unknowns():
    problem = problem_of(4, start=True)
    part = problem.subset([1, 3])
    assert part.parameters.names == ["ground.mu", "box.velocity[0]@t1", "box.velocity[0]@t3"]
    assert part.parameters.coordinate_trials == [None, 0, 1]
    z = problem.parameters.initial()
    own = part.parameters.merged(part.parameters.initial(), problem.parameters, z)
    back = problem.parameters.merged(z + 1.0, part.parameters, own)
    changed = [name for name, same in zip(problem.parameters.names, back == z, strict=True) if not same]
    assert changed == ["box.velocity[0]@t0", "box.velocity[0]@t2"]
    assert representative_trials(problem.parameters) == [0, 1, 2, 3]
    rows = problem.residual()(z[None]).view(4, -1)
    torch.testing.assert_close(part.residual()(own[None]).view(2, -1), rows[[1, 3]], rtol=1e-9, atol=1e-12)


def test_scatter_between_groups_follows_the_scatter_of_the_truth():
    frictions = [0.3 * math.exp(0.2 * math.sin(2.4 * k)) for k in range(20)]
    scattered, equal = problem_of(20, frictions=frictions), problem_of(20)
    deviations = []
    for problem in (scattered, equal):
        z = problem.parameters.coordinates({"ground.mu": torch.tensor(0.3, dtype=torch.float64)})
        covariance = group_scatter(problem, z, GaussNewton(), lambda *step: None)
        deviations.append(float(covariance[0, 0]) ** 0.5)
    assert deviations[1] < 0.1 * deviations[0]
    assert 0.005 < deviations[0] < 0.3
    assert group_scatter(problem_of(3), z, GaussNewton(), lambda *step: None) is None


def test_outliers_are_the_trials_far_above_the_median():
    def block(k, size):
        return SimpleNamespace(key=(k, 0), difference=torch.full((5, 3), size), weights=None, sigma=torch.tensor(1.0))

    sizes = [1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 20.0]
    problem = SimpleNamespace(trials=[SimpleNamespace(name=f"t{k}") for k in range(7)])
    found = outlying_trials(problem, SimpleNamespace(blocks=[block(k, size) for k, size in enumerate(sizes)]))
    assert found == {"t6": pytest.approx(20.0)}
    few = SimpleNamespace(blocks=[block(k, size) for k, size in enumerate(sizes[-3:])])
    assert outlying_trials(problem, few) == {}


def test_student_factors_widen_for_few_groups():
    table = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 6: 2.4469, 10: 2.2281, 30: 2.0423}
    assert {k: student_95(k) for k in table} == pytest.approx(table, rel=5e-4)
    assert student_95(1) > student_95(4) > student_95(13) > student_95(1000) >= 1.96


def test_velocity_of_a_point_other_than_the_centre_of_mass():
    """Its velocity is that of the centre plus the spin times the arm, after an initial rotation."""
    turn = (0.0, 0.0, math.sin(0.4), math.cos(0.4))
    body = gs.Rigid(
        "box",
        gs.meshes.box(0.2),
        mass=1.0,
        center=(0.05, 0.0, 0.02),
        rotation=turn,
        velocity=(0.3, 0.2, 0.1),
        angular_velocity=(1.0, 2.0, 3.0),
        velocity_point=(0.0, 0.1, 0.0),
    )
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0))
    points = gs.simulate(scene, frames=3, fps=1e4, substeps=4)["box"]
    position, rotation = points.position, points.rotation
    tracked = position + rotate(rotation, torch.tensor([0.0, 0.1, 0.0], dtype=torch.float64))
    speed = (-3 * tracked[0] + 4 * tracked[1] - tracked[2]) * 0.5e4
    torch.testing.assert_close(speed, torch.tensor([0.3, 0.2, 0.1], dtype=torch.float64), rtol=1e-6, atol=1e-6)
    centre = gs.simulate(gs.Scene([replace(body, velocity_point=None)], gravity=(0, 0, 0)), frames=1, fps=1.0)["box"]
    torch.testing.assert_close(centre.velocity[0], torch.tensor([0.3, 0.2, 0.1], dtype=torch.float64))

"""Trials that are simulated together give the same residuals as one by one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.fit.observations.scenes import SIDE_CAMERA, motion, pushed_cube

import gradsim as gs
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.trials import make_trial_model


def problem_of(trials: list[gs.Trial], substeps: int = 8) -> EstimationProblem:
    models = tuple(
        make_trial_model(trial, name=str(k), substeps=substeps, integrator=gs.Midpoint())
        for k, trial in enumerate(trials)
    )
    times = [trial.time_unknowns for trial in trials]
    return EstimationProblem(Parameters([model.scene for model in models], times), models)


def points_of(problem: EstimationProblem, count: int = 3) -> torch.Tensor:
    """Coordinates [count, P] around the guess."""
    z = problem.parameters.initial()
    return z + 0.05 * torch.randn(count, len(z), generator=torch.Generator().manual_seed(0), dtype=z.dtype)


def separate_residuals(problem: EstimationProblem, z: torch.Tensor, level: int, frames: int) -> torch.Tensor:
    """The same residuals from one simulation per trial and point."""
    rows = []
    for point in z:
        values = problem.parameters.values(point[None])
        parts = []
        for k, trial in enumerate(problem.trials):
            own = problem.parameters.model_values(values, k)
            scene = trial.fill(own)
            trajectory = trial.simulate_grid(scene, frames)
            for number in range(len(trial.observations)):
                residual = trial.residual(scene, trajectory, own, number, level, frames)
                parts.append((residual * problem.unit_scale(level) / problem._sigma((k, number), level)).flatten())
        rows.append(torch.cat(parts))
    return torch.stack(rows)


def check_equal(problem: EstimationProblem, *, groups: int, frames: int | None = None) -> None:
    assert len(problem.groups) == groups
    z = points_of(problem)
    for level in range(problem.levels):
        together = problem.residual(level, frames)(z)
        separate = separate_residuals(problem, z, level, frames or problem.frames)
        assert together.shape == separate.shape
        assert torch.allclose(together, separate, rtol=1e-9, atol=1e-12 * float(separate.abs().max()))


def positions(scene: gs.Scene, frames: int, **options) -> gs.Tracks:
    trajectory = motion(scene, frames)
    return gs.Tracks({"cube": [0, 3, 6]}, positions=trajectory["cube"].vertices[:, [0, 3, 6]], **options)


MASS = gs.unknown(3.0, low=1.0, high=9.0)


def start(k: int) -> gs.unknown:
    return gs.unknown((-0.9 + 0.1 * k, -0.3, 0.0), per_trial=True)


def test_different_lengths_and_known_values():
    trials = []
    for k, frames in enumerate((6, 9, 10)):
        scene = pushed_cube(mass=MASS, velocity=(1.0 + k, 0.5, 0.0), position=start(k))
        trials.append(gs.Trial(scene, positions(pushed_cube(velocity=(1.0 + k, 0.5, 0.0)), frames), fps=10.0))
    problem = problem_of(trials)
    check_equal(problem, groups=1)
    check_equal(problem, groups=1, frames=7)
    assert problem.residual()(points_of(problem)).shape == (3, (6 + 9 + 10) * 9)


def test_very_different_lengths_are_separate_groups():
    trials = [gs.Trial(pushed_cube(mass=MASS), positions(pushed_cube(), frames), fps=10.0) for frames in (3, 10)]
    check_equal(problem_of(trials), groups=2)


def test_other_frame_rates_are_separate_groups():
    trials = [gs.Trial(pushed_cube(mass=MASS), positions(pushed_cube(), 6), fps=fps) for fps in (10.0, 12.0)]
    check_equal(problem_of(trials), groups=2)


def test_other_meshes_are_separate_groups():
    other = pushed_cube(mass=MASS)
    other = replace(other, bodies=[replace(other["cube"], mesh=gs.meshes.box(0.5))])
    trials = [gs.Trial(scene, positions(pushed_cube(), 5), fps=10.0) for scene in (pushed_cube(mass=MASS), other)]
    check_equal(problem_of(trials), groups=2)


def test_videos_from_different_cameras_with_an_unknown_camera():
    eyes = [(0.0, 0.0, 5.0), (0.5, 0.3, 5.0)]
    trials = []
    for k, eye in enumerate(eyes):
        fov = gs.unknown(40.0, low=30.0, high=50.0)
        scene = pushed_cube(mass=MASS, camera=gs.Camera(eye=eye, target=(0.0, 0.0, 0.0), fov=fov), position=start(k))
        truth = pushed_cube(camera=gs.Camera(eye=eye, target=(0.0, 0.0, 0.0), fov=40.0))
        trials.append(gs.Trial(scene, gs.render(truth, motion(truth, 5 + k), (32, 32)), fps=10.0))
    check_equal(problem_of(trials), groups=1)


def test_unknowns_of_the_view_and_of_visible_shapes():
    """Images depend on these beyond the motion of the cube."""
    color, height = gs.unknown((0.5, 0.5, 0.5), low=0.0, high=1.0), gs.unknown(-1.2, low=-2.0, high=-1.0)

    def view(own_mass, own_color, own_height):
        scene = pushed_cube(mass=own_mass)
        body = replace(scene["cube"], look=gs.Look(color=own_color))
        ground = gs.Ground(offset=own_height, look=gs.Checker())
        return replace(scene, bodies=[body], ground=ground)

    truth = view(3.7, (0.8, 0.3, 0.2), -1.3)
    video = gs.render(truth, motion(truth, 4), (32, 32))
    trials = [gs.Trial(view(MASS, color, height), video[: 3 + k], fps=10.0) for k in range(2)]
    problem = problem_of(trials, substeps=32)
    check_equal(problem, groups=1)
    assert problem.trials[0].fill_view(problem.parameters.values(problem.parameters.initial())).unknowns.keys() == {
        "cube.mass"
    }
    only_mass = make_trial_model(
        gs.Trial(pushed_cube(mass=MASS), video, fps=10.0), name="0", substeps=8, integrator=gs.Midpoint()
    )
    assert only_mass.fill_view({}) is only_mass.scene


def test_several_observations_with_offsets_and_cameras():
    trials = []
    for k in range(2):
        truth = pushed_cube()
        trajectory = motion(truth, 6)
        observations = [
            gs.Masks(gs.render(truth, trajectory, (32, 32), alpha=True)[..., 3], camera=SIDE_CAMERA, offset=0.02),
            gs.Tracks(
                {"cube": [1]}, positions=trajectory["cube"].vertices[:, [1]], offset=gs.unknown(0.0, -0.05, 0.08)
            ),
            gs.States({"cube.rotation": trajectory["cube"].rotation}),
        ]
        scene = pushed_cube(mass=MASS, position=start(k))
        trials.append(gs.Trial(scene, observations, fps=10.0, exposure=0.03, offset=0.01 * k))
    check_equal(problem_of(trials), groups=1)


def test_a_known_value_beside_one_tied_to_an_unknown():
    """The same unknown in two places of one trial, one of which is known in the other trial."""
    own = gs.unknown(0.8, low=0.1, high=3.0)
    tied = pushed_cube(velocity=(own, own, 0.0))
    free = pushed_cube(velocity=(gs.unknown(0.8, low=0.1, high=3.0), 2.0, 0.0))
    trials = [gs.Trial(scene, positions(pushed_cube(), 5), fps=10.0) for scene in (tied, free)]
    check_equal(problem_of(trials), groups=2)


def test_one_object_in_several_places_of_all_trials():
    own = gs.unknown(0.8, low=0.1, high=3.0)
    trials = [
        gs.Trial(pushed_cube(velocity=(own, own, 0.1 * k)), positions(pushed_cube(), 5 + k), fps=10.0) for k in range(3)
    ]
    problem = problem_of(trials)
    assert problem.parameters.count == 1
    check_equal(problem, groups=1)


def pendulum(length, angle) -> gs.Scene:
    return gs.Scene([gs.Pendulum("bob", length=length, angle=angle)])


@pytest.mark.parametrize("angle", [0.4, gs.unknown(0.5, low=0.1, high=1.0, per_trial=True)])
def test_pendula(angle):
    trials = []
    for k in range(3):
        swing = gs.simulate(pendulum(1.0, 0.4), frames=5 + k, fps=20, substeps=16)
        scene = pendulum(gs.unknown(1.2, low=0.5, high=2.0), angle)
        trials.append(
            gs.Trial(scene, gs.States({"bob.angle": swing["bob"].angle, "bob.bobs": swing["bob"].bobs}), fps=20.0)
        )
    check_equal(problem_of(trials), groups=1)


def test_soft_bodies():
    nodes = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    mesh = gs.TetMesh(nodes, np.array([[0, 1, 2, 3]]))

    def falling(mu, height):
        body = gs.Soft("tet", mesh, density=100.0, material=gs.NeoHookean(mu=mu, lam=1e3), position=(0.0, height, 0.0))
        return gs.Scene([body], ground=gs.Ground())

    trials = []
    for k in range(2):
        fall = gs.simulate(falling(1e3, 0.1 + 0.1 * k), frames=6, fps=20, substeps=32)
        scene = falling(gs.unknown(800.0, low=100.0, high=5e3), 0.1 + 0.1 * k)
        trials.append(gs.Trial(scene, gs.States({"tet.vertices": fall["tet"].vertices}), fps=20.0))
    check_equal(problem_of(trials), groups=1)


def test_smoke():
    """Velocities of smoke have one dimension more than those of nodes."""
    density = torch.zeros(8, 12, dtype=torch.float64)
    density[2:5, 3:8] = 1.0

    def plume(buoyancy, viscosity):
        return gs.Scene([gs.Smoke("smoke", (8, 12), density=density, buoyancy=buoyancy, viscosity=viscosity)])

    trials = []
    for k in range(2):
        flow = gs.simulate(plume(1.0, 0.01 * k), frames=3, fps=10, substeps=2)["smoke"]
        scene = plume(gs.unknown(0.8, low=0.1, high=3.0), 0.01 * k)
        trials.append(
            gs.Trial(
                scene, gs.States({"smoke.densities": flow.densities, "smoke.velocities": flow.velocities}), fps=10.0
            )
        )
    check_equal(problem_of(trials), groups=1)


def test_irregular_times_of_several_trials():
    times = [torch.tensor([0.0, 0.1, 0.23, 0.4]), torch.tensor([0.05, 0.12, 0.3, 0.35])]
    trials = []
    for k, own in enumerate(times):
        sampled = motion(pushed_cube(), 50, 100.0).sample(own.double())
        observed = gs.States({"cube.position": sampled["cube"].position})
        trials.append(gs.Trial(pushed_cube(mass=MASS, position=start(k)), observed, times=own))
    check_equal(problem_of(trials), groups=2)


@pytest.mark.parametrize("moving", [False, True])
def test_worlds_that_move_in_the_same_way_are_simulated_once(monkeypatch, moving):
    cube = gs.Rigid("cube", gs.meshes.box(0.4), mass=1.0, position=(0.0, 0.5, 0.0), velocity=(1.0, 0.0, 0.0))
    camera = gs.Camera(eye=(gs.unknown(0.2, low=-1.0, high=1.0), 1.0, 3.0), target=(0.0, 0.2, 0.0), fov=40.0)
    ground = gs.Ground(mu=gs.unknown(0.4, low=0.1, high=1.0), look=gs.Checker())
    scene = gs.Scene([cube], ground=ground, camera=camera)
    video = torch.rand(4, 16, 16, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    problem = problem_of([gs.Trial(scene, video, fps=10.0)], substeps=128)
    z = problem.parameters.initial().repeat(5, 1)
    paths = [unknown.path for unknown in problem.parameters.unknowns]
    z[:, paths.index("camera.eye[0]")] += torch.linspace(0.0, 0.1, 5, dtype=z.dtype)
    if moving:
        z[3:, paths.index("ground.mu")] += 0.1
    batches = []
    simulate = gs.fit.trial_model.simulate_over
    monkeypatch.setattr(
        gs.fit.trial_model,
        "simulate_over",
        lambda filled, time: batches.append(len(filled.ground.mu)) or simulate(filled, time),
    )
    together = problem.residual(0)(z)
    assert batches == [2 if moving else 1]
    assert torch.allclose(together, separate_residuals(problem, z, 0, 4), rtol=1e-9, atol=1e-12)

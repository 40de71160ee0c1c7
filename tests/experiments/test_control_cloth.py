"""The thrown cloth: what is declared, and a coarse sheet that goes where it shall."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gradsim.experiments.control import cloth
from gradsim.experiments.control.task import Method
from gradsim.fit.goals import GoalImage
from gradsim.scene.integrators import SymplecticEuler
from gradsim.simulate.stability import stable_dt

SEEDS = (*cloth.SEEDS, *cloth.HELD_OUT)


def coarse(monkeypatch, cells=6):
    monkeypatch.setattr(cloth, "FEWEST", cells)
    monkeypatch.setattr(cloth, "MOST", cells)


def test_draws_lie_within_the_papers_ranges_and_differ():
    draws = [cloth.draw(seed) for seed in SEEDS]
    for d in draws:
        assert 64 <= len(cloth.mesh(d.cells).faces) <= 2048
        assert 0.0 <= d.x <= 3.0
    assert len({d.x for d in draws}) == len(SEEDS)
    assert [len(cloth.mesh(n).faces) for n in (cloth.FEWEST, cloth.MOST)] == [72, 2048]


def test_time_and_step_are_the_papers():
    assert (cloth.FRAMES - 1) * cloth.SUBSTEPS == 1440
    assert pytest.approx(960.0) == cloth.FPS * cloth.SUBSTEPS
    scene = cloth.scene(8, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    assert stable_dt(scene, SymplecticEuler()) > 1 / 960


@pytest.mark.parametrize("make", [cloth.hidden, cloth.posed])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_goal_is_seen_whole(make, seed):
    goal = make(seed).goals[Method.IMAGE][0]
    assert isinstance(goal, GoalImage)
    alpha = goal.images[0, ..., -1]
    assert float(alpha.sum()) > 20.0  # pixels
    rim = torch.cat([alpha[0], alpha[-1], alpha[:, 0], alpha[:, -1]])
    assert float(rim.abs().max()) == 0.0


def test_a_coarse_sheet_shows_its_velocity(monkeypatch):
    coarse(monkeypatch)
    plan = cloth.hidden(0).run()
    truth = np.array(cloth.draw(0).velocity)
    found = plan.last.values["cloth.velocity"].numpy()
    assert np.linalg.norm(found - truth) < 1e-9 * np.linalg.norm(truth)
    assert plan.status == "converged"
    assert plan.history[0].metric > 1.0


def test_a_coarse_sheet_comes_to_the_place_of_a_pose_it_cannot_take(monkeypatch):
    coarse(monkeypatch)
    task = cloth.posed(1)
    plan = task.run()
    assert plan.last.metric < 0.002
    assert plan.loss > 1e-5  # the pictures differ
    assert abs(float(plan.last.values["cloth.velocity"][2])) < 1e-3


def test_positions_dense_in_time_are_a_poor_goal_and_those_of_the_end_a_good_one(monkeypatch):
    coarse(monkeypatch)
    task = cloth.posed(1)
    (dense,) = task.goals[Method.STATE]
    assert list(dense.frames) == list(range(cloth.FRAMES))
    end = replace(task, goals={Method.STATE: [replace(dense, frames=(-1,))]})
    assert task.run(Method.STATE).last.metric > 1.0
    assert end.run(Method.STATE).last.metric < 0.001


def test_random_draws_do_not_get_there(monkeypatch):
    coarse(monkeypatch)
    plan = cloth.posed(1).run(Method.RANDOM)
    assert len(plan.history) == cloth.ITERATIONS
    assert min(iterate.metric for iterate in plan.history) > 0.05

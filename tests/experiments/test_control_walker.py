"""The walker: its mesh, its plane, and an update towards a picture."""

import warnings

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.experiments.control import walker
from gradsim.experiments.control.task import Method


@pytest.fixture(scope="module")
def mesh():
    return walker.sheet()


def test_the_sheet_is_that_of_the_paper_in_size(mesh):
    assert (len(mesh.vertices), len(mesh.faces)) == (75, 104)
    assert set(np.unique(mesh.faces)) == set(range(75))
    assert float(mesh.vertices[:, 1].min()) == 0.0


def test_the_sheet_is_the_same_in_a_mirror(mesh):
    mirrored = mesh.vertices * [-1.0, 1.0, 1.0]
    partner = np.linalg.norm(mesh.vertices[:, None] - mirrored, axis=-1).argmin(1)
    assert np.allclose(mesh.vertices, mirrored[partner])
    assert {frozenset(face) for face in partner[mesh.faces]} == {frozenset(face) for face in mesh.faces}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_motion_stays_in_the_plane_exactly(dtype):
    moved = _walked(walker.policy(0).to(dtype), dtype)
    assert float(moved[..., 2].abs().max()) == 0.0
    assert float((moved[-1] - moved[0]).abs().max()) > 0.1


def test_a_gait_seen_in_a_mirror_walks_the_other_way(mesh):
    """Mirror images take each other's weights: the mirrored motion, to rounding."""
    centers = mesh.vertices[mesh.faces].mean(1)
    partner = np.linalg.norm(centers[:, None] - centers * [-1.0, 1.0, 1.0], axis=-1).argmin(1)
    there, back = walker.policy(0), walker.policy(0)
    with torch.no_grad():
        back.weight.copy_(there.weight[partner])
    a, b = (_walked(policy, torch.float64).mean(1)[:, 0] for policy in (there, back))
    torch.testing.assert_close(a, -b, rtol=0.0, atol=1e-9)


def test_goals_are_a_real_walk():
    asked = [float(walker.task(seed).about.split()[2]) for seed in (*walker.SEEDS, *walker.HELD_OUT)]
    assert all(walker.NEAREST <= x <= walker.FARTHEST for x in asked)
    assert len(set(asked)) == len(asked)


def test_an_update_brings_the_walker_nearer(monkeypatch):
    monkeypatch.setattr(walker, "FRAMES", 121)  # 2 s
    monkeypatch.setattr(walker, "NEAREST", 0.3)
    monkeypatch.setattr(walker, "FARTHEST", 0.4)
    monkeypatch.setattr(walker, "ITERATIONS", 1)
    plan = walker.task(0).run(Method.IMAGE)
    first, last = (iterate.metric for iterate in plan.history)
    assert first > 1.0  # it starts on the spot, or backwards
    assert last < 0.5 * first
    assert plan.last.number == 1


def _walked(policy: gs.Sinusoids, dtype: torch.dtype) -> torch.Tensor:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        time = {"frames": 61, "fps": 60.0, "substeps": 16, "integrator": gs.SymplecticEuler()}
        moved = gs.rollout(walker.scene(), {"walker.actuation": policy}, **time, dtype=dtype)
    return moved["walker"].vertices

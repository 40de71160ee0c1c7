"""Sticking friction between moving rigid bodies: parameters, state and memory; `check/physics/stacks.py` has stacks."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.check.gradient_problems.sticking import STICKING_BODIES, STICKING_PAIR
from gradsim.scene.pairs import combined
from gradsim.simulate.compile.topology import topology_of
from gradsim.simulate.state import anchors

LAW = {"ke": 2e4, "kd": 60.0, "mu": 0.5, "delta": 2e-4}
TIME = {"fps": 20.0, "substeps": 100}


def pile(friction=None, count=2):
    """Returns cubes on each other, on a slope of 20 degrees."""
    contact = gs.Contact(**LAW, friction=friction or gs.Sticking())
    cubes = [
        gs.Rigid(f"cube{k}", gs.meshes.box(0.2), mass=1.0, position=(0.0, 0.0994 + 0.1994 * k, 0.0), contact=contact)
        for k in range(count)
    ]
    ground = gs.Ground(ke=5e3, kd=20.0, mu=2.0, friction=gs.Sticking())
    return gs.Scene(cubes, ground, gravity=(9.81 * np.sin(0.349), -9.81 * np.cos(0.349), 0.0))


def test_sticking_takes_precedence_and_its_numbers_are_means():
    first = gs.Contact(friction=gs.Sticking(stiffness=0.2, damping=0.1))
    second = gs.Contact(friction=gs.Sticking(stiffness=0.4, damping=0.3))
    both = combined(first, second)
    assert (both.friction.stiffness, both.friction.damping) == pytest.approx((0.3, 0.2))
    assert combined(first, gs.Contact(kf=30.0)).friction == first.friction
    assert combined(gs.Contact(kf=30.0), first).kf is None
    assert float(combined(gs.Contact(kf=30.0), gs.Contact(kf=10.0)).kf) == 20.0


def test_only_pairs_that_stick_have_anchors():
    contact, bodies = gs.Contact(friction=gs.Sticking()), []
    for k in range(3):
        bodies.append(gs.Ball(f"ball{k}", radius=0.1, mass=1.0, position=(k, 0.0, 0.0)))
        bodies.append(gs.Rigid(f"box{k}", gs.meshes.box(0.1), mass=1.0, position=(k, 1.0, 0.0)))
    assert "pair_anchor" not in topology_of(gs.Scene(bodies)).elements
    pairs = {"ball0-ball1": contact, "box0-ball1": contact, "box0-box1": contact, "ball2-box2": gs.Contact()}
    topology = topology_of(gs.Scene(bodies, pairs=pairs))
    assert topology.elements["pair_anchor"] == 1 + 1 + 2 * 56
    firsts = topology.arrays["pair_anchor.firsts"]
    assert (firsts >= 0).sum() == 4


def test_too_many_anchors_are_refused(monkeypatch):
    monkeypatch.setattr(anchors, "MAX_PAIR_ANCHORS", 300)
    with pytest.raises(gs.InvalidInput, match=r"needs 336 anchors, at most 300 are possible"):
        gs.simulate(pile(count=3), frames=1)


def test_cubes_on_each_other_hold_on_a_slope_where_regularized_ones_creep():
    moved = {}
    for friction in (gs.Sticking(), gs.Regularized()):
        run = gs.simulate(pile(friction), frames=21, **TIME)
        apart = run["cube1"].position[:, 0] - run["cube0"].position[:, 0]
        moved[type(friction)] = abs(float(apart[-1] - apart[10]))
    assert moved[gs.Sticking] < 1e-6
    assert moved[gs.Regularized] > 0.01


def test_the_anchors_continue_with_the_state():
    whole = gs.simulate(pile(), frames=21, **TIME)
    half = gs.simulate(pile(), frames=11, **TIME)
    assert half.final.others["pair_anchor.xi"].abs().max() > 1e-5
    rest = gs.simulate(pile(), frames=11, start=half.final, **TIME)
    assert torch.equal(rest["cube1"].position, whole["cube1"].position[10:])


@pytest.mark.parametrize("problem", [STICKING_PAIR, STICKING_BODIES], ids=lambda p: p.name)
def test_recomputed_gradients_equal_stored_ones(problem):
    found = []
    for memory in (None, 2_000_000):
        values = {name: value.clone().requires_grad_() for name, value in problem.values().items()}
        times = {"frames": problem.frames, "fps": problem.fps, "substeps": problem.substeps}
        run = gs.simulate(problem.build(values), memory=memory, **times)
        found.append(torch.autograd.grad(run.vertices.square().sum(), list(values.values())))
    for stored, recomputed in zip(*found, strict=True):
        assert torch.allclose(stored, recomputed, rtol=1e-12, atol=0.0)

"""rollout(): gradients through open and closed loops, batches, and what it refuses."""

import dataclasses

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.fit.rollout import Driver, Rhythm

MESH = gs.meshes.tet_box((0.4, 0.2, 0.2), (2, 1, 1))
TIME = {"frames": 7, "fps": 30.0, "substeps": 24}
PATH = "block.actuation"
STEP = 1e-6


def scene(**changes) -> gs.Scene:
    material = gs.NeoHookean.from_young(4e4, 0.3, damping=50.0)
    block = gs.Soft("block", MESH, density=500.0, material=material, position=(0.0, 0.099, 0.0))
    return gs.Scene([dataclasses.replace(block, **changes)], gs.Ground(ke=4e3, kd=10.0, kf=20.0, mu=0.6, delta=0.01))


def open_loop() -> gs.Sinusoids:
    return gs.Sinusoids(len(MESH.tets), waves=3, frequency=20.0, amplitude=0.3, seed=1)


def sees(trajectory: gs.Trajectory) -> torch.Tensor:
    """Its place and speed, [..., 6]."""
    block = trajectory["block"]
    return torch.cat([10.0 * block.position[..., -1, :], block.velocity[..., -1, :]], -1)


def closed_loop() -> gs.Feedback:
    torch.manual_seed(2)
    hidden = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, len(MESH.tets)))
    return gs.Feedback(torch.nn.Sequential(hidden, torch.nn.Tanh()).double(), sees)


def moved(policy, **options) -> torch.Tensor:
    """A number that every node's last place and speed are in."""
    end = gs.rollout(scene(), {PATH: policy}, **{**TIME, **options})["block"]
    weights = torch.linspace(-1.0, 1.0, end.vertices[-1].numel(), dtype=torch.float64).reshape(-1, 3)
    return (end.vertices[-1] * weights + 0.1 * end.velocities[-1] * weights.flip(0)).sum()


@pytest.mark.parametrize("make", [open_loop, closed_loop])
def test_gradients_agree_with_differences(make):
    policy = make()
    module = policy.module if isinstance(policy, gs.Feedback) else policy
    weights = list(module.parameters())
    gradients = torch.autograd.grad(moved(policy), weights)
    generator = torch.Generator().manual_seed(0)
    for weight, gradient in zip(weights, gradients, strict=True):
        direction = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            ends = []
            for step in (STEP, -2 * STEP):
                weight += step * direction
                ends.append(float(moved(policy)))
            weight += STEP * direction
        difference = (ends[0] - ends[1]) / (2 * STEP)
        assert float((gradient * direction).sum()) == pytest.approx(difference, rel=1e-5)


def test_what_feedback_saw_is_part_of_the_gradient():
    whole, blind = closed_loop(), closed_loop()
    blind = gs.Feedback(blind.module, lambda trajectory: sees(trajectory).detach())
    a, b = (torch.autograd.grad(moved(p), p.module[0][0].weight)[0] for p in (whole, blind))
    assert float((a - b).norm() / a.norm()) > 0.01


def test_feedback_of_time_alone_is_a_signal_held_within_frames():
    class Clock(torch.nn.Module):
        def forward(self, seen):
            return 0.2 * torch.sin(9.0 * seen[..., 0])

    held = gs.rollout(scene(), {PATH: gs.Feedback(Clock(), lambda trajectory: trajectory.time)}, **TIME)
    state, pieces = None, []
    for frame in range(TIME["frames"] - 1):
        constant = scene(actuation=0.2 * np.sin(9.0 * frame / TIME["fps"]))
        pieces.append(gs.simulate(constant, **{**TIME, "frames": 2}, start=state))
        state = pieces[-1].final
    torch.testing.assert_close(held["block"].vertices[-1], pieces[-1]["block"].vertices[-1], rtol=0.0, atol=1e-13)
    assert torch.allclose(held.time, torch.arange(7, dtype=torch.float64) / 30.0)


@pytest.mark.parametrize("make", [open_loop, closed_loop])
def test_a_batch_of_weights_is_as_many_single_runs(make):
    policies = {PATH: make()}
    driver = Driver(scene(), policies)
    rhythm = Rhythm(TIME["fps"], TIME["substeps"])
    batch = {name: torch.stack([k * value.detach() for k in (0.5, 1.0, 2.0)]) for name, value in driver.weights.items()}
    together = driver.run(scene(), rhythm, TIME["frames"], weights=batch)
    assert together.trajectory["block"].vertices.shape[:2] == (3, TIME["frames"])
    assert together.signals[PATH].shape == (3, TIME["frames"], len(MESH.tets))
    for k in range(3):
        weights = {name: value[k] for name, value in batch.items()}
        alone = driver.run(scene(), rhythm, TIME["frames"], weights=weights).trajectory["block"].vertices
        torch.testing.assert_close(together.trajectory["block"].vertices[k], alone, rtol=0.0, atol=1e-12)


def test_feedback_with_goals_makes_one_world_many():
    goals = torch.tensor([0.0, 0.5], dtype=torch.float64)
    policy = closed_loop()

    def both(trajectory):
        seen = sees(trajectory)
        seen = seen.expand(2, 6) if seen.ndim == 1 else seen
        return torch.cat([seen[:, :5], goals[:, None]], -1)

    both_worlds = gs.rollout(scene(), {PATH: gs.Feedback(policy.module, both)}, **TIME)["block"].vertices
    for k, goal in enumerate(goals):
        one = gs.Feedback(policy.module, lambda t, goal=goal: torch.cat([sees(t)[:5], goal[None]]))
        alone = gs.rollout(scene(), {PATH: one}, **TIME)["block"].vertices
        torch.testing.assert_close(both_worlds[k], alone, rtol=0.0, atol=1e-12)


def test_an_unknown_path_is_named():
    with pytest.raises(gs.errors.UnknownName, match=r"block\.actuation"):
        gs.rollout(scene(), {"block.actuaton": open_loop()}, **TIME)


def test_a_policy_is_a_module_or_feedback():
    with pytest.raises(gs.errors.WrongType, match=r"gs\.Feedback"):
        gs.rollout(scene(), {PATH: lambda time: time}, **TIME)


def test_the_shape_of_what_is_said_is_checked():
    class Wrong(torch.nn.Module):
        def forward(self, time):
            return torch.zeros(len(time) + 1, len(MESH.tets), dtype=torch.float64)

    with pytest.raises(gs.errors.WrongShape, match="at K times"):
        gs.rollout(scene(), {PATH: Wrong()}, **TIME)

    class TooMuch(torch.nn.Module):
        def forward(self, seen):
            return torch.zeros(2, 3, 4, dtype=torch.float64)

    with pytest.raises(gs.errors.WrongShape, match="of what was seen"):
        gs.rollout(scene(), {PATH: gs.Feedback(TooMuch(), sees)}, **TIME)


def test_feedback_beside_a_signal_is_refused():
    push = gs.Signal(np.zeros((4, 3)))
    with pytest.raises(gs.InvalidInput, match=r"block\.force.*policy of time"):
        gs.rollout(scene(force=push), {PATH: closed_loop()}, **TIME)


def test_a_policy_needs_time():
    with pytest.raises(gs.errors.OutOfRange, match="frames"):
        gs.rollout(scene(), {PATH: open_loop()}, **{**TIME, "frames": 1})

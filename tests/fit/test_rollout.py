"""rollout(): gradients through open and closed loops, batches, and invalid input."""

import dataclasses

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.fit.policy_runner import PolicyRunner

MESH = gs.meshes.tet_box((0.4, 0.2, 0.2), (2, 1, 1))
TIME = {"frames": 7, "fps": 30.0, "substeps": 24, "integrator": gs.SymplecticEuler()}
PATH = "block.actuation"
STEP = 1e-6


def scene(**changes) -> gs.Scene:
    material = gs.NeoHookean.from_young(4e4, 0.3, damping=50.0)
    block = gs.Soft("block", MESH, density=500.0, material=material, position=(0.0, 0.099, 0.0))
    return gs.Scene([dataclasses.replace(block, **changes)], gs.Ground(ke=4e3, kd=10.0, kf=20.0, mu=0.6, delta=0.01))


def open_loop() -> gs.Sinusoids:
    return gs.Sinusoids(len(MESH.tets), waves=3, frequency=20.0, amplitude=0.3, seed=1)


def observe(trajectory: gs.Trajectory) -> torch.Tensor:
    """Position and velocity, [..., 6]."""
    block = trajectory["block"]
    return torch.cat([10.0 * block.position[..., -1, :], block.velocity[..., -1, :]], -1)


def closed_loop() -> gs.Feedback:
    torch.manual_seed(2)
    hidden = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, len(MESH.tets)))
    return gs.Feedback(torch.nn.Sequential(hidden, torch.nn.Tanh()).double(), observe)


def final_state_sum(policy, **options) -> torch.Tensor:
    """A scalar that depends on the final position and velocity of every node."""
    end = gs.rollout(scene(), {PATH: policy}, **{**TIME, **options})["block"]
    weights = torch.linspace(-1.0, 1.0, end.vertices[-1].numel(), dtype=torch.float64).reshape(-1, 3)
    return (end.vertices[-1] * weights + 0.1 * end.velocities[-1] * weights.flip(0)).sum()


@pytest.mark.parametrize("make", [open_loop, closed_loop])
def test_gradients_agree_with_finite_differences(make):
    policy = make()
    module = policy.module if isinstance(policy, gs.Feedback) else policy
    weights = list(module.parameters())
    gradients = torch.autograd.grad(final_state_sum(policy), weights)
    generator = torch.Generator().manual_seed(0)
    for weight, gradient in zip(weights, gradients, strict=True):
        direction = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            ends = []
            for step in (STEP, -2 * STEP):
                weight += step * direction
                ends.append(float(final_state_sum(policy)))
            weight += STEP * direction
        difference = (ends[0] - ends[1]) / (2 * STEP)
        assert float((gradient * direction).sum()) == pytest.approx(difference, rel=1e-5)


def test_gradient_flows_through_observations():
    full, detached = closed_loop(), closed_loop()
    detached = gs.Feedback(detached.module, lambda trajectory: observe(trajectory).detach())
    a, b = (torch.autograd.grad(final_state_sum(p), p.module[0][0].weight)[0] for p in (full, detached))
    assert float((a - b).norm() / a.norm()) > 0.01


def test_feedback_is_constant_between_frames():
    class Wave(torch.nn.Module):
        def forward(self, observation):
            return 0.2 * torch.sin(9.0 * observation[..., 0])

    held = gs.rollout(scene(), {PATH: gs.Feedback(Wave(), lambda trajectory: trajectory.time)}, **TIME)
    state, segments = None, []
    for frame in range(TIME["frames"] - 1):
        constant = scene(actuation=0.2 * np.sin(9.0 * frame / TIME["fps"]))
        segments.append(gs.simulate(constant, **{**TIME, "frames": 2}, start=state))
        state = segments[-1].final
    torch.testing.assert_close(held["block"].vertices[-1], segments[-1]["block"].vertices[-1], rtol=0.0, atol=1e-13)
    assert torch.allclose(held.time, torch.arange(7, dtype=torch.float64) / 30.0)


@pytest.mark.parametrize("make", [open_loop, closed_loop])
def test_a_batch_of_weights_equals_single_runs(make):
    policies = {PATH: make()}
    runner = PolicyRunner(scene(), policies)
    time = gs.Time(**TIME)
    batch = {name: torch.stack([k * value.detach() for k in (0.5, 1.0, 2.0)]) for name, value in runner.weights.items()}
    together = runner.run(scene(), time, weights=batch)
    assert together.trajectory["block"].vertices.shape[:2] == (3, TIME["frames"])
    assert together.outputs[PATH].shape == (3, TIME["frames"], len(MESH.tets))
    for k in range(3):
        weights = {name: value[k] for name, value in batch.items()}
        alone = runner.run(scene(), time, weights=weights).trajectory["block"].vertices
        torch.testing.assert_close(together.trajectory["block"].vertices[k], alone, rtol=0.0, atol=1e-12)


def test_feedback_can_turn_one_world_into_a_batch():
    goals = torch.tensor([0.0, 0.5], dtype=torch.float64)
    policy = closed_loop()

    def observe_goals(trajectory):
        observation = observe(trajectory)
        observation = observation.expand(2, 6) if observation.ndim == 1 else observation
        return torch.cat([observation[:, :5], goals[:, None]], -1)

    both_worlds = gs.rollout(scene(), {PATH: gs.Feedback(policy.module, observe_goals)}, **TIME)["block"].vertices
    for k, goal in enumerate(goals):
        one = gs.Feedback(policy.module, lambda t, goal=goal: torch.cat([observe(t)[:5], goal[None]]))
        alone = gs.rollout(scene(), {PATH: one}, **TIME)["block"].vertices
        torch.testing.assert_close(both_worlds[k], alone, rtol=0.0, atol=1e-12)


def test_an_unknown_path_is_named():
    with pytest.raises(gs.errors.UnknownName, match=r"block\.actuation"):
        gs.rollout(scene(), {"block.actuaton": open_loop()}, **TIME)


def test_a_policy_is_a_module_or_feedback():
    with pytest.raises(gs.errors.WrongType, match=r"gs\.Feedback"):
        gs.rollout(scene(), {PATH: lambda time: time}, **TIME)


def test_output_shapes_are_checked():
    class Wrong(torch.nn.Module):
        def forward(self, time):
            return torch.zeros(len(time) + 1, len(MESH.tets), dtype=torch.float64)

    with pytest.raises(gs.errors.WrongShape, match="at K times"):
        gs.rollout(scene(), {PATH: Wrong()}, **TIME)

    class TooManyDims(torch.nn.Module):
        def forward(self, observation):
            return torch.zeros(2, 3, 4, dtype=torch.float64)

    with pytest.raises(gs.errors.WrongShape, match="for observation"):
        gs.rollout(scene(), {PATH: gs.Feedback(TooManyDims(), observe)}, **TIME)


def test_feedback_cannot_be_combined_with_a_signal():
    push = gs.Signal(np.zeros((4, 3)))
    with pytest.raises(gs.InvalidInput, match=r"block\.force.*open-loop policy"):
        gs.rollout(scene(force=push), {PATH: closed_loop()}, **TIME)


def test_a_policy_needs_two_frames():
    with pytest.raises(gs.errors.OutOfRange, match="frames"):
        gs.rollout(scene(), {PATH: open_loop()}, **{**TIME, "frames": 1})

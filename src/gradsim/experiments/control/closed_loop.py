"""Beyond the paper: closed-loop control of a walker that observes its remaining distance and stops at the goal.

The gait is found from one image, as in `walker`, and continues indefinitely. A small network then learns to scale its
amplitude: it observes the state of the walker once per frame, and is trained on random goals with gradients through the
simulator, the contacts and its own observations. It is tested on goals that are not used in training.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch

from gradsim.datasets.recording import soft_ground
from gradsim.experiments.control import walker
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.fit.policies import Feedback
from gradsim.fit.rollout import rollout
from gradsim.scene.integrators import SymplecticEuler
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

FRAMES, FPS, SUBSTEPS = 121, 30.0, 32  # 4 s in 3840 steps
NEAREST, FARTHEST = 0.5, 1.25  # range of goals [m]
TOLERANCE = 0.1  # relative distance within which a goal counts as reached
REQUIRED_RATE = 0.8  # of test goals reached
TEST_GOALS, TEST_SEED = 20, 777
GAIT_DISTANCE = 1.9  # distance the open-loop gait covers in 5 s [m]
BATCH, ITERATIONS, RATE, LAST_RATE = 16, 100, 0.03, 0.0015
DISTANCE_UNIT = 0.25  # [m], scale of the distance that the network observes
FINAL_FRAMES = 15  # in the training loss: one period of the gait, so that passing the goal momentarily is not enough

Goals = torch.Tensor  # [m], [B]
DTYPE = torch.float32


class PacedGait(torch.nn.Module):
    """A gait whose amplitude is scaled by a network: u = amplitude * tanh(pace(observation) * gait @ phase).

    Args:
        gait: Weights of the sine and the cosine of the phase for each triangle, [T, 2].
        seed: Of the network's initial weights. Its initial output is 1 for every observation.
    """

    def __init__(self, gait: torch.Tensor, seed: int):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.pace = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        torch.nn.init.zeros_(self.pace[2].weight)  # type: ignore[arg-type]
        torch.nn.init.ones_(self.pace[2].bias)  # type: ignore[arg-type]
        self.gait = torch.nn.Parameter(gait.detach().clone())
        self.to(DTYPE)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Returns the actuation [..., T] for [..., 4]: remaining distance, speed, sine and cosine of phase."""
        return walker.AMPLITUDE * torch.tanh(self.pace(observation) * (observation[..., 2:] @ self.gait.mT))


def simulate_walk(policy: torch.nn.Module, goals: Goals, scene: Scene | None = None) -> torch.Tensor:
    """Returns the displacement at every frame [m], [B, FRAMES], with one world per goal; in another scene if given."""

    def observe(trajectory: Trajectory) -> torch.Tensor:
        body = trajectory["walker"]
        remaining = (goals - body.position[..., -1, 0]) / DISTANCE_UNIT
        speed = body.velocity[..., -1, 0].expand_as(remaining)
        phase = (walker.FREQUENCY * trajectory.time[-1]).expand_as(remaining)
        return torch.stack([remaining, speed, torch.sin(phase), torch.cos(phase)], -1)

    with soft_ground():
        trajectory = rollout(
            scene or walker.scene(),
            {"walker.actuation": Feedback(policy, observe)},
            frames=FRAMES,
            fps=FPS,
            substeps=SUBSTEPS,
            integrator=SymplecticEuler(),
            dtype=DTYPE,
        )
    return trajectory["walker"].position[..., 0]


def draw_goals(count: int, generator: torch.Generator) -> Goals:
    return NEAREST + (FARTHEST - NEAREST) * torch.rand(count, generator=generator, dtype=DTYPE)


def untrained_policy(seed: int = 0) -> PacedGait:
    """Returns a gait found from one image, with a constant amplitude."""
    weight = walker.task_to(GAIT_DISTANCE, seed).run().last.values["walker.actuation.weight"]
    sine, cosine, minus_sine, minus_cosine = weight.unbind(-1)  # phases a quarter of a period apart
    return PacedGait(torch.stack([sine - minus_sine, cosine - minus_cosine], -1), seed)


def train(seed: int = 0, progress: Callable[[int, float], None] = lambda iteration, loss: None) -> PacedGait:
    """Trains a policy to walk to any goal.

    `progress` receives the iteration and its loss, the mean squared relative distance from the goals of the batch.
    """
    policy = untrained_policy(seed)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=RATE)
    for iteration in range(ITERATIONS):
        decay = 0.5 * (1 + math.cos(math.pi * iteration / ITERATIONS))
        optimizer.param_groups[0]["lr"] = LAST_RATE + (RATE - LAST_RATE) * decay
        goals = draw_goals(BATCH, generator)
        error = simulate_walk(policy, goals)[:, -FINAL_FRAMES:] / goals[:, None] - 1.0
        loss = error.square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        progress(iteration, float(loss.detach()))
    return policy


def evaluate(policy: torch.nn.Module) -> tuple[torch.Tensor, Goals]:
    """Returns the displacements in the last frame and the test goals [m], [TEST_GOALS] each."""
    goals = draw_goals(TEST_GOALS, torch.Generator().manual_seed(TEST_SEED))
    with torch.no_grad():
        return simulate_walk(policy, goals)[:, -1], goals


def success_rate(displacements: torch.Tensor, goals: Goals) -> float:
    """Returns the fraction of goals reached within 10 %."""
    return float(((displacements / goals - 1.0).abs() <= TOLERANCE).double().mean())


def case(seed: int) -> Case:
    """Returns the case of one training run, with tests before and after it."""

    def run(progress: Progress) -> Row:
        begin = time.perf_counter()
        first = success_rate(*evaluate(untrained_policy(seed)))
        policy = train(seed, lambda k, loss: progress(f"iteration {k} of {ITERATIONS}, loss {loss:.1e}"))
        seconds = time.perf_counter() - begin
        displacements, goals = evaluate(policy)
        worst = float((displacements / goals - 1.0).abs().max())
        rate = success_rate(displacements, goals)
        return {"seed": seed, "untrained": first, "trained": rate, "worst": worst, "seconds": seconds}

    return Case(f"seed {seed}", run)


def experiment(seed: int = 0) -> Experiment:
    """Fraction of test goals reached within 10 %, before and after training, and the worst relative error."""
    columns = (
        Column("seed", "d", 4),
        *(Column(name, ".2f", 9) for name in ("untrained", "trained", "worst", "seconds")),
    )

    def claims(rows: Sequence[Row]) -> list[Claim]:
        text = f"fraction of {TEST_GOALS} test goals reached within 10 %"
        return [Claim(text, rows[0]["trained"], at_least=REQUIRED_RATE)]

    title = "Closed-loop control of the walker"
    return Experiment("closed loop", title, columns, (case(seed),), claims)

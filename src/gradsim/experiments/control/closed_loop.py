"""Past the paper: a walker that sees how far it has to go, and stops there.

The gait is found from one picture, as in `walker`, and walks on for ever. A small network then learns to pace it: it
sees the walker's state once a frame, and is trained on random goals with gradients through the simulator, the contacts
and all that it saw on the way. It is tested on goals it was not trained on.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence

import torch

from gradsim.experiments.control import walker
from gradsim.experiments.table import Case, Claim, Column, Experiment, Row, Told
from gradsim.fit.policies import Feedback
from gradsim.fit.rollout import rollout
from gradsim.scene.errors import ContactWarning, StabilityWarning
from gradsim.scene.integrators import SymplecticEuler
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

FRAMES, FPS, SUBSTEPS = 121, 30.0, 32  # 4 s in 3840 steps
NEAREST, FARTHEST = 0.5, 1.25  # goals [m]
WITHIN = 0.1  # of what was asked
ALLOWED = 0.8  # least share of the goals
UNSEEN, FRESH = 20, 777  # goals of the test, and the seed they are drawn with
GAIT = 1.9  # how far the gait goes in 5 s [m]
BATCH, ITERATIONS, RATE, LAST_RATE = 16, 100, 0.03, 0.0015
NEAR = 0.25  # [m]: the network sees distances in this unit
STAY = 15  # last frames that count in training, a period of the gait: to sway past the goal in time is not to reach it

Goals = torch.Tensor  # [m], [B]
DTYPE = torch.float32


class Walk(torch.nn.Module):
    """A gait, and a network that paces it: u = amplitude tanh(pace(seen) gait clock).

    Args:
        gait: Weights of the sine and the cosine of the clock for each triangle, [T, 2].
        seed: Of the network's first weights; at first the pace is 1 whatever is seen.
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

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        """Actuation [..., T] of what is seen: distance left, speed, sine and cosine of the clock, [..., 4]."""
        return walker.AMPLITUDE * torch.tanh(self.pace(seen) * (seen[..., 2:] @ self.gait.mT))


def walked(policy: torch.nn.Module, goals: Goals, scene: Scene | None = None) -> torch.Tensor:
    """How far the walker has come at every frame [m], [B, FRAMES], one world a goal; in another scene if given."""

    def sees(trajectory: Trajectory) -> torch.Tensor:
        body = trajectory["walker"]
        left = (goals - body.position[..., -1, 0]) / NEAR
        speed = body.velocity[..., -1, 0].expand_as(left)
        angle = (walker.FREQUENCY * trajectory.time[-1]).expand_as(left)
        return torch.stack([left, speed, torch.sin(angle), torch.cos(angle)], -1)

    controls = {"walker.actuation": Feedback(policy, sees)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContactWarning)
        warnings.simplefilter("ignore", StabilityWarning)
        moved = rollout(
            scene or walker.scene(),
            controls,
            frames=FRAMES,
            fps=FPS,
            substeps=SUBSTEPS,
            integrator=SymplecticEuler(),
            dtype=DTYPE,
        )
    return moved["walker"].position[..., 0]


def drawn(count: int, generator: torch.Generator) -> Goals:
    return NEAREST + (FARTHEST - NEAREST) * torch.rand(count, generator=generator, dtype=DTYPE)


def untrained(seed: int = 0) -> Walk:
    """A gait that was found from one picture, at a steady pace."""
    weight = walker.towards(GAIT, seed).run().last.values["walker.actuation.weight"]
    sine, cosine, back, cosine_back = weight.unbind(-1)  # of a quarter of a period each
    return Walk(torch.stack([sine - back, cosine - cosine_back], -1), seed)


def train(seed: int = 0, progress: Callable[[int, float], None] = lambda iteration, loss: None) -> Walk:
    """Learn to walk to any goal; `progress` is told the mean squared relative miss of each batch of goals."""
    policy = untrained(seed)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=RATE)
    for iteration in range(ITERATIONS):
        share = 0.5 * (1 + math.cos(math.pi * iteration / ITERATIONS))
        optimizer.param_groups[0]["lr"] = LAST_RATE + (RATE - LAST_RATE) * share
        goals = drawn(BATCH, generator)
        miss = walked(policy, goals)[:, -STAY:] / goals[:, None] - 1.0
        loss = miss.square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        progress(iteration, float(loss.detach()))
    return policy


def test(policy: torch.nn.Module) -> tuple[torch.Tensor, Goals]:
    """Displacements in the last frame and the goals asked [m], [UNSEEN] each; nothing was chosen by these goals."""
    goals = drawn(UNSEEN, torch.Generator().manual_seed(FRESH))
    with torch.no_grad():
        return walked(policy, goals)[:, -1], goals


def reached(displacements: torch.Tensor, goals: Goals) -> float:
    """Share of the goals that were met within a tenth."""
    return float(((displacements / goals - 1.0).abs() <= WITHIN).double().mean())


def case(seed: int) -> Case:
    """One training, tested before and after."""

    def run(told: Told) -> Row:
        begin = time.perf_counter()
        first = reached(*test(untrained(seed)))
        policy = train(seed, lambda k, loss: told(f"iteration {k} of {ITERATIONS}, loss {loss:.1e}"))
        seconds = time.perf_counter() - begin
        displacements, goals = test(policy)
        worst = float((displacements / goals - 1.0).abs().max())
        met = reached(displacements, goals)
        return {"seed": seed, "untrained": first, "trained": met, "worst": worst, "seconds": seconds}

    return Case(f"seed {seed}", run)


def experiment(seed: int = 0) -> Experiment:
    """Shares of unseen goals that are met within a tenth, before and after training, and the worst relative miss."""
    columns = (
        Column("seed", "d", 4),
        *(Column(name, ".2f", 9) for name in ("untrained", "trained", "worst", "seconds")),
    )

    def claims(rows: Sequence[Row]) -> list[Claim]:
        return [Claim(f"share of {UNSEEN} unseen goals met within a tenth", rows[0]["trained"], least=ALLOWED)]

    title = "A walker that sees how far it has to go"
    return Experiment("closed loop", title, columns, (case(seed),), claims)

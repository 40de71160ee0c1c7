"""Peers on the questions of whole estimates: a derivative-free optimizer, and Adam on the adjoint."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch

import gradsim as gs
from benchmarks.questions import QUESTIONS, Asked
from gradsim.datasets.recording import soft_ground

PEER_SECONDS = 30.0  # a peer's budget
PEER_RATE = 0.05  # of Adam, in logarithms of the values


@dataclass(frozen=True)
class PeerRow:
    """A peer on the same video, stopped at the accuracy of our interval, or after `PEER_SECONDS`."""

    question: str
    peer: str
    seconds: float
    simulations: int
    error: float


class _PixelLoss:
    """The mean squared difference of the pixels, as a function of logarithms of the unknowns; counts simulations."""

    def __init__(self, asked: Asked):
        assert asked.scene is not None
        assert asked.video is not None
        self.scene, self.video, (self.fps, self.substeps) = asked.scene, asked.video, asked.time
        self.truth = {path: float(value) for path, value in asked.truth.items()}
        unknowns = asked.scene.unknowns
        self.start = [math.log(float(unknowns[path].guess)) for path in self.truth]
        self.bounds = [
            [math.log(float(getattr(unknowns[path], end))) for path in self.truth] for end in ("low", "high")
        ]
        self.simulations, self.best, self.error = 0, math.inf, math.inf

    def __call__(self, points: torch.Tensor) -> torch.Tensor:
        """Returns the losses [N] at points [N, P]."""
        scene = self.scene.with_values({path: points[:, k].exp() for k, path in enumerate(self.truth)})
        options: dict[str, Any] = {"frames": len(self.video), "fps": self.fps, "substeps": self.substeps}
        with soft_ground():
            images = gs.render(scene, gs.simulate(scene, **options), size=(self.video.shape[1], self.video.shape[2]))
        losses = (images - self.video).square().flatten(1).mean(1)
        self.simulations += len(points)
        lowest = int(losses.detach().nan_to_num(math.inf).argmin())
        if float(losses[lowest]) < self.best:
            values = points[lowest].detach().exp().tolist()
            errors = (abs(value / true - 1.0) for value, true in zip(values, self.truth.values(), strict=True))
            self.best, self.error = float(losses[lowest]), max(errors)
        return losses


def _cma_es(loss: _PixelLoss, finished: Callable[[], bool]) -> None:
    import cma

    options = {"bounds": loss.bounds, "seed": 1, "verbose": -9, "verb_log": 0, "popsize": 8, "tolfun": 1e-20}
    search = cma.CMAEvolutionStrategy(loss.start, 0.5, options)
    while not search.stop() and not finished():
        points = search.ask()
        with torch.no_grad():
            search.tell(points, loss(torch.tensor(np.array(points))).tolist())


def _adam(loss: _PixelLoss, finished: Callable[[], bool]) -> None:
    point = torch.tensor([loss.start], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([point], lr=PEER_RATE)
    low, high = torch.tensor(loss.bounds, dtype=torch.float64)
    while not finished():
        optimizer.zero_grad()
        loss(point).sum().backward()
        optimizer.step()
        with torch.no_grad():
            point.clamp_(low, high)


PEERS = {"CMA-ES": _cma_es, "Adam on the adjoint": _adam}


def ask_peer(name: str, peer: str, half_width: float) -> PeerRow:
    """Runs a peer until its best values are as accurate as our intervals are wide, or its time is over."""
    warnings.simplefilter("ignore")
    loss = _PixelLoss(QUESTIONS[name].ask(None))
    with torch.no_grad():
        loss(torch.tensor([loss.start], dtype=torch.float64))  # compiles
    begin = perf_counter()
    PEERS[peer](loss, lambda: loss.error <= half_width or perf_counter() - begin > PEER_SECONDS)
    return PeerRow(name, peer, perf_counter() - begin, loss.simulations, loss.error)

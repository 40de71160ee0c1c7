"""Descents for a loss with a gradient: many unknowns at the price of a backward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

Loss = Callable[[torch.Tensor], torch.Tensor]  # coordinates [K, P] -> losses [K]
Step = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # coordinates [K, P], losses [K], largest slopes [K]


class Descending(Protocol):
    """An optimizer of coordinates, by their gradient."""

    @property
    def iterations(self) -> int: ...

    def steps(self, loss: Loss, z: torch.Tensor) -> Iterator[Step]:
        """Where it comes to, iteration by iteration; the loss is that of the coordinates beside it."""


def _slope(loss: Loss, z: torch.Tensor) -> Step:
    leaf = z.detach().clone().requires_grad_()
    losses = loss(leaf)
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    return gradient, losses.detach(), gradient.abs().amax(1)


def _walk(optimizer: torch.optim.Optimizer, leaf: torch.Tensor, loss: Loss, iterations: int) -> Iterator[Step]:
    """Where an optimizer of torch leads, one step an iteration."""
    for _ in range(iterations):
        place = leaf.detach().clone()
        leaf.grad, losses, slopes = _slope(loss, place)
        yield place, losses, slopes
        optimizer.step()


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015), all starts at once.

    Args:
        iterations: At most.
        rate: Step, in natural units of the unknowns.
        betas: Memory of gradients and of their squares.
        last_rate: Step at the end, along a half wave of the cosine; `rate` throughout if None.
    """

    iterations: int = 100
    rate: float = 0.05
    betas: tuple[float, float] = (0.9, 0.999)
    last_rate: float | None = None

    def steps(self, loss: Loss, z: torch.Tensor) -> Iterator[Step]:
        leaf = z.detach().clone().requires_grad_()
        optimizer = torch.optim.Adam([leaf], lr=self.rate, betas=self.betas)
        end = self.rate if self.last_rate is None else self.last_rate
        for k, step in enumerate(_walk(optimizer, leaf, loss, self.iterations)):
            share = 0.5 * (1 + math.cos(math.pi * k / self.iterations))
            optimizer.param_groups[0]["lr"] = end + (self.rate - end) * share
            yield step


@dataclass(frozen=True)
class TorchOptimizer:
    """Any optimizer of torch: `gs.TorchOptimizer(lambda p: torch.optim.SGD(p, lr=0.1), iterations=50)`."""

    make: Callable[[Any], torch.optim.Optimizer]
    iterations: int = 100

    def steps(self, loss: Loss, z: torch.Tensor) -> Iterator[Step]:
        leaf = z.detach().clone().requires_grad_()
        yield from _walk(self.make([leaf]), leaf, loss, self.iterations)


@dataclass(frozen=True)
class RandomSearch:
    """No method at all, to hold others against: every iterate is drawn anew about the start.

    Args:
        iterations: Draws; the first is the start itself.
        spread: Standard deviation, in natural units of the unknowns.
        seed: Of the draws.
    """

    iterations: int = 100
    spread: float = 0.5
    seed: int = 0

    def steps(self, loss: Loss, z: torch.Tensor) -> Iterator[Step]:
        generator = torch.Generator().manual_seed(self.seed)
        for k in range(self.iterations):
            away = torch.randn(z.shape, generator=generator, dtype=z.dtype) * self.spread
            place = z.detach() + (away if k else 0.0)
            with torch.no_grad():
                losses = loss(place)
            yield place, losses, torch.ones_like(losses)


@dataclass(frozen=True)
class LBFGS:
    """The quasi-Newton method with limited memory, one start after another, with a line search.

    Args:
        iterations: At most, of each start.
        memory: Pairs of steps and gradients that are kept.
        tolerance: Of the largest slope.
    """

    iterations: int = 100
    memory: int = 20
    tolerance: float = 1e-12

    def steps(self, loss: Loss, z: torch.Tensor) -> Iterator[Step]:
        places = z.detach().clone()
        _, losses, slopes = _slope(loss, places)
        yield places.clone(), losses.clone(), slopes.clone()
        for k in range(len(z)):
            leaf = places[k : k + 1].clone().requires_grad_()
            optimizer = torch.optim.LBFGS(
                [leaf],
                lr=1.0,
                max_iter=1,
                history_size=self.memory,
                tolerance_grad=self.tolerance,
                tolerance_change=0.0,
                line_search_fn="strong_wolfe",
            )

            def closure(leaf: torch.Tensor = leaf) -> torch.Tensor:
                leaf.grad, value, _ = _slope(loss, leaf)
                return value.sum()

            for _ in range(self.iterations):
                before = leaf.detach().clone()
                optimizer.step(closure)
                _, value, slope = _slope(loss, leaf)
                places[k], losses[k], slopes[k] = leaf.detach()[0], value[0], slope[0]
                yield places.clone(), losses.clone(), slopes.clone()
                if float(slope) < self.tolerance or bool((leaf.detach() == before).all()):
                    break

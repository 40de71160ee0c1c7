"""Gradient-based optimizers for losses with many unknowns; a gradient costs one backward pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch

from gradsim.scene.arguments import check_function, checked_number, checked_whole
from gradsim.scene.errors import OutOfRange, WrongType
from gradsim.scene.random_seed import checked_seed
from gradsim.scene.spelling import abbreviate

Loss = Callable[[torch.Tensor], torch.Tensor]  # coordinates [K, P] -> losses [K]


class OptimizerStep(NamedTuple):
    """Iterates of K starts."""

    z: torch.Tensor  # coordinates [K, P]
    losses: torch.Tensor  # at z, [K]
    max_gradient: torch.Tensor  # largest absolute component of the gradient at z, [K]


class GradientOptimizer(Protocol):
    """An optimizer of coordinates by the gradient of a loss."""

    @property
    def iterations(self) -> int: ...

    def iterate(self, loss: Loss, z: torch.Tensor) -> Iterator[OptimizerStep]:
        """Yields the iterates from starts z [K, P], one per iteration."""


def _evaluate(loss: Loss, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the losses [K] at coordinates z [K, P] and their gradients [K, P]."""
    leaf = z.detach().clone().requires_grad_()
    losses = loss(leaf)
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    return losses.detach(), gradient


def _iterate_torch(
    optimizer: torch.optim.Optimizer, leaf: torch.Tensor, loss: Loss, iterations: int
) -> Iterator[OptimizerStep]:
    """Yields the iterates of a torch optimizer of `leaf`."""
    for _ in range(iterations):
        z = leaf.detach().clone()
        losses, leaf.grad = _evaluate(loss, z)
        yield OptimizerStep(z, losses, leaf.grad.abs().amax(1))
        optimizer.step()


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015), for all starts in one batch.

    Example:
        `gs.minimize(loss, scene, gs.Adam(iterations=200, lr=0.02))`

    Args:
        iterations: Number of iterations.
        lr: Learning rate, in coordinate units (see `gradsim.fit.parameters`).
        betas: Decay rates of the moving averages of the gradient and of its square.
        final_lr: Learning rate at the end of a cosine schedule; `lr` throughout if None.
    """

    iterations: int = 100
    lr: float = 0.05
    betas: tuple[float, float] = (0.9, 0.999)
    final_lr: float | None = None

    def __post_init__(self) -> None:
        checked_whole("Adam.iterations", self.iterations)
        checked_number("Adam.lr", self.lr, low=0.0)
        if self.final_lr is not None:
            checked_number("Adam.final_lr", self.final_lr, low=0.0)
        if not isinstance(self.betas, tuple) or len(self.betas) != 2:
            raise WrongType("Adam.betas", abbreviate(self.betas), "must be two decay rates from 0 to 1")
        for beta in self.betas:
            if checked_number("Adam.betas", beta, low=0.0) >= 1.0:
                raise OutOfRange("Adam.betas", beta, "must be >= 0 and below 1")

    def iterate(self, loss: Loss, z: torch.Tensor) -> Iterator[OptimizerStep]:
        """Yields the iterates from starts z [K, P], one per iteration."""
        leaf = z.detach().clone().requires_grad_()
        optimizer = torch.optim.Adam([leaf], lr=self.lr, betas=self.betas)
        final = self.lr if self.final_lr is None else self.final_lr
        for k, step in enumerate(_iterate_torch(optimizer, leaf, loss, self.iterations)):
            cosine = 0.5 * (1 + math.cos(math.pi * k / self.iterations))
            optimizer.param_groups[0]["lr"] = final + (self.lr - final) * cosine
            yield step


@dataclass(frozen=True)
class TorchOptimizer:
    """Any torch optimizer.

    Example:
        `gs.minimize(loss, scene, gs.TorchOptimizer(lambda p: torch.optim.SGD(p, lr=0.1), iterations=50))`

    Args:
        make: Function from a list of parameters to the optimizer.
        iterations: Number of iterations.
    """

    make: Callable[[Any], torch.optim.Optimizer]
    iterations: int = 100

    def __post_init__(self) -> None:
        check_function("TorchOptimizer.make", self.make, "a list of parameters")
        checked_whole("TorchOptimizer.iterations", self.iterations)

    def iterate(self, loss: Loss, z: torch.Tensor) -> Iterator[OptimizerStep]:
        """Yields the iterates from starts z [K, P], one per iteration."""
        leaf = z.detach().clone().requires_grad_()
        yield from _iterate_torch(self.make([leaf]), leaf, loss, self.iterations)


@dataclass(frozen=True)
class RandomSearch:
    """Random search, as a baseline: every iterate is a new sample about the start.

    Example:
        `gs.minimize(loss, scene, gs.RandomSearch(iterations=500, seed=1))`

    Args:
        iterations: Number of samples; the first is the start itself.
        std: Standard deviation, in coordinate units (see `gradsim.fit.parameters`).
        seed: Seed of the samples.
    """

    iterations: int = 100
    std: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        checked_whole("RandomSearch.iterations", self.iterations)
        checked_number("RandomSearch.std", self.std, low=0.0)
        checked_seed(self.seed)

    def iterate(self, loss: Loss, z: torch.Tensor) -> Iterator[OptimizerStep]:
        """Yields the iterates from starts z [K, P], one per iteration."""
        generator = torch.Generator().manual_seed(self.seed)
        for k in range(self.iterations):
            offset = torch.randn(z.shape, generator=generator, dtype=z.dtype) * self.std
            sample = z.detach() + (offset if k else 0.0)
            with torch.no_grad():
                losses = loss(sample)
            yield OptimizerStep(sample, losses, torch.ones_like(losses))


@dataclass(frozen=True)
class LBFGS:
    """L-BFGS with a strong Wolfe line search, one start after another.

    Example:
        `gs.minimize(loss, scene, gs.LBFGS(iterations=50))`

    Args:
        iterations: Maximum number of iterations of each start.
        history_size: Number of stored updates.
        tolerance: Converged when the largest component of the gradient is smaller.
    """

    iterations: int = 100
    history_size: int = 20
    tolerance: float = 1e-12

    def __post_init__(self) -> None:
        checked_whole("LBFGS.iterations", self.iterations, 0)
        checked_whole("LBFGS.history_size", self.history_size)
        checked_number("LBFGS.tolerance", self.tolerance, low=0.0)

    def iterate(self, loss: Loss, z: torch.Tensor) -> Iterator[OptimizerStep]:
        """Yields the iterates from starts z [K, P], one per iteration."""
        points = z.detach().clone()
        losses, gradients = _evaluate(loss, points)
        max_gradient = gradients.abs().amax(1)
        yield OptimizerStep(points.clone(), losses.clone(), max_gradient.clone())
        for k in range(len(z)):
            leaf = points[k : k + 1].clone().requires_grad_()
            optimizer = torch.optim.LBFGS(
                [leaf],
                lr=1.0,
                max_iter=1,
                history_size=self.history_size,
                tolerance_grad=self.tolerance,
                tolerance_change=0.0,
                line_search_fn="strong_wolfe",
            )

            def closure(leaf: torch.Tensor = leaf) -> torch.Tensor:
                value, leaf.grad = _evaluate(loss, leaf)
                return value.sum()

            for _ in range(self.iterations):
                previous = leaf.detach().clone()
                optimizer.step(closure)
                value, gradient = _evaluate(loss, leaf)
                points[k], losses[k], max_gradient[k] = leaf.detach()[0], value[0], gradient.abs().amax()
                yield OptimizerStep(points.clone(), losses.clone(), max_gradient.clone())
                if float(max_gradient[k]) < self.tolerance or bool((leaf.detach() == previous).all()):
                    break

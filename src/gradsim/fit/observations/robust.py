"""Robust losses: large differences, of shadows or occlusions, count less than quadratically.

A loss is written as a pseudo-residual, whose square is the loss, so that least-squares solvers minimize it unchanged.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch

from gradsim.scene.errors import OutOfRange, WrongType

SMALL = 1e-6  # ratio to the threshold below which a difference equals its pseudo-residual to rounding


@dataclass(frozen=True)
class RobustLoss(ABC):
    """A loss that is quadratic for differences well below `threshold`, in the unit of the observation."""

    threshold: float

    def __post_init__(self) -> None:
        if isinstance(self.threshold, bool) or not isinstance(self.threshold, (int, float)):
            raise WrongType("robust", repr(self.threshold), "the threshold must be a number, in the observation's unit")
        if not 0 < self.threshold < math.inf:
            raise OutOfRange("robust", self.threshold, "must be > 0, a difference in the observation's unit")

    @abstractmethod
    def pseudo_residual(self, difference: torch.Tensor) -> torch.Tensor:
        """Returns values with the signs of the differences whose squares are the loss."""

    @abstractmethod
    def weight(self, difference: torch.Tensor) -> torch.Tensor:
        """Returns the weights of squared differences that give the same gradient as the loss, at most 1."""


@dataclass(frozen=True)
class Huber(RobustLoss):
    """Quadratic up to the threshold, then linear: r^2, or 2 k |r| - k^2.

    Example:
        `gs.Tracks([gs.Center("ball")], pixels, (480, 640), robust=gs.Huber(2.0))`
    """

    def pseudo_residual(self, difference: torch.Tensor) -> torch.Tensor:
        size = difference.abs()
        linear = (2 * self.threshold * size - self.threshold**2).clamp_min(self.threshold**2).sqrt()
        return torch.where(size <= self.threshold, difference, difference.sign() * linear)

    def weight(self, difference: torch.Tensor) -> torch.Tensor:
        return self.threshold / difference.abs().clamp_min(self.threshold)


@dataclass(frozen=True)
class Cauchy(RobustLoss):
    """Logarithmic beyond the threshold: k^2 log(1 + (r / k)^2). The influence of an outlier vanishes with its size.

    Example:
        `gs.States({"cube.position": positions}, robust=gs.Cauchy(0.003))`
    """

    def pseudo_residual(self, difference: torch.Tensor) -> torch.Tensor:
        ratio = difference / self.threshold
        small = ratio.abs() < SMALL
        square = torch.where(small, 1.0, ratio) ** 2
        return difference * torch.where(small, 1.0, (torch.log1p(square) / square).sqrt())

    def weight(self, difference: torch.Tensor) -> torch.Tensor:
        return 1.0 / (1.0 + (difference / self.threshold) ** 2)


def robust_loss(value: Any) -> RobustLoss | None:
    """Returns the loss of an option `robust`: a plain number is the threshold of a Huber loss."""
    if value is None or isinstance(value, RobustLoss):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongType("robust", repr(value), "must be a threshold in the observation's unit, gs.Huber or gs.Cauchy")
    return Huber(float(value))

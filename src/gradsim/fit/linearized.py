"""Differences at an estimate and their derivatives, reduced to Gram matrices of each frame.

All later statistics (intervals, misfit, scores of nuisances, consistency of frames and trials) need only inner products
of the residual, the columns of the Jacobian and a few further directions, frame by frame. Images are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

MIN_EVIDENCE = 2.0  # increase of the log likelihood below which no model error in time is assumed

Columns = dict[tuple[int, int], list[torch.Tensor]]  # derivatives [T, N] by block


@dataclass(frozen=True, eq=False)
class Block:
    """One observation of one trial at the estimate.

    Columns of the Gram matrices, in this order: the normalized residual; the coordinates `coordinates`; shifts of the
    bodies in the image; the nuisances. Each is divided by the noise, so that inner products are in units of chi^2.
    """

    key: tuple[int, int]  # trial, observation
    coordinates: list[int]  # positions among all coordinates of the problem, without nuisances
    nuisances: int  # columns of nuisances
    shifts: int  # columns of apparent shifts
    gram: torch.Tensor  # [T, Q, Q]
    counts: torch.Tensor  # entries with positive weight in each frame, [T]
    difference: torch.Tensor = field(repr=False)  # in the unit of the observation, [T, N]
    weights: torch.Tensor | None = field(repr=False)  # effective, [T, N]; None if all are 1
    sigma: torch.Tensor = field(repr=False)  # noise, [N] or a scalar
    entries: torch.Tensor | None = field(repr=False, default=None)  # normalized Jacobian [P', T, N], of few entries
    nuisance_entries: torch.Tensor | None = field(repr=False, default=None)  # the same for the nuisances, [Q', T, N]
    image: bool = False  # whether the observation is an image
    free_noise: bool = False  # whether the noise was taken from the residuals
    refined: torch.Tensor | None = field(repr=False, default=None)  # Jacobian times change by smaller steps, [P']
    codec_errors: torch.Tensor | None = field(repr=False, default=None)  # simulated, of a compressed video, [K, T, N]
    codec_products: torch.Tensor | None = field(repr=False, default=None)  # of all columns with these errors, [Q, K]
    drift: float = 0.0  # standard deviation of errors that last for several frames, in the unit of the observation

    @property
    def shift_columns(self) -> slice:
        first = 1 + len(self.coordinates)
        return slice(first, first + self.shifts)

    @property
    def nuisance_columns(self) -> slice:
        first = 1 + len(self.coordinates) + self.shifts
        return slice(first, first + self.nuisances)

    @property
    def coordinate_columns(self) -> slice:
        return slice(1, 1 + len(self.coordinates))


@dataclass(frozen=True, eq=False)
class Linearization:
    """All blocks of a problem at an estimate z [P].

    With a basis, the coordinates of the blocks and of all results are amounts of its columns, and the observations are
    assumed to determine nothing else.
    """

    z: torch.Tensor
    blocks: list[Block]
    basis: torch.Tensor | None = None  # [P, K], orthonormal with respect to the prior information
    columns: Columns | None = field(repr=False, default=None)  # the Jacobian before normalization, unless it is large

    @property
    def count(self) -> int:
        return len(self.z) if self.basis is None else self.basis.shape[1]

    def reduced(self, information: torch.Tensor) -> torch.Tensor:
        """Returns an information matrix of all coordinates [P, P] in those of the basis."""
        return information if self.basis is None else self.basis.T @ information @ self.basis

    def expanded(self, amounts: torch.Tensor) -> torch.Tensor:
        """Returns a change of the coordinates [P] from one in the basis."""
        return amounts if self.basis is None else self.basis @ amounts

    def expanded_information(self, information: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
        """Returns an information matrix of the basis for all coordinates, [P, P]; `prior` is that of the prior."""
        if self.basis is None:
            return information
        left = prior @ self.basis
        return left @ information @ left.T

    def expanded_covariance(self, covariance: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
        """Returns a covariance of the basis for all coordinates, [P, P]; that of the prior outside the basis."""
        if self.basis is None:
            return covariance
        change = covariance - torch.eye(self.count, dtype=covariance.dtype)
        return torch.diag(1.0 / torch.diagonal(prior)) + self.basis @ change @ self.basis.T

    def information(self, frames: Any = None) -> torch.Tensor:
        """Fisher information of the coordinates [P, P]; `frames` maps a block to the frames it contributes."""
        total = self.z.new_zeros(self.count, self.count)
        for block in self.blocks:
            part = block.gram[:, block.coordinate_columns, block.coordinate_columns]
            part = part if frames is None else part[frames(block)]
            index = torch.tensor(block.coordinates)
            total[index[:, None], index] += part.sum(0)
        return total

    def gradient(self, frames: Any = None, blocks: Sequence[Block] | None = None) -> torch.Tensor:
        """Inner products of the Jacobian with the residual, [P]."""
        total = self.z.new_zeros(self.count)
        for block in self.blocks if blocks is None else blocks:
            part = block.gram[:, block.coordinate_columns, 0]
            part = part if frames is None else part[frames(block)]
            total[torch.tensor(block.coordinates)] += part.sum(0)
        return total

    @property
    def step_gradient(self) -> torch.Tensor | None:
        """Inner products of the Jacobian with the change by smaller time steps, [P]; None if that is not known."""
        total = self.z.new_zeros(self.count)
        for block in self.blocks:
            if block.refined is None:
                return None
            total[torch.tensor(block.coordinates)] += block.refined
        return total

    @property
    def total_chi2(self) -> float:
        """Sum of the squared normalized residuals."""
        return sum(float(block.gram[:, 0, 0].sum()) for block in self.blocks)

    @property
    def chi2(self) -> float:
        """Mean of the squared normalized residuals."""
        return self.total_chi2 / max(1.0, sum(float(block.counts.sum()) for block in self.blocks))

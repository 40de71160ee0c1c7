"""Sparsity of the Jacobian of several trials: residuals of a trial depend on no coordinate of another trial."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import torch


@dataclass(frozen=True, eq=False)
class Structure:
    """Which residuals depend on which coordinates.

    Coordinates of the same unknown in different trials form a group. One finite difference changes all of them.
    """

    groups: list[int]  # group of each coordinate, [P]
    owners: list[int]  # trial of each coordinate, -1 if it is shared, [P]
    rows: torch.Tensor  # trial of each residual, in the order of the trials, [N]
    constant: torch.Tensor | None = None  # known derivatives of further residuals, such as those of a prior, [P, M]

    def with_rows(self, constant: torch.Tensor | None) -> Structure:
        """Returns the structure of residuals that are followed by others with known derivatives [P, M]."""
        return replace(self, constant=constant)

    @cached_property
    def members(self) -> list[list[int]]:
        """Coordinates of each group."""
        found: dict[int, list[int]] = {}
        for k, group in enumerate(self.groups):
            found.setdefault(group, []).append(k)
        return list(found.values())

    def compress(self, steps: torch.Tensor) -> torch.Tensor:
        """Returns the steps [..., G, P] of one difference per group, for steps [..., P] of the coordinates."""
        pattern = steps.new_zeros(len(self.members), len(self.groups))
        for row, members in enumerate(self.members):
            pattern[row, members] = 1.0
        return steps[..., None, :] * pattern

    def expand(self, differences: torch.Tensor) -> torch.Tensor:
        """Returns the differences [P, N] by coordinate from those by group [G, N], 0 for rows of other trials."""
        count = len(self.rows)
        full = differences.new_zeros(len(self.groups), differences.shape[-1])
        for row, members in enumerate(self.members):
            for k in members:
                own = slice(0, count) if self.owners[k] < 0 else self._trial_rows[self.owners[k]]
                full[k, own] = differences[row, own]
        if self.constant is not None:
            full[:, count:] = self.constant
        return full

    @cached_property
    def _trial_rows(self) -> dict[int, slice]:
        """Residuals of each trial."""
        ends = torch.searchsorted(self.rows, torch.arange(max(self.owners) + 2)).tolist()
        return {trial: slice(first, end) for trial, (first, end) in enumerate(pairwise(ends))}

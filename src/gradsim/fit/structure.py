"""Sparsity of the Jacobian of several trials: residuals of a trial depend on no coordinate of another trial."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch


@dataclass(frozen=True, eq=False)
class Structure:
    """Which residuals depend on which coordinates.

    Coordinates of the same unknown in different trials form a group. One finite difference changes all of them.
    """

    groups: list[int]  # group of each coordinate, [P]
    owners: list[int]  # trial of each coordinate, -1 if it is shared, [P]
    rows: torch.Tensor  # trial of each residual, [N]

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
        count = differences.shape[-1]
        rows = torch.nn.functional.pad(self.rows, (0, count - len(self.rows)), value=-2)  # rows of a prior follow
        full = differences.new_zeros(len(self.groups), count)
        for row, members in enumerate(self.members):
            for k in members:
                own = self.owners[k]
                full[k] = differences[row] if own < 0 else torch.where(rows == own, differences[row], 0.0)
        return full

"""The batcher of a scene: it tracks which results depend on tensors, so that all others are computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import torch

from gradsim.scene.batcher import Batcher
from gradsim.scene.inertia import MassProperties
from gradsim.scene.quantity import Signal, is_per_element, unwrap
from gradsim.scene.rigid import Rigid

if TYPE_CHECKING:
    from gradsim.simulate.compile.signature import SceneSignature

V = TypeVar("V")

LARGEST_CACHED = 16384  # numbers of a tensor


class SceneBatcher(Batcher):
    """Converts the quantities of a scene to tensors [B, count, *shape], signals to [B, samples, count, *shape].

    Args:
        signature: Batch shape, dtype and device, and the values that scenes of this signature share.
        begin: Time at which the rollout starts [s].
    """

    constant_size: ClassVar[int] = 512

    def __init__(self, signature: SceneSignature, begin: float = 0.0):
        super().__init__(signature.batch, signature.dtype, signature.device)
        self.begin = begin
        self.uses_tensors = False  # whether a tensor of the scene was read since this was last reset
        self._shared = signature.shared
        self._mass_properties: dict[str, MassProperties] = {}

    def __call__(self, value: Any, count: int, shape: tuple[int, ...] = ()) -> torch.Tensor:
        """As `per_element`, and records whether the value is a tensor."""
        if isinstance(unwrap(value), torch.Tensor):
            self.uses_tensors = True
        return self.per_element(value, count, shape)

    def broadcastable(self, value: Any, count: int) -> torch.Tensor:
        """Returns a scalar quantity that broadcasts with [B, rows, count], in as few operations as possible."""
        array = unwrap(value)
        if isinstance(array, torch.Tensor) and not array.ndim:
            self.uses_tensors = True
            return array
        return self(value, count if is_per_element(value) else 1).unsqueeze(1)

    def geometry(self, body: Any, compute: Callable[[], np.ndarray]) -> Any:
        """Returns a number computed from a body's shape; a tensor if the shape is one, because it varies with it."""
        points = unwrap(getattr(body, "points", None))
        return self.tensor(compute()) if isinstance(points, torch.Tensor) else compute()

    def cached(self, key: Hashable, build: Callable[[], V]) -> V:
        """Returns build(). The result is shared by all scenes of the signature if it read no tensor."""
        found: V | None = self._shared.get(key)
        if found is None:
            before, self.uses_tensors = self.uses_tensors, False
            found = build()
            if not self.uses_tensors and _is_small(found):
                self._shared[key] = found
            self.uses_tensors = self.uses_tensors or before
        return found

    def rows(self, key: Hashable, values: Sequence[Any], count: int) -> torch.Tensor:
        """Returns one row for each quantity, [B, rows, count]; rows of signals are zero.

        Args:
            key: Identifies the elements in the scene.
            values: Scalar quantities.
            count: Number of elements.
        """
        given = [None if isinstance(value, Signal) else value for value in values]
        tensors = {row: value for row, value in enumerate(given) if isinstance(unwrap(value), torch.Tensor)}

        def plain_rows() -> torch.Tensor:
            numbers = [np.zeros(()) if value is None or row in tensors else value for row, value in enumerate(given)]
            return torch.stack([self(value, count) for value in numbers], 1)

        rows = self.cached(("rows", key), plain_rows)
        for row, value in tensors.items():
            rows = torch.where(_row_mask(row, len(given), self.device), self.broadcastable(value, count), rows)
        return rows

    def concatenate(self, pieces: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
        """As `torch.cat`, without a copy of a single piece."""
        return pieces[0] if len(pieces) == 1 else torch.cat(list(pieces), dim)

    def unit_quaternion(self, key: Hashable, rotation: Any) -> torch.Tensor:
        """Returns a rotation as a unit quaternion, [B, 1, 4]; None is no rotation."""

        def build() -> torch.Tensor:
            q = self(np.array([0.0, 0.0, 0.0, 1.0]) if rotation is None else rotation, 1, (4,))
            return q / q.norm(dim=-1, keepdim=True)

        return self.cached(key, build)

    def mass_properties(self, body: Rigid) -> MassProperties:
        """Returns the mass properties of a rigid body, computed once per rollout."""
        if body.name not in self._mass_properties:
            self._mass_properties[body.name] = body.mass_properties(self.dtype, self.device)
        return self._mass_properties[body.name]


def _is_small(value: Any) -> bool:
    """Returns whether a value may be stored for other rollouts."""
    return not isinstance(value, torch.Tensor) or (value.numel() <= LARGEST_CACHED and not value.is_inference())


@cache
def _row_mask(row: int, count: int, device: torch.device) -> torch.Tensor:
    """Returns a mask of one of `count` rows, [count, 1]."""
    with torch.inference_mode(False):  # a later call may differentiate through it
        return torch.arange(count, device=device)[:, None] == row

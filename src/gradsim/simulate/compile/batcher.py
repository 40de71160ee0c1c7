"""The batcher of a scene: it tracks which results depend on tensors, so that all others are computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache, partial
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
        """As `per_element`, and records whether the value is a tensor of the scene."""
        self.record(value)
        return self.per_element(value, count, shape)

    def record(self, *values: Any) -> bool:
        """Records whether one of these quantities of the scene is a tensor, and returns it."""
        found = any(isinstance(unwrap(value), torch.Tensor) for value in values)
        self.uses_tensors = self.uses_tensors or found
        return found

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

    def cached_each(self, key: Hashable, names: Iterable[str], build: Callable[[str], V]) -> dict[str, V]:
        """Returns build(name) by name. Results that read no tensor are shared by all scenes of the signature."""
        known: tuple[dict[str, V], tuple[str, ...]] | None = self._shared.get(key)
        if known is not None:
            fixed, varying = known
            return fixed | {name: build(name) for name in varying} if varying else fixed
        before, uses_tensors, found, varying = self.uses_tensors, False, {}, ()
        for name in names:
            self.uses_tensors = False
            found[name] = build(name)
            if self.uses_tensors or not _is_small(found[name]):
                varying += (name,)
            uses_tensors = uses_tensors or self.uses_tensors
        self._shared[key] = ({name: None if name in varying else value for name, value in found.items()}, varying)
        self.uses_tensors = before or uses_tensors
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
        found = self._mass_properties.get(body.name)
        if found is not None:
            self.uses_tensors = True
            return found
        key, quantities = ("mass properties", body.name), (body.mass, body.density, body.inertia, body.center)

        def unit() -> MassProperties:
            return self._derived(body.scaled_solid, *_extent(body))

        def properties() -> MassProperties:
            own = None if is_per_element(body.mass) else self.cached(("unit solid", body.name), unit)
            return self._derived(partial(body.mass_properties, unit=own), *quantities, *_extent(body))

        found = self.cached(key, properties)
        if key not in self._shared:
            self._mass_properties[body.name] = found
        return found

    def scale(self, body: Rigid) -> torch.Tensor | None:
        """Returns the factors from mesh to body coordinates, [..., 3]; None for the size of the mesh."""
        return self._derived(body.scale, *_extent(body)) if body.is_scaled else None

    def _derived(self, compute: Callable[[torch.dtype, torch.device], V], *quantities: Any) -> V:
        """Returns what `compute` derives from quantities of the scene; differentiable in them if there are tensors."""
        if self.record(*quantities):
            return compute(self.dtype, self.device)
        with torch.inference_mode(False):  # a later call may differentiate through it
            return compute(self.dtype, self.device)


def _is_small(value: Any) -> bool:
    """Returns whether a value may be stored for other rollouts."""
    return not isinstance(value, torch.Tensor) or (value.numel() <= LARGEST_CACHED and not value.is_inference())


def _extent(body: Rigid) -> tuple[Any, Any]:
    """Returns the quantities that scale a rigid body: those of a ball and of other bodies."""
    return getattr(body, "radius", None), body.size


@cache
def _row_mask(row: int, count: int, device: torch.device) -> torch.Tensor:
    """Returns a mask of one of `count` rows, [count, 1]."""
    with torch.inference_mode(False):  # a later call may differentiate through it
        return torch.arange(count, device=device)[:, None] == row

"""Prescribed motion: displacement and rotation in time, of pinned nodes, rigid bodies and static shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.quantity import Quantity, Signal, is_per_element, quantity, sample_count, specs_of
from gradsim.scene.rotation import aligned_signs, rotate
from gradsim.scene.validation import check_element_count, has_zero_vector, validate_quantities


@dataclass(frozen=True, eq=False)
class Motion:
    """The motion of something that forces do not move: a clamp, a gripper, a moving plate.

    A point that is at x at the start of the motion without displacement is at c + R(t) (x - c) + displacement(t). The
    samples of a signal are evenly spaced over the rollout. Between them runs a cubic through the samples whose slope
    at each is the mean slope of both intervals (Catmull-Rom), so that the velocity, its derivative, is continuous.

    Example:
        `gs.StaticBox(motion=gs.Motion(displacement=gs.Signal(np.linspace((0, 0, 0), (1, 0, 0), 20))))`

    Args:
        displacement: [m], `gs.Signal` with [..., K, 3]; for pinned nodes also `gs.Signal(gs.per_element(...))` with
            [..., K, P, 3], one for each pinned node in the order of its index.
        rotation: Rotation R from the initial orientation, quaternions (x, y, z, w), `gs.Signal` with [..., K, 4] of as
            many samples as the displacement; neighbours differ by less than half a turn. None is no rotation.
        center: Centre c of the rotation [m], [..., 3]; the position of the body or shape if None.
    """

    displacement: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,), per="pinned node", signal=True)
    rotation: Quantity | None = quantity(None, "1", shape=(4,), signal=True)
    center: Quantity | None = quantity(None, "m", shape=(3,))

    def __post_init__(self) -> None:
        validate_quantities(self, "Motion")
        counts = {name: count for name, count in self._counts().items() if count > 1}
        if not counts:
            raise InvalidInput("Motion", "no signal", "give the displacement or the rotation as a gs.Signal")
        if len(set(counts.values())) > 1:
            found = f"{counts['displacement']} displacements and {counts['rotation']} rotations"
            raise WrongShape("Motion", found, "both signals need the same number of samples")
        if self.rotation is not None and has_zero_vector(self.rotation):
            raise OutOfRange("Motion.rotation", "(0, 0, 0, 0)", "must not be zero; (0, 0, 0, 1) is the identity")

    def _counts(self) -> dict[str, int]:
        return {
            "displacement": sample_count(self.displacement, (3,)),
            "rotation": sample_count(self.rotation, (4,)),
        }

    @property
    def sample_count(self) -> int:
        """Samples in time."""
        return max(self._counts().values())


def check_motion(label: str, motion: Any, pinned: int | None = None) -> None:
    """Raises unless a motion is None or fits its owner; `pinned` counts the pinned nodes of a body made of nodes."""
    if motion is None:
        return
    if not isinstance(motion, Motion):
        raise WrongType(label, type(motion).__name__, "must be a gs.Motion or None")
    if pinned is None and is_per_element(motion.displacement):
        raise WrongType(f"{label}.displacement", "per_element(...)", "is for pinned nodes; this moves as a whole")
    if pinned == 0:
        raise InvalidInput(label, "no pinned nodes", "is the motion of pinned nodes: give `pinned` as well")
    if pinned is not None:
        spec = specs_of(Motion)["displacement"]
        check_element_count(f"{label}.displacement", motion.displacement, spec, pinned)


Convert = Callable[
    [Any, int, tuple[int, ...]], torch.Tensor
]  # (quantity, count, shape) -> [B, (samples,) count, *shape]


def motion_samples(value: Any, count: int, shape: tuple[int, ...], convert: Convert, samples: int) -> torch.Tensor:
    """Returns a quantity of a motion at all samples, [B, K, count, *shape]; a constant is the same at all of them."""
    values = convert(value, count, shape)
    if isinstance(value, Signal):
        return values
    return values.unsqueeze(1).expand(-1, samples, *(-1,) * (values.ndim - 1))


def rotation_samples(motion: Motion, convert: Convert) -> torch.Tensor | None:
    """Returns the rotations of a motion as unit quaternions whose neighbours have like signs, [B, K, 1, 4], or None."""
    if motion.rotation is None:
        return None
    turns = unit(motion_samples(motion.rotation, 1, (4,), convert, motion.sample_count))
    return turns * aligned_signs(turns, 1)


def moved_samples(
    x: torch.Tensor, motion: Motion, turns: torch.Tensor | None, center: torch.Tensor, convert: Convert
) -> torch.Tensor:
    """Returns points at the samples of a motion.

    Args:
        x: Points at the start without displacement [m], [B, 1, count, 3].
        motion: The motion.
        turns: As from `rotation_samples`.
        center: Default of the centre of rotation [m], [B, 1, 3].
        convert: Converts quantities.

    Returns:
        [B, K, count, 3].
    """
    if turns is not None:
        c = (center if motion.center is None else convert(motion.center, 1, (3,)))[:, None]
        x = c + rotate(turns, x - c)
    count = x.shape[-2] if is_per_element(motion.displacement) else 1
    return x + motion_samples(motion.displacement, count, (3,), convert, motion.sample_count)


def unit(q: torch.Tensor) -> torch.Tensor:
    """Returns quaternions [..., 4] of unit length."""
    return q / q.norm(dim=-1, keepdim=True)


def interpolate(samples: torch.Tensor, fractions: torch.Tensor) -> torch.Tensor:
    """Returns a motion between its samples, as `simulate` does.

    Args:
        samples: [B, K, ...].
        fractions: Fractions of the whole duration, from 0 to 1, [B or 1, T].

    Returns:
        The values, [B, T, ...].
    """
    count = samples.shape[1]
    place = fractions * (count - 1)
    first = place.detach().long().clamp(0, count - 2)
    s = place - first
    u = 1.0 - s
    before, after = -0.5 * s * u * u, -0.5 * u * s * s
    near, far = 1.0 - s * s * (2.5 - 1.5 * s), 1.0 - u * u * (2.5 - 1.5 * u)
    start, end, zero = first == 0, first == count - 2, torch.zeros_like(s)
    extra, beyond = torch.where(start, before, zero), torch.where(end, after, zero)
    # Samples beyond the ends continue the line through the last two.
    weights = (before - extra, near + 2.0 * extra - beyond, far - extra + 2.0 * beyond, after - beyond)
    worlds = torch.arange(samples.shape[0], device=samples.device)[:, None]
    terms = []
    for offset, weight in zip((-1, 0, 1, 2), weights, strict=True):
        chosen = samples[worlds, (first + offset).clamp(0, count - 1)]
        terms.append(chosen * weight.view(*weight.shape, *(1,) * (samples.ndim - 2)))
    return torch.stack(terms).sum(0)

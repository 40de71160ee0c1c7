"""The base class of observations: what all kinds share."""

from __future__ import annotations

import copy
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import FrozenInstanceError, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch

from gradsim.fit.observations.robust import RobustLoss, robust_loss
from gradsim.scene.camera import Camera
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.quantity import quantities, unknowns_in
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate
from gradsim.scene.trajectory import Trajectory
from gradsim.scene.unknown import Unknown

Adjust: TypeAlias = Callable[[torch.Tensor], torch.Tensor]  # rendered colours [..., H, W, 3] -> same
Index: TypeAlias = "slice | torch.Tensor"  # of entries of a frame

O = TypeVar("O", bound="Observation")


class Observation(ABC):
    """Measurements of a motion over T frames, with N entries in a frame at each level of detail.

    Observations are immutable. `replaced` returns a copy with other arguments. Options of every kind, by keyword:

    Args:
        noise: Standard deviation of an entry, in `unit`; None if it is to be estimated.
        robust: Robust loss, `gs.Huber(threshold)` or `gs.Cauchy(threshold)`; a number is the threshold of a Huber loss,
            None is the quadratic loss.
        frames: Indices of the frames that are compared; all if None.
        offset: Time from the start of the scene to the first frame [s], or an unknown; None for zero.
        camera: Camera of this observation, without unknowns; None for that of the scene. Only kinds that are seen by a
            camera have it.
    """

    unit: str  # of the entries
    noise: Any  # float | None; a mapping from group to float for entries of several units
    robust: Any  # RobustLoss | None; or a mapping, as for `noise`
    camera: Camera | None
    offset: float | Unknown | None
    included: tuple[int, ...] | None  # indices of the frames that are compared; all if None
    drift: float = 0.0  # standard deviation of errors that last for several frames, in `unit`
    option_names: tuple[str, ...] = ("noise", "robust", "frames", "offset", "camera")

    def __init__(self, length: int, options: Mapping[str, Any], arguments: Mapping[str, Any]):
        """Stores the options that all kinds share.

        Args:
            length: Number of frames T.
            options: Options by keyword, among `option_names`.
            arguments: All other arguments of the constructor by keyword; they become attributes.
        """
        if length < 1:
            raise WrongShape(self._name, "no frames", "an observation needs at least one frame")
        for name, value in options.items():
            if name not in self.option_names:
                known = ", ".join((*arguments, *self.option_names))
                raise InvalidInput(name, brief(value), f"does not apply to {self._name}, which has {known}")
        vars(self).update(
            arguments,
            _arguments={**arguments, **options},
            _length=length,
            included=_checked_frames(options.get("frames"), length),
            noise=_checked_values(_checked_noise, options.get("noise")),
            robust=_checked_values(robust_loss, options.get("robust")),
            camera=_checked_camera(options.get("camera")),
            offset=_checked_offset(options.get("offset")),
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"{self._name} is immutable: use .replaced({name}=...)")

    def __repr__(self) -> str:
        return f"{self._name}({self.frames} frames of {self.entries(self.levels - 1)} entries [{self.unit}])"

    @property
    def _name(self) -> str:
        return f"gs.{type(self).__name__}"

    @property
    def frames(self) -> int:
        """Number of frames T."""
        return int(vars(self)["_length"])

    @property
    def levels(self) -> int:
        """Number of levels of detail; level 0 is the coarsest."""
        return 1

    @abstractmethod
    def entries(self, level: int) -> int:
        """Number of entries N in a frame."""

    @abstractmethod
    def difference(
        self,
        scene: Scene,
        trajectory: Trajectory,
        level: int,
        *,
        samples: int = 1,
        readouts: int = 1,
        adjust: Adjust | None = None,
    ) -> torch.Tensor:
        """Returns differences of a simulated motion from the observed one, [..., T', N] in `unit`, 0 where missing.

        Args:
            scene: Scene with all values known; leading dimensions are a batch of worlds.
            trajectory: Its motion at the first T' <= T frames.
            level: Level of detail.
            samples: Rendered images are averaged over this many consecutive frames of the trajectory, which then has
                T' samples frames: the exposure of a frame. Only observations by images have more than 1.
            readouts: Times at which the rows of a frame are read out. The trajectory has T' readouts samples frames:
                for images at equal distances from the first row to the last, for image tracks one for each point.
            adjust: Map of the rendered colours, only for colours.
        """

    def entry_weights(self, level: int) -> torch.Tensor | None:
        """Weights of the entries [T, N], 0 where missing; None if all are 1."""
        return None

    def weights(self, level: int) -> torch.Tensor | None:
        """Weights of the squared differences [T, N], 0 for missing entries and excluded frames; None if all are 1."""
        weights = self.entry_weights(level)
        if self.included is None:
            return weights
        frames = torch.zeros(self.frames, 1, dtype=torch.float64)
        frames[list(self.included)] = 1.0
        return frames.expand(-1, self.entries(level)) if weights is None else weights * frames

    @cached_property
    def _weight_roots(self) -> list[torch.Tensor | None]:
        """Square roots of the weights at each level."""
        weights = [self.weights(level) for level in range(self.levels)]
        return [None if w is None else w.sqrt() for w in weights]

    def residual(
        self,
        scene: Scene,
        trajectory: Trajectory,
        level: int,
        *,
        samples: int = 1,
        readouts: int = 1,
        adjust: Adjust | None = None,
    ) -> torch.Tensor:
        """Returns the differences after the robust loss, times the roots of the weights, [..., T', N] in `unit`.

        Arguments as for `difference`. The sum of squares is that of weights times robust losses of the differences.
        """
        times: dict[str, Any] = {"samples": samples, "readouts": readouts} if samples * readouts > 1 else {}
        difference = self.difference(scene, trajectory, level, adjust=adjust, **times)
        loss, roots = self._pseudo_residual(difference), self._weight_roots[level]
        return loss if roots is None else loss * roots[: loss.shape[-2]]

    def _pseudo_residual(self, difference: torch.Tensor) -> torch.Tensor:
        """Applies the robust loss to differences [..., T', N], by group if there are several."""
        if isinstance(self.robust, RobustLoss):
            return self.robust.pseudo_residual(difference)
        if self.robust is None:
            return difference
        result = difference.clone()
        for name, index in self.groups():
            if (loss := self.robust.get(name)) is not None:
                result[..., index] = loss.pseudo_residual(difference[..., index])
        return result

    def groups(self) -> list[tuple[str, Index]]:
        """Names of the kinds of entries, and the entries of a frame that belong to each, at the finest level."""
        return [(type(self).__name__.lower(), slice(None))]

    def group_unit(self, group: str) -> str:
        """Unit of the entries of a group."""
        return self.unit

    def group_noise(self, group: str) -> float | None:
        """Given standard deviation of the entries of a group; None if it is not given."""
        noise: float | None = self.noise.get(group) if isinstance(self.noise, Mapping) else self.noise
        return noise

    def group_threshold(self, group: str) -> float | None:
        """Threshold of the robust loss of the entries of a group: the size of residuals that are expected."""
        loss = self.robust.get(group) if isinstance(self.robust, Mapping) else self.robust
        return None if loss is None else float(loss.threshold)

    def estimated_noise(self) -> float | None:
        """Standard deviation of an entry, from the measurements alone; None if they do not show it."""
        return None

    def series(self) -> torch.Tensor | None:
        """Measured entries over time, [T, N], NaN where missing; None for images."""
        return None

    def replaced(self: O, **arguments: Any) -> O:
        """Returns a copy with some arguments of the constructor replaced."""
        return type(self)(**{**vars(self)["_arguments"], **arguments})

    def with_camera(self: O, camera: Camera | None) -> O:
        """Returns a copy with another camera, such as one whose unknowns are filled in, that shares all data."""
        other = copy.copy(self)
        vars(other)["camera"] = _checked_camera(camera)
        return other

    def view(self, scene: Scene) -> Scene:
        """Returns the scene as this observation sees it: with its own camera, if it has one."""
        return scene if self.camera is None else replace(scene, camera=self.camera)

    def check_no_images(self, samples: int, adjust: Adjust | None, readouts: int = 1) -> None:
        """Raises if an option of rendered images is given to an observation that is not rendered."""
        for option, value in (("samples", samples), ("readouts", readouts)):
            if value != 1:
                raise InvalidInput(option, value, f"does not apply to {self._name}, which is not rendered")
        self.check_no_colors(adjust)

    def check_no_colors(self, adjust: Adjust | None) -> None:
        """Raises if a map of colours is given to an observation without colours."""
        if adjust is not None:
            raise InvalidInput("adjust", "given", f"does not apply to {self._name}, which has no colours")


def brief(value: Any) -> str:
    """Returns a short text for a value of any type."""
    shape = getattr(value, "shape", None)
    return abbreviate(value) if shape is None or not len(shape) else f"array of shape {tuple(shape)}"


def measurements(name: str, values: Any) -> torch.Tensor:
    """Returns measured values as a float64 tensor without gradient; NaN marks missing ones."""
    try:
        array = values.detach() if isinstance(values, torch.Tensor) else torch.as_tensor(np.asarray(values))
        array = array.to(torch.float64)
    except (TypeError, ValueError):
        raise WrongType(name, brief(values), "must be an array of numbers, NaN where missing") from None
    if bool(torch.isinf(array).any()):
        raise OutOfRange(name, "infinite", "must be finite, or NaN where a measurement is missing")
    return array


def _checked_values(check: Callable[[Any], Any], value: Any) -> Any:
    """Applies a check to a value, or to each value of a mapping."""
    return {key: check(item) for key, item in value.items()} if isinstance(value, Mapping) else check(value)


def _checked_noise(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongType("noise", brief(value), "must be a standard deviation in the observation's unit, or None")
    if not 0 < value < math.inf:
        raise OutOfRange("noise", value, "must be > 0 and finite, a standard deviation in the observation's unit")
    return float(value)


def _checked_frames(frames: Sequence[int] | None, length: int) -> tuple[int, ...] | None:
    if frames is None:
        return None
    try:
        indices = tuple(operator.index(frame) for frame in frames)
    except TypeError:
        raise WrongType("frames", brief(frames), "must be a list of whole numbers, such as range(2, 20)") from None
    for frame in indices:
        if not 0 <= frame < length:
            raise OutOfRange("frames", frame, f"must be >= 0 and < {length}, the number of frames")
    if not indices:
        raise OutOfRange("frames", "empty", f"must select at least one of the {length} frames")
    return indices


def _checked_camera(camera: Any) -> Camera | None:
    if camera is None:
        return None
    if not isinstance(camera, Camera):
        raise WrongType("camera", brief(camera), "must be a gs.Camera, or None for the camera of the scene")
    for name, _ in quantities(camera):
        for path, unknown in unknowns_in(f"camera.{name}", getattr(camera, name)):
            remedy = "must be known in the camera of an observation: only the camera of the scene has unknowns"
            raise InvalidInput(path, unknown, remedy)
    return camera


def _checked_offset(offset: Any) -> float | Unknown | None:
    if offset is None or (isinstance(offset, Unknown) and offset.shape == ()):
        return offset
    if isinstance(offset, bool) or not isinstance(offset, (int, float)) or not math.isfinite(offset):
        raise WrongType("offset", brief(offset), "must be a number [s], gs.unknown(0.0, low=..., high=...) or None")
    return float(offset)

"""What a user says about a recording: which object, a known length, the floor, what to ignore."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange

Box = tuple[float, float, float, float]  # x1, y1, x2, y2 [px]


@dataclass(frozen=True)
class Choices:
    """What is known about a recording; every choice may be left out.

    Args:
        object: A pixel of the object (x, y) [px], in the frame `object_frame` or in any one.
        object_frame: Frame in which `object` was picked.
        scale: Ends of a known length in the plane of the motion and the length: x1, y1, x2, y2 [px], [m].
        diameter: Diameter of the object [m].
        floor: Line on which the object lands, x1, y1, x2, y2 [px].
        ignore: Rectangles in which nothing is looked for, each x1, y1, x2, y2 [px].
        motion: Kind of motion, such as "bounce"; chosen automatically if None.
        gravity: Known gravity [m/s^2]. If None, it is estimated where a length is known and 9.81 otherwise.
        mass: Mass of the object [kg].
        level: Whether the camera was levelled, so that pitch and roll are below a few degrees.
        rolling_shutter: Time from the exposure of the first row of a frame to that of the last [s].
    """

    object: tuple[float, float] | None = None
    object_frame: int | None = None
    scale: tuple[float, float, float, float, float] | None = None
    diameter: float | None = None
    floor: Box | None = None
    ignore: tuple[Box, ...] = ()
    motion: str | None = None
    gravity: float | None = None
    mass: float | None = None
    level: bool = False
    rolling_shutter: float = 0.0

    def __post_init__(self) -> None:
        for name in ("object", "scale", "floor", "ignore"):
            value = getattr(self, name)
            if value is not None and not all(map(math.isfinite, _flat(value))):
                raise NotFinite(name, value, "must be finite numbers")
        for name in ("diameter", "gravity", "mass"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise OutOfRange(name, value, "must be > 0 and finite, in SI units")
        if not 0 <= self.rolling_shutter < math.inf:
            raise OutOfRange("rolling_shutter", self.rolling_shutter, "must be >= 0 [s], less than a frame")
        if self.scale is not None:
            x1, y1, x2, y2, length = self.scale
            if not 0 < length < math.inf:
                raise OutOfRange("scale", length, "the known length must be > 0 [m]")
            if math.hypot(x2 - x1, y2 - y1) < 2:
                raise InvalidInput("scale", self.scale, "its ends must be at least 2 px apart")


def _flat(value: Any) -> Iterator[float]:
    """Yields the numbers of nested tuples."""
    for part in value:
        yield from _flat(part) if isinstance(part, tuple) else (part,)

"""Ambient, directional and point lights. At an intensity of 1 a surface has its own colour."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import TypeAlias

import numpy as np

from gradsim.scene.errors import OutOfRange
from gradsim.scene.quantity import Quantity, quantity, to_numpy
from gradsim.scene.validation import validate_quantities

WHITE = (1.0, 1.0, 1.0)


@dataclass(frozen=True, eq=False)
class AmbientLight:
    """Light that is the same on every surface.

    Example:
        `gs.Scene([cube], lights=[gs.AmbientLight(0.4), gs.DirectionalLight((0.0, -1.0, -0.5))])`

    Args:
        intensity: Intensity, [...].
        color: Red, green, blue, [..., 3].
    """

    intensity: Quantity = quantity(1.0, "1", low=0.0)
    color: Quantity = quantity(WHITE, "1", shape=(3,), low=0.0)

    def __post_init__(self) -> None:
        validate_quantities(self, "AmbientLight")


@dataclass(frozen=True, eq=False)
class DirectionalLight:
    """Parallel light, as from the sun, without shadows.

    Example:
        `gs.DirectionalLight(direction=(0.3, -1.0, -0.5), intensity=0.8)`

    Args:
        direction: Direction in which the light travels, of any length, [..., 3].
        intensity: Intensity on a surface that faces the light, [...].
        color: Red, green, blue, [..., 3].
    """

    direction: Quantity = quantity(MISSING, "1", shape=(3,))
    intensity: Quantity = quantity(1.0, "1", low=0.0)
    color: Quantity = quantity(WHITE, "1", shape=(3,), low=0.0)

    def __post_init__(self) -> None:
        validate_quantities(self, "DirectionalLight")
        direction = to_numpy(self.direction)
        if direction is not None and not np.all((direction**2).sum(-1) > 0.0):
            raise OutOfRange("DirectionalLight.direction", "(0, 0, 0)", "must not be the zero vector")


@dataclass(frozen=True, eq=False)
class PointLight:
    """Light from a point, without attenuation and without shadows.

    Example:
        `gs.PointLight(position=(1.0, 3.0, 2.0), intensity=0.7)`

    Args:
        position: Position [m], [..., 3].
        intensity: Intensity on a surface that faces the light, at any distance, [...].
        color: Red, green, blue, [..., 3].
    """

    position: Quantity = quantity(MISSING, "m", shape=(3,))
    intensity: Quantity = quantity(1.0, "1", low=0.0)
    color: Quantity = quantity(WHITE, "1", shape=(3,), low=0.0)

    def __post_init__(self) -> None:
        validate_quantities(self, "PointLight")


Light: TypeAlias = "AmbientLight | DirectionalLight | PointLight"
LIGHTS = (AmbientLight, DirectionalLight, PointLight)

# The light comes from the upper right, behind a camera that looks along -z. The intensities sum to 1, so a surface that
# faces the light has its own colour.
DEFAULT_LIGHTS = (AmbientLight(0.4), DirectionalLight((-0.45, -1.0, -0.7), 0.6))

"""How bodies look: colour or texture, and how they answer light."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.quantity import (
    Plain,
    Quantity,
    Spec,
    quantities,
    quantity,
    unwrap,
    validate_quantities,
    validated_array,
)

GREY = (0.7, 0.7, 0.72)


@dataclass(frozen=True, eq=False)
class Look:
    """A surface's colour and shine.

    A corner of a triangle shows color * (ambient + diffuse * sum of lights * cos) + specular * sum of lights * cos *
    (n . h)^shininess, with cos between the normal n and the light and h half-way between light and eye (Blinn). Colours
    lie in [0, 1] and are interpolated linearly over the triangle, with perspective. Much light may add up to more than
    1: nothing is clamped, so that no gradient is lost.

    Args:
        color: Of the whole body, [..., 3]; grey if no colour is given. Multiplies the texture where both are given.
        vertex_colors: One for each vertex of the mesh instead, [..., V, 3].
        face_colors: One for each face of the surface instead, [..., F, 3].
        texture: Image, [h, w, 3], top row first; its repetitions fill the plane of texture coordinates.
        uv: Texture coordinates, (0, 0) at the image's lower left and (1, 1) at its upper right: for vertices [V, 2] or
            for the corners of faces [F, 3, 2]. If None the mesh's own, and without these each face is projected along
            the axis its normal is closest to, onto the bounding box.
        diffuse: Share of directed light that is scattered, [...].
        specular: Strength of highlights, [...].
        shininess: Exponent of highlights, >= 1, larger for smaller ones, [...].
        smooth: Edges between faces that meet at a smaller angle than this at rest are shaded smoothly [degrees]; 0
            shows facets.
        two_sided: Whether the inside is seen too; if None, where the surface is not closed.
        lit: Whether light matters; the bare colour is seen otherwise.
    """

    color: Quantity | None = quantity(None, "1", shape=(3,))
    vertex_colors: Plain | None = None
    face_colors: Plain | None = None
    texture: Plain | None = None
    uv: Plain | None = None
    diffuse: Quantity = quantity(1.0, "1", low=0.0)
    specular: Quantity = quantity(0.0, "1", low=0.0)
    shininess: Quantity = quantity(20.0, "1", low=1.0)
    smooth: float = 40.0
    two_sided: bool | None = None
    lit: bool = True

    def __post_init__(self) -> None:
        validate_quantities(self, "Look")
        given = [name for name in ("color", "vertex_colors", "face_colors") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidInput("Look.color", " and ".join(given), "give one of color, vertex_colors and face_colors")
        self._check_arrays()
        for name in ("color", "vertex_colors", "face_colors", "texture"):
            check_color(f"Look.{name}", getattr(self, name))
        if isinstance(self.smooth, bool) or not isinstance(self.smooth, (int, float)):
            raise WrongType("Look.smooth", repr(self.smooth), "must be a number [degrees]")
        if not 0.0 <= self.smooth <= 180.0:
            raise OutOfRange("Look.smooth", self.smooth, "must lie in [0, 180] degrees; 0 shows facets")
        if self.two_sided not in (None, True, False) or self.lit not in (True, False):
            raise WrongType(
                "Look.two_sided/lit", (self.two_sided, self.lit), "must be True or False (or None: two_sided)"
            )

    def _check_arrays(self) -> None:
        shapes = {
            "vertex_colors": ("[..., V, 3]", 3, lambda n: n >= 2),
            "face_colors": ("[..., F, 3]", 3, lambda n: n >= 2),
            "texture": ("[h, w, 3]", 3, lambda n: n == 3),
            "uv": ("[V, 2] or [F, 3, 2]", 2, lambda n: n in (2, 3)),
        }
        for name, (text, width, fits) in shapes.items():
            if getattr(self, name) is None:
                continue
            array = validated_array(f"Look.{name}", getattr(self, name), Spec("1"))
            if not fits(array.ndim) or array.shape[-1] != width or 0 in array.shape:
                raise WrongShape(f"Look.{name}", f"shape {tuple(array.shape)}", f"must have shape {text}")
            object.__setattr__(self, name, array)
        if self.uv is not None and self.texture is None:
            raise InvalidInput("Look.uv", "given without texture", "texture coordinates need a texture")


@dataclass(frozen=True, eq=False)
class Checker:
    """Square tiles of two colours on a ground, about the point of the plane that is closest to the origin.

    Args:
        colors: The tiles' two colours, [..., 2, 3]; equal ones for a plain ground.
        tile: Edge of a tile [m].
        size: Edge of the whole square [m], rounded to whole tiles.
        lit: Whether light matters; the bare colours are seen otherwise.
    """

    colors: Quantity = quantity(((0.85, 0.85, 0.85), (0.6, 0.6, 0.62)), "1", shape=(2, 3))
    tile: float = 0.5
    size: float = 10.0
    lit: bool = True

    def __post_init__(self) -> None:
        validate_quantities(self, "Checker")
        check_color("Checker.colors", self.colors)
        for name in ("tile", "size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise WrongType(f"Checker.{name}", repr(value), "must be a number [m]")
            if not 0.0 < value < float("inf"):
                raise OutOfRange(f"Checker.{name}", value, "must be > 0 and finite [m]")

    @property
    def tile_count(self) -> int:
        """Tiles along an edge."""
        return max(1, round(self.size / self.tile))


def check_color(name: str, value: Any) -> None:
    """Raise if plain numbers leave [0, 1]; tensors may, because an optimizer takes them where it likes."""
    array = unwrap(value)
    if isinstance(array, np.ndarray) and (array.min() < 0.0 or array.max() > 1.0):
        worst = array.min() if array.min() < 0.0 else array.max()
        raise OutOfRange(name, f"{worst:g}", "colours lie in [0, 1]; divide values of 0 to 255 by 255")


def check_look(name: str, look: Any, count_parts: Callable[[], tuple[int, int]]) -> None:
    """Raise unless a body's look is one, and fits its mesh, whose vertices and faces are counted only if it matters."""
    if look is None:
        return
    if not isinstance(look, Look):
        raise WrongType(f"{name}.look", type(look).__name__, "must be a gs.Look, or None to leave it out of pictures")
    given = {field: unwrap(getattr(look, field)) for field in ("vertex_colors", "face_colors", "uv")}
    for field, array in given.items():
        if array is None:
            continue
        vertex_count, face_count = count_parts()
        of_vertices = field == "vertex_colors" or (field == "uv" and array.ndim == 2)
        count, things = (vertex_count, "vertices") if of_vertices else (face_count, "faces")
        tail = {
            "vertex_colors": (count, 3),
            "face_colors": (count, 3),
            "uv": (count, 2) if of_vertices else (count, 3, 2),
        }
        if tuple(array.shape[-len(tail[field]) :]) != tail[field]:
            raise WrongShape(f"{name}.look.{field}", f"shape {tuple(array.shape)}", f"its body has {count} {things}")


def look_quantities(look: Look | Checker) -> Iterator[tuple[str, Any, Spec]]:
    """Name, value and specification of everything about a look that is given and may carry a gradient."""
    for name, spec in quantities(look):
        if getattr(look, name) is not None:
            yield name, getattr(look, name), spec
    for name, own in (("vertex_colors", 2), ("face_colors", 2), ("texture", 3), ("uv", 3)):
        value = unwrap(getattr(look, name, None))
        if value is not None:
            yield name, value, Spec("1", shape=tuple(value.shape[-own:]))

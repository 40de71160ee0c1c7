"""Appearance of bodies: colour or texture, and shading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.quantity import Quantity, Spec, TensorLike, quantities, quantity, unwrap
from gradsim.scene.validation import check_positive_length, validate_quantities, validated_array

GREY = (0.7, 0.7, 0.72)

MAX_TILES = 400  # along an edge of a checkerboard; each is two triangles in every frame


@dataclass(frozen=True, eq=False)
class Look:
    """Appearance of a surface: colour or texture, and Blinn-Phong shading.

    The colour at a corner of a triangle is color * (ambient + diffuse * sum of lights * cos) + specular * sum of lights
    * cos * (n . h)^shininess, where cos is that of the angle between the normal n and the direction to the light, and h
    is the unit vector half-way between light and eye. Colours lie in [0, 1] and are interpolated over the triangle with
    perspective correction. Shaded values above 1 are not clamped, so that they keep their gradient.

    Example:
        `gs.Look(color=(0.9, 0.3, 0.1), specular=0.3)`

    Args:
        color: Colour of the whole body, [..., 3]; grey if no colour is given. Multiplies the texture if both are given.
        vertex_colors: Colour of each vertex of the mesh instead, [..., V, 3].
        face_colors: Colour of each face of the surface instead, [..., F, 3].
        texture: Image, [h, w, 3], top row first; repeated for texture coordinates outside [0, 1].
        uv: Texture coordinates, (0, 0) at the image's lower left and (1, 1) at its upper right: per vertex [V, 2], or
            per corner of a face [F, 3, 2]. None takes those of the mesh; if it has none, each face is projected onto
            the bounding box along the axis closest to its normal.
        diffuse: Diffuse reflectance, [...].
        specular: Specular reflectance, [...].
        shininess: Specular exponent, >= 1, [...]; larger values give smaller highlights.
        smooth: Shade edges smoothly if their faces meet at a smaller angle than this at rest [degrees]; 0 gives flat
            shading.
        two_sided: Whether back faces are visible; None makes them visible where the surface is not closed.
        lit: Whether lights affect the surface; otherwise it has its colour without shading.
    """

    color: Quantity | None = quantity(None, "1", shape=(3,))
    vertex_colors: TensorLike | None = None
    face_colors: TensorLike | None = None
    texture: TensorLike | None = None
    uv: TensorLike | None = None
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
            raise OutOfRange("Look.smooth", self.smooth, "must lie in [0, 180] degrees; 0 gives flat shading")
        if self.two_sided not in (None, True, False) or self.lit not in (True, False):
            raise WrongType(
                "Look.two_sided/lit", (self.two_sided, self.lit), "must be True or False; two_sided may be None"
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
    """Checkerboard on a ground plane, centred at the point of the plane closest to the origin.

    Example:
        `gs.Ground(look=gs.Checker(tile=0.25))`

    Args:
        colors: The two colours of the tiles, [..., 2, 3]; equal ones for a uniform ground.
        tile: Edge length of a tile [m].
        size: Edge length of the checkerboard [m], rounded to whole tiles.
        lit: Whether lights affect the ground; otherwise it has its colours without shading.
    """

    colors: Quantity = quantity(((0.85, 0.85, 0.85), (0.6, 0.6, 0.62)), "1", shape=(2, 3))
    tile: float = 0.5
    size: float = 10.0
    lit: bool = True

    def __post_init__(self) -> None:
        validate_quantities(self, "Checker")
        check_color("Checker.colors", self.colors)
        for name in ("tile", "size"):
            check_positive_length(f"Checker.{name}", getattr(self, name))
        if not self.size / self.tile <= MAX_TILES:
            remedy = f"a board of {self.size:g} m has more than {MAX_TILES} tiles along an edge: give larger ones"
            raise OutOfRange("Checker.tile", self.tile, remedy)

    @property
    def tile_count(self) -> int:
        """Number of tiles along an edge."""
        return max(1, round(self.size / self.tile))


def check_color(name: str, value: Any) -> None:
    """Raises OutOfRange if an array leaves [0, 1]; tensors may leave it, because an optimizer may move them there."""
    array = unwrap(value)
    if isinstance(array, np.ndarray) and array.size and (array.min() < 0.0 or array.max() > 1.0):
        worst = array.min() if array.min() < 0.0 else array.max()
        raise OutOfRange(name, f"{worst:g}", "colours lie in [0, 1]; divide 8-bit values by 255")


def check_look(name: str, look: Any, mesh_size: Callable[[], tuple[int, int]]) -> None:
    """Raises WrongType unless `look` is a `Look` or None, and WrongShape unless its arrays fit the mesh.

    `mesh_size` returns the numbers of vertices and faces; it is called only if they are needed.
    """
    if look is None:
        return
    if not isinstance(look, Look):
        raise WrongType(f"{name}.look", type(look).__name__, "must be a gs.Look, or None to exclude it from rendering")
    arrays = {field: unwrap(getattr(look, field)) for field in ("vertex_colors", "face_colors", "uv")}
    for field, array in arrays.items():
        if array is None:
            continue
        vertex_count, face_count = mesh_size()
        per_vertex = field == "vertex_colors" or (field == "uv" and array.ndim == 2)
        count, plural = (vertex_count, "vertices") if per_vertex else (face_count, "faces")
        trailing = {
            "vertex_colors": (count, 3),
            "face_colors": (count, 3),
            "uv": (count, 2) if per_vertex else (count, 3, 2),
        }
        if tuple(array.shape[-len(trailing[field]) :]) != trailing[field]:
            raise WrongShape(f"{name}.look.{field}", f"shape {tuple(array.shape)}", f"its body has {count} {plural}")


def look_quantities(look: Look | Checker) -> Iterator[tuple[str, Any, Spec]]:
    """Yields name, value and specification of the differentiable quantities of a look that are given."""
    for name, spec in quantities(look):
        if getattr(look, name) is not None:
            yield name, getattr(look, name), spec
    for name, ndim in (("vertex_colors", 2), ("face_colors", 2), ("texture", 3), ("uv", 3)):
        value = getattr(look, name, None)
        if value is not None:
            yield name, value, Spec("1", shape=tuple(unwrap(value).shape[-ndim:]))

"""What every rasterizer takes: triangles before the camera at all frames, and what each of their corners carries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

PLAIN = 3  # attributes of a corner: colour
TEXTURED = 8  # attributes of a corner: light 3, highlight 3, texture coordinates 2


@dataclass(frozen=True, eq=False)
class Connectivity:
    """How vertices and corners make faces; the same at all frames. Integers are int32 on the CPU."""

    faces: torch.Tensor  # vertex of each corner, counter-clockwise seen from outside, [F, 3]
    corners: torch.Tensor  # row of each corner's attributes, [F, 3]
    edges: torch.Tensor  # two vertices and the one or two faces on them (-1: none), [E, 4]
    marks: torch.Tensor  # 1 where both sides are seen, plus 2 (number of the texture + 1) where there is one, [F]
    textures: torch.Tensor  # first of its texels, height, width: rows from top to bottom, [textures, 3]

    @cached_property
    def painted_by_vertex(self) -> Connectivity:
        """The same faces without textures, each corner with the attributes of its vertex."""
        return Connectivity(self.faces, self.faces, self.edges, self.marks & 1, self.textures[:0])


@dataclass(frozen=True, eq=False)
class Triangles:
    """All frames of all worlds, flattened into B.

    A corner's colour is its three attributes; where faces are textured anywhere it is eight, and the colour
    texture(uv) * light + highlight, with texture = 1 on faces without one. Attributes are interpolated with
    perspective. Texture coordinates run from (0, 0) at the lower left to (1, 1) at the upper right and repeat.
    """

    connectivity: Connectivity
    vertices: torch.Tensor  # homogeneous pixels (x w, y w, w), x right, y down, w the depth [m], [B, V, 3]
    attributes: torch.Tensor  # [B, C, 3] or [B, C, 8]; a stride of zero over B where all frames share them
    texels: torch.Tensor | None  # of all textures, [N, 3]
    background: torch.Tensor  # [..., 3]: [1 or B, 1, 1, 3] or [1 or B, H, W, 3]
    near: float  # depth of the plane that cuts what is closer [m]

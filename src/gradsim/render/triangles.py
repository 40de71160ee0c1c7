"""The input of every rasterizer: triangles in front of the camera at all frames, with attributes at their corners."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import torch

from gradsim.scene.errors import MixedDtypes, UnsupportedDevice, WrongType


@dataclass(frozen=True, eq=False)
class Connectivity:
    """Index arrays of a mesh, which all frames share: int32 on the CPU."""

    faces: torch.Tensor  # vertex of each corner, counter-clockwise seen from outside, [F, 3]
    corners: torch.Tensor  # row of each corner's attributes, [F, 3]
    edges: torch.Tensor  # two vertices and the one or two faces that share them (-1: none), columns `EDGE`, [E, 4]
    two_sided: torch.Tensor  # 1 where the back side is visible too, else 0, [F]
    face_textures: torch.Tensor  # row in `textures`, -1: none, [F]
    textures: torch.Tensor  # first texel, height and width, rows from top to bottom, columns `TEXTURE`, [textures, 3]

    def __post_init__(self) -> None:
        for field in fields(self):
            array = getattr(self, field.name)
            check_on_cpu(f"connectivity.{field.name}", array)
            if array.dtype != torch.int32 or not array.is_contiguous():
                found = f"{array.dtype}, strides {array.stride()}"
                raise WrongType(f"connectivity.{field.name}", found, "must be a contiguous tensor of torch.int32")

    @cached_property
    def with_vertex_attributes(self) -> Connectivity:
        """The same faces without textures; each corner has the attributes of its vertex."""
        untextured = torch.full_like(self.face_textures, -1)
        return Connectivity(self.faces, self.faces, self.edges, self.two_sided, untextured, self.textures[:0])


@dataclass(frozen=True, eq=False)
class Triangles:
    """All frames of all worlds, flattened into B.

    The colour of a corner is its three attributes. If any face is textured, corners have eight attributes, and the
    colour is texture(uv) * light + highlight, with texture = 1 on faces without one; `ATTRIBUTE` names the columns.
    Attributes are interpolated with perspective correction. Texture coordinates run from (0, 0) at the lower left to
    (1, 1) at the upper right and repeat.
    """

    connectivity: Connectivity
    vertices: torch.Tensor  # homogeneous pixels (x w, y w, w), x right, y down, w the depth [m], [B, V, 3]
    attributes: torch.Tensor  # [B, C, 3] or [B, C, 8]; stride 0 over B if all frames share them
    texels: torch.Tensor | None  # of all textures, [N, 3]
    background: torch.Tensor  # [..., 3]: [1 or B, 1, 1, 3] or [1 or B, H, W, 3]
    near: float  # depth of the near plane [m]

    def check_tensors(self) -> None:
        """Raises unless native code can read the tensors: on the CPU and of one type."""
        dtype = self.vertices.dtype
        for name in ("vertices", "attributes", "texels", "background"):
            tensor = getattr(self, name)
            if tensor is None:
                continue
            if not tensor.is_cpu:
                check_on_cpu(f"triangles.{name}", tensor)
            if tensor.dtype != dtype:
                raise MixedDtypes(f"triangles.{name}", tensor.dtype, f"the vertices are {dtype}; all must share one")


def check_on_cpu(name: str, tensor: torch.Tensor) -> None:
    """Raises if a tensor is not in the memory of the CPU, which native code reads."""
    if not tensor.is_cpu:
        remedy = "rasterizers run on the CPU only: give the scene and the trajectory tensors on the CPU (tensor.cpu())"
        raise UnsupportedDevice(name, tensor.device, remedy)

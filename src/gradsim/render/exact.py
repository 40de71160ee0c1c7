"""The exact renderer: each pixel is the area-weighted mean of what is visible in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gradsim.render.kernels.raster import NATIVE
from gradsim.render.raster import Rasterizer


@dataclass(frozen=True)
class Exact(Rasterizer):
    """Anti-aliased images by exact visible area.

    Triangles are clipped to each pixel and against the triangles in front of them, along silhouettes or, where two
    triangles intersect, along the line of intersection. Visible areas are continuous functions of the vertices, and
    their gradient, an integral along the visible edges, accounts for every change of visibility. Colours are sampled at
    the centroid of each visible piece: this is exact for colours that are linear over a pixel. Textures are not, so
    their texels should not be much smaller than pixels; their colour jumps slightly where a piece is clipped
    differently.

    Example:
        `gs.render(scene, trajectory, (32, 32), gs.Exact())`
    """

    header: ClassVar[Path] = NATIVE / "exact.h"
    saved: ClassVar[tuple[str, ...]] = ("background_weight",)

    @property
    def options(self) -> dict[str, float]:
        return {}

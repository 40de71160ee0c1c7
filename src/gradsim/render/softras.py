"""SoftRas (Liu, Li, Chen and Li, "Soft Rasterizer: A Differentiable Renderer for Image-based 3D Reasoning", 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from gradsim.render.kernels.raster import NATIVE
from gradsim.render.options import check_option
from gradsim.render.raster import Rasterizer
from gradsim.scene.errors import OutOfRange


@dataclass(frozen=True)
class SoftRas(Rasterizer):
    """Faces with blurred edges, blended by depth.

    The coverage of a pixel by a face is D = sigmoid(+-d^2 / sigma), d being the distance from the pixel's centre to the
    face's boundary, + inside, in an image of height 2. The colour is the mean over all faces and the background,
    weighted by D exp(depth' / gamma), with depth' from 1 at the camera's near plane to 0 at `far`; the total coverage
    is 1 - prod(1 - D). Outside a face its barycentric coordinates are clamped. Back faces are rendered only on
    two-sided surfaces.

    With a small gamma the nearest face determines the whole colour of a pixel, however small its coverage. Colours then
    have hard edges where D ends, about sqrt(sigma log(1 / cut)) outside the silhouette, and only the coverage
    (`alpha=True`) has a useful gradient in the silhouette. `gs.Exact()` has neither flaw.

    Example:
        `gs.render(scene, trajectory, (32, 32), gs.SoftRas(sigma=1e-4))`

    Args:
        sigma: Blur of edges, in an image of height 2.
        gamma: Blur in depth, relative to the range from near to far.
        far: Depth at which faces blend into the background [m].
        cut: Offset subtracted from D, so that the blur ends continuously at a finite distance.
    """

    sigma: float = 1e-5
    gamma: float = 1e-4
    far: float = 100.0
    cut: float = 1e-4

    header: ClassVar[Path] = NATIVE / "softras.h"
    saved: ClassVar[tuple[str, ...]] = ("background_weight", "depth", "inverse_sum")

    def __post_init__(self) -> None:
        check_option("SoftRas.sigma", self.sigma, low=1e-12, high=1e3)
        check_option("SoftRas.gamma", self.gamma, low=1e-9, high=1e3)
        check_option("SoftRas.far", self.far, low=1e-9, high=1e9)
        check_option("SoftRas.cut", self.cut, low=1e-15, high=0.1)

    @property
    def options(self) -> dict[str, float]:
        limit = math.log(1.0 / self.cut - 1.0)  # argument of the sigmoid at which D ends
        return {"sigma": self.sigma, "gamma": self.gamma, "far": self.far, "limit": limit}

    def check_camera(self, near: float) -> None:
        if not self.far > near:
            raise OutOfRange("SoftRas.far", self.far, f"must be beyond the camera's near plane at {near:g} m")

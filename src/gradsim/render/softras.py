"""SoftRas (Liu, Li, Chen and Li, "Soft Rasterizer: A Differentiable Renderer for Image-based 3D Reasoning", 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from gradsim.render.options import check_option


@dataclass(frozen=True)
class SoftRas:
    """Faces that blur over their outlines and blend by depth.

    A face counts in a pixel by D = sigmoid(+-d^2 / sigma), d being the distance from the pixel's centre to the face's
    outline, + inside, where the image is 2 high. The colour is the mean of all faces and the background, weighted by
    D exp(depth' / gamma) with depth' from 1 at the camera's near plane to 0 at `far`; the coverage is 1 - prod(1 - D).
    Colours beside a face are those of its clamped barycentric coordinates. The front sides of faces are drawn, and both
    where both are seen.

    With a small gamma the nearest face takes the whole colour of a pixel however little of it it covers, so colours end
    hard where D does, about sqrt(sigma log(1 / cut)) outside the outline, and only the coverage (`alpha=True`) sees
    outlines move. `gs.Exact()` has neither flaw.

    Args:
        sigma: Blur of outlines, for an image of height 2.
        gamma: Blur in depth, as part of the range from near to far.
        far: Depth at which things give way to the background [m].
        cut: What D is lowered by, so that a face ends at a finite distance, and continuously so.
    """

    sigma: float = 1e-5
    gamma: float = 1e-4
    far: float = 100.0
    cut: float = 1e-4

    stem: ClassVar[str] = "softras"
    kept_width: ClassVar[int] = 3

    def __post_init__(self) -> None:
        check_option("SoftRas.sigma", self.sigma, low=1e-12, high=1e3)
        check_option("SoftRas.gamma", self.gamma, low=1e-9, high=1e3)
        check_option("SoftRas.far", self.far, low=1e-9, high=1e9)
        check_option("SoftRas.cut", self.cut, low=1e-15, high=0.1)

    @property
    def options(self) -> tuple[float, ...]:
        return (self.sigma, self.gamma, self.far, math.log(1.0 / self.cut - 1.0))

    def before_backward(self, image_adj: torch.Tensor, *, alpha: bool, shape: bool) -> None:
        """Nothing to say: colours see outlines, if only where D ends."""

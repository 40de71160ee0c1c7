"""DIB-R (Chen et al., "Learning to Predict 3D Objects with an Interpolation-based Differentiable Renderer", 2019)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from gradsim.render.kernels.raster import NATIVE
from gradsim.render.options import check_option
from gradsim.render.raster import Rasterizer
from gradsim.scene.errors import SilhouetteWarning

CUT = 1e-6  # offset subtracted from P, so that the halo ends continuously at a finite distance


@dataclass(frozen=True)
class DIBR(Rasterizer):
    """The nearest face at each pixel's centre, and a halo of coverage around all faces.

    The colour is that of the nearest face at the pixel's centre, interpolated with perspective correction, or the
    background. The coverage (`alpha=True`) is 1 on faces and elsewhere 1 - prod(1 - P) with P = exp(-d^2 / sigma), d
    being the distance from the pixel's centre to a face's boundary in an image of height 2. Back faces are rendered
    only on two-sided surfaces.

    Colours jump when a silhouette crosses a pixel's centre, so their gradient does not account for moving silhouettes:
    include the coverage in the loss, or use `gs.Exact()`. A backward pass through the colours alone warns with
    `SilhouetteWarning`.

    Example:
        `gs.render(scene, trajectory, (32, 32), gs.DIBR())`

    Args:
        sigma: Width of the halo, in an image of height 2.
    """

    sigma: float = 1.0 / 7000.0

    header: ClassVar[Path] = NATIVE / "dibr.h"
    saved: ClassVar[tuple[str, ...]] = ("background_weight", "transmittance")

    def __post_init__(self) -> None:
        check_option("DIBR.sigma", self.sigma, low=1e-12, high=1e3)

    @property
    def options(self) -> dict[str, float]:
        return {"sigma": self.sigma, "limit": math.log(1.0 / CUT)}  # limit: d^2 / sigma at which the halo ends

    def check_gradient(self, image_adj: torch.Tensor, *, alpha: bool, geometry: bool) -> None:
        """Warns if the loss does not depend on silhouettes."""
        if geometry and _any(image_adj[..., :3]) and not (alpha and _any(image_adj[..., 3])):
            warnings.warn(
                "the loss uses only the colours of a DIB-R image, whose gradient does not account for moving "
                "silhouettes: render with alpha=True and include the alpha channel in the loss, or render with "
                "gs.Exact()",
                SilhouetteWarning,
                stacklevel=2,
            )


def _any(frames: torch.Tensor) -> bool:
    """Whether any value is not zero; usually the first frame decides."""
    return any(bool(frame.any()) for frame in frames)

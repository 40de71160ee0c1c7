"""DIB-R (Chen et al., "Learning to Predict 3D Objects with an Interpolation-based Differentiable Renderer", 2019)."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch

from gradsim.render.options import check_option
from gradsim.scene.errors import SilhouetteWarning

CUT = 1e-6  # what P is lowered by, so that a halo ends at a finite distance, and continuously so


@dataclass(frozen=True)
class DIBR:
    """The nearest face at each pixel's centre, and a halo of coverage around all faces.

    Colours are those of the face that covers the pixel's centre, interpolated with perspective, or the background's.
    The coverage (`alpha=True`) is 1 there and elsewhere 1 - prod(1 - P) with P = exp(-d^2 / sigma), d being the
    distance from the pixel's centre to a face's outline, where the image is 2 high. The front sides of faces are drawn,
    and both where both are seen.

    Colours jump as an outline passes a pixel's centre, so their gradient does not see outlines move: put the coverage
    into the loss, or use `gs.Exact()`. A backward pass through the colours alone warns with `SilhouetteWarning`.

    Args:
        sigma: Width of the halo, for an image of height 2.
    """

    sigma: float = 1.0 / 7000.0

    stem: ClassVar[str] = "dibr"
    kept_width: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_option("DIBR.sigma", self.sigma, low=1e-12, high=1e3)

    @property
    def options(self) -> tuple[float, ...]:
        return (self.sigma, math.log(1.0 / CUT))

    def before_backward(self, image_adj: torch.Tensor, *, alpha: bool, shape: bool) -> None:
        """Warn where the loss cannot see outlines."""
        if shape and _any(image_adj[..., :3]) and not (alpha and _any(image_adj[..., 3])):
            warnings.warn(
                "the loss uses only the colours of a DIB-R image, whose gradient does not see outlines move: render "
                "with alpha=True and put the alpha channel into the loss, or render with gs.Exact()",
                SilhouetteWarning,
                stacklevel=2,
            )


def _any(frames: torch.Tensor) -> bool:
    """Whether anything is not zero: the first frame mostly tells."""
    return any(bool(frame.any()) for frame in frames)

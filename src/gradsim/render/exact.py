"""The exact renderer: what is seen through each pixel, averaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch


@dataclass(frozen=True)
class Exact:
    """Images by exact visible area.

    A pixel is the mean of what is seen through it: triangles are cut to the pixel, and what is closer cuts away what it
    hides, along its edges or, where two pierce each other, along the line between them. The image is continuous in
    everything it is made of, and its gradient, an integral along the outlines, sees every change of it. Colours and
    textures are taken at the centroid of each visible piece, so texels should not be much smaller than pixels.
    """

    stem: ClassVar[str] = "exact"
    kept_width: ClassVar[int] = 1

    @property
    def options(self) -> tuple[float, ...]:
        return ()

    def before_backward(self, image_adj: torch.Tensor, *, alpha: bool, shape: bool) -> None:
        """Nothing to say: the colours alone see every outline."""

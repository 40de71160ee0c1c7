"""The exact renderer: what is seen through each pixel, averaged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch


@dataclass(frozen=True)
class Exact:
    """Images by exact visible area.

    A pixel is the mean of what is seen through it: triangles are cut to the pixel, and what is closer cuts away what it
    hides, along its edges or, where two pierce each other, along the line between them. Areas are continuous in what
    they are made of, and their gradient, an integral along the outlines, sees every change of them. Colours are taken
    at the centroid of each visible piece: that is exact for colours that are linear over a pixel; textures, which are
    not, should not have texels much smaller than pixels, and jump a little where a piece is cut in another way.
    """

    stem: ClassVar[str] = "exact"
    kept_width: ClassVar[int] = 1

    @property
    def options(self) -> tuple[float, ...]:
        return ()

    def before_backward(self, image_adj: torch.Tensor, *, alpha: bool, shape: bool) -> None:
        """Nothing to say: the colours alone see every outline."""

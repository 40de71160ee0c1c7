"""Silhouettes, compared with the rendered coverage."""

from __future__ import annotations

from typing import Any

import torch

from gradsim.fit.observations.base import Adjust
from gradsim.fit.observations.images import ImageObservation, checked_images, exposed
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.render.render import render
from gradsim.scene.errors import OutOfRange
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

ROUNDING = 1e-6  # by which a rendered coverage may exceed 0 to 1


class Masks(ImageObservation):
    """Silhouettes of all visible surfaces together, compared with their rendered coverage.

    Example:
        `gs.estimate(scene, gs.Masks(masks), fps=30.0)`

    Args:
        masks: Covered share of each pixel from 0 to 1, or booleans, [T, H, W]; NaN where it is not known.
        mask: Weights of the pixels, [H, W] or [T, H, W]; pixels with weight 0 are ignored.
        renderer: Renderer of the coverage.
        options: `noise`, `robust`, `frames`, `offset` and `camera`; see `Observation`.
    """

    unit = "1"
    masks: torch.Tensor

    def __init__(self, masks: Any, *, mask: torch.Tensor | None = None, renderer: Rasterizer = Exact(), **options: Any):
        images = checked_images("masks", masks, "[T, H, W]")
        low, high = (float(end) for end in torch.aminmax(images.nan_to_num(0.5)))
        if low < -ROUNDING or high > 1 + ROUNDING:
            raise OutOfRange("masks", f"from {low:g} to {high:g}", "must be from 0 to 1, the covered share of a pixel")
        super().__init__(images[..., None], options, {"masks": masks, "mask": mask, "renderer": renderer})

    def difference(
        self,
        scene: Scene,
        trajectory: Trajectory,
        level: int,
        *,
        samples: int = 1,
        readouts: int = 1,
        adjust: Adjust | None = None,
    ) -> torch.Tensor:
        self.check_no_colors(adjust)
        rendered = render(self.view(scene), trajectory, self.sizes[level], self.renderer, alpha=True)[..., 3:]
        return self.compared(exposed(rendered, samples, readouts), level)

"""Depth images, compared with the rendered depth."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch

from gradsim.fit.observations.base import Adjust, measurements
from gradsim.fit.observations.images import ImageObservation, checked_images, exposed
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.scene.errors import OutOfRange, WrongShape
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.video.downsample import downsample

RELATIVE_GAP = 0.1  # default of `gap`, relative to the median of the measured depths
FULL_COVERAGE = 0.25  # coverage from which the depth of a pixel counts fully if the background is not known


class Depth(ImageObservation):
    """Depth images of an RGB-D camera, compared with the depth of the visible surfaces.

    The rendered pixel is the mean over its area, as for colours: the depth z of the surfaces over their coverage c, and
    that of the background over the rest, c z + (1 - c) background. The difference from the measured depth is continuous
    and differentiable across silhouettes. Where the background is given, silhouettes contribute as in a video. A
    camera that measures one point per pixel deviates from the mean at silhouettes and edges: average its images over
    areas to a lower resolution, and use `robust`.

    Where the background is not given, every measured pixel belongs to a surface of the scene: mask all others. There
    the difference is s (z - measured) + (1 - S) gap, where s = min(1, 4 c) and S is the largest s among the pixel and
    its eight neighbours. A silhouette contributes by its covered part, and a measured surface that the scene does not
    show counts as a difference of `gap`, so that the fit cannot improve by moving a body out of the image.

    Pixels that were not measured are not compared, even if the scene shows a surface there. If the camera measures
    nothing because nothing is in range, this is information: replace NaN by the range and pass it as background.

    Example:
        `gs.estimate(scene, gs.Depth(depths, noise=0.005), fps=30.0)`

    Args:
        depth: Depths along the optical axis [m], [T, H, W]; NaN where missing.
        background: Depth behind all surfaces of the scene [m], a number or [H, W], such as an image of the empty room;
            NaN where it is not known. None if it is known nowhere.
        gap: Difference of a measured pixel for which the scene shows nothing and the background is not known [m]; None
            for a tenth of the median measured depth.
        mask: Weights of the pixels, [H, W] or [T, H, W]; pixels with weight 0 are ignored.
        renderer: Renderer of the depth.
        options: `noise` and `robust` [m], `frames`, `offset` and `camera`; see `Observation`.
    """

    unit = "m"
    depth: torch.Tensor  # [T, H, W]
    background: torch.Tensor | None  # [H, W]
    gap: float

    def __init__(
        self,
        depth: Any,
        *,
        background: Any = None,
        gap: float | None = None,
        mask: torch.Tensor | None = None,
        renderer: Rasterizer = Exact(),
        **options: Any,
    ):
        images = checked_images("depth", depth, "[T, H, W]")
        _check_positive("depth", images)
        arguments = {"depth": depth, "background": background, "gap": gap, "mask": mask, "renderer": renderer}
        super().__init__(images[..., None], options, arguments)
        behind = None if background is None else _checked_background(background, self.size)
        vars(self).update(depth=images, background=behind, gap=_checked_gap(gap, images))

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
        rendered = self.renderer.render_depth(self.view(scene), trajectory, self.sizes[level])
        depth, coverage = (exposed(image[..., None], samples, readouts) for image in rendered)
        measured, behind = self.targets[level][: depth.shape[-4]], self._backgrounds[level]
        image = self._without_background(depth, coverage, measured)
        if behind is not None:
            image = torch.where(torch.isnan(behind), image, depth + (1.0 - coverage) * behind.nan_to_num())
        return self.compared(image, level)

    def _without_background(self, depth: torch.Tensor, coverage: torch.Tensor, measured: torch.Tensor) -> torch.Tensor:
        """Returns the depth that replaces c z + (1 - c) background where the background is not known.

        Args:
            depth: Depth times coverage [m], [..., T', H, W, 1].
            coverage: Coverage, of the same shape.
            measured: Measured depth [m], [T', H, W, 1].
        """
        shown = (coverage / FULL_COVERAGE).clamp_max(1.0)
        absent = 1.0 - (_largest_around(coverage) / FULL_COVERAGE).clamp_max(1.0)
        return depth / coverage.clamp_min(FULL_COVERAGE) + (1.0 - shown) * measured + absent * self.gap

    @cached_property
    def _backgrounds(self) -> list[torch.Tensor | None]:
        """Depth of the background at each level, [H, W, 1], NaN where a part of it is not known; None if all is."""
        behind = self.background
        return [None if behind is None else downsample(behind[..., None], size) for size in self.sizes]


def _largest_around(coverage: torch.Tensor) -> torch.Tensor:
    """Returns the largest value among a pixel of images [..., H, W, 1] and its eight neighbours."""
    images = coverage.flatten(0, -4).movedim(-1, 1)
    return torch.nn.functional.max_pool2d(images, 3, stride=1, padding=1).movedim(1, -1).view_as(coverage)


def _check_positive(name: str, depths: torch.Tensor) -> None:
    known = depths[~torch.isnan(depths)]
    if len(known) and not float(known.min()) > 0:
        remedy = "depths must be > 0 [m]; mark missing ones by NaN, such as torch.where(depth > 0, depth, torch.nan)"
        raise OutOfRange(name, f"smallest {float(known.min()):g}", remedy)


def _checked_background(background: Any, size: tuple[int, int]) -> torch.Tensor:
    depths = measurements("background", background)
    if tuple(depths.shape) not in ((), size):
        raise WrongShape("background", f"shape {tuple(depths.shape)}", f"must be a number or {size}, one per pixel [m]")
    _check_positive("background", depths)
    return depths.expand(size)


def _checked_gap(gap: float | None, depths: torch.Tensor) -> float:
    if gap is None:
        return RELATIVE_GAP * float(depths.nanmedian().nan_to_num(1.0))
    value = measurements("gap", gap)
    if value.ndim or not float(value) > 0:
        raise OutOfRange("gap", gap, "must be a number > 0 [m]")
    return float(value)

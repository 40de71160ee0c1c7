"""Comparison of rasterizers with differentiable references and with central differences."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tests.render.scenes import changed, leaves

from gradsim.render.raster import Rasterizer, rasterize
from gradsim.render.triangles import Triangles

STEPS = (1e-4, 1e-5, 1e-6, 1e-7)  # a difference errs by truncation or by rounding, so the best of several counts

Draw = Callable[[Triangles], torch.Tensor]  # images [B, H, W, 3 or 4]
Gradients = dict[str, torch.Tensor]


def drawing(rasterizer: Rasterizer, size: tuple[int, int], *, alpha: bool = True) -> Draw:
    return lambda triangles: rasterize(rasterizer, triangles, size, alpha=alpha)


def weights_of(image: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(image.shape, generator=generator, dtype=torch.float64).to(image.dtype)


def image_and_gradients(draw: Draw, triangles: Triangles) -> tuple[torch.Tensor, Gradients]:
    """An image, and the gradients of a fixed random weighting of it."""
    given = leaves(triangles)
    image = draw(changed(triangles, **given))
    (image * weights_of(image)).sum().backward()
    return image.detach(), {name: leaf.grad for name, leaf in given.items() if leaf.grad is not None}


def relative_error(a: torch.Tensor, b: torch.Tensor) -> float:
    scale = b.abs().max().item()
    return (a - b).abs().max().item() / scale if scale > 0 else a.abs().max().item()


def difference_errors(draw: Draw, triangles: Triangles) -> dict[str, float]:
    """Errors of the gradients along random directions, relative to the largest of the central differences."""
    _, gradients = image_and_gradients(draw, triangles)
    generator = torch.Generator().manual_seed(1)
    errors = {}
    for name, value in leaves(triangles).items():
        directions = torch.randn(3, *value.shape, generator=generator, dtype=torch.float64)
        adjoint = (directions * gradients[name]).flatten(1).sum(1)
        best = float("inf")
        for step in STEPS:
            central = torch.stack([_central(draw, triangles, name, step, direction) for direction in directions])
            best = min(best, relative_error(adjoint, central))
        errors[name] = best
    return errors


def _central(draw: Draw, triangles: Triangles, name: str, step: float, direction: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        value = getattr(triangles, name)
        ahead = draw(changed(triangles, **{name: value + step * direction}))
        behind = draw(changed(triangles, **{name: value - step * direction}))
        return ((ahead - behind) * weights_of(ahead)).sum() / (2 * step)

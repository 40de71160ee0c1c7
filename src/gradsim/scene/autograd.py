"""Helpers for autograd functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from gradsim.scene.errors import BrokenGradient


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for the backward of an autograd function that has no second derivative.

    The backward raises BrokenGradient under create_graph=True. Torch's decorator of the same name raises only if an
    incoming gradient requires grad; otherwise it silently drops terms of the second derivative.
    """

    @functools.wraps(backward)
    def checked(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():  # set by create_graph=True
            raise BrokenGradient(
                "gradients of gradients are not implemented: leave out create_graph=True, or use finite differences"
            )
        return backward(ctx, *grads)

    return checked

"""Functions that can be differentiated once, and say so when asked for more."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from gradsim.scene.errors import BrokenGradient


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark the backward of an autograd function as one without a gradient of its own.

    Torch's decorator of the same name stays silent, and drops terms, where the incoming gradient is constant.
    """

    @functools.wraps(backward)
    def checked(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():  # a graph of the gradient is asked for: create_graph=True
            raise BrokenGradient(
                "gradients of gradients are not known here: leave out create_graph=True, or take differences"
            )
        return backward(ctx, *grads)

    return checked

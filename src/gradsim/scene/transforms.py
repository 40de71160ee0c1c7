"""Transforms of `torch.func` over functions whose kernels read the memory of tensors.

Inside `vmap`, `grad`, `vjp` and `jacrev` a tensor is a wrapper without memory of its own. `call_inside_transforms`
passes such tensors to a function through one autograd function, which Torch takes through all transforms: the mapped
dimension of a `vmap` becomes a batch dimension in front, and the function itself only ever sees plain tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch._C._functorch import (
    TransformType,
    get_interpreter_stack,
    get_unwrapped,
    is_batchedtensor,
    is_functorch_wrapped_tensor,
    maybe_get_bdim,
    unwrap_if_dead,
)

from gradsim.scene.errors import BrokenGradient, UnsupportedTransform

are_transforms_active: Callable[[], bool] = torch._C._are_functorch_transforms_active  # in 40 ns
is_transformed: Callable[[torch.Tensor], bool] = is_functorch_wrapped_tensor  # by a transform that is or was active


class BatchedTensor(NamedTuple):
    """A tensor with batch dimensions in front."""

    name: str
    tensor: torch.Tensor
    trailing: int | None  # dimensions after those of the batch; None if it cannot have a batch

    @property
    def batch(self) -> tuple[int, ...]:
        """Sizes of the batch dimensions."""
        return () if self.trailing is None else tuple(self.tensor.shape[: self.tensor.ndim - self.trailing])


def outside_transforms(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor without the wrappers of transforms that have ended."""
    unwrapped: torch.Tensor = unwrap_if_dead(tensor)
    return unwrapped


def first_mapped(tensor: torch.Tensor) -> np.ndarray:
    """Returns the values of a tensor without gradient; inside `vmap` those of the first index that is mapped over."""
    with torch._C._DisableFuncTorch():
        while is_functorch_wrapped_tensor(tensor):
            dim = maybe_get_bdim(tensor) if is_batchedtensor(tensor) else None
            tensor = get_unwrapped(tensor)
            tensor = tensor if dim is None else tensor.select(dim, 0)
        return tensor.detach().cpu().numpy()


def call_inside_transforms(
    run: Callable[[Sequence[torch.Tensor]], Sequence[BatchedTensor]], given: Sequence[BatchedTensor], rank: int
) -> tuple[torch.Tensor, ...]:
    """Calls a function of plain tensors with tensors inside transforms of `torch.func`.

    Args:
        run: Function from the values of `given`, with further batch dimensions in front, to its results. It has to be
            differentiable by ordinary means, and it may be called again in the backward pass.
        given: All tensors that have a gradient or are inside a transform.
        rank: Number of batch dimensions of the call, those of all other tensors included.

    Returns:
        The tensors of the results, inside the transforms.

    Raises:
        UnsupportedTransform: A transform is one of forward mode, or maps over a tensor that cannot have a batch.
    """
    aligned = [x.tensor if x.trailing is None else x.tensor[(None,) * (rank - len(x.batch))] for x in given]
    call = _Call(run, given, _needs_gradient(aligned))
    results: tuple[torch.Tensor, ...] = _Inside.apply(call, *aligned)
    return results


def _needs_gradient(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether a transform that is active, or ordinary autograd, may ask for a gradient."""
    if not torch.is_grad_enabled():
        return False
    transforms = [interpreter.key() for interpreter in get_interpreter_stack() or ()]
    return TransformType.Grad in transforms or any(tensor.requires_grad for tensor in tensors)


class _Call:
    """A call and, until its first backward pass, its autograd graph."""

    def __init__(
        self,
        run: Callable[[Sequence[torch.Tensor]], Sequence[BatchedTensor]],
        given: Sequence[BatchedTensor],
        needs_gradient: bool,
    ):
        self.run, self.needs_gradient = run, needs_gradient
        self.names, self.trailing = [x.name for x in given], [x.trailing for x in given]
        self._graph: tuple[list[torch.Tensor], list[torch.Tensor]] | None = None

    def forward(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Returns the results for plain tensors, without gradient."""
        if not self.needs_gradient:
            with torch.no_grad():
                return tuple(self._results(tensors))
        self._graph = self._differentiable(tensors)
        return tuple(result.detach() for result in self._graph[1])

    def backward(
        self, tensors: Sequence[torch.Tensor], grads: Sequence[torch.Tensor | None], wanted: Sequence[int]
    ) -> tuple[torch.Tensor, ...]:
        """Returns the gradients of the tensors at the places `wanted`.

        The graph of the forward pass serves once, and only if this pass has the same batch: `jacrev` maps the backward
        pass alone over the rows of a Jacobian, for which the function is computed again, as a batch of them.
        """
        graph, self._graph = self._graph, None
        if graph is None or any(a.shape != b.shape for a, b in zip(graph[0], tensors, strict=True)):
            graph = self._differentiable(tensors)
        leaves, results = graph
        pairs = [(x, grad) for x, grad in zip(results, grads, strict=True) if grad is not None and x.requires_grad]
        sources = [leaves[place] for place in wanted]
        if not pairs:
            return tuple(map(torch.zeros_like, sources))
        outputs, given = zip(*pairs, strict=True)
        return torch.autograd.grad(outputs, sources, given, allow_unused=True, materialize_grads=True)

    def _differentiable(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in tensors]
            return leaves, self._results(leaves)

    def _results(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the results, each with all batch dimensions."""
        named = zip(self.names, tensors, self.trailing, strict=True)
        shapes = [BatchedTensor(*x).batch for x in named]
        return [
            x.tensor.expand(*torch.broadcast_shapes(*shapes, x.batch), *x.tensor.shape[len(x.batch) :])
            for x in self.run(tensors)
        ]

    def mapped(
        self, size: int, dims: Sequence[int | None], tensors: Sequence[torch.Tensor], wanted: Sequence[int] = ()
    ) -> list[torch.Tensor]:
        """Returns tensors with the dimension that `vmap` maps over as the first one; all have it, those without a batch
        excepted. `wanted` are the places of tensors whose gradients will have it."""
        moved = []
        for place, (tensor, dim, trailing) in enumerate(zip(tensors, dims, self.trailing, strict=True)):
            if trailing is None and (dim is not None or place in wanted):
                remedy = "cannot have a batch dimension, so that vmap cannot map over it: use a loop"
                raise UnsupportedTransform(self.names[place], "a tensor inside torch.func.vmap", remedy)
            moved.append(tensor if trailing is None else mapped_first(tensor, dim, size))
        return moved


def mapped_first(tensor: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    """Returns a tensor with the mapped dimension in front; one that has none is expanded, not copied."""
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


class _Inside(torch.autograd.Function):
    """A call as one operation, with rules for all transforms."""

    @staticmethod
    def forward(call: _Call, *tensors: torch.Tensor) -> Any:
        return call.forward(tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.call, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        wanted = tuple(place for place, need in enumerate(ctx.needs_input_grad[1:]) if need)
        found = _InsideBackward.apply(ctx.call, wanted, *ctx.saved_tensors, *grads)
        gradients = dict(zip(wanted, found, strict=True))
        return None, *(gradients.get(place) for place in range(len(ctx.saved_tensors)))

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: _Call, *tensors: torch.Tensor) -> Any:
        results = _Inside.apply(call, *call.mapped(info.batch_size, in_dims[1:], tensors))
        return results, (0,) * len(results)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        remedy = "forward mode is not implemented: use torch.func.grad, vjp or jacrev"
        raise UnsupportedTransform("torch.func", "jvp or jacfwd", remedy)


class _InsideBackward(torch.autograd.Function):
    """The gradients of a call as one operation, so that a backward pass may be inside transforms too."""

    @staticmethod
    def forward(call: _Call, wanted: tuple[int, ...], *given: torch.Tensor | None) -> Any:
        count = len(call.names)
        tensors: Any = given[:count]
        return call.backward(tensors, given[count:], wanted)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise BrokenGradient(
            "gradients of gradients are not implemented: differentiate once, or use finite differences of gradients"
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: _Call, wanted: tuple[int, ...], *given: Any) -> Any:
        count, size = len(call.names), info.batch_size
        dims = in_dims[2:]
        tensors = call.mapped(size, dims[:count], given[:count], wanted)
        grads = [
            None if grad is None else mapped_first(grad, dim, size)
            for grad, dim in zip(given[count:], dims[count:], strict=True)
        ]
        results = _InsideBackward.apply(call, wanted, *tensors, *grads)
        return results, (0,) * len(results)

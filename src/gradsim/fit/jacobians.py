"""Jacobians of residuals: dense by differences, or as products by differences and the adjoint."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch

from gradsim.fit.residuals import CENTRAL_STEP, Residual, evaluate
from gradsim.scene.arguments import checked_number, checked_whole
from gradsim.scene.errors import BrokenGradient, ContactWarning, Diverged, InvalidInput, StabilityWarning

MAX_DENSE = 80  # coordinates up to which a dense Jacobian is faster


@dataclass(frozen=True)
class Differences:
    """Dense Jacobian by forward differences: one world of a batch per unknown, no backward pass.

    Example:
        `gs.GaussNewton(jacobian=gs.Differences())`
    """


@dataclass(frozen=True)
class Adjoint:
    """Products with the Jacobian J, never the matrix: J v by a central difference along v, J^T u by a backward pass.

    The linear problem of each iteration is solved by Golub-Kahan bidiagonalization (see
    `gradsim.fit.bidiagonalization`); each of its steps costs two rollouts and a backward pass, whatever the number of
    unknowns.

    Example:
        `gs.GaussNewton(jacobian=gs.Adjoint(inner_iterations=50))`

    Args:
        inner_iterations: Maximum number of products with J per iteration.
        inner_tolerance: Norm of the gradient of the linear problem at its solution, relative to that at the start.
        cost_tolerance: Relative decrease of the cost in one iteration, below which the iteration has converged.
    """

    inner_iterations: int = 100
    inner_tolerance: float = 1e-2
    cost_tolerance: float = 1e-6

    def __post_init__(self) -> None:
        checked_whole("Adjoint.inner_iterations", self.inner_iterations)
        checked_number("Adjoint.inner_tolerance", self.inner_tolerance, low=0.0)
        checked_number("Adjoint.cost_tolerance", self.cost_tolerance, low=0.0)


def chosen_jacobian(method: Differences | Adjoint | None, residual: Residual, z: torch.Tensor) -> Differences | Adjoint:
    """Returns the given method; for None `Adjoint()` if starts z [K, P] have many differentiable coordinates."""
    if method is not None:
        return method
    return Adjoint() if z.shape[-1] > MAX_DENSE and _is_differentiable(residual, z[0]) else Differences()


def _is_differentiable(residual: Residual, z: torch.Tensor) -> bool:
    """Whether autograd knows the dependence of the residuals on z [P]."""
    try:
        return _residuals_with_graph(residual, z)[1].requires_grad
    except Diverged:
        return False


def _residuals_with_graph(residual: Residual, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns a leaf [1, P] with the values of z [P], and the residuals [N] with their graph to it."""
    leaf = z.detach()[None].clone().requires_grad_()
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore", StabilityWarning)  # raised once, at the start of the estimate
        warnings.simplefilter("ignore", ContactWarning)
        return leaf, residual(leaf)[0]


class JacobianProducts:
    """The Jacobian of residuals at a point as a linear map; the graph of one world is kept for backward passes.

    Products that are not finite, because a world beside the point or a backward pass diverges, consist of NaN.
    """

    def __init__(self, residual: Residual, z: torch.Tensor):
        """Args:
        residual: Residual function.
        z: Coordinates [P] at which the residuals are finite.
        """
        self.residual, self.z = residual, z.detach()
        self._leaf, self._graph = _residuals_with_graph(residual, z)
        if not self._graph.requires_grad:
            raise InvalidInput(
                "jacobian",
                "gs.Adjoint()",
                "needs residuals that autograd can differentiate: use gs.Differences(), or a differentiable renderer",
            )
        self.r = self._graph.detach()  # [N]

    def forward(self, v: torch.Tensor) -> torch.Tensor:
        """Returns J v [N] for v [P], by a central difference; one-sided where one of its worlds diverges."""
        length = float(torch.linalg.vector_norm(v))
        if length == 0.0:
            return torch.zeros_like(self.r)
        offset = CENTRAL_STEP / length * v
        ahead, behind = evaluate(self.residual, torch.stack([self.z + offset, self.z - offset]), 2)
        product = (ahead - behind).expand(len(self.r)) * (length / (2 * CENTRAL_STEP))
        if bool(torch.isfinite(product.sum())):
            return product
        for sign, shifted in ((1.0, ahead), (-1.0, behind)):
            product = (shifted - self.r) * (sign * length / CENTRAL_STEP)
            if bool(torch.isfinite(product.sum())):
                return product
        return torch.full_like(self.r, torch.nan)

    def backward(self, u: torch.Tensor) -> torch.Tensor:
        """Returns J^T u [P] for u [N], by a backward pass."""
        try:
            (product,) = torch.autograd.grad(self._graph, self._leaf, u, retain_graph=True)
        except BrokenGradient:
            return torch.full_like(self.z, torch.nan)
        return product[0]

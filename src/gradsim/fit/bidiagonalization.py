"""Damped linear least squares from products with a matrix and its transpose.

Golub-Kahan bidiagonalization, the process behind LSQR and LSMR (Paige and Saunders, ACM TOMS 8, 1982; Fong and
Saunders, SIAM J. Sci. Comput. 33, 2011): A V_k = U_{k+1} B_k with orthonormal columns and a small bidiagonal B_k. The
basis V_k is kept and reorthogonalized, so that one sequence of products gives the solutions for all dampings, and
errors of the products by finite differences do not accumulate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from gradsim.fit.least_squares import singular_values

CHECK_INTERVAL = 4  # products between tests of convergence
BREAKDOWN = 1e-12  # relative norm of a new direction that consists of rounding errors

Product = Callable[[torch.Tensor], torch.Tensor]


class Bidiagonalization:
    """The solutions x [P] of min |A x - b|^2 + damping |x|^2 within a Krylov space.

    Attributes:
        basis: Orthonormal basis V of the space, [k, P].
        converged: Whether the space contains the solution for the given damping and tolerance.
        products: Number of products with A.
    """

    def __init__(
        self,
        forward: Product,
        backward: Product,
        b: torch.Tensor,
        gradient: torch.Tensor,
        *,
        damping: float,
        tolerance: float,
        iterations: int,
    ):
        """Args:
        forward: Product A v [N] of v [P].
        backward: Product A^T u [P] of u [N].
        b: Right-hand side [N], not 0.
        gradient: A^T b [P].
        damping: Smallest damping that will be used.
        tolerance: Norm of the gradient at the solution relative to that at 0.
        iterations: Maximum number of products with A.
        """
        self.converged, self.products = False, 0
        self.basis = b.new_zeros(0, len(gradient))
        self._norm = float(torch.linalg.vector_norm(b))
        self._alpha: list[float] = []  # diagonal of B
        self._beta: list[float] = []  # subdiagonal of B
        u, v = b / self._norm, gradient / self._norm
        alpha = first = float(torch.linalg.vector_norm(v))
        while len(self._alpha) < iterations:
            if not BREAKDOWN * first < alpha < math.inf:  # small: the space is complete; NaN: a product is not finite
                self.converged = alpha <= BREAKDOWN * first
                break
            v = v / alpha
            u = forward(v) - alpha * u
            self.products += 1
            beta = float(torch.linalg.vector_norm(u))
            if not beta < math.inf:
                break
            self._extend(v, alpha, beta)
            if beta <= BREAKDOWN * first:
                self.converged = True
                break
            u /= beta
            v = self._orthogonal(backward(u))
            alpha = float(torch.linalg.vector_norm(v))
            count = len(self._alpha)
            if count == iterations or count % CHECK_INTERVAL == 0:
                self._decompose()
                remaining = alpha * beta * abs(float(self._reduced(damping)[-1]))
                if remaining <= tolerance * first * self._norm:
                    self.converged = True
                    break
        self._decompose()

    def _extend(self, v: torch.Tensor, alpha: float, beta: float) -> None:
        self.basis = torch.cat([self.basis, v[None]])
        self._alpha.append(alpha)
        self._beta.append(beta)

    def _orthogonal(self, v: torch.Tensor) -> torch.Tensor:
        """Returns v [P] without its components in the basis, removed twice because of rounding."""
        for _ in range(2):
            v = v - (self.basis @ v) @ self.basis
        return v

    def _decompose(self) -> None:
        """Computes the singular values of B and the components of the right-hand side."""
        count = len(self._alpha)
        B = torch.zeros(count + 1, count, dtype=torch.float64)
        B.diagonal().copy_(torch.tensor(self._alpha, dtype=B.dtype))
        B.diagonal(-1).copy_(torch.tensor(self._beta, dtype=B.dtype))
        left, self._singular, self._right = singular_values(B)
        self._components = self._norm * left[0] if count else left.new_zeros(0)

    def _reduced(self, damping: float) -> torch.Tensor:
        """Returns the solution in the basis, [k]."""
        s = self._singular
        return (self._components * s / (s * s + damping)) @ self._right

    def solution(self, damping: float) -> torch.Tensor:
        """Returns the solution x [P] for a damping."""
        return self._reduced(damping).to(self.basis.dtype) @ self.basis

    @property
    def decrease(self) -> float:
        """Decrease of |A x - b|^2 at the undamped solution, relative to |b|^2."""
        return float((self._components**2).sum()) / max(self._norm**2, 1e-300)

    @property
    def largest(self) -> float:
        """Largest singular value within the space, close to that of A after a few products; 0 for an empty space."""
        return float(self._singular.max()) if len(self._singular) else 0.0

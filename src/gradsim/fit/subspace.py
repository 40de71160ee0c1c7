"""The combinations of very many unknowns that the observations determine.

A dense Jacobian costs two rollouts for each unknown, and its columns fill the memory. Observations of thousands of
unknowns usually determine far fewer combinations of them; the others keep their priors. The determined combinations are
found by Golub-Kahan bidiagonalization of the Jacobian, in units of the noise and of the priors. What is left out counts
as undetermined, so that intervals are too wide rather than too narrow.
"""

from __future__ import annotations

import torch

from gradsim.fit.bidiagonalization import Bidiagonalization, Product
from gradsim.fit.jacobians import Differences, JacobianProducts, chosen_jacobian
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem

MAX_COLUMNS = 500  # unknowns up to which the whole Jacobian is computed
MAX_COLUMN_NUMBERS = 200_000_000  # numbers in it, 0.8 GB in single precision
MAX_DIRECTIONS = 400  # in the basis
MIN_SINGULAR = 0.3  # of the Jacobian in units of noise and prior: less changes a standard deviation by under 5 %
SPACE_TOLERANCE = 1e-2  # gradient left along directions with the information of the prior, when the space is complete


def prior_information(parameters: Parameters) -> torch.Tensor:
    """Information of the declared priors, and of the plausible range where there is none, [P, P]."""
    return torch.diag(1.0 / _prior_deviations(parameters) ** 2)


def _prior_deviations(parameters: Parameters) -> torch.Tensor:
    _, sd = parameters.prior_normal()
    return torch.where(torch.isfinite(sd), sd, parameters.prior()[1])


def has_whole_jacobian(problem: EstimationProblem) -> bool:
    """Whether the whole Jacobian of a problem is computed: for up to 500 unknowns, if it is not too large."""
    numbers = sum(problem.trials[key[0]].frames * problem.entries(key, 0) for key in problem.blocks)
    groups = len(set(problem.parameters.coordinate_groups))
    return groups <= MAX_COLUMNS and groups * numbers <= MAX_COLUMN_NUMBERS


def informed_basis(problem: EstimationProblem, z: torch.Tensor) -> torch.Tensor | None:
    """Returns the combinations of coordinates that the observations determine at z [P], in columns [P, K].

    They are orthonormal with respect to the information of the priors. None if the whole Jacobian is to be computed:
    for few unknowns, and for residuals without a backward pass.
    """
    if has_whole_jacobian(problem):
        return None
    numbers = sum(problem.trials[key[0]].frames * problem.entries(key, 0) for key in problem.blocks)
    residual = problem.residual()
    if isinstance(chosen_jacobian(None, residual, z[None]), Differences):
        return None
    widths, unit = _prior_deviations(problem.parameters), problem.unit_scale(0)
    products = JacobianProducts(residual, z)
    limit = min(MAX_DIRECTIONS, len(z), max(1, MAX_COLUMN_NUMBERS // numbers))
    V = _dominant_directions(
        lambda v: products.forward(widths * v) / unit,
        lambda u: widths * products.backward(u) / unit,
        products.r,
        limit,
    )
    return widths[:, None] * V.T if len(V) else None  # nothing is found if the backward pass diverges


def _dominant_directions(forward: Product, backward: Product, r: torch.Tensor, limit: int) -> torch.Tensor:
    """Returns orthonormal directions [K, P] with all singular vectors of a matrix A whose value exceeds `MIN_SINGULAR`.

    A Krylov space contains one direction of each set of equal singular values. The process is therefore repeated
    outside of the directions found so far, until nothing large is left.

    Args:
        forward: Product A v [N] of v [P].
        backward: Product A^T u [P] of u [N].
        r: A vector [N].
        limit: Maximum number of directions.
    """
    generator = torch.Generator().manual_seed(0)
    basis = backward(r)[None, :][:0]

    def outside(v: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            v = v - (basis @ v) @ basis
        return v

    while len(basis) < limit:
        u = torch.randn(r.shape, generator=generator, dtype=r.dtype)
        gradient = outside(backward(u))
        norm = float(torch.linalg.vector_norm(gradient))  # about the Frobenius norm of what is left of A
        space = Bidiagonalization(
            lambda v: forward(outside(v)),
            lambda u: outside(backward(u)),
            u,
            gradient,
            damping=1.0,
            tolerance=SPACE_TOLERANCE / max(norm, 1.0),
            iterations=limit - len(basis),
        )
        basis = torch.linalg.qr(torch.cat([basis, space.basis]).T).Q.T  # small directions contain rounding errors
        if space.largest < MIN_SINGULAR:
            break
    return basis

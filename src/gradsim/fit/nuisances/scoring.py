"""How much of a residual each nuisance would explain, to first order and beyond what the fitted unknowns explain.

The residual r [N] (prediction minus observation) depends on the fitted unknowns through J = dr/dx [P, N] and on the
nuisances through K = dr/da [Q, N], with amounts a in units of their standard deviations. An amount a changes the
residual at the fit to r + A' a, where A is K without its components in the span of J, because the unknowns follow. With
the prior |a|^2 the best amount is a = -(A A' / s^2 + 1)^-1 A r / s^2, and chi^2 = |r|^2 / s^2 falls by the explained
part.

All of this needs only the products of the rows of J, K and r with each other. They are accumulated over pieces of the
residual, and over trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from gradsim.fit.nuisances.nuisance import Nuisance
from gradsim.scene.errors import OutOfRange, WrongShape

PIECE = 1 << 22  # most numbers that are converted to float64 at once
INDEPENDENT = 1e-9  # least part of a direction's squared norm outside the span of the unknowns


@dataclass(frozen=True, eq=False)
class Gram:
    """Products of the rows of [J; K; r] with each other, of one trial or summed over several.

    Attributes:
        products: [P + Q + 1, P + Q + 1] float64.
        unknowns: Number P of fitted unknowns.
        count: Number N of residuals, without those that are missing or have no weight.
    """

    products: torch.Tensor
    unknowns: int
    count: int

    def __add__(self, other: Gram) -> Gram:
        if self.products.shape != other.products.shape or self.unknowns != other.unknowns:
            shapes = f"{tuple(self.products.shape)} and {tuple(other.products.shape)}"
            raise WrongShape("Gram", shapes, "trials must have the same unknowns and nuisances; use rows of zeros")
        return Gram(self.products + other.products, self.unknowns, self.count + other.count)


def gram(residual: torch.Tensor, J: torch.Tensor, K: torch.Tensor) -> Gram:
    """Returns the products of the rows of J [P, N], K [Q, N] and the residual [N]; any floating-point type.

    Entries where the residual and all rows are zero, as those that are missing, are not counted.
    """
    length = len(residual)
    if J.ndim != 2 or K.ndim != 2 or J.shape[1] != length or K.shape[1] != length:
        shapes = f"shapes {tuple(J.shape)} and {tuple(K.shape)}"
        raise WrongShape("J, K", shapes, f"must be [P, {length}] and [Q, {length}], as many columns as residuals")
    rows = len(J) + len(K) + 1
    products = torch.zeros(rows, rows, dtype=torch.float64, device=residual.device)
    count, piece = 0, max(1, PIECE // rows)
    for start in range(0, length, piece):
        part = slice(start, start + piece)
        given = (J[:, part], K[:, part], residual[None, part])
        matrix = torch.cat([a.detach().to(torch.float64) for a in given])
        products += matrix @ matrix.mT
        count += int(matrix.any(0).sum())
    return Gram(products, len(J), count)


@dataclass(frozen=True, eq=False)
class Scores:
    """chi^2 that nuisances explain, each by itself.

    Attributes:
        explained: Decrease of chi^2, [Q].
        amounts: Amounts in units of their standard deviations, [Q].
        chi2: chi^2 of the residual outside the span of the unknowns.
        count: Number of residuals.
        variance: Variance of a residual that chi^2 is relative to: sigma^2, or the mean square of what is left after
            the fit if that is larger.
    """

    explained: torch.Tensor
    amounts: torch.Tensor
    chi2: float
    count: int
    variance: float


@dataclass(frozen=True, eq=False)
class GroupScore:
    """chi^2 that several nuisances explain together.

    Attributes:
        explained: Decrease of chi^2.
        amounts: Amount of each member in units of its standard deviation, by path.
    """

    explained: float
    amounts: Mapping[str, float]


def scores(
    residual: torch.Tensor,
    J: torch.Tensor,
    K: torch.Tensor,
    sigma: float,
    *,
    low: torch.Tensor | None = None,
) -> Scores:
    """Returns the chi^2 that each nuisance explains to first order, projected off the fitted unknowns.

    Args:
        residual: Prediction minus observation at the fit, [N].
        J: Its derivatives with respect to the fitted unknowns, [P, N].
        K: Its derivatives with respect to the nuisances, in units of their standard deviations, [Q, N].
        sigma: Standard deviation of the noise, in units of the residual.
        low: Smallest amounts in units of their standard deviations, [Q]; -inf if None.
    """
    return gram_scores(gram(residual, J, K), sigma, low=low)


def gram_scores(products: Gram, sigma: float, *, low: torch.Tensor | None = None) -> Scores:
    """Returns the same from the products of the rows of J, K and the residual."""
    reduced = _reduced(products, sigma)
    squares, inner = reduced.squares.diagonal(), reduced.inner
    amounts = -inner / (squares + 1.0)
    if low is not None:
        amounts = torch.maximum(amounts, low.to(amounts))
    explained = -(2.0 * amounts * inner + amounts * amounts * squares)
    return Scores(explained, amounts, reduced.chi2, products.count, reduced.variance)


def group_scores(products: Gram, nuisances: Sequence[Nuisance], sigma: float) -> dict[str, GroupScore]:
    """Returns the chi^2 that all nuisances of each group explain together, by group, the largest first.

    Args:
        products: Products of the rows; those of K in the order of `nuisances`.
        nuisances: The nuisances.
        sigma: Standard deviation of the noise, in units of the residual.
    """
    reduced = _reduced(products, sigma)
    if len(nuisances) != len(reduced.inner):
        remedy = f"must be as many as rows of K, {len(reduced.inner)}"
        raise WrongShape("nuisances", f"{len(nuisances)} nuisances", remedy)
    found = {}
    for group in dict.fromkeys(nuisance.group for nuisance in nuisances):
        members = [k for k, nuisance in enumerate(nuisances) if nuisance.group == group]
        explained, amounts = joint_score(reduced.squares[members][:, members], reduced.inner[members])
        paths = (nuisances[k].path for k in members)
        found[group] = GroupScore(explained, dict(zip(paths, amounts.tolist(), strict=True)))
    return dict(sorted(found.items(), key=lambda item: -item[1].explained))


def joint_score(squares: torch.Tensor, inner: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Returns the chi^2 that directions explain together and their amounts [Q], from A A' / s^2 and A r / s^2."""
    amounts = -torch.linalg.solve(squares + torch.eye(len(inner), dtype=squares.dtype), inner)
    return float(-(2.0 * amounts @ inner + amounts @ squares @ amounts)), amounts


@dataclass(frozen=True, eq=False)
class _Reduced:
    squares: torch.Tensor  # A A' / s^2, [Q, Q]
    inner: torch.Tensor  # A r / s^2, [Q]
    chi2: float
    variance: float


def _reduced(products: Gram, sigma: float) -> _Reduced:
    """Projects the nuisances and the residual off the unknowns."""
    if not 0.0 < sigma < math.inf:
        raise OutOfRange("sigma", sigma, "must be > 0 and finite, in units of the residual")
    P, rest = products.unknowns, products.products[products.unknowns :, products.unknowns :]
    if P:
        own, cross = products.products[:P, :P], products.products[:P, P:]
        lengths = own.diagonal().sqrt().clamp_min(1e-300)
        values, vectors = torch.linalg.eigh(own / (lengths[:, None] * lengths))
        kept = values > 1e-12 * values[-1]
        along = vectors[:, kept].mT @ (cross / lengths[:, None]) / values[kept].sqrt()[:, None]
        rest_norms = rest.diagonal()
        rest = rest - along.mT @ along
        # Directions in the span of the unknowns are left with rounding errors only.
        independent = rest.diagonal() > INDEPENDENT * rest_norms
        independent[-1] = True
        rest = rest * independent[:, None] * independent
    left = float(rest[-1, -1].clamp_min(0.0))
    variance = max(sigma**2, left / max(products.count, 1))
    return _Reduced(rest[:-1, :-1] / variance, rest[:-1, -1] / variance, left / variance, variance)

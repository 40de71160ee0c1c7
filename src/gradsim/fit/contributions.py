"""How much of the variance of each unknown comes from which prior, from the observations and from model errors.

With the information H of the observations and the diagonal information P of the priors, the covariance for independent
noise is V = (H + P)^-1 = V H V + V P V, so that the variance of unknown i is the sum of V_ij^2 P_jj over all priors j
and of (V H V)_ii. The first terms say what would be gained: the variance of i is reduced by this fraction of any small
relative reduction of the variance of prior j.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

OBSERVATIONS, MODEL_ERROR, RANGES, OTHERS = "observations", "model error", "ranges", "other priors"
MIN_SHARE = 0.01  # shares of single priors below this are summed
NOTABLE_SHARE = 1 / 3  # of one prior, which is reported
MAX_LINES = 8  # that are printed

Contributions = dict[str, dict[str, float]]  # fractions of the variance, by coordinate and by source


def variance_contributions(
    names: Sequence[str], covariance: torch.Tensor, prior_sd: torch.Tensor, range_sd: torch.Tensor, total: torch.Tensor
) -> Contributions:
    """Returns the fractions of each coordinate's variance by source; they sum to 1.

    Args:
        names: Names of the coordinates.
        covariance: Covariance for independent noise and priors, [P, P].
        prior_sd: Standard deviations of the declared priors, infinite where there is none, [P].
        range_sd: Half widths of the plausible ranges that take the place of absent priors, [P].
        total: Variances with model errors, scatter between trials and disagreement of frames, [P].

    Sources are the names of the coordinates with a prior, "observations" (noise), "model error" (all that is added to
    noise and priors), "ranges" (of unknowns that nothing determines) and "other priors" (each below one percent).
    """
    declared = torch.isfinite(prior_sd)
    information = torch.where(declared, prior_sd, range_sd) ** -2.0
    total = torch.maximum(total, torch.diagonal(covariance)).clamp_min(1e-300)
    shares = covariance.square() * information / total[:, None]
    plain = torch.diagonal(covariance) / total
    found: Contributions = {}
    for i, name in enumerate(names):
        own = {names[j]: float(shares[i, j]) for j in torch.nonzero(declared & (shares[i] >= MIN_SHARE))[:, 0].tolist()}
        own = dict(sorted(own.items(), key=lambda item: -item[1]))
        rest = {
            OTHERS: float(shares[i, declared].sum()) - sum(own.values()),
            RANGES: float(shares[i, ~declared].sum()),
            OBSERVATIONS: float(plain[i] - shares[i].sum()),
            MODEL_ERROR: float(1.0 - plain[i]),
        }
        found[name] = own | {source: max(share, 0.0) for source, share in rest.items() if share > 1e-9}
    return found


def notable_priors(contributions: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Returns a line for each coordinate of whose variance a single prior contributes more than a third."""
    lines = []
    for name, own in contributions.items():
        priors = [(share, source) for source, share in own.items() if source not in _NO_PRIORS]
        share, source = max(priors, default=(0.0, ""))
        if share > NOTABLE_SHARE:
            whose = "its own prior" if source == name else f"the prior of {source}"
            lines.append(f"{100 * share:.0f} % of the variance of {name} comes from {whose}")
    hidden = len(lines) - MAX_LINES
    return lines if hidden <= 0 else [*lines[:MAX_LINES], f"{hidden} further values depend mainly on one prior"]


_NO_PRIORS = frozenset({OBSERVATIONS, MODEL_ERROR, RANGES, OTHERS})

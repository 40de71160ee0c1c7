"""Nuisances: what may be slightly wrong in a scene or a video, and how much of a residual each would explain."""

from gradsim.fit.nuisances.catalogue import nuisances
from gradsim.fit.nuisances.nuisance import GROUPS, Nuisance, adjustment, apply, batches, chosen
from gradsim.fit.nuisances.scoring import Gram, GroupScore, Scores, gram, gram_scores, group_scores, scores

__all__ = [
    "GROUPS",
    "Gram",
    "GroupScore",
    "Nuisance",
    "Scores",
    "adjustment",
    "apply",
    "batches",
    "chosen",
    "gram",
    "gram_scores",
    "group_scores",
    "nuisances",
    "scores",
]

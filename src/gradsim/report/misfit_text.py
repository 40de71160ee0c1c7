"""Sentences about the misfit of a fit and about its intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradsim.fit.contributions import notable_priors
from gradsim.fit.misfit import MAX_CENTER_ERROR, MAX_NOISE, MIN_OVERLAP, Misfit
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.result import Fit
from gradsim.fit.uncertainty import FIRST_PART, HOLDOUT_DEVIATIONS

SOURCES = {
    "bootstrap": "Fits of simulated videos that are encoded in the same way, for the errors of a compressed video.",
    "noise": "Independent noise of the observations.",
    "model error in time": "Residuals that are correlated from frame to frame, as a Gaussian process.",
    "scatter between trials": "Differences between trials that are larger than their noise.",
    "scatter between groups of trials": "Differences between the estimates from separate groups of trials.",
    "disagreement of first and last frames": "Estimates from the first and from the last frames that disagree.",
    "priors": "Priors of unknowns, and of errors of the scene that are estimated along with them.",
    "residuals": "Residuals as independent noise, which is too narrow for a compressed video: the fit is incomplete.",
}  # what the intervals contain, by its word in `Fit.interval_method`


@dataclass(frozen=True)
class Test:
    """One test of whether a scene explains its observations."""

    name: str
    value: str
    limit: str
    passed: bool | None  # None if it does not apply


def misfit_text(fit: Fit) -> str:
    """Returns the reasons, the likely cause and the corrections of a fit that does not explain the observations."""
    misfit = fit.misfit
    reasons = "; ".join(misfit.reasons)
    text = f"{reasons[:1].upper()}{reasons[1:]}."
    if misfit.corrections:
        text += f" This is with corrections: {', '.join(misfit.corrections)}."
    if misfit.nonsense:
        return f"{text} Check that the scene is the recorded one, and how it starts. The values below have no meaning."
    if misfit.causes:
        text += f" Likely cause: {misfit.causes[0]}."
    return f"{text} The values below may be wrong by more than their intervals."


def correction_text(fit: Fit) -> str:
    """Returns a sentence about errors of the scene that were estimated along with the unknowns."""
    listed = ", ".join(fit.misfit.corrections)
    return (
        f"The scene as given does not explain the observation. It does with {listed}, estimated along with the values "
        "below. Correct the scene, or declare what is known only roughly, and repeat the estimate."
    )


def misfit_tests(misfit: Misfit) -> list[Test]:
    """Returns the tests behind `Misfit.ok`, in words and numbers."""
    score = f"{misfit.causes[0].score:.0f}" if misfit.causes else f"below {misfit.score_limit:.0f}"
    return [
        _upper("mean squared residual over noise variance", misfit.chi2, misfit.chi2_limit),
        _upper("the same where something moves", misfit.moving_chi2, misfit.moving_limit),
        _lower("visible change that the scene explains", misfit.explained, misfit.explained_limit),
        _upper("residual of tracked centres over apparent diameter", misfit.center_error, MAX_CENTER_ERROR),
        _lower("overlap of predicted and observed motion", misfit.overlap, MIN_OVERLAP),
        _noise_test(misfit.noise),
        Test(
            "chi² explained by one small error of the scene",
            score,
            f"at most {misfit.score_limit:.0f}",
            not misfit.causes or misfit.causes[0].score <= misfit.score_limit,
        ),
    ]


def _upper(name: str, value: float, limit: float) -> Test:
    if math.isnan(value):
        return Test(name, "–", "", None)
    return Test(name, f"{value:.4g}", f"at most {limit:.4g}", value <= limit)


def _lower(name: str, value: float, limit: float) -> Test:
    if math.isnan(value):
        return Test(name, "–", "", None)
    return Test(name, _percent(max(value, 0.0)), f"at least {_percent(limit)}", value >= limit)


def _noise_test(noise: float) -> Test:
    """The test of the noise of videos, which is 0 for other observations."""
    if not noise:
        return Test("noise of the video", "–", "", None)
    return Test("noise of the video", _percent(noise), f"at most {_percent(MAX_NOISE)}", noise <= MAX_NOISE)


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %"


def noise_text(fit: Fit) -> str:
    """Returns a sentence if the size of the residuals is no test, because the noise is taken from them."""
    observations = [item for trial in fit.trials for item in trial.observations]
    own = [
        not isinstance(item, Pixels) and any(item.group_noise(name) is None for name, _ in item.groups())
        for item in observations
    ]
    if not any(own):
        return ""
    return (
        "The noise of observations without a given noise is taken from their residuals, so that the size of these "
        "residuals is no test. State the noise to have it tested."
    )


def holdout_text(fit: Fit) -> str:
    """Returns sentences about the agreement of the estimates from the first and from the last frames."""
    value = fit.misfit.holdout
    if math.isnan(value) or fit.misfit.nonsense:
        return ""
    part = f"{100 * FIRST_PART:.0f} %"
    text = (
        f"The first {part} of the frames and the rest give separate estimates, to first order. Of all values, they "
        f"differ by at most {value:.2g} standard deviations of their difference. "
    )
    if value <= HOLDOUT_DEVIATIONS:
        return f"{text}Noise explains up to {HOLDOUT_DEVIATIONS:g}: the two parts agree."
    return (
        f"{text}Noise explains up to {HOLDOUT_DEVIATIONS:g}: something changes over time that the scene does not "
        "contain. The intervals are widened by the excess."
    )


def interval_sources(fit: Fit) -> list[str]:
    """Returns a sentence for each part of the intervals, and for each value that depends mainly on one prior."""
    words = [word.strip().split(":")[0] for word in fit.interval_method.split(", ")]
    priors = [f"{text}." for text in notable_priors(fit.contributions)]
    return [*(SOURCES[word] for word in words if word in SOURCES), *priors]

"""Intervals of videos without noise that this simulator did not make.

The motion is that of a rigid impact or of Coulomb's law. Compliant contact with smoothed friction cannot follow it
exactly, but to less than the rounding to 8 bits on average.
"""

import dataclasses
import functools

import pytest

from gradsim.experiments import touching_bodies
from gradsim.experiments.touching_bodies import CLOSED_FORM, OWN, SUBJECTS, half_widths


def quiet(text):
    """Discards progress messages."""


SMALL = {subject.name: dataclasses.replace(subject, size=(24, 32)) for subject in SUBJECTS}


@functools.cache
def closed_form_fit(name):
    return SMALL[name].fit(SMALL[name].video(CLOSED_FORM), quiet)


@pytest.mark.parametrize("name", list(SMALL))
def test_intervals_from_a_closed_form_contain_the_truth(name):
    subject, fit = SMALL[name], closed_form_fit(name)
    assert fit.misfit.chi2 < 1.0 or not fit.certain
    assert "model error of a video without noise" in fit.interval_method
    for path, truth in subject.truth.items():
        low, high = fit.intervals[path]
        assert low < truth < high, path
    assert max(half_widths(fit, subject.truth).values()) < 0.05


def test_the_compliance_of_contact_is_named_as_the_cause():
    """Balls that touch for 0.4 ms are not where those of an impact at an instant are."""
    fit = closed_form_fit("colliding balls")
    assert fit.misfit.causes[0].path == "pairs.left-right.ke"
    assert fit.misfit.causes[0].amount > 0.0


def test_own_videos_have_narrow_intervals():
    subject = SMALL["sliding boxes"]
    fit = subject.fit(subject.video(OWN), quiet)
    assert fit.certain
    assert "model error of a video without noise" not in fit.interval_method
    (width,) = half_widths(fit, subject.truth).values()
    assert width < 1e-6
    assert float(fit.values["pairs.box-plank.mu"]) == pytest.approx(0.35, rel=1e-6)


def test_two_masses_that_collide_are_known_by_their_ratio():
    row = touching_bodies.ratio_row(quiet)
    assert row["ratio"] == 1.0, row["status"]

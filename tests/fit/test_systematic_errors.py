"""Intervals of videos without noise that this simulator did not make.

The motion is that of a rigid impact or of Coulomb's law. Compliant contact with smoothed friction cannot follow it
exactly, but so closely that no pixel differs by more than the rounding to 8 bits.
"""

import dataclasses

import pytest

from gradsim.experiments import touching_bodies
from gradsim.experiments.touching_bodies import CLOSED_FORM, OWN, SUBJECTS, half_widths


def quiet(text):
    """Discards progress messages."""


SMALL = {subject.name: dataclasses.replace(subject, size=(24, 32)) for subject in SUBJECTS}


@pytest.mark.parametrize("subject", SMALL.values(), ids=list(SMALL))
def test_intervals_from_a_closed_form_contain_the_truth(subject):
    fit = subject.fit(subject.video(CLOSED_FORM), quiet)
    assert fit.misfit.chi2 < 1.0
    assert "errors of time step and scene" in fit.interval_method
    for path, truth in subject.truth.items():
        low, high = fit.intervals[path]
        assert low < truth < high, path
        assert fit.standard_deviation.max() < 0.05


def test_own_videos_have_narrow_intervals():
    subject = SMALL["sliding boxes"]
    fit = subject.fit(subject.video(OWN), quiet)
    assert fit.certain
    assert "errors of time step and scene" not in fit.interval_method
    (width,) = half_widths(fit, subject.truth).values()
    assert width < 1e-6
    assert float(fit.values["pairs.box-plank.mu"]) == pytest.approx(0.35, rel=1e-6)


def test_two_masses_that_collide_are_known_by_their_ratio():
    row = touching_bodies.ratio_row(quiet)
    assert row["ratio"] == 1.0, row["status"]

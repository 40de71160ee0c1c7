"""`gradsim reproduce touching` on small images: own videos, the closed forms, and the verdict on two masses."""

from dataclasses import replace

import numpy as np
import pytest

from gradsim.experiments import contact_pairs
from gradsim.experiments.contact_pairs import BALLS, CLOSED_FORM, FRICTION, LEFT_MASS, MASSES, OWN, START
from gradsim.fit.simulation import simulate_over
from gradsim.scene.time import Time

BALLS_MEET, BOXES_SLIDE = contact_pairs.SUBJECTS
SMALL = {
    "balls": replace(BALLS_MEET, size=(24, 32), time=Time(10, 20.0, 2000)),
    "boxes": replace(BOXES_SLIDE, size=(24, 32), time=Time(8, 20.0, 250)),
}


def quiet(text):
    """Discards progress messages."""


@pytest.mark.parametrize("name", SMALL)
def test_parameters_from_an_own_video(name):
    row = SMALL[name].row(OWN, quiet)
    assert row["status"] == "converged"
    assert row["certain"]
    assert row["error"] < contact_pairs.ALLOWED
    assert all(claim.ok for claim in contact_pairs.claims([row]))


@pytest.mark.parametrize("name", SMALL)
def test_paths_of_the_closed_form_are_those_of_the_simulation(name):
    """Except for the compliance of contact: 0.4 ms of an impact, and the last millimetre of sliding."""
    subject = SMALL[name]
    run = simulate_over(subject.scene(*subject.truth.values()), subject.time)
    paths = subject.paths(np.arange(subject.time.frames) / subject.time.fps)
    for body, path in zip(subject.scene(*subject.truth.values()).bodies, paths, strict=True):
        moved = run[body.name].position.numpy() - run[body.name].position[0].numpy()
        assert np.abs(moved - path)[:, [0, 2]].max() < 1e-3
        assert np.abs(path).max() > 0.05


def test_closed_forms_conserve_momentum():
    for (first, second), masses in (
        (contact_pairs.impact_paths(np.array([0.0, 0.5, 1.0])), (LEFT_MASS, BALLS["right.mass"])),
        (contact_pairs.coulomb_paths(np.array([0.0, 0.2, 0.4])), MASSES),
    ):
        moved = masses[0] * np.asarray(first) + masses[1] * np.asarray(second)
        assert np.allclose(moved[2], 2 * moved[1])
    assert abs(START) > 2 * 0.1  # the balls do not touch at first


def test_intervals_contain_the_friction_of_a_closed_form():
    row = SMALL["boxes"].row(CLOSED_FORM, quiet)
    assert row["worst"] < 1.0 or not row["certain"]
    assert row["error"] < 0.02


def test_a_collision_determines_the_ratio_of_the_masses():
    row = contact_pairs.ratio_row(quiet)
    assert row["ratio"] == 1.0
    assert "only" in row["status"]


def test_claims_are_false_for_wrong_rows():
    wrong = [
        {"video": OWN, "error": 1e-3, "worst": 0.5},
        {"video": CLOSED_FORM, "error": 1e-3, "worst": 12.0},
        {"ratio": 0.0},
    ]
    assert [claim.ok for claim in contact_pairs.claims(wrong)] == [False, False, False]
    assert set(FRICTION) == {"pairs.box-plank.mu"}

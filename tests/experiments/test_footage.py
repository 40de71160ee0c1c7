"""The table of estimates from footage: what is judged and what it claims."""

import math
from types import SimpleNamespace

import pytest

from gradsim.experiments.footage import REAL, SYNTHETIC, TRAP, claims, experiment, judged


def fit_with(path, value, low, high):
    return SimpleNamespace(values={path: value}, intervals={path: (low, high)})


def test_gravity_points_down_and_frequencies_follow_from_stiffness():
    row = judged(fit_with("scene.gravity[1]", -9.7, -10.0, -9.4), "gravity", 9.81)
    assert (row["value"], row["low"], row["high"]) == (9.7, 9.4, 10.0)
    assert row["inside"] == "yes"
    stiffness = (2 * math.pi * 3.0) ** 2
    row = judged(fit_with("object.stiffness", stiffness, stiffness, stiffness * 1.01), "frequency", 4.0)
    assert row["value"] == pytest.approx(3.0)
    assert row["inside"] == "no"
    assert judged(fit_with("ground.mu", 0.1, 0.0, 0.2), "length", 1.0) is None


def test_claims_count_found_objects_intervals_and_traps():
    inside = {"quantity": "gravity", "true": 9.81, "value": 9.8, "half width": 0.03, "inside": "yes"}
    outside = {**inside, "inside": "no", "half width": 0.2}
    rows = [
        {"video": "a.mp4", "group": REAL, "certain": "yes", "values": [outside]},
        {"group": SYNTHETIC, "seeds": "tuning", "object": "yes", "certain": "yes", "values": [inside]},
        {"group": SYNTHETIC, "seeds": "tuning", "object": "wrong", "certain": "yes", "values": [outside]},
        {"group": TRAP, "certain": "yes", "values": []},
    ]
    found = {claim.description.partition(",")[0]: claim for claim in claims(rows)}
    assert not any(claim.ok for claim in claims(rows) if "wrong objects" in claim.description)
    assert found["object found"].value == 0.5
    assert found["truth inside the interval"].value == 1.0
    assert found["called certain"].value == 1.0
    assert not any(claim.ok for claim in claims(rows) if "a.mp4" in claim.description)


def test_every_video_is_a_case_of_its_own():
    table = experiment(synthetic=range(3), traps=("pan", "still"))
    assert [case.key for case in table.cases] == ["seed 0", "seed 1", "seed 2", "trap pan", "trap still"]

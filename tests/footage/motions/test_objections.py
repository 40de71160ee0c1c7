"""Motions that fit a path and cannot be what a video shows: backwards, driven, sideways, cut, at a wrong rate."""

import math
import re

import numpy as np
import pytest
from tests.footage.motions.test_motion_fits import HEIGHT, SCALE, WIDTH, dragged, seen

from gradsim.footage.measured import Measured
from gradsim.footage.motions.objections import objections, scale_objection
from gradsim.footage.motions.registry import fit_motions
from gradsim.footage.motions.view import View

TIMES = np.arange(60) / 30


def bouncing():
    return dragged(TIMES, (0.3, 0.0), floor=-0.6)


def swinging(times=TIMES, decay=0.05):
    angle = 0.4 * np.exp(-decay * times) * np.cos(3.7 * times)
    return np.stack([0.7 * np.sin(angle), 0.4 - 0.7 * np.cos(angle)], 1)


def thrown():
    return dragged(TIMES[:24], (2.0, 3.0))


def turned(points):
    return np.stack([points[:, 1], -points[:, 0]], 1)


RIGHT = {"bounce": bouncing, "swing": swinging, "throw": thrown}
WRONG = {
    "bounces backwards": (lambda: bouncing()[::-1], "leaves the floor .* times as fast as it arrives"),
    "a swing that grows": (lambda: swinging(decay=-0.3), "grows to .* times its width"),
    "a throw of a camera on its side": (lambda: turned(thrown()), "accelerates to the left in the picture"),
    "a throw upside down": (lambda: thrown() * (1, -1), "accelerates up in the picture"),
    "a swing with a gap": (
        lambda: swinging(np.concatenate([TIMES[:30], TIMES[:30] + 1.5])),
        r"the swing jumps 1\.\d\d s after the first frame",
    ),
}


def doubts(points):
    path = seen(TIMES[: len(points)], points)
    return objections(path, fit_motions(path)[0])


@pytest.mark.parametrize("name", RIGHT)
def test_right_motions_are_not_doubted(name):
    assert doubts(RIGHT[name]()) == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong_motions_are_doubted(name):
    make, sentence = WRONG[name]
    found = doubts(make())
    assert len(found) == 1
    assert re.search(sentence, found[0])


def view(scale, diameter_px=14.0):
    known = None if scale is None else Measured(scale, 0.02 * scale)
    return View((HEIGHT, WIDTH), Measured(600.0, 60.0), known, diameter_px)


def test_slow_motion_with_the_rate_of_its_playback_is_doubted():
    slow = seen(TIMES[:24] * 8, thrown())  # 240 frames per second, played at 30
    fit = fit_motions(slow)[0]
    assert "recorded at 24" in scale_objection(fit, view(SCALE), 30.0)
    assert "4.5 m wide" in scale_objection(fit, view(None), 30.0)
    right = fit_motions(seen(TIMES[:24], thrown()))[0]
    assert scale_objection(right, view(SCALE), 30.0) is None
    assert scale_objection(right, view(None), 30.0) is None


def test_known_gravity_is_not_doubted():
    slow = fit_motions(seen(TIMES[:24] * math.sqrt(6), thrown()))[0]
    moon = View((HEIGHT, WIDTH), Measured(600.0, 60.0), Measured(SCALE, 4.0), 14.0, gravity=1.62)
    assert scale_objection(slow, moon, 30.0) is None

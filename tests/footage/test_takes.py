"""A cut is reported with the longest take; hands, flashes of exposure and shaking are no cuts."""

import numpy as np
import pytest
from tests.footage.videos import Clip, draw, recording_of, with_hand

from gradsim.footage.detection import find_moving_objects
from gradsim.footage.takes import find_cuts
from gradsim.scene.errors import SceneCut


@pytest.fixture(scope="module")
def images():
    return draw(Clip(count=20))[0]


def test_a_cut_is_reported(images):
    other = draw(Clip(count=14, seed=5))[0]
    with pytest.raises(SceneCut, match=r"changes at once before frame 20: needs one take: select frames=\(0, 20\)"):
        find_moving_objects(recording_of(np.concatenate([images, other])))


def test_one_take_has_no_cuts(images):
    assert find_cuts(images) == []
    assert find_cuts(with_hand(images, 12.0 * np.arange(20), width=110)) == []


def test_a_change_of_exposure_is_no_cut(images):
    darker = images.copy()
    darker[9:] = (0.7 * darker[9:]).astype(np.uint8)
    assert find_cuts(darker) == []


def test_a_shaking_camera_makes_no_cuts(images):
    shifts = np.random.default_rng(0).integers(-4, 5, (20, 2))
    assert find_cuts(np.stack([np.roll(own, shift, (0, 1)) for own, shift in zip(images, shifts, strict=True)])) == []

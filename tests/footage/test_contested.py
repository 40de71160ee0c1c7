"""Objects that stay where they are for much of the time, and motions that are parts of one."""

import numpy as np
import pytest
from tests.footage.videos import Clip, clutter, coverage, draw, recording_of

from gradsim.footage.contested import settled_plate
from gradsim.footage.detection import find_moving_objects
from gradsim.footage.exposure import ExposureDrift
from gradsim.footage.plate import background_plate
from gradsim.scene.errors import SceneCut

SIZE = (120, 100)
WALL = np.full((*SIZE, 3), (0.6, 0.62, 0.66)) + 0.03 * np.sign(np.sin(np.arange(SIZE[1]) / 7))[:, None]


def drawn(*discs):
    """Images of discs (centres [T, 2], radius, colour) in front of a wall."""
    random, images = np.random.default_rng(0), []
    for k in range(len(discs[0][0])):
        image = WALL.copy()
        for centers, radius, color in discs:
            alpha = coverage(centers[k], radius, SIZE)[..., None]
            image = image * (1 - alpha) + np.array(color) * alpha
        images.append(image + 0.008 * random.standard_normal(image.shape))
    return (255 * np.clip(images, 0, 1)).round().astype(np.uint8)


def swing(count, amplitude, rest=(50.0, 60.0)):
    return np.array(rest) + np.outer(amplitude * np.cos(0.42 * np.arange(count)), (0.0, 1.0))


def test_a_ball_that_swings_by_less_than_its_size_is_found_whole():
    centers = swing(60, 8.0)
    detection = find_moving_objects(recording_of(drawn((centers, 11.0, (0.85, 0.2, 0.3)))))
    best = detection.best
    assert len(best) == 60
    assert best.diameter == pytest.approx(22.0, rel=0.1)
    assert np.abs(best.centers - centers[best.frames]).max() < 1.0


def test_a_plate_without_contested_pixels_stays_the_same():
    images = drawn((np.stack([np.linspace(10, 90, 40), np.full(40, 60.0)], 1), 9.0, (0.85, 0.2, 0.3)))
    plate = background_plate(images)
    assert settled_plate(images, ExposureDrift.none(len(images)), plate) is plate


def test_what_moves_with_the_object_is_no_other_object():
    centers = swing(40, 25.0, (50.0, 80.0))
    coil = np.array([50.0, 45.0]) + 0.5 * (centers - [50.0, 80.0])
    attached = drawn((centers, 8.0, (0.85, 0.2, 0.3)), (coil, 6.0, (0.2, 0.2, 0.25)))
    assert not find_moving_objects(recording_of(attached)).ambiguous
    free = np.array([20.0, 60.0]) + np.outer(25 * np.cos(0.29 * np.arange(40) + 1), (0.0, 1.0))
    apart = drawn((centers, 8.0, (0.85, 0.2, 0.3)), (free, 8.0, (0.85, 0.2, 0.3)))
    assert find_moving_objects(recording_of(apart)).ambiguous


def test_missing_frames_are_noticed():
    clip = Clip(size=(200, 320), count=40, radius=9.0, shadow=False)
    images, _ = draw(clip, background=clutter(clip.size, 4))
    whole = find_moving_objects(recording_of(images))
    whole.check_unbroken()
    cut = find_moving_objects(recording_of(np.concatenate([images[:14], images[26:]])))
    with pytest.raises(SceneCut, match=r"the object jumps between frames 13 and 14, .* select frames=\(\d+, \d+\)"):
        cut.check_unbroken()

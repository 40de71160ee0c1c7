"""Gains of exposure and white balance are measured against the background, and undone."""

import numpy as np
import pytest
from tests.footage.videos import Clip, draw, recording_of, to_light, to_values

from gradsim.footage.detection import find_moving_objects
from gradsim.footage.exposure import ExposureDrift, exposure_drift
from gradsim.footage.plate import background_plate

CLIP = Clip(count=24)
PHASE = np.linspace(0, 1, CLIP.count)[:, None]
GAINS = 1 + PHASE * np.array([0.35, 0.2, -0.15]) + 0.05 * np.sin(9 * PHASE)


@pytest.fixture(scope="module")
def drifting():
    images, centers = draw(CLIP)
    changed = to_values(to_light(images / 255.0) * GAINS[:, None, None])
    return (255 * np.clip(changed, 0, 1)).round().astype(np.uint8), centers


def test_gains_are_found_to_a_percent(drifting):
    images, _ = drifting
    found = exposure_drift(images, background_plate(images)).gains
    assert np.abs(found / GAINS * np.median(GAINS / found, 0) - 1).max() < 0.012


def test_drift_neither_hides_nor_invents_objects(drifting):
    images, centers = drifting
    detection = find_moving_objects(recording_of(images))
    assert detection.exposure.largest > 0.1
    assert len(detection.best) >= CLIP.count - 2
    errors = np.abs(detection.best.centers - centers[detection.best.frames])
    assert np.median(errors) < 0.6
    assert errors.max() < 2.0  # of blobs: a shadow that the drift makes visible moves them
    assert detection.ambiguity < 0.3


def test_a_large_object_is_no_drift():
    random = np.random.default_rng(0)
    images = (255 * np.broadcast_to(random.uniform(0.3, 0.8, (60, 80, 1)), (9, 60, 80, 3))).astype(np.uint8)
    covered = images.copy()
    covered[4, :, :50] = 20
    assert np.abs(exposure_drift(covered, background_plate(images)).gains - 1).max() < 0.005


def test_values_and_light_are_those_of_the_plate():
    image = np.full((2, 2, 3), 128, np.uint8)
    drift = ExposureDrift(np.array([[2.0, 1.0, 0.5]]))
    light = float(to_light(128 / 255))
    assert drift.light(image, 0)[0, 0] == pytest.approx([light / 2, light, 2 * light], rel=1e-5)
    assert drift.values(image, 0)[0, 0] == pytest.approx(to_values([light / 2, light, 2 * light]), rel=1e-5)

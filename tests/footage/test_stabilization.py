"""A shaking camera is stabilized; one that moves in another way is reported."""

import cv2
import numpy as np
import pytest
from tests.footage.videos import Clip, clutter, draw, recording_of

from gradsim.footage.stabilization import shift_image, still_picture
from gradsim.scene.errors import MovingCamera

CLIP = Clip(count=12)


@pytest.fixture(scope="module")
def images():
    return draw(CLIP)[0]


def test_a_still_camera_is_left_alone(images):
    picture = still_picture(recording_of(images))
    assert picture.camera.is_still
    assert np.array_equal(picture.frames, images)
    assert picture.plate.noise_level < 0.03
    assert picture.exposure.largest < 0.01


def test_shaking_is_removed(images):
    truth = np.random.default_rng(3).uniform(-3, 3, (len(images), 2))
    truth[0] = 0
    shaken = np.stack([shift_image(image, own) for image, own in zip(images, truth, strict=True)])
    picture = still_picture(recording_of(shaken))
    frames = picture.frames
    assert picture.camera.stabilized
    assert np.abs(picture.camera.shift - truth).max() < 0.3
    inside = (slice(None), slice(8, -8), slice(8, -8))
    error = [np.abs(own[inside].astype(int) - images[inside]).mean() for own in (frames, shaken)]
    assert error[0] < 0.5 * error[1]


def test_an_object_that_moves_in_some_tiles_is_no_camera_motion(images):
    swinging = images.copy()
    for k, image in enumerate(swinging):
        image[:, 100 + k : 110 + k] = 240  # a bright bar in front of two of the six tiles
    assert still_picture(recording_of(swinging)).camera.is_still


def test_the_grain_of_low_light_is_no_camera_motion():
    picture = still_picture(recording_of(draw(Clip(count=12, noise=0.05))[0]))
    assert picture.camera.is_still
    assert picture.plate.noise_level > 0.03


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_zoom_is_reported(noise):
    background = (255 * clutter(CLIP.size, 0)).astype(np.uint8)
    center = (CLIP.size[1] / 2, CLIP.size[0] / 2)
    matrices = [cv2.getRotationMatrix2D(center, 2 * k, 1 + 0.04 * k) for k in range(12)]
    zoomed = np.stack([cv2.warpAffine(background, own, CLIP.size[::-1]) for own in matrices])
    noisy = zoomed + 255 * noise * np.random.default_rng(0).standard_normal(zoomed.shape)
    with pytest.raises(MovingCamera, match=r"clip.mp4 = the camera moves .* use a tripod"):
        still_picture(recording_of(np.clip(noisy, 0, 255).astype(np.uint8)))

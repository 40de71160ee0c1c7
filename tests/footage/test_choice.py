"""Which object is meant: by its score, by a point, without rectangles, and when a hand is near."""

import numpy as np
import pytest
from tests.footage.videos import TWO_BALLS, Clip, draw, mirrored, parabola, recording_of, two_ball_images, with_hand

from gradsim.footage.detection import find_moving_objects
from gradsim.scene.errors import AmbiguousObject, NoMovingObject, OutOfRange


@pytest.fixture(scope="module")
def two_balls():
    """Two equal balls."""
    centers, others = (motion(TWO_BALLS, np.arange(TWO_BALLS.count)) for motion in (parabola, mirrored))
    return recording_of(two_ball_images()), centers, others


def test_two_equal_balls_are_reported(two_balls):
    detection = find_moving_objects(two_balls[0])
    assert detection.ambiguous
    assert detection.ambiguity > 0.5
    with pytest.raises(AmbiguousObject, match=r"two objects move alike: at \(\d+, \d+\) and at .* object_at="):
        detection.check_unambiguous()


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("frame", [None, 20])
def test_a_point_chooses_the_object(two_balls, which, frame):
    path = two_balls[which]
    detection = find_moving_objects(two_balls[0], object_at=tuple(path[20] + 2), at_frame=frame)
    best = detection.best
    assert np.median(np.abs(best.centers - path[best.frames])) < 1.0
    detection.check_unambiguous()


def test_rectangles_are_ignored(two_balls):
    recording, centers, _ = two_balls
    lower = (0, centers[:, 1].max() + 12, 320, 200)
    detection = find_moving_objects(recording, ignore=[lower, (150, 0, 170, 5)])
    assert np.abs(detection.best.centers - centers[detection.best.frames]).max() < 2.0
    assert all(blob.center[1] < lower[1] for own in detection.blobs for blob in own)


BAD_CHOICES = {
    "away from paths": ({"object_at": (5, 5)}, NoMovingObject, r"no object passes \(5, 5\): needs a point"),
    "outside": (
        {"object_at": (400, 5)},
        OutOfRange,
        r"object_at = \(400, 5\): must be inside the picture of 320 x 200",
    ),
    "no such frame": ({"object_at": (9, 9), "at_frame": 99}, OutOfRange, "at_frame = 99: .* frames 0 to 27"),
    "empty rectangle": ({"ignore": [(9, 9, 3, 30)]}, OutOfRange, "ignore = .* x1 < x2"),
}


@pytest.mark.parametrize("case", BAD_CHOICES)
def test_bad_choices(two_balls, case):
    options, error, message = BAD_CHOICES[case]
    with pytest.raises(error, match=message):
        find_moving_objects(two_balls[0], **options)


def drop(clip, times):
    """A disc that rests in the upper half for ten frames and then falls."""
    t = np.maximum(np.asarray(times, float) - 10, 0)
    return np.stack([0.5 * clip.size[1] + 25 + 0 * t, 70 + 0.6 * t**2], -1)


def test_a_ball_is_the_object_and_not_the_hand_that_releases_it():
    clip = Clip(size=(240, 320), count=25, radius=9.0, shadow=False)
    images, centers = draw(clip, drop)
    hand = 75 - 6.0 * np.maximum(np.arange(25) - 10, 0)
    detection = find_moving_objects(recording_of(with_hand(images, hand)))
    best = detection.best
    late = best.frames >= 15  # the hand is apart
    assert late.sum() >= 8
    assert np.abs(best.centers - centers[best.frames])[late].max() < 1.5
    start, stop = detection.free_ranges()[0]
    assert 11 <= start <= 16
    assert stop >= 23

"""Blobs are linked over gaps and bounces, and the object that travels has the best score."""

import numpy as np
import pytest
from tests.footage.videos import Clip, bounces, parabola

from gradsim.footage.objects import Blob
from gradsim.footage.tracklets import link_blobs

CLIP = Clip(size=(240, 320), count=40, radius=6.0)
TIMES = np.arange(40) / 30


def blob(frame, center, area=113, contrast=0.4):
    return Blob(frame, tuple(center), area, (0, 0, 12, 12), contrast, False, np.ones((12, 12), bool))


def one_per_frame(centers):
    return [[blob(k, center)] for k, center in enumerate(centers)]


def test_gaps_of_three_frames_are_bridged():
    blobs = one_per_frame(parabola(CLIP, np.arange(40)))
    blobs[10] = blobs[11] = blobs[12] = []
    (own,) = link_blobs(blobs, TIMES)
    assert list(own.frames) == [*range(10), *range(13, 40)]
    assert own.jerk < 0.05


def test_bounces_do_not_end_a_tracklet():
    (own,) = link_blobs(one_per_frame(bounces(CLIP, np.arange(40))), TIMES)
    assert list(own.frames) == list(range(40))


def test_uneven_times_are_used():
    ticks = np.cumsum(np.random.default_rng(0).choice([1.0, 2.0], 40)) * 0.6
    (own,) = link_blobs(one_per_frame(parabola(CLIP, ticks)), ticks / 30)
    assert len(own) == 40


def test_the_object_that_travels_wins_over_a_large_one_that_sways():
    blobs = one_per_frame(parabola(CLIP, np.arange(40)))
    random = np.random.default_rng(1)
    for k, own in enumerate(blobs):
        own.append(blob(k, (250 + 3 * np.sin(k), 60), area=int(2000 * random.uniform(0.6, 1.5))))
        own.append(blob(k, random.uniform((0, 0), (320, 240)), area=int(random.uniform(10, 200)), contrast=0.08))
    first, *others = link_blobs(blobs, TIMES)
    assert len(first) >= 38
    assert np.abs(first.centers - parabola(CLIP, first.frames)).max() < 0.01
    assert all(other.score < 0.5 * first.score for other in others)


def test_objects_that_rest_are_no_tracklets():
    assert link_blobs(one_per_frame(np.full((40, 2), 80.0)), TIMES) == []


@pytest.mark.parametrize("at_edge", [False, True])
def test_blobs_at_the_edge_are_used_on_request(at_edge):
    cut = [[Blob(k, (5.0 * k, 3.0), 60, (0, 0, 9, 6), 0.4, True, np.ones((6, 9), bool))] for k in range(10)]
    assert len(link_blobs(cut, TIMES, at_edge=at_edge)) == int(at_edge)

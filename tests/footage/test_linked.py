"""Double pendula: both bobs are followed, the motion is found, and lengths and the ratio of masses are estimated."""

import numpy as np
import pytest
from tests.footage.double_pendula import double_pendulum, draw_double_pendulum
from tests.footage.videos import Clip, draw, recording_of, save

import gradsim as gs
from gradsim.footage.detection import find_moving_objects
from gradsim.footage.linked import linked_pair
from gradsim.footage.motions.double_pendulum import fit_double_pendulum
from gradsim.footage.motions.path import ImagePath
from gradsim.scene.errors import UnexplainedMotion

SIZE, PIVOT, SCALE = (260, 320), (160.0, 30.0), 250.0  # [px], [px/m]
LENGTHS, RATIO = (0.40, 0.34), 1.5


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    times = np.arange(60) / 30
    bobs = double_pendulum(times, LENGTHS, (0.5, -0.3), RATIO)
    colors = ((0.85, 0.2, 0.1), (0.1, 0.25, 0.75))
    wall = np.full((*SIZE, 3), (0.72, 0.7, 0.66)) + 0.04 * np.sign(np.sin(np.arange(SIZE[1]) / 9))[:, None]
    images = draw_double_pendulum(bobs, SIZE, PIVOT, SCALE, (10.0, 11.5), colors, wall)
    return save(tmp_path_factory.mktemp("double") / "double.mp4", images), bobs


@pytest.fixture(scope="module")
def prepared(video):
    return gs.prepare(video[0], level=True)


def test_both_bobs_are_followed(prepared, video):
    assert prepared.fit.kind == "double_pendulum"
    assert prepared.draft.points == ("object.bob1", "object.bob0")
    for track, bob in zip(prepared.tracks, (1, 0), strict=True):
        truth = np.array(PIVOT) + SCALE * video[1][track.frames, bob] * (1, -1)
        assert np.median(np.linalg.norm(track.centers - truth, axis=1)) < 0.3
    assert np.array_equal(prepared.track.frames, prepared.linked[0].frames)


def test_lengths_and_masses_are_estimated_from_the_folder(prepared, tmp_path):
    fit = gs.estimate(prepared)
    for path, true in (("object.lengths[0]", LENGTHS[0]), ("object.lengths[1]", LENGTHS[1])):
        low, high = fit.intervals[path]
        assert low <= true <= high
        assert high - low < 0.06 * true
    assert fit.values["object.masses[1]"] == pytest.approx(RATIO, rel=0.1)
    folder = prepared.save(tmp_path / "prepared")
    header = (folder / "tracks.csv").read_text().splitlines()[0]
    assert header.startswith("time,object.bob1.x,object.bob1.y,object.bob1.sd.x,object.bob1.sd.y,object.bob0.x")


@pytest.mark.parametrize("angles", [(0.6, 0.3), (2.5, 2.0)], ids=["swing", "turns over"])
def test_two_bars_without_bobs_are_explained(angles):
    rods, lengths, scale, times = (5.0, 4.0), (0.1, 0.08), 2500.0, np.arange(72) / 60
    body = gs.DoublePendulum("bars", lengths=lengths, masses=(1.0, 0.8), rod_masses=rods, angles=angles)
    motion = gs.simulate(gs.Scene([body]), frames=len(times), fps=60.0, substeps=32)["bars"]
    places = (np.array((500.0, 400.0)) + scale * motion.bobs.numpy()[..., :2] * (1, -1))[:, ::-1].reshape(-1, 4)
    noisy = places + 0.3 * np.random.default_rng(0).standard_normal(places.shape)
    path = ImagePath(times, noisy, 30.0, np.full(len(times), 0.3), float(np.ptp(noisy, axis=0).max()))
    fit = fit_double_pendulum(path)
    assert (fit.first, fit.last) == (0, len(times) - 1)
    assert np.abs(fit.predicted - places).max() < 2.0
    for k, (length, rod, mass) in enumerate(zip(lengths, rods, (1.0, 0.8), strict=True), 1):
        assert fit.numbers[f"length_{k}"] == pytest.approx(scale * length, rel=0.01)
        assert fit.numbers[f"log_rod_{k}"] == pytest.approx(np.log(rod / mass), abs=0.3)
    assert fit.numbers["gravity"] == pytest.approx(9.81 * scale, rel=0.01)


def test_two_thrown_balls_are_not_linked():
    clip = Clip(size=(200, 320), count=28, radius=9.0, shadow=False)
    first, _ = draw(clip)
    mirrored = first[:, :, ::-1]
    background = np.median(first, 0)
    both = np.where(np.abs(mirrored - np.median(mirrored, 0)).max(-1, keepdims=True) > 40, mirrored, first)
    assert np.abs(both - background).max() > 40
    assert linked_pair(find_moving_objects(recording_of(both.astype(np.uint8)))) is None


def test_a_single_object_is_no_double_pendulum(tmp_path):
    path = save(tmp_path / "throw.mp4", draw(Clip(shadow=False))[0])
    with pytest.raises(UnexplainedMotion, match="no two objects keep their distance: both bobs must be seen"):
        gs.prepare(path, motion="double-pendulum")

"""Focal lengths from metadata, and the prior without them."""

import math

import av
import numpy as np
import pytest
from PIL import Image

from gradsim.footage.focal import VIDEO_KEYS, focal_from_metadata, focal_length, focal_prior
from gradsim.scene.errors import VideoFileError


def photo(path, equivalent=None, size=(400, 300), stated=None):
    """A photograph of size (width, height), with an equivalent focal length [mm] and the size its metadata state."""
    image, exif = Image.new("RGB", size), Image.Exif()
    tags = exif.get_ifd(0x8769)
    if equivalent is not None:
        tags[0xA405] = equivalent
    if stated is not None:
        tags[0xA002], tags[0xA003] = stated
    image.save(path, exif=exif.tobytes())
    return path


def movie(path, tags, size=(1280, 720)):
    """A video of size (width, height) with metadata."""
    with av.open(str(path), "w", options={"movflags": "use_metadata_tags"}) as output:
        output.metadata.update(tags)
        stream = output.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        for _ in range(2):
            output.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((*size[::-1], 3), np.uint8), format="rgb24")))
        output.mux(stream.encode())
    return path


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_photographs_relate_the_focal_length_to_the_diagonal(tmp_path, suffix):
    focal = focal_from_metadata(photo(tmp_path / f"a{suffix}", 26))
    assert focal.value == pytest.approx(26 / math.hypot(36, 24) * 500)
    assert focal.relative_sd == pytest.approx(0.03)
    assert "26 mm" in focal.source


def test_a_cropped_photograph_has_no_known_focal_length(tmp_path):
    assert focal_from_metadata(photo(tmp_path / "a.jpg", 26, stated=(4000, 3000))) is not None
    assert focal_from_metadata(photo(tmp_path / "b.jpg", 26, stated=(4000, 2250))) is None


@pytest.mark.parametrize("equivalent", [None, 0])
def test_photographs_without_it(tmp_path, equivalent):
    path = photo(tmp_path / "a.jpg", equivalent)
    assert focal_from_metadata(path) is None
    assert focal_length(path).value == pytest.approx(focal_prior((300, 400)).value)


def test_videos_of_phones_state_it(tmp_path):
    focal = focal_length(movie(tmp_path / "a.mov", {VIDEO_KEYS[0]: "26"}))
    assert focal.value == pytest.approx(26 / 36 * 1280)
    assert focal.relative_sd == pytest.approx(0.08)


def test_videos_without_it_get_the_prior(tmp_path):
    path = movie(tmp_path / "a.mp4", {"title": "ball"})
    assert focal_from_metadata(path) is None
    focal = focal_length(path)
    assert 2 * math.degrees(math.atan(math.hypot(1280, 720) / 2 / focal.value)) == pytest.approx(70)
    assert "usual for phones" in focal.source
    assert focal_prior((1280, 720)).value == focal_prior((720, 1280)).value


def test_the_prior_covers_what_phones_have():
    """26 mm main cameras in 16:9, without and with a crop of 20 % by stabilization, lie within 1.5 sd."""
    prior = focal_prior((1080, 1920)).log_normal()
    for crop in (1.0, 1.2):
        focal = crop * 26 / 34.6 * 1920  # a 4:3 sensor of diagonal 43.3 mm is 34.6 mm wide
        assert abs(math.log(focal / prior.median)) < 1.5 * prior.sd


def test_bad_files(tmp_path):
    with pytest.raises(VideoFileError, match="no such file"):
        focal_from_metadata(tmp_path / "none.jpg")
    for name in ("a.jpg", "a.mp4"):
        (tmp_path / name).write_bytes(b"no picture at all" * 20)
        with pytest.raises(VideoFileError, match="unreadable"):
            focal_from_metadata(tmp_path / name)

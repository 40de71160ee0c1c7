"""`encode` applies the compression of one video to other frames."""

import pytest
import torch
from tests.video.clips import CLIP, psnr, saved

import gradsim as gs
from gradsim.scene.errors import WrongShape
from gradsim.video.encode import encode


@pytest.fixture(scope="module")
def mp4(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("video") / "clip.mp4")


@pytest.mark.parametrize("name", ["again.mp4", "again.webm", "again.avi", "again.gif", "again", "again.npy"])
def test_encoding_like_a_video_has_the_same_loss(tmp_path, name):
    video = gs.load_video(saved(tmp_path / name))
    again = encode(CLIP, video)
    assert psnr(again.frames, CLIP) == pytest.approx(psnr(video.frames, CLIP), abs=1.5)
    assert (again.frames - video.frames).abs().mean() < 1.5 / 255  # a webm file does not state its quality
    assert torch.equal(encode(CLIP, again).frames, again.frames)


def test_crf_is_read_from_the_file(tmp_path):
    assert gs.load_video(saved(tmp_path / "23.mp4", quality=23)).encoding.quality == 23
    assert gs.load_video(saved(tmp_path / "21.mp4", quality=21, codec="hevc")).encoding.quality == 21


def test_frames_are_encoded_at_the_size_in_the_file(mp4):
    video = gs.load_video(mp4, crop=(1, 0, 63, 93), size=(21, 31))  # odd sizes
    again = encode(CLIP[:, 1:64, :93], video)
    assert again.size == (21, 31)
    assert psnr(again.frames, video.frames) > 40
    with pytest.raises(WrongShape, match=r"render with size=\(63, 93\)"):
        encode(CLIP, video)

"""Saved videos load with the same frames, rate and size, up to the loss of their format."""

import pytest
import torch
from tests.video.clips import CLIP, ROUNDED, psnr, saved

import gradsim as gs
from gradsim.video.srgb import linear_to_srgb, srgb_to_linear


@pytest.fixture(scope="module")
def mp4(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("video") / "clip.mp4")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["clip.npy", "clip.npz"])
def test_arrays_are_stored_exactly(tmp_path, name, dtype):
    video = gs.load_video(saved(tmp_path / name, CLIP.to(dtype)), dtype=dtype)
    assert video.frames.dtype == dtype
    assert torch.equal(video.frames, CLIP.to(dtype))
    assert not video.lossy
    assert video.codec == "raw"
    assert video.fps == (30.0 if name == "clip.npz" else None)


@pytest.mark.parametrize(("name", "options", "codec"), [("clip", {}, "png"), ("clip.mkv", {"codec": "ffv1"}, "ffv1")])
def test_lossless_formats_round_to_8_bits(tmp_path, name, options, codec):
    video = gs.load_video(saved(tmp_path / name, **options))
    assert torch.equal(video.frames, ROUNDED)
    assert (video.codec, video.lossy) == (codec, False)


@pytest.mark.parametrize(
    ("name", "codec", "min_psnr"),
    [
        ("clip.mp4", "h264", 38),
        ("clip.mov", "h264", 38),
        ("clip.mkv", "h264", 38),
        ("clip.webm", "vp9", 38),
        ("clip.avi", "mpeg4", 38),
        ("clip.gif", "gif", 40),
    ],
)
def test_lossy_formats_are_close(tmp_path, name, codec, min_psnr):
    video = gs.load_video(saved(tmp_path / name))
    assert (video.codec, video.lossy, video.fps, len(video)) == (codec, True, 30.0, 24)
    assert psnr(video.frames, CLIP) > min_psnr  # [dB]
    assert (video.frames - CLIP).mean((0, 1, 2)).abs().max() < 0.5 / 255  # no colour cast


@pytest.mark.parametrize("name", ["flat.mp4", "flat.webm", "flat.avi", "flat.gif", "flat.mkv"])
def test_uniform_colours_keep_their_values(tmp_path, name):
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        color = torch.rand(3, dtype=torch.float64, generator=generator)
        video = gs.load_video(saved(tmp_path / name, color.expand(3, 32, 32, 3)))
        assert (video.frames - color).abs().max() <= 2 / 255


@pytest.mark.parametrize("fps", [10.0, 12.5, 24.0, 25.0, 30000 / 1001, 50.0])
@pytest.mark.parametrize("name", ["rate.mp4", "rate.mkv", "rate.gif"])
def test_frame_rates_are_stored(tmp_path, name, fps):
    """Up to the resolution of the container: a GIF stores hundredths of a second."""
    video = gs.load_video(saved(tmp_path / name, CLIP[:, :16, :16], fps))
    assert video.fps == pytest.approx(fps, rel=2e-3 if name == "rate.gif" else 1e-9)


def test_quality_controls_the_file_size(tmp_path):
    coarse, fine = (saved(tmp_path / f"{crf}.mp4", quality=crf) for crf in (35, 10))
    assert coarse.stat().st_size < 0.5 * fine.stat().st_size
    assert psnr(gs.load_video(coarse).frames, CLIP) < psnr(gs.load_video(fine).frames, CLIP) - 3


def test_values_are_clamped(tmp_path):
    unclamped = 3 * CLIP - 1
    assert torch.equal(gs.load_video(saved(tmp_path / "unclamped.npy", unclamped)).frames, unclamped.clamp(0, 1))


def test_greyscale_is_expanded_to_three_channels(tmp_path):
    grey = CLIP[..., :1]
    assert torch.equal(gs.load_video(saved(tmp_path / "grey.npy", grey)).frames, grey.expand(CLIP.shape))


@pytest.mark.parametrize("name", ["odd.gif", "odd.npy", "odd"])
def test_odd_sizes(tmp_path, name):
    odd = CLIP[:4, :31, :45]
    video = gs.load_video(saved(tmp_path / name, odd))
    assert video.size == (31, 45)
    assert psnr(video.frames, odd) > 40


def test_a_video_can_be_saved_again(tmp_path, mp4):
    video = gs.load_video(mp4)
    gs.save_video(tmp_path / "copy.npz", video)
    copy = gs.load_video(tmp_path / "copy.npz")
    assert torch.equal(copy.frames, video.frames)
    assert copy.fps == video.fps


def test_linear_light_and_srgb(tmp_path):
    values = torch.linspace(0, 1, 256, dtype=torch.float64)
    assert (
        linear_to_srgb(srgb_to_linear(values)) - values
    ).abs().max() < 1e-7  # the constants of the standard agree to 1e-8
    assert srgb_to_linear(torch.tensor(0.5, dtype=torch.float64)).item() == pytest.approx(0.214041140, abs=1e-9)
    path = saved(tmp_path / "light.npy", CLIP, linear=True)
    assert (gs.load_video(path, linear=True).frames - CLIP).abs().max() < 1e-7
    assert (gs.load_video(path).frames - linear_to_srgb(CLIP)).abs().max() < 1e-15
    # Half of the pixels lit is half of the light, whose sRGB value is above one half.
    stripes = torch.arange(8).remainder(2).double()[None, None, :, None].expand(1, 8, 8, 3)
    path = saved(tmp_path / "stripes", stripes)
    assert gs.load_video(path, size=(4, 4), linear=True).frames.unique().tolist() == [0.5]


@pytest.mark.parametrize("name", ["colour.mp4", "colour.webm", "colour.avi"])
@pytest.mark.parametrize("axis", [0, 1], ids=["x", "y"])
def test_colours_keep_their_place(tmp_path, name, axis):
    """Soft stripes of two colours of equal brightness come back where they were, to .05 px."""
    stripe = 0.5 + 0.5 * torch.sin(2 * torch.pi * (torch.arange(64, dtype=torch.float64) + 0.5) / 32)
    image = torch.stack([0.3 + 0.4 * stripe, torch.full_like(stripe, 0.5), 0.7 - 0.4 * stripe], -1).expand(64, 64, 3)
    image = image.transpose(0, 1) if axis else image
    quality = None if name.endswith("avi") else 4
    found = gs.load_video(saved(tmp_path / name, image.expand(3, 64, 64, 3), quality=quality)).frames[1]
    colour, given = ((own[..., 0] - own[..., 2]).mean(axis)[8:-8] for own in (found, image))
    slope = torch.gradient(given)[0]
    assert abs(float((given - colour) @ slope / (slope @ slope))) < 0.05

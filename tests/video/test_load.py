"""Loading parts of videos, and files written by other programs."""

from fractions import Fraction

import av
import numpy as np
import pytest
import torch
from tests.video.clips import CLIP, ROUNDED, psnr, saved

import gradsim as gs
from gradsim.scene.errors import OutOfRange, VideoFileError
from gradsim.video.downsample import downsample
from gradsim.video.encode import encode
from gradsim.video.encoders import png_bytes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("videos")


@pytest.fixture(scope="module")
def mp4(folder):
    return saved(folder / "clip.mp4")


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        (None, slice(None)),
        ((3, 9), slice(3, 9)),
        (slice(2, 20, 3), slice(2, 20, 3)),
        (slice(-4, None), slice(-4, None)),
    ],
)
@pytest.mark.parametrize("name", ["clip.mp4", "clip.npy", "clip"])
def test_frames(folder, name, frames, expected):
    path = folder / name if (folder / name).exists() else saved(folder / name)
    whole, part = gs.load_video(path, fps=30.0), gs.load_video(path, fps=30.0, frames=frames)
    assert torch.equal(part.frames, whole.frames[expected])
    assert part.fps == whole[expected].fps == 30.0 / (expected.step or 1)


def test_crop_and_size(folder, mp4):
    whole = gs.load_video(mp4)
    part = gs.load_video(mp4, crop=(10, 20, 30, 40), size=(15, 20))
    expected = whole.frames[:, 10:40, 20:60].unflatten(1, (15, 2)).unflatten(3, (20, 2)).mean((2, 4))
    torch.testing.assert_close(part.frames, expected, rtol=0, atol=1e-15)
    assert part.encoding.size == (30, 40)
    assert torch.equal(whole.downsample((32, 48)).frames, gs.load_video(mp4, size=(32, 48)).frames)


def test_slices_of_a_video(mp4):
    video = gs.load_video(mp4)
    assert len(video[3:7]) == 4
    assert torch.equal(video[-1].frames, video.frames[-1:])
    assert video[::3].fps == 10.0
    assert repr(video[:2]) == f"Video(2 frames of 64 x 96 at 30 fps, h264 from {mp4})"
    with pytest.raises(IndexError):
        video[24]
    with pytest.raises(OutOfRange, match="cannot be reversed"):
        video[::-1]


def test_fps_argument_overrides_the_file(mp4):
    assert gs.load_video(mp4, fps=240).fps == 240


def test_downsampling_is_exact_for_any_ratio():
    """Reference: 7 x 5 pixels, each repeated 3 x 4 times, then averaged in blocks."""
    generator = torch.Generator().manual_seed(0)
    video = torch.rand(2, 7, 5, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    enlarged = video.repeat_interleave(3, 1).repeat_interleave(4, 2)
    expected = enlarged.unflatten(1, (3, 7)).unflatten(3, (4, 5)).mean((2, 4))
    torch.testing.assert_close(downsample(video, (3, 4)), expected, rtol=0, atol=1e-15)
    assert torch.autograd.gradcheck(lambda x: downsample(x, (3, 4)), video)
    with pytest.raises(OutOfRange, match="must not exceed"):
        downsample(video, (8, 5))


def test_images_are_sorted_by_number(tmp_path):
    for number in (0, 2, 10, 9):
        image = np.full((4, 6, 3), number, np.uint8)
        (tmp_path / f"frame{number}.png").write_bytes(png_bytes(image))
    (tmp_path / "notes.txt").write_text("not an image")
    video = gs.load_video(tmp_path, fps=5)
    assert (255 * video.frames[:, 0, 0, 0]).round().tolist() == [0, 2, 9, 10]
    assert video.fps == 5


@pytest.mark.parametrize("pixel_format", ["gray", "gray16be", "rgb48be", "rgba"])
def test_image_pixel_formats(tmp_path, pixel_format):
    deep = "16" in pixel_format or "48" in pixel_format
    dtype, channels = (np.uint16 if deep else np.uint8), {"g": (), "r": (3,)}[pixel_format[0]]
    channels = (4,) if pixel_format == "rgba" else channels
    values = np.linspace(0, np.iinfo(dtype).max, 8 * 6, dtype=dtype).reshape(8, 6, *[1 for _ in channels])
    values = np.ascontiguousarray(np.broadcast_to(values, (8, 6, *channels)))
    context = av.CodecContext.create("png", "w")
    context.height, context.width, context.pix_fmt, context.time_base = 8, 6, pixel_format, Fraction(1, 30)
    frame = av.VideoFrame.from_ndarray(values, format=pixel_format)
    (tmp_path / "0.png").write_bytes(b"".join(bytes(p) for p in [*context.encode(frame), *context.encode(None)]))
    video = gs.load_video(tmp_path)
    expected = torch.linspace(0, 1, 48, dtype=torch.float64).reshape(8, 6)
    assert (video.frames[0, ..., 1] - expected).abs().max() < (1e-4 if deep else 1 / 255)
    assert video.encoding.depth == (16 if deep else 8)


def test_a_folder_of_jpegs(tmp_path):
    with av.open(str(tmp_path / "%02d.jpg"), "w", format="image2") as output:
        stream = output.add_stream("mjpeg", rate=30)
        stream.height, stream.width, stream.pix_fmt = 64, 96, "yuvj420p"
        stream.codec_context.qmin = stream.codec_context.qmax = 3
        for image in (255 * ROUNDED).round().byte().numpy():
            output.mux(stream.encode(av.VideoFrame.from_ndarray(image).reformat(format="yuvj420p")))
        output.mux(stream.encode())
    video = gs.load_video(tmp_path, fps=30)
    assert (video.codec, video.lossy, len(video)) == ("mjpeg", True, 24)
    assert psnr(video.frames, CLIP) > 35
    again = encode(CLIP, video)
    assert 2 <= again.encoding.quality <= 4
    assert psnr(again.frames, CLIP) == pytest.approx(psnr(video.frames, CLIP), abs=1.5)


def movie(path, *, times=None, rotation=0, aspect=None, images=ROUNDED, codec="libx264"):
    """Writes a video as another program would."""
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=30, options={"crf": "10"})
        stream.height, stream.width, stream.pix_fmt = *images.shape[1:3], "yuv420p"
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        if rotation:
            stream.set_display_rotation(rotation)
        stream.codec_context.time_base = Fraction(1, 600)
        for number, image in enumerate((255 * images).byte().numpy()):
            frame = av.VideoFrame.from_ndarray(image)
            frame.pts, frame.time_base = (times[number] if times else 20 * number), Fraction(1, 600)
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return path


def test_video_without_colour_metadata_has_no_colour_cast(tmp_path):
    video = gs.load_video(movie(tmp_path / "plain.mp4"))
    assert video.fps == 30
    assert (video.frames - CLIP).mean((0, 1, 2)).abs().max() < 2 / 255


def test_rotation_metadata_is_applied(tmp_path):
    """Phones store landscape frames and a rotation."""
    upright = gs.load_video(movie(tmp_path / "phone.mp4", images=ROUNDED.rot90(-1, (1, 2)), rotation=90))
    assert upright.size == (64, 96)
    assert psnr(upright.frames, CLIP) > 35


def test_uneven_frame_times_are_rejected_unless_fps_is_given(tmp_path):
    times = [20 * n + (200 if n > 12 else 0) for n in range(24)]
    path = movie(tmp_path / "uneven.mp4", times=times)
    with pytest.raises(VideoFileError, match="unevenly spaced"):
        gs.load_video(path)
    assert gs.load_video(path, fps=30).fps == 30


def test_small_jitter_is_accepted(tmp_path):
    path = movie(tmp_path / "jitter.mp4", times=[20 * n + n % 3 for n in range(24)])
    assert gs.load_video(path).fps == pytest.approx(30, rel=0.01)


def test_non_square_pixels_are_rejected(tmp_path):
    with pytest.raises(VideoFileError, match="pixel aspect ratio 4/3: needs square pixels"):
        gs.load_video(movie(tmp_path / "oblong.mp4", aspect=Fraction(4, 3)))

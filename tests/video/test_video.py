"""Videos go out to files and come back; every bad file has an error that names it and says what to do."""

from fractions import Fraction

import av
import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, VideoFileError, WrongShape, WrongType
from gradsim.video.area import reduced
from gradsim.video.encode import encode, png_bytes
from gradsim.video.transfer import from_light, to_light


def clip(frames=24, height=64, width=96):
    """A shaded square that slides over a shaded background, as a renderer would draw it: outlines one pixel soft."""
    t, y, x = torch.meshgrid(
        *(torch.arange(n, dtype=torch.float64) + 0.5 for n in (frames, height, width)), indexing="ij"
    )
    dx, dy = x - width * (0.25 + 0.5 * t / frames), y - height * (0.4 + 0.2 * torch.sin(t / 5))
    inside = (0.5 + 0.2 * height - torch.maximum(dx.abs(), dy.abs())).clamp(0, 1)[..., None]
    square = torch.stack([0.7 + 0.2 * dx / width, 0.3 + 0.2 * dy / height, 0.2 + 0 * x], -1)
    background = torch.stack([0.5 + 0.3 * y / height, 0.55 + 0.2 * x / width, 0.7 - 0.2 * y / height], -1)
    return inside * square + (1 - inside) * background


CLIP = clip()
ROUNDED = (CLIP * 255).round() / 255


def psnr(a, b):
    return -10 * torch.log10(((a - b) ** 2).mean()).item()


def saved(path, video=CLIP, fps=30.0, **options):
    gs.save_video(path, video, fps, **options)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("videos")


@pytest.fixture(scope="module")
def mp4(folder):
    return saved(folder / "clip.mp4")


# Round trips


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["clip.npy", "clip.npz"])
def test_arrays_come_back_exactly(tmp_path, name, dtype):
    video = gs.load_video(saved(tmp_path / name, CLIP.to(dtype)), dtype=dtype)
    assert video.frames.dtype == dtype
    assert torch.equal(video.frames, CLIP.to(dtype))
    assert not video.lossy
    assert video.codec == "raw"
    assert video.fps == (30.0 if name == "clip.npz" else None)


@pytest.mark.parametrize(("name", "options", "codec"), [("clip", {}, "png"), ("clip.mkv", {"codec": "ffv1"}, "ffv1")])
def test_lossless_pictures_come_back_rounded(tmp_path, name, options, codec):
    video = gs.load_video(saved(tmp_path / name, **options))
    assert torch.equal(video.frames, ROUNDED)
    assert (video.codec, video.lossy) == (codec, False)


@pytest.mark.parametrize(
    ("name", "codec", "least"),
    [
        ("clip.mp4", "h264", 38),
        ("clip.mov", "h264", 38),
        ("clip.mkv", "h264", 38),
        ("clip.webm", "vp9", 38),
        ("clip.avi", "mpeg4", 38),
        ("clip.gif", "gif", 40),
    ],
)
def test_compressed_videos_come_back_nearly(tmp_path, name, codec, least):
    video = gs.load_video(saved(tmp_path / name))
    assert (video.codec, video.lossy, video.fps, len(video)) == (codec, True, 30.0, 24)
    assert psnr(video.frames, CLIP) > least  # [dB]
    assert (video.frames - CLIP).mean((0, 1, 2)).abs().max() < 0.5 / 255  # no colour cast


@pytest.mark.parametrize("name", ["flat.mp4", "flat.webm", "flat.avi", "flat.gif", "flat.mkv"])
def test_flat_colours_keep_their_values(tmp_path, name):
    generator = torch.Generator().manual_seed(0)
    for _ in range(8):
        color = torch.rand(3, dtype=torch.float64, generator=generator)
        video = gs.load_video(saved(tmp_path / name, color.expand(3, 32, 32, 3)))
        assert (video.frames - color).abs().max() <= 2 / 255


@pytest.mark.parametrize("fps", [10.0, 12.5, 24.0, 25.0, 30000 / 1001, 50.0])
@pytest.mark.parametrize("name", ["rate.mp4", "rate.mkv", "rate.gif"])
def test_rates_are_kept(tmp_path, name, fps):
    """To what the container can say: a GIF counts hundredths of a second."""
    video = gs.load_video(saved(tmp_path / name, CLIP[:, :16, :16], fps))
    assert video.fps == pytest.approx(fps, rel=2e-3 if name == "rate.gif" else 1e-9)


def test_quality_sets_the_size(tmp_path):
    coarse, fine = (saved(tmp_path / f"{crf}.mp4", quality=crf) for crf in (35, 10))
    assert coarse.stat().st_size < 0.5 * fine.stat().st_size
    assert psnr(gs.load_video(coarse).frames, CLIP) < psnr(gs.load_video(fine).frames, CLIP) - 3


def test_values_are_clamped(tmp_path):
    wild = 3 * CLIP - 1
    assert torch.equal(gs.load_video(saved(tmp_path / "wild.npy", wild)).frames, wild.clamp(0, 1))


def test_grey_becomes_colour(tmp_path):
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


def test_light_and_display_values(tmp_path):
    values = torch.linspace(0, 1, 256, dtype=torch.float64)
    assert (from_light(to_light(values)) - values).abs().max() < 1e-7  # the standard's own constants meet to 1e-8
    assert to_light(torch.tensor(0.5, dtype=torch.float64)).item() == pytest.approx(0.214041140, abs=1e-9)
    path = saved(tmp_path / "light.npy", CLIP, linear=True)
    assert (gs.load_video(path, linear=True).frames - CLIP).abs().max() < 1e-7
    assert (gs.load_video(path).frames - from_light(CLIP)).abs().max() < 1e-15
    # Half the pixels lit give half the light, which displays show by more than half the value.
    stripes = torch.arange(8).remainder(2).double()[None, None, :, None].expand(1, 8, 8, 3)
    path = saved(tmp_path / "stripes", stripes)
    assert gs.load_video(path, size=(4, 4), linear=True).frames.unique().tolist() == [0.5]


# Parts of a video


@pytest.mark.parametrize(
    ("frames", "wanted"),
    [
        (None, slice(None)),
        ((3, 9), slice(3, 9)),
        (slice(2, 20, 3), slice(2, 20, 3)),
        (slice(-4, None), slice(-4, None)),
    ],
)
@pytest.mark.parametrize("name", ["clip.mp4", "clip.npy", "clip"])
def test_frames(folder, name, frames, wanted):
    path = folder / name if (folder / name).exists() else saved(folder / name)
    whole, part = gs.load_video(path, fps=30.0), gs.load_video(path, fps=30.0, frames=frames)
    assert torch.equal(part.frames, whole.frames[wanted])
    assert part.fps == whole[wanted].fps == 30.0 / (wanted.step or 1)


def test_crop_and_size(folder, mp4):
    whole = gs.load_video(mp4)
    part = gs.load_video(mp4, crop=(10, 20, 30, 40), size=(15, 20))
    wanted = whole.frames[:, 10:40, 20:60].unflatten(1, (15, 2)).unflatten(3, (20, 2)).mean((2, 4))
    torch.testing.assert_close(part.frames, wanted, rtol=0, atol=1e-15)
    assert part.encoding.size == (30, 40)
    assert torch.equal(whole.reduced((32, 48)).frames, gs.load_video(mp4, size=(32, 48)).frames)


def test_reduction_is_exact_for_any_ratio():
    """Each pixel is the mean of its area: 7 x 5 pixels enlarged 3 x 4 times, then averaged in blocks, say the same."""
    generator = torch.Generator().manual_seed(0)
    video = torch.rand(2, 7, 5, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    enlarged = video.repeat_interleave(3, 1).repeat_interleave(4, 2)
    wanted = enlarged.unflatten(1, (3, 7)).unflatten(3, (4, 5)).mean((2, 4))
    torch.testing.assert_close(reduced(video, (3, 4)), wanted, rtol=0, atol=1e-15)
    assert torch.autograd.gradcheck(lambda x: reduced(x, (3, 4)), video)
    with pytest.raises(OutOfRange, match="must not exceed"):
        reduced(video, (8, 5))


def test_slices_of_a_video(mp4):
    video = gs.load_video(mp4)
    assert len(video[3:7]) == 4
    assert torch.equal(video[-1].frames, video.frames[-1:])
    assert video[::3].fps == 10.0
    assert repr(video[:2]) == f"Video(2 frames of 64 x 96 at 30 fps, h264 from {mp4})"
    with pytest.raises(IndexError):
        video[24]
    with pytest.raises(OutOfRange, match="time runs forward"):
        video[::-1]


def test_rate_can_be_told(mp4):
    assert gs.load_video(mp4, fps=240).fps == 240


# Files of others


def test_pictures_are_sorted_by_number(tmp_path):
    for number in (0, 2, 10, 9):
        picture = np.full((4, 6, 3), number, np.uint8)
        (tmp_path / f"frame{number}.png").write_bytes(png_bytes(picture))
    (tmp_path / "notes.txt").write_text("not a picture")
    video = gs.load_video(tmp_path, fps=5)
    assert (255 * video.frames[:, 0, 0, 0]).round().tolist() == [0, 2, 9, 10]
    assert video.fps == 5


@pytest.mark.parametrize("pixel_format", ["gray", "gray16be", "rgb48be", "rgba"])
def test_kinds_of_pictures(tmp_path, pixel_format):
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
    wanted = torch.linspace(0, 1, 48, dtype=torch.float64).reshape(8, 6)
    assert (video.frames[0, ..., 1] - wanted).abs().max() < (1e-4 if deep else 1 / 255)
    assert video.encoding.depth == (16 if deep else 8)


def test_a_folder_of_jpegs(tmp_path):
    with av.open(str(tmp_path / "%02d.jpg"), "w", format="image2") as output:
        stream = output.add_stream("mjpeg", rate=30)
        stream.height, stream.width, stream.pix_fmt = 64, 96, "yuvj420p"
        stream.codec_context.qmin = stream.codec_context.qmax = 3
        for picture in (255 * ROUNDED).round().byte().numpy():
            output.mux(stream.encode(av.VideoFrame.from_ndarray(picture).reformat(format="yuvj420p")))
        output.mux(stream.encode())
    video = gs.load_video(tmp_path, fps=30)
    assert (video.codec, video.lossy, len(video)) == ("mjpeg", True, 24)
    assert psnr(video.frames, CLIP) > 35
    again = encode(CLIP, video)
    assert 2 <= again.encoding.quality <= 4
    assert psnr(again.frames, CLIP) == pytest.approx(psnr(video.frames, CLIP), abs=1.5)


def movie(path, *, times=None, rotation=0, aspect=None, pictures=ROUNDED, codec="libx264"):
    """A video as another program would write it."""
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=30, options={"crf": "10"})
        stream.height, stream.width, stream.pix_fmt = *pictures.shape[1:3], "yuv420p"
        if aspect is not None:
            stream.codec_context.sample_aspect_ratio = aspect
        if rotation:
            stream.set_display_rotation(rotation)
        stream.codec_context.time_base = Fraction(1, 600)
        for number, picture in enumerate((255 * pictures).byte().numpy()):
            frame = av.VideoFrame.from_ndarray(picture)
            frame.pts, frame.time_base = (times[number] if times else 20 * number), Fraction(1, 600)
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return path


def test_unflagged_video_of_ffmpeg_has_no_colour_cast(tmp_path):
    video = gs.load_video(movie(tmp_path / "plain.mp4"))
    assert video.fps == 30
    assert (video.frames - CLIP).mean((0, 1, 2)).abs().max() < 2 / 255


def test_turned_video_stands_upright(tmp_path):
    """A telephone held upright stores lying pictures and a note to turn them."""
    upright = gs.load_video(movie(tmp_path / "phone.mp4", pictures=ROUNDED.rot90(-1, (1, 2)), rotation=90))
    assert upright.size == (64, 96)
    assert psnr(upright.frames, CLIP) > 35


def test_uneven_times_are_refused_unless_a_rate_is_told(tmp_path):
    times = [20 * n + (200 if n > 12 else 0) for n in range(24)]
    path = movie(tmp_path / "uneven.mp4", times=times)
    with pytest.raises(VideoFileError, match="unevenly spaced"):
        gs.load_video(path)
    assert gs.load_video(path, fps=30).fps == 30


def test_small_jitter_is_fine(tmp_path):
    path = movie(tmp_path / "jitter.mp4", times=[20 * n + n % 3 for n in range(24)])
    assert gs.load_video(path).fps == pytest.approx(30, rel=0.01)


def test_oblong_pixels_are_refused(tmp_path):
    with pytest.raises(VideoFileError, match="4/3 as wide as high: needs square pixels"):
        gs.load_video(movie(tmp_path / "oblong.mp4", aspect=Fraction(4, 3)))


# The same again


@pytest.mark.parametrize("name", ["again.mp4", "again.webm", "again.avi", "again.gif", "again", "again.npy"])
def test_encoding_like_a_video_repeats_what_happened_to_it(tmp_path, name):
    video = gs.load_video(saved(tmp_path / name))
    again = encode(CLIP, video)
    assert psnr(again.frames, CLIP) == pytest.approx(psnr(video.frames, CLIP), abs=1.5)
    assert (again.frames - video.frames).abs().mean() < 1.5 / 255  # a webm does not tell its quality
    assert torch.equal(encode(CLIP, again).frames, again.frames)


def test_crf_is_read_from_the_file(tmp_path):
    assert gs.load_video(saved(tmp_path / "23.mp4", quality=23)).encoding.quality == 23
    assert gs.load_video(saved(tmp_path / "21.mp4", quality=21, codec="hevc")).encoding.quality == 21


def test_encoding_happens_at_the_size_of_the_file(mp4):
    video = gs.load_video(mp4, crop=(1, 0, 63, 93), size=(21, 31))  # odd, too
    again = encode(CLIP[:, 1:64, :93], video)
    assert again.size == (21, 31)
    assert psnr(again.frames, video.frames) > 40
    with pytest.raises(WrongShape, match=r"render with size=\(63, 93\)"):
        encode(CLIP, video)


# What can go wrong


def junk(path, content=b"this is not a video\n" * 50):
    path.write_bytes(content)
    return path


def cut(path, *, keep, **options):
    saved(path, **options)
    return junk(path, path.read_bytes()[: int(keep * path.stat().st_size)])


def unequal(path):
    saved(path)
    (path / "00002.png").write_bytes(png_bytes(np.zeros((8, 8, 3), np.uint8)))
    return path


def array(path, values):
    np.save(path, values)
    return path


def sound(path):
    with av.open(str(path), "w") as output:
        stream = output.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.rate = 44100
        output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return path


BAD_FILES = {
    "missing": (lambda d: d / "none.mp4", {}, "no such file"),
    "unknown kind": (lambda d: junk(d / "a.docx"), {}, "extension '.docx': needs one of .mp4"),
    "empty file": (lambda d: junk(d / "a.mp4", b""), {}, "an empty file"),
    "not a video": (lambda d: junk(d / "a.mp4"), {}, "unreadable"),
    "no sound": (lambda d: sound(d / "a.mp4"), {}, "no pictures in it"),
    "cut mp4": (lambda d: cut(d / "a.mp4", keep=0.8), {}, "cut off: .* of 24 frames can be read: copy"),
    "cut mkv": (lambda d: cut(d / "a.mkv", keep=0.8), {}, "cut off: .* of 2[34] frames"),
    "cut avi": (lambda d: cut(d / "a.avi", keep=0.8), {}, "cut off: .* of 24 frames"),
    "cut gif": (lambda d: cut(d / "a.gif", keep=0.5), {}, "cut off"),
    "cut head": (lambda d: cut(d / "a.mp4", keep=0.02), {}, "unreadable|needs a whole video"),
    "cut array": (lambda d: cut(d / "a.npy", keep=0.5), {}, "unreadable"),
    "cut archive": (lambda d: cut(d / "a.npz", keep=0.5), {}, "unreadable"),
    "no pictures": (lambda d: d, {}, "no pictures in this folder"),
    "unequal pictures": (lambda d: unequal(d / "a"), {}, "00002.png = 8 x 8 pixels: needs 64 x 96"),
    "broken picture": (lambda d: junk(d / "0.png").parent, {}, "unreadable"),
    "frames beyond the end": (lambda d: saved(d / "a.mp4"), {"frames": (0, 25)}, "frames 0 to 25: the file has 24"),
    "frames before the start": (lambda d: saved(d / "a.npy"), {"frames": slice(-25, None)}, "frames -25 to None"),
    "no frames": (lambda d: saved(d / "a.npy"), {"frames": (5, 5)}, "needs 0 <= start < stop <= 24"),
    "shape": (lambda d: array(d / "a.npy", np.zeros((4, 8, 8))), {}, r"shape \(4, 8, 8\): needs \[T, H, W, 3\]"),
    "integers": (lambda d: array(d / "a.npy", np.zeros((4, 8, 8, 3), int)), {}, "numbers of int64: needs bytes"),
    "too large": (lambda d: array(d / "a.npy", np.full((4, 8, 8, 3), 255.0)), {}, "from 255 to 255: .* divide by 255"),
    "not a number": (lambda d: array(d / "a.npy", np.full((4, 8, 8, 3), np.nan)), {}, "from nan to nan"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(tmp_path, case):
    make, options, message = BAD_FILES[case]
    path = make(tmp_path)
    with pytest.raises(VideoFileError, match=message) as caught:
        gs.load_video(path, **options)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_readable_part_of_a_cut_video_can_be_loaded(tmp_path):
    path = cut(tmp_path / "cut.mp4", keep=0.8)
    with pytest.raises(VideoFileError) as caught:
        gs.load_video(path)
    count = int(str(caught.value).split("frames=(0, ")[1].split(")")[0])
    assert 0 < count < 24
    part = gs.load_video(path, frames=(0, count))
    assert psnr(part.frames, CLIP[:count]) > 35


BAD_OPTIONS = {
    "crop outside": ({"crop": (0, 0, 65, 96)}, OutOfRange, "inside the pictures of 64 x 96 pixels"),
    "crop of three": ({"crop": (0, 0, 65)}, WrongType, "must be four whole numbers"),
    "enlarging": ({"size": (128, 192)}, OutOfRange, "must not exceed"),
    "squeezing": ({"size": (32, 32)}, OutOfRange, r"use \(32, 48\), or .* crop=\(0, 16, 64, 64\)"),
    "size of one": ({"size": 32}, WrongType, "two whole numbers"),
    "rate": ({"fps": 0}, OutOfRange, "fps = 0"),
    "frames of three": ({"frames": (1, 2, 3)}, WrongType, "a slice or a pair"),
    "backwards": ({"frames": slice(None, None, -1)}, OutOfRange, "time runs forward"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options(mp4, case):
    options, error, message = BAD_OPTIONS[case]
    with pytest.raises(error, match=message):
        gs.load_video(mp4, **options)


UNSAVABLE = {
    "odd size": ("a.mp4", CLIP[:, :63], {}, VideoFileError, "needs even height and width, such as 62 x 96"),
    "batch": ("a.mp4", CLIP[None], {}, WrongShape, r"several worlds: .* video\[0\]"),
    "coverage": ("a.mp4", CLIP[..., [0, 1, 2, 0]], {}, WrongShape, r"save video\[..., :3\]"),
    "picture": ("a.mp4", CLIP[0], {}, WrongShape, r"picture\[None\]"),
    "bytes": ("a.mp4", (255 * CLIP).byte(), {}, WrongType, "video = torch.uint8"),
    "not a number": ("a.mp4", CLIP / 0 * 0, {}, NotFinite, "NaN or infinite"),
    "no rate": ("a.mp4", CLIP, {"fps": None}, InvalidInput, "fps = None: must be given"),
    "fast gif": ("a.gif", CLIP, {"fps": 60}, OutOfRange, "at most 50 frames a second"),
    "quality": ("a.mp4", CLIP, {"quality": 60}, OutOfRange, "between 0 and 51"),
    "codec": ("a.mp4", CLIP, {"codec": "mp3"}, VideoFileError, "codec 'mp3': needs one of h264"),
    "codec that does not fit": (
        "a.webm",
        CLIP,
        {"codec": "h264"},
        VideoFileError,
        "h264 in .webm: could not be written",
    ),
    "extension": ("a.xyz", CLIP, {}, VideoFileError, "extension '.xyz'"),
    "folder": ("none/a.mp4", CLIP, {}, VideoFileError, "no such folder"),
}


@pytest.mark.parametrize("case", UNSAVABLE)
def test_what_cannot_be_saved_leaves_nothing_behind(tmp_path, case):
    name, video, options, error, message = UNSAVABLE[case]
    with pytest.raises(error, match=message):
        gs.save_video(tmp_path / name, video, **{"fps": 30, **options})
    assert list(tmp_path.iterdir()) == []


def test_folders_are_replaced_only_if_they_hold_pictures_alone(tmp_path):
    path = saved(tmp_path / "clip")
    saved(path, CLIP[:5])
    assert len(gs.load_video(path)) == 5
    (path / "thesis.txt").write_text("precious")
    with pytest.raises(VideoFileError, match="holds thesis.txt"):
        saved(path)
    assert (path / "thesis.txt").read_text() == "precious"

"""Every unusable file, option or video raises an error that names it and a remedy."""

import numpy as np
import pytest
from tests.video.audio_file import audio
from tests.video.clips import CLIP, psnr, saved

import gradsim as gs
from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, VideoFileError, WrongShape, WrongType
from gradsim.video.encoders import png_bytes


@pytest.fixture(scope="module")
def mp4(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("video") / "clip.mp4")


def junk(path, content=b"this is not a video\n" * 50):
    path.write_bytes(content)
    return path


def truncate(path, *, keep, **options):
    saved(path, **options)
    return junk(path, path.read_bytes()[: int(keep * path.stat().st_size)])


def unequal(path):
    saved(path)
    (path / "00002.png").write_bytes(png_bytes(np.zeros((8, 8, 3), np.uint8)))
    return path


def array(path, values):
    np.save(path, values)
    return path


BAD_FILES = {
    "missing": (lambda d: d / "none.mp4", {}, "no such file"),
    "unknown kind": (lambda d: junk(d / "a.docx"), {}, "extension '.docx': needs one of .mp4"),
    "empty file": (lambda d: junk(d / "a.mp4", b""), {}, "an empty file"),
    "not a video": (lambda d: junk(d / "a.mp4"), {}, "unreadable"),
    "audio only": (lambda d: audio(d / "a.mp4"), {}, "no video stream"),
    "truncated mp4": (lambda d: truncate(d / "a.mp4", keep=0.8), {}, "truncated: .* of 24 frames can be read: copy"),
    "truncated mkv": (lambda d: truncate(d / "a.mkv", keep=0.8), {}, "truncated: .* of 2[34] frames"),
    "truncated avi": (lambda d: truncate(d / "a.avi", keep=0.8), {}, "truncated: .* of 24 frames"),
    "truncated gif": (lambda d: truncate(d / "a.gif", keep=0.5), {}, "truncated"),
    "truncated header": (lambda d: truncate(d / "a.mp4", keep=0.02), {}, "unreadable|needs a complete video"),
    "truncated array": (lambda d: truncate(d / "a.npy", keep=0.5), {}, "unreadable"),
    "truncated archive": (lambda d: truncate(d / "a.npz", keep=0.5), {}, "unreadable"),
    "no images": (lambda d: d, {}, "no images in this folder"),
    "unequal images": (lambda d: unequal(d / "a"), {}, "00002.png = 8 x 8 pixels: needs 64 x 96"),
    "broken image": (lambda d: junk(d / "0.png").parent, {}, "unreadable"),
    "frames beyond the end": (lambda d: saved(d / "a.mp4"), {"frames": (0, 25)}, "frames 0 to 25: the file has 24"),
    "frames before the start": (lambda d: saved(d / "a.npy"), {"frames": slice(-25, None)}, "frames -25 to None"),
    "no frames": (lambda d: saved(d / "a.npy"), {"frames": (5, 5)}, "needs 0 <= start < stop <= 24"),
    "shape": (lambda d: array(d / "a.npy", np.zeros((4, 8, 8))), {}, r"shape \(4, 8, 8\): needs \[T, H, W, 3\]"),
    "integers": (lambda d: array(d / "a.npy", np.zeros((4, 8, 8, 3), int)), {}, "dtype int64: needs 8-bit"),
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


def test_the_readable_part_of_a_truncated_video_can_be_loaded(tmp_path):
    path = truncate(tmp_path / "cut.mp4", keep=0.8)
    with pytest.raises(VideoFileError) as caught:
        gs.load_video(path)
    count = int(str(caught.value).split("frames=(0, ")[1].split(")")[0])
    assert 0 < count < 24
    part = gs.load_video(path, frames=(0, count))
    assert psnr(part.frames, CLIP[:count]) > 35


BAD_OPTIONS = {
    "crop outside": ({"crop": (0, 0, 65, 96)}, OutOfRange, "inside the images of 64 x 96 pixels"),
    "crop of three": ({"crop": (0, 0, 65)}, WrongType, "must be four whole numbers"),
    "enlarging": ({"size": (128, 192)}, OutOfRange, "must not exceed"),
    "aspect ratio": ({"size": (32, 32)}, OutOfRange, r"use \(32, 48\), or .* crop=\(0, 16, 64, 64\)"),
    "size of one": ({"size": 32}, WrongType, "two whole numbers"),
    "rate": ({"fps": 0}, OutOfRange, "fps = 0"),
    "frames of three": ({"frames": (1, 2, 3)}, WrongType, "a slice or a pair"),
    "backwards": ({"frames": slice(None, None, -1)}, OutOfRange, "cannot be reversed"),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options(mp4, case):
    options, error, message = BAD_OPTIONS[case]
    with pytest.raises(error, match=message):
        gs.load_video(mp4, **options)


UNSAVABLE = {
    "odd size": ("a.mp4", CLIP[:, :63], {}, VideoFileError, "needs even height and width, such as 62 x 96"),
    "batch": ("a.mp4", CLIP[None], {}, WrongShape, r"batch of worlds: .* video\[0\]"),
    "coverage": ("a.mp4", CLIP[..., [0, 1, 2, 0]], {}, WrongShape, r"save video\[..., :3\]"),
    "image": ("a.mp4", CLIP[0], {}, WrongShape, r"image\[None\]"),
    "bytes": ("a.mp4", (255 * CLIP).byte(), {}, WrongType, "video = torch.uint8"),
    "not a number": ("a.mp4", CLIP / 0 * 0, {}, NotFinite, "NaN or infinite"),
    "no rate": ("a.mp4", CLIP, {"fps": None}, InvalidInput, "fps = None: is required"),
    "fast gif": ("a.gif", CLIP, {"fps": 60}, OutOfRange, "at most 50 frames per second"),
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
def test_failed_saves_leave_no_files(tmp_path, case):
    name, video, options, error, message = UNSAVABLE[case]
    with pytest.raises(error, match=message):
        gs.save_video(tmp_path / name, video, **{"fps": 30, **options})
    assert list(tmp_path.iterdir()) == []


def test_folders_are_replaced_only_if_they_contain_only_images(tmp_path):
    path = saved(tmp_path / "clip")
    saved(path, CLIP[:5])
    assert len(gs.load_video(path)) == 5
    (path / "thesis.txt").write_text("precious")
    with pytest.raises(VideoFileError, match="contains thesis.txt"):
        saved(path)
    assert (path / "thesis.txt").read_text() == "precious"

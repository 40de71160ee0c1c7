"""Lenses: the undistorted picture is that of a pinhole camera, and files keep everything."""

import math

import numpy as np
import pytest
from tests.footage.board_videos import TrueLens, chessboard, picture, rotation

import gradsim as gs
from gradsim.footage.lens import PARAMETERS, Lens, distort_points, pinhole_lens, undistort_image, undistort_points
from gradsim.footage.lens_files import load_lens, save_lens
from gradsim.footage.measured import Measured
from gradsim.scene.errors import InvalidInput, LensFileError, NotFinite, OutOfRange, WrongShape

TRUE = TrueLens(size=(270, 480), fx=416, fy=415, cx=244, cy=131, k3=0.01)


def lens_of(true, covariance=None):
    names = {name: getattr(true, name) for name in PARAMETERS}
    return Lens(**names, size=true.size, **({} if covariance is None else {"covariance": covariance}))


def some_covariance(seed=0):
    root = np.random.default_rng(seed).standard_normal((9, 9))
    return root @ root.T


def test_undistorted_points_are_those_of_a_pinhole_camera():
    points = np.random.default_rng(0).uniform([-0.5, -0.3, 1.0], [0.5, 0.3, 1.0], (50, 3))
    found = undistort_points(lens_of(TRUE), TRUE.project(points))
    height, width = TRUE.size
    assert found == pytest.approx(TRUE.fy * points[:, :2] + np.array([width / 2, height / 2]), abs=1e-6)
    assert distort_points(lens_of(TRUE), found) == pytest.approx(TRUE.project(points), abs=1e-6)


def test_undistorted_points_agree_with_the_scene_camera():
    lens = lens_of(TRUE)
    body = gs.Rigid("speck", gs.meshes.box(0.0005), mass=1.0, position=(0.2, 0.1, -1.0))
    camera = gs.Camera(pose=np.diag([1.0, -1.0, -1.0, 1.0]), fov=lens.fov.value)
    scene = gs.Scene([body], camera=camera, gravity=(0.0, 0.0, 0.0))
    image = gs.render(scene, gs.simulate(scene, frames=1, fps=30, substeps=1), TRUE.size)[0].numpy()
    weight = np.abs(image - image[0, 0]).sum(-1)
    y, x = np.indices(weight.shape) + 0.5
    center = np.array([(weight * x).sum(), (weight * y).sum()]) / weight.sum()
    expected = undistort_points(lens, TRUE.project(np.array([0.2, -0.1, 1.0])))
    assert center == pytest.approx(expected, abs=0.05)


def test_the_undistorted_image_has_straight_lines():
    turn, shift = rotation((0.1, 0.2, 0.05)), np.array([-0.115, -0.065, 0.24])
    image = picture(TRUE, chessboard(9, 6, 0.025), lambda _: (turn, shift), noise=0.0)
    flat = undistort_image(lens_of(TRUE), image)
    pinhole = TrueLens(size=TRUE.size, fx=TRUE.fy, fy=TRUE.fy, cx=240, cy=135, k1=0, k2=0, p1=0, p2=0)
    expected = picture(pinhole, chessboard(9, 6, 0.025), lambda _: (turn, shift), noise=0.0)
    shown = undistort_image(lens_of(TRUE), np.full_like(image, 255)) > 250
    difference = np.abs(flat.astype(float) - expected)[shown]
    assert shown.mean() > 0.9
    assert difference.mean() < 3
    distorted = np.abs(image.astype(float) - expected)[shown]
    assert distorted.mean() > 5 * difference.mean()


def test_field_of_view_and_its_standard_deviation():
    covariance = np.zeros((9, 9))
    covariance[1, 1] = 4.0
    lens = lens_of(TRUE, covariance)
    assert lens.fov.value == pytest.approx(math.degrees(2 * math.atan(135 / 415)))
    steps = [lens_of(TrueLens(size=TRUE.size, fy=415 + 2 * sign)).fov.value for sign in (-1, 1)]
    assert lens.fov.sd == pytest.approx((steps[0] - steps[1]) / 2, rel=1e-4)
    assert lens.focal.normal().sd == 2.0
    assert lens.focal.log_normal().sd == pytest.approx(2 / 415)


def test_scaled_lens_scales_the_picture():
    lens = lens_of(TRUE, some_covariance())
    half = lens.scaled((135, 240))
    pixels = np.array([[30.0, 40.0], [400.0, 250.0]])
    assert undistort_points(half, pixels / 2) == pytest.approx(undistort_points(lens, pixels) / 2, abs=1e-6)
    assert half.sd["fx"] == pytest.approx(lens.sd["fx"] / 2)
    assert half.sd["k1"] == lens.sd["k1"]
    assert half.fov.value == pytest.approx(lens.fov.value)
    assert half.fov.sd == pytest.approx(lens.fov.sd)
    with pytest.raises(OutOfRange, match="aspect ratio of 270 x 480"):
        lens.scaled((270, 360))


def test_files_keep_everything(tmp_path):
    lens = lens_of(TRUE, some_covariance())
    save_lens(lens, tmp_path / "lens.yaml")
    loaded = load_lens(tmp_path / "lens.yaml")
    assert [getattr(loaded, name) for name in PARAMETERS] == [getattr(lens, name) for name in PARAMETERS]
    assert loaded.size == lens.size
    assert loaded.covariance == pytest.approx(lens.covariance, rel=1e-12)


def test_a_file_without_uncertainty_is_enough(tmp_path):
    (tmp_path / "lens.yaml").write_text("size: [480, 640]\nfx: 500\nfy: 500\ncx: 320\ncy: 240\n")
    assert load_lens(tmp_path / "lens.yaml").sd["fx"] == 0


BAD_FILES = {
    "a list": ("- 1\n", "no mapping"),
    "not YAML": ("fx: [1", "not YAML"),
    "a key missing": ("fx: 500\nfy: 500\n", "no 'size'"),
    "a misspelt key": ("fxx: 500\n", "unknown key 'fxx'"),
    "text": ("size: [480, 640]\nfx: long\nfy: 1\n", "invalid numbers"),
    "a negative focal length": ("size: [480, 640]\nfx: -1\nfy: 1\n", "must be > 0"),
    "a wrong size": ("size: 480\nfx: 1\nfy: 1\n", "invalid numbers"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(tmp_path, case):
    text, message = BAD_FILES[case]
    (tmp_path / "lens.yaml").write_text(text)
    with pytest.raises(LensFileError, match=message):
        load_lens(tmp_path / "lens.yaml")


def test_bad_names_and_folders(tmp_path):
    with pytest.raises(LensFileError, match="no such file"):
        load_lens(tmp_path / "none.yaml")
    with pytest.raises(InvalidInput, match="must end in .yaml"):
        save_lens(lens_of(TRUE), tmp_path / "lens.txt")
    with pytest.raises(LensFileError, match="no such folder"):
        save_lens(lens_of(TRUE), tmp_path / "none" / "lens.yaml")


def test_bad_points_and_images():
    lens = lens_of(TrueLens(size=TRUE.size, k1=-0.4, k2=0.0))
    with pytest.raises(OutOfRange, match="no inverse"):
        undistort_points(lens, [5000.0, 0.0])
    with pytest.raises(WrongShape, match="x and y"):
        undistort_points(lens, [1.0, 2.0, 3.0])
    with pytest.raises(NotFinite):
        undistort_points(lens, [np.nan, 2.0])
    with pytest.raises(WrongShape, match="lens.scaled"):
        undistort_image(lens, np.zeros((10, 10, 3), np.uint8))


def test_the_fold_of_a_strong_distortion_is_black():
    """Where radii turn back, the picture would show its inside again."""
    lens = lens_of(TrueLens(size=TRUE.size, fx=250, fy=250, cx=240, cy=135, k1=-0.5, k2=0.0, p1=0, p2=0))
    flat = undistort_image(lens, np.full((*TRUE.size, 3), 200, np.uint8))
    assert (flat[135, 240] == 200).all()
    assert (flat[0, 0] == 0).all()


def test_pinhole_lens():
    lens = pinhole_lens((480, 640), Measured(500.0, 50.0), center_sd=3.0)
    assert (lens.fx, lens.cx, lens.cy) == (500.0, 320.0, 240.0)
    assert lens.sd["fy"] == 50.0
    assert lens.sd["cx"] == 3.0
    assert undistort_points(lens, [100.0, 20.0]) == pytest.approx([100.0, 20.0])


def test_measured_values_print_and_check():
    assert str(Measured(1400.123, 12.3, "px", "metadata")) == "1400 ± 12 px (metadata)"
    assert str(Measured(0.7, 0.0)) == "0.7"
    with pytest.raises(NotFinite):
        Measured(math.nan, 1.0)
    with pytest.raises(OutOfRange, match="sd"):
        Measured(1.0, -1.0)


def test_a_guess_has_an_infinite_standard_deviation():
    assert str(Measured(420.0, math.inf, "px/m", "a guess")) == "420 px/m (a guess)"
    with pytest.raises(NotFinite):
        Measured(420.0, math.nan)

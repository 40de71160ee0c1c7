"""Calibration from rendered videos of boards and from ideal corners with noise."""

import cv2
import numpy as np
import pytest
from tests.footage.accuracy import BOARD, BOARD_LENS, board_video, undistortion_error
from tests.footage.board_videos import GROUND, Texture, TrueLens, chessboard, image_texture, picture, tour
from tests.footage.videos import save

from gradsim.footage.boards import BoardCorners, CharucoBoard, Chessboard
from gradsim.footage.calibration import BoardView, BoardViews, calibrate_lens, calibrate_views, select_views
from gradsim.footage.lens import PARAMETERS
from gradsim.scene.errors import CalibrationError, OutOfRange, UnknownName, VideoFileError, WrongType

TRUE = BOARD_LENS


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    return board_video(tmp_path_factory.mktemp("boards") / "board.mp4", 1)


@pytest.fixture(scope="module")
def calibration(video):
    return calibrate_lens(video, BOARD)


def test_a_rendered_video_calibrates_the_lens(calibration):
    lens = calibration.lens
    assert abs(lens.fx / TRUE.fx - 1) < 0.002
    assert abs(lens.fy / TRUE.fy - 1) < 0.002
    assert undistortion_error(lens, TRUE).max() < 0.2
    assert calibration.error < 0.2
    parts = [view for view in calibration.views if not view.corners.identified]
    assert len(parts) >= 3  # parts of the board, at the edges of the picture
    for name in PARAMETERS:
        assert abs(getattr(lens, name) - getattr(TRUE, name)) < 4 * lens.sd[name] + 1e-12


def ideal_views(true, board, count, seed, noise=0.1, **options):
    """Corners of a board with independent noise [px]."""
    random = np.random.default_rng(1000 + seed)
    width, height = board.points[:, :2].max(0)
    views = []
    for k, pose in enumerate(tour(true, width, height, count, seed=seed, **options)):
        turn, shift = pose(0.0)
        pixels = true.project(board.points @ turn.T + shift)
        corners = BoardCorners(np.arange(len(pixels)), pixels + noise * random.standard_normal(pixels.shape))
        views.append(BoardView(k, f"frame {k}", corners))
    return BoardViews(board, true.size, tuple(views), count)


def test_standard_deviations_cover_the_truth():
    """95 % intervals of all parameters over 24 calibrations with independent noise."""
    inside = []
    for seed in range(24):
        lens = calibrate_views(ideal_views(TRUE, BOARD, 16, seed)).lens
        inside += [[abs(getattr(lens, n) - getattr(TRUE, n)) <= 1.96 * lens.sd[n] for n in PARAMETERS[:8]]]
    share = np.mean(inside)
    assert 0.9 <= share <= 1.0


def test_common_errors_of_a_picture_widen_the_intervals():
    """Errors that all corners of a picture share, as from blur, count once a picture and not once a corner."""
    found = ideal_views(TRUE, BOARD, 20, 3, noise=0.05)
    random = np.random.default_rng(0)
    center = np.array([480.0, 270.0])
    bent = []
    for view in found.views:
        curve = 1e-6 * random.standard_normal() * ((view.corners.pixels - center) ** 2).sum(-1, keepdims=True)
        pixels = view.corners.pixels + curve * random.standard_normal(2)
        bent.append(BoardView(view.number, view.name, BoardCorners(view.corners.ids, pixels)))
    plain = calibrate_views(found).lens
    wide = calibrate_views(BoardViews(BOARD, TRUE.size, tuple(bent), 20)).lens
    assert wide.sd["fx"] > 1.5 * plain.sd["fx"]


def test_k3_is_used_only_where_it_is_needed():
    assert calibrate_views(ideal_views(TRUE, BOARD, 25, 0, noise=0.02)).lens.k3 == 0
    strong = TrueLens(k1=-0.3, k2=0.15, k3=-0.08)
    lens = calibrate_views(ideal_views(strong, BOARD, 40, 0, noise=0.02, fill=0.95)).lens
    assert lens.k3 == pytest.approx(-0.08, abs=4 * lens.sd["k3"])
    assert lens.k3 != 0


def test_misread_views_are_left_out():
    found = ideal_views(TRUE, BOARD, 20, 5)
    bad = found.views[4]
    shifted = bad.corners.pixels + 3 * np.random.default_rng(0).standard_normal(bad.corners.pixels.shape)
    views = list(found.views)
    views[4] = BoardView(4, "frame 4", BoardCorners(bad.corners.ids, shifted))
    result = calibrate_views(BoardViews(BOARD, TRUE.size, tuple(views), 20))
    assert [view.number for view in result.rejected] == [4]
    assert result.error < 0.2


def test_selected_views_are_the_different_ones():
    found = ideal_views(TRUE, BOARD, 8, 2)
    repeated = tuple(BoardView(10 * k + view.number, "", view.corners) for k in range(4) for view in found.views)
    chosen = select_views(BoardViews(BOARD, TRUE.size, repeated, 32), 8)
    assert sorted(view.number % 10 for view in chosen) == list(range(8))


def test_a_charuco_board_that_is_partly_visible(tmp_path):
    board = CharucoBoard(8, 6, 0.03, 0.022, "5X5_100")
    print_ = board.pattern.generateImage((8 * 70, 6 * 70), marginSize=0, borderBits=1)
    texture = image_texture(print_, 0.24, margin=40)
    poses = tour(TRUE, 0.24, 0.18, 12, seed=4, fill=1.15)
    for k, pose in enumerate(poses):
        cv2.imwrite(str(tmp_path / f"{k:02}.png"), picture(TRUE, texture, pose, seed=k))
    result = calibrate_lens(tmp_path, board)
    assert min(len(view.corners.ids) for view in result.views) < 35
    assert result.lens.fx == pytest.approx(TRUE.fx, rel=0.003)
    assert result.error < 0.25


SMALL = TrueLens(size=(270, 480), fx=416, fy=415, cx=244, cy=131)


def small_video(path, texture, count=8, **options):
    poses = tour(SMALL, 0.2, 0.125, count, fill=0.5, tilt=0.5, **options)
    return save(path, np.stack([picture(SMALL, texture, pose, side=1, seed=k) for k, pose in enumerate(poses)]))


def test_errors_name_what_was_looked_for(tmp_path):
    path = small_video(tmp_path / "board.mp4", chessboard(9, 6, 0.025))
    with pytest.raises(
        CalibrationError, match=r"chessboard with 8 x 5 inner corners in .* 9 x 6 inner corners is there"
    ):
        calibrate_lens(path, Chessboard(8, 5, 0.025))
    with pytest.raises(CalibrationError, match=r"10 x 7 inner corners in 8 .* 9 x 6"):
        calibrate_lens(path, Chessboard(10, 7, 0.025))
    with pytest.raises(CalibrationError, match=r"9 x 6 inner corners in only \d of 4 examined pictures: needs 6"):
        calibrate_lens(path, BOARD, frames=(0, 4))
    with pytest.raises(CalibrationError, match="no ChArUco board of 7 x 5 squares.*dictionary"):
        calibrate_lens(path, CharucoBoard(7, 5, 0.03, 0.02))


def test_no_board_and_no_pictures(tmp_path):
    path = small_video(tmp_path / "nothing.mp4", Texture(np.full((1, 1), GROUND, np.float32), 0.1, (0, 0)), count=4)
    with pytest.raises(CalibrationError, match="no chessboard with 9 x 6 .*count the inner corners"):
        calibrate_lens(path, BOARD)
    (tmp_path / "empty").mkdir()
    with pytest.raises(VideoFileError, match="no images"):
        calibrate_lens(tmp_path / "empty", BOARD)
    with pytest.raises(VideoFileError, match="no such file"):
        calibrate_lens(tmp_path / "none.mp4", BOARD)


def test_views_that_do_not_determine_the_lens():
    with pytest.raises(CalibrationError, match="too similar: tilt"):
        calibrate_views(ideal_views(TRUE, BOARD, 10, 0, tilt=0.005, noise=0.2))


def test_a_wrong_board_is_no_lens():
    found = ideal_views(TRUE, BOARD, 10, 0)
    random = np.random.default_rng(0)
    views = [
        BoardView(v.number, v.name, BoardCorners(random.permutation(v.corners.ids), v.corners.pixels))
        for v in found.views
    ]
    with pytest.raises(CalibrationError):
        calibrate_views(BoardViews(BOARD, TRUE.size, tuple(views), 10))


def test_bad_boards():
    with pytest.raises(OutOfRange, match="at least 3"):
        Chessboard(2, 6, 0.025)
    with pytest.raises(OutOfRange, match="> 0"):
        Chessboard(9, 6, 0.0)
    with pytest.raises(WrongType):
        Chessboard(9.5, 6, 0.025)
    with pytest.raises(OutOfRange, match="smaller than a square"):
        CharucoBoard(7, 5, 0.02, 0.03)
    with pytest.raises(UnknownName, match="did you mean '5X5_100'"):
        CharucoBoard(7, 5, 0.03, 0.02, "5X5_10")
    with pytest.raises(OutOfRange, match="max_views"):
        calibrate_views(ideal_views(TRUE, BOARD, 8, 0), max_views=3)

"""From a video to an estimate: the prepared scene, its folder, and the report of what comes of it."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.footage import physical_videos as videos
from tests.report.browser import CHROMIUM, NO_CHROMIUM, open_page

import gradsim as gs
from gradsim.cli.manifest import load_manifest
from gradsim.footage.footage_view import footage_view, motion_pictures, shown_masks, shown_rows, summary
from gradsim.footage.lens import Lens, distort_points
from gradsim.footage.prepared_files import MANIFEST, is_prepared, load_footage_view, write_prepared
from gradsim.footage.window import Window
from gradsim.report.footage_charts import hardly_used
from gradsim.report.footage_overlay import close_up_rows, close_ups, overlay_frames, predicted_track
from gradsim.report.footage_sections import contributions
from gradsim.scene.errors import NoMovingObject, UnknownName

FILES = {
    *("frames.mp4", "lens.yaml", "masks.npz", "paths.png", "plate.png", "prepared.json", "preview.mp4"),
    *("scene.yaml", "tracks.csv", "trials.yaml"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("prepare")


@pytest.fixture(scope="module")
def throw(place):
    return gs.prepare(videos.throw_video(place / "throw.mp4"), scale=videos.RULER)


@pytest.fixture(scope="module")
def thrown(throw):
    return gs.estimate(throw)


@pytest.fixture(scope="module")
def bounce(place):
    return gs.prepare(videos.bounce_video(place / "bounce.mp4"), diameter=videos.bounce_diameter())


@pytest.fixture(scope="module")
def folder(throw, place):
    return throw.save(place / "prepared")


def inside(fit, path, value):
    low, high = fit.intervals[path]
    return float(low) <= value <= float(high)


def test_a_throw_gives_gravity(throw, thrown):
    assert throw.fit.kind == "flight"
    assert inside(thrown, "scene.gravity[1]", -videos.GRAVITY)
    low, high = thrown.intervals["scene.gravity[1]"]
    assert float(high - low) / 2 < 0.06 * videos.GRAVITY
    assert inside(thrown, "object.velocity[1]", 520 / videos.SCALE)
    assert thrown.status == "converged"


def test_bounces_give_restitution_and_gravity(bounce):
    assert bounce.fit.kind == "bounce"
    json.dumps(summary(bounce))  # plain values
    fit = gs.estimate(bounce, corrections=0)
    assert float(fit.values["ground.restitution"]) == pytest.approx(videos.RESTITUTION, abs=0.01)
    assert float(fit.values["scene.gravity[1]"]) == pytest.approx(-videos.GRAVITY, rel=0.05)


def test_impacts_take_an_unknown_time(bounce):
    stiffness = bounce.draft.scene.unknowns["ground.ke"]
    assert stiffness.nuisance
    mass = float(np.asarray(bounce.draft.scene.bodies[0].mass))
    assert np.pi * np.sqrt(mass / stiffness.guess) == pytest.approx(0.002)


def test_centres_have_lasting_errors(throw, folder):
    assert throw.drift == pytest.approx(np.hypot(0.004 * throw.path.diameter, 0.1))
    (trial,) = load_manifest(folder / MANIFEST).trials
    assert trial.observations[0].drift == pytest.approx(throw.drift, abs=1e-3)


def test_what_was_found_is_printed(throw):
    lines = str(throw).splitlines()
    assert re.fullmatch(r"object: 2[01] px wide, in 16 of 16 frames", lines[0])
    assert lines[1].startswith("motion: flight, frames 0 to 15, explains ")
    assert lines[2].startswith("scale: 150.0 ± ")
    assert "scene.gravity[1]" in lines[3]
    assert any("the lens is not calibrated" in line for line in lines if line.startswith("note: "))


def test_without_a_length_gravity_is_known(place):
    prepared = gs.prepare(place / "throw.mp4")
    assert "scene.gravity[1]" not in prepared.draft.scene.unknowns
    assert "camera.view_height" in prepared.draft.scene.unknowns
    assert any("no length is known" in note for note in prepared.notes)
    assert "scale: unknown" in str(prepared)


def test_files_of_the_folder(folder):
    assert {file.name for file in folder.iterdir()} == FILES
    assert is_prepared(folder)
    found = json.loads((folder / "prepared.json").read_text())
    assert found["motion"]["kind"] == "flight"
    assert found["camera"]["pixels_per_metre"] == pytest.approx(videos.SCALE)
    assert found["frames"] == [0, 16]
    assert len(gs.load_video(folder / "preview.mp4")) == 16


def test_estimate_of_the_folder_is_that_of_the_prepared_recording(throw, thrown, folder):
    manifest = load_manifest(folder / MANIFEST)
    fit = gs.estimate(list(manifest.trials), substeps=manifest.substeps, integrator=manifest.file.time.integrator)
    assert set(fit.values) == set(thrown.values)
    for path, value in thrown.values.items():
        low, high = thrown.intervals[path]
        assert torch.all((fit.values[path] - value).abs() <= 0.01 * (high - low)), path


def test_view_of_the_folder_is_that_of_the_prepared_recording(throw, folder):
    made, loaded = footage_view(throw), load_footage_view(folder)
    assert loaded.summary == json.loads(json.dumps(made.summary))
    assert loaded.window == made.window
    assert loaded.rows.tolist() == made.rows.tolist() == list(range(16))
    assert np.abs(loaded.points - made.points).max() < 1e-3
    assert np.abs(loaded.deviations - made.deviations).max() < 1e-3
    assert loaded.pictures.shape == made.pictures.shape
    assert np.abs(loaded.pictures.astype(float) - made.pictures).mean() < 4  # H.264
    assert (loaded.plate == made.plate).all()
    assert [number for number, _ in loaded.masks] == [number for number, _ in made.masks]
    assert all((a == b).all() for (_, a), (_, b) in zip(loaded.masks, made.masks, strict=True))


def test_a_folder_without_pictures_has_no_view(throw, tmp_path):
    folder = throw.save(tmp_path / "prepared")
    (folder / "frames.mp4").unlink()
    assert load_footage_view(folder) is None


def test_pictures_show_the_object_where_the_track_says(throw):
    view = footage_view(throw)
    for row in (0, 8, 15):
        x, y = np.floor((view.points[row] - (view.window.left, view.window.top)) * view.scale).astype(int)
        assert np.abs(view.pictures[row, y, x] / 255 - videos.THROW.color).max() < 0.1


def test_pictures_do_not_shake(throw):
    """A shift of the camera by 4 px to the right shows the scene 4 px further right: pictures are moved back."""
    camera = throw.detection.camera
    shaken = replace(camera, shift=np.full_like(camera.shift, (4.0, 0.0)))
    moved = replace(throw, detection=replace(throw.detection, camera=shaken))
    window = Window(20, 10, 200, 180)
    assert (motion_pictures(moved, window)[:, :, :-4] == motion_pictures(throw, window)[:, :, 4:]).all()


def test_a_prepared_folder_is_replaced_and_another_one_is_not(throw, tmp_path):
    folder = throw.save(tmp_path / "prepared")
    (folder / "old.txt").write_text("of a former run")
    throw.save(folder)
    assert {file.name for file in folder.iterdir()} == FILES
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("keep me")
    with pytest.raises(gs.InvalidInput, match="is not a prepared recording: choose another folder"):
        write_prepared(throw, tmp_path / "letters")
    assert (tmp_path / "letters" / "dear.txt").read_text() == "keep me"


def test_predicted_outlines_surround_the_object(throw, thrown):
    predicted = predicted_track(thrown)
    assert np.abs(predicted.points - throw.path.points).max() < 0.5
    for outline, center in zip(predicted.outlines, predicted.points, strict=True):
        radii = np.linalg.norm(outline - center, axis=1)
        off = np.linalg.norm(center - (160, 120)) / 286  # tangent of the angle to the axis: a ball looks elongated
        assert radii.min() > 0.92 * videos.THROW.radius
        assert radii.max() < 1.08 * (1 + off**2) * videos.THROW.radius


def test_close_ups_show_the_object_in_their_middle(throw, thrown):
    view = footage_view(throw)
    image = close_ups(view, predicted_track(thrown))
    assert image.shape == (180, 6 * 180, 3)
    assert close_up_rows(view)[0] == 0
    for k in range(6):
        tile = image[:, 180 * k : 180 * (k + 1)] / 255
        near = np.abs(tile - videos.THROW.color).max(-1) < 0.12
        y, x = np.argwhere(near).mean(0)
        assert np.hypot(x - 90, y - 90) < 8
        assert 0.5 < near.sum() / (np.pi * 36**2) < 1.3  # a diameter is about 2/5 of the side


def test_overlays_follow_the_distortion_of_a_lens(throw, thrown):
    """A lens that distorts moves the drawn centre in the picture by as much."""
    view, predicted = footage_view(throw), predicted_track(thrown)
    plain = overlay_frames(view, predicted)
    height, width = throw.recording.size
    lens = Lens(300.0, 300.0, width / 2, height / 2, (height, width), k1=-0.3)
    object.__setattr__(view, "lens", lens)
    bent = overlay_frames(view, predicted)
    assert bent.shape == plain.shape
    shifts = np.linalg.norm(distort_points(lens, predicted.points) - predicted.points, axis=1)
    assert shifts.max() > 3  # [px]
    x, y = ((distort_points(lens, view.points[0]) - (view.window.left, view.window.top)) * view.scale).astype(int)
    factor = bent.shape[2] / view.pictures.shape[2]
    marked = bent[0, int(y * factor) - 2 : int(y * factor) + 3, int(x * factor) - 2 : int(x * factor) + 3]
    assert (marked.astype(int)[..., 0] - marked[..., 2] > 150).any()  # yellow
    assert not (plain == bent).all()


def test_what_the_motion_does_not_describe_is_marked(throw):
    view = footage_view(throw)
    assert hardly_used(view) == (False, False)
    motion = {**view.summary["motion"], "spread_px": [20.0, 0.0]}
    object.__setattr__(view, "summary", {**view.summary, "motion": motion})
    assert hardly_used(view) == (True, False)


def test_contributions_name_the_prior_of_the_scale(throw, thrown):
    table = contributions(thrown, throw.draft.wanted)
    row = next(own for own in table.split("<tr>") if "scene.gravity[1]" in own)
    assert re.search(r"prior of camera.view_height \d\d %", row)
    assert "<strong>scene.gravity[1]</strong>" in row


@pytest.mark.parametrize("count", [1, 2, 180, 181, 1000])
def test_few_frames_are_shown_of_a_long_motion(count):
    rows = shown_rows(count)
    assert rows[0] == 0
    assert len(rows) <= 180
    assert len(rows) >= min(count, 90)
    assert len(shown_masks(count)) == min(count, 12)


def test_a_kind_of_motion_can_be_forced(place):
    prepared = gs.prepare(place / "throw.mp4", scale=videos.RULER, motion="slide")
    assert prepared.fit.kind == "slide"
    assert "ground.mu" in prepared.draft.wanted
    assert any("slide explains only" in note for note in prepared.notes)
    with pytest.raises(UnknownName, match="flight"):
        gs.prepare(place / "throw.mp4", motion="flihgt")


def test_a_point_without_an_object_is_reported(place):
    with pytest.raises(NoMovingObject, match="300"):
        gs.prepare(place / "throw.mp4", object=(300.0, 20.0))


@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
def test_report_in_a_browser(throw, thrown, tmp_path):
    page = gs.write_report(thrown, tmp_path / "out", footage=throw)
    text = page.read_text()
    for words in ("Footage", "a known length in the picture", "What each prior contributes", "The lens is not calib"):
        assert words in text
    assert not re.search(r"""(src|href|poster)=["'](?!data:|#)""", text)
    assert open_page(page, tmp_path, 600)["size"][0] > 200

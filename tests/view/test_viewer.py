"""The viewer in a browser: frames and unknowns move what is drawn; guesses are saved; long motions are sent fast."""

import time

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from tests.footage.chromium import CHROMIUM, NO_CHROMIUM, open_browser, page_messages

import gradsim as gs
from gradsim.cli.view import fitted_values
from gradsim.view.arrows import force_arrows, push_arrows
from gradsim.view.controls import Range, slider_range

pytest.importorskip("viser")


def scene_with(mass) -> gs.Scene:
    push = gs.Push(impulse=(2.0, 1.0, 0.0), start=0.1)
    look = gs.Look(color=(0.9, 0.1, 0.1))
    cube = gs.Rigid("cube", gs.meshes.box(0.5), mass=mass, position=(-0.6, 0.6, 0.0), pushes=[push], look=look)
    camera = gs.Camera(eye=(0.0, 1.0, 4.0), target=(0.0, 0.5, 0.0), fov=40)
    return gs.Scene([cube], ground=gs.Ground(look=gs.Checker()), camera=camera)


@pytest.fixture(scope="module")
def viewer():
    scene = scene_with(gs.unknown(1.0, low=0.4, high=40.0))
    known = scene.with_values({"cube.mass": 2.0})
    trajectory = gs.simulate(known, frames=12, fps=20, substeps=64)
    video = gs.Video(gs.render(known, trajectory, (48, 64)).float().clamp(0, 1), 20.0)
    opened = gs.view(scene, video=video, time=gs.Time(12, 20.0, 64), port=8199)
    yield opened
    opened.stop()


@pytest.fixture(scope="module")
def page(viewer, tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    with open_browser(tmp_path_factory.mktemp("chromium")) as browser:
        browser.open(viewer.url, 900, 600)
        browser.wait_until("document.querySelector('canvas') !== null", 60)
        assert wait_for(lambda: len(viewer.server.get_clients()) == 1)
        yield browser


def wait_for(condition, seconds=40.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def red(page, file):
    """Mean column of the red pixels in the left part of the window [px], and their number."""
    page.screenshot(file)
    pixels = imread(file)[:, :480]
    columns = np.nonzero((pixels[..., 0] > 0.5) & (pixels[..., 1] < 0.35) & (pixels[..., 2] < 0.35))[1]
    return (float(columns.mean()) if len(columns) else np.nan), len(columns)


def test_slider_and_unknowns_move_the_cube(page, viewer, tmp_path):
    file = tmp_path / "shot.png"
    assert wait_for(lambda: red(page, file)[1] > 300)
    start = red(page, file)[0]
    viewer.controls.frame = 11
    assert wait_for(lambda: red(page, file)[0] > start + 5)
    moved = red(page, file)[0]
    before = viewer.trajectory
    viewer.controls.sliders["cube.mass"].value = float(np.log10(20.0))  # heavier: the push moves it less
    assert wait_for(lambda: viewer.trajectory is not before)
    assert float(viewer.values["cube.mass"]) == pytest.approx(20.0)
    assert wait_for(lambda: red(page, file)[0] < moved - 3)
    assert page_messages(page) == []
    assert page.events_of("Runtime.exceptionThrown") == []


def test_page_stays_on_this_machine(page):
    requests = [event["request"]["url"] for event in page.events_of("Network.requestWillBeSent")]
    assert requests
    assert [url for url in requests if not url.startswith(("http://127.0.0.1", "data:", "blob:"))] == []


def test_guess_is_saved_as_a_scene_file(viewer, tmp_path):
    viewer.set_values({"cube.mass": 3.5})
    viewer.controls.file.value = str(tmp_path / "guess.yaml")
    viewer.controls._save()
    saved = gs.load_scene_file(tmp_path / "guess.yaml")
    unknown = saved.scene.unknowns["cube.mass"]
    assert (float(unknown.guess), float(unknown.low), float(unknown.high)) == (3.5, 0.4, 40.0)
    assert saved.time == viewer.time
    viewer.controls.file.value = str(tmp_path / "nowhere" / "guess.yaml")
    viewer.controls._save()
    assert "nowhere" in viewer.controls.status.value


def test_exported_file_has_the_motion(viewer):
    assert viewer.glb()[:4] == b"glTF"


def test_frames_outside_are_refused(viewer):
    with pytest.raises(gs.errors.OutOfRange, match="12 frames"):
        viewer.show(12)


def test_ranges_of_sliders():
    assert slider_range(gs.unknown(1.0, low=0.5, high=2.0), ()) == Range(0.5, 2.0)
    assert slider_range(gs.unknown((3.0, 0.0)), (0,)) == Range(0.0, 6.0)
    wide = Range(0.1, 1000.0)
    assert wide.logarithmic
    assert wide.value(wide.position(5.0)) == pytest.approx(5.0)
    assert not Range(-1.0, 100.0).logarithmic


def test_values_of_a_fit(tmp_path):
    (tmp_path / "fit.json").write_text('{"parameters": {"cube.mass": {"value": 2.5}}}')
    scene = scene_with(gs.unknown(1.0, low=0.4, high=40.0))
    assert fitted_values(scene, tmp_path) == {"cube.mass": 2.5}
    with pytest.raises(gs.InvalidInput, match="fit.json"):
        fitted_values(scene, tmp_path / "nowhere")


def test_arrows_are_the_forces_besides_gravity():
    push = gs.Push(force=(3.0, 0.0, 0.0), start=0.0)
    cube = gs.Rigid("cube", gs.meshes.box(0.4), mass=2.0, pushes=[push])
    scene = gs.Scene([cube])
    trajectory = gs.simulate(scene, frames=4, fps=20, substeps=16)
    arrows = force_arrows(scene, trajectory, 1.0)
    assert arrows.shape == (3, 1, 2, 3)
    weight = 2.0 * 9.81
    assert np.allclose(arrows[:, 0, 1] - arrows[:, 0, 0], (3.0 / weight, 0.0, 0.0), atol=1e-9)
    start, end = push_arrows(scene, trajectory, 2, 0.5)[0]
    assert np.allclose(end, trajectory["cube"].center_of_mass[2])
    assert np.allclose(end - start, (0.5, 0.0, 0.0))


def test_extra_is_named_when_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "viser", None)
    with pytest.raises(gs.MissingExtra, match="view"):
        gs.view(scene_with(1.0), gs.simulate(scene_with(1.0), frames=2, substeps=64))
    assert torch.is_grad_enabled()

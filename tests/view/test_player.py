"""The 3D player draws what the renderer renders, can be turned, scrubbed and played, and makes no request."""

import base64
import dataclasses
import io
import json
import re
import struct
import zlib

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from tests.footage.chromium import CHROMIUM, NO_CHROMIUM, open_browser, page_messages

import gradsim as gs
from gradsim.report.html import player_section, write_page
from gradsim.view import player as player_module
from gradsim.view.player import KINDS, Player, frame_element

HEIGHT, WIDTH = 200, 320  # of the canvas [px]
FRAMES = 12


def scene_with(look: gs.Look) -> gs.Scene:
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(0.6),
        mass=1.0,
        position=(-0.6, 0.9, 0.0),
        velocity=(1.5, 1.0, 0.0),
        angular_velocity=(0.0, 2.0, 3.0),
        look=look,
    )
    sheet = gs.Cloth("sheet", gs.meshes.grid(0.7, 4), mass=0.1, position=(0.7, 1.0, 0.0), look=look)
    camera = gs.Camera(eye=(0.5, 1.2, 4.0), target=(0.1, 0.7, 0.0), fov=40)
    return gs.Scene([cube, sheet], ground=gs.Ground(kd=10.0), camera=camera, pairs=False)


@pytest.fixture(scope="module")
def motion():
    scene = scene_with(gs.Look(color=(1.0, 0.1, 0.1), lit=False))
    return scene, gs.simulate(scene, frames=FRAMES, fps=20, substeps=96)


def unpacked(text):
    content = zlib.decompress(base64.b64decode(text))
    length = struct.unpack("<I", content[:4])[0]
    header = json.loads(content[4 : 4 + length])
    arrays = [
        np.frombuffer(content, KINDS[kind], count, header["start"] + offset) for kind, offset, count in header["arrays"]
    ]
    return header, arrays


def test_data_hold_the_positions_at_all_frames(motion):
    scene, trajectory = motion
    header, arrays = unpacked(Player(scene, trajectory).data())
    cube, sheet = header["surfaces"]
    poses = arrays[cube["poses"]].reshape(FRAMES, 4, 3)
    points = arrays[cube["points"]].reshape(-1, 3)
    assert np.allclose(points @ poses[:, :3] + poses[:, 3:], trajectory["cube"].vertices.numpy(), atol=1e-6)
    codes = np.cumsum(arrays[sheet["codes"]].reshape(FRAMES, -1, 3), axis=0, dtype=np.uint16)
    positions = np.array(sheet["low"]) + np.array(sheet["step"]) * codes
    extent = np.ptp(trajectory["sheet"].vertices.numpy(), axis=(0, 1)).max()
    assert np.abs(positions - trajectory["sheet"].vertices.numpy()).max() < extent / 60000
    assert header["times"] == trajectory.time.tolist()


def test_frames_are_left_out_beyond_the_limit(motion, monkeypatch):
    scene, trajectory = motion
    monkeypatch.setattr(player_module, "MAX_BYTES", 6 * 25 * FRAMES // 3)
    header, _ = unpacked(Player(scene, trajectory).data())
    assert header["times"] == trajectory.time[::3].tolist()
    assert "One frame in 3 is shown" in player_section("3D", scene, trajectory)


def test_names_cannot_leave_the_data(motion):
    box = gs.StaticBox(position=(0.0, 0.2, -1.0), size=(0.1, 0.2, 0.1))
    scene = dataclasses.replace(motion[0], shapes={"</script><b>": box})
    element = Player(scene, motion[1]).element()
    assert unpacked(re.search(r'class="data">([^<]*)<', element)[1])[0]["surfaces"][0]["name"] == "</script><b>"
    assert "<b>" not in element
    assert "<b>" not in frame_element(element, 400, "a <b>title</b>")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    with open_browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(browser, motion, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "page.html"
    sections = [f'<div style="width: {WIDTH}px">{player_section("3D", *motion)}</div>']
    write_page(file, kind="test", title="A player", source="", sections=sections, footer="")
    browser.open(file.as_uri(), 600, 700)
    browser.wait_until("document.querySelector('.player')?.dataset.drawn === '0'")
    return browser


def picture(page):
    """The pixels of the canvas, [H, W, 4], from 0 to 1."""
    uri = page.evaluate("document.querySelector('canvas').toDataURL()")
    return imread(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def scrub(page, frame):
    page.evaluate(
        f"(slider => {{ slider.value = {frame}; slider.dispatchEvent(new Event('input')) }})"
        "(document.querySelector('input[type=range]'))"
    )
    page.wait_until(f"document.querySelector('.player').dataset.drawn === '{frame}'")


@pytest.mark.parametrize("frame", [0, 5, FRAMES - 1])
def test_picture_is_that_of_the_renderer(page, motion, frame):
    page.evaluate("document.querySelector('input[type=checkbox]').checked = false")
    scrub(page, frame)
    page.evaluate("document.querySelector('.player').player.draw()")
    drawn = picture(page)[..., 3] > 0.5
    assert drawn.shape == (HEIGHT, WIDTH)
    with torch.no_grad():
        rendered = gs.render(*motion, (HEIGHT, WIDTH), frames=[frame], alpha=True)[0, ..., 3].numpy() > 0.5
    assert rendered.sum() > 1500
    assert (drawn & rendered).sum() / (drawn | rendered).sum() > 0.98  # edges are antialiased by four samples a pixel


def test_dragging_turns_the_view_and_a_double_click_turns_it_back(page):
    scrub(page, 0)
    before = picture(page)
    page.drag((150, 250), (260, 280))
    page.wait_until("!document.querySelector('.player').player.waiting")
    turned = picture(page)
    assert np.abs(turned - before).max() > 0.5
    page.evaluate("document.querySelector('canvas').dispatchEvent(new MouseEvent('dblclick'))")
    page.wait_until("!document.querySelector('.player').player.waiting")
    assert np.array_equal(picture(page), before)


def test_play_advances_frames_and_pauses(page):
    scrub(page, 0)
    page.click_on("button.play")
    page.wait_until("Number(document.querySelector('.player').dataset.drawn) >= 3")
    page.click_on("button.play")
    assert page.evaluate("document.querySelector('button.play').textContent") == "Play"


def test_page_has_no_errors_and_requests(page):
    assert page_messages(page) == []
    assert not page.events_of("Runtime.exceptionThrown")
    assert not page.events_of("Runtime.consoleAPICalled")
    requests = [event["request"]["url"] for event in page.events_of("Network.requestWillBeSent")]
    assert [url for url in requests if not url.startswith(("data:", "file:", "blob:"))] == []


def test_player_in_the_frame_of_a_notebook(browser, motion, tmp_path):
    html = motion[1]._repr_html_()
    assert html.startswith("<iframe")
    file = tmp_path / "notebook.html"
    file.write_text(f"<!doctype html><title>notebook</title><link rel=icon href=data:,><body>{html}</body>")
    browser.open(file.as_uri(), 700, 600)
    browser.wait_until("document.readyState === 'complete'")
    shot = tmp_path / "notebook.png"

    def red_pixels():
        browser.screenshot(shot)
        pixels = imread(shot)
        return int(((pixels[..., 0] > 0.8) & (pixels[..., 1] < 0.3)).sum())

    for _ in range(40):
        if red_pixels() > 3000:
            break
    assert red_pixels() > 3000
    assert page_messages(browser) == []

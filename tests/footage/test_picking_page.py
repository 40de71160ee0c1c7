"""The page for picking in a browser: clicks and keys make choices, to the pixel."""

import itertools
import re
import threading
from dataclasses import replace

import numpy as np
import pytest
from tests.footage.chromium import CHROMIUM, NO_CHROMIUM, open_browser
from tests.footage.picking_session import session_of
from tests.footage.videos import Clip, draw, save

from gradsim.footage.choices import Choices
from gradsim.footage.picking import frames
from gradsim.footage.recording import open_recording

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

READY = "document.readyState === 'complete' && loadFrame(shown).complete && loadFrame(shown).naturalWidth > 0"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    images, _ = draw(Clip(count=12))
    return open_recording(save(tmp_path_factory.mktemp("page") / "ball.mp4", images))


class Page:
    """The page in a browser; points are in pixels of the picture."""

    def __init__(self, browser, url, width=1000, height=800, scale=1):
        self.browser = browser
        browser.open(url, width, height, scale)
        browser.wait_until(READY)
        self.settle()

    def settle(self):
        self.browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def at(self, x, y):
        place = self.browser.evaluate(f"toClient({{x: {x}, y: {y}}})")
        return place["x"], place["y"]

    def click(self, tool, *points):
        self.browser.click_on(f"label.{tool}")
        for point in points:
            self.browser.click(self.at(*point))
        self.settle()

    def text(self, name):
        return self.browser.evaluate(f"document.getElementById('{name}').textContent")

    def done(self):
        self.browser.click_on("#done")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as own:
        yield own


def assert_clean(browser):
    """Nothing was blocked, failed or reported on the console, and no other host was asked."""
    assert browser.events_of("Runtime.exceptionThrown") == []
    assert browser.events_of("Runtime.consoleAPICalled") == []
    errors = [entry["entry"] for entry in browser.events_of("Log.entryAdded")]
    assert [entry["text"] for entry in errors if "422" not in entry["text"]] == []
    urls = [event["request"]["url"] for event in browser.events_of("Network.requestWillBeSent")]
    assert urls
    assert [url for url in urls if not url.startswith(("http://127.0.0.1:", "data:"))] == []


def test_choices_by_clicking(recording, browser):
    with session_of(recording) as session:
        page = Page(browser, session.url)
        assert "Ready" in page.text("missing")
        browser.evaluate("showFrame(3)")
        page.click("object", (60, 90))
        page.click("ruler", (20.5, 30), (20.5, 150))
        assert page.text("missing") == "Still missing: the length of the ruler."
        browser.type("#length", "25")
        browser.evaluate("byId('length-unit').value = 'cm'")
        page.click("floor", (10, 160), (230, 164))
        browser.click_on("label.ignore")
        browser.drag(page.at(180, 20), page.at(220, 60))
        browser.type("#gravity", "9.8")
        browser.evaluate("byId('motion').value = 'bounce'")
        browser.type("#mass", "26")
        browser.evaluate("byId('mass-unit').value = 'g'; update()")
        page.settle()
        assert re.search(r" --object \S+,3 \\\n  --scale 20\.5,\S+,0\.25 \\\n", page.text("command"))
        page.done()
        choices = session.choices.result(20)
        browser.wait_until("!byId('finished').hidden")
    pixel = 0.6 / browser.evaluate("view.scale")  # a click is at whole pixels of the screen
    np.testing.assert_allclose(choices.object, (60, 90), atol=pixel)
    np.testing.assert_allclose(choices.scale[:4], (20.5, 30, 20.5, 150), atol=pixel)
    np.testing.assert_allclose(choices.floor, (10, 160, 230, 164), atol=pixel)
    np.testing.assert_allclose(choices.ignore, [(180, 20, 220, 60)], atol=pixel)
    assert (choices.object_frame, choices.scale[4], choices.motion) == (3, 0.25, "bounce")
    assert (choices.gravity, choices.mass, choices.diameter) == (9.8, 0.026, None)
    assert_clean(browser)


def test_choices_that_were_given_come_back_unchanged(recording, browser):
    given = Choices(
        object=(60.25, 90),
        object_frame=5,
        scale=(20.5, 30, 20.5, 150, 0.3),
        diameter=0.0687,
        floor=(10, 160, 230, 164.5),
        ignore=((1, 2, 30, 40), (50, 60, 70, 80)),
        motion="flight",
        gravity=9.81,
        mass=0.026,
        rolling_shutter=0.01,
    )
    with session_of(recording, given) as session:
        page = Page(browser, session.url)
        assert browser.evaluate("data.frames[shown].number") == 5
        page.done()
        assert session.choices.result(20) == given


def test_errors_are_shown_and_can_be_mended(recording, browser):
    with session_of(recording) as session:
        page = Page(browser, session.url)
        page.click("ruler", (50, 50))
        page.done()
        page.settle()
        assert page.text("missing") == "Still missing: the other end of the ruler."
        assert browser.evaluate("byId('missing').className + ' ' + document.activeElement.id") == "open urgent picture"
        browser.evaluate("place('ruler', {x: 51, y: 50}); update()")
        browser.type("#length", "1")
        page.done()
        browser.wait_until("byId('error').textContent.includes('at least 2 px apart')")
        assert not session.choices.done()
        page.click("ruler", (100, 50))  # moves the nearer end
        page.done()
        assert session.choices.result(20).scale[2] == pytest.approx(100, abs=1)
    assert_clean(browser)


def test_undo_of_one_tool_and_of_all(recording, browser):
    with session_of(recording) as session:
        page = Page(browser, session.url)
        page.click("object", (60, 90), (70, 90))
        page.click("ruler", (20, 30), (20, 150))
        browser.click_on("[aria-label='Undo object']")
        page.settle()
        assert browser.evaluate("chosen.object.x") == pytest.approx(60, abs=1)
        assert browser.evaluate("chosen.ruler.length") == 2
        browser.evaluate("canvas.focus()")
        browser.key("z", modifiers=2)
        assert browser.evaluate("chosen.ruler.length") == 1
        browser.click_on("[aria-label='Clear ruler']")
        browser.click_on("[aria-label='Undo object']")
        assert browser.evaluate("[chosen.object, chosen.ruler.length]") == [None, 0]


def test_keys_alone_choose_to_the_pixel(recording, browser):
    with session_of(recording) as session:
        page = Page(browser, session.url)
        browser.evaluate("canvas.focus()")
        browser.key("2")
        browser.key("ArrowRight")  # from the middle of the picture, 120, 90
        browser.key("ArrowUp", modifiers=8)
        browser.key("Enter")
        browser.key("ArrowLeft", modifiers=8)
        browser.key("ArrowLeft", modifiers=1)
        browser.key("Enter")
        browser.key("1")
        browser.key(".")
        browser.key("Enter")
        browser.type("#length", "0.5")
        page.settle()
        browser.evaluate("byId('done').focus()")
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", windowsVirtualKeyCode=13, text="\r")
        choices = session.choices.result(20)
    np.testing.assert_allclose(choices.scale, (121, 80, 110.9, 80, 0.5), atol=0.011)
    assert choices.object_frame == 1


def test_points_are_precise_when_zoomed(recording, browser):
    """At large zoom, a click is exact to a tenth of a pixel; dragging moves the picture and points."""
    with session_of(recording) as session:
        page = Page(browser, session.url)
        fitted = browser.evaluate("view.scale")
        for _ in range(8):
            browser.wheel(*page.at(60, 90), -200)
        page.settle()
        assert browser.evaluate("view.scale") > 8 * fitted
        page.click("object", (61.3, 90.7))
        assert browser.evaluate("[chosen.object.x, chosen.object.y]") == pytest.approx([61.3, 90.7], abs=0.06)
        browser.drag(page.at(61.3, 90.7), page.at(62.8, 91.7))
        assert browser.evaluate("[chosen.object.x, chosen.object.y]") == pytest.approx([62.8, 91.7], abs=0.12)
        before = browser.evaluate("view.x")
        browser.drag(page.at(58, 88), page.at(59, 88))
        assert browser.evaluate("view.x") == pytest.approx(before - 1, abs=0.06)
        browser.evaluate("canvas.focus()")
        browser.key("0")
        assert browser.evaluate("view.scale") == fitted
        page.done()
        assert session.choices.result(20).object == pytest.approx((62.8, 91.7), abs=0.12)


@pytest.mark.parametrize(("width", "height", "scale"), [(1000, 700, 1), (1600, 900, 2), (600, 900, 1)])
def test_portrait_picture_fits_every_window(tmp_path, browser, width, height, scale):
    images, _ = draw(Clip(size=(240, 136), count=6))
    recording = open_recording(save(tmp_path / "portrait.mp4", images))
    with session_of(recording) as session:
        page = Page(browser, session.url, width, height, scale)
        box = browser.evaluate("canvas.getBoundingClientRect().toJSON()")
        top, bottom = page.at(0, 0), page.at(136, 240)
        assert box["left"] - 1 <= top[0] < bottom[0] <= box["right"] + 1
        assert box["top"] - 1 <= top[1] < bottom[1] <= box["bottom"] + 1
        assert bottom[1] - top[1] > 200
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate("canvas.width") == pytest.approx(scale * box["width"], abs=1)


def test_every_field_has_a_label(recording, browser):
    fields = "[...document.querySelectorAll('input, select, button, canvas')]"
    name = "e.labels?.[0]?.textContent.trim() || e.getAttribute('aria-label') || e.textContent.trim()"
    with session_of(recording) as session:
        Page(browser, session.url)
        names = browser.evaluate(f"{fields}.map(e => {name})")
    assert len(names) > 20
    assert all(names)
    tools = [name for name in names if name.startswith(("Undo", "Clear"))]
    assert len(set(tools)) == len(tools) == 8


def test_done_does_not_wait_for_frames(recording, browser, monkeypatch):
    """Frames of a large video take a while; a browser has six connections to one server."""
    decoded, encode, counter = threading.Event(), frames._jpeg, itertools.count()

    def encode_slowly(frame):
        assert next(counter) == 0 or decoded.wait(60)
        return encode(frame)

    monkeypatch.setattr(frames, "_jpeg", encode_slowly)
    with session_of(recording) as session:
        page = Page(browser, session.url)
        for index in range(1, 12):
            browser.evaluate(f"showFrame({index})")
            page.settle()
        assert "Reading" in page.text("loading")
        page.done()
        browser.wait_until("!byId('finished').hidden", timeout=10)
        decoded.set()
        assert session.choices.result(20) == Choices()


def test_frame_that_cannot_be_read_is_reported(recording, browser):
    more = replace(recording, numbers=range(14), times=np.arange(14.0))
    with session_of(more) as session:
        Page(browser, session.url)
        browser.evaluate("showFrame(13)")
        browser.wait_until("byId('loading').textContent.includes('fewer frames')")

"""The server of the page for picking: what it serves, what it refuses, and what it returns."""

import _thread
import json
import re
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest
from tests.footage.picking_session import NOTHING, session_of
from tests.footage.videos import Clip, draw, recording_of, save

from gradsim.footage.choices import Choices
from gradsim.footage.picking import pick_choices
from gradsim.footage.picking.frames import MAX_SHOWN, encoded_frames, spread_frames
from gradsim.footage.picking.page import page_text
from gradsim.footage.picking.picked import merge_picked
from gradsim.footage.picking.server import MAX_BODY
from gradsim.footage.recording import open_recording
from gradsim.scene.errors import InvalidInput, VideoFileError

BALL = {**NOTHING, "object": [30.5, 100.25], "object_frame": 2, "scale": [10, 20, 10, 120, 0.5], "motion": "bounce"}


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    images, _ = draw(Clip(count=12))
    return open_recording(save(tmp_path_factory.mktemp("picking") / "ball.mp4", images))


@pytest.fixture
def session(recording):
    with session_of(recording) as own:
        yield own


# ------------------------------------------------------------------------------------------------------------- server


def test_answer_of_the_page_is_merged_into_the_choices(recording):
    known = Choices(rolling_shutter=0.01, mass=0.3, diameter=0.07)
    with session_of(recording, known) as session:
        assert session.post({**BALL, "mass": 0.2}) == (200, {})
        choices = session.choices.result(20)
    assert choices == Choices(
        object=(30.5, 100.25),
        object_frame=2,
        scale=(10, 20, 10, 120, 0.5),
        motion="bounce",
        mass=0.2,
        rolling_shutter=0.01,
    )


def test_server_stops_after_the_answer(recording):
    with session_of(recording) as session:
        session.post(NOTHING)
        session.choices.result(20)
    with pytest.raises(OSError, match="refused"):
        session.request()
    assert not [thread for thread in threading.enumerate() if thread.name == "encode-frames"]


def test_page_has_a_strict_policy_and_no_foreign_address(session):
    status, headers, body = session.request()
    assert status == 200
    policy = headers["Content-Security-Policy"]
    nonce = re.search(r"script-src 'nonce-([\w-]+)'", policy)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    text = body.decode()
    assert re.findall(r'<(?:script|style) nonce="([^"]*)"', text) == [nonce, nonce]
    assert not re.search(r"""(?:src|href|action)=["'](?!data:,)""", text)
    assert not re.search(r"https?://", text)
    assert session.request()[1]["Content-Security-Policy"] != policy
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"


def test_frames_have_the_size_of_the_recording(recording, session):
    status, headers, body = session.request(path="frame/3")
    assert (status, headers["Content-Type"]) == (200, "image/jpeg")
    image = cv2.cvtColor(cv2.imdecode(np.frombuffer(body, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    assert image.shape[:2] == recording.size
    full = list(recording.full_frames())
    differences = [np.abs(image.astype(float) - frame).mean() for frame in full]
    assert int(np.argmin(differences)) == 3
    assert differences[3] < 4


@pytest.mark.parametrize("path", ["frame/12", "frame/-1", "frame/1.jpg", "frame/", "choices", "../", "page.js", "?x=1"])
def test_other_pages_do_not_exist(session, path):
    assert session.request(path=path)[0] == 404


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/favicon.ico", "/wrong/", "/wrong/choices", "//", "/%20/frame/0"])
def test_request_without_token_is_refused(session, method, path):
    address = urlsplit(session.url)
    request = urllib.request.Request(f"http://{address.netloc}{path}", data=b"{}", method=method)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=20)
    with error.value as reply:
        assert reply.code == 403
        assert session.url.split("/")[3] not in reply.read().decode()


def test_token_is_long_and_new_each_time(recording, session):
    with session_of(recording) as other:
        first, second = (own.url.split("/")[3] for own in (session, other))
    assert first != second
    assert min(len(first), len(second)) >= 40


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "0.0.0.0", "", "localhost:x"]
)
def test_other_hosts_are_refused(session, host):
    assert session.request(headers={"Host": host})[0] == 403


def test_loopback_hosts_are_served_behind_port_forwarding(session):
    assert session.request(headers={"Host": "localhost:8080"})[0] == 200


def test_answer_of_another_page_is_refused(session):
    assert session.post(BALL, Origin="http://evil.example")[0] == 403
    assert session.post(BALL, Origin="null")[0] == 403
    assert session.request("POST", "choices", b"{}", {"Content-Type": "text/plain"})[0] == 415
    assert not session.choices.done()


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_refused(session, method):
    assert session.request(method)[0] == 405


def test_size_of_the_answer_is_bounded(session):
    """The size is refused before anything is read."""
    kind = {"Content-Type": "application/json"}
    assert session.request("POST", "choices", None, {**kind, "Content-Length": str(MAX_BODY + 1)})[0] == 413
    for length in ("-1", "x", "1" * 30, ""):
        assert session.request("POST", "choices", None, {**kind, "Content-Length": length})[0] == 411
    chunked = {**kind, "Transfer-Encoding": "chunked"}
    assert session.request("POST", "choices", None, chunked)[0] in (400, 411)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "EOF"),
        (b"{", "EOF"),
        (b"[" * 60000, "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[]", "object"),
        (b"{}", "object = "),
        ({**NOTHING, "surprise": 1}, "surprise"),
        ({**NOTHING, "mass": "0.3"}, "mass"),
        ({**NOTHING, "mass": True}, "mass"),
        ({**NOTHING, "mass": float("nan")}, "mass"),
        ({**NOTHING, "mass": 10**400}, "mass"),
        ({**NOTHING, "mass": -1}, "mass = -1.0: must be > 0"),
        ({**NOTHING, "object": [1, 2, 3]}, "object"),
        ({**NOTHING, "object": [1, 500]}, "must lie in the picture of 240 x 180 pixels"),
        ({**BALL, "object_frame": 99}, "selected frames 0 to 11"),
        ({**NOTHING, "scale": [5, 5, 6, 5, 0.1]}, "at least 2 px apart"),
        ({**NOTHING, "scale": [5, 5, 60, 5, None]}, "scale"),
        ({**NOTHING, "motion": "teleport"}, "flight, bounce"),
        ({**NOTHING, "ignore": [[1, 2, 3, 4]] * 101}, "ignore"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_answer_is_explained_and_the_page_stays_open(session, answer, message):
    status, reply = session.post(answer)
    assert status == 422
    assert message in reply["error"]
    assert session.post(BALL)[0] == 200
    assert session.choices.result(20).motion == "bounce"


def test_time_limit_names_the_options(recording):
    with pytest.raises(InvalidInput, match="--pick.*0.3 s.*--object"):
        pick_choices(recording, open_browser=False, announce=lambda line: None, timeout=0.3)


def test_interrupt_stops_the_server(recording):
    """Ctrl-C while it waits for the answer."""
    lines = []
    interrupt = threading.Timer(0.5, _thread.interrupt_main)

    def announce(line):
        lines.append(line)
        interrupt.start()

    with pytest.raises(KeyboardInterrupt):
        pick_choices(recording, open_browser=False, announce=announce)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(re.search(r"http://\S+", lines[0])[0], timeout=5)


@pytest.mark.parametrize(("display", "opened"), [("", 0), (":0", 1)])
def test_browser_is_opened_only_where_there_is_a_display(recording, monkeypatch, display, opened):
    calls = []
    for name in ("WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("webbrowser.open", calls.append)
    with session_of(recording, open_browser=True) as session:
        pass
    assert calls == [session.url] * opened


# ---------------------------------------------------------------------------------------------------- frames and text


@pytest.mark.parametrize(("count", "shown"), [(4, 4), (40, 40), (41, 21), (1000, 40)])
def test_frames_are_spread_over_the_recording(count, shown):
    recording = recording_of(np.zeros((count, 2, 3, 3), np.uint8))
    part = spread_frames(recording)
    assert len(part) == len(part.numbers) == shown <= MAX_SHOWN
    assert part.numbers[0] == 0
    assert part.numbers[-1] >= count - 1 - count / 20
    np.testing.assert_array_equal(part.times, np.asarray(part.numbers) / 30)


def test_frame_that_cannot_be_read_is_an_error_of_its_image(recording):
    with encoded_frames(recording_of(np.zeros((4, 2, 3, 3), np.uint8))) as images, pytest.raises(VideoFileError):
        images[2].result(20)
    more = replace(recording, numbers=range(14), times=np.arange(14.0))
    with encoded_frames(more) as images:
        assert images[11].result(20)
        with pytest.raises(VideoFileError, match="fewer frames"):
            images[12].result(20)


def test_names_are_escaped():
    name = "<script>alert(1)</script>&\"'.mp4"
    recording = recording_of(np.zeros((4, 2, 3, 3), np.uint8))
    recording = replace(recording, path=recording.path.with_name(name.replace("/", "")))
    text = page_text(recording, Choices(motion="<i>"), {"<i>": "</script><u>"}, "nonce")
    assert "<script>alert" not in text
    for tag in ("<i>", "<u>"):
        assert tag not in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["motions"] == [["<i>", "</script><u>"]]
    assert data["file"] == recording.path.name


@pytest.mark.parametrize("motions", [(), ("bounce", "flight"), {"toss": "a body that is thrown"}])
def test_motion_that_was_given_is_offered(recording, motions):
    with session_of(recording, Choices(motion="toss"), motions=motions) as session:
        assert session.post({**NOTHING, "motion": "toss"})[0] == 200
        assert session.choices.result(20).motion == "toss"


def test_answer_without_choices_clears_what_was_known(recording):
    known = Choices(object=(1, 2), scale=(1, 2, 30, 40, 1), ignore=((1, 2, 3, 4),), rolling_shutter=0.02)
    assert merge_picked(json.dumps(NOTHING).encode(), known, recording, ()) == Choices(rolling_shutter=0.02)

"""Choices by clicking: a page on the loopback address, open until the user is done."""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from threading import Thread

from gradsim.footage.choices import Choices
from gradsim.footage.picking.frames import encoded_frames, spread_frames
from gradsim.footage.picking.page import page_text
from gradsim.footage.picking.picked import merge_picked
from gradsim.footage.picking.server import PickServer
from gradsim.footage.recording import Recording
from gradsim.scene.errors import InvalidInput, OutOfRange

POLL = 0.2  # [s] between two looks at the answer; a wait without an end ignores Ctrl-C on Windows


def pick_choices(
    recording: Recording,
    choices: Choices = Choices(),
    *,
    motions: Mapping[str, str] | Iterable[str] = (),
    open_browser: bool = True,
    announce: Callable[[str], object] = print,
    timeout: float | None = None,
) -> Choices:
    """Opens a page on which the user clicks object, ruler, floor and what to ignore, and waits for the answer.

    The page is served on 127.0.0.1, at an address with a random token, until the user presses Done.

    Args:
        recording: The recording; the page shows up to 40 of its frames.
        choices: What is already known: the page starts with it.
        motions: Kinds of motion to choose from, besides the automatic choice: names, or names with descriptions.
        open_browser: Opens the page in the default browser, where there is a display.
        announce: Called with a line that contains the address of the page.
        timeout: Largest time to wait [s]; without limit if None.

    Returns:
        The choices of the page; what it does not offer is as in `choices`.

    Raises:
        InvalidInput: No answer within `timeout`.
        KeyboardInterrupt: Ctrl-C; the server is stopped.
    """
    if timeout is not None and not timeout > 0:
        raise OutOfRange("timeout", timeout, "must be > 0 [s], or None to wait without limit")
    offered = _offered_motions(motions, choices)
    shown = spread_frames(recording)
    with encoded_frames(shown) as images:
        server = PickServer(
            lambda nonce: page_text(shown, choices, offered, nonce),
            images,
            lambda body: merge_picked(body, choices, recording, offered),
        )
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, name="pick-server", daemon=True).start()
        try:
            announce(f"Choose on this page, then press Done (Ctrl-C stops): {server.url}")
            if open_browser and _has_display():
                webbrowser.open(server.url)
            return _answer(server, timeout)
        finally:
            server.shutdown()
            server.server_close()


def _offered_motions(motions: Mapping[str, str] | Iterable[str], choices: Choices) -> dict[str, str]:
    """Returns names and descriptions, with that of the choices among them."""
    offered = dict(motions) if isinstance(motions, Mapping) else dict.fromkeys(motions, "")
    if choices.motion is not None:
        offered.setdefault(choices.motion, "")
    return offered


def _answer(server: PickServer, timeout: float | None) -> Choices:
    end = None if timeout is None else time.monotonic() + timeout
    while not server.answered.wait(POLL if end is None else max(min(POLL, end - time.monotonic()), 0)):
        if end is not None and time.monotonic() >= end:
            remedy = "press Done on the page, or give the choices as options such as --object and --scale"
            raise InvalidInput("--pick", f"no answer within {timeout:g} s", remedy)
    return server.answer


def _has_display() -> bool:
    """Whether a browser has a window: without a display, Python would start a text browser in this terminal."""
    own = sys.platform in ("win32", "darwin")
    return own or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))

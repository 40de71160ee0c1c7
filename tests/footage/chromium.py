"""Drives a page in headless chromium: mouse, keys and screenshots, by the DevTools protocol over a pair of pipes."""

import base64
import json
import os
import select
import subprocess
import sys
import time
from contextlib import contextmanager

from tests.report.browser import CHROMIUM, NO_CHROMIUM, SOFTWARE_GL

__all__ = ["CHROMIUM", "NO_CHROMIUM", "open_browser", "page_messages"]

OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
    "--enable-unsafe-swiftshader",  # WebGL in software
)
# chromium reads commands from file descriptor 3 and writes to 4. Descriptors of the pipes may be 3 or 4 themselves.
EXEC = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3), os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
KEYS = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


class Browser:
    """One tab. Positions are in CSS pixels of the window."""

    def __init__(self, commands, events):
        self.commands, self.events, self.session = commands, events, None
        self.rest, self.count, self.log = b"", 0, []

    def call(self, method, timeout=30, **parameters):
        """Sends a command, and returns its result."""
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        return self._result(self.count, time.monotonic() + timeout)

    def _result(self, number, end):
        while True:
            while b"\0" not in self.rest:
                ready, _, _ = select.select([self.events], [], [], max(end - time.monotonic(), 0))
                assert ready, "chromium does not answer"
                chunk = os.read(self.events, 1 << 20)
                assert chunk, "chromium has ended"
                self.rest += chunk
            text, _, self.rest = self.rest.partition(b"\0")
            message = json.loads(text)
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self.log.append(message)

    def open(self, url, width, height, scale=1):
        """Opens a new tab, and forgets the one before."""
        self.session, self.log = None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.call("Page.navigate", url=url)

    def evaluate(self, expression):
        """Returns the value of an expression, or of a promise."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_until(self, expression, timeout=20):
        end = time.monotonic() + timeout
        while not self.evaluate(expression):
            assert time.monotonic() < end, f"not true within {timeout} s: {expression}"
            time.sleep(0.05)

    def drag(self, start, stop=None):
        """Presses the left button at a point and releases it at another, or at the same one."""
        (x, y), (x2, y2) = start, stop or start
        steps = [("mouseMoved", x, y), ("mousePressed", x, y), ("mouseMoved", x2, y2), ("mouseReleased", x2, y2)]
        for kind, px, py in steps:
            held = {"button": "none"} if kind == "mouseMoved" and (px, py) == (x, y) else {"button": "left"}
            clicks = {"clickCount": 1} if kind != "mouseMoved" else {}
            self.call("Input.dispatchMouseEvent", type=kind, x=px, y=py, **held, **clicks)

    click = drag

    def move(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def wheel(self, x, y, delta):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=delta)

    def click_on(self, selector):
        self.evaluate(f"document.querySelector({selector!r}).scrollIntoView({{block: 'nearest'}})")
        box = self.evaluate(f"document.querySelector({selector!r}).getBoundingClientRect().toJSON()")
        self.click((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2))

    def type(self, selector, text):
        self.evaluate(f"document.querySelector({selector!r}).focus()")
        self.evaluate(f"document.querySelector({selector!r}).select()")
        self.call("Input.insertText", text=text)

    def key(self, name, modifiers=0):
        """Presses a key; modifiers: 1 Alt, 2 Ctrl, 8 Shift."""
        code = KEYS.get(name, ord(name.upper()[0]))
        text = {} if name in KEYS or modifiers & 3 else {"text": name}
        for kind in ("keyDown", "keyUp"):
            own = text if kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, modifiers=modifiers, **own
            )

    def screenshot(self, file):
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def events_of(self, method):
        self.evaluate("0")  # reads what has arrived
        return [message["params"] for message in self.log if message.get("method") == method]


def page_messages(browser):
    """Warnings and errors of a page in the log, without those of the software that stands in for a graphics card."""
    entries = [event["entry"] for event in browser.events_of("Log.entryAdded")]
    texts = [entry["text"] for entry in entries if entry["level"] in ("warning", "error")]
    return [text for text in texts if SOFTWARE_GL not in text]


@contextmanager
def open_browser(folder):
    """Starts chromium with a new profile in a folder, and ends it."""
    command_read, command_write = os.pipe()
    event_read, event_write = os.pipe()
    options = (CHROMIUM, *OPTIONS, f"--user-data-dir={folder / 'profile'}", "--remote-debugging-pipe", "about:blank")
    process = subprocess.Popen(
        [sys.executable, "-c", EXEC, str(command_read), str(event_write), *options],
        pass_fds=(command_read, event_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(command_read), os.close(event_write)
    browser = Browser(command_write, event_read)
    try:
        yield browser
        browser.session = None
        browser.call("Browser.close")
        process.wait(20)
    finally:
        process.kill()
        process.wait()
        os.close(command_write), os.close(event_read)

"""`pick_choices` in a thread, and requests to it."""

import http.client
import json
import re
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from urllib.parse import urlsplit

from gradsim.footage.choices import Choices
from gradsim.footage.picking import pick_choices

MOTIONS = {"flight": "a body that falls or is thrown", "bounce": "a body that bounces on a floor"}
NOTHING = {
    "object": None,
    "object_frame": None,
    "scale": None,
    "diameter": None,
    "floor": None,
    "ignore": [],
    "motion": None,
    "gravity": None,
    "mass": None,
}


class Session:
    """`pick_choices` in a thread."""

    def __init__(self, recording, choices=Choices(), **options):
        self.lines, self.announced, self.choices = [], threading.Event(), Future()
        self.arguments, self.options = (recording, choices), options
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        assert self.announced.wait(20)
        self.url = re.search(r"http://\S+", self.lines[0])[0]

    def _run(self):
        options = {"open_browser": False, "timeout": 60, "motions": MOTIONS, **self.options}
        try:
            self.choices.set_result(pick_choices(*self.arguments, announce=self._announce, **options))
        except BaseException as error:
            self.choices.set_exception(error)

    def _announce(self, line):
        self.lines.append(line)
        self.announced.set()

    def request(self, method="GET", path="", body=None, headers=()):
        """Returns status, headers and body of the answer to a request."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
        try:
            connection.request(method, address.path + path, body, dict(headers))
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()

    def post(self, answer, **headers):
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        status, _, reply = self.request("POST", "choices", body, {"Content-Type": "application/json", **headers})
        return status, json.loads(reply)


@contextmanager
def session_of(recording, choices=Choices(), **options):
    session = Session(recording, choices, **options)
    try:
        yield session
    finally:
        if not session.choices.done():
            session.post(NOTHING)
        session.thread.join(20)
        assert not session.thread.is_alive()

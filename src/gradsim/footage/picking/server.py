"""The server of the page: three kinds of requests, on the loopback address, with a token."""

from __future__ import annotations

import json
import re
import secrets
import socketserver
import sys
from collections.abc import Callable
from concurrent.futures import CancelledError
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock
from typing import Any

from gradsim.footage.choices import Choices
from gradsim.footage.picking.frames import Images
from gradsim.scene.errors import GradsimError

LOOPBACK = "127.0.0.1"
MAX_BODY = 65536  # largest answer [byte]
SOCKET_TIMEOUT = 30.0  # [s] for a request to arrive
# A name that an attacker's DNS server resolves to 127.0.0.1 is not among these. Port forwarding may change the port.
LOOPBACK_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
FRAME = re.compile(r"frame/([0-9]{1,3})")

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PickServer(ThreadingHTTPServer):
    """Serves a page, its frames and the receipt of its answer, on a free port of the loopback address.

    Args:
        page: Returns the text of the page for a nonce.
        images: JPEG images of the frames.
        accept: Returns the choices of an answer, or raises a GradsimError that the page shows.
    """

    daemon_threads = True

    def __init__(self, page: Callable[[str], str], images: Images, accept: Callable[[bytes], Choices]):
        self.page, self.images, self.accept = page, images, accept
        self.token = secrets.token_urlsafe(32)
        self.answered = Event()  # set when the answer has been acknowledged
        self.answer = Choices()
        self.lock = Lock()
        super().__init__((LOOPBACK, 0), PickHandler)

    def server_bind(self) -> None:
        """Binds without looking up the name of the address, which the base class does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores connections that the browser closes early or leaves idle."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Address of the page, with the token."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"


class PickHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: PickServer
    timeout = SOCKET_TIMEOUT
    server_version, sys_version = "gradsim", ""

    def do_GET(self) -> None:
        path = self._allowed_path()
        if path is None:
            return
        frame = FRAME.fullmatch(path)
        if path == "":
            self._send_page()
        elif frame and int(frame[1]) < len(self.server.images):
            self._send_frame(int(frame[1]))
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "no such page")

    def do_POST(self) -> None:
        path = self._allowed_path()
        if path is None:
            return
        if path != "choices":
            self._refuse(HTTPStatus.NOT_FOUND, "no such page")
        elif self.headers.get("Origin", self._own_origin()) != self._own_origin():
            self._refuse(HTTPStatus.FORBIDDEN, "the answer comes from another page")
        elif self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the answer must be application/json")
        else:
            self._receive_answer()

    def _refuse_method(self) -> None:
        if self._allowed_path() is not None:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST are answered")

    do_HEAD = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = _refuse_method

    def _allowed_path(self) -> str | None:
        """Returns the path below the token; None if the request was refused because host or token are wrong."""
        if not LOOPBACK_HOST.fullmatch(self.headers.get("Host", "")):
            self._refuse(HTTPStatus.FORBIDDEN, "only the loopback address is answered")
            return None
        token, _, path = self.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(HTTPStatus.FORBIDDEN, "the address has no valid token: use the one in the terminal")
            return None
        return path

    def _own_origin(self) -> str:
        return f"http://{self.headers['Host']}"

    def _send_page(self) -> None:
        nonce = secrets.token_urlsafe(16)
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self' data:; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        text = self.server.page(nonce)
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", text.encode(), {"Content-Security-Policy": policy})

    def _send_frame(self, number: int) -> None:
        """Sends an image, as soon as it is decoded."""
        try:
            image = self.server.images[number].result()
        except CancelledError:
            self._refuse(HTTPStatus.GONE, "the page is closed")
        except Exception as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"the frame cannot be shown: {error}")
        else:
            self._send(HTTPStatus.OK, "image/jpeg", image)

    def _receive_answer(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,18}", length):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the answer needs a length")
        elif int(length) > MAX_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the answer has {length} bytes, at most {MAX_BODY}")
        else:
            self._accept_answer(self.rfile.read(int(length)))

    def _accept_answer(self, body: bytes) -> None:
        try:
            choices = self.server.accept(body)
        except GradsimError as error:
            self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
            return
        with self.server.lock:
            if self.server.answered.is_set():
                self._refuse(HTTPStatus.CONFLICT, "an answer was already given")
                return
            self.server.answer = choices
            try:
                self._send(HTTPStatus.OK, "application/json", b"{}")
            finally:
                self.server.answered.set()

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._send(status, "application/json", json.dumps({"error": reason}).encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        own = {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close"}
        for name, value in {**own, **HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing: the terminal belongs to the command."""

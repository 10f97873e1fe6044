"""An HTTP proxy that injects faults and records requests."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SLOW_DOWN = (
    b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>SlowDown</Code>"
    b"<Message>Please reduce your request rate.</Message></Error>"
)
DENIED = SLOW_DOWN.replace(b"SlowDown", b"AccessDenied")


@dataclass
class Fault:
    """A fault of the requests that match a pattern.

    Attributes:
        kind: ``slow down`` or ``denied``: an error response; ``cut``: the connection is closed
            before the request is passed on; ``lost``: after it was passed on; ``half``: after half
            of the response.
        requests: regular expression for ``METHOD path range``.
        times: number of requests that fail.
        after: number of matching requests that succeed first.
        met: number of matching requests so far.
    """

    kind: str
    requests: str
    times: int
    after: int = 0
    met: int = 0

    def hits(self, request: str) -> bool:
        """Count a request, and return whether it is to fail."""
        if re.match(self.requests, request) is None:
            return False
        self.met += 1
        return self.after < self.met <= self.after + self.times


class Proxy:
    """A proxy of a server on this machine.

    Args:
        port: port of the server.
        handler: class of the handlers of requests.

    Attributes:
        faults: faults to inject.
        requests: ``METHOD path range`` of each request so far.
        before, after: called with each request that changes something; if ``before`` returns True,
            the request is not passed on and the connection is closed.
    """

    def __init__(self, port: int, handler: type[PassingHandler] | None = None) -> None:
        self.target = port
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.before: Callable[[str], bool] = lambda request: False
        self.after: Callable[[str], object] = lambda request: None
        self.lock = threading.Lock()
        proxy = self

        class Handler(handler or PassingHandler):  # type: ignore[misc]
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def fault_of(self, request: str) -> str | None:
        with self.lock:
            self.requests.append(request)
            kinds = [fault.kind for fault in self.faults if fault.hits(request)]
        return kinds[0] if kinds else None


class PassingHandler(BaseHTTPRequestHandler):
    """Passes requests on, with the faults of its proxy."""

    owner: Proxy
    wbufsize = -1  # in one packet, or else each answer waits for an acknowledgment
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        body = self.body()
        request = f"{self.command} {self.path} {self.headers.get('Range', '')}"
        fault = self.owner.fault_of(request)
        if fault in ("slow down", "denied"):
            code, text = (503, SLOW_DOWN) if fault == "slow down" else (403, DENIED)
            self.answer(code, [("Content-Type", "application/xml")], text)
            return
        if fault == "cut":
            self.cut()
            return
        changes = self.command not in ("GET", "HEAD")
        if changes and self.owner.before(request):
            self.cut()
            return
        code, headers, answer = self.pass_on(body)
        if changes:
            self.owner.after(request)
        if fault == "lost":
            self.cut()
            return
        self.answer(code, headers, answer, half=fault == "half")

    def handle_expect_100(self) -> bool:
        """Ask for the body at once; the base class leaves the answer in the buffer."""
        asked = super().handle_expect_100()
        self.wfile.flush()
        return asked

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return b"".join(parts)

    def pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.owner.target, timeout=60)
        headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() not in ("transfer-encoding", "content-length", "expect")
        }
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        answered = [
            (name, value)
            for name, value in response.getheaders()
            if name.lower() not in ("connection", "date", "server", "transfer-encoding")
        ]
        connection.close()
        return response.status, answered, answer

    def answer(
        self, code: int, headers: list[tuple[str, str]], text: bytes, *, half: bool = False
    ) -> None:
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        if "content-length" not in (name.lower() for name, _ in headers):
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text[: len(text) // 2] if half else text)
        if half:
            self.cut()

    def cut(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *arguments: Any) -> None:
        pass

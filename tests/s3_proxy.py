"""A server before one that speaks S3: it takes its time, fails where it is told to, and counts."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import SplitResult, urlsplit

Rule = Callable[[str, str], tuple[int, str] | None]
"""Of a verb and a path: the status and the body of a failure, or None."""


@dataclass(slots=True)
class Between:
    """``latency_s`` is added to each request; ``rule`` says which fail; ``most`` is how many there
    were at once.
    """

    endpoint: str = ""
    latency_s: float = 0.0
    rule: Rule | None = None
    asked: int = 0
    failed: int = 0
    most: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def hold(self, part: str, count: int, *, wait_s: float = 60.0) -> None:
        """Requests about paths with this part are answered once so many are under way together."""

        def rule(_: str, path: str) -> None:
            until = time.monotonic() + wait_s
            while part in path and self.most < count and time.monotonic() < until:
                time.sleep(0.01)

        self.most, self.rule = 0, rule

    def fail(self, verb: str, status: int, body: str, *, times: int) -> None:
        """The next requests of a verb fail."""
        left = [times]

        def rule(asked: str, _: str) -> tuple[int, str] | None:
            with self._lock:
                if asked != verb or not left[0]:
                    return None
                left[0] -= 1
                return status, body

        self.rule = rule

    @contextmanager
    def request(self) -> Iterator[None]:
        """One of those that are under way."""
        with self._lock:
            self.asked += 1
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            time.sleep(self.latency_s)
            yield
        finally:
            with self._lock:
                self._now -= 1


class _Handler(BaseHTTPRequestHandler):
    """Of one connection; a class of its own for each server."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    behind: ClassVar[SplitResult]
    between: ClassVar[Between]
    connected: ClassVar[list[socket.socket]]

    def setup(self) -> None:
        super().setup()
        self.connected.append(self.connection)

    def respond(self) -> None:
        body, between = self.body(), self.between
        with between.request():
            failure = between.rule(self.command, self.path) if between.rule else None
            if failure is not None:
                between.failed += 1
                self.answer(failure[0], {}, failure[1].encode())
            else:
                self.answer(*self.forwarded(body))

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = respond

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return found

    def forwarded(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        left = ("expect", "transfer-encoding", "content-length")
        headers = {k: text for k, text in self.headers.items() if k.lower() not in left}
        host, port = self.behind.hostname or "", self.behind.port
        with closing(http.client.HTTPConnection(host, port)) as there:
            there.request(self.command, self.path, body=body or None, headers=headers)
            response = there.getresponse()
            return response.status, dict(response.getheaders()), response.read()

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        for name, text in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, text)
        length = headers.get("Content-Length", "0") if self.command == "HEAD" else len(body)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def proxy(endpoint: str) -> Iterator[Between]:
    """Such a server, for as long as the block lasts."""
    between, connected = Between(), list[socket.socket]()
    own = {"behind": urlsplit(endpoint), "between": between, "connected": connected}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), own))
    server.daemon_threads = False  # the end waits for all
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    between.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield between
    finally:
        server.shutdown()
        for one in connected:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        server.server_close()

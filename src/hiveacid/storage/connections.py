"""HTTP/1.1 to one server, over a connection that is kept: as much of it as stores of objects speak.

The standard library's client parses headers as those of a mail, which costs more than all else of a
request for a small file; plans ask for thousands of them.
"""

from __future__ import annotations

import errno
import io
import select
import socket
import ssl
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_LINE_BYTES_MAX: Final = 65_536
_HEADERS_MAX: Final = 1_000
_SENT_TOGETHER_BYTES: Final = 65_536
_FINAL: Final = 200
_WITHOUT_BODY: Final = (204, 304)


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a server."""

    status: int
    headers: Mapping[str, str]
    """by their names in lower case"""
    body: bytes
    reason: str = ""


class Connection:
    """To a server; opened when it is first asked, and again after ``close``; closed when nobody
    keeps it any more.
    """

    def __init__(
        self, host: str, port: int, *, tls: ssl.SSLContext | None, timeout_s: float
    ) -> None:
        self._address = (host, port)
        self._tls = tls
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._file: io.BufferedReader | None = None

    def asked(self, verb: str, place: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
        """The answer to one request; it has ended where this raises, and is opened by the next one.

        Raises:
            OSError: no connection, or no answer of HTTP.
        """
        try:
            return self._asked(verb, place, headers, body)
        except OSError:
            self.close()
            raise

    def _asked(self, verb: str, place: str, headers: Mapping[str, str], body: bytes) -> Answer:
        lines = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
        head = f"{verb} {place} HTTP/1.1\r\n{lines}\r\n".encode("ascii")
        if self._socket is None or self._file is None:
            self._socket = self._opened()
            self._file = self._socket.makefile("rb")
        if len(body) <= _SENT_TOGETHER_BYTES:
            self._socket.sendall(head + body)
        else:
            self._socket.sendall(head)
            self._socket.sendall(body)
        answer, is_kept = read_answer(self._file, verb)
        if not is_kept:
            self.close()
        return answer

    def _opened(self) -> socket.socket:
        opened = socket.create_connection(self._address, timeout=self._timeout_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            opened = self._tls.wrap_socket(opened, server_hostname=self._address[0])
        # by no __del__: of a cycle the socket may be told first that nobody needs it
        weakref.finalize(self, opened.close)
        return opened

    def is_ended(self) -> bool:
        """Whether the server has closed it: there is something to read of what answers nothing."""
        if self._socket is None:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """End it; it may be asked again."""
        for part in (self._file, self._socket):
            if part is not None:
                part.close()
        self._file = self._socket = None


def read_answer(file: io.BufferedIOBase, verb: str) -> tuple[Answer, bool]:
    """The answer that comes next, and whether another one can follow.

    Raises:
        OSError: it ends early, or is none of HTTP.
    """
    status = 0
    while status < _FINAL:  # "100 Continue" is none
        version, _, rest = _line(file).partition(" ")
        number, _, reason = rest.partition(" ")
        if not version.startswith("HTTP/") or not number.isdecimal():
            raise OSError(errno.ECONNABORTED, f"no answer of HTTP: {version[:80]!r}")
        status, headers = int(number), _headers(file)
    is_kept = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    length = headers.get("content-length", "")
    if verb == "HEAD" or status in _WITHOUT_BODY:
        body = b""
    elif "chunked" in headers.get("transfer-encoding", "").lower():
        body = _chunks(file)
    elif length.isdecimal():
        body = _exactly(file, int(length))
    else:
        body, is_kept = file.read(), False
    return Answer(status, headers, body, reason), is_kept


def _headers(file: io.BufferedIOBase) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line := _line(file):
        name, _, text = line.partition(":")
        headers[name.strip().lower()] = text.strip()
        if len(headers) > _HEADERS_MAX:
            raise OSError(errno.ECONNABORTED, "more headers than any server has")
    return headers


def _line(file: io.BufferedIOBase) -> str:
    line = file.readline(_LINE_BYTES_MAX)
    if not line.endswith(b"\n"):
        raise OSError(errno.ECONNABORTED, "the answer ends early" if line else "the server closed")
    return line.rstrip(b"\r\n").decode("latin-1")


def _chunks(file: io.BufferedIOBase) -> bytes:
    parts = []
    while size := _size(_line(file)):
        parts.append(_exactly(file, size))
        _line(file)
    _headers(file)  # what trails
    return b"".join(parts)


def _size(line: str) -> int:
    try:
        return int(line.partition(";")[0], 16)
    except ValueError as error:
        raise OSError(errno.ECONNABORTED, f"no size of a chunk: {line[:80]!r}") from error


def _exactly(file: io.BufferedIOBase, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise OSError(errno.ECONNABORTED, f"the answer ends after {len(data)} of {count} bytes")
    return data

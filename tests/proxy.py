"""A proxy before a PostgreSQL server that loses connections on demand."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Any

from sqlalchemy.engine import URL, make_url


class Cut(Enum):
    """When a connection is lost, seen from what the client sends."""

    BEFORE = "before"
    """the server never gets it"""
    AFTER = "after"
    """the server gets it and answers, the answer is lost"""


_READY = b"Z\0\0\0\5"
"""ReadyForQuery: the last of the messages that answer one of the client's."""


class Proxy:
    """Listens on a port of this machine; ``url`` is that of the database behind it."""

    def __init__(self, url: str) -> None:
        self._server = make_url(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._fault: tuple[bytes, Cut] | None = None
        self._open: list[socket.socket] = []
        self.cuts = 0
        self.round_trips = 0
        """How often the server was ready for the next question, BEGIN and COMMIT included."""
        self.refuses = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The database by way of this proxy."""
        host, port = self._listener.getsockname()
        through: URL = self._server.set(host=host, port=port, query={})
        return through.render_as_string(hide_password=False)

    def cut_once(self, text: str, when: Cut) -> None:
        """Lose the connection on which a message with this text is sent next."""
        self._fault = (text.encode(), when)

    def cut_all(self) -> None:
        """Lose all connections."""
        for one in self._open:
            _close(one)
        self._open.clear()

    def close(self) -> None:
        """Listen no more."""
        _close(self._listener)
        self.cut_all()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.refuses:
                    client.close()
                    continue
                server = self._connect()
                self._open += [client, server]
                for work in (self._forward, self._answer):
                    threading.Thread(target=work, args=(client, server), daemon=True).start()

    def _connect(self) -> socket.socket:
        directory: Any = self._server.query.get("host")
        if directory is None:
            return socket.create_connection((self._server.host, self._server.port or 5432))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{directory}/.s.PGSQL.{self._server.port or 5432}")
        return server

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                fault = self._fault
                if fault is not None and fault[0] in data:
                    self._fault = None
                    self.cuts += 1
                    if fault[1] is Cut.BEFORE:
                        break
                    self._open.remove(client)  # tells _answer to keep the answer
                server.sendall(data)
        _close(client)
        _close(server)

    def _answer(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            end = b""
            while data := server.recv(65536):
                if client not in self._open:
                    break
                end += data
                self.round_trips += end.count(_READY)
                end = end[-len(_READY) + 1 :]
                client.sendall(data)
        _close(client)
        _close(server)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextmanager
def proxy(url: str) -> Iterator[Proxy]:
    """A proxy for as long as the block lasts."""
    made = Proxy(url)
    try:
        yield made
    finally:
        made.close()

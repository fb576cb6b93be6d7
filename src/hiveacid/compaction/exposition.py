"""A port on which Prometheus reads a service's metrics: ``GET /metrics``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Final

from hiveacid.errors import AcidError, InvalidInputError
from hiveacid.txn.threads import Threads

_LOG = logging.getLogger(__name__)
_TURN_S: Final = 0.25
_CLIENT_TIMEOUT_S: Final = 5.0
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _CLIENT_TIMEOUT_S

    def do_GET(self) -> None:
        if self.path.partition("?")[0] not in ("/", "/metrics"):
            self._answer(HTTPStatus.NOT_FOUND, "GET /metrics\n")
            return
        try:
            text = self.server.render()
        except AcidError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n")
        else:
            self._answer(HTTPStatus.OK, text)

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", _TEXT)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        _LOG.debug(format, *args)


class _Server(HTTPServer):
    timeout = _TURN_S

    def __init__(self, address: tuple[str, int], render: Callable[[], str]) -> None:
        super().__init__(address, _Handler)
        self.render = render

    def handle_error(self, request: object, client_address: object) -> None:
        del request
        _LOG.warning("A metrics request of %s failed", client_address, exc_info=True)


class MetricsPort:
    """The port, open until ``close``; ``port`` 0 takes a free one.

    Raises:
        InvalidInputError: the address cannot be used.
    """

    def __init__(
        self, render: Callable[[], str], *, host: str, port: int, threads: Threads
    ) -> None:
        try:
            self._server = _Server((host, port), render)
        except (OSError, OverflowError) as error:
            raise InvalidInputError(
                f"Metrics cannot be served at {host}:{port}: {error}", host=host, port=port
            ) from error
        self._turn = threading.Lock()
        self._stop = threads.every(0.0, self._serve, name="hiveacid-metrics")

    @property
    def port(self) -> int:
        """The number of the port."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Give the port back."""
        self._stop()
        with self._turn:
            self._server.server_close()

    def _serve(self) -> None:
        with self._turn:
            if self._server.fileno() >= 0:
                self._server.handle_request()

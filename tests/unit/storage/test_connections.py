"""HTTP as stores of objects speak it, from bytes; and of a server that closes."""

from __future__ import annotations

import io
import socket
import threading

import pytest

from hiveacid.storage.connections import Connection, read_answer

_OK = b"HTTP/1.1 200 OK\r\n"


def test_answers_follow_each_other_on_one_connection() -> None:
    sent = io.BytesIO(
        b"HTTP/1.1 100 Continue\r\n\r\n"
        + (_OK + b"Content-Length: 3\r\nETag:  a:b \r\n\r\nabc")
        + (_OK + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\nde\r\nA\r\n0123456789\r\n0\r\n\r\n")
        + b"HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n"
        + b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    )
    first, is_kept = read_answer(sent, "GET")
    assert (first.status, first.body, first.headers["etag"], is_kept) == (200, b"abc", "a:b", True)
    assert read_answer(sent, "GET")[0].body == b"de0123456789"
    assert read_answer(sent, "DELETE")[0].body == b""
    missing, is_kept = read_answer(sent, "GET")
    assert (missing.status, missing.reason, is_kept) == (404, "Not Found", True)


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    for headers in (b"", b"Connection: close\r\nContent-Length: 4\r\n"):
        answer, is_kept = read_answer(io.BytesIO(_OK + headers + b"\r\nbody"), "GET")
        assert (answer.body, is_kept) == (b"body", False)
    answer, is_kept = read_answer(io.BytesIO(b"HTTP/1.0 200 OK\r\n\r\nbody"), "GET")
    assert (answer.body, is_kept) == (b"body", False)
    answer, is_kept = read_answer(io.BytesIO(_OK + b"Content-Length: 4\r\n\r\n"), "HEAD")
    assert (answer.body, is_kept) == (b"", True)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 20",
        b"<html>\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        _OK + b"Content-Length: 4\r\n\r\nabc",
        _OK + b"Transfer-Encoding: chunked\r\n\r\nx\r\n",
        _OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nab",
        _OK + b"".join(b"h%d: 1\r\n" % n for n in range(1100)) + b"\r\n",
    ],
)
def test_what_ends_early_or_is_no_answer_is_a_failed_connection(sent: bytes) -> None:
    with pytest.raises(ConnectionAbortedError):
        read_answer(io.BytesIO(sent), "GET")


def test_a_connection_that_the_server_closed_is_opened_again() -> None:
    body = b"x" * 100_000
    with socket.create_server(("127.0.0.1", 0)) as server:
        seen: list[bytes] = []

        def serve() -> None:
            for _ in range(2):
                with server.accept()[0] as there, there.makefile("rb") as file:
                    while (line := file.readline()) != b"\r\n":
                        seen.append(line)
                    seen.append(file.read(len(body)))
                    there.sendall(_OK + b"Content-Length: 2\r\n\r\nok")

        thread = threading.Thread(target=serve)
        thread.start()
        connection = Connection(*server.getsockname()[:2], tls=None, timeout_s=60)
        for _ in range(2):
            assert connection.asked("PUT", "/a?b", {"content-length": "100000"}, body).body == b"ok"
            while not connection.is_ended():  # the server closes after each
                pass
            connection.close()
        thread.join()
    assert seen == [b"PUT /a?b HTTP/1.1\r\n", b"content-length: 100000\r\n", body] * 2
    with pytest.raises(ConnectionRefusedError):
        connection.asked("GET", "/", {})

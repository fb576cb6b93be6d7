"""A file of an object store that is read from its end on: its size need not be asked for.

The first request brings the last bytes, and with them the size; of a small file that is all of it,
of a larger one its tail. Then each read is one request.
"""

from __future__ import annotations

import io
from typing import Final

import pyarrow as pa

from hiveacid.storage.s3_requests import Requests

_TAIL_BYTES: Final = 64 * 1024
_SMALL_BYTES: Final = 1024 * 1024
"""Of an object: to read as much costs about what a request does."""


def opened(requests: Requests, path: str) -> pa.NativeFile:
    """The file, for random access.

    Raises:
        OSError: there is none, or the server failed.
    """
    answer = requests.asked("GET", path, {}, range=f"bytes=-{_TAIL_BYTES}")
    size = int(answer.headers.get("content-range", "/0").rpartition("/")[2])
    if len(answer.body) >= size:
        return pa.BufferReader(answer.body)
    return pa.PythonFile(_Ranged(requests, path, size, answer.body), mode="r")


class _Ranged(io.RawIOBase):
    """Bytes that are asked for when they are read; the last ones are there."""

    def __init__(self, requests: Requests, path: str, size: int, tail: bytes) -> None:
        super().__init__()
        self._requests = requests
        self._path = path
        self._size = size
        self._known = tail
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        rest = max(self._size - self._at, 0)
        count = rest if size is None or size < 0 else min(size, rest)
        if not count:
            return b""
        known_from = self._size - len(self._known)
        if self._at < known_from and self._size <= _SMALL_BYTES:
            self._known = self._fetched(0, known_from) + self._known
            known_from = 0
        if self._at >= known_from:
            start = self._at - known_from
            data = self._known[start : start + count]
        else:
            data = self._fetched(self._at, self._at + count)
        self._at += len(data)
        return data

    def _fetched(self, start: int, stop: int) -> bytes:
        answer = self._requests.asked("GET", self._path, {}, range=f"bytes={start}-{stop - 1}")
        return answer.body

"""Files opened for reading, above all those that are on no local disk.

Of an object store a file is read from its end on: its size need not be asked for. The first request
brings the last bytes, and with them the size; of a small file that is all of it, of a larger one
its tail. Then what is read is asked for in blocks, the last few of which are kept; what is known to
be read whole, such as a stripe with all its columns, at once.

What threads do before it is asked for: tasks that answer in order, and files of an object store,
where to open one is a request.
"""

from __future__ import annotations

import io
import itertools
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from hiveacid.errors import FormatError, StorageError
from hiveacid.storage.failures import Retries, mapped, storage_error
from hiveacid.storage.s3_requests import Requests

_TAIL_BYTES: Final = 64 * 1024
SMALL_BYTES: Final = 1024 * 1024
"""Of an object: to read as much costs about what a request does."""
_BLOCKS_MAX: Final = 6
_WHOLE_BYTES_MAX: Final = 8 * 1024 * 1024
"""A stripe of a delta; those of bases have more, of which a decoder reads long stretches."""


class Opener(Protocol):
    """A file system, as readers see it."""

    def open_input(self, path: str) -> pa.NativeFile:
        """See ``FileSystem``."""


class FarFile(pa.PythonFile):  # type: ignore[misc]
    """A file that is read again where that fails in passing; made by ``far_file``."""

    def __init__(self, handle: _Again, mode: str) -> None:
        del mode  # the library has taken both
        self._again = handle

    @property
    def failure(self) -> StorageError | None:
        """Why the last read failed. What decodes the bytes (ORC, Parquet) swallows it, and tells a
        text of its own, which is that of a damaged file, too.
        """
        return self._again.failure

    def all_next(self, start: int, size_bytes: int) -> None:
        """All of these bytes are read next, in any order: one request may bring them."""
        self._again.all_next(start, size_bytes)


def far_file(
    file: pa.NativeFile, path: str, *, retries: Retries, again: Callable[[], pa.NativeFile] | None
) -> FarFile:
    """The same, whose reads raise ``StorageError``, once they have been tried again; ``again``
    opens it anew: of HDFS it knows who has its blocks from when it was opened.
    """
    return FarFile(_Again(file, path, retries, again), mode="r")


_Reader = TypeVar("_Reader", bound="FileReader")


class FileReader:
    """One open file. A context manager; ``close`` is idempotent."""

    holds: str
    """What a file that is not damaged has."""

    def __init__(self, fs: Opener, path: str) -> None:
        self.path = path
        self._source = fs.open_input(path)

    def __enter__(self: _Reader) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    def _all_next(self, start: int, size_bytes: int) -> None:
        """All of these bytes are read next, in any order."""
        if isinstance(self._source, FarFile):
            self._source.all_next(start, size_bytes)

    def _damaged(self, error: Exception) -> Exception:
        """Our error for one of the library that reads it."""
        if isinstance(self._source, FarFile) and self._source.failure is not None:
            return self._source.failure
        if isinstance(error, OSError) and error.errno is not None:
            return storage_error(error, path=self.path)
        return FormatError(
            f"{self.path} is damaged: {error}",
            path=self.path,
            expected=f"readable {self.holds}",
            found=str(error),
        )


class _Readable(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


class _Again(_Readable):
    """A file; a read that fails begins again where it began."""

    def __init__(
        self,
        file: pa.NativeFile,
        path: str,
        retries: Retries,
        again: Callable[[], pa.NativeFile] | None,
    ) -> None:
        super().__init__()
        self._file = file
        self._path = path
        self._retries = retries
        self._anew = again
        self.failure: StorageError | None = None

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return int(self._file.seek(offset, whence))

    def read(self, size: int | None = -1, /) -> bytes:
        start = self._file.tell()

        def again() -> bytes:
            if self._anew is not None:
                self._file = self._anew()
            if self._file.tell() != start:
                self._file.seek(start)
            data: bytes = self._file.read(size)
            return data

        try:
            with mapped(self._path):
                step = partial(self._file.read, size)
                data: bytes = self._retries.run(step, subject=self._path, again=again)
        except StorageError as error:
            self.failure = copy(error)  # without the frames, which hold this file
            raise
        self.failure = None
        return data

    def all_next(self, start: int, size_bytes: int) -> None:
        if isinstance(self._file, _Ranged):
            self._file.next = (start, start + size_bytes)

    def close(self) -> None:
        self._file.close()
        super().close()


def opened(requests: Requests, path: str, *, size_bytes: int = 0) -> io.RawIOBase | pa.NativeFile:
    """The file, for random access; in memory where it is small. ``size_bytes`` is what a listing
    told of it.

    Raises:
        OSError: there is none, or the server failed.
    """
    last = max(size_bytes, _TAIL_BYTES) if size_bytes <= SMALL_BYTES else _TAIL_BYTES
    answer = requests.asked("GET", path, {}, range=f"bytes=-{last}")
    size = int(answer.headers.get("content-range", "/0").rpartition("/")[2])
    if len(answer.body) >= size:
        return pa.BufferReader(answer.body)
    return _Ranged(requests, path, size, answer.body)


class Stretch(_Readable, ABC):
    """A file of so many bytes, of which any can be had."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__()
        self._size = size_bytes
        self._at = 0

    def tell(self) -> int:
        """See ``io``."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """See ``io``."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """See ``io``."""
        rest = max(self._size - self._at, 0)
        count = rest if size is None or size < 0 else min(size, rest)
        data = self._between(self._at, self._at + count) if count else b""
        self._at += len(data)
        return data

    @abstractmethod
    def _between(self, start: int, stop: int) -> bytes:
        """The bytes from one place up to another, both within the file."""


class Prefix(Stretch):
    """The first bytes of an open file, as a file: what a streaming writer has completed so far.

    ``end`` comes after them: another tail.
    """

    def __init__(self, source: pa.NativeFile, length: int, *, end: bytes = b"") -> None:
        super().__init__(length + len(end))
        self._source = source
        self._prefix = length
        self._end = end

    def _between(self, start: int, stop: int) -> bytes:
        data = b""
        if start < self._prefix:
            self._source.seek(start)
            data = self._source.read(min(stop, self._prefix) - start)
            start += len(data)
        if start >= self._prefix:
            data += self._end[start - self._prefix : stop - self._prefix]
        return data


class _Ranged(Stretch):
    """Bytes that are asked for when they are read; the last ones are there."""

    def __init__(self, requests: Requests, path: str, size: int, tail: bytes) -> None:
        super().__init__(size)
        self._requests = requests
        self._path = path
        self._known = tail
        self._blocks: dict[int, bytes] = {}
        self._whole = (0, b"")
        self.next = (0, 0)
        """From where to where all is read: one request, where that is not much."""

    def _between(self, start: int, stop: int) -> bytes:
        known_from = self._size - len(self._known)
        if start < known_from and self._size <= SMALL_BYTES:
            self._known = self._fetched(0, known_from) + self._known
            known_from = 0
        if start >= known_from:
            return self._known[start - known_from : stop - known_from]
        if self.next[0] <= start and stop <= self.next[1] <= self.next[0] + _WHOLE_BYTES_MAX:
            if self._whole[0] != self.next[0] or not self._whole[1]:
                self._whole = (self.next[0], self._fetched(*self.next))
            return self._whole[1][start - self._whole[0] : stop - self._whole[0]]
        if stop - start >= SMALL_BYTES:
            return self._fetched(start, stop)
        data = b""  # a decoder reads a little of each of several streams in turn
        for number in range(start // SMALL_BYTES, (stop - 1) // SMALL_BYTES + 1):
            first = number * SMALL_BYTES
            block = self._blocks.pop(number, None)
            if block is None:
                block = self._fetched(first, min(first + SMALL_BYTES, self._size))
            self._blocks[number] = block
            while len(self._blocks) > _BLOCKS_MAX:
                del self._blocks[next(iter(self._blocks))]
            data += block[max(start - first, 0) : stop - first]
        return data

    def _fetched(self, start: int, stop: int) -> bytes:
        answer = self._requests.asked("GET", self._path, {}, range=f"bytes={start}-{stop - 1}")
        return answer.body


# -------------------------------------------------------------------- threads ahead

_Answer = TypeVar("_Answer")
_OPENED_MAX: Final = 32
"""Each is a request, and at most a small file or the tail of a larger one in memory."""
_HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of files, compressed, that are read before they are asked for."""


class OpenedEarly:
    """Opens files by threads, before ``open_input`` is called, in the order in which it will be. A
    context manager, which closes those that nobody took.
    """

    def __init__(
        self, opens: Callable[..., pa.NativeFile], files: Iterable[tuple[str, int]]
    ) -> None:
        """``opens`` is ``FileSystem.open_input``; ``files`` are paths with sizes; others may be
        opened, too, at any time.
        """
        self._opens = opens
        self._coming = iter(files)
        self._lock = threading.Lock()
        self._begun: dict[str, Future[pa.NativeFile]] = {}
        self._passed: set[str] = set()
        self._threads = ThreadPoolExecutor(_OPENED_MAX, thread_name_prefix="hiveacid-open")

    def __enter__(self) -> OpenedEarly:
        with self._lock:
            self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._coming = iter(())
            left = list(self._begun.values())
            self._begun.clear()
        for future in left:
            future.add_done_callback(_close)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def open_input(self, path: str) -> pa.NativeFile:
        """See ``FileSystem``."""
        with self._lock:
            future = self._begun.pop(path, None)
            if future is None:
                self._passed.add(path)
            self._begin()
        return self._opens(path) if future is None else future.result()

    def _begin(self) -> None:
        while len(self._begun) < _OPENED_MAX:
            path, size_bytes = next(self._coming, (None, 0))
            if path is None:
                return
            if path not in self._passed and path not in self._begun:
                self._begun[path] = self._threads.submit(self._opens, path, size_bytes=size_bytes)


def _close(future: Future[pa.NativeFile]) -> None:
    """What nobody took is not missed, where it could not be opened, too."""
    if not future.cancelled():
        with suppress(StorageError):
            future.result().close()


def in_order(
    tasks: Iterable[Callable[[], _Answer]],
    *,
    threads: int,
    bytes_of: Callable[[Any], int] = lambda _: 0,
) -> Generator[_Answer, None, None]:
    """What tasks give, in their order, while threads are ``threads`` tasks ahead; where there is
    but one task, or one thread, none is started. Of tasks whose ``bytes_of`` are many only as many
    as there are processors are under way.
    """
    given = iter(tasks)
    first = list(itertools.islice(given, 2))
    if len(first) < 2 or threads == 1:
        yield from (task() for task in itertools.chain(first, given))
        return
    least, held = min(threads, pa.cpu_count()), 0
    with ThreadPoolExecutor(threads, thread_name_prefix="hiveacid-read") as pool:
        waiting: deque[tuple[Future[_Answer], int]] = deque()
        try:
            for task in itertools.chain(first, given):
                waiting.append((pool.submit(task), bytes_of(task)))
                held += waiting[-1][1]
                while len(waiting) > (threads if held < _HELD_BYTES_MAX else least):
                    future, size = waiting.popleft()
                    held -= size
                    yield future.result()
            while waiting:
                yield waiting.popleft()[0].result()
        finally:
            for future, _ in waiting:
                future.cancel()

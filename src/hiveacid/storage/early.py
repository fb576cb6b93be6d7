"""What threads do before it is asked for: tasks that answer in order, and files of an object store,
where to open one is a request.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TypeVar

import pyarrow as pa

from hiveacid.errors import StorageError
from hiveacid.storage.filesystem import FileSystem

_Answer = TypeVar("_Answer")
_OPENED_MAX: Final = 32
"""Each is a request, and at most a small file or the tail of a larger one in memory."""
_HELD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of files, compressed, that are read before they are asked for."""


class OpenedEarly:
    """Opens files by threads, before ``open_input`` is called, in the order in which it will be. A
    context manager, which closes those that nobody took.
    """

    def __init__(self, fs: FileSystem, files: Iterable[tuple[str, int]]) -> None:
        """``files`` are paths with sizes; others may be opened, too, at any time."""
        self._fs = fs
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
        return self._fs.open_input(path) if future is None else future.result()

    def _begin(self) -> None:
        while len(self._begun) < _OPENED_MAX:
            path, size_bytes = next(self._coming, (None, 0))
            if path is None:
                return
            if path not in self._passed and path not in self._begun:
                self._begun[path] = self._threads.submit(
                    self._fs.open_input, path, size_bytes=size_bytes
                )


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

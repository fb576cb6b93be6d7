"""For the tests of programs that use hiveacid, and its own: a clock that moves when told, and files
that fail.

Files fail below the protocols, so that what handles errors is what is tested: ``FaultyFileSystem``
asks a ``Faults`` before each operation and tells it after; what it answers is what happens.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from typing import Any, Protocol

import pyarrow as pa

from hiveacid.errors import StorageError
from hiveacid.storage.failures import Retries, storage_error
from hiveacid.storage.filesystem import Files, FileSystem


class ManualClock:
    """A ``Clock`` for tests and simulations; ``sleep_s`` moves it and returns at once.

    Example:
        >>> clock = ManualClock(now_ms=1_000)
        >>> clock.advance_ms(500)
        >>> clock.now_ms()
        1500
    """

    def __init__(self, *, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = float(now_ms)
        self._start_ms = float(now_ms)
        self._jump_ms = 0

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        now = int(self._now_ms)
        self._now_ms += self._jump_ms
        self._jump_ms = 0
        return now

    def monotonic_s(self) -> float:
        """Seconds since the clock was made."""
        return (self._now_ms - self._start_ms) / 1000

    def sleep_s(self, seconds: float) -> None:
        """Move the clock by ``seconds``, and by what it can tell at least."""
        self._now_ms += max(seconds * 1000, 0.001) if seconds > 0 else 0

    def advance_ms(self, ms: int) -> None:
        """Move the clock by ``ms``."""
        self._now_ms += ms

    def jump_after_next_read(self, ms: int) -> None:
        """Move the clock by ``ms`` just after the next ``now_ms``: a call that takes that long."""
        self._jump_ms = ms


class Fault(Enum):
    """How an operation fails. Slowness is none: ``Faults.before`` simply takes its time."""

    REFUSED = "refused"
    """an error, and nothing happened"""
    LOST = "lost"
    """it happened, and the answer is an error"""
    TORN = "torn"
    """of what takes several steps a part happened, then an error; else as REFUSED"""


class Faults(Protocol):
    """Decides what goes wrong. What it raises itself goes to the caller: a client that dies."""

    def before(self, operation: str, subject: str) -> Fault | None:
        """What becomes of an operation that is about to begin; None where all goes well."""

    def after(self, operation: str, subject: str) -> None:
        """The operation has taken effect, and nobody knows yet."""


class ScriptedFaults:
    """One operation goes wrong, by its number from 0 on; ``seen`` are those asked about so far.

    A test runs its work once to learn the operations, then once for each of them.
    """

    def __init__(self, *, at: int | None = None, fault: Fault = Fault.REFUSED) -> None:
        self._at = at
        self._fault = fault
        self.seen: list[str] = []

    def before(self, operation: str, subject: str) -> Fault | None:
        """The fault, where this is the operation."""
        self.seen.append(f"{operation} {subject}")
        return self._fault if len(self.seen) - 1 == self._at else None

    def after(self, operation: str, subject: str) -> None:
        """Nothing to do."""
        del operation, subject


def _may_fail(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """An operation on one path that does all or nothing."""

    @wraps(method)
    def operation(self: FaultyFileSystem, path: str, **facts: Any) -> Any:
        with self._operation(name, path):
            return method(self, path, **facts)

    return operation


class _FaultyLibrary:
    """A file system of the library's, each of whose requests may fail in passing: a server that is
    too busy (REFUSED), a connection that is reset after the request was carried out (LOST), or
    while half of a file had been sent (TORN).
    """

    def __init__(self, library: Any, faults: Faults) -> None:
        self._library = library
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._library, name)
        if not callable(found):
            return found

        def asked(subject: Any, *more: Any, **facts: Any) -> Any:
            fault = self._faults.before(f"request {name}", str(subject))
            if fault is Fault.REFUSED or (fault is Fault.TORN and name != "open_output_stream"):
                raise OSError(errno.EIO, "AWS Error SLOW_DOWN (HTTP status 503)")
            answer = found(subject, *more, **facts)
            if fault is Fault.TORN:
                answer.write(b"half of what")
                answer.close()
            if fault in (Fault.LOST, Fault.TORN):
                raise OSError(errno.EIO, "Connection reset by peer")
            return answer

        return asked


class FaultyFileSystem(FileSystem):
    """A file system each of whose operations may fail, before or after its effect or in between.

    ``FaultyFiles`` give it to a client. A write that is torn leaves the first half of the file, a
    directory that is deleted loses its first half.
    """

    def __init__(
        self,
        root: str,
        *,
        faults: Faults,
        requests: Faults | None = None,
        retries: Retries | None = None,
    ) -> None:
        super().__init__(root, None, retries)
        self._faults = faults
        if requests is not None:
            self._fs = _FaultyLibrary(self._fs, requests)

    open_input = _may_fail("open", FileSystem.open_input)
    read_bytes = _may_fail("read", FileSystem.read_bytes)
    delete_file = _may_fail("delete", FileSystem.delete_file)
    create_directory = _may_fail("create-directory", FileSystem.create_directory)
    exists = _may_fail("look", FileSystem.exists)
    is_directory = _may_fail("look", FileSystem.is_directory)
    size_bytes = _may_fail("look", FileSystem.size_bytes)
    list_recursive = _may_fail("list", FileSystem.list_recursive)
    list_directory = _may_fail("list", FileSystem.list_directory)

    def open_output(self, path: str) -> pa.NativeFile:
        """See ``FileSystem``; the writes to the stream do not fail."""

        def tear() -> None:
            super(FaultyFileSystem, self).open_output(path).close()

        with self._operation("create", path, tear=tear):
            return super().open_output(path)

    def write_bytes(self, path: str, *, data: bytes) -> None:
        """See ``FileSystem``."""

        def tear() -> None:
            super(FaultyFileSystem, self).write_bytes(path, data=data[: len(data) // 2])

        with self._operation("write", path, tear=tear):
            super().write_bytes(path, data=data)

    def rename(self, source: str, *, target: str) -> None:
        """See ``FileSystem``."""
        with self._operation("rename", f"{source} {target}"):
            super().rename(source, target=target)

    def delete_directory(self, path: str) -> None:
        """See ``FileSystem``."""

        def tear() -> None:
            files = [
                one.path
                for one in super(FaultyFileSystem, self)._list(path, recursive=True)
                if not one.is_directory
            ]
            for file in files[: (len(files) + 1) // 2]:
                super(FaultyFileSystem, self).delete_file(file)

        with self._operation("delete-directory", path, tear=tear):
            super().delete_directory(path)

    @contextmanager
    def _operation(
        self, name: str, path: str, *, tear: Callable[[], None] | None = None
    ) -> Iterator[None]:
        fault = self._faults.before(name, path)
        if fault is Fault.TORN and tear is not None:
            tear()
        if fault in (Fault.REFUSED, Fault.TORN):
            raise _failure(name, path)
        yield
        if fault is Fault.LOST:
            raise _failure(name, path)
        self._faults.after(name, path)


@dataclass(frozen=True, slots=True)
class FaultyFiles(Files):
    """``Files`` whose operations fail as ``faults`` say, and whose ``requests`` to the server fail
    in passing, to be asked again as the ``retries`` say; in other processes none does.

    Example:
        >>> client = open_client(url, files=FaultyFiles(ScriptedFaults(at=3)))  # doctest: +SKIP
    """

    faults: Faults
    requests: Faults | None = None

    def opened(self, root: str) -> FileSystem:
        """See ``Files``."""
        return FaultyFileSystem(
            root, faults=self.faults, requests=self.requests, retries=self.retries
        )


def _failure(name: str, path: str) -> StorageError:
    return storage_error(OSError(errno.EIO, f"{name} failed as it was told to"), path=path)

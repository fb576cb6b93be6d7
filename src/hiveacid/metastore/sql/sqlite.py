"""SQLite in WAL mode: one writer at a time, one machine."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL

from hiveacid.clock import Clock, held_back
from hiveacid.errors import MetastoreError
from hiveacid.metastore.sql.dialect import Begun, Channel, Dialect, Immediate, UnitKind
from hiveacid.model.readable import at

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_NO_DATABASE: Final = "file is not a database"
_LOCK_WAIT_S: Final = 60.0
_LOOKS: Final = 240
"""how often who waits so long looks for Ctrl-C"""
_GLANCES: Final = 40
_GLANCE_PAUSE_S: Final = 0.0005
_WAL_TRIES: Final = 100
_CHECKPOINT_PAGES: Final = 4_000
"""16 MiB of log: what moves it into the database holds all writers up for two fsyncs."""


class SqliteDialect(Dialect):
    """One writer at a time, taken at the start (``BEGIN IMMEDIATE``).

    A writer's commit is on disk before the writer goes on, and with it all that came before. It is
    written to the log within the writer's turn (``synchronous=NORMAL``), and its fsync comes after
    it, so that writers wait for the disk at the same time, not one after the other. Others may see
    what is not on disk yet; whatever they commit is on disk behind it.

    SQLite lets waiting writers sleep and look again, up to 100 ms, while nobody writes. So ours
    queue before it: the threads of a process on a mutex, processes on a lock of the file
    ``<database>-turn``, which the kernel hands on at once and takes from a process that dies.
    """

    def __init__(self, path: str, *, clock: Clock, durable: bool) -> None:
        self._path = path
        self._clock = clock
        self._durable = durable
        self._turn = _Turn(path)
        self._log: str | None = None
        self._file = os.path.abspath(path)  # wherever the process goes
        self._opened: tuple[int, int] | None = None

    def create_engine(self) -> Engine:
        """An engine over the file; its directory is made."""
        try:
            Path(self._path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MetastoreError(
                f"The directory of the metastore {self._path} cannot be made: {error}",
                path=self._path,
            ) from error
        engine = create_engine(
            URL.create("sqlite", database=self._path),
            connect_args={
                "isolation_level": None,
                "timeout": _LOCK_WAIT_S,
                "check_same_thread": False,
                "cached_statements": 512,
            },
            pool_size=4,
            max_overflow=64,
        )
        event.listen(engine, "connect", self._on_connect)
        return engine

    def _on_connect(self, connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        # Turning WAL on needs the file for itself and does not wait; it is remembered in the file.
        is_logged = False
        for attempt in range(_WAL_TRIES):
            try:
                is_logged = cursor.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal"
                if is_logged:
                    break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or attempt == _WAL_TRIES - 1:
                    raise
            self._clock.sleep_s(0.05)
        self._opened = self._opened or self._there()  # which the pragma has made, if need be
        synchronous = "FULL" if self._durable else "OFF"
        if self._durable and is_logged and fcntl is not None:
            ((*_, path),) = cursor.execute("PRAGMA database_list").fetchall()
            self._log, synchronous = f"{path}-wal", "NORMAL"
        cursor.execute(f"PRAGMA synchronous={synchronous}")
        cursor.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        cursor.close()

    def close(self) -> None:
        """Close the file that writers queue on."""
        self._turn.close()

    def begin(self, connection: Any, kind: UnitKind) -> Channel:
        """BEGIN IMMEDIATE for a writer, so that it never fails half way for want of the lock.

        Raises:
            MetastoreError: the file was removed or replaced: what a connection writes to one that
                has no name any more nobody else sees, and it goes with the process.
        """
        if self._opened not in (None, self._there()):
            raise MetastoreError(
                f"The metastore {self._path} was removed or replaced while it was open here",
                path=self._path,
                note="Connect again. Restore a backup while nobody has the metastore open, and"
                " without the -wal and -shm of the one before.",
            )
        channel = Immediate(connection, Begun())
        if kind is not UnitKind.QUERY:
            channel.send("BEGIN" if kind is UnitKind.READ else "BEGIN IMMEDIATE")
        return channel

    def _there(self) -> tuple[int, int] | None:
        """What file the path names now."""
        try:
            found = os.stat(self._file)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def writer_turn(self) -> AbstractContextManager[Callable[[], None]]:
        """One writer at a time, of all threads (a mutex) and processes (a lock on a file), waited
        for a limited time. While it is held Ctrl-C is put off, since all others wait.

        Raises:
            MetastoreError: a writer keeps it for too long.
        """
        return self._turn.taken()

    def make_durable(self) -> None:
        """The log goes to disk; where it is gone it is in the database, which is on disk then."""
        if self._log is None:
            return
        try:
            log = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            _sync(log)
        finally:
            os.close(log)

    def set_next_txn_id(self, channel: Channel, next_id: int) -> None:
        """Write SQLite's own sequence table."""
        last = (next_id - 1,)
        if not channel.send("UPDATE sqlite_sequence SET seq = ? WHERE name = 'TXNS'", last).count():
            channel.send("INSERT INTO sqlite_sequence (name, seq) VALUES ('TXNS', ?)", last)

    def timestamp(self, epoch_ms: int) -> Any:
        """SQLAlchemy's text form of a timestamp on SQLite, UTC."""
        return at(epoch_ms).strftime("%Y-%m-%d %H:%M:%S.%f")

    def is_new(self) -> bool:
        """Whether there is no file: to look at a metastore never makes one."""
        return not Path(self._path).exists()

    def check_is_ours_or_new(self) -> None:
        """Let SQLite look at the file: who closes a file of its own drops every lock that this
        process has on it, and then other processes take away the log under our connections.
        """
        uri = f"{Path(self._path).absolute().as_uri()}?mode=rw"
        try:
            if self.is_new():
                return
            with closing(sqlite3.connect(uri, uri=True, timeout=_LOCK_WAIT_S)) as connection:
                connection.execute("PRAGMA schema_version").fetchone()
        except (OSError, sqlite3.DatabaseError) as error:
            if _NO_DATABASE in str(error):
                raise MetastoreError(
                    f"{self._path} is not a metastore of hiveacid: it is not an SQLite database",
                    path=self._path,
                ) from error
            raise MetastoreError(
                f"The metastore {self._path} cannot be opened: {error}",
                note=self.advice(),
                path=self._path,
            ) from error

    def advice(self) -> str | None:
        """What is read-only: SQLite's errors name neither the file nor its directory, nor the two
        beside it, which stay as they were made while the file was read-only.
        """
        directory = str(Path(self._path).absolute().parent)
        closed = _closed(directory, self._path) or _closed(f"{self._path}-wal", f"{self._path}-shm")
        if not closed:
            return None
        return (
            f"No right to write to {' and '.join(closed)}. Who reads writes there, too: a row that "
            "keeps the files of the snapshot from the cleaner. Make the file, its -wal and -shm "
            "and its folder writable, or copy the file to where they are: tables stay where they "
            "lie."
        )

    def damage(self, channel: Channel) -> tuple[str, ...]:
        """As of a backup that was put beside the log of another one."""
        found = (str(row[0]) for row in channel.send("PRAGMA quick_check(10)").rows())
        return tuple(f"damaged: {line}" for line in found if line != "ok")

    def table_names(self, channel: Channel) -> frozenset[str]:
        """From sqlite_master, without SQLite's own."""
        rows = channel.send(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).rows()
        return frozenset(str(row[0]) for row in rows)


def _closed(*paths: str) -> list[str]:
    effective = os.access in os.supports_effective_ids
    there = (one for one in paths if os.path.exists(one))
    return [one for one in there if not os.access(one, os.W_OK, effective_ids=effective)]


_sync: Final = getattr(os, "fdatasync", os.fsync)


class _Turn:
    """Whose turn it is to write, among the threads and processes of this machine.

    It is a matter of speed alone: where the file cannot be locked (Windows, no permission),
    SQLite's own lock still keeps writers apart.
    """

    def __init__(self, path: str) -> None:
        self._database = path
        self._path = f"{path}-turn"
        self._mutex = threading.Lock()
        self._file: int | None = None
        self._usable = fcntl is not None

    def close(self) -> None:
        with self._mutex:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    @contextmanager
    def taken(self) -> Iterator[Callable[[], None]]:
        with held_back() as let_through:
            if not _in_time(self._mutex.acquire, let_through):
                raise self._busy("another thread of this process")
            try:
                self._lock(let_through)
                try:
                    yield let_through
                finally:
                    self._unlock()
            finally:
                self._mutex.release()

    def _lock(self, let_through: Callable[[], None]) -> None:
        if not self._usable:
            return
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file, self._file = self._file, None
            assert file is not None
            if not _locked_in_time(file, let_through):
                raise self._busy("another process") from None
            self._file = file
        except OSError:
            self._usable = False

    def _unlock(self) -> None:
        if self._usable and self._file is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _busy(self, who: str) -> MetastoreError:
        return MetastoreError(
            f"The metastore {self._database} could not be written to for {_LOCK_WAIT_S:g} s: {who} "
            "keeps its turn",
            path=self._database,
            note="A process that was stopped in the middle of a write holds all others up.",
        )


def _in_time(wait: Callable[[bool, float], bool], let_through: Callable[[], None]) -> bool:
    """Whether what one waits for came in time; Ctrl-C ends the wait."""
    for _ in range(_LOOKS):
        if wait(True, _LOCK_WAIT_S / _LOOKS):
            return True
        let_through()
    return False


def _locked_in_time(file: int, let_through: Callable[[], None]) -> bool:
    """Queue for the lock as long as one waits for SQLite's own. The kernel's queue, which hands the
    lock on at once, knows no deadline: a thread stands in it. A lock that comes too late is given
    up with the file.
    """
    mutex = threading.Lock()
    done = threading.Event()
    for _ in range(_GLANCES):  # a turn is short as a rule, a thread dear
        done.wait(_GLANCE_PAUSE_S)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    locked = abandoned = False

    def wait() -> None:
        nonlocal locked
        fcntl.flock(file, fcntl.LOCK_EX)
        with mutex:
            locked = True
            if abandoned:
                os.close(file)
        done.set()

    # No work goes on in it, and a simulation, in one process, never comes here.
    threading.Thread(target=wait, name="hiveacid-turn", daemon=True).start()  # noqa: TID251
    try:
        _in_time(lambda _, seconds: done.wait(seconds), let_through)
    except BaseException:
        with mutex:
            abandoned = True
            if locked:
                os.close(file)
        raise
    with mutex:
        abandoned = not locked
        return locked

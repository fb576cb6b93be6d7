"""All that differs between databases: how a unit of work begins, table locks, id sequences, checks.

A new database is a new class here; the other files speak SQLAlchemy Core and ask the dialect.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL

from hiveacid.clock import Clock
from hiveacid.errors import MetastoreError

_SQLITE_MAGIC: Final = b"SQLite format 3\x00"
_SQLITE_LOCK_WAIT_S: Final = 60.0
_WAL_TRIES: Final = 100


class Dialect(Protocol):
    """What the units of work ask of a database."""

    def create_engine(self) -> Engine:
        """An engine whose connections run statements outside any implicit transaction."""

    def begin(self, cursor: Any, *, write: bool) -> None:
        """Begin a unit of work; of writers one at a time where the database has no row locks."""

    def writer_turn(self) -> AbstractContextManager[object]:
        """Held by this process's writers while they write."""

    def set_next_txn_id(self, cursor: Any, next_id: int) -> None:
        """Let the next transaction get this id."""

    def next_txn_id(self, cursor: Any) -> int:
        """The id the next transaction will get."""

    def timestamp(self, epoch_ms: int) -> Any:
        """A value for a timestamp column."""

    def check_is_ours_or_new(self) -> None:
        """Raises: MetastoreError where something that is no database of this kind is at the URL."""

    def table_names(self, cursor: Any) -> frozenset[str]:
        """The tables that exist."""


class SqliteDialect:
    """SQLite in WAL mode: one writer at a time, taken at the start (``BEGIN IMMEDIATE``).

    A process's own writers queue on a mutex, so that only one of them polls the file's lock.
    """

    def __init__(self, path: str, *, clock: Clock, durable: bool) -> None:
        self._path = path
        self._clock = clock
        self._synchronous = "FULL" if durable else "OFF"
        self._mutex = threading.Lock()

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
                "timeout": _SQLITE_LOCK_WAIT_S,
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
        cursor.execute(f"PRAGMA synchronous={self._synchronous}")
        # Turning WAL on needs the file for itself and does not wait; it is remembered in the file.
        for attempt in range(_WAL_TRIES):
            try:
                if cursor.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal":
                    break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or attempt == _WAL_TRIES - 1:
                    raise
            self._clock.sleep_s(0.05)
        cursor.close()

    def begin(self, cursor: Any, *, write: bool) -> None:
        """BEGIN IMMEDIATE for a writer, so that it never fails half way for want of the lock."""
        cursor.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    def writer_turn(self) -> AbstractContextManager[object]:
        """The process's mutex."""
        return self._mutex

    def set_next_txn_id(self, cursor: Any, next_id: int) -> None:
        """Write SQLite's own sequence table."""
        cursor.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'TXNS'", (next_id - 1,))
        if cursor.rowcount == 0:
            cursor.execute(
                "INSERT INTO sqlite_sequence (name, seq) VALUES ('TXNS', ?)", (next_id - 1,)
            )

    def next_txn_id(self, cursor: Any) -> int:
        """Read SQLite's own sequence table."""
        row = cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = 'TXNS'").fetchone()
        return int(row[0]) + 1 if row else 1

    def timestamp(self, epoch_ms: int) -> Any:
        """SQLAlchemy's text form of a timestamp on SQLite, UTC."""
        moment = datetime.fromtimestamp(epoch_ms / 1000, timezone.utc)
        return moment.strftime("%Y-%m-%d %H:%M:%S.%f")

    def check_is_ours_or_new(self) -> None:
        """Look at the file's first bytes."""
        path = Path(self._path)
        try:
            if not path.exists():
                return
            with path.open("rb") as file:
                head = file.read(len(_SQLITE_MAGIC))
        except OSError as error:
            raise MetastoreError(
                f"The metastore {self._path} cannot be opened: {error}", path=self._path
            ) from error
        if head and head != _SQLITE_MAGIC:
            raise MetastoreError(
                f"{self._path} is not a metastore of hiveacid: it is not an SQLite database",
                path=self._path,
            )

    def table_names(self, cursor: Any) -> frozenset[str]:
        """From sqlite_master, without SQLite's own."""
        rows = cursor.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
        return frozenset(str(row[0]) for row in rows)

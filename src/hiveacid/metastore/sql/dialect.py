"""All that differs between databases: how a unit of work begins, table locks, id sequences, checks.

A new database is a new class beside ``sqlite.py`` and ``postgres.py``; the other files speak
SQLAlchemy Core and ask the dialect.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol

from sqlalchemy import Engine


class UnitKind(Enum):
    """What a unit of work is for, which decides how it begins."""

    READ = auto()
    """reads alone, all of it in one snapshot of the database"""
    QUERY = auto()
    """asks one question, which sees one state of the database by itself: nothing begins or ends"""
    WRITE = auto()
    OPEN = auto()
    """opens transactions: kept apart from the commits that need to know the highest id"""


class Outcome(Enum):
    """What became of a unit whose commit was sent and not answered."""

    COMMITTED = auto()
    ROLLED_BACK = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Begun:
    """A unit that has begun: the database's time (None: it has none of its own), its own id."""

    now_ms: int | None = None
    id: int | None = None


class Dialect(Protocol):
    """What the units of work ask of a database."""

    def create_engine(self) -> Engine:
        """An engine whose connections run statements outside any implicit transaction."""

    def close(self) -> None:
        """Give back what is not a connection."""

    def begin(self, cursor: Any, kind: UnitKind) -> Begun:
        """Begin a unit of work; of writers one at a time where the database has no row locks."""

    def writer_turn(self) -> AbstractContextManager[object]:
        """Held by writers while they write, where the database lets in one at a time."""

    def server_time_ms(self, cursor: Any) -> int | None:
        """The database's time now, None where it has none of its own."""

    def pipeline(self, connection: Any) -> AbstractContextManager[object]:
        """Statements within are sent without waiting for the answer of each."""

    def exclude_opens(self, cursor: Any) -> None:
        """No transaction is opened from here to the end of the unit, and none is being opened."""

    def serialize_schema_changes(self, cursor: Any) -> None:
        """Only one unit at a time is behind this."""

    def may_pass(self, error: BaseException) -> bool:
        """Whether the same unit, run again, may succeed: a deadlock, two first inserts of a key."""

    def look_up(self, cursor: Any, unit: int) -> Outcome:
        """What became of the unit with this id (``Begun.id``)."""

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

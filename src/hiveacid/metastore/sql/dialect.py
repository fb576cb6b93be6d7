"""All that differs between databases: how a unit of work talks to it, table locks, id sequences,
functions in SQL.

A new database is a new class beside ``sqlite.py`` and ``postgres.py``; the other files speak
SQLAlchemy Core and ask the dialect.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum, auto
from functools import reduce
from typing import Any, Protocol

from sqlalchemy import BigInteger, ColumnElement, Engine, Text, cast, literal_column
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

Row = tuple[Any, ...]


class UnitKind(Enum):
    """What a unit of work is for, which decides how it begins."""

    READ = auto()
    """reads alone, all of it in one snapshot of the database"""
    QUERY = auto()
    """asks one question, which sees one state of the database by itself: nothing begins or ends"""
    WRITE = auto()
    OPEN = auto()
    """opens transactions: kept apart from the commits that need to know the highest id"""
    SCHEMA = auto()
    """makes or changes tables, by SQLAlchemy's connection"""


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


class Answer(Protocol):
    """What the database says to one statement. The first look at one that was sent may have to
    wait; in a unit that writes it has to come before the end: a commit's answer may be lost.
    """

    def rows(self) -> list[Row]:
        """All rows, of a query; to be called once."""

    def count(self) -> int:
        """How many rows the statement touched."""

    def row(self) -> Row | None:
        """The first row."""
        rows = self.rows()
        return rows[0] if rows else None

    def scalar(self) -> Any:
        """The first column of the first row, None where there is none."""
        rows = self.rows()
        return rows[0][0] if rows else None


class Channel(Protocol):
    """One unit's talk with the database. Statements are carried out in the order they are sent;
    where the database lets it, nobody waits before an answer is looked at, or for the commit.
    """

    def begun(self) -> Begun:
        """The database's time when the unit began, and the unit's own id there."""

    def send(self, sql: str, values: Any = ()) -> Answer:
        """Ask."""

    def send_many(self, sql: str, values: Sequence[Any]) -> None:
        """Send it once for each of ``values``."""

    def commit(self) -> None:
        """End the unit; what was asked is answered by then."""

    def roll_back(self) -> None:
        """Take the unit back."""

    def abandon(self) -> None:
        """Forget the unit, whose connection is lost."""


class Immediate(Channel):
    """A channel where each statement is answered at once.

    Its cursor is closed before another thread can have the connection: one that is forgotten later
    resets its last statement (sqlite3), which the connection's next unit may be running.
    """

    def __init__(self, connection: Any, begun: Begun) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._begun = begun

    def begun(self) -> Begun:
        return self._begun

    def send(self, sql: str, values: Any = ()) -> Answer:
        cursor = self._cursor
        cursor.execute(sql, values)
        return _Answered([] if cursor.description is None else cursor.fetchall(), cursor.rowcount)

    def send_many(self, sql: str, values: Sequence[Any]) -> None:
        self._cursor.executemany(sql, values)

    def commit(self) -> None:
        self._connection.commit()
        self._cursor.close()

    def roll_back(self) -> None:
        self._cursor.close()
        self._connection.rollback()

    def abandon(self) -> None:
        """Nothing is kept of it here."""


class _Answered(Answer):
    __slots__ = ("_count", "_rows")

    def __init__(self, rows: list[Row], count: int) -> None:
        self._rows = rows
        self._count = count

    def rows(self) -> list[Row]:
        return self._rows

    def count(self) -> int:
        return self._count


class server_now(GenericFunction[int]):
    """The time, in ms: of the parameter, or of the database where that is null and it has one."""

    type = BigInteger()
    inherit_cache = True


@compiles(server_now)
def _time_of_client(element: Any, compiler: Any, **how: Any) -> str:
    return str(compiler.process(element.clauses, **how))


@compiles(server_now, "postgresql")
def _time_of_server(element: Any, compiler: Any, **how: Any) -> str:
    given = compiler.process(element.clauses, **how)
    now = "round(extract(epoch from statement_timestamp()) * 1000)::bigint"
    return f"coalesce({given}, {now})"


class Dialect:
    """What the units of work ask of a database; as it stands here where writers are alone."""

    has_row_locks: bool = False
    """whether several may write at once, each to rows of its own"""

    @abstractmethod
    def create_engine(self) -> Engine:
        """An engine whose connections run statements outside any implicit transaction."""

    def close(self) -> None:
        """Give back what is not a connection, if there is anything."""

    @abstractmethod
    def begin(self, connection: Any, kind: UnitKind) -> Channel:
        """Begin a unit of work on a connection of the driver; of writers one at a time where the
        database has no row locks.
        """

    def writer_turn(self) -> AbstractContextManager[Callable[[], None]]:
        """Held by writers while they write, where the database lets in one at a time; elsewhere
        they meet at row locks. Gives what to call where Ctrl-C may take effect.
        """
        return nullcontext(lambda: None)

    def make_durable(self) -> None:
        """Wait until what this process has committed is on disk, where a commit that was answered
        may not be; called after a writer's turn.

        Raises:
            OSError: it may not be.
        """

    def statement_time_ms(self, begun_ms: int) -> int | None:
        """What ``server_now`` gets in a unit that began at ``begun_ms`` of the client's clock,
        which counts where the database has none.
        """
        return begun_ms

    def exclude_opens(self, channel: Channel) -> None:
        """No transaction is opened from here to the end of the unit, and none is being opened."""

    def serialize_schema_changes(self, channel: Channel) -> None:
        """Only one unit at a time is behind this."""

    def damage(self, channel: Channel) -> tuple[str, ...]:
        """What the database finds wrong with its file; a server is not asked."""
        del channel
        return ()

    def is_cut(self, error: BaseException) -> bool:
        """Whether an error of the driver's is the end of its connection, which the driver itself
        may notice later: how far the server came has to be looked up.
        """
        del error
        return False

    def may_pass(self, error: BaseException) -> bool:
        """Whether the same unit, run again, may succeed: a deadlock, two first inserts of a key. A
        writer that is alone meets nothing that passes by itself.
        """
        del error
        return False

    def advice(self) -> str | None:
        """What to do about a unit that failed, where that can be seen from outside."""
        return None

    def look_up(self, connection: Any, unit: int) -> Outcome:
        """What became of the unit with this id (``Begun.id``); not asked where the process of the
        database is this one, which answers a commit.
        """
        del connection, unit
        return Outcome.UNKNOWN

    @abstractmethod
    def set_next_txn_id(self, channel: Channel, next_id: int) -> None:
        """Let the next transaction get this id."""

    @abstractmethod
    def timestamp(self, epoch_ms: int) -> Any:
        """A value for a timestamp column."""

    def check_is_ours_or_new(self) -> None:
        """Raises: MetastoreError where something that is no database of this kind is at the URL,
        and its tables do not tell.
        """

    @abstractmethod
    def table_names(self, channel: Channel) -> frozenset[str]:
        """The tables that exist."""


def packed(*columns: ColumnElement[Any]) -> ColumnElement[str]:
    """The integers of all rows, in no order of the rows, those of one row beside each other."""
    texts: list[ColumnElement[str]] = [cast(one, Text) for one in columns]
    return _Joined(reduce(lambda left, right: left + literal_column("','", Text) + right, texts))


def unpacked(value: str | None) -> list[int]:
    """What ``packed`` made; of no rows it makes None."""
    found: list[int] = json.loads(f"[{value or ''}]")  # in half the time of split and int
    return found


class _Joined(GenericFunction[str]):
    """SQLAlchemy's own (aggregate_strings) wants its separator at each execution."""

    type = Text()
    inherit_cache = True


@compiles(_Joined)
def _compile(element: Any, compiler: Any, **how: Any) -> str:
    return f"string_agg({compiler.process(element.clauses, **how)}, ',')"


@compiles(_Joined, "sqlite")
def _compile_for_sqlite(element: Any, compiler: Any, **how: Any) -> str:
    return f"group_concat({compiler.process(element.clauses, **how)}, ',')"

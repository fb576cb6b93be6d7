"""A metastore whose connections fail: refused, lost in the middle, lost around a commit.

The faults are the driver's own, below SQLAlchemy and the metastore's units of work: their repeats
and the look-up of a lost commit are what is tested. SQLite plays a server here, with a clock and
a memory of outcomes of its own, so that a seeded simulation needs no other process; PostgreSQL
is one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final
from weakref import WeakSet

from sqlalchemy import Engine, event
from sqlalchemy.engine import make_url

from hiveacid.clock import Clock
from hiveacid.metastore.connect import Opening, SqlMetastore, open_metastore
from hiveacid.metastore.sql.dialect import (
    Answer,
    Begun,
    Channel,
    Dialect,
    Immediate,
    Outcome,
    UnitKind,
)
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.metastore.sql.postgres import PostgresDialect
from hiveacid.metastore.sql.sqlite import SqliteDialect
from hiveacid.testing import Fault, Faults

_CLOSED: Final = "Cannot operate on a closed database."
"""By this SQLAlchemy tells that a connection of SQLite is lost."""


def connect_faulty(
    url: str, *, faults: Faults, server: Clock, client: Clock, options: MetastoreOptions
) -> SqlMetastore:
    """Open the metastore at ``sqlite:///path`` or ``postgresql+psycopg://``.

    ``server`` is the database's clock, ``client`` that of who asks. Not for several threads that
    run at the same time. ``faults`` are asked before a unit begins (``begin``), before each of its
    statements (``statement``), around its commit (``commit``), and when an outcome is looked up.

    Raises:
        MetastoreError: as ``metastore.connect``.
    """
    wire = Wire(faults, server)
    dialect: Dialect
    if url.startswith("sqlite:///"):
        dialect = FaultySqlite(url.removeprefix("sqlite:///"), clock=client, wire=wire)
    else:
        dialect = FaultyPostgres(url, wire=wire)
    shown = "sqlite" if url.startswith("sqlite") else "postgres"
    return open_metastore(
        dialect, url=f"{shown}: simulated", clock=client, options=options, opening=Opening.CREATE
    )


class Wire:
    """What lies between the units of work and the database, and what a server remembers."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self._faults = faults
        self._clock = clock
        self._units = 0
        self._committed: set[int] = set()
        self.closes: Callable[[str], Exception] = RuntimeError

    def now_ms(self) -> int:
        """The server's clock."""
        return self._clock.now_ms()

    def asked(self, connection: Any, operation: str, subject: str) -> Fault | None:
        """What becomes of the next step; where it is refused the connection is lost."""
        fault = self._faults.before(operation, subject)
        if fault in (Fault.REFUSED, Fault.TORN) and connection is not None:
            raise self.lost(connection)
        return fault

    def lost(self, connection: Any) -> Exception:
        """Cut the connection; the server rolls back what was not committed."""
        connection.cut()
        return self.closes(_CLOSED)

    def begun(self, connection: Any, kind: UnitKind) -> Begun:
        """A unit begins on the connection; only what writes has an outcome to be looked up."""
        self._units += 1
        connection.unit, connection.kind = self._units, kind
        return Begun(self.now_ms(), None if kind is UnitKind.READ else self._units)

    def commit(self, connection: Any, take_effect: Callable[[], None]) -> None:
        """Commit, with what may happen around it."""
        fault = self.asked(connection, "commit", connection.kind.name)
        take_effect()
        self._committed.add(connection.unit)
        if fault is Fault.LOST:
            raise self.lost(connection)
        self._faults.after("commit", connection.kind.name)

    def outcome(self, unit: int) -> Outcome:
        """What the server remembers of a unit."""
        return Outcome.COMMITTED if unit in self._committed else Outcome.ROLLED_BACK


class FaultySqlite(SqliteDialect):
    """SQLite that behaves as a server behind a bad network."""

    def __init__(self, path: str, *, clock: Clock, wire: Wire) -> None:
        super().__init__(path, clock=clock, durable=False)
        self._wire = wire
        wire.closes = sqlite3.ProgrammingError

    def create_engine(self) -> Engine:
        """An engine whose connections ask the wire."""
        is_known = self._path in _IDLE
        self._lines = _IDLE.pop(self._path) if is_known else _Lines(super().create_engine())
        self._lines.wire = self._wire
        return self._lines.engine

    def close(self) -> None:
        """Close the file; the next metastore of this path goes on with what is compiled."""
        super().close()
        self._lines.close()
        _IDLE[self._path] = self._lines

    def begin(self, connection: Any, kind: UnitKind) -> Channel:
        """BEGIN, unless the connection fails."""
        self._wire.asked(connection, "begin", kind.name)
        super().begin(connection, kind)
        return Immediate(connection, self._wire.begun(connection, kind))

    def writer_turn(self) -> AbstractContextManager[Callable[[], None]]:
        """One client runs at a time."""
        return nullcontext(lambda: None)

    def statement_time_ms(self, begun_ms: int) -> int | None:
        """The server's clock."""
        del begun_ms
        return self._wire.now_ms()

    def look_up(self, connection: Any, unit: int) -> Outcome:
        """Ask the server, unless the connection fails."""
        self._wire.asked(connection, "look-up", "")
        return self._wire.outcome(unit)


class _Lines:
    """The connections of an engine. One that is lost, or given up, has its file open for the next:
    to open a file and to prepare all statements again takes longer than most units.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.wire: Wire | None = None
        self.free: list[_FaultySqliteConnection] = []
        lines = self

        class Connection(_FaultySqliteConnection):
            pass

        Connection.lines = lines

        def connecting(_dialect: Any, _record: Any, _args: Any, params: dict[str, Any]) -> Any:
            params["factory"] = Connection
            return lines.free.pop().again() if lines.free else None

        event.listen(engine, "do_connect", connecting)

    def close(self) -> None:
        while self.free:
            self.free.pop().hang_up()
        self.wire = None


_IDLE: Final[dict[str, _Lines]] = {}
"""Of closed metastores, by path: with its engine SQLAlchemy forgets what it has compiled."""


class _FaultySqliteConnection(sqlite3.Connection):
    lines: _Lines
    unit: int
    kind: UnitKind
    is_lost = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._cursors: WeakSet[Any] = WeakSet()

    @property
    def wire(self) -> Wire:
        """Of the metastore that is open now."""
        assert self.lines.wire is not None
        return self.lines.wire

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        """Cursors whose statements may fail."""
        if self.is_lost:
            raise sqlite3.ProgrammingError(_CLOSED)
        made = super().cursor(_FaultySqliteCursor, *args, **kwargs)
        self._cursors.add(made)
        return made

    def commit(self) -> None:
        """Commit, with faults."""
        if self.in_transaction:
            self.wire.commit(self, super().commit)

    def cut(self) -> None:
        """The connection is lost."""
        for cursor in list(self._cursors):  # what they have not read keeps a snapshot
            cursor.close()
        super().rollback()
        self.is_lost = True

    def close(self) -> None:
        """Whose it was gives it up."""
        if self not in self.lines.free:
            self.cut()
            self.lines.free.append(self)

    def again(self) -> _FaultySqliteConnection:
        """As good as a new one."""
        self.is_lost = False
        return self

    def hang_up(self) -> None:
        """Close the file."""
        super().close()


class _FaultySqliteCursor(sqlite3.Cursor):
    def execute(self, sql: str, *args: Any) -> Any:
        """Run it, unless the connection fails."""
        connection: Any = self.connection
        if connection.in_transaction:
            connection.wire.asked(connection, "statement", "")
        return super().execute(sql, *args)


class FaultyPostgres(PostgresDialect):
    """A real server behind a bad network; its time is that of the simulation."""

    def __init__(self, url: str, *, wire: Wire) -> None:
        super().__init__(make_url(url), durable=False, server_time=False)
        self._wire = wire

    def create_engine(self) -> Engine:
        """An engine whose connections ask the wire."""
        import psycopg

        engine = super().create_engine()
        wire = self._wire
        wire.closes = psycopg.OperationalError

        class Connection(psycopg.Connection[Any]):
            unit, kind = 0, UnitKind.READ

            def cut(self) -> None:
                super().rollback()
                super().close()

            def __del__(self, *_: object, **__: object) -> None:
                # The driver warns of what was in use when its pool was given up for a lost one.
                if hasattr(self, "pgconn"):
                    self.pgconn.finish()

        def connecting(_dialect: Any, _record: Any, args: Any, params: dict[str, Any]) -> Any:
            return Connection.connect(*args, **params)

        event.listen(engine, "do_connect", connecting)
        return engine

    def begin(self, connection: Any, kind: UnitKind) -> Channel:
        """BEGIN, unless the connection fails."""
        self._wire.asked(connection, "begin", kind.name)
        channel = super().begin(connection, kind)
        self._wire.begun(connection, kind)
        return _FaultyChannel(channel, connection, self._wire)

    def statement_time_ms(self, begun_ms: int) -> int | None:
        """The simulation's clock."""
        del begun_ms
        return self._wire.now_ms()

    def look_up(self, connection: Any, unit: int) -> Outcome:
        """Ask the server, unless the connection fails."""
        self._wire.asked(connection, "look-up", "")
        return super().look_up(connection, unit)


class _FaultyChannel(Channel):
    """Another one, with the simulation's time, whose commit may fail."""

    def __init__(self, channel: Channel, connection: Any, wire: Wire) -> None:
        self._channel = channel
        self._connection = connection
        self._wire = wire
        self._begun_ms = wire.now_ms()

    def begun(self) -> Begun:
        return Begun(self._begun_ms, self._channel.begun().id)

    def send(self, sql: str, values: Any = ()) -> Answer:
        return self._channel.send(sql, values)

    def send_many(self, sql: str, values: Sequence[Any]) -> None:
        self._channel.send_many(sql, values)

    def commit(self) -> None:
        self._wire.commit(self._connection, self._channel.commit)

    def roll_back(self) -> None:
        self._channel.roll_back()

    def abandon(self) -> None:
        self._channel.abandon()

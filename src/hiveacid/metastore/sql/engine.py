"""Units of work: each is one short database transaction, with the time it began.

``Database.write`` and ``Database.read`` hand out a ``Unit``. It runs SQLAlchemy Core statements
that are compiled once and then go straight to the driver: a commit is a dozen of them. A server is
waited for when an answer is looked at, and at the end: whoever asks first and looks later takes
fewer round trips. An exception rolls the unit back; the driver's own become ``MetastoreError``. A
unit that must keep its effects although the caller gets an error (an abort because of a conflict)
returns the error for the caller to raise.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Insert, insert, or_
from sqlalchemy import Table as SqlTable
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql import ClauseElement, ColumnElement

from hiveacid.clock import Clock
from hiveacid.errors import InvalidInputError, MetastoreError
from hiveacid.metastore.sql.dialect import Answer, Channel, Dialect, Outcome, Row, UnitKind
from hiveacid.metastore.upkeep import CompactionOptions
from hiveacid.model.transactions import LockSemantics

_T = TypeVar("_T")
_REPEATS: Final = 10
_REPEAT_PAUSE_S: Final = 0.01
_LOOK_UPS: Final = 8
_LOOK_UP_PAUSE_S: Final = 0.05
_IDLE_MAX: Final = 4
"""Connections that are kept for the next unit, and by no means more than SQLAlchemy's pool has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreOptions:
    """How the transaction manager behaves; defaults are Hive's (metastore.md). Times are ms.

    ``durable=False`` lets the database acknowledge commits before they are on disk: for tests
    alone. ``server_time=False`` takes the time from the clock handed in also where the database
    server has one of its own: for simulations.
    """

    txn_timeout_ms: int = 300_000
    repl_txn_timeout_ms: int = 950_400_000
    open_txn_timeout_ms: int = 1_000
    open_batch_max: int = 1_000
    use_min_history_level: bool = True
    lock_semantics: LockSemantics = LockSemantics.HIVE_4
    durable: bool = True
    server_time: bool = True
    compaction: CompactionOptions = field(default_factory=CompactionOptions)
    history_ms: int = 30 * 86_400_000
    """How long records of commits are kept, at least as long as ``retention_ms``, which is how long
    files are; properties of tables go before both.
    """
    retention_ms: int = 86_400_000


class Unit:
    """One database transaction. ``ask`` and ``run_many`` wait for nothing. A statement that is a
    constant of its module is compiled once.
    """

    __slots__ = (
        "_compiled",
        "begun_ms",
        "channel",
        "connection",
        "dialect",
        "of_hive",
        "options",
        "outlives_a_crash",
    )

    def __init__(
        self,
        connection: Connection,
        channel: Channel,
        *,
        dialect: Dialect,
        options: MetastoreOptions,
        begun_ms: int,
        compiled: WeakKeyDictionary[ClauseElement, _Compiled],
        of_hive: bool,
    ) -> None:
        self.connection = connection
        self.channel = channel
        self.dialect = dialect
        self.options = options
        self.begun_ms = begun_ms
        """When it began, by the clock handed in."""
        self.of_hive = of_hive
        """Whether the database is that of a Metastore of Hive's own, which works there, too."""
        self.outlives_a_crash = True
        """Whether anybody relies on it after the machine has lost its power; all who have a lock
        or only read are gone then. What is on disk later has it before it.
        """
        self._compiled = compiled

    @property
    def id(self) -> int | None:
        """What the unit can be looked up by afterwards."""
        return self.channel.begun().id

    @property
    def now_ms(self) -> int:
        """When it began, by the database's clock."""
        found = self.channel.begun().now_ms
        return self.begun_ms if found is None else found

    @property
    def statement_time_ms(self) -> int | None:
        """The parameter of ``server_now`` in a statement that must not take an earlier time."""
        return self.dialect.statement_time_ms(self.begun_ms)

    def exclude_opens(self) -> None:
        """No transaction is opened from here to the end of the unit, and none is being opened."""
        self.dialect.exclude_opens(self.channel)

    def ask(self, statement: ClauseElement, **params: object) -> Answer:
        """Send a statement whose answer is looked at later, or never."""
        compiled = self._compile(statement)
        return self.channel.send(compiled.sql, compiled.bind(params))

    def hold(self, statement: ClauseElement, **params: object) -> None:
        """Keep the rows of a query from other writers to the end of the unit."""
        if self.dialect.has_row_locks:
            self.ask(statement, **params)

    def run_many(self, statement: ClauseElement, params: Sequence[Mapping[str, object]]) -> None:
        """Run it once for each of ``params``."""
        if params:
            compiled = self._compile(statement)
            self.channel.send_many(compiled.sql, [compiled.bind(one) for one in params])

    def insert(self, table: SqlTable, rows: Sequence[Mapping[str, object]]) -> None:
        """Add rows, all of the same columns."""
        if rows:
            self.run_many(_insert_of(table, tuple(rows[0])), rows)

    def count(self, statement: ClauseElement, **params: object) -> int:
        """Run a statement; how many rows it touched."""
        return self.ask(statement, **params).count()

    def rows(self, statement: ClauseElement, **params: object) -> list[Row]:
        """All rows of a query."""
        return self.ask(statement, **params).rows()

    def row(self, statement: ClauseElement, **params: object) -> Row | None:
        """The first row."""
        return self.ask(statement, **params).row()

    def scalar(self, statement: ClauseElement, **params: object) -> Any:
        """The first column of the first row, None where there is none."""
        return self.ask(statement, **params).scalar()

    def _compile(self, statement: ClauseElement) -> _Compiled:
        compiled = self._compiled.get(statement)
        if compiled is None:
            compiled = _Compiled.of(statement, self.connection.dialect)
            self._compiled[statement] = compiled
        return compiled


class _Compiled:
    """A statement as the driver wants it."""

    __slots__ = ("_defaults", "_in_order", "sql")

    def __init__(self, sql: str, order: tuple[str, ...] | None, defaults: dict[str, Any]) -> None:
        self.sql = sql
        self._in_order = None if order is None else _getter(order)
        self._defaults = defaults

    @classmethod
    def of(cls, statement: ClauseElement, dialect: Any) -> _Compiled:
        compiled: Any = statement.compile(
            dialect=dialect, compile_kwargs={"render_postcompile": True}
        )
        order = tuple(compiled.positiontup) if compiled.positional else None
        return cls(str(compiled), order, dict(compiled.params))

    def bind(self, params: Mapping[str, object]) -> Any:
        values = {**self._defaults, **params}
        return values if self._in_order is None else self._in_order(values)


def _getter(names: tuple[str, ...]) -> Callable[[Mapping[str, object]], tuple[object, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)


@functools.cache
def _insert_of(table: SqlTable, columns: tuple[str, ...]) -> Insert:
    return insert(table).values(dict.fromkeys(columns))


_COMPILED: Final[dict[str, WeakKeyDictionary[ClauseElement, _Compiled]]] = {}
"""By driver, for as long as the statement is there: most are constants of their modules."""


def one_of(column: ColumnElement[Any], values: Iterable[object]) -> ColumnElement[bool]:
    """``column IN (values)`` for constant statements: IN itself is expanded at each call."""
    return or_(*(column == value for value in values))


class Database:
    """The database behind a metastore: hands out units of work."""

    def __init__(
        self, dialect: Dialect, *, url: str, clock: Clock, options: MetastoreOptions
    ) -> None:
        self.url = url
        self.clock = clock
        self.options = options
        self.dialect = dialect
        self.of_hive = False
        """As ``Unit.of_hive``; known once its tables were looked at."""
        dialect.check_is_ours_or_new()
        self._engine = dialect.create_engine()
        self._driver_error: type[Exception] = self._engine.dialect.loaded_dbapi.Error
        driver = f"{self._engine.dialect.name}+{self._engine.dialect.driver}"
        self._compiled = _COMPILED.setdefault(driver, WeakKeyDictionary())
        self._idle: deque[Connection] = deque()
        self._process = os.getpid()

    def write(self, *, opens: bool = False) -> AbstractContextManager[Unit]:
        """A unit that may write; committed at the end, rolled back on an exception.

        ``opens`` says that it opens transactions.
        """
        return self._writer(UnitKind.OPEN if opens else UnitKind.WRITE)

    def read(self) -> AbstractContextManager[Unit]:
        """A unit that only reads, in one snapshot of the database."""
        return self._unit(UnitKind.READ)

    def query(self) -> AbstractContextManager[Unit]:
        """A unit of ONE query: a round trip where ``read`` takes two."""
        return self._unit(UnitKind.QUERY)

    def schema_change(self) -> AbstractContextManager[Unit]:
        """A unit whose ``connection`` SQLAlchemy may use, for what makes and changes tables."""
        return self._writer(UnitKind.SCHEMA)

    def close(self) -> None:
        """Close all connections; those of the process that this one is a fork of stay its."""
        if self._process == os.getpid():
            self._forget_idle()
            self.dialect.close()

    def _check_process(self) -> None:
        """Two processes on one connection break the database, or take each other's answers.

        Raises:
            MetastoreError: this one is a fork of the one that has connected.
        """
        if self._process != os.getpid():
            raise MetastoreError(
                f"The metastore {self.url} was connected to by another process, of which this one"
                " is a fork",
                url=self.url,
                note="Connect in each process: hiveacid.connect(...) after the fork.",
            )

    @contextmanager
    def _writer(self, kind: UnitKind) -> Iterator[Unit]:
        self._check_process()
        with self.dialect.writer_turn() as let_through, self._unit(kind) as unit:
            yield unit
            let_through()
        if not unit.outlives_a_crash:
            return
        try:
            self.dialect.make_durable()
        except OSError as error:
            raise MetastoreError(
                f"The metastore {self.url} was written to, but it may not be on disk: {error}",
                url=self.url,
                outcome=Outcome.COMMITTED.name.lower(),
            ) from error

    @contextmanager
    def _unit(self, kind: UnitKind) -> Iterator[Unit]:
        unit = self._begin(kind)
        lost = is_done = False
        try:
            try:
                yield unit
                if kind not in (UnitKind.READ, UnitKind.QUERY):
                    _ = unit.id  # which is needed if the commit gets no answer
            except BaseException as error:
                lost = self._roll_back(unit, error)
                raise
            self._commit(unit, kind)
            is_done = kind is not UnitKind.SCHEMA and not unit.connection.invalidated
        except (SQLAlchemyError, self._driver_error) as error:
            raise self._failed(error, lost=lost) from error
        except UnicodeEncodeError as error:
            raise InvalidInputError("A text has half of a character, a surrogate") from error
        finally:
            if is_done:
                self._give_back(unit.connection)
            else:
                unit.connection.close()

    def _taken(self) -> Connection:
        """A connection that was used before, or a new one: SQLAlchemy's own pool takes longer to
        hand one out than many a unit to run.
        """
        try:
            return self._idle.pop()
        except IndexError:
            return self._engine.connect()

    def _give_back(self, connection: Connection) -> None:
        """Keep it for the next unit; of many the pool has to know, for whom waits for one."""
        pool: Any = self._engine.pool
        if pool.checkedout() <= _IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.close()

    def _forget_idle(self) -> None:
        """Close the connections that nobody uses."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()
        self._engine.dispose()

    def _begin(self, kind: UnitKind) -> Unit:
        self._check_process()
        try:
            connection = self._taken()
        except (SQLAlchemyError, self._driver_error) as error:
            raise self._failed(error) from error
        try:
            channel = self.dialect.begin(_raw(connection), kind)
        except BaseException as error:
            lost = self._drop_if_lost(connection, error)
            connection.close()
            if isinstance(error, self._driver_error):
                raise self._failed(error, lost=lost) from error
            raise
        return Unit(
            connection,
            channel,
            dialect=self.dialect,
            options=self.options,
            begun_ms=self.clock.now_ms(),
            compiled=self._compiled,
            of_hive=self.of_hive,
        )

    def _roll_back(self, unit: Unit, error: BaseException) -> bool:
        """Whether the connection is lost: the server rolls back what has lost its client."""
        if self._drop_if_lost(unit.connection, error):
            unit.channel.abandon()
            return True
        if unit.connection.invalidated:  # by SQLAlchemy, as after Ctrl-C
            return False
        try:
            unit.channel.roll_back()
        except self._driver_error:
            unit.connection.invalidate()
        return False

    def _commit(self, unit: Unit, kind: UnitKind) -> None:
        writes = kind not in (UnitKind.READ, UnitKind.QUERY)
        try:
            unit.channel.commit()
        except BaseException as error:
            if not self._drop_if_lost(unit.connection, error):
                self._roll_back(unit, error)
                raise
            unit.channel.abandon()
            if not isinstance(error, self._driver_error):
                raise
            if not writes:  # what was asked last is not answered
                raise self._failed(error, lost=True) from error
            self._look_up(unit, error)

    def _look_up(self, unit: Unit, error: Exception) -> None:
        """Return where the unit whose commit was not answered is committed.

        Raises:
            MetastoreError: it is not (then ``transient``), or nobody can tell.
        """
        outcome = Outcome.UNKNOWN
        for attempt in range(_LOOK_UPS if unit.id is not None else 0):
            if attempt:
                self.clock.sleep_s(_LOOK_UP_PAUSE_S * 2 ** min(attempt, 5))
            assert unit.id is not None
            outcome = self._outcome(unit.id)
            if outcome is not Outcome.UNKNOWN:
                break
        if outcome is not Outcome.COMMITTED:
            raise MetastoreError(
                f"The metastore {self.url} was lost during a commit, which is "
                f"{outcome.name.lower().replace('_', ' ')}: {error}",
                url=self.url,
                outcome=outcome.name.lower(),
                transient=outcome is Outcome.ROLLED_BACK,
            ) from error

    def _outcome(self, unit: int) -> Outcome:
        """What the database says of a unit; unknown where it cannot be asked now."""
        try:
            with self._engine.connect() as connection:
                try:
                    return self.dialect.look_up(_raw(connection), unit)
                except BaseException as error:
                    self._drop_if_lost(connection, error)
                    raise
        except (SQLAlchemyError, self._driver_error):
            return Outcome.UNKNOWN

    def _drop_if_lost(self, connection: Connection, error: BaseException) -> bool:
        """Take a connection that was cut, or is in an unknown state, out of the pool."""
        cause = getattr(error, "orig", None) or error
        if connection.invalidated:
            lost = isinstance(cause, self._driver_error)
        elif isinstance(cause, self._driver_error):
            raw = _raw(connection)
            is_disconnect: Any = self._engine.dialect.is_disconnect
            is_sent = not isinstance(cause, self._engine.dialect.loaded_dbapi.DataError)
            is_cut = is_sent and self.dialect.is_cut(cause)  # else a value that no driver sends
            lost = raw is None or is_disconnect(cause, raw, None) or is_cut
        else:
            lost = False
        if lost:
            connection.invalidate()
            self._forget_idle()  # they were cut with it
        return lost

    def _failed(self, error: Exception, *, lost: bool = False) -> MetastoreError:
        """What the driver says, as ours: the unit was rolled back."""
        cause = getattr(error, "orig", None) or error
        return MetastoreError(
            f"The metastore {self.url} failed: {cause}",
            note=self.dialect.advice(),
            url=self.url,
            outcome=Outcome.ROLLED_BACK.name.lower(),
            transient=lost or self.dialect.may_pass(cause),
        )


def _raw(connection: Connection) -> Any:
    """The driver's connection."""
    return connection.connection.dbapi_connection


class Part:
    """What each part of ``SqlMetastore`` has."""

    _db: Database


def repeats_transient(cls: type[_T]) -> type[_T]:
    """Class decorator: a public method runs again where a unit of it failed for what passes.

    That is a deadlock, a key that two clients inserted at once, or a connection lost before a
    commit or during one that did not take place. Nothing of the failed unit remains, and units of
    one method do not depend on each other.
    """
    for name in dir(cls):
        method = getattr(cls, name)
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(cls, name, _repeating(method))
    return cls


def _repeating(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def repeated(self: Any, *args: Any, **kwargs: Any) -> Any:
        for attempt in range(1, _REPEATS):
            try:
                return method(self, *args, **kwargs)
            except MetastoreError as error:
                if not error.context.get("transient"):
                    raise
            self.database.clock.sleep_s(_REPEAT_PAUSE_S * attempt)
        return method(self, *args, **kwargs)

    return repeated

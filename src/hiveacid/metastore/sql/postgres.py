"""PostgreSQL: many machines, row locks, the server's clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Final

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from hiveacid.errors import InvalidInputError, MissingExtraError
from hiveacid.metastore.sql.dialect import (
    Answer,
    Begun,
    Channel,
    Dialect,
    Immediate,
    Outcome,
    Row,
    UnitKind,
)
from hiveacid.model.readable import at

_SCHEMA_LOCK: Final = 0x68697665  # "hive"
_DEADLOCK, _SERIALIZATION, _UNIQUE = "40P01", "40001", "23505"
_MAY_PASS: Final = frozenset({_DEADLOCK, _SERIALIZATION, _UNIQUE})
_NOW: Final = "round(extract(epoch from clock_timestamp()) * 1000)::bigint"
_ID: Final = "pg_current_xact_id()::text::bigint"
_BEGIN_WRITE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_WHEN_AND_WHO: Final[Mapping[UnitKind, str]] = {
    UnitKind.READ: f"SELECT {_NOW}, NULL",
    UnitKind.WRITE: f"SELECT {_NOW}, {_ID}",
    UnitKind.OPEN: f"SELECT {_NOW}, {_ID}",
}
# A client that is stopped in the middle of a unit must not stop the others for ever.
_SESSION: Final = (
    "SET lock_timeout = '60s'; SET idle_in_transaction_session_timeout = '60s'; "
    "SET timezone = 'UTC'; SET jit = off"
)


class PostgresDialect(Dialect):
    """READ COMMITTED with row locks for writers, as Hive does; one snapshot for readers.

    Why not SERIALIZABLE: the protocol takes its decisions behind locks (the transaction's own row,
    the sequence rows, TXN_LOCK_TBL), and each statement behind a lock must see what was committed
    before the lock was granted; a stricter level would take its snapshot too early and abort.

    ``server_time``: the time is the server's, so that a client whose clock is wrong harms nobody.
    """

    has_row_locks = True

    def __init__(self, url: URL, *, durable: bool, server_time: bool) -> None:
        self._url = url
        self._durable = durable
        self._server_time = server_time

    def create_engine(self) -> Engine:
        """A pool of connections in autocommit mode: units begin by themselves."""
        try:
            engine = create_engine(
                self._url,
                isolation_level="AUTOCOMMIT",
                use_native_hstore=False,
                connect_args={"connect_timeout": 10, "application_name": "hiveacid"},
                pool_size=5,
                max_overflow=10,
                pool_timeout=60,
                pool_use_lifo=True,
            )
        except (ModuleNotFoundError, NoSuchModuleError) as error:
            raise MissingExtraError(
                f"The driver of {self._url.drivername} is not installed: {error}",
                note="pip install 'hiveacid[postgres]'",
            ) from error
        except (ArgumentError, TypeError) as error:
            raise InvalidInputError(f"The URL of the metastore is wrong: {error}") from error
        event.listen(engine, "connect", self._on_connect)
        return engine

    def _on_connect(self, connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute(_SESSION)
        if not self._durable:
            cursor.execute("SET synchronous_commit = off")
        cursor.close()

    def begin(self, connection: Any, kind: UnitKind) -> Channel:
        """Begin, and ask for the time and the id by which the outcome can be looked up."""
        if kind is UnitKind.QUERY:
            return Immediate(connection, Begun())
        if kind is UnitKind.SCHEMA:
            connection.execute(_BEGIN_WRITE)
            return Immediate(connection, Begun())
        channel = Pipelined(connection, server_time=self._server_time)
        try:
            channel.begin(kind)
        except BaseException:
            channel.abandon()
            raise
        return channel

    def statement_time_ms(self, begun_ms: int) -> int | None:
        """The server's clock when the statement comes to it, not when its transaction began."""
        return None if self._server_time else begun_ms

    def exclude_opens(self, channel: Channel) -> None:
        """Hive's lock, which opening transactions take in SHARE mode."""
        channel.send('LOCK TABLE "TXN_LOCK_TBL" IN EXCLUSIVE MODE')

    def serialize_schema_changes(self, channel: Channel) -> None:
        """An advisory lock: there may be no table yet that could be locked."""
        channel.send(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})")

    def is_cut(self, error: BaseException) -> bool:
        """What the server calls FATAL or PANIC, and what it does not say: of a pipeline that broke
        the driver tells that it has no result, or cannot leave it.
        """
        said: Any = error
        return bool(said.diag.severity_nonlocalized != "ERROR")

    def may_pass(self, error: BaseException) -> bool:
        """Deadlock, serialization failure, and a key that another client inserted just now."""
        return getattr(error, "sqlstate", None) in _MAY_PASS

    def look_up(self, connection: Any, unit: int) -> Outcome:
        """Ask the server; one that is still busy with it has not decided."""
        asked = connection.execute(f"SELECT pg_xact_status('{unit:d}'::xid8)")
        (state,) = asked.fetchone()
        return {"committed": Outcome.COMMITTED, "aborted": Outcome.ROLLED_BACK}.get(
            state, Outcome.UNKNOWN
        )

    def set_next_txn_id(self, channel: Channel, next_id: int) -> None:
        """Set the sequence, whatever its name (fresh and upgraded schemas of Hive differ)."""
        channel.send(
            f"SELECT setval(pg_get_serial_sequence('\"TXNS\"', 'TXN_ID'), {next_id:d}, false)"
        )

    def timestamp(self, epoch_ms: int) -> Any:
        """Without time zone, UTC."""
        return at(epoch_ms).replace(tzinfo=None)

    def table_names(self, channel: Channel) -> frozenset[str]:
        """Of the schema that new tables would go to."""
        asked = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        return frozenset(str(row[0]) for row in channel.send(asked).rows())


class Pipelined(Channel):
    """The protocol's pipeline mode: what is sent is on its way at once, answers are waited for
    together. A unit takes a round trip for each look at an answer that is not here, and the last.
    """

    def __init__(self, connection: Any, *, server_time: bool) -> None:
        self._connection = connection
        self._server_time = server_time
        self._mode = ExitStack()
        self._pipeline = self._mode.enter_context(connection.pipeline())
        self._answered = 0
        self._when_and_who: Answer | None = None
        self._begun: Begun | None = None

    def begin(self, kind: UnitKind) -> None:
        """Begin a transaction; one that opens ours keeps out the commits that must know of it."""
        self._send(_BEGIN_READ if kind is UnitKind.READ else _BEGIN_WRITE)
        if kind is UnitKind.OPEN:
            self._send('LOCK TABLE "TXN_LOCK_TBL" IN SHARE MODE')
        self._when_and_who = self.send(_WHEN_AND_WHO[kind])

    def begun(self) -> Begun:
        if self._begun is None:
            assert self._when_and_who is not None
            ((now_ms, unit),) = self._when_and_who.rows()
            self._begun = Begun(now_ms if self._server_time else None, unit)
        return self._begun

    def send(self, sql: str, values: Any = ()) -> Answer:
        cursor = self._connection.cursor()
        cursor.execute(sql, values)
        return _Pending(self, cursor, self._answered)

    def send_many(self, sql: str, values: Sequence[Any]) -> None:
        self._connection.cursor().executemany(sql, values)

    def wait(self, sent: int) -> None:
        """Let all be answered that was sent so far, unless what was sent then is answered."""
        if sent == self._answered:
            self._answered += 1
            self._pipeline.sync()

    def commit(self) -> None:
        self._send("COMMIT")
        self._answered += 1
        self._mode.close()

    def roll_back(self) -> None:
        self.abandon()
        self._connection.rollback()

    def abandon(self) -> None:
        with suppress(self._connection.Error):
            self._mode.close()

    def _send(self, command: str) -> None:
        """A command that the server need not remember."""
        self._connection.cursor().execute(command, prepare=False)


class _Pending(Answer):
    """An answer that may be under way."""

    __slots__ = ("_channel", "_cursor", "_sent")

    def __init__(self, channel: Pipelined, cursor: Any, sent: int) -> None:
        self._channel = channel
        self._cursor = cursor
        self._sent = sent

    def rows(self) -> list[Row]:
        self._channel.wait(self._sent)
        return list(self._cursor.fetchall())

    def count(self) -> int:
        self._channel.wait(self._sent)
        return int(self._cursor.rowcount)

"""PostgreSQL: many machines, row locks, the server's clock."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timezone
from typing import Any, Final

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from hiveacid.errors import InvalidInputError, MissingExtraError
from hiveacid.metastore.sql.dialect import Begun, Outcome, UnitKind

_SCHEMA_LOCK: Final = 0x68697665  # "hive"
_DEADLOCK, _SERIALIZATION, _UNIQUE = "40P01", "40001", "23505"
_MAY_PASS: Final = frozenset({_DEADLOCK, _SERIALIZATION, _UNIQUE})
_NOW: Final = "round(extract(epoch from clock_timestamp()) * 1000)::bigint"
_ID: Final = "pg_current_xact_id()::text::bigint"
_BEGIN_WRITE: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# One round trip each.
_BEGIN: Final[Mapping[UnitKind, str]] = {
    UnitKind.READ: f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT NULL, {_NOW}",
    UnitKind.WRITE: f"{_BEGIN_WRITE}; SELECT {_ID}, {_NOW}",
    UnitKind.OPEN: (
        f'{_BEGIN_WRITE}; LOCK TABLE "TXN_LOCK_TBL" IN SHARE MODE; SELECT {_ID}, {_NOW}'
    ),
}
# A client that is stopped in the middle of a unit must not stop the others for ever.
_SESSION: Final = (
    "SET lock_timeout = '60s'; SET idle_in_transaction_session_timeout = '60s'; "
    "SET timezone = 'UTC'; SET jit = off"
)


class PostgresDialect:
    """READ COMMITTED with row locks for writers, as Hive does; one snapshot for readers.

    Why not SERIALIZABLE: the protocol takes its decisions behind locks (the transaction's own row,
    the sequence rows, TXN_LOCK_TBL), and each statement behind a lock must see what was committed
    before the lock was granted; a stricter level would take its snapshot too early and abort.

    ``server_time``: the time is the server's, so that a client whose clock is wrong harms nobody.
    """

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

    def close(self) -> None:
        """There are connections alone."""

    def begin(self, cursor: Any, kind: UnitKind) -> Begun:
        """Begin, and learn the time and the id by which the outcome can be looked up."""
        if kind is UnitKind.QUERY:
            return Begun()
        cursor.execute(_BEGIN[kind], prepare=False)
        while cursor.nextset():
            pass
        unit, now_ms = cursor.fetchone()
        return Begun(now_ms if self._server_time else None, unit)

    def writer_turn(self) -> AbstractContextManager[object]:
        """Writers meet at row locks."""
        return nullcontext()

    def server_time_ms(self, cursor: Any) -> int | None:
        """The server's clock, not the time its transaction began."""
        if not self._server_time:
            return None
        return int(cursor.execute(f"SELECT {_NOW}").fetchone()[0])

    def pipeline(self, connection: Any) -> AbstractContextManager[object]:
        """The protocol's pipeline mode."""
        pipelined: AbstractContextManager[object] = connection.pipeline()
        return pipelined

    def exclude_opens(self, cursor: Any) -> None:
        """Hive's lock, which opening transactions take in SHARE mode."""
        cursor.execute('LOCK TABLE "TXN_LOCK_TBL" IN EXCLUSIVE MODE')

    def serialize_schema_changes(self, cursor: Any) -> None:
        """An advisory lock: there may be no table yet that could be locked."""
        cursor.execute(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})")

    def may_pass(self, error: BaseException) -> bool:
        """Deadlock, serialization failure, and a key that another client inserted just now."""
        return getattr(error, "sqlstate", None) in _MAY_PASS

    def look_up(self, cursor: Any, unit: int) -> Outcome:
        """Ask the server; one that is still busy with it has not decided."""
        (state,) = cursor.execute(f"SELECT pg_xact_status('{unit:d}'::xid8)").fetchone()
        return {"committed": Outcome.COMMITTED, "aborted": Outcome.ROLLED_BACK}.get(
            state, Outcome.UNKNOWN
        )

    def set_next_txn_id(self, cursor: Any, next_id: int) -> None:
        """Set the sequence, whatever its name (fresh and upgraded schemas of Hive differ)."""
        cursor.execute(
            f"SELECT setval(pg_get_serial_sequence('\"TXNS\"', 'TXN_ID'), {next_id:d}, false)"
        )

    def next_txn_id(self, cursor: Any) -> int:
        """Look at the sequence without taking from it."""
        (name,) = cursor.execute("SELECT pg_get_serial_sequence('\"TXNS\"', 'TXN_ID')").fetchone()
        last, called = cursor.execute(f"SELECT last_value, is_called FROM {name}").fetchone()
        return int(last) + int(called)

    def timestamp(self, epoch_ms: int) -> Any:
        """Without time zone, UTC."""
        return datetime.fromtimestamp(epoch_ms / 1000, timezone.utc).replace(tzinfo=None)

    def check_is_ours_or_new(self) -> None:
        """The tables tell."""

    def table_names(self, cursor: Any) -> frozenset[str]:
        """Of the schema that new tables would go to."""
        rows = cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        return frozenset(str(row[0]) for row in rows)

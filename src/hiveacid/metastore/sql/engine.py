"""Units of work: each is one short database transaction, with the time it began.

``Database.write`` and ``Database.read`` hand out a ``Unit``. It runs SQLAlchemy Core statements
that are compiled
once and then go straight to the driver: a commit is a dozen of them. An exception rolls the unit
back; the
driver's own become ``MetastoreError`` here. A unit that must keep its effects although the
caller gets an error (an abort because of a conflict) returns the error for the caller to raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, or_, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import Table
from sqlalchemy.sql import ClauseElement, ColumnElement

from hiveacid.clock import Clock
from hiveacid.errors import MetastoreError
from hiveacid.metastore.sql import catalog_schema, schema
from hiveacid.metastore.sql.dialect import Dialect
from hiveacid.model.locks import LockSemantics

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreOptions:
    """How the transaction manager behaves; defaults are Hive's (metastore.md). Times are ms.

    ``durable=False`` lets SQLite acknowledge commits before they are on disk: for tests alone.
    """

    txn_timeout_ms: int = 300_000
    repl_txn_timeout_ms: int = 950_400_000
    open_txn_timeout_ms: int = 1_000
    open_batch_max: int = 1_000
    use_min_history_level: bool = True
    lock_semantics: LockSemantics = LockSemantics.HIVE_4
    durable: bool = True


class Unit:
    """One database transaction; ``now_ms`` is the clock when it began."""

    __slots__ = ("_compiled", "_dialect_of_core", "connection", "cursor", "dialect", "now_ms")

    def __init__(
        self,
        connection: Connection,
        cursor: Any,
        *,
        dialect: Dialect,
        now_ms: int,
        compiled: dict[ClauseElement, _Compiled],
    ) -> None:
        self.connection = connection
        self.cursor = cursor
        self.dialect = dialect
        self.now_ms = now_ms
        self._compiled = compiled
        self._dialect_of_core = connection.dialect

    def run(self, statement: ClauseElement, **params: object) -> int:
        """Run a statement that is a constant of its module; how many rows it touched."""
        sql, values = self._prepare(statement, params)
        self.cursor.execute(sql, values)
        return int(self.cursor.rowcount)

    def run_many(self, statement: ClauseElement, params: Sequence[Mapping[str, object]]) -> None:
        """Run it once for each of ``params``."""
        if not params:
            return
        compiled = self._compile(statement)
        self.cursor.executemany(compiled.sql, [compiled.bind(one) for one in params])

    def rows(self, statement: ClauseElement, **params: object) -> list[Row]:
        """All rows of a query that is a constant of its module."""
        sql, values = self._prepare(statement, params)
        self.cursor.execute(sql, values)
        return list(self.cursor.fetchall())

    def row(self, statement: ClauseElement, **params: object) -> Row | None:
        """The first row."""
        sql, values = self._prepare(statement, params)
        self.cursor.execute(sql, values)
        found = self.cursor.fetchone()
        return None if found is None else tuple(found)

    def scalar(self, statement: ClauseElement, **params: object) -> Any:
        """The first column of the first row, None where there is none."""
        found = self.row(statement, **params)
        return None if found is None else found[0]

    def query(self, statement: Any) -> list[Row]:
        """All rows of a query made for the occasion."""
        return [tuple(row) for row in self.connection.execute(statement)]

    def change(self, statement: Any) -> int:
        """Run a statement made for the occasion; how many rows it touched."""
        return int(self.connection.execute(statement).rowcount)

    def insert_returning_id(self, statement: ClauseElement, **params: object) -> int:
        """Run an INSERT ... RETURNING of one generated id."""
        sql, values = self._prepare(statement, params)
        self.cursor.execute(sql, values)
        return int(self.cursor.fetchone()[0])

    def _prepare(self, statement: ClauseElement, params: Mapping[str, object]) -> tuple[str, Any]:
        compiled = self._compile(statement)
        return compiled.sql, compiled.bind(params)

    def _compile(self, statement: ClauseElement) -> _Compiled:
        compiled = self._compiled.get(statement)
        if compiled is None:
            compiled = _Compiled.of(statement, self._dialect_of_core)
            self._compiled[statement] = compiled
        return compiled


class _Compiled:
    """A statement as the driver wants it."""

    __slots__ = ("_defaults", "_order", "sql")

    def __init__(self, sql: str, order: tuple[str, ...] | None, defaults: dict[str, Any]) -> None:
        self.sql = sql
        self._order = order
        self._defaults = defaults

    @classmethod
    def of(cls, statement: ClauseElement, dialect: Any) -> _Compiled:
        compiled: Any = statement.compile(dialect=dialect)
        order = tuple(compiled.positiontup) if compiled.positional else None
        return cls(str(compiled), order, dict(compiled.params))

    def bind(self, params: Mapping[str, object]) -> Any:
        values = {**self._defaults, **params}
        return values if self._order is None else tuple(values[name] for name in self._order)


def one_of(column: ColumnElement[Any], values: Iterable[object]) -> ColumnElement[bool]:
    """``column IN (values)`` for constant statements: IN itself is expanded at each call."""
    return or_(*(column == value for value in values))


class Database:
    """The database behind a metastore: checks that it is ours, hands out units of work."""

    def __init__(
        self, dialect: Dialect, *, url: str, clock: Clock, options: MetastoreOptions
    ) -> None:
        self.url = url
        self.clock = clock
        self.options = options
        self.dialect = dialect
        dialect.check_is_ours_or_new()
        self._engine = dialect.create_engine()
        self._driver_error: type[Exception] = self._engine.dialect.loaded_dbapi.Error
        self._compiled: dict[ClauseElement, _Compiled] = {}
        try:
            self._check_or_create()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def write(self) -> Iterator[Unit]:
        """A unit that may write; committed at the end, rolled back on an exception."""
        with self.dialect.writer_turn(), self._unit(write=True) as unit:
            yield unit

    @contextmanager
    def read(self) -> Iterator[Unit]:
        """A unit that only reads, in one snapshot of the database."""
        with self._unit(write=False) as unit:
            yield unit

    def table_rows(self, name: str) -> list[dict[str, Any]]:
        """All rows of one table, for inspection and tests."""
        table = schema.METADATA.tables[name]
        columns = [column.name for column in table.columns]
        with self.read() as unit:
            return [dict(zip(columns, row, strict=True)) for row in unit.query(select(table))]

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextmanager
    def _unit(self, *, write: bool) -> Iterator[Unit]:
        try:
            with self._engine.connect() as connection:
                raw: Any = connection.connection.dbapi_connection
                cursor = raw.cursor()
                self.dialect.begin(cursor, write=write)
                try:
                    yield Unit(
                        connection,
                        cursor,
                        dialect=self.dialect,
                        now_ms=self.clock.now_ms(),
                        compiled=self._compiled,
                    )
                except BaseException:
                    raw.rollback()
                    raise
                raw.commit()
                cursor.close()
        except (SQLAlchemyError, self._driver_error) as error:
            raise MetastoreError(
                f"The metastore {self.url} failed: {error}", url=self.url
            ) from error

    def _check_or_create(self) -> None:
        with self.read() as unit:
            tables = self.dialect.table_names(unit.cursor)
            if schema.HIVEACID_VERSION.name in tables:
                self._check_version(unit)
                return
        with self.write() as unit:
            tables = self.dialect.table_names(unit.cursor)
            if schema.HIVEACID_VERSION.name in tables:
                self._check_version(unit)
                return
            if tables:
                raise MetastoreError(
                    f"{self.url} is not a metastore of hiveacid: it holds other tables "
                    f"({', '.join(sorted(tables)[:3])}) and no {schema.HIVEACID_VERSION.name}",
                    url=self.url,
                )
            schema.METADATA.create_all(unit.connection, checkfirst=False)
            for table, row in _SEED_ROWS:
                unit.change(insert(table).values(**row))

    def _check_version(self, unit: Unit) -> None:
        found = unit.query(select(schema.HIVEACID_VERSION.c.SCHEMA_VERSION))
        version = max((int(row[0]) for row in found), default=0)
        if version > schema.SCHEMA_VERSION:
            raise MetastoreError(
                f"The metastore {self.url} has schema version {version}, newer than the version "
                f"{schema.SCHEMA_VERSION} that this hiveacid knows",
                url=self.url,
                found=version,
                known=schema.SCHEMA_VERSION,
                note="Upgrade hiveacid.",
            )


_SEED_ROWS: Sequence[tuple[Table, Mapping[str, object]]] = (
    (schema.HIVEACID_VERSION, {"SCHEMA_VERSION": schema.SCHEMA_VERSION}),
    (
        catalog_schema.VERSION,
        {"VER_ID": 1, "SCHEMA_VERSION": "4.1.0", "VERSION_COMMENT": "Hive release version 4.1.0"},
    ),
    (
        schema.TXNS,
        {
            "TXN_ID": 0,
            "TXN_STATE": "c",
            "TXN_STARTED": 0,
            "TXN_LAST_HEARTBEAT": 0,
            "TXN_USER": "",
            "TXN_HOST": "",
        },
    ),
    (schema.TXN_LOCK_TBL, {"TXN_LOCK": 1}),
    (schema.NEXT_LOCK_ID, {"NL_NEXT": 1}),
    (schema.NEXT_COMPACTION_QUEUE_ID, {"NCQ_NEXT": 1}),
)

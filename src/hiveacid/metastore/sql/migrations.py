"""The schema of a metastore: made, checked, brought up to date; migrations as data.

A migration names what a version of the schema added; the definitions are those of ``schema.py``
and ``catalog_schema.py``. What is there already is left alone, so that one that was interrupted
can be applied again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from sqlalchemy import Connection, insert, inspect, select, update
from sqlalchemy.schema import CreateColumn, Index, Table

from hiveacid.errors import MetastoreError, NotFoundError
from hiveacid.metastore.sql import catalog_schema, schema
from hiveacid.metastore.sql.engine import Database, Unit


class Opening(Enum):
    """What to do where the schema is not there, or older."""

    CREATE = auto()
    """make a new one; an older one is refused"""
    EXISTING = auto()
    """refuse both"""
    UPGRADE = auto()
    """bring an older one up to date; none is refused"""


@dataclass(frozen=True, slots=True)
class Migration:
    """What a version added: tables, columns as ``table.column``."""

    version: int
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


MIGRATIONS: Final[tuple[Migration, ...]] = (
    Migration(2, tables=("TAB_COL_STATS", "PART_COL_STATS")),
    Migration(3, tables=("HIVEACID_STREAM_BATCHES",)),
    Migration(
        4,
        tables=(
            "HIVEACID_COMMIT_CLOCK",
            "HIVEACID_COMMITS",
            "HIVEACID_DEFINITIONS",
            "HIVEACID_DROPPED_PARTITIONS",
            "HIVEACID_FLOORS",
            "HIVEACID_PINS",
        ),
    ),
    Migration(5, columns=("HIVEACID_STREAM_BATCHES.SB_TABLE_ID",)),
    Migration(6, tables=("HIVEACID_PARTITIONS_SINCE",)),
)
"""From version 1 on, in order; the last one's version is ``schema.SCHEMA_VERSION``."""


def prepare(database: Database, opening: Opening) -> None:
    """See to it that the schema is there and of our version.

    Raises:
        MetastoreError: something else is there, or a newer schema; or as ``opening`` says.
    """
    with database.read() as unit:
        version = _version(database, unit)
    if version == schema.SCHEMA_VERSION:
        return
    if version is None and opening is not Opening.CREATE:
        raise no_metastore(database.url)
    if version is not None and opening is not Opening.UPGRADE:
        raise MetastoreError(
            f"The metastore {database.url} has schema version {version}, older than the version "
            f"{schema.SCHEMA_VERSION} of this hiveacid",
            note=f"hiveacid metastore upgrade {database.url}",
            url=database.url,
            found=version,
            known=schema.SCHEMA_VERSION,
        )
    with database.schema_change() as unit:
        database.dialect.serialize_schema_changes(unit.channel)
        version = _version(database, unit)
        if version is None:
            _create(unit)
        else:
            _upgrade(unit, version)


def no_metastore(url: str) -> NotFoundError:
    """What to raise where one should be."""
    return NotFoundError(
        f"There is no metastore at {url}",
        note="`hiveacid metastore init` makes one, and so does hiveacid.connect with a warehouse.",
        url=url,
    )


def schema_differences(database: Database) -> tuple[str, ...]:
    """What the declared schema has and the database has not, in words; empty where all is well."""
    with database.schema_change() as unit:
        found = _Found(unit.connection)
        return tuple(
            f"{kind} {name} is missing"
            for kind, names in (
                ("table", sorted(schema.METADATA.tables)),
                ("column", _all_columns()),
                ("index", sorted(_indexes())),
            )
            for name in names
            if not found.has(kind, name)
        )


def _version(database: Database, unit: Unit) -> int | None:
    """The version of the schema that is there, None where nothing is."""
    tables = database.dialect.table_names(unit.channel)
    if schema.HIVEACID_VERSION.name not in tables:
        if not tables:
            return None
        raise MetastoreError(
            f"{database.url} is not a metastore of hiveacid: it holds other tables "
            f"({', '.join(sorted(tables)[:3])}) and no {schema.HIVEACID_VERSION.name}",
            url=database.url,
        )
    rows = unit.rows(select(schema.HIVEACID_VERSION.c.SCHEMA_VERSION))
    version = max((int(row[0]) for row in rows), default=0)
    if version > schema.SCHEMA_VERSION:
        raise MetastoreError(
            f"The metastore {database.url} has schema version {version}, newer than the version "
            f"{schema.SCHEMA_VERSION} that this hiveacid knows",
            url=database.url,
            found=version,
            known=schema.SCHEMA_VERSION,
            note="Upgrade hiveacid.",
        )
    return version


def _create(unit: Unit) -> None:
    schema.METADATA.create_all(unit.connection, checkfirst=False)
    _seed(unit)


def _seed(unit: Unit, name: str | None = None) -> None:
    """The rows that a new table begins with; those of all tables where None."""
    for table, row in _SEED_ROWS:
        if name in (None, table.name):
            unit.ask(insert(table).values(**row))


def _upgrade(unit: Unit, version: int) -> None:
    for migration in MIGRATIONS:
        if migration.version <= version:
            continue
        found = _Found(unit.connection)
        for name in migration.tables:
            if not found.has("table", name):
                schema.METADATA.tables[name].create(unit.connection, checkfirst=False)
                _seed(unit, name)
        for name in migration.columns:
            if not found.has("column", name):
                _add_column(unit.connection, name)
    unit.ask(update(schema.HIVEACID_VERSION).values(SCHEMA_VERSION=schema.SCHEMA_VERSION))


def _add_column(connection: Connection, name: str) -> None:
    table_name, _, column_name = name.partition(".")
    table = schema.METADATA.tables[table_name]
    quoted = connection.dialect.identifier_preparer.format_table(table)
    definition = CreateColumn(table.columns[column_name]).compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE {quoted} ADD COLUMN {definition}")


class _Found:
    """What is in the database."""

    def __init__(self, connection: Connection) -> None:
        inspector: Any = inspect(connection)
        tables = inspector.get_table_names()
        self._names = {
            "table": frozenset(tables),
            "column": frozenset(
                f"{table}.{column['name']}"
                for table in tables
                for column in inspector.get_columns(table)
            ),
            "index": frozenset(
                index["name"] for table in tables for index in inspector.get_indexes(table)
            ),
        }

    def has(self, kind: str, name: str) -> bool:
        return name in self._names[kind]


def _all_columns() -> list[str]:
    return [
        f"{table.name}.{column.name}"
        for table in schema.METADATA.sorted_tables
        for column in table.columns
    ]


def _indexes() -> dict[str, Index]:
    return {
        str(index.name): index
        for table in schema.METADATA.tables.values()
        for index in table.indexes
    }


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
    (catalog_schema.HIVEACID_COMMIT_CLOCK, {"HK_SEQ": 0, "HK_TIME": 0}),
)

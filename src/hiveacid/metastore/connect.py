"""From a URL to a metastore: ``SqlMetastore``, the parts of ``sql/`` put together, over a schema
that is made, checked and brought up to date; migrations are data.

A migration names what a version of the schema added; the definitions are those of ``schema.py`` and
``catalog_schema.py``. What is there already is left alone, so that one that was interrupted can be
applied again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import Any, Final

from sqlalchemy import Connection, inspect, select, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.schema import CreateColumn, Index, Table

from hiveacid.clock import Clock
from hiveacid.errors import InvalidInputError, MetastoreError, NotFoundError, UnsupportedError
from hiveacid.metastore.sql import beside_hive, catalog_schema, schema
from hiveacid.metastore.sql.cleaning import SqlCleaning
from hiveacid.metastore.sql.compactions import SqlCompactions
from hiveacid.metastore.sql.conflicts import SqlCommits
from hiveacid.metastore.sql.databases import SqlDatabases
from hiveacid.metastore.sql.dialect import Dialect
from hiveacid.metastore.sql.engine import Database, MetastoreOptions, Unit, repeats_transient
from hiveacid.metastore.sql.history import SqlHistory
from hiveacid.metastore.sql.housekeeping import SqlHousekeeping
from hiveacid.metastore.sql.locks import SqlLocks
from hiveacid.metastore.sql.partitions import SqlPartitions
from hiveacid.metastore.sql.pins import SqlPins
from hiveacid.metastore.sql.postgres import PostgresDialect
from hiveacid.metastore.sql.sqlite import SqliteDialect
from hiveacid.metastore.sql.statistics import SqlStatistics, SqlStreamBatches
from hiveacid.metastore.sql.tables import SqlTables
from hiveacid.metastore.sql.txns import SqlTxns
from hiveacid.metastore.sql.write_ids import SqlWriteIds


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
    """What a version added: tables, columns as ``table.column``, indexes."""

    version: int
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()


_HIVES: Final = frozenset({"4.1.0", "4.2.0"})
"""Their schemas are the same."""
OF_HIVE: Final = -1
"""The version of what Hive's schematool makes: its tables, and none of ours."""
_OF_OURS: Final = Migration(
    1,
    tables=("HIVEACID_VERSION",),
    indexes=(
        "HIVEACID_COMPLETED_NEWEST",
        "HIVEACID_TXNS_STARTED",
        "HIVEACID_WRITE_SET_TABLE",
        "HIVEACID_WRITE_SET_TXN",
    ),
)
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
        MetastoreError: something else is there, or a newer schema, or an older one that lacks
        something; or as ``opening`` says.
    """
    with database.read() as unit:
        version = _version(database, unit)
    if version == schema.SCHEMA_VERSION:
        return
    if version is None and opening is not Opening.CREATE:
        raise no_metastore(database.url)
    if version == OF_HIVE and opening is not Opening.UPGRADE:
        raise MetastoreError(
            f"{database.url} is the database of a Metastore of Hive's, to which nothing of hiveacid"
            " was added yet",
            note=f"`hiveacid metastore upgrade {database.url}` adds tables of its own, HIVEACID_..."
            ", and four indexes; Hive's tables stay as they are",
            url=database.url,
        )
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
            if wrong := _differences(unit):
                found = f"schema version {version}, but not all of it"
                if version == OF_HIVE:
                    found = "the schema of another Hive than 4.1"
                raise MetastoreError(
                    f"The metastore {database.url} has {found}, and was left as it is: "
                    f"{', '.join(wrong)}",
                    url=database.url,
                    found=version,
                )


def no_metastore(url: str) -> NotFoundError:
    """What to raise where one should be."""
    return NotFoundError(
        f"There is no metastore at {url}",
        note="`hiveacid metastore init` makes one, and so does hiveacid.connect with a warehouse.",
        url=url,
    )


def schema_differences(database: Database) -> tuple[str, ...]:
    """What the declared schema has and the database has not, and what of it is damaged, in words;
    empty where all is well.
    """
    with database.schema_change() as unit:
        unit.outlives_a_crash = False  # it writes nothing
        return (*database.dialect.damage(unit.channel), *_differences(unit))


def _differences(unit: Unit) -> tuple[str, ...]:
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
    database.of_hive = beside_hive.KEY_CONSTRAINTS.name in tables
    if database.of_hive:
        _check_hives_version(database, unit)
    if schema.HIVEACID_VERSION.name not in tables:
        if not tables:
            return None
        if database.of_hive:
            return OF_HIVE
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


def _check_hives_version(database: Database, unit: Unit) -> None:
    """Raises: MetastoreError: its services are of a Hive that may keep other things there."""
    found = {str(row[0]) for row in unit.rows(select(catalog_schema.VERSION.c.SCHEMA_VERSION))}
    if not found <= _HIVES:
        raise MetastoreError(
            f"{database.url} is the database of a Metastore of Hive's of schema version "
            f"{', '.join(sorted(found))}; known are {', '.join(sorted(_HIVES))}",
            url=database.url,
        )


def _create(unit: Unit) -> None:
    schema.METADATA.create_all(unit.connection, checkfirst=False)
    _seed(unit)


def _seed(unit: Unit, name: str | None = None) -> None:
    """The rows that a new table begins with; those of all tables where None."""
    for table, row in _SEED_ROWS:
        if name in (None, table.name):
            unit.insert(table, [row])


def _upgrade(unit: Unit, version: int) -> None:
    for migration in (_OF_OURS, *MIGRATIONS):
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
        for name in migration.indexes:
            if not found.has("index", name):
                _indexes()[name].create(unit.connection)
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


@repeats_transient
class SqlMetastore(
    SqlDatabases,
    SqlTables,
    SqlPartitions,
    SqlStatistics,
    SqlTxns,
    SqlWriteIds,
    SqlCommits,
    SqlHistory,
    SqlPins,
    SqlStreamBatches,
    SqlHousekeeping,
    SqlLocks,
    SqlCompactions,
    SqlCleaning,
):
    """A metastore in an SQL database; safe to share between threads."""

    def __init__(self, database: Database) -> None:
        self._db = database

    @property
    def own(self) -> SqlMetastore:
        """Itself: it is a database of ours."""
        return self

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return self._db.url

    @property
    def database(self) -> Database:
        """The database, for inspection and tests."""
        return self._db

    def close(self) -> None:
        """Give connections back."""
        self._db.close()

    def __enter__(self) -> SqlMetastore:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SqlMetastore {self.url}>"


_POSTGRES = "postgresql+psycopg"


_HIDDEN: Final = "***"
"""What stands for the password in a URL that is shown."""


def connect(
    url: str,
    *,
    clock: Clock,
    options: MetastoreOptions | None = None,
    opening: Opening = Opening.CREATE,
) -> SqlMetastore:
    """Open the metastore at ``sqlite:///path``, a plain path or ``postgresql+psycopg://``; its
    tables are made where there are none, unless ``opening`` says otherwise.

    Raises:
        MetastoreError: something that is not a metastore of hiveacid is there, its schema is newer
            or older than what this hiveacid knows, or the database cannot be opened.
        UnsupportedError: a kind of metastore that is not built yet.
        InvalidInputError: the URL is of no known kind.
    """
    chosen = options or MetastoreOptions()
    dialect, shown = _dialect(url, clock=clock, options=chosen)
    if opening is not Opening.CREATE and isinstance(dialect, SqliteDialect) and dialect.is_new():
        raise no_metastore(shown)
    return open_metastore(dialect, url=shown, clock=clock, options=chosen, opening=opening)


def open_metastore(
    dialect: Dialect, *, url: str, clock: Clock, options: MetastoreOptions, opening: Opening
) -> SqlMetastore:
    """Open the metastore behind a dialect; ``url`` is what messages show of it.

    Raises:
        MetastoreError: as ``connect``.
    """
    database = Database(dialect, url=url, clock=clock, options=options)
    try:
        prepare(database, opening)
    except BaseException:
        database.close()
        raise
    return SqlMetastore(database)


def _dialect(url: str, *, clock: Clock, options: MetastoreOptions) -> tuple[Dialect, str]:
    """The dialect, and the URL without secrets."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "sqlite", "/" + url
    kind = scheme.partition("+")[0].lower()
    if kind == "thrift":
        raise UnsupportedError(
            "Hive's Metastore is not spoken to by its Thrift service",
            note="Where its database is PostgreSQL, connect to that: docs/takeover.md.",
            url=url,
        )
    if kind in ("postgresql", "postgres"):
        return _postgres(f"{_POSTGRES}://{rest}", options=options)
    if kind != "sqlite":
        raise InvalidInputError(
            f"{scheme}:// is no metastore; known are sqlite:///path, a plain path and "
            f"{_POSTGRES}://user:password@host/database",
            scheme=scheme,
        )
    path = rest.removeprefix("/")
    if "?" in path:  # after which a URL has options
        raise InvalidInputError(
            "The path of an SQLite metastore cannot have a '?', and it takes no options", url=url
        )
    if not path or path == ":memory:":
        raise InvalidInputError(
            "An SQLite metastore needs a file, because several processes share it", url=url
        )
    return SqliteDialect(path, clock=clock, durable=options.durable), f"sqlite:///{path}"


def _postgres(url: str, *, options: MetastoreOptions) -> tuple[Dialect, str]:
    try:
        parsed: URL = make_url(url)
    except (ArgumentError, ValueError):
        # The reason may quote the URL, and that a password.
        raise InvalidInputError(
            f"The URL of the metastore is wrong; it is {_POSTGRES}://user:password@host/database"
        ) from None
    if parsed.password == _HIDDEN:  # the URL that a session shows: PGPASSWORD says it
        parsed = parsed._replace(password=None)
    dialect = PostgresDialect(parsed, durable=options.durable, server_time=options.server_time)
    secrets = [key for key in parsed.query if "password" in key.lower()]
    shown = parsed.difference_update_query(secrets)
    return dialect, shown.render_as_string(hide_password=True)

"""What a session that is enabled says of databases and lists of tables: Spark's and ours together.

A database is in one catalog or in both. CREATE DATABASE makes one of Spark's, and ours follows when
the first of our tables goes there; DROP DATABASE drops both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hiveacid.connectors.frames import Told, dressed, table_named
from hiveacid.connectors.names import (
    FORMAT,
    first_words,
    location_of,
    name_of_new,
    written_text,
)
from hiveacid.errors import AcidError, UnsupportedError
from hiveacid.model.tables import CREATING, TableKind, TableName
from hiveacid.spark.jobs import own_calls
from hiveacid.spark.session import quoted
from hiveacid.sql import parse_one
from hiveacid.statements.ddl.databases import DropDatabase
from hiveacid.statements.session_state import UseDatabase
from hiveacid.statements.show import ShowDatabases, ShowTables, ShowViews
from hiveacid.statements.values import matching

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.session import Session
    from hiveacid.table import AcidTable

_EXTENDED: Final = re.compile(r"\s*SHOW\s+TABLE\s+EXTENDED\b", re.IGNORECASE)
_KINDS: Final = {
    TableKind.MANAGED: "MANAGED",
    TableKind.EXTERNAL: "EXTERNAL",
    TableKind.VIEW: "VIEW",
}
_LISTS: Final = frozenset(
    (verb, what)
    for verb, several in (
        ("SHOW", ("TABLE", "TABLES", "VIEWS", "DATABASES", "SCHEMAS")),
        ("DROP", ("DATABASE", "SCHEMA")),
    )
    for what in several
)


def is_of_both(words: Sequence[str]) -> bool:
    """Whether a statement that begins so is about databases, or lists tables."""
    return words[:1] == ("USE",) or tuple(words[:2]) in _LISTS


def both(acid: Session, original: Callable[[str], DataFrame], text: str) -> DataFrame:
    """USE, SHOW TABLES, SHOW TABLE EXTENDED, SHOW VIEWS, SHOW DATABASES, DROP DATABASE."""
    extended = _EXTENDED.match(text)
    names_only = text if extended is None else f"SHOW TABLES {text[extended.end() :]}"
    try:
        statement = parse_one(names_only, setting_of=acid.settings.get)
    except AcidError:  # in words of Spark's: USE SCHEMA s, USE catalog.s, SHOW TABLES IN catalog.s
        answer = original(text)
        if first_words(text, 1) == ("USE",):
            acid.use_database(_current(acid))
        return answer
    value = statement.body
    databases = acid.client.metastore.list_databases()
    if isinstance(value, UseDatabase):
        frame: DataFrame = use(acid, value.name, lambda: original(text))
        return frame
    if isinstance(value, DropDatabase):
        if value.name not in databases:
            return original(text)
        with own_calls():
            is_there = acid.spark.catalog.databaseExists(value.name)
        ours_is_empty = not acid.client.metastore.list_tables(value.name)
        if is_there and (value.cascade or ours_is_empty):
            original(text)  # before ours, which stays where Spark refuses
        acid.run(statement)
        return _frame(acid, (), "")
    if isinstance(value, ShowDatabases):
        names = {str(row[0]) for row in original(text).collect()}
        names.update(matching(databases, value.pattern))
        return _frame(acid, [(name,) for name in sorted(names)], "namespace string")
    assert isinstance(value, ShowTables | ShowViews)
    database = (value.database or acid.database).lower()
    listed = _unless(database in databases, lambda: original(text).collect(), ())
    rows = {(row[0], row[1]): tuple(row) for row in listed}
    if database in databases:
        for row in acid.run(statement).collect():
            more = (_information(acid, TableName(database, row[0])),) if extended else ()
            rows[database, row[0]] = (database, row[0], False, *more)
    kind = "viewName" if isinstance(value, ShowViews) else "tableName"
    schema = f"namespace string, {kind} string, isTemporary boolean"
    schema += ", information string" if extended else ""
    return _frame(acid, sorted(rows.values(), key=lambda row: str(row[1])), schema)


def _information(acid: Session, name: TableName) -> str:
    """What SHOW TABLE EXTENDED says of a table, in Spark's words."""
    from hiveacid.spark.assign import spark_type

    table = acid.client.metastore.get_table(name)
    facts = {
        "Catalog": "spark_catalog",
        "Database": name.database,
        "Table": name.table,
        "Type": _KINDS.get(table.kind, "MANAGED"),
        "Provider": FORMAT,
        "Location": table.location,
        "Partition Columns": f"[{', '.join(map(quoted, table.partition_keys))}]",
        "Schema": "root",
    }
    lines = [f"{key}: {value}" for key, value in facts.items()]
    for column in table.all_columns:
        kind = spark_type(column.type).simpleString()
        lines.append(f" |-- {column.name}: {kind} (nullable = true)")
    return "\n".join([*lines, "", ""])


def use(acid: Session, name: str, sparks: Callable[[], Any]) -> Any:
    """Make a database the current one of both, or of the one that has it.

    Raises:
        pyspark's AnalysisException: neither has it.
    """
    has_it = name.lower() in acid.client.metastore.list_databases()
    answer = _unless(has_it, sparks, None)
    if answer is None:
        acid.use_database(name.lower())
        return _frame(acid, (), "")
    acid.use_database(_current(acid))  # USE spark_catalog names no database
    return answer


def _current(acid: Session) -> str:
    """Spark's current database."""
    with own_calls():
        return str(acid.spark.catalog.currentDatabase())


def _unless(ours: bool, ask: Callable[[], Any], instead: Any) -> Any:
    """What Spark answers; ``instead`` where it knows no such database, but we do."""
    from pyspark.errors import AnalysisException

    try:
        return ask()
    except AnalysisException:
        if not ours:
            raise
        return instead


def _frame(acid: Session, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    with own_calls():
        if not schema:
            return acid.spark.range(0).select()
        return acid.spark.createDataFrame(list(rows), schema)


# -------------------------------------------------------------------- spark.catalog


class _Catalog(Told):
    """Above Spark's own ``Catalog``; what takes no table is Spark's."""

    def currentDatabase(self) -> str:
        return self._acid.database

    def setCurrentDatabase(self, dbName: str) -> None:
        use(self._acid, dbName, lambda: super(_Catalog, self).setCurrentDatabase(dbName) or self)  # type: ignore[misc]

    def databaseExists(self, dbName: str) -> bool:
        ours = dbName.lower() in self._acid.client.metastore.list_databases()
        return ours or bool(super().databaseExists(dbName))  # type: ignore[misc]

    def tableExists(self, tableName: str, dbName: str | None = None) -> bool:
        if self._ours(tableName, dbName) is not None:
            return True
        return bool(super().tableExists(tableName, dbName))  # type: ignore[misc]

    def getTable(self, tableName: str) -> Any:
        ours = self._ours(tableName)
        return super().getTable(tableName) if ours is None else _entry(ours)  # type: ignore[misc]

    def listTables(self, dbName: str | None = None, pattern: str | None = None) -> list[Any]:
        database = (dbName or self._acid.database).lower()
        metastore = self._acid.client.metastore
        known = database in metastore.list_databases()

        def sparks() -> list[Any]:
            given = (dbName,) if pattern is None else (dbName, pattern)
            return list(super(_Catalog, self).listTables(*given))  # type: ignore[misc]

        listed = _unless(known, sparks, [])
        if not known:
            return listed  # type: ignore[no-any-return]
        made = metastore.list_tables(database, without=CREATING)
        seen = self._acid.client.temporary.seen(database, made)
        names = matching(seen, pattern)
        ours = []
        for name in names:
            with suppress(UnsupportedError):  # of another format, in a Metastore of Hive's
                ours.append(_entry(self._acid.table(written_text(TableName(database, name)))))
        rest = [one for one in listed if one.isTemporary or one.name not in names]
        return [*ours, *rest]

    def listColumns(self, tableName: str, dbName: str | None = None) -> list[Any]:
        from pyspark.sql.catalog import Column

        from hiveacid.spark.assign import spark_type

        ours = self._ours(tableName, dbName)
        if ours is None:
            return list(super().listColumns(tableName, dbName))  # type: ignore[misc]
        table = ours.definition
        columns = []
        for column in table.all_columns:
            facts = {
                "name": column.name,
                "description": column.comment,
                "dataType": spark_type(column.type).simpleString(),
                "nullable": True,
                "isPartition": column.name in table.partition_keys,
                "isBucket": column.name in table.bucket_columns,
                "isCluster": False,
            }
            columns.append(Column(*(facts[name] for name in Column._fields)))  # type: ignore[arg-type]
        return columns

    def refreshTable(self, tableName: str) -> None:
        if self._ours(tableName) is None:
            super().refreshTable(tableName)  # type: ignore[misc]

    def cacheTable(self, tableName: str, storageLevel: Any = None) -> None:
        if self._ours(tableName) is not None:
            raise UnsupportedError(
                "Tables of ours are not cached: each query reads what is committed",
                table=tableName,
                note="spark.table(name).cache() keeps one snapshot",
            )
        given = () if storageLevel is None else (storageLevel,)
        super().cacheTable(tableName, *given)  # type: ignore[misc]

    def uncacheTable(self, tableName: str) -> None:
        if self._ours(tableName) is None:
            super().uncacheTable(tableName)  # type: ignore[misc]

    def recoverPartitions(self, tableName: str) -> None:
        ours = self._ours(tableName)
        if ours is None:
            super().recoverPartitions(tableName)  # type: ignore[misc]
        else:
            self._acid.sql(f"msck repair table {written_text(ours.name)}")

    def createTable(
        self,
        tableName: str,
        path: str | None = None,
        source: str | None = None,
        schema: Any = None,
        description: str | None = None,
        **options: str,
    ) -> DataFrame:
        ours = table_named(self._acid, tableName, views_hide=False)
        if (source or "").lower() != FORMAT and ours is None:
            made: DataFrame = super().createTable(  # type: ignore[misc]
                tableName, path, source, schema, description, **options
            )
            return made
        if options:
            raise UnsupportedError(f"Tables of ours take no option {', '.join(options)} here")
        return self._acid.create_table(
            name_of_new(self._acid, tableName),
            schema,
            comment=description,
            location=None if path is None else location_of(path),
        ).df()

    def isCached(self, tableName: str) -> bool:
        return self._ours(tableName) is None and bool(super().isCached(tableName))  # type: ignore[misc]

    def _ours(self, table: str, database: str | None = None) -> AcidTable | None:
        return table_named(self._acid, table if database is None else quoted(database, table))


catalog: Final = partial(dressed, _Catalog)
"""``SparkSession.catalog``."""


def _entry(ours: AcidTable) -> Any:
    from pyspark.sql.catalog import Table

    table = ours.definition
    namespace = [table.name.database]
    kind = _KINDS.get(table.kind, "MANAGED")
    return Table(table.name.table, "spark_catalog", namespace, table.comment, kind, False)

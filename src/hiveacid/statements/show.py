"""SHOW ...: questions to the metastore only; no transaction, no locks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from hiveacid.client import DEFAULT_DATABASE, Client
from hiveacid.errors import InvalidInputError
from hiveacid.layout.directories import partition_name
from hiveacid.metastore.api import Metastore
from hiveacid.model.commits import STATISTICS_KEYS
from hiveacid.model.predicates import Predicate
from hiveacid.model.tables import CREATING, Column, Table, TableKind, TableName, storage_classes
from hiveacid.model.transactions import LockInfo
from hiveacid.model.types import HiveType, ListType, MapType, StructType
from hiveacid.spark.session import literal, quoted
from hiveacid.statements.constraints import (
    check_constraints,
    column_default,
    key_constraints,
    not_null_columns,
    shown_properties,
)
from hiveacid.statements.ddl.definitions import as_stored
from hiveacid.statements.partition_values import (
    PartitionText,
    chosen_partitions,
    normal_spec,
    partition_column,
    sort_key,
)
from hiveacid.statements.values import Command, Listing, matching
from hiveacid.txn.view import TEMPORARY


@dataclass(frozen=True, slots=True)
class ShowDatabases(Command):
    """SHOW DATABASES | SCHEMAS [LIKE pattern]."""

    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ShowTables(Command):
    """SHOW TABLES [IN database] [LIKE pattern | WHERE table_type = type]."""

    database: str | None = None
    pattern: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class ShowPartitions(Command):
    """SHOW PARTITIONS name [PARTITION (...)] [WHERE filter] [ORDER BY columns] [LIMIT n].

    ``order`` pairs a column with whether it is descending.
    """

    name: TableName
    partition: PartitionText = ()
    where: Predicate | None = None
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ShowColumns(Command):
    """SHOW COLUMNS IN name [LIKE pattern]."""

    name: TableName
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ShowTableProperties(Command):
    """SHOW TBLPROPERTIES name [('key')]."""

    name: TableName
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ShowCreateTable(Command):
    """SHOW CREATE TABLE name."""

    name: TableName


@dataclass(frozen=True, slots=True)
class ShowCreateDatabase(Command):
    """SHOW CREATE DATABASE | SCHEMA name."""

    schema: str


@dataclass(frozen=True, slots=True)
class ShowTransactions(Command):
    """SHOW TRANSACTIONS."""


@dataclass(frozen=True, slots=True)
class ShowLocks(Command):
    """SHOW LOCKS [name [PARTITION (...)] | DATABASE name] [EXTENDED]."""

    name: TableName | None = None
    partition: PartitionText = ()
    schema: str | None = None
    extended: bool = False


@dataclass(frozen=True, slots=True)
class ShowViews(Command):
    """SHOW VIEWS [IN database] [LIKE pattern]."""

    database: str | None = None
    pattern: str | None = None


LOCK_COLUMNS: Final = (
    "lockid", "database", "table", "partition", "lock_state", "blocked_by", "lock_type",
    "transaction_id", "last_heartbeat", "acquired_at", "user", "hostname", "agent_info",
)  # fmt: skip
"""The columns of SHOW LOCKS."""


def show(metastore: Metastore, statement: Command) -> Listing:
    """The answer to a SHOW statement.

    Raises:
        NotFoundError: the table or database does not exist.
        InvalidInputError: SHOW PARTITIONS of a table without (10241).
    """
    return ANSWERS[type(statement)](metastore, statement)


def show_tables(client: Client, statement: ShowTables | ShowViews) -> Listing:
    """The answer to SHOW TABLES and SHOW VIEWS: what the session sees.

    Raises:
        NotFoundError: the database does not exist.
    """
    assert statement.database is not None
    wanted = TableKind.VIEW.value if isinstance(statement, ShowViews) else statement.type
    if wanted is not None and wanted not in {one.value for one in TableKind}:
        return _names("tab_name", ())
    kind = None if wanted is None else TableKind(wanted)
    found = client.metastore.list_tables(statement.database, kind=kind, without=CREATING)
    seen = client.temporary.seen(statement.database, found)
    return _names("tab_name", matching(seen, statement.pattern))


def _columns(metastore: Metastore, statement: ShowColumns) -> Listing:
    return _names(
        "field", matching(metastore.get_table(statement.name).column_names, statement.pattern)
    )


def _names(column: str, names: Iterable[str]) -> Listing:
    return Listing((column,), tuple((name,) for name in names))


def _partitions(metastore: Metastore, statement: ShowPartitions) -> Listing:
    table = metastore.get_table(statement.name)
    if not table.partition_columns:
        raise InvalidInputError(
            f"Table {table.name} is not a partitioned table", code=10241, table=str(table.name)
        )
    wanted = normal_spec(table, statement.partition)
    partitions = metastore.list_partitions(table.name)
    if statement.where is not None:
        partitions = chosen_partitions(table, partitions, statement.where)
    found = []
    for partition in partitions:
        values = dict(zip(table.partition_keys, partition.values, strict=True))
        if all(values[name] == text for name, text in wanted.items()):
            found.append((partition_name(table.partition_keys, partition.values), values))
    found.sort(key=lambda one: one[0])
    for key, descending in reversed(statement.order):
        column = partition_column(table, key)
        found.sort(key=lambda one: sort_key(one[1][column.name], column), reverse=descending)
    return _names("partition", tuple(name for name, _ in found[: statement.limit]))


def _table_properties(metastore: Metastore, statement: ShowTableProperties) -> Listing:
    table, key = metastore.get_table(statement.name), statement.key
    properties = shown_properties(as_stored(table).properties)
    rows: tuple[tuple[str, str | None], ...] = tuple(properties.items())
    if key is not None:
        missing = f"Table {table.name} does not have property: {key}"
        rows = ((key, properties[key]) if key in properties else (missing, None),)
    return Listing(("prpt_name", "prpt_value"), rows)


def _transactions(metastore: Metastore, _: ShowTransactions) -> Listing:
    columns = ("txnid", "state", "startedtime", "lastheartbeattime", "user", "host")
    rows = tuple(
        (
            str(info.id),
            info.state.name,
            str(info.started_ms),
            str(info.last_heartbeat_ms),
            info.user,
            info.host,
        )
        for info in metastore.show_txns()
    )
    return Listing(columns, rows)


def _locks(metastore: Metastore, statement: ShowLocks) -> Listing:
    database, table, wanted = statement.schema, None, None
    if statement.name is not None:
        database, table = statement.name.database, statement.name.table
        if statement.partition:
            stored = metastore.get_table(statement.name)
            spec = normal_spec(stored, statement.partition)
            wanted = partition_name(list(spec), list(spec.values()))
    locks = metastore.show_locks(database=database, table=table)
    rows = [lock_row(lock) for lock in locks if wanted in (None, lock.partition)]
    texts = (tuple(None if cell is None else str(cell) for cell in row) for row in rows)
    return Listing(LOCK_COLUMNS, tuple(texts))


def lock_row(lock: LockInfo) -> tuple[str | int | None, ...]:
    """The values of one row of SHOW LOCKS, times in epoch milliseconds."""
    blocked = None
    if lock.blocked_by_lock_id is not None:
        blocked = f"{lock.blocked_by_lock_id}.{lock.blocked_by_component_id}"
    return (
        f"{lock.lock_id}.{lock.component_id}",
        lock.database,
        lock.table,
        lock.partition,
        lock.state.name,
        blocked,
        lock.type.name,
        lock.txn_id or None,
        lock.last_heartbeat_ms,
        lock.acquired_at_ms,
        lock.user,
        lock.host,
        lock.agent_info,
    )


def _create_database(metastore: Metastore, statement: ShowCreateDatabase) -> Listing:
    database = metastore.get_database(statement.schema)
    lines = [f"CREATE DATABASE {quoted(database.name)}"]
    if database.comment is not None:
        lines += ["COMMENT", f"  {literal(database.comment)}"]
    lines += ["LOCATION", f"  {literal(database.location)}"]
    pairs = [f"  {literal(key)}={literal(value)}" for key, value in database.properties.items()]
    if pairs:
        lines += ["WITH DBPROPERTIES (", *",\n".join(pairs).split("\n")]
        lines[-1] += ")"
    return _names("createdb_stmt", lines)


ANSWERS: Final[Mapping[type, Callable[[Metastore, Any], Listing]]] = {
    ShowDatabases: lambda metastore, statement: _names(
        "database_name", matching(metastore.list_databases(), statement.pattern)
    ),
    ShowPartitions: _partitions,
    ShowColumns: _columns,
    ShowTableProperties: _table_properties,
    ShowCreateTable: lambda metastore, statement: _names(
        "createtab_stmt", create_table_text(metastore.get_table(statement.name)).split("\n")
    ),
    ShowCreateDatabase: _create_database,
    ShowTransactions: _transactions,
    ShowLocks: _locks,
}
"""How each kind of SHOW is answered by the metastore alone."""


# -------------------------------------------------------------------- SHOW CREATE TABLE


def create_table_text(table: Table) -> str:
    """A CREATE statement that makes the table or view again, in Hive 4.1's layout.

    Constraints stand in it, where Hive adds ALTER TABLE statements.
    """
    if table.kind is TableKind.VIEW:
        return f"CREATE VIEW {_full_name(table)} AS {table.view_expanded or table.view_text}"
    kind = "EXTERNAL " if table.kind is TableKind.EXTERNAL else ""
    is_temporary = TEMPORARY.fullmatch(table.name.table) is not None
    if is_temporary:
        kind, name = "TEMPORARY ", table.name.table.split("_", 2)[-1]
        table = replace(table, name=replace(table.name, table=name))
    not_null = not_null_columns(table)
    columns = []
    for column in table.columns:
        text = f"  {_column(column)}"
        text += " NOT NULL" if column.name in not_null else ""
        default = column_default(table, column.name)
        text += f" DEFAULT {default}" if default is not None else ""
        columns.append(text + _comment(column.comment))
    columns += [f"  {text}" for text in _table_constraints(table)]
    lines = [f"CREATE {kind}TABLE {_full_name(table)}(", ", \n".join(columns) + ")"]
    if table.comment is not None:
        lines.append(_comment(table.comment).strip())
    if table.partition_columns:
        parts = [f"  {_column(c)}{_comment(c.comment)}" for c in table.partition_columns]
        lines.append("PARTITIONED BY ( \n" + ", \n".join(parts) + ")")
    if table.bucket is not None:
        names = ", \n".join(f"  {quoted(name)}" for name in table.bucket.columns)
        lines.append(f"CLUSTERED BY ( \n{names}) ")
        if table.sort_columns:
            order = [f"  {quoted(c.name)} {c.direction}" for c in table.sort_columns]
            lines.append("SORTED BY ( \n" + ", \n".join(order) + ") ")
        lines.append(f"INTO {table.bucket.count} BUCKETS")
    classes = storage_classes(table)
    lines += ["ROW FORMAT SERDE ", f"  '{classes.serde}' "]
    lines += ["STORED AS INPUTFORMAT ", f"  '{classes.input_format}' "]
    lines += ["OUTPUTFORMAT ", f"  '{classes.output_format}'"]
    if not is_temporary:
        lines += ["LOCATION", f"  {literal(table.location)}"]
    properties = [
        f"  {literal(key)}={literal(value)}"
        for key, value in shown_properties(table.properties).items()
        if key not in STATISTICS_KEYS
    ]
    if properties:
        lines.append("TBLPROPERTIES (\n" + ", \n".join(properties) + ")")
    return "\n".join(lines)


def _full_name(table: Table) -> str:
    name = quoted(table.name.table)
    plain = table.name.database == DEFAULT_DATABASE
    return name if plain else quoted(table.name.database, table.name.table)


def _column(column: Column) -> str:
    return f"{quoted(column.name)} {_type_text(column.type)}"


def _type_text(kind: HiveType) -> str:
    """A type with all names of fields in back-quotes."""
    if isinstance(kind, StructType):
        fields = (f"{quoted(name)}:{_type_text(child)}" for name, child in kind.fields)
        return f"struct<{', '.join(fields)}>"
    if isinstance(kind, ListType):
        return f"array<{_type_text(kind.element)}>"
    if isinstance(kind, MapType):
        return f"map<{_type_text(kind.key)},{_type_text(kind.value)}>"
    return str(kind)


def _table_constraints(table: Table) -> list[str]:
    found = []
    for key in key_constraints(table):
        text = f"CONSTRAINT {quoted(key.name)} {key.kind} ({', '.join(map(quoted, key.columns))})"
        if key.parent:
            parent = quoted(*key.parent.split(".", 1))
            text += f" REFERENCES {parent}({', '.join(map(quoted, key.parent_columns))})"
        found.append(text + " DISABLE NOVALIDATE" + (" RELY" if key.rely else ""))
    found += [
        f"CONSTRAINT {quoted(name)} CHECK ({text})"
        for name, text in check_constraints(table).items()
    ]
    return found


def _comment(comment: str | None) -> str:
    return "" if comment is None else f" COMMENT {literal(comment)}"

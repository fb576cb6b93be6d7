"""Grammar of ALTER."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hiveacid.errors import UnsupportedError
from hiveacid.model.tables import Column, TableName
from hiveacid.sql.columns import ConstraintReader, parse_column_type, property_keys, property_list
from hiveacid.sql.commands import parse_compact
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.ddl import (
    column_definitions,
    optional_partition,
    parse_alter_view,
    partition_condition,
    partition_spec,
)
from hiveacid.statements.ddl.columns import (
    AddColumns,
    AddConstraints,
    ChangeColumn,
    DropConstraint,
    SetTableProperties,
    UnsetTableProperties,
)
from hiveacid.statements.ddl.databases import SetDatabaseProperties
from hiveacid.statements.ddl.partitions import (
    AddPartitions,
    DropPartitions,
    PartitionToAdd,
    RenamePartition,
)
from hiveacid.statements.ddl.tables import RenameTable, SetLocation
from hiveacid.statements.partition_values import PartitionCondition
from hiveacid.statements.values import Command


def parse_alter(cursor: Cursor) -> Command:
    """ALTER TABLE name ..., ALTER VIEW name ..., ALTER DATABASE name SET DBPROPERTIES (...)"""
    if cursor.accept("VIEW"):
        return parse_alter_view(cursor)
    if cursor.accept_any("DATABASE", "SCHEMA") is not None:
        database = cursor.small_name("alter database statement")
        if not cursor.accept("SET", "DBPROPERTIES"):
            raise UnsupportedError("ALTER DATABASE is supported with SET DBPROPERTIES only")
        return SetDatabaseProperties(database, property_list(cursor))
    if not cursor.accept("TABLE"):
        raise UnsupportedError(f"ALTER {cursor.token.text.upper()} is not supported")
    name = cursor.table_name()
    for words, clause in _OF_TABLE.items():
        if cursor.accept(*words):
            return clause(cursor, name)
    partition = optional_partition(cursor)
    if cursor.accept("COMPACT"):
        return parse_compact(cursor, name, partition)
    if cursor.accept("SET", "LOCATION"):
        return SetLocation(name, cursor.string(), partition)
    if partition and cursor.accept("RENAME", "TO"):
        return RenamePartition(name, partition, partition_spec(cursor))
    raise UnsupportedError(f"ALTER TABLE ... {cursor.token.text.upper()} is not supported")


def _convert(cursor: Cursor, name: TableName) -> SetTableProperties:
    given = property_list(cursor) if cursor.accept("TBLPROPERTIES") else {}
    return SetTableProperties(name, {"transactional": "true", **given})


def _add(cursor: Cursor, name: TableName) -> Command:
    if cursor.accept_any("COLUMNS", "COLUMN") is not None:
        return _columns(cursor, name, replace=False)
    reader = ConstraintReader()
    if reader.table(cursor):
        return AddConstraints(name, reader.value())
    return _add_partitions(cursor, name)


def _drop(cursor: Cursor, name: TableName) -> Command:
    if cursor.accept("CONSTRAINT"):
        return DropConstraint(name, cursor.small_name("constraint"))
    return _drop_partitions(cursor, name)


def _unset(cursor: Cursor, name: TableName) -> UnsetTableProperties:
    if_exists = cursor.if_exists()
    return UnsetTableProperties(name, property_keys(cursor), if_exists)


def _columns(cursor: Cursor, name: TableName, *, replace: bool) -> AddColumns:
    columns = column_definitions(cursor)
    cursor.accept_any("CASCADE", "RESTRICT")
    return AddColumns(name, columns, replace)


def _add_partitions(cursor: Cursor, name: TableName) -> AddPartitions:
    if cursor.key not in ("IF", "PARTITION"):
        raise UnsupportedError(f"ALTER TABLE ... ADD {cursor.token.text.upper()} is not supported")
    if_not_exists = cursor.if_not_exists()
    found = []
    while True:
        spec = partition_spec(cursor)
        location = cursor.string() if cursor.accept("LOCATION") else None
        found.append(PartitionToAdd(spec, location))
        cursor.accept(",")
        if cursor.key != "PARTITION":
            return AddPartitions(name, tuple(found), if_not_exists)


def _drop_partitions(cursor: Cursor, name: TableName) -> DropPartitions:
    if cursor.key not in ("IF", "PARTITION"):
        raise UnsupportedError(f"ALTER TABLE ... DROP {cursor.token.text.upper()} is not supported")
    if_exists = cursor.if_exists()
    found = cursor.listed(_partition_conditions)
    cursor.accept("PURGE")
    return DropPartitions(name, found, if_exists)


def _partition_conditions(cursor: Cursor) -> tuple[PartitionCondition, ...]:
    cursor.expect("PARTITION", "(")
    found = [partition_condition(cursor)]
    while cursor.accept_any(",", "AND") is not None:
        found.append(partition_condition(cursor))
    cursor.expect(")")
    return tuple(found)


def _change(cursor: Cursor, name: TableName) -> ChangeColumn:
    cursor.accept("COLUMN")
    old = cursor.small_name("column name")
    new = cursor.small_name("column name")
    kind = parse_column_type(cursor)
    reader = ConstraintReader()
    constrained = reader.column(cursor, new)
    comment = cursor.string() if cursor.accept("COMMENT") else None
    after = "" if cursor.accept("FIRST") else None
    if cursor.accept("AFTER"):
        after = cursor.small_name("column name")
    cursor.accept_any("CASCADE", "RESTRICT")
    constraints = reader.value() if constrained else None
    return ChangeColumn(name, old, Column(new, kind, comment), after, constraints)


_OF_TABLE: Mapping[tuple[str, ...], Callable[[Cursor, TableName], Command]] = {
    ("SET", "TBLPROPERTIES"): lambda cursor, name: SetTableProperties(name, property_list(cursor)),
    ("SET", "SERDEPROPERTIES"): lambda cursor, name: SetTableProperties(
        name, property_list(cursor)
    ),
    ("UNSET", "TBLPROPERTIES"): _unset,
    ("CONVERT", "TO", "ACID"): _convert,
    ("RENAME", "TO"): lambda cursor, name: RenameTable(name, cursor.table_name()),
    ("REPLACE", "COLUMNS"): lambda cursor, name: _columns(cursor, name, replace=True),
    ("ADD",): _add,
    ("DROP",): _drop,
    ("CHANGE",): _change,
}

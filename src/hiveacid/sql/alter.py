"""Grammar of ALTER."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from hiveacid.errors import UnsupportedError
from hiveacid.model.predicates import Predicate, disjunction
from hiveacid.model.tables import TableName
from hiveacid.sql.columns import (
    ConstraintReader,
    parse_column_type,
    parse_serde,
    property_keys,
    property_list,
)
from hiveacid.sql.commands import parse_compact
from hiveacid.sql.conditions import listed_filters
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.ddl import (
    column_definitions,
    parse_alter_view,
    parse_file_format,
    parse_skewed,
)
from hiveacid.sql.dml import optional_partition, partition_spec
from hiveacid.statements.compact import Compact
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
    ChangePartitionColumn,
    DropPartitions,
    PartitionToAdd,
    RenamePartition,
)
from hiveacid.statements.ddl.tables import RenameTable, SetLocation
from hiveacid.statements.values import Command

_LOG: Final = logging.getLogger(__name__)


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
    for words, clause in _AS_IT_IS.items():
        if cursor.accept(*words):
            return clause(cursor, name)
    if cursor.accept("COMPACT"):
        return parse_compact(cursor, name, partition)
    if cursor.accept("CONCATENATE"):
        return Compact(name, "major", partition=partition, wait=True)
    if cursor.accept("SET", "LOCATION"):
        return SetLocation(name, cursor.string(), partition)
    if partition and cursor.accept("RENAME", "TO"):
        return RenamePartition(name, partition, partition_spec(cursor))
    if partition and cursor.key in ("ADD", "REPLACE", "CHANGE"):
        raise UnsupportedError(
            f"ALTER TABLE ... PARTITION ... {cursor.key} is not supported: a partition has the "
            "columns of its table",
            note="Without PARTITION it changes those of the table and of all its partitions.",
        )
    asked = " ".join(token.text for token in cursor.tokens[cursor.at : -1][:2]).upper()
    raise UnsupportedError(
        f"ALTER TABLE ... {asked} is not supported",
        note=f"CREATE TABLE ... AS SELECT * FROM {name} makes a table of another layout.",
    )


def parse_comment(cursor: Cursor) -> SetTableProperties | UnsetTableProperties:
    """COMMENT ON TABLE name IS 'text' | NULL."""
    cursor.expect("ON", "TABLE")
    name = cursor.table_name()
    cursor.expect("IS")
    if cursor.accept("NULL"):
        return UnsetTableProperties(name, ("comment",), if_exists=True)
    return SetTableProperties(name, {"comment": cursor.string("comment")})


def _touch(cursor: Cursor, name: TableName) -> SetTableProperties:
    optional_partition(cursor)
    return SetTableProperties(name, {})


def _skewed(cursor: Cursor, name: TableName) -> SetTableProperties:
    parse_skewed(cursor)
    return SetTableProperties(name, {})


def _update_statistics(cursor: Cursor, name: TableName) -> SetTableProperties:
    """UPDATE STATISTICS [FOR COLUMN name] SET (...): rows are always counted, so nothing is set."""
    if cursor.accept("FOR"):
        cursor.accept("COLUMN")
        cursor.name("column name")
    cursor.expect("SET")
    property_list(cursor)
    _LOG.warning("ALTER TABLE ... UPDATE STATISTICS changes nothing: rows are always counted")
    return SetTableProperties(name, {})


def _set_file_format(cursor: Cursor, name: TableName) -> SetTableProperties:
    file_format = parse_file_format(cursor)
    if cursor.accept("SERDE"):
        file_format, _ = parse_serde(cursor)
    return SetTableProperties(name, {}, file_format)


def _set_serde(cursor: Cursor, name: TableName) -> SetTableProperties:
    file_format, properties = parse_serde(cursor)
    return SetTableProperties(name, properties, file_format)


_AS_IT_IS: Final[Mapping[tuple[str, ...], Callable[[Cursor, TableName], Command]]] = {
    ("SET", "FILEFORMAT"): _set_file_format,
    ("SET", "SERDE"): _set_serde,
    **dict.fromkeys((("NOT", "SKEWED"), ("NOT", "STORED", "AS", "DIRECTORIES")), _touch),
    ("SKEWED", "BY"): _skewed,
    ("TOUCH",): _touch,
    ("UPDATE", "STATISTICS"): _update_statistics,
}
"""What a table, or a partition of it, is told and is already."""


def _convert(cursor: Cursor, name: TableName) -> SetTableProperties:
    given = property_list(cursor) if cursor.accept("TBLPROPERTIES") else {}
    return SetTableProperties(name, {"transactional": "true", **given})


def _add(cursor: Cursor, name: TableName) -> Command:
    reader = ConstraintReader()
    if reader.table(cursor):
        return AddConstraints(name, reader.value())
    return _add_partitions(cursor, name)


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
    where = disjunction(cursor.listed(_dropped))
    return DropPartitions(name, where, if_exists, purge=cursor.accept("PURGE"))


def _dropped(cursor: Cursor) -> Predicate:
    cursor.expect("PARTITION")
    return listed_filters(cursor)


def _change(cursor: Cursor, name: TableName) -> ChangeColumn:
    cursor.accept("COLUMN")
    old = cursor.small_name("column name")
    new = cursor.small_name("column name")
    kind = parse_column_type(cursor)
    reader = ConstraintReader()
    constrained = reader.column(cursor, new)
    comment = cursor.string() if cursor.accept("COMMENT") else None
    after = _after(cursor)
    cursor.accept_any("CASCADE", "RESTRICT")
    constraints = reader.value() if constrained else None
    return ChangeColumn(name, old, new, kind, comment, after, constraints)


def _alter_column(cursor: Cursor, name: TableName) -> ChangeColumn:
    cursor.accept("COLUMN")
    column = cursor.small_name("column name")
    kind = parse_column_type(cursor) if cursor.accept("TYPE") else None
    comment = cursor.string() if cursor.accept("COMMENT") else None
    return ChangeColumn(name, column, column, kind, comment, _after(cursor))


def _partition_column(cursor: Cursor, name: TableName) -> ChangePartitionColumn:
    cursor.expect("(")
    column = cursor.small_name("column name")
    kind = parse_column_type(cursor)
    comment = cursor.string() if cursor.accept("COMMENT") else None
    cursor.expect(")")
    return ChangePartitionColumn(name, column, kind, comment)


def _rename_column(cursor: Cursor, name: TableName) -> ChangeColumn:
    old = cursor.small_name("column name")
    cursor.expect("TO")
    return ChangeColumn(name, old, cursor.small_name("column name"))


def _after(cursor: Cursor) -> str | None:
    if cursor.accept("FIRST"):
        return ""
    return cursor.small_name("column name") if cursor.accept("AFTER") else None


_OF_TABLE: Mapping[tuple[str, ...], Callable[[Cursor, TableName], Command]] = {
    ("SET", "TBLPROPERTIES"): lambda cursor, name: SetTableProperties(name, property_list(cursor)),
    ("SET", "SERDEPROPERTIES"): lambda cursor, name: SetTableProperties(
        name, property_list(cursor)
    ),
    ("UNSET", "TBLPROPERTIES"): lambda cursor, name: UnsetTableProperties(
        if_exists=cursor.if_exists(), name=name, keys=property_keys(cursor)
    ),
    ("UNSET", "SERDEPROPERTIES"): lambda cursor, name: UnsetTableProperties(
        name, property_keys(cursor), if_exists=True
    ),
    ("CONVERT", "TO", "ACID"): _convert,
    ("RENAME", "TO"): lambda cursor, name: RenameTable(name, cursor.table_name()),
    ("REPLACE", "COLUMNS"): lambda cursor, name: _columns(cursor, name, replace=True),
    **dict.fromkeys(
        (("ADD", "COLUMNS"), ("ADD", "COLUMN")),
        lambda cursor, name: _columns(cursor, name, replace=False),
    ),
    ("ADD",): _add,
    ("DROP", "CONSTRAINT"): lambda cursor, name: DropConstraint(
        name, cursor.small_name("constraint")
    ),
    ("DROP",): _drop_partitions,
    ("CHANGE",): _change,
    ("PARTITION", "COLUMN"): _partition_column,
    ("RENAME", "COLUMN"): _rename_column,
    ("ALTER",): _alter_column,
}

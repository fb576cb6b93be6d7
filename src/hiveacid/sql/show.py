"""Grammar of SHOW, DESCRIBE and ABORT."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hiveacid.errors import UnsupportedError
from hiveacid.model.compactions import CompactionId
from hiveacid.model.ids import LockId, TxnId
from hiveacid.model.tables import TableName
from hiveacid.sql.alter import partition_condition
from hiveacid.sql.columns import property_keys
from hiveacid.sql.commands import ids, optional_order, parse_show_compactions
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.ddl import optional_partition
from hiveacid.sql.lexer import TokenKind
from hiveacid.statements.compact import AbortCompactions
from hiveacid.statements.describe import DescribeDatabase, DescribeTable
from hiveacid.statements.lock import AbortLocks, AbortTransactions
from hiveacid.statements.partition_values import PartitionCondition, PartitionText
from hiveacid.statements.show import (
    ShowColumns,
    ShowCreateTable,
    ShowDatabases,
    ShowLocks,
    ShowPartitions,
    ShowTableProperties,
    ShowTables,
    ShowTransactions,
    ShowViews,
)
from hiveacid.statements.values import Command


def parse_show(cursor: Cursor) -> Command:
    """SHOW ..."""
    word = cursor.key
    for words, read in _SHOWN.items():
        if cursor.accept(*words):
            return read(cursor)
    raise UnsupportedError(f"SHOW {word} is not supported")


def _database(cursor: Cursor) -> str | None:
    if cursor.accept_any("IN", "FROM") is None:
        return None
    return cursor.small_name("show statement")


def _pattern(cursor: Cursor) -> str | None:
    if cursor.accept("LIKE") or cursor.token.kind is TokenKind.STRING:
        return cursor.string("pattern")
    return None


def _partitions(cursor: Cursor) -> ShowPartitions:
    name = cursor.table_name()
    partition = optional_partition(cursor)
    conditions: list[PartitionCondition] = []
    while cursor.accept_any("AND" if conditions else "WHERE") is not None:
        conditions.append(partition_condition(cursor))
    order = optional_order(cursor)
    limit = cursor.integer("limit clause") if cursor.accept("LIMIT") else None
    return ShowPartitions(name, partition, tuple(conditions), order, limit)


def _columns(cursor: Cursor) -> ShowColumns:
    if cursor.accept_any("IN", "FROM") is None:
        raise cursor.unrecognized("show columns")
    name = cursor.table_name()
    if cursor.accept_any("IN", "FROM") is not None:
        name = TableName(cursor.name("show columns"), name.table)
    return ShowColumns(name, _pattern(cursor))


def _locks(cursor: Cursor) -> ShowLocks:
    if cursor.accept_any("DATABASE", "SCHEMA") is not None:
        schema = cursor.small_name("show locks")
        return ShowLocks(schema=schema, extended=cursor.accept("EXTENDED"))
    name: TableName | None = None
    partition: PartitionText = ()
    if cursor.token.kind in (TokenKind.WORD, TokenKind.QUOTED) and cursor.key != "EXTENDED":
        name = cursor.table_name()
        partition = optional_partition(cursor)
    return ShowLocks(name, partition, extended=cursor.accept("EXTENDED"))


def _properties(cursor: Cursor) -> ShowTableProperties:
    name = cursor.table_name()
    keys = property_keys(cursor) if cursor.key == "(" else (None,)
    return ShowTableProperties(name, keys[0])


def _databases(cursor: Cursor) -> ShowDatabases:
    return ShowDatabases(_pattern(cursor))


_SHOWN: Mapping[tuple[str, ...], Callable[[Cursor], Command]] = {
    ("DATABASES",): _databases,
    ("SCHEMAS",): _databases,
    ("TABLES",): lambda cursor: ShowTables(_database(cursor), _pattern(cursor)),
    ("VIEWS",): lambda cursor: ShowViews(_database(cursor), _pattern(cursor)),
    ("PARTITIONS",): _partitions,
    ("COLUMNS",): _columns,
    ("TBLPROPERTIES",): _properties,
    ("CREATE", "TABLE"): lambda cursor: ShowCreateTable(cursor.table_name()),
    ("TRANSACTIONS",): lambda _: ShowTransactions(),
    ("LOCKS",): _locks,
    ("COMPACTIONS",): parse_show_compactions,
}


def parse_describe(cursor: Cursor) -> Command:
    """DESCRIBE | DESC [DATABASE | SCHEMA] [EXTENDED | FORMATTED] name ..."""
    if cursor.key in ("DATABASE", "SCHEMA") and cursor.peek(1).kind is not TokenKind.END:
        cursor.next()
        extended = cursor.accept("EXTENDED")
        return DescribeDatabase(cursor.small_name("describe database"), extended)
    if cursor.key == "FUNCTION" and cursor.peek(1).kind is TokenKind.WORD:
        raise UnsupportedError("DESCRIBE FUNCTION is not supported")
    if cursor.key == "HISTORY" and cursor.peek(1).kind is TokenKind.WORD:
        raise UnsupportedError("DESCRIBE HISTORY is not supported yet")
    formatted = extended = False
    if cursor.key in ("FORMATTED", "EXTENDED") and cursor.peek(1).kind in (
        TokenKind.WORD,
        TokenKind.QUOTED,
    ):
        word = cursor.next().key
        formatted, extended = word == "FORMATTED", word == "EXTENDED"
    name = cursor.table_name()
    partition = optional_partition(cursor)
    column = None
    if not cursor.at_end():
        column = cursor.small_name("describe statement")
    return DescribeTable(name, column, partition, formatted, extended)


def parse_abort(cursor: Cursor) -> AbortTransactions | AbortLocks | AbortCompactions:
    """ABORT TRANSACTIONS id ..., ABORT LOCKS id ..., ABORT COMPACTIONS id ..."""
    if cursor.accept("COMPACTIONS"):
        return AbortCompactions(tuple(map(CompactionId, ids(cursor))))
    if cursor.accept("LOCKS"):
        return AbortLocks(tuple(map(LockId, ids(cursor))))
    cursor.expect("TRANSACTIONS")
    return AbortTransactions(tuple(map(TxnId, ids(cursor))))

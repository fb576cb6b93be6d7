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
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.values_compactions import AbortCompactions
from hiveacid.statements.values_views import ShowViews


def parse_show(cursor: Cursor) -> ddl.DdlStatement:
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


def _partitions(cursor: Cursor) -> ddl.ShowPartitions:
    name = cursor.table_name()
    partition = optional_partition(cursor)
    conditions: list[ddl.PartitionCondition] = []
    while cursor.accept_any("AND" if conditions else "WHERE") is not None:
        conditions.append(partition_condition(cursor))
    order = optional_order(cursor)
    limit = cursor.integer("limit clause") if cursor.accept("LIMIT") else None
    return ddl.ShowPartitions(name, partition, tuple(conditions), order, limit)


def _columns(cursor: Cursor) -> ddl.ShowColumns:
    if cursor.accept_any("IN", "FROM") is None:
        raise cursor.unrecognized("show columns")
    name = cursor.table_name()
    if cursor.accept_any("IN", "FROM") is not None:
        name = TableName(cursor.name("show columns"), name.table)
    return ddl.ShowColumns(name, _pattern(cursor))


def _locks(cursor: Cursor) -> ddl.ShowLocks:
    if cursor.accept_any("DATABASE", "SCHEMA") is not None:
        schema = cursor.small_name("show locks")
        return ddl.ShowLocks(schema=schema, extended=cursor.accept("EXTENDED"))
    name: TableName | None = None
    partition: ddl.PartitionText = ()
    if cursor.token.kind in (TokenKind.WORD, TokenKind.QUOTED) and cursor.key != "EXTENDED":
        name = cursor.table_name()
        partition = optional_partition(cursor)
    return ddl.ShowLocks(name, partition, extended=cursor.accept("EXTENDED"))


def _properties(cursor: Cursor) -> ddl.ShowTableProperties:
    name = cursor.table_name()
    keys = property_keys(cursor) if cursor.key == "(" else (None,)
    return ddl.ShowTableProperties(name, keys[0])


def _databases(cursor: Cursor) -> ddl.ShowDatabases:
    return ddl.ShowDatabases(_pattern(cursor))


_SHOWN: Mapping[tuple[str, ...], Callable[[Cursor], ddl.DdlStatement]] = {
    ("DATABASES",): _databases,
    ("SCHEMAS",): _databases,
    ("TABLES",): lambda cursor: ddl.ShowTables(_database(cursor), _pattern(cursor)),
    ("VIEWS",): lambda cursor: ShowViews(_database(cursor), _pattern(cursor)),
    ("PARTITIONS",): _partitions,
    ("COLUMNS",): _columns,
    ("TBLPROPERTIES",): _properties,
    ("CREATE", "TABLE"): lambda cursor: ddl.ShowCreateTable(cursor.table_name()),
    ("TRANSACTIONS",): lambda _: ddl.ShowTransactions(),
    ("LOCKS",): _locks,
    ("COMPACTIONS",): parse_show_compactions,
}


def parse_describe(cursor: Cursor) -> ddl.DdlStatement:
    """DESCRIBE | DESC [DATABASE | SCHEMA] [EXTENDED | FORMATTED] name ..."""
    if cursor.key in ("DATABASE", "SCHEMA") and cursor.peek(1).kind is not TokenKind.END:
        cursor.next()
        extended = cursor.accept("EXTENDED")
        return ddl.DescribeDatabase(cursor.small_name("describe database"), extended)
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
    return ddl.DescribeTable(name, column, partition, formatted, extended)


def parse_abort(cursor: Cursor) -> ddl.AbortTransactions | ddl.AbortLocks | AbortCompactions:
    """ABORT TRANSACTIONS id ..., ABORT LOCKS id ..., ABORT COMPACTIONS id ..."""
    if cursor.accept("COMPACTIONS"):
        return AbortCompactions(tuple(map(CompactionId, ids(cursor))))
    if cursor.accept("LOCKS"):
        return ddl.AbortLocks(tuple(map(LockId, ids(cursor))))
    cursor.expect("TRANSACTIONS")
    return ddl.AbortTransactions(tuple(map(TxnId, ids(cursor))))

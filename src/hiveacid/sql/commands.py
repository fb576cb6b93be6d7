"""Grammar of the statements that have a form of their own: LOAD, LOCK, ANALYZE, MSCK, COMPACT,
those that begin and end transactions, SHOW, DESCRIBE and ABORT.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.compactions import CompactionId
from hiveacid.model.ids import LockId, TxnId
from hiveacid.model.tables import TableName
from hiveacid.model.transactions import Isolation
from hiveacid.sql.columns import property_keys, property_list
from hiveacid.sql.cursor import Cursor, TokenKind, tokenize
from hiveacid.sql.dml import optional_partition, partition_condition, partition_pair
from hiveacid.statements.analyze import Analyze
from hiveacid.statements.compact import AbortCompactions, Compact, ShowCompactions, SortItem
from hiveacid.statements.ddl.partitions import RepairTable
from hiveacid.statements.describe import DescribeDatabase, DescribeTable
from hiveacid.statements.load import Load
from hiveacid.statements.partition_values import PartitionCondition, PartitionText
from hiveacid.statements.session_state import (
    AbortLocks,
    AbortTransactions,
    Begin,
    Commit,
    LockDatabase,
    LockTable,
    ReleaseSavepoint,
    Rollback,
    SetAutocommit,
    SetTransaction,
    UnlockDatabase,
    UnlockTable,
)
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


def parse_load(cursor: Cursor) -> Load:
    """LOAD DATA [LOCAL] INPATH 'path' [OVERWRITE] INTO TABLE name [PARTITION (...)]"""
    cursor.expect("DATA")
    local = cursor.accept("LOCAL")
    cursor.expect("INPATH")
    path = cursor.string("load statement")
    overwrite = cursor.accept("OVERWRITE")
    cursor.expect("INTO", "TABLE")
    name = cursor.table_name()
    partition = optional_partition(cursor)
    if cursor.key in ("INPUTFORMAT", "SERDE"):
        raise UnsupportedError("LOAD DATA ... INPUTFORMAT is not supported")
    return Load(name, path, local=local, overwrite=overwrite, partition=partition)


def parse_lock(cursor: Cursor) -> LockTable | LockDatabase:
    """LOCK TABLE name [PARTITION (...)] mode, LOCK DATABASE | SCHEMA name mode"""
    if cursor.accept_any("DATABASE", "SCHEMA") is not None:
        schema = cursor.small_name("lock statement")
        return LockDatabase(schema, _exclusive(cursor))
    cursor.expect("TABLE")
    name = cursor.table_name()
    partition = optional_partition(cursor)
    return LockTable(name, partition, _exclusive(cursor))


def parse_unlock(cursor: Cursor) -> UnlockTable | UnlockDatabase:
    """UNLOCK TABLE name [PARTITION (...)], UNLOCK DATABASE | SCHEMA name"""
    if cursor.accept_any("DATABASE", "SCHEMA") is not None:
        return UnlockDatabase(cursor.small_name("unlock statement"))
    cursor.expect("TABLE")
    return UnlockTable(cursor.table_name(), optional_partition(cursor))


def _exclusive(cursor: Cursor) -> bool:
    mode = cursor.accept_any("SHARED", "EXCLUSIVE")
    if mode is None:
        raise cursor.unrecognized("lock mode")
    return mode == "EXCLUSIVE"


def parse_analyze(cursor: Cursor) -> Analyze:
    """ANALYZE TABLE name [PARTITION (...)] COMPUTE STATISTICS ..."""
    cursor.expect("TABLE")
    name = cursor.table_name()
    pairs = cursor.in_parentheses(partition_pair) if cursor.accept("PARTITION") else ()
    partition = tuple((column, text) for column, text, given in pairs if given)
    cursor.expect("COMPUTE")
    if cursor.key == "INCREMENTAL":
        raise UnsupportedError("COMPUTE INCREMENTAL STATISTICS is not supported")
    cursor.expect("STATISTICS")
    if cursor.accept("NOSCAN"):
        return Analyze(name, partition, noscan=True)
    if not cursor.accept("FOR", "COLUMNS"):
        return Analyze(name, partition)
    names = () if cursor.at_end() else cursor.listed(lambda _: cursor.small_name("column name"))
    return Analyze(name, partition, names)


def parse_repair(cursor: Cursor) -> RepairTable:
    """MSCK [REPAIR] TABLE name [ADD | DROP | SYNC PARTITIONS]"""
    repair = cursor.accept("REPAIR")
    cursor.expect("TABLE")
    name = cursor.table_name()
    kind = cursor.accept_any("ADD", "DROP", "SYNC") or "ADD"
    if not cursor.at_end():
        cursor.expect("PARTITIONS")
    return RepairTable(name, repair, add=kind != "DROP", drop=kind != "ADD")


_AUTOCOMMIT = re.compile(r"set\s+autocommit(?:(?:\s*=\s*|\s+)(\S+))?\s*", re.IGNORECASE)
_ON = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}


def parse_start(cursor: Cursor) -> Begin:
    """START TRANSACTION [ISOLATION LEVEL level | READ WRITE]"""
    cursor.expect("TRANSACTION")
    return Begin(_modes(cursor))


def parse_begin(cursor: Cursor) -> Begin:
    """BEGIN [TRANSACTION | WORK] [ISOLATION LEVEL level | READ WRITE]"""
    cursor.accept_any("TRANSACTION", "WORK")
    return Begin(_modes(cursor))


def parse_set_transaction(cursor: Cursor) -> SetTransaction:
    """SET TRANSACTION ISOLATION LEVEL level"""
    cursor.expect("TRANSACTION")
    isolation = _modes(cursor)
    if isolation is None:
        raise cursor.unrecognized("isolation level")
    return SetTransaction(isolation)


def parse_commit(cursor: Cursor) -> Commit:
    """COMMIT [TRANSACTION | WORK]"""
    cursor.accept_any("TRANSACTION", "WORK")
    return Commit()


def parse_rollback(cursor: Cursor) -> Rollback:
    """ROLLBACK [TRANSACTION | WORK] [TO [SAVEPOINT] name]"""
    cursor.accept_any("TRANSACTION", "WORK")
    return Rollback(_savepoint(cursor) if cursor.accept("TO") else None)


def parse_release(cursor: Cursor) -> ReleaseSavepoint:
    """RELEASE [SAVEPOINT] name"""
    return ReleaseSavepoint(_savepoint(cursor))


def autocommit(text: str) -> SetAutocommit | None:
    """SET autocommit [[=] value]; None for another SET.

    Raises:
        InvalidInputError: the value is neither true nor false.
    """
    found = _AUTOCOMMIT.fullmatch(text)
    if found is None or found.group(1) is None:
        return None if found is None else SetAutocommit()
    on = _ON.get(found.group(1).lower())
    if on is None:
        raise InvalidInputError(f"autocommit is true or false, not {found.group(1)}")
    return SetAutocommit(on)


def _modes(cursor: Cursor) -> Isolation | None:
    """The level of a list of modes, None where it has none."""
    found: Isolation | None = None
    while not cursor.at_end():
        level = next(
            (one for one in Isolation if cursor.accept("ISOLATION", "LEVEL", one.name)), None
        )
        found = level or found
        if level is None and not cursor.accept("READ", "WRITE"):
            if cursor.key in ("ISOLATION", "READ"):
                raise UnsupportedError(
                    "A transaction is READ WRITE at ISOLATION LEVEL SNAPSHOT or SERIALIZABLE, "
                    "nothing else is supported"
                )
            raise cursor.unrecognized("transaction statement")
        cursor.accept(",")
    return found


def _savepoint(cursor: Cursor) -> str:
    if cursor.peek(1).kind is not TokenKind.END:
        cursor.accept("SAVEPOINT")
    return cursor.name("savepoint")


_FILTERS = ("POOL", "TYPE", "STATUS", "ORDER", "LIMIT")


def parse_compact(cursor: Cursor, name: TableName, partition: PartitionText) -> Compact:
    """What follows COMPACT; the clauses have one order."""
    kind = cursor.string("compaction type").lower()
    buckets = None
    if cursor.accept("CLUSTERED", "INTO"):
        buckets = cursor.integer("number of buckets")
        cursor.expect("BUCKETS")
    wait = cursor.accept("AND", "WAIT")
    pool = cursor.string("compaction pool") if cursor.accept("POOL") else None
    properties: dict[str, str] = {}
    if cursor.accept("WITH", "OVERWRITE", "TBLPROPERTIES"):
        properties = property_list(cursor)
    order_by = cursor.listed(_sort_item) if cursor.accept("ORDER", "BY") else ()
    if cursor.key == "WHERE":
        raise UnsupportedError(
            "COMPACT ... WHERE is not supported: Hive has it for Iceberg tables only",
            note="PARTITION (...) chooses a partition.",
        )
    return Compact(name, kind, partition, wait, properties, pool, buckets, order_by)


def parse_sort_items(text: str) -> tuple[SortItem, ...]:
    """The order of a rebalance as a user gives it in Python.

    Raises:
        SqlSyntaxError: the text is not a list of sort items.
        UnsupportedError: an expression is in it.
        InvalidInputError: it is no text.
    """
    cursor = Cursor(source=text, tokens=tokenize(text))
    found = cursor.listed(_sort_item)
    cursor.end_statement()
    return found


def _sort_item(cursor: Cursor) -> SortItem:
    column = cursor.small_name("order by")
    if cursor.key not in (",", "ASC", "DESC", "NULLS", "WHERE") and not cursor.at_end():
        raise UnsupportedError("COMPACT ... ORDER BY is supported with columns only")
    descending = nulls_first = cursor.accept_any("ASC", "DESC") == "DESC"
    if cursor.accept("NULLS"):
        nulls_first = cursor.key == "FIRST"
        if cursor.accept_any("FIRST", "LAST") is None:
            raise cursor.unrecognized("null ordering")
    return SortItem(column, descending, nulls_first)


def parse_show_compactions(cursor: Cursor) -> ShowCompactions:
    """What follows SHOW COMPACTIONS."""
    if cursor.accept("COMPACTIONID"):
        cursor.expect("=")
        return ShowCompactions(compaction=CompactionId(cursor.integer("compaction id")))
    schema: str | None = None
    name: TableName | None = None
    partition: PartitionText = ()
    if cursor.accept_any("DATABASE", "SCHEMA") is not None:
        schema = cursor.small_name("show compactions")
    elif not cursor.at_end() and not _at_filter(cursor):
        name = cursor.table_name()
        partition = optional_partition(cursor)
    return ShowCompactions(
        schema=schema,
        name=name,
        partition=partition,
        pool=cursor.string("compaction pool") if cursor.accept("POOL") else None,
        kind=cursor.string("compaction type") if cursor.accept("TYPE") else None,
        status=cursor.string("compaction status") if cursor.accept("STATUS") else None,
        order=optional_order(cursor),
        limit=cursor.integer("limit clause") if cursor.accept("LIMIT") else None,
    )


def _at_filter(cursor: Cursor) -> bool:
    """At a clause, not at a table that happens to be called so."""
    follower = cursor.peek(1)
    if cursor.key == "ORDER":
        return follower.key == "BY"
    kind = TokenKind.NUMBER if cursor.key == "LIMIT" else TokenKind.STRING
    return cursor.key in _FILTERS and follower.kind is kind


def optional_order(cursor: Cursor) -> tuple[tuple[str, bool], ...]:
    """ORDER BY columns of the answer, if it is there: Hive passes any text on to its database."""
    return cursor.listed(Cursor.sort_key) if cursor.accept("ORDER", "BY") else ()


def ids(cursor: Cursor) -> tuple[int, ...]:
    """Whole numbers up to the end, with or without commas."""
    found = [cursor.integer("ids")]
    while not cursor.at_end():
        cursor.accept(",")
        found.append(cursor.integer("ids"))
    return tuple(found)


# -------------------------------------------------------------------- SHOW, DESCRIBE, ABORT


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


def _shown_properties(cursor: Cursor) -> ShowTableProperties:
    name = cursor.table_name()
    keys = property_keys(cursor) if cursor.key == "(" else (None,)
    return ShowTableProperties(name, keys[0])


_SHOWN: Mapping[tuple[str, ...], Callable[[Cursor], Command]] = {
    ("DATABASES",): lambda cursor: ShowDatabases(_pattern(cursor)),
    ("SCHEMAS",): lambda cursor: ShowDatabases(_pattern(cursor)),
    ("TABLES",): lambda cursor: ShowTables(_database(cursor), _pattern(cursor)),
    ("VIEWS",): lambda cursor: ShowViews(_database(cursor), _pattern(cursor)),
    ("PARTITIONS",): _partitions,
    ("COLUMNS",): _columns,
    ("TBLPROPERTIES",): _shown_properties,
    ("CREATE", "TABLE"): lambda cursor: ShowCreateTable(cursor.table_name()),
    ("TRANSACTIONS",): lambda _: ShowTransactions(),
    ("LOCKS",): _locks,
    ("COMPACTIONS",): parse_show_compactions,
}


def parse_describe(cursor: Cursor) -> Command:
    """DESCRIBE | DESC [DATABASE | SCHEMA | TABLE] [EXTENDED | FORMATTED] name ..."""
    if cursor.key in ("DATABASE", "SCHEMA") and cursor.peek(1).kind is not TokenKind.END:
        cursor.next()
        extended = cursor.accept("EXTENDED")
        return DescribeDatabase(cursor.small_name("describe database"), extended)
    if cursor.key == "FUNCTION" and cursor.peek(1).kind is TokenKind.WORD:
        raise UnsupportedError("DESCRIBE FUNCTION is not supported")
    if cursor.key in ("HISTORY", "DETAIL") and cursor.peek(1).kind is TokenKind.WORD:
        raise UnsupportedError(f"DESCRIBE {cursor.key} is not supported yet")
    if cursor.key == "TABLE" and cursor.peek(1).kind is TokenKind.WORD:
        cursor.next()
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

"""Grammar of the statements that have a form of their own: LOAD, LOCK, ANALYZE, MSCK, COMPACT, and
those that begin and end transactions.
"""

from __future__ import annotations

import re

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.compactions import CompactionId
from hiveacid.model.tables import TableName
from hiveacid.model.transactions import Isolation
from hiveacid.sql.columns import property_list
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.ddl import optional_partition
from hiveacid.sql.dml import partition_pair
from hiveacid.sql.lexer import TokenKind, tokenize
from hiveacid.statements.analyze import Analyze
from hiveacid.statements.compact import Compact, ShowCompactions, SortItem
from hiveacid.statements.ddl.repair import RepairTable
from hiveacid.statements.load import Load
from hiveacid.statements.lock import LockDatabase, LockTable, UnlockDatabase, UnlockTable
from hiveacid.statements.partition_values import PartitionText
from hiveacid.statements.session_state import (
    Begin,
    Commit,
    ReleaseSavepoint,
    Rollback,
    Savepoint,
    SetAutocommit,
    SetTransaction,
)


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


def parse_savepoint(cursor: Cursor) -> Savepoint:
    """SAVEPOINT name"""
    return Savepoint(cursor.name("savepoint"))


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

"""Grammar of COMPACT, SHOW COMPACTIONS and ABORT COMPACTIONS (metastore.md 4.8)."""

from __future__ import annotations

from hiveacid.errors import UnsupportedError
from hiveacid.model.compactions import CompactionId
from hiveacid.model.tables import TableName
from hiveacid.sql.cursor import Cursor
from hiveacid.sql.ddl import optional_partition
from hiveacid.sql.lexer import TokenKind, tokenize
from hiveacid.sql.properties import property_list
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.arguments import check_arguments
from hiveacid.statements.values_compactions import (
    AbortCompactions,
    Compact,
    ShowCompactions,
    SortItem,
)

_FILTERS = ("POOL", "TYPE", "STATUS", "ORDER", "LIMIT")


def parse_compact(cursor: Cursor, name: TableName, partition: ddl.PartitionText) -> Compact:
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
    order_by = _sort_items(cursor) if cursor.accept("ORDER", "BY") else ()
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
    check_arguments(str, order_by=text)
    cursor = Cursor(source=text, tokens=tokenize(text))
    found = _sort_items(cursor)
    cursor.end_statement()
    return found


def _sort_items(cursor: Cursor) -> tuple[SortItem, ...]:
    found: list[SortItem] = []
    while True:
        column = cursor.name("order by").lower()
        if cursor.key not in (",", "ASC", "DESC", "NULLS", "WHERE") and not cursor.at_end():
            raise UnsupportedError("COMPACT ... ORDER BY is supported with columns only")
        descending = cursor.accept_any("ASC", "DESC") == "DESC"
        nulls_first = descending
        if cursor.accept("NULLS"):
            nulls_first = cursor.key == "FIRST"
            if cursor.accept_any("FIRST", "LAST") is None:
                raise cursor.unrecognized("null ordering")
        found.append(SortItem(column, descending, nulls_first))
        if not cursor.accept(","):
            return tuple(found)


def parse_show_compactions(cursor: Cursor) -> ShowCompactions:
    """What follows SHOW COMPACTIONS."""
    if cursor.accept("COMPACTIONID"):
        cursor.expect("=")
        return ShowCompactions(compaction=CompactionId(cursor.integer("compaction id")))
    schema: str | None = None
    name: TableName | None = None
    partition: ddl.PartitionText = ()
    if cursor.accept_any("DATABASE", "SCHEMA") is not None:
        schema = cursor.name("show compactions").lower()
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
        order=_order(cursor),
        limit=cursor.integer("limit clause") if cursor.accept("LIMIT") else None,
    )


def _at_filter(cursor: Cursor) -> bool:
    """At a clause, not at a table that happens to be called so."""
    follower = cursor.peek(1)
    if cursor.key == "ORDER":
        return follower.key == "BY"
    kind = TokenKind.NUMBER if cursor.key == "LIMIT" else TokenKind.STRING
    return cursor.key in _FILTERS and follower.kind is kind


def _order(cursor: Cursor) -> tuple[tuple[str, bool], ...]:
    """The answer's columns alone: Hive passes any text on to its database."""
    found: list[tuple[str, bool]] = []
    if cursor.accept("ORDER", "BY"):
        while True:
            column = cursor.name("order by").lower()
            found.append((column, cursor.accept_any("ASC", "DESC") == "DESC"))
            if not cursor.accept(","):
                break
    return tuple(found)


def parse_abort_compactions(cursor: Cursor) -> AbortCompactions:
    """What follows ABORT COMPACTIONS."""
    found = [CompactionId(cursor.integer("compaction ids"))]
    while not cursor.at_end():
        cursor.accept(",")
        found.append(CompactionId(cursor.integer("compaction ids")))
    return AbortCompactions(tuple(found))

"""Grammar of what chooses partitions: SHOW PARTITIONS ... WHERE, DROP PARTITION, MSCK.

NOT goes down to the comparisons: one that NULL meets neither way is then false under NOT, too, as
in SQL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hiveacid.sql.cursor import Cursor
from hiveacid.sql.dml import partition_text
from hiveacid.statements.partition_values import JoinedFilters, PartitionCondition, PartitionFilter

_OPERATORS: Final = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_OPPOSITES: Final = {"=": "!=", "<": ">=", "<=": ">", "LIKE": "NOT LIKE"}
_OPPOSITES.update({opposite: operator for operator, opposite in _OPPOSITES.items()})


def partition_filter(cursor: Cursor) -> PartitionFilter:
    """Comparisons of columns with constants, IN, BETWEEN, LIKE, AND, OR, NOT, parentheses."""
    return _either(cursor, False)


def listed_filters(cursor: Cursor) -> PartitionFilter:
    """( filter, ... ): all of them hold."""
    return joined(cursor.in_parentheses(partition_filter), either=False)


def joined(filters: Iterable[PartitionFilter], *, either: bool) -> PartitionFilter:
    """All of the filters hold, or with ``either`` one of them."""
    found = tuple(filters)
    return found[0] if len(found) == 1 else JoinedFilters(found, either)


def _either(cursor: Cursor, negated: bool) -> PartitionFilter:
    found = cursor.listed(lambda _: _both(cursor, negated), by="OR")
    return joined(found, either=not negated)


def _both(cursor: Cursor, negated: bool) -> PartitionFilter:
    found = cursor.listed(lambda _: _one(cursor, negated), by="AND")
    return joined(found, either=negated)


def _one(cursor: Cursor, negated: bool) -> PartitionFilter:
    if cursor.accept("NOT"):
        return _one(cursor, not negated)
    if cursor.accept("("):
        found = _either(cursor, negated)
        cursor.expect(")")
        return found
    return _comparison(cursor, negated)


def _comparison(cursor: Cursor, negated: bool) -> PartitionFilter:
    column = cursor.small_name("partition specification")

    def compared(operator: str, text: str | None) -> PartitionFilter:
        shown = _OPPOSITES[operator] if negated else operator
        return PartitionCondition(column, shown, text)

    if cursor.key == "NOT" and cursor.peek(1).key in ("IN", "BETWEEN", "LIKE"):
        cursor.next()
        negated = not negated
    if cursor.accept("IN"):
        texts = cursor.in_parentheses(partition_text)
        return joined((compared("=", text) for text in texts), either=not negated)
    if cursor.accept("BETWEEN"):
        low = compared(">=", partition_text(cursor))
        cursor.expect("AND")
        high = compared("<=", partition_text(cursor))
        return joined((low, high), either=negated)
    if cursor.accept("LIKE"):
        return compared("LIKE", cursor.string("pattern"))
    operator = _OPERATORS.get(cursor.key)
    if operator is None:
        raise cursor.unrecognized("partition filter")
    cursor.next()
    return compared(operator, partition_text(cursor))

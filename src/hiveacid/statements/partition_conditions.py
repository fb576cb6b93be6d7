"""Conditions on partition columns, as DROP PARTITION and SHOW PARTITIONS take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hiveacid.model.tables import Table
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.partition_values import normal_text, partition_column, sort_key

_COMPARE: Final[Mapping[str, Callable[[tuple[int, object], tuple[int, object]], bool]]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def meets(
    table: Table,
    values: Mapping[str, str | None],
    conditions: tuple[ddl.PartitionCondition, ...],
) -> bool:
    """Whether a partition with these values (by column) meets all conditions."""
    for condition in conditions:
        column = partition_column(table, condition.column)
        wanted = normal_text(condition.text, column)
        stored = values[column.name]
        if condition.operator not in ("=", "!=") and (wanted is None or stored is None):
            return False
        compare = _COMPARE[condition.operator]
        if not compare(sort_key(stored, column), sort_key(wanted, column)):
            return False
    return True

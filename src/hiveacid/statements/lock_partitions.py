"""Which partitions a statement locks: those whose rows its condition may touch."""

from __future__ import annotations

from collections.abc import Iterable

from hiveacid.layout.names import partition_name
from hiveacid.model.predicates import Predicate, columns_of
from hiveacid.model.tables import Table
from hiveacid.txn.footprint import PARTITIONS_MAX
from hiveacid.txn.view import Look


def locked_partitions(
    look: Look, table: Table, predicates: Iterable[Predicate]
) -> tuple[str, ...] | None:
    """Names of the partitions that may meet one of ``predicates``; None (the whole table) where
    those say nothing of partitions, and where all partitions, none or very many are left.
    """
    from hiveacid.storage.plan.planning import partitions_that_match

    wanted = tuple(predicates)
    keys = [column.name for column in table.partition_columns]
    if not keys or any(columns_of(one).isdisjoint(keys) for one in wanted):
        return None
    known = look.partitions(table)
    found = {part.values for one in wanted for part in partitions_that_match(table, known, one)}
    if len(found) in (0, len(known)) or len(found) > PARTITIONS_MAX:
        return None
    return tuple(partition_name(keys, part.values) for part in known if part.values in found)

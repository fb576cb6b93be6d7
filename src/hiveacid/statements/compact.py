"""ALTER TABLE ... COMPACT and ABORT COMPACTIONS: what is asked of the compactor's queue.

A statement only puts requests into the queue; who carries them out is settled above.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from hiveacid.errors import CompactionError, InvalidInputError, NotFoundError
from hiveacid.layout.names import partition_name
from hiveacid.metastore.api import Catalog
from hiveacid.metastore.compaction_queue import CompactionQueue
from hiveacid.model.compactions import CompactionId, CompactionRequest, CompactionType
from hiveacid.model.ids import MAX_BUCKET_ID
from hiveacid.model.tables import FILE_NAMES, HIVE_4, AcidMode, Partition, Table, TableKind
from hiveacid.statements.listing import Listing
from hiveacid.statements.partition_values import normal_spec
from hiveacid.statements.values_compactions import AbortCompactions, Compact

_TYPES: Final = {
    "major": CompactionType.MAJOR,
    "minor": CompactionType.MINOR,
    "rebalance": CompactionType.REBALANCE,
}


@dataclass(frozen=True, slots=True)
class CompactionOrder:
    """What a COMPACT statement asks for: ``request`` alone, or, of a partitioned table without a
    partition, the same of each of ``partitions`` that has something to do.
    """

    table: Table
    request: CompactionRequest
    partitions: tuple[Partition, ...] = ()

    def requests(self, chosen: Iterable[Partition]) -> tuple[CompactionRequest, ...]:
        """The request for each of some partitions."""
        keys = [column.name for column in self.table.partition_columns]
        return tuple(
            replace(self.request, partition=partition_name(keys, one.values)) for one in chosen
        )


def plan_compaction(catalog: Catalog, value: Compact, *, host: str) -> CompactionOrder:
    """Check a COMPACT statement; ``host`` is where it is asked.

    Raises:
        NotFoundError: 10001 no such table, 10006 no such partition.
        InvalidInputError: 10002 (no such column), 10282 (type), 10284 (several partitions), 10286
            (not transactional), a table that is not compacted, or what this type of compaction
            cannot do with this table.
    """
    kind = _TYPES.get(value.kind)
    if kind is None:
        raise InvalidInputError(
            "Invalid compaction type, supported values are 'major' and 'minor'",
            code=10282,
            type=value.kind,
            note="'rebalance' is supported, too.",
        )
    table = catalog.get_table(value.name)
    chosen = _partitions(catalog, table, value)
    _check_table(table, kind)
    _check_clauses(value, kind, table)
    keys = [column.name for column in table.partition_columns]
    request = CompactionRequest(
        table=table.name,
        partition=partition_name(keys, chosen[0].values) if value.partition else None,
        type=kind,
        properties=value.properties,
        pool=value.pool or None,
        buckets=value.buckets,
        order_by=", ".join(map(str, value.order_by)) or None,
        initiator=f"{host}-manual",
    )
    return CompactionOrder(table, request, () if value.partition else chosen)


def _partitions(catalog: Catalog, table: Table, value: Compact) -> tuple[Partition, ...]:
    """The one partition that is named; all of a partitioned table where none is."""
    if not value.partition:
        return tuple(catalog.list_partitions(table.name)) if table.partition_columns else ()
    wanted = normal_spec(table, value.partition)
    keys = [column.name for column in table.partition_columns]
    found = tuple(
        one
        for one in catalog.list_partitions(table.name)
        if all(one.values[keys.index(key)] == text for key, text in wanted.items())
    )
    if not found:
        spec = ", ".join(f"{key}={text}" for key, text in wanted.items())
        raise NotFoundError(f"Partition not found {{{spec}}}", code=10006, table=str(table.name))
    if len(found) > 1:
        raise InvalidInputError(
            "Compaction can only be requested on one partition at a time.",
            code=10284,
            table=str(table.name),
            partitions=len(found),
        )
    return found


def _check_table(table: Table, kind: CompactionType) -> None:
    if table.acid_mode is AcidMode.NONE or table.kind is TableKind.VIEW:
        raise InvalidInputError(
            f"Compaction is not allowed on non-ACID table {table.name}",
            code=10286,
            table=str(table.name),
        )
    if table.sort_columns:
        raise InvalidInputError(
            f"{table.name} is sorted: compaction of sorted tables is not supported",
            table=str(table.name),
        )
    if table.has_hive_3_names:
        raise InvalidInputError(
            f"{table.name} is not compacted here: its files are named for Hive 3.1 ({FILE_NAMES}), "
            f"which does not know the suffix that hides a compaction until it is complete",
            table=str(table.name),
            note=f"Compact it with Hive 3.1. If that need not read it any more: ALTER TABLE "
            f"{table.name} SET TBLPROPERTIES ('{FILE_NAMES}'='{HIVE_4}').",
        )
    if kind is not CompactionType.REBALANCE:
        return
    if table.bucket is not None:
        raise InvalidInputError(
            f"Cannot execute rebalance compaction on bucketed table {table.name}",
            table=str(table.name),
        )
    if table.acid_mode is AcidMode.INSERT_ONLY:
        raise InvalidInputError(
            f"Cannot execute rebalance compaction on insert-only table {table.name}",
            table=str(table.name),
        )


def _check_clauses(value: Compact, kind: CompactionType, table: Table) -> None:
    if kind is not CompactionType.REBALANCE and (value.order_by or value.buckets is not None):
        raise InvalidInputError(
            "CLUSTERED INTO and ORDER BY are for a rebalance compaction only", type=value.kind
        )
    names = {column.name for column in table.columns}
    for item in value.order_by:
        if item.column not in names:
            raise InvalidInputError(
                f"{table.name} has no column {item.column} to order its rows by",
                code=10002,
                table=str(table.name),
                column=item.column,
            )
    if value.buckets is not None and not 0 < value.buckets <= MAX_BUCKET_ID + 1:
        raise InvalidInputError(
            f"The number of buckets must lie between 1 and {MAX_BUCKET_ID + 1}: {value.buckets}",
            buckets=value.buckets,
        )


def enqueue(queue: CompactionQueue, request: CompactionRequest) -> CompactionId:
    """Put the request into the queue.

    Raises:
        CompactionError: 10432, one is on its way already.
    """
    answer = queue.compact(request)
    if answer.accepted:
        return answer.id
    where = str(request.table) + (f"/{request.partition}" if request.partition else "")
    raise CompactionError(
        f"Compaction request for {where} is refused, details: {answer.message}.",
        code=10432,
        table=str(request.table),
        partition=request.partition,
    )


def abort_compactions(queue: CompactionQueue, statement: AbortCompactions) -> Listing:
    """ABORT COMPACTIONS: what became of each."""
    found = queue.abort_compactions(statement.compactions)
    columns = ("compactionid", "status", "message")
    return Listing(columns, tuple((str(one), *answer) for one, answer in found.items()))

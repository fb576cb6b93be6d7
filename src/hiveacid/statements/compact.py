"""ALTER TABLE ... COMPACT, SHOW and ABORT COMPACTIONS: what is asked of the compactor's queue.

A statement only puts requests into the queue; who carries them out is settled above.
SHOW tells the queue and the history, filtered and in any order (metastore.md 4.8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, TypeVar

from hiveacid.errors import CompactionError, InvalidInputError
from hiveacid.layout.directories import parse_partition_name, partition_name
from hiveacid.metastore.api import Catalog, Metastore
from hiveacid.metastore.upkeep import CompactionQueue
from hiveacid.model.compactions import (
    CompactionId,
    CompactionInfo,
    CompactionRequest,
    CompactionState,
    CompactionType,
)
from hiveacid.model.tables import (
    COMPAT,
    HIVE_4,
    MAX_BUCKET_ID,
    AcidMode,
    Partition,
    Table,
    TableKind,
    TableName,
)
from hiveacid.spark.session import quoted
from hiveacid.statements.partition_values import PartitionText, named_partitions, normal_spec
from hiveacid.statements.values import Command, DescribeDetail, Listing


@dataclass(frozen=True, slots=True)
class SortItem:
    """A column in the order of a rebalance; Hive puts NULL last ascending and first descending."""

    column: str
    descending: bool
    nulls_first: bool

    def __str__(self) -> str:
        """As the queue keeps it."""
        order = "DESC" if self.descending else "ASC"
        return f"{quoted(self.column)} {order} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


@dataclass(frozen=True, slots=True)
class Compact(Command):
    """ALTER TABLE name [PARTITION (...)] COMPACT 'kind' [CLUSTERED INTO n BUCKETS] [AND WAIT]
    [POOL 'pool'] [WITH OVERWRITE TBLPROPERTIES (...)] [ORDER BY ...].

    ``kind`` is in lower case.
    """

    name: TableName
    kind: str
    partition: PartitionText = ()
    wait: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    pool: str | None = None
    buckets: int | None = None
    order_by: tuple[SortItem, ...] = ()


@dataclass(frozen=True, slots=True)
class ShowCompactions(Command):
    """SHOW COMPACTIONS [COMPACTIONID = n] | [DATABASE schema | name [PARTITION (...)]] [POOL 'p']
    [TYPE 't'] [STATUS 's'] [ORDER BY ...] [LIMIT n].

    ``order`` pairs a column of the answer with whether it is descending.
    """

    compaction: CompactionId | None = None
    schema: str | None = None
    name: TableName | None = None
    partition: PartitionText = ()
    pool: str | None = None
    kind: str | None = None
    status: str | None = None
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class AbortCompactions(Command):
    """ABORT COMPACTIONS id ..."""

    compactions: tuple[CompactionId, ...]


_HOURS_MAX: Final = 1e9
"""Longer than there are files; a database holds as many milliseconds."""


@dataclass(frozen=True, slots=True)
class Clean(Command):
    """VACUUM name [RETAIN n HOURS] [DRY RUN]: clean a table, all of them where ``name`` is None;
    ``dry_run`` only tells what would go and why the rest stays. What was replaced within
    ``retain_s`` stays, too, where that is longer than the table's retention.
    """

    name: TableName | None = None
    dry_run: bool = False
    retain_s: float | None = None

    @classmethod
    def of(cls, name: TableName | None, dry_run: bool, retain_hours: float | None) -> Clean:
        """The same with hours.

        Raises:
            InvalidInputError: they are below 0, or without an end.
        """
        if retain_hours is not None and not 0 <= retain_hours < _HOURS_MAX:
            raise InvalidInputError(
                f"retain_hours is a number from 0 to {_HOURS_MAX:g}, not {retain_hours:g}",
                argument="retain_hours",
            )
        return cls(name, dry_run, None if retain_hours is None else retain_hours * 3600)


@dataclass(frozen=True, slots=True)
class WhyCompact(Command):
    """Which threshold a table's partitions meet, or what is missing. No SQL says this."""

    name: TableName


CompactionStatement = (
    Compact | ShowCompactions | AbortCompactions | Clean | WhyCompact | DescribeDetail
)


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
        return tuple(
            replace(self.request, partition=partition_name(self.table.partition_keys, one.values))
            for one in chosen
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
            f"Invalid compaction type '{value.kind}', supported values are 'major', 'minor' and "
            "'rebalance'",
            code=10282,
            type=value.kind,
        )
    table = catalog.get_table(value.name)
    chosen = _partitions(catalog, table, value)
    _check_table(table, kind)
    _check_clauses(value, kind, table)
    request = CompactionRequest(
        table=table.name,
        partition=partition_name(table.partition_keys, chosen[0].values)
        if value.partition
        else None,
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
    found = named_partitions(table, catalog.list_partitions(table.name), value.partition)
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
            f"{table.name} is not compacted here: its files are named for Hive 3.1 ({COMPAT}), "
            f"which does not know the suffix that hides a compaction until it is complete",
            table=str(table.name),
            note=f"Compact it with Hive 3.1. If that need not read it any more: ALTER TABLE "
            f"{table.name} SET TBLPROPERTIES ('{COMPAT}'='{HIVE_4}').",
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


def aborts_listing(found: Iterable[tuple[CompactionId, tuple[str, str]]]) -> Listing:
    """ABORT COMPACTIONS: what became of each."""
    rows = tuple((str(one), *answer) for one, answer in found)
    return Listing(("compactionid", "status", "message"), rows)


# -------------------------------------------------------------------- SHOW COMPACTIONS

_MISSING: Final = " --- "
_Known = TypeVar("_Known", CompactionType, CompactionState)
_Value = Callable[[CompactionInfo], str | int | None]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the answer; ``stored`` is what Hive's own ORDER BY calls it."""

    name: str
    value: _Value
    stored: str = ""


_HOST, _THREAD = 0, 2


def _part(attribute: str, place: int) -> _Value:
    """What stands before, or behind, the last dash of ``<host>-<thread>``."""
    return lambda info: (getattr(info, attribute) or "").rpartition("-")[place] or None


def _duration(info: CompactionInfo) -> int | None:
    if info.ended_ms is None or info.started_ms is None:
        return None
    return info.ended_ms - info.started_ms


_COLUMNS: Final = (
    _Column("compactionid", attrgetter("id"), "id"),
    _Column("dbname", attrgetter("table.database"), "database"),
    _Column("tabname", attrgetter("table.table"), "table"),
    _Column("partname", attrgetter("partition"), "partition"),
    _Column("type", attrgetter("type.name"), "type"),
    _Column("state", attrgetter("state.phrase"), "state"),
    _Column("workerhost", _part("worker", _HOST)),
    _Column("workerid", _part("worker", _THREAD), "worker_id"),
    _Column("enqueuetime", attrgetter("enqueued_ms"), "enqueue_time"),
    _Column("starttime", attrgetter("started_ms"), "start"),
    _Column("duration", _duration),
    _Column("hadoopjobid", lambda _: None, "hadoop_job_id"),
    _Column("errormessage", attrgetter("error"), "error_message"),
    _Column("initiatorhost", _part("initiator", _HOST)),
    _Column("initiatorid", _part("initiator", _THREAD), "initiator_id"),
    _Column("poolname", attrgetter("pool"), "pool_name"),
    _Column("txnid", attrgetter("txn"), "txn_id"),
    _Column("nexttxnid", attrgetter("next_txn"), "next_txn_id"),
    _Column("committime", attrgetter("committed_ms"), "commit_time"),
    _Column("hightestwriteid", attrgetter("highest_write_id"), "highest_write_id"),
)
COLUMN_NAMES: Final = tuple(column.name for column in _COLUMNS)
"""The columns of SHOW COMPACTIONS in Hive 4."""
_SORTABLE: Final = {
    name: column.value
    for column in _COLUMNS
    for name in (column.name, column.stored, f"cc_{column.stored}", f"cq_{column.stored}")
}


def compactions_listing(found: Iterable[CompactionInfo]) -> Listing:
    """SHOW COMPACTIONS: the entries as text, `` --- `` for what is missing."""
    rows = (tuple(_MISSING if value is None else str(value) for value in row_of(i)) for i in found)
    return Listing(COLUMN_NAMES, tuple(rows))


def row_of(info: CompactionInfo) -> tuple[str | int | None, ...]:
    """The values of one row of SHOW COMPACTIONS, times in epoch milliseconds."""
    return tuple(column.value(info) for column in _COLUMNS)


def find_compactions(
    metastore: Metastore, statement: ShowCompactions
) -> tuple[CompactionInfo, ...]:
    """The entries that the statement shows, in its order; the newest first where it names none.

    Raises:
        NotFoundError: 10001 no such table.
        InvalidInputError: 10282 no such type; no such status, or no column to order by.
    """
    if statement.limit is not None and statement.limit < 0:
        raise InvalidInputError(
            f"The limit must not be negative: {statement.limit}", limit=statement.limit
        )
    if statement.partition and statement.name is None:
        raise InvalidInputError("A partition is shown of a table, and none is named")
    kind = _named(statement.kind, _KINDS, "type", code=10282)
    state = _named(statement.status, _STATES, "status")
    order = [(_sort_key(name), descending) for name, descending in statement.order]
    wanted: dict[str, str | None] = {}
    if statement.name is not None:
        wanted = normal_spec(metastore.get_table(statement.name), statement.partition)
    found = [
        info
        for info in metastore.show_compactions(
            compaction=statement.compaction, table=statement.name
        )
        if statement.schema in (None, info.table.database)
        and statement.pool in (None, info.pool)
        and kind in (None, info.type)
        and state in (None, info.state)
        and _is_in(info.partition, wanted)
    ]
    for key, descending in reversed(order):
        found.sort(key=key, reverse=descending)
    return tuple(found[: statement.limit])


def _is_in(partition: str | None, wanted: dict[str, str | None]) -> bool:
    values = dict(parse_partition_name(partition or "") or ())
    return all(values.get(key) == text for key, text in wanted.items())


_KINDS: Final = {kind.name: kind for kind in CompactionType}
_STATES: Final = {state.phrase: state for state in CompactionState}


def _named(
    text: str | None, known: Mapping[str, _Known], what: str, *, code: int | None = None
) -> _Known | None:
    """What a text names; None for None."""
    found = {name.lower(): one for name, one in known.items()}
    if text is None or text.lower() in found:
        return None if text is None else found[text.lower()]
    raise InvalidInputError(f"Invalid compaction {what}: {text}", code=code, note=_known(known))


def _sort_key(name: str) -> Callable[[CompactionInfo], tuple[bool, str | int]]:
    """By value, what is missing last."""
    value = _SORTABLE.get(name)
    if value is None:
        raise InvalidInputError(
            f"SHOW COMPACTIONS has no column {name} to order by",
            column=name,
            note=_known(column.name for column in _COLUMNS),
        )

    def key(info: CompactionInfo) -> tuple[bool, str | int]:
        found = value(info)
        return (found is None, 0 if found is None else found)

    return key


def _known(names: Iterable[str]) -> str:
    return f"Known are: {', '.join(names)}"

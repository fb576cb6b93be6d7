"""SHOW COMPACTIONS: the queue and the history, filtered and in any order (metastore.md 4.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from hiveacid.errors import InvalidInputError
from hiveacid.layout.names import parse_partition_name
from hiveacid.metastore.api import Catalog
from hiveacid.metastore.compaction_queue import CompactionQueue
from hiveacid.model.compactions import CompactionInfo, CompactionState, CompactionType
from hiveacid.statements.listing import Listing
from hiveacid.statements.partition_values import normal_spec
from hiveacid.statements.values_compactions import ShowCompactions

_MISSING: Final = " --- "
_Value = Callable[[CompactionInfo], str | int | None]


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the answer; ``stored`` is what Hive's own ORDER BY calls it."""

    name: str
    value: _Value
    stored: str = ""


def _host(attribute: str) -> _Value:
    """What stands before the last dash of ``<host>-<thread>``."""
    return lambda info: (getattr(info, attribute) or "").rpartition("-")[0] or None


def _thread(attribute: str) -> _Value:
    return lambda info: (getattr(info, attribute) or "").rpartition("-")[2] or None


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
    _Column("workerhost", _host("worker")),
    _Column("workerid", _thread("worker"), "worker_id"),
    _Column("enqueuetime", attrgetter("enqueued_ms"), "enqueue_time"),
    _Column("starttime", attrgetter("started_ms"), "start"),
    _Column("duration", _duration),
    _Column("hadoopjobid", lambda _: None, "hadoop_job_id"),
    _Column("errormessage", attrgetter("error"), "error_message"),
    _Column("initiatorhost", _host("initiator")),
    _Column("initiatorid", _thread("initiator"), "initiator_id"),
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
    for name in (column.name, f"cc_{column.stored}", f"cq_{column.stored}")
}


def show_compactions(
    catalog: Catalog, queue: CompactionQueue, statement: ShowCompactions
) -> Listing:
    """The answer as text, `` --- `` for what is missing.

    Raises:
        NotFoundError: 10001 no such table.
        InvalidInputError: 10282 no such type; no such status, or no column to order by.
    """
    infos = find_compactions(catalog, queue, statement)
    rows = tuple(
        tuple(_MISSING if value is None else str(value) for value in row_of(info)) for info in infos
    )
    return Listing(COLUMN_NAMES, rows)


def row_of(info: CompactionInfo) -> tuple[str | int | None, ...]:
    """The values of one row of SHOW COMPACTIONS, times in epoch milliseconds."""
    return tuple(column.value(info) for column in _COLUMNS)


def find_compactions(
    catalog: Catalog, queue: CompactionQueue, statement: ShowCompactions
) -> tuple[CompactionInfo, ...]:
    """The entries that the statement shows, in its order; the newest first where it names none.

    Raises:
        NotFoundError, InvalidInputError: as ``show_compactions``.
    """
    if statement.limit is not None and statement.limit < 0:
        raise InvalidInputError(
            f"The limit must not be negative: {statement.limit}", limit=statement.limit
        )
    if statement.partition and statement.name is None:
        raise InvalidInputError("A partition is shown of a table, and none is named")
    kind = _kind(statement.kind)
    state = _state(statement.status)
    order = [(_sort_key(name), descending) for name, descending in statement.order]
    wanted: dict[str, str | None] = {}
    if statement.name is not None:
        wanted = normal_spec(catalog.get_table(statement.name), statement.partition)
    found = [
        info
        for info in queue.show_compactions(compaction=statement.compaction, table=statement.name)
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
    if not wanted:
        return True
    values = dict(parse_partition_name(partition or "") or ())
    return all(values.get(key) == text for key, text in wanted.items())


def _kind(text: str | None) -> CompactionType | None:
    if text is None:
        return None
    for kind in CompactionType:
        if kind.name == text.upper():
            return kind
    raise InvalidInputError(
        f"Invalid compaction type: {text}",
        code=10282,
        note=_known(k.name for k in CompactionType),
    )


def _state(text: str | None) -> CompactionState | None:
    if text is None:
        return None
    for state in CompactionState:
        if state.phrase == text.lower():
            return state
    raise InvalidInputError(
        f"Invalid compaction status: {text}", note=_known(s.phrase for s in CompactionState)
    )


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

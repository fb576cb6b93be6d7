"""Rows of COMPACTION_QUEUE and COMPLETED_COMPACTIONS as values, and the way from one to the other
(metastore.md 1.9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import bindparam, delete, func, insert, literal, null, or_, select, update
from sqlalchemy.sql import ColumnElement

from hiveacid.metastore.sql.dialect import Row
from hiveacid.metastore.sql.engine import Unit, one_of
from hiveacid.metastore.sql.schema import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    NEXT_COMPACTION_QUEUE_ID,
)
from hiveacid.model.compactions import (
    CompactionId,
    CompactionInfo,
    CompactionState,
    CompactionType,
    format_map,
    parse_map,
)
from hiveacid.model.tables import TableName, TxnId, WriteId

Q = COMPACTION_QUEUE.c
H = COMPLETED_COMPACTIONS.c
READY: Final = CompactionState.READY_FOR_CLEANING.value
ABORT_CLEANUP: Final = CompactionType.ABORT_TXN_CLEANUP.value

_SHARED: Final = (
    "ID",
    "DATABASE",
    "TABLE",
    "PARTITION",
    "TYPE",
    "STATE",
    "TBLPROPERTIES",
    "WORKER_ID",
    "WORKER_VERSION",
    "ENQUEUE_TIME",
    "START",
    "RUN_AS",
    "HIGHEST_WRITE_ID",
    "ERROR_MESSAGE",
    "TXN_ID",
    "NEXT_TXN_ID",
    "COMMIT_TIME",
    "INITIATOR_ID",
    "INITIATOR_VERSION",
    "POOL_NAME",
    "NUMBER_OF_BUCKETS",
    "ORDER_BY",
)
_CARRIED: Final = ("META_INFO", "HADOOP_JOB_ID")
"""Hive's alone; they go along into the history."""

QUEUE_COLUMNS: Final = (
    *(Q[f"CQ_{name}"] for name in _SHARED),
    null().label("ended"),
    Q.CQ_CLEANER_START,
    Q.CQ_RETRY_RETENTION,
)
HISTORY_COLUMNS: Final = (
    *(H[f"CC_{name}"] for name in _SHARED),
    H.CC_END,
    null().label("cleaner_start"),
    literal(0).label("retention"),
)


def of_object(database: ColumnElement[str], table: ColumnElement[str]) -> ColumnElement[bool]:
    """Rows of the table in the parameters ``db`` and ``table``."""
    return (database == bindparam("db")) & (table == bindparam("table"))


QUEUED_OBJECT: Final = of_object(Q.CQ_DATABASE, Q.CQ_TABLE) & (
    Q.CQ_PARTITION.is_not_distinct_from(bindparam("partition"))
)
"""Rows of the queue of one table or partition."""

WORKERS_LOST_MAX: Final = 3
"""An entry on which so many workers were lost is not given to another one."""
WAITS_AGAIN: Final[Mapping[str, object]] = {
    "CQ_STATE": CompactionState.INITIATED.value,
    "CQ_WORKER_ID": None,
    "CQ_START": None,
    "CQ_TXN_ID": None,
    "CQ_HIGHEST_WRITE_ID": None,
    "CQ_RETRY_RETENTION": Q.CQ_RETRY_RETENTION + bindparam("lost"),
}
"""The values of an entry whose worker was lost (``lost`` is 1) or gave it back (0). The last column
means nothing to Hive before there is something to clean, so it can count them until then."""

_GIVE_BACK: Final = (
    update(COMPACTION_QUEUE)
    .where(
        Q.CQ_TXN_ID == bindparam("txn"),
        one_of(Q.CQ_STATE, [CompactionState.WORKING.value, READY]),
    )
    .values(**WAITS_AGAIN)
)
_HOPELESS: Final = select(*QUEUE_COLUMNS).where(
    Q.CQ_STATE == CompactionState.INITIATED.value, Q.CQ_RETRY_RETENTION >= WORKERS_LOST_MAX
)

_NEXT_ID_HELD: Final = select(NEXT_COMPACTION_QUEUE_ID.c.NCQ_NEXT).with_for_update()
_SET_NEXT_ID: Final = update(NEXT_COMPACTION_QUEUE_ID).values(NCQ_NEXT=bindparam("next"))

# A worker whose entry was given to another one must not finish it, not even when that one has
# marked it: that takes the worker's name away, its transaction stays. A cleaner has no name.
_WORKER: Final = bindparam("worker", type_=Q.CQ_WORKER_ID.type)
_MINE: Final = (Q.CQ_ID == bindparam("id")) & or_(
    _WORKER.is_(None),
    Q.CQ_WORKER_ID == _WORKER,
    (Q.CQ_STATE == READY) & (Q.CQ_TXN_ID == bindparam("txn", type_=Q.CQ_TXN_ID.type)),
)
_TO_HISTORY: Final = insert(COMPLETED_COMPACTIONS).from_select(
    [
        *(f"CC_{name}" for name in (*_SHARED, *_CARRIED) if name not in ("STATE", "ERROR_MESSAGE")),
        "CC_STATE",
        "CC_ERROR_MESSAGE",
        "CC_END",
    ],
    select(
        *(
            Q[f"CQ_{name}"]
            for name in (*_SHARED, *_CARRIED)
            if name not in ("STATE", "ERROR_MESSAGE")
        ),
        bindparam("state", type_=Q.CQ_STATE.type).label("state"),
        func.coalesce(bindparam("error", type_=Q.CQ_ERROR_MESSAGE.type), Q.CQ_ERROR_MESSAGE),
        bindparam("now", type_=H.CC_END.type).label("now"),
    ).where(_MINE),
)
_DELETE: Final = delete(COMPACTION_QUEUE).where(Q.CQ_ID == bindparam("id"))


def hold_next_id(unit: Unit) -> CompactionId:
    """The next id; nobody else gets one, or learns it, until the end of the unit."""
    return CompactionId(int(unit.scalar(_NEXT_ID_HELD)))


def take_id(unit: Unit) -> CompactionId:
    """A new id."""
    following = hold_next_id(unit)
    unit.ask(_SET_NEXT_ID, next=following + 1)
    return following


def move_to_history(
    unit: Unit, compaction: CompactionInfo, state: CompactionState, error: str | None = None
) -> bool:
    """Move an entry out of the queue; False where it is not there or is another worker's."""
    who = {"id": compaction.id, "worker": compaction.worker, "txn": compaction.txn}
    moved = unit.count(_TO_HISTORY, **who, state=state.value, error=error, now=unit.now_ms)
    if moved:
        unit.ask(_DELETE, id=compaction.id)
    return bool(moved)


def give_back(unit: Unit, txn: TxnId, *, lost: bool) -> None:
    """What happens to an entry when its worker's transaction is aborted: it waits for another.

    ``lost``: the worker did not do that itself.
    """
    unit.ask(_GIVE_BACK, txn=txn, lost=int(lost))
    if lost:
        fail_hopeless(unit)


def fail_hopeless(unit: Unit) -> None:
    """Move into the history, as failed, what has cost too many workers."""
    for row in unit.rows(_HOPELESS):
        text = f"{WORKERS_LOST_MAX} workers were lost while they worked on it"
        move_to_history(unit, info(row), CompactionState.FAILED, text)


def write_history(
    unit: Unit, compaction: CompactionInfo, state: CompactionState, error: str | None
) -> None:
    """Write down what never was in the queue."""
    row = {
        "CC_ID": take_id(unit),
        "CC_DATABASE": compaction.table.database,
        "CC_TABLE": compaction.table.table,
        "CC_PARTITION": compaction.partition,
        "CC_TYPE": compaction.type.value,
        "CC_STATE": state.value,
        "CC_TBLPROPERTIES": format_map(compaction.properties) if compaction.properties else None,
        "CC_ENQUEUE_TIME": compaction.enqueued_ms,
        "CC_START": 0,
        "CC_END": unit.now_ms,
        "CC_RUN_AS": compaction.run_as,
        "CC_ERROR_MESSAGE": error,
        "CC_INITIATOR_ID": compaction.initiator,
        "CC_POOL_NAME": compaction.pool,
    }
    unit.insert(COMPLETED_COMPACTIONS, [row])


def named(table: TableName, partition: str | None) -> dict[str, object]:
    """The parameters that name an object."""
    return {"db": table.database, "table": table.table, "partition": partition}


def info(row: Row) -> CompactionInfo:
    """The value of a row of ``QUEUE_COLUMNS`` or ``HISTORY_COLUMNS``. Hive may store 0 for none."""
    values = dict(zip((*_SHARED, "END", "CLEANER_START", "RETRY_RETENTION"), row, strict=True))
    return CompactionInfo(
        id=CompactionId(values["ID"]),
        table=TableName(values["DATABASE"], values["TABLE"]),
        partition=values["PARTITION"],
        type=CompactionType(values["TYPE"]),
        state=CompactionState(values["STATE"]),
        properties=parse_map(values["TBLPROPERTIES"]),
        worker=values["WORKER_ID"],
        worker_version=values["WORKER_VERSION"],
        enqueued_ms=values["ENQUEUE_TIME"] or None,
        started_ms=values["START"] or None,
        ended_ms=values["END"] or None,
        run_as=values["RUN_AS"],
        highest_write_id=None
        if values["HIGHEST_WRITE_ID"] is None
        else WriteId(values["HIGHEST_WRITE_ID"]),
        error=values["ERROR_MESSAGE"],
        txn=TxnId(values["TXN_ID"]) if values["TXN_ID"] else None,
        next_txn=TxnId(values["NEXT_TXN_ID"]) if values["NEXT_TXN_ID"] else None,
        committed_ms=values["COMMIT_TIME"] or None,
        initiator=values["INITIATOR_ID"],
        pool=values["POOL_NAME"] or None,
        buckets=values["NUMBER_OF_BUCKETS"] or None,
        order_by=values["ORDER_BY"],
        cleaner_started_ms=values["CLEANER_START"],
        retry_retention_ms=values["RETRY_RETENTION"] or 0,
    )

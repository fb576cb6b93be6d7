"""Requests for compactions and who works on them (metastore.md 4.1, 4.2, 4.4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from sqlalchemy import Select, and_, bindparam, false, func, insert, or_, select, update

from hiveacid.errors import InvalidInputError, MetastoreError, NotFoundError
from hiveacid.metastore.sql.beside_hive import is_for_hive_alone
from hiveacid.metastore.sql.compaction_rows import (
    HISTORY_COLUMNS,
    QUEUE_COLUMNS,
    QUEUED_OBJECT,
    READY,
    WAITS_AGAIN,
    H,
    Q,
    fail_hopeless,
    hold_next_id,
    info,
    move_to_history,
    named,
    take_id,
    write_history,
)
from hiveacid.metastore.sql.engine import Part, Unit
from hiveacid.metastore.sql.schema import COMPACTION_QUEUE
from hiveacid.metastore.sql.write_ids import insert_components, read_valid_write_ids
from hiveacid.metastore.upkeep import CompactionOptions, CompactionQueue, CompactionUpkeep
from hiveacid.model.compactions import (
    COVERED_BY,
    NO_COMPACTION,
    CompactionAnswer,
    CompactionId,
    CompactionInfo,
    CompactionRequest,
    CompactionState,
    CompactionType,
    format_map,
)
from hiveacid.model.tables import LONG_MIN, TableName, TxnId, WriteId
from hiveacid.model.transactions import OperationType

_INITIATED: Final = CompactionState.INITIATED.value
_WORKING: Final = CompactionState.WORKING.value


def _on_its_way(kind: CompactionType) -> Select[tuple[str, int]]:
    covered = (Q.CQ_TYPE == other.value for other in COVERED_BY[kind])
    return (
        select(Q.CQ_STATE, Q.CQ_ID)
        .where(
            QUEUED_OBJECT,
            Q.CQ_TYPE != CompactionType.ABORT_TXN_CLEANUP.value,
            or_(
                Q.CQ_STATE == _INITIATED,
                Q.CQ_STATE == _WORKING,
                and_(
                    Q.CQ_STATE == READY,
                    Q.CQ_HIGHEST_WRITE_ID == bindparam("hwm"),
                    or_(false(), *covered),
                ),
            ),
        )
        .order_by(Q.CQ_ID)
        .limit(1)
    )


_ON_ITS_WAY: Final = {kind: _on_its_way(kind) for kind in CompactionType}
_ENQUEUE: Final = insert(COMPACTION_QUEUE).values(
    CQ_ID=bindparam("id"),
    CQ_DATABASE=bindparam("db"),
    CQ_TABLE=bindparam("table"),
    CQ_PARTITION=bindparam("partition"),
    CQ_STATE=_INITIATED,
    CQ_TYPE=bindparam("type"),
    CQ_TBLPROPERTIES=bindparam("properties"),
    CQ_ENQUEUE_TIME=bindparam("now"),
    CQ_RUN_AS=bindparam("run_as"),
    CQ_INITIATOR_ID=bindparam("initiator"),
    CQ_POOL_NAME=bindparam("pool"),
    CQ_NUMBER_OF_BUCKETS=bindparam("buckets"),
    CQ_ORDER_BY=bindparam("order_by"),
)
_LIMITS: Final = {"properties": 2048, "pool": 128, "order_by": 4000}
"""Characters that the columns hold."""
# One waiting request; those that another worker is just taking are passed over.
_WAITING: Final = (
    select(Q.CQ_ID)
    .where(Q.CQ_STATE == _INITIATED)
    .order_by(Q.CQ_ID)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_OF_POOL: Final = Q.CQ_POOL_NAME == bindparam("pool")
_OF_ANY: Final = or_(
    Q.CQ_POOL_NAME.is_(None), Q.CQ_POOL_NAME == "", Q.CQ_ENQUEUE_TIME < bindparam("before")
)
_NOT_HIVES_ALONE: Final = and_(
    Q.CQ_TYPE != CompactionType.SMART_OPTIMIZE.value,
    ~is_for_hive_alone(Q.CQ_DATABASE, Q.CQ_TABLE),
)
_NEXT_OF: Final = {
    (pooled, of_hive): _WAITING.where(pool, _NOT_HIVES_ALONE) if of_hive else _WAITING.where(pool)
    for pooled, pool in ((True, _OF_POOL), (False, _OF_ANY))
    for of_hive in (True, False)
}
"""By whether a pool is named, and the database is that of a Metastore of Hive's."""
_CLAIM: Final = (
    update(COMPACTION_QUEUE)
    .where(Q.CQ_ID == bindparam("id"), Q.CQ_STATE == _INITIATED)
    .values(
        CQ_STATE=_WORKING,
        CQ_WORKER_ID=bindparam("worker"),
        CQ_WORKER_VERSION=bindparam("version"),
        CQ_START=bindparam("now"),
    )
)
_ENTRY: Final = select(*QUEUE_COLUMNS).where(Q.CQ_ID == bindparam("id"))
_ENTRY_HELD: Final = _ENTRY.with_for_update()
_DONE: Final = select(*HISTORY_COLUMNS).where(H.CC_ID == bindparam("id"))
_SET_TXN: Final = (
    update(COMPACTION_QUEUE)
    .where(
        Q.CQ_ID == bindparam("id"),
        Q.CQ_STATE == _WORKING,
        func.coalesce(bindparam("worker", type_=Q.CQ_WORKER_ID.type), Q.CQ_WORKER_ID)
        == Q.CQ_WORKER_ID,
    )
    .values(
        CQ_TXN_ID=bindparam("txn"),
        CQ_HIGHEST_WRITE_ID=bindparam("highest"),
        CQ_RUN_AS=bindparam("run_as"),
    )
)
_MARK_COMPACTED: Final = (
    update(COMPACTION_QUEUE)
    .where(
        Q.CQ_ID == bindparam("id"),
        Q.CQ_STATE == _WORKING,
        Q.CQ_TXN_ID.is_not_distinct_from(bindparam("txn")),
    )
    .values(CQ_STATE=READY, CQ_WORKER_ID=None, CQ_RETRY_RETENTION=0)
)
_REVOKE: Final = update(COMPACTION_QUEUE).where(Q.CQ_STATE == _WORKING).values(**WAITS_AGAIN)
_REVOKE_HOST: Final = _REVOKE.where(
    func.substr(Q.CQ_WORKER_ID, 1, bindparam("length")) == bindparam("prefix")
)
_REVOKE_OLD: Final = _REVOKE.where(Q.CQ_START < bindparam("before"))
_REVOKE_WITHOUT_TXN: Final = _REVOKE_OLD.where(Q.CQ_TXN_ID.is_(None))


class SqlCompactions(Part, CompactionUpkeep, CompactionQueue):
    """The part of ``CompactionQueue`` about requests and workers."""

    def use_options(
        self, compaction: CompactionOptions, *, history_ms: int, retention_ms: int
    ) -> None:
        self._db.options = replace(
            self._db.options,
            compaction=compaction,
            history_ms=history_ms,
            retention_ms=retention_ms,
        )

    def compact(self, request: CompactionRequest) -> CompactionAnswer:
        texts = {
            "properties": format_map(request.properties) if request.properties else None,
            "pool": request.pool or None,
            "order_by": request.order_by,
        }
        for name, text in texts.items():
            if text is not None and len(text) > _LIMITS[name]:
                raise InvalidInputError(
                    f"The {name} of a compaction of {request.table} must not be longer than "
                    f"{_LIMITS[name]} characters: {len(text)}",
                    table=str(request.table),
                )
        with self._db.read() as unit:
            (valid,) = read_valid_write_ids(unit, (request.table,))
        where = named(request.table, request.partition)
        with self._db.write() as unit:
            hold_next_id(unit)  # one at a time looks and enqueues
            hwm = valid.for_compactor().hwm
            found = unit.row(_ON_ITS_WAY[request.type], **where, hwm=hwm)
            if found is not None:
                state, known = CompactionState(found[0]), found[1]
                return CompactionAnswer(
                    NO_COMPACTION,
                    CompactionState.REFUSED,
                    accepted=False,
                    message="Compaction is already scheduled with "
                    f"state='{state.phrase}' and id={known}",
                )
            new = take_id(unit)
            unit.ask(
                _ENQUEUE,
                **where,
                **texts,
                id=new,
                type=request.type.value,
                now=unit.now_ms,
                run_as=request.run_as,
                initiator=request.initiator,
                buckets=request.buckets,
            )
        return CompactionAnswer(new, CompactionState.INITIATED, accepted=True)

    def show_compactions(
        self, *, compaction: CompactionId | None = None, table: TableName | None = None
    ) -> tuple[CompactionInfo, ...]:
        queued, done = select(*QUEUE_COLUMNS), select(*HISTORY_COLUMNS)
        if compaction is not None:
            queued, done = queued.where(Q.CQ_ID == compaction), done.where(H.CC_ID == compaction)
        if table is not None:
            queued = queued.where(Q.CQ_DATABASE == table.database, Q.CQ_TABLE == table.table)
            done = done.where(H.CC_DATABASE == table.database, H.CC_TABLE == table.table)
        with self._db.read() as unit:
            found = [info(row) for query in (queued, done) for row in unit.rows(query)]
        return tuple(sorted(found, key=_show_order))

    def find_next_compaction(
        self, worker: str, *, version: str | None = None, pool: str | None = None
    ) -> CompactionInfo | None:
        with self._db.write() as unit:
            timeout_ms = unit.options.compaction.pool_timeout_ms
            before = unit.now_ms - timeout_ms if timeout_ms else LONG_MIN
            waiting = _NEXT_OF[bool(pool), unit.of_hive]
            found = unit.scalar(waiting, **({"pool": pool} if pool else {"before": before}))
            if found is None:
                return None
            unit.ask(_CLAIM, id=found, worker=worker, version=version, now=unit.now_ms)
            (row,) = unit.rows(_ENTRY, id=found)
        return info(row)

    def set_compactor_txn(
        self,
        compaction: CompactionId,
        txn: TxnId,
        *,
        highest_write_id: WriteId,
        worker: str | None = None,
        run_as: str | None = None,
    ) -> None:
        """See ``CompactionQueue``. The record of the transaction keeps it known, once aborted,
        until its files are gone."""
        with self._db.write() as unit:
            if not unit.count(
                _SET_TXN,
                id=compaction,
                txn=txn,
                highest=highest_write_id,
                worker=worker,
                run_as=run_as,
            ):
                raise _not_worked_on(compaction)
            (row,) = unit.rows(_ENTRY, id=compaction)
            found = info(row)
            insert_components(
                unit,
                [
                    {
                        **named(found.table, found.partition),
                        "txn": txn,
                        "op": OperationType.COMPACT.value,
                        "write_id": highest_write_id,
                    }
                ],
            )

    def mark_compacted(self, compaction: CompactionId, *, txn: TxnId | None) -> None:
        with self._db.write() as unit:
            if not unit.count(_MARK_COMPACTED, id=compaction, txn=txn):
                raise _not_worked_on(compaction)

    def mark_failed(self, compaction: CompactionInfo, error: str) -> None:
        self._finish(compaction, CompactionState.FAILED, CompactionState.DID_NOT_INITIATE, error)

    def mark_refused(self, compaction: CompactionInfo, reason: str) -> None:
        self._finish(compaction, CompactionState.REFUSED, CompactionState.REFUSED, reason)

    def abort_compactions(
        self, compactions: Collection[CompactionId]
    ) -> Mapping[CompactionId, tuple[str, str]]:
        with self._db.write() as unit:
            return {one: _abort(unit, one) for one in sorted(set(compactions))}

    def revoke_workers(
        self,
        *,
        host: str | None = None,
        older_than_ms: int | None = None,
        without_txn_ms: int | None = None,
    ) -> int:
        revoked = 0
        with self._db.write() as unit:
            if host is not None:
                prefix = f"{host}-"
                revoked += unit.count(_REVOKE_HOST, prefix=prefix, length=len(prefix), lost=0)
            if older_than_ms is not None:
                revoked += unit.count(_REVOKE_OLD, before=unit.now_ms - older_than_ms, lost=1)
            if without_txn_ms is not None:
                before = unit.now_ms - without_txn_ms
                revoked += unit.count(_REVOKE_WITHOUT_TXN, before=before, lost=1)
            fail_hopeless(unit)
        return revoked

    def _finish(
        self,
        compaction: CompactionInfo,
        state: CompactionState,
        never_queued: CompactionState,
        error: str,
    ) -> None:
        with self._db.write() as unit:
            if compaction.id == NO_COMPACTION:
                write_history(unit, compaction, never_queued, error)
            elif not move_to_history(unit, compaction, state, error):
                raise NotFoundError(
                    f"No record with CQ_ID={compaction.id} found in COMPACTION_QUEUE",
                    compaction=compaction.id,
                )


def _show_order(one: CompactionInfo) -> tuple[bool, int, int, int]:
    times = [one.started_ms, one.committed_ms, one.ended_ms]
    latest = max((time for time in times if time is not None), default=None)
    return latest is not None, -(latest or 0), one.enqueued_ms or 0, one.id


def _abort(unit: Unit, compaction: CompactionId) -> tuple[str, str]:
    """Hive's words, real spelling included."""
    row = unit.row(_ENTRY_HELD, id=compaction)
    if row is None:
        row = unit.row(_DONE, id=compaction)
    if row is None:
        return "Error", "No Such Compaction Id Available"
    found = info(row)
    if found.state is not CompactionState.INITIATED:
        return (
            "Error",
            f"Error while aborting compaction as compaction is in state-{found.state.phrase}",
        )
    text = "Compaction Aborted by Abort Comapction request."
    move_to_history(unit, found, CompactionState.ABORTED, text)
    return "Success", "Successfully aborted compaction"


def _not_worked_on(compaction: CompactionId) -> MetastoreError:
    return MetastoreError(
        f"Compaction {compaction} is not being worked on, or by another worker: its table was "
        "dropped, or it was given back because its worker seemed dead",
        compaction=compaction,
    )

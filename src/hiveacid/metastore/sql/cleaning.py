"""What became of compactions, what may need one (metastore.md 4.3, 4.6), and what cleaners may do,
and have done (4.5, 2.10).

A compaction may be cleaned when every transaction that could have begun before its commit has
ended: whoever is left reads its result. The cleaner must not see later compactions of the same
object for which that does not hold yet. Hive keeps them apart by MIN_HISTORY_LEVEL, which also
waits for readers that began after the commit beside an older one; here the queue's own rows tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, and_, bindparam, delete, func, literal, or_, select, update

from hiveacid.metastore.sql.compaction_rows import (
    ABORT_CLEANUP,
    QUEUE_COLUMNS,
    QUEUED_OBJECT,
    READY,
    H,
    Q,
    info,
    move_to_history,
    named,
    of_object,
    take_id,
)
from hiveacid.metastore.sql.dialect import Row
from hiveacid.metastore.sql.engine import Database, Part, one_of
from hiveacid.metastore.sql.schema import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    MIN_HISTORY_LEVEL,
    TXN_COMPONENTS,
    TXNS,
)
from hiveacid.metastore.sql.txns import min_open_txn, read_open_txns
from hiveacid.metastore.sql.write_ids import read_valid_write_ids
from hiveacid.metastore.upkeep import CompactionOptions, CompactionQueue, CompactionUpkeep
from hiveacid.model.compactions import (
    NO_COMPACTION,
    CompactionId,
    CompactionInfo,
    CompactionState,
    CompactionType,
)
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList
from hiveacid.model.tables import LONG_MAX, TableName, WriteId
from hiveacid.model.transactions import OperationType, TxnState, TxnType

_C = COMPLETED_TXN_COMPONENTS.c
_T = TXN_COMPONENTS.c
_S = CompactionState

FIRST_UNSEEN: Final = func.coalesce(
    select(func.min(MIN_HISTORY_LEVEL.c.MHL_MIN_OPEN_TXNID))
    .join_from(MIN_HISTORY_LEVEL, TXNS, TXNS.c.TXN_ID == MIN_HISTORY_LEVEL.c.MHL_TXNID)
    .where(func.coalesce(TXNS.c.TXN_TYPE, 0) != int(TxnType.READ_ONLY))
    .scalar_subquery(),
    LONG_MAX,
)
"""The lowest transaction that some open one, which may write, may not see: a serializable commit
looks for committed writes from here on. Belongs into the statement that deletes others: what it
sees is of one moment, and who opens later sees all that it deletes.
"""
_NEWEST: Final = (
    select(func.max(H.CC_ID).label("newest"))
    .group_by(H.CC_DATABASE, H.CC_TABLE, H.CC_PARTITION)
    .subquery()
)
_FAILED_LAST: Final = (
    select(H.CC_DATABASE, H.CC_TABLE, H.CC_PARTITION)
    .join_from(COMPLETED_COMPACTIONS, _NEWEST, _NEWEST.c.newest == H.CC_ID)
    .where(one_of(H.CC_STATE, [_S.FAILED.value, _S.DID_NOT_INITIATE.value]))
    .subquery()
)
_WRITTEN: Final = select(_C.CTC_DATABASE, _C.CTC_TABLE, _C.CTC_PARTITION).distinct()
_ABORTS: Final = (
    select(
        _T.TC_DATABASE,
        _T.TC_TABLE,
        _T.TC_PARTITION,
        func.count(_T.TC_TXNID.distinct()),
        func.min(TXNS.c.TXN_STARTED),
    )
    .join_from(TXN_COMPONENTS, TXNS, TXNS.c.TXN_ID == _T.TC_TXNID)
    .where(TXNS.c.TXN_STATE == TxnState.ABORTED.value, _T.TC_TABLE.is_not(None))
    .group_by(_T.TC_DATABASE, _T.TC_TABLE, _T.TC_PARTITION)
)
"""Objects with records of aborted transactions, how many, since when."""
_LAST_ATTEMPTS: Final = (
    select(H.CC_STATE, H.CC_ENQUEUE_TIME)
    .where(
        of_object(H.CC_DATABASE, H.CC_TABLE),
        H.CC_PARTITION.is_not_distinct_from(bindparam("partition")),
        H.CC_STATE != _S.DID_NOT_INITIATE.value,
    )
    .order_by(H.CC_ID.desc())
    .limit(bindparam("attempts"))
)
_ALL: Final = select(
    H.CC_DATABASE, H.CC_TABLE, H.CC_PARTITION, H.CC_ID, H.CC_STATE, H.CC_TYPE, H.CC_START
).order_by(H.CC_ID.desc())
_DELETE: Final = delete(COMPLETED_COMPACTIONS).where(H.CC_ID == bindparam("id"))


_KEPT_BACK: Final = Q.CQ_RETRY_RETENTION
# A failed cleaning waits from its end on, which stands in CQ_CLEANER_START.
_DUE: Final = or_(
    _KEPT_BACK == 0,
    func.coalesce(Q.CQ_CLEANER_START, Q.CQ_COMMIT_TIME, 0) < bindparam("now") - _KEPT_BACK,
)
_READY: Final = (
    select(*QUEUE_COLUMNS, TXNS.c.TXN_STATE)
    .join_from(COMPACTION_QUEUE, TXNS, TXNS.c.TXN_ID == Q.CQ_TXN_ID, isouter=True)
    .where(
        Q.CQ_STATE == READY,
        Q.CQ_TYPE != ABORT_CLEANUP,
        _DUE,
        or_(Q.CQ_COMMIT_TIME.is_(None), Q.CQ_COMMIT_TIME < bindparam("committed")),
        or_(Q.CQ_NEXT_TXN_ID.is_(None), Q.CQ_NEXT_TXN_ID < bindparam("watermark")),
    )
    .order_by(func.coalesce(Q.CQ_HIGHEST_WRITE_ID, 0), Q.CQ_ID)
)
MIN_SEEN_OPEN: Final = select(func.min(MIN_HISTORY_LEVEL.c.MHL_MIN_OPEN_TXNID))
# Compactions of the object that somebody may not see yet: theirs is not the state to clean up to.
_FIRST_UNSEEN: Final = select(func.min(Q.CQ_TXN_ID)).where(
    QUEUED_OBJECT,
    or_(
        Q.CQ_NEXT_TXN_ID.is_(None),
        Q.CQ_NEXT_TXN_ID >= bindparam("watermark"),
        Q.CQ_COMMIT_TIME > bindparam("kept_since"),
    ),
    Q.CQ_ID != bindparam("id"),
)
_ABORT_RETRIES: Final = select(*QUEUE_COLUMNS).where(
    Q.CQ_STATE == READY, Q.CQ_TYPE == ABORT_CLEANUP
)
_OLDEST_WRITER: Final = (
    select(func.min(TXNS.c.TXN_ID))
    .join_from(TXN_COMPONENTS, TXNS, TXNS.c.TXN_ID == _T.TC_TXNID)
    .where(
        TXNS.c.TXN_STATE == TxnState.OPEN.value,
        of_object(_T.TC_DATABASE, _T.TC_TABLE),
        _T.TC_PARTITION.is_not_distinct_from(bindparam("partition")),
    )
)
_DROP_RETRIES: Final = delete(COMPACTION_QUEUE).where(QUEUED_OBJECT, Q.CQ_TYPE == ABORT_CLEANUP)
_FORGET_COMPLETED: Final = delete(COMPLETED_TXN_COMPONENTS).where(
    of_object(_C.CTC_DATABASE, _C.CTC_TABLE),
    _C.CTC_PARTITION.is_not_distinct_from(bindparam("partition")),
    _C.CTC_WRITEID <= bindparam("highest"),
    _C.CTC_TXNID < FIRST_UNSEEN,
)
_ABORTED_WRITES: Final = and_(
    of_object(_T.TC_DATABASE, _T.TC_TABLE),
    _T.TC_PARTITION.is_not_distinct_from(bindparam("partition")),
    select(TXNS.c.TXN_ID)
    .where(TXNS.c.TXN_ID == _T.TC_TXNID, TXNS.c.TXN_STATE == TxnState.ABORTED.value)
    .exists(),
)
# A compaction is known under the write id that it went up to, which may be an aborted writer's; and
# its result may be there still, whatever write ids are settled.
_BY_COMPACTION: Final = _T.TC_OPERATION_TYPE == OperationType.COMPACT.value
_FORGET_UP_TO: Final = delete(TXN_COMPONENTS).where(
    _ABORTED_WRITES, ~_BY_COMPACTION, _T.TC_WRITEID <= bindparam("highest")
)
_FORGET_ONE: Final = delete(TXN_COMPONENTS).where(
    _ABORTED_WRITES, ~_BY_COMPACTION, _T.TC_WRITEID == bindparam("write_id")
)
_FAILED_COMPACTIONS: Final = select(_T.TC_TXNID).where(_ABORTED_WRITES, _BY_COMPACTION)
_FORGET_COMPACTION: Final = delete(TXN_COMPONENTS).where(
    _ABORTED_WRITES, _BY_COMPACTION, _T.TC_TXNID == bindparam("txn")
)
_STAMP: Final = (
    update(COMPACTION_QUEUE)
    .where(Q.CQ_ID == bindparam("id"))
    .values(CQ_CLEANER_START=bindparam("at"))
)
_KEEP_BACK: Final = (
    update(COMPACTION_QUEUE)
    .where(Q.CQ_ID == bindparam("id"))
    .values(
        CQ_RETRY_RETENTION=bindparam("retention"),
        CQ_ERROR_MESSAGE=bindparam("error"),
        CQ_CLEANER_START=bindparam("now"),
    )
)


class SqlCleaning(Part, CompactionUpkeep, CompactionQueue):
    """The part of ``CompactionQueue`` from which the initiator learns where to look, and about
    cleaning.
    """

    def find_potential_compactions(
        self, *, since_ms: int | None = None, table: TableName | None = None
    ) -> tuple[tuple[TableName, str | None], ...]:
        query = _WRITTEN
        if table is not None:
            query = query.where(_C.CTC_DATABASE == table.database, _C.CTC_TABLE == table.table)
        with self._db.read() as unit:
            if since_ms is not None:
                since = unit.dialect.timestamp(unit.now_ms - since_ms)
                query = _of_late(query, since)
            rows = unit.rows(query)
        found = ((TableName(*row[:2]), row[2]) for row in rows if row[1] is not None)
        return tuple(sorted(found, key=lambda one: (one[0], one[1] or "")))

    def find_too_many_aborts(
        self, *, threshold: int, age_ms: int
    ) -> tuple[tuple[TableName, str | None, CompactionType], ...]:
        with self._db.read() as unit:
            rows = unit.rows(_ABORTS)
            return tuple(
                (
                    TableName(database, table),
                    partition,
                    CompactionType.MAJOR if count > threshold else CompactionType.MINOR,
                )
                for database, table, partition, count, oldest_ms in rows
                if _too_many(count, oldest_ms, unit.now_ms, threshold=threshold, age_ms=age_ms)
            )

    def is_blocked_by_failures(self, table: TableName, partition: str | None) -> bool:
        options = self._db.options.compaction
        where = named(table, partition)
        with self._db.read() as unit:
            rows = unit.rows(_LAST_ATTEMPTS, **where, attempts=options.failures_max)
            if not rows or len(rows) < options.failures_max:
                return False
            if any(state != _S.FAILED.value for state, _ in rows):
                return False
            newest_ms = max(enqueued or 0 for _, enqueued in rows)
            pause_ms = options.failures_pause_ms
            return pause_ms <= 0 or newest_ms + pause_ms >= unit.now_ms

    def find_ready_to_clean(
        self, *, uncommitted: bool = False, without: Collection[CompactionId] = ()
    ) -> tuple[CompactionInfo, ...]:
        first: dict[tuple[TableName, str | None], CompactionInfo] = {}
        with self._db.read() as unit:
            watermark = min_open_txn(unit)
            seen_from = min(watermark, or_max(unit.scalar(MIN_SEEN_OPEN)))
            rows = unit.rows(
                _READY,
                now=unit.now_ms,
                committed=unit.now_ms - unit.options.compaction.cleaning_delay_ms,
                watermark=watermark,
            )
        for *row, txn_state in rows:
            found = info(tuple(row))
            if self._db.of_hive and _SOFT_DELETED in found.properties:
                continue
            if found.txn is not None and found.next_txn is None:  # no commit has stamped it
                if txn_state in _UNCOMMITTED:
                    if not uncommitted:
                        continue
                elif found.txn >= seen_from:
                    continue
            if found.id not in without:
                first.setdefault((found.table, found.partition), found)
        # All of them, Hive takes some: here the first ones may wait for days for their retention.
        return tuple(sorted(first.values(), key=lambda one: one.id))

    def find_aborts_to_clean(self, *, threshold: int, age_ms: int) -> tuple[CompactionInfo, ...]:
        with self._db.read() as unit:
            now_ms = unit.now_ms
            aborts = unit.rows(_ABORTS)
            retries = [info(row) for row in unit.rows(_ABORT_RETRIES)]
        retry_of = {(one.table, one.partition): one for one in retries}
        found = []
        for database, table, partition, count, oldest_ms in aborts:
            if not _too_many(count, oldest_ms, now_ms, threshold=threshold, age_ms=age_ms):
                continue
            name = TableName(database, table)
            retry = retry_of.get((name, partition))
            if retry is None:
                retry = CompactionInfo(
                    id=NO_COMPACTION,
                    table=name,
                    partition=partition,
                    type=CompactionType.ABORT_TXN_CLEANUP,
                    state=CompactionState.READY_FOR_CLEANING,
                )
            elif (retry.cleaner_started_ms or 0) >= now_ms - retry.retry_retention_ms:
                continue
            found.append(retry)
        return tuple(sorted(found, key=lambda one: (one.table, one.partition or "")))

    def cleaner_txns(self, compaction: CompactionInfo, *, retention_ms: int = 0) -> ValidTxnList:
        where = named(compaction.table, compaction.partition)
        with self._db.read() as unit:
            found = read_open_txns(unit, ())
            if compaction.type is CompactionType.ABORT_TXN_CLEANUP:
                end = or_max(unit.scalar(_OLDEST_WRITER, **where))
            else:
                watermark = min_open_txn(unit)
                unseen = unit.scalar(
                    _FIRST_UNSEEN,
                    **where,
                    watermark=watermark,
                    kept_since=unit.now_ms - retention_ms if retention_ms else LONG_MAX,
                    id=compaction.id,
                )
                end = min(watermark, or_max(unseen))
        hwm = min(end - 1, found.hwm)
        return ValidTxnList.of(
            hwm=hwm,
            open=(txn for txn in found.open if txn <= hwm),
            aborted=(txn for txn in found.aborted if txn <= hwm),
        )

    def cleaner_write_ids(self, table: TableName, txns: ValidTxnList) -> ValidWriteIdList:
        with self._db.read() as unit:
            (valid,) = read_valid_write_ids(unit, (table,), txns, whole=True)
        return valid

    def note_cleaning(self, compaction: CompactionInfo, *, started: bool) -> None:
        with self._db.write() as unit:
            unit.ask(_STAMP, id=compaction.id, at=unit.now_ms if started else None)

    def mark_cleaned(
        self,
        compaction: CompactionInfo,
        *,
        aborted_write_ids: Collection[WriteId] | None = None,
        failed_compactions: Collection[int] = (),
    ) -> None:
        where = named(compaction.table, compaction.partition)
        of_aborts = compaction.type is CompactionType.ABORT_TXN_CLEANUP
        highest = compaction.highest_write_id
        with self._db.write() as unit:
            if not of_aborts and not move_to_history(unit, compaction, CompactionState.SUCCEEDED):
                return
            unit.ask(_DROP_RETRIES, **where)
            if not of_aborts and highest is not None:
                unit.ask(_FORGET_COMPLETED, **where, highest=highest)
            failed = {txn for (txn,) in unit.rows(_FAILED_COMPACTIONS, **where)}
            gone = sorted(failed.intersection(failed_compactions))
            unit.run_many(_FORGET_COMPACTION, [{**where, "txn": txn} for txn in gone])
            if aborted_write_ids is not None:
                known = [{**where, "write_id": one} for one in sorted(aborted_write_ids)]
                unit.run_many(_FORGET_ONE, known)
            elif not of_aborts and highest is not None:
                unit.ask(_FORGET_UP_TO, **where, highest=highest)

    def retry_cleaning(self, compaction: CompactionInfo, error: str) -> None:
        options = self._db.options.compaction
        of_aborts = compaction.type is CompactionType.ABORT_TXN_CLEANUP
        retention = 2 * compaction.retry_retention_ms or options.cleaning_retry_ms
        longest = options.cleaning_retry_ms * 2 ** (options.cleaning_attempts_max - 1)
        with self._db.write() as unit:
            if compaction.id == NO_COMPACTION:
                row = {
                    "CQ_ID": take_id(unit),
                    "CQ_DATABASE": compaction.table.database,
                    "CQ_TABLE": compaction.table.table,
                    "CQ_PARTITION": compaction.partition,
                    "CQ_STATE": READY,
                    "CQ_TYPE": ABORT_CLEANUP,
                    "CQ_ENQUEUE_TIME": unit.now_ms,
                    "CQ_COMMIT_TIME": unit.now_ms,
                    "CQ_CLEANER_START": unit.now_ms,
                    "CQ_RETRY_RETENTION": retention,
                    "CQ_ERROR_MESSAGE": error,
                }
                unit.insert(COMPACTION_QUEUE, [row])
            elif retention > longest and not of_aborts:
                move_to_history(unit, compaction, CompactionState.FAILED, error)
            else:
                unit.ask(
                    _KEEP_BACK,
                    id=compaction.id,
                    retention=min(retention, longest),
                    error=error,
                    now=unit.now_ms,
                )


_UNCOMMITTED: Final = (TxnState.OPEN.value, TxnState.ABORTED.value)
_SOFT_DELETED: Final = "location"
"""A property of Hive's requests that Hive alone can clean: the directory is no table's any more."""


def or_max(found: int | None) -> int:
    """What a query found, the highest number where it found none."""
    return LONG_MAX if found is None else int(found)


def _of_late(query: Select[Any], since: object) -> Select[Any]:
    """``query`` of ``_WRITTEN``, only what was written since then or failed last."""
    return query.join_from(
        COMPLETED_TXN_COMPONENTS,
        _FAILED_LAST,
        and_(
            _FAILED_LAST.c.CC_DATABASE == _C.CTC_DATABASE,
            _FAILED_LAST.c.CC_TABLE == _C.CTC_TABLE,
            _FAILED_LAST.c.CC_PARTITION.is_not_distinct_from(_C.CTC_PARTITION),
        ),
        isouter=True,
    ).where(or_(_FAILED_LAST.c.CC_TABLE.is_not(None), _C.CTC_TIMESTAMP >= literal(since)))


def _too_many(count: int, oldest_ms: int, now_ms: int, *, threshold: int, age_ms: int) -> bool:
    """Whether so many aborted transactions, the first begun at ``oldest_ms``, call for work."""
    return count > threshold or 0 <= age_ms < now_ms - oldest_ms


def purge_history(database: Database) -> None:
    """Keep the newest entries of each kind of each object."""
    options = database.options.compaction
    with database.read() as unit:
        rows = unit.rows(_ALL)
        old_ms = unit.now_ms - options.history_ms
    surplus = list(_surplus(rows, options, old_ms))
    if surplus:
        with database.write() as unit:
            unit.run_many(_DELETE, [{"id": one} for one in surplus])


@dataclass(slots=True)
class _Later:
    """What is kept so far of an object's entries, from the newest on."""

    room: dict[CompactionState, int]
    major_succeeded: bool = False
    minor_succeeded: bool = False


def _surplus(rows: list[Row], options: CompactionOptions, old_ms: int) -> Iterator[CompactionId]:
    """The ids that go. An aborted one goes like a refused one: Hive would keep it for ever."""
    of: dict[Row, _Later] = {}
    for *of_object_, compaction, letter, type_letter, started_ms in rows:
        later = of.get(tuple(of_object_))
        if later is None:
            later = of[tuple(of_object_)] = _Later(
                {
                    _S.DID_NOT_INITIATE: options.kept_not_initiated,
                    _S.FAILED: max(options.kept_failed, options.failures_max),
                    _S.SUCCEEDED: options.kept_succeeded,
                    _S.REFUSED: options.kept_refused,
                    _S.ABORTED: options.kept_refused,
                }
            )
        state, minor = _S(letter), type_letter == CompactionType.MINOR.value
        later.room[state] -= 1
        if state is _S.SUCCEEDED:
            later.major_succeeded |= type_letter == CompactionType.MAJOR.value
            later.minor_succeeded |= minor
            covered = False
        else:
            covered = later.major_succeeded or (later.minor_succeeded and minor)
        if later.room[state] < 0 or (covered and (started_ms or 0) < old_ms):
            yield CompactionId(compaction)

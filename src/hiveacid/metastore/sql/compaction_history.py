"""What became of compactions, and what may need one (metastore.md 4.3, 4.6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, and_, bindparam, delete, func, literal, or_, select

from hiveacid.metastore.compaction_queue import CompactionOptions, CompactionQueue
from hiveacid.metastore.sql.compaction_rows import H, named, of_object
from hiveacid.metastore.sql.engine import Database, Row, one_of
from hiveacid.metastore.sql.schema import (
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    TXN_COMPONENTS,
    TXNS,
)
from hiveacid.metastore.sql.turns import take_turn
from hiveacid.model.compactions import CompactionId, CompactionState, CompactionType
from hiveacid.model.tables import TableName
from hiveacid.model.transactions import TxnState

_C = COMPLETED_TXN_COMPONENTS.c
_T = TXN_COMPONENTS.c
_S = CompactionState

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
ABORTS: Final = (
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


class SqlCompactionHistory(CompactionQueue):
    """The part of ``CompactionQueue`` from which the initiator learns where to look."""

    _db: Database

    def begin_cycle(self, name: str, *, interval_s: float) -> int | None:
        return take_turn(self._db, name, interval_s=interval_s)

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
            rows = unit.query(query)
        found = ((TableName(*row[:2]), row[2]) for row in rows if row[1] is not None)
        return tuple(sorted(found, key=lambda one: (one[0], one[1] or "")))

    def find_too_many_aborts(
        self, *, threshold: int, age_ms: int
    ) -> tuple[tuple[TableName, str | None, CompactionType], ...]:
        with self._db.read() as unit:
            rows = unit.rows(ABORTS)
            return tuple(
                (
                    TableName(database, table),
                    partition,
                    CompactionType.MAJOR if count > threshold else CompactionType.MINOR,
                )
                for database, table, partition, count, oldest_ms in rows
                if too_many(count, oldest_ms, unit.now_ms, threshold=threshold, age_ms=age_ms)
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

    def purge_compaction_history(self) -> None:
        """Keep the newest entries of each kind of each object (metastore.md 4.6)."""
        purge_history(self._db)


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


def too_many(count: int, oldest_ms: int, now_ms: int, *, threshold: int, age_ms: int) -> bool:
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

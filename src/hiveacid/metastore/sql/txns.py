"""Opening, heartbeat, abort, the list of open transactions (metastore.md 2.1-2.4, 2.8, 2.12)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final, cast

from sqlalchemy import BigInteger, bindparam, delete, func, insert, or_, select, union_all, update
from sqlalchemy.sql import ClauseElement, ColumnElement

from hiveacid.errors import InvalidInputError, MetastoreError, NotFoundError, TransactionError
from hiveacid.metastore.api import OpenTxns, TxnStore
from hiveacid.metastore.sql.compaction_rows import give_back
from hiveacid.metastore.sql.decided import DECIDED
from hiveacid.metastore.sql.dialect import Answer, Row, packed, server_now, unpacked
from hiveacid.metastore.sql.engine import Part, Unit
from hiveacid.metastore.sql.schema import (
    COMPLETED_TXN_COMPONENTS,
    HIVE_LOCKS,
    MATERIALIZATION_REBUILD_LOCKS,
    MIN_HISTORY_LEVEL,
    MIN_HISTORY_WRITE_ID,
    REPL_TXN_MAP,
    TXNS,
)
from hiveacid.model.ids import ValidTxnList
from hiveacid.model.tables import LONG_MAX, LockId, TxnId
from hiveacid.model.transactions import (
    COMPACTIONS,
    AbortReason,
    HeartbeatResult,
    TxnInfo,
    TxnState,
    TxnType,
)

_T = TXNS.c
_OPEN: Final = TxnState.OPEN.value
_COMMITTED: Final = TxnState.COMMITTED.value
_REASON_CHARS_MAX: Final = 128

_NOW: Final = server_now(bindparam("now", type_=BigInteger))
_MIN_OPEN: Final = select(func.min(_T.TXN_ID)).where(_T.TXN_STATE == _OPEN)
_LOW_BOUNDARY: Final = (
    select(_T.TXN_ID).where(_T.TXN_STARTED < bindparam("old")).order_by(_T.TXN_ID.desc()).limit(1)
)
_HWM: Final = select(func.max(_T.TXN_ID))
_WATERMARKS: Final = select(
    _MIN_OPEN.scalar_subquery(), _LOW_BOUNDARY.scalar_subquery(), _HWM.scalar_subquery()
)
_INSERT_COMMITTED: Final = insert(TXNS).values(
    TXN_ID=bindparam("txn"),
    TXN_STATE=_COMMITTED,
    TXN_STARTED=0,
    TXN_LAST_HEARTBEAT=0,
    TXN_USER="",
    TXN_HOST="",
)
_INSERT: Final = (
    insert(TXNS)
    .values(
        TXN_STATE=_OPEN,
        TXN_STARTED=_NOW,
        TXN_LAST_HEARTBEAT=_NOW,
        TXN_USER=bindparam("user"),
        TXN_HOST=bindparam("host"),
        TXN_TYPE=bindparam("type"),
        TXN_AGENT_INFO=bindparam("agent"),
    )
    .returning(_T.TXN_ID)
)
_LOWEST: Final = union_all(_MIN_OPEN, select(func.coalesce(_LOW_BOUNDARY.scalar_subquery(), 0) + 1))
_INSERT_HISTORY: Final = insert(MIN_HISTORY_LEVEL).values(
    MHL_TXNID=bindparam("txn"),
    MHL_MIN_OPEN_TXNID=select(func.min(_LOWEST.subquery().c[0])).scalar_subquery(),
)
_DELETE_TXN: Final = delete(TXNS).where(_T.TXN_ID == bindparam("txn"))
_DELETE_HISTORY: Final = delete(MIN_HISTORY_LEVEL).where(
    MIN_HISTORY_LEVEL.c.MHL_TXNID == bindparam("txn")
)
_DELETE_HISTORY_WRITE_ID: Final = delete(MIN_HISTORY_WRITE_ID).where(
    MIN_HISTORY_WRITE_ID.c.MH_TXNID == bindparam("txn")
)
_DELETE_LOCKS: Final = delete(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_TXNID == bindparam("txn"))
DELETE_REBUILD_LOCKS: Final = delete(MATERIALIZATION_REBUILD_LOCKS).where(
    MATERIALIZATION_REBUILD_LOCKS.c.MRL_TXN_ID == bindparam("txn")
)
_DELETE_REPL_MAP: Final = delete(REPL_TXN_MAP).where(
    REPL_TXN_MAP.c.RTM_TARGET_TXN_ID == bindparam("txn")
)
_INSERT_REPL_MAP: Final = insert(REPL_TXN_MAP).values(
    RTM_REPL_POLICY=bindparam("policy"),
    RTM_SRC_TXN_ID=bindparam("source"),
    RTM_TARGET_TXN_ID=bindparam("txn"),
)
_FIND_REPL: Final = select(REPL_TXN_MAP.c.RTM_TARGET_TXN_ID).where(
    REPL_TXN_MAP.c.RTM_REPL_POLICY == bindparam("policy"),
    REPL_TXN_MAP.c.RTM_SRC_TXN_ID == bindparam("source"),
)
_IS_YOUNG: Final = (
    _T.TXN_STARTED > _NOW - bindparam("timeout", type_=BigInteger),
    _T.TXN_ID > DECIDED,
)
_YOUNG: Final = select(_T.TXN_ID).where(*_IS_YOUNG).order_by(_T.TXN_ID)
_BEFORE: Final = select(func.max(_T.TXN_ID)).where(_T.TXN_ID < bindparam("txn"))
_OPEN_TYPE: Final = select(_T.TXN_TYPE).where(_T.TXN_ID == bindparam("txn"), _T.TXN_STATE == _OPEN)
_OPEN_TYPE_HELD: Final = _OPEN_TYPE.with_for_update()
_STATE: Final = select(_T.TXN_STATE).where(_T.TXN_ID == bindparam("txn"))
_COMPLETED: Final = (
    select(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID)
    .where(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID == bindparam("txn"))
    .limit(1)
)
_SET_ABORTED: Final = (
    update(TXNS)
    .where(_T.TXN_ID == bindparam("txn"), _T.TXN_STATE == _OPEN)
    .values(TXN_STATE=TxnState.ABORTED.value, TXN_META_INFO=bindparam("reason"))
    .returning(_T.TXN_TYPE)
)
_HEARTBEAT: Final = (
    update(TXNS)
    .where(_T.TXN_ID == bindparam("txn"), _T.TXN_STATE == _OPEN)
    .values(TXN_LAST_HEARTBEAT=bindparam("now"))
)
_HEARTBEAT_RANGE: Final = (
    update(TXNS)
    .where(_T.TXN_ID.between(bindparam("first"), bindparam("last")), _T.TXN_STATE == _OPEN)
    .values(TXN_LAST_HEARTBEAT=bindparam("now"))
)
_STATES_IN_RANGE: Final = select(_T.TXN_ID, _T.TXN_STATE).where(
    _T.TXN_ID.between(bindparam("first"), bindparam("last"))
)
_HEARTBEAT_LOCK: Final = (
    update(HIVE_LOCKS)
    .where(HIVE_LOCKS.c.HL_LOCK_EXT_ID == bindparam("lock"))
    .values(HL_LAST_HEARTBEAT=bindparam("now"))
)
_INFO_COLUMNS: Final = (
    _T.TXN_ID,
    _T.TXN_STATE,
    _T.TXN_TYPE,
    _T.TXN_STARTED,
    _T.TXN_LAST_HEARTBEAT,
    _T.TXN_USER,
    _T.TXN_HOST,
    _T.TXN_META_INFO,
    _T.TXN_AGENT_INFO,
)
_INFO: Final = select(*_INFO_COLUMNS).where(_T.TXN_ID == bindparam("txn"))
_SHOW: Final = (
    select(*_INFO_COLUMNS)
    .where(or_(_T.TXN_STATE == _OPEN, _T.TXN_STATE == TxnState.ABORTED.value))
    .order_by(_T.TXN_ID)
)


class SqlTxns(Part, TxnStore):
    """The part of ``TxnStore`` about the transactions themselves."""

    def open_txns(
        self,
        n: int,
        *,
        user: str,
        host: str,
        txn_type: TxnType = TxnType.DEFAULT,
        agent: str = "",
        repl_policy: str | None = None,
        source_ids: Sequence[int] = (),
    ) -> tuple[TxnId, ...]:
        if n <= 0:
            raise InvalidInputError(f"Invalid input for number of txns: {n}", n=n)
        options = self._db.options
        with self._db.write(opens=True) as unit:
            unnamed = (TxnType.DEFAULT, TxnType.READ_ONLY)  # no directory is named after them
            unit.outlives_a_crash = txn_type not in unnamed or repl_policy is not None
            if repl_policy is not None:
                where = {"policy": repl_policy}
                known = [unit.scalar(_FIND_REPL, **where, source=one) for one in source_ids]
                if any(known):
                    return tuple(TxnId(txn) for txn in known if txn is not None)
            who = {"user": user, "host": host, "type": int(txn_type), "agent": agent or None}
            txns = _insert_txns(unit, min(n, options.open_batch_max), who)
            if repl_policy is not None:
                pairs = zip(source_ids, txns, strict=False)
                rows = [{"policy": repl_policy, "source": one, "txn": txn} for one, txn in pairs]
                unit.run_many(_INSERT_REPL_MAP, rows)
            writes = txn_type is not TxnType.READ_ONLY
            elapsed_ms = self._db.clock.now_ms() - unit.begun_ms
            too_slow = writes and elapsed_ms >= options.open_txn_timeout_ms
            if too_slow:
                by_txn = [{"txn": txn} for txn in txns]
                for statement in (_DELETE_TXN, _DELETE_HISTORY, _DELETE_REPL_MAP):
                    unit.run_many(statement, by_txn)
        if writes and not too_slow:
            elapsed_ms = self._db.clock.now_ms() - unit.begun_ms
            too_slow = elapsed_ms >= options.open_txn_timeout_ms
            if too_slow:  # the commit itself: the rows are there, but were they in time?
                self.abort_txns(txns)
        if too_slow:
            raise MetastoreError(
                "OpenTxnTimeOut exceeded commit duration, deleting transactionIds: "
                f"{', '.join(map(str, txns))}",
                retryable=True,
                elapsed_ms=elapsed_ms,
            )
        return txns

    def get_open_txns(self, *, exclude_types: Collection[TxnType] = ()) -> OpenTxns:
        with self._db.query() as unit:
            found = _without_late(unit, exclude_types)
        if found is not None:
            return found
        with self._db.read() as unit:
            return read_open_txns(unit, exclude_types)

    def valid_txns(
        self,
        current: TxnId | None = None,
        *,
        exclude_types: Collection[TxnType] = (TxnType.READ_ONLY,),
    ) -> ValidTxnList:
        found = self.get_open_txns(exclude_types=exclude_types)
        return ValidTxnList.of(
            hwm=found.hwm, open=found.open, aborted=found.aborted, current=current or 0
        )

    def txn_info(self, txn: TxnId) -> TxnInfo | None:
        with self._db.query() as unit:
            row = unit.row(_INFO, txn=txn)
        return None if row is None else _info(row)

    def show_txns(self) -> tuple[TxnInfo, ...]:
        with self._db.query() as unit:
            return tuple(_info(row) for row in unit.rows(_SHOW))

    def heartbeat(self, *, txn: TxnId | None = None, lock: LockId | None = None) -> None:
        with self._db.write() as unit:
            unit.outlives_a_crash = False
            if txn:
                heartbeat_txn(unit, txn)
            if lock:
                heartbeat_lock(unit, lock)

    def heartbeat_range(self, first: TxnId, last: TxnId) -> HeartbeatResult:
        with self._db.write() as unit:
            unit.outlives_a_crash = False
            touched = unit.count(_HEARTBEAT_RANGE, first=first, last=last, now=unit.now_ms)
            if touched == last - first + 1:
                return HeartbeatResult((), ())
            states: dict[int, str] = dict(unit.rows(_STATES_IN_RANGE, first=first, last=last))
        wanted = [TxnId(txn) for txn in range(first, last + 1)]
        aborted = TxnState.ABORTED.value
        return HeartbeatResult(
            aborted=tuple(txn for txn in wanted if states.get(txn) == aborted),
            missing=tuple(txn for txn in wanted if states.get(txn) not in {_OPEN, aborted}),
        )

    def abort_txn(self, txn: TxnId, *, reason: AbortReason = AbortReason.NONE) -> None:
        with self._db.write() as unit:
            if abort(unit, txn, reason):
                return
            error = not_open_error(unit, txn)
        if error.context["state"] != "aborted":
            raise error

    def abort_txns(
        self, txns: Iterable[TxnId], *, reason: AbortReason = AbortReason.NONE
    ) -> tuple[TxnId, ...]:
        with self._db.write() as unit:
            # In order, so that two who abort the same ones do not wait for each other.
            return tuple(txn for txn in sorted(set(txns)) if abort(unit, txn, reason))

    def seed_txn_id(self, seed: int) -> None:
        """Let the next transaction id be ``seed``. Raises: MetastoreError: not the highest."""
        with self._db.write() as unit:
            unit.exclude_opens()
            hwm = unit.scalar(_HWM)
            if hwm >= seed:
                raise MetastoreError(
                    f"Invalid txnId seed {seed}, the highWaterMark is {hwm}", seed=seed, hwm=hwm
                )
            unit.dialect.set_next_txn_id(unit.channel, seed)


def assume_committed(unit: Unit, txn: int) -> None:
    """See ``OwnDatabase``. A committed row, old, so that the ids below it are no recent hole."""
    if highest_txn(unit) < txn:
        unit.ask(_INSERT_COMMITTED, txn=txn)
        unit.dialect.set_next_txn_id(unit.channel, txn + 1)


def highest_txn(unit: Unit) -> int:
    """The highest transaction id that is remembered."""
    return int(unit.scalar(_HWM))


def _insert_txns(unit: Unit, n: int, who: Mapping[str, object]) -> tuple[TxnId, ...]:
    # Readers take a hole below a row for open until the row is a second old: it must not look older
    # than its id.
    now_ms = unit.statement_time_ms
    asked = [unit.ask(_INSERT, now=now_ms, **who) for _ in range(n)]
    txns = tuple(TxnId(one.scalar()) for one in asked)
    if unit.options.use_min_history_level:
        # With these rows there the lowest is the same as without: theirs are young.
        old_ms = unit.now_ms - unit.options.open_txn_timeout_ms
        unit.run_many(_INSERT_HISTORY, [{"txn": txn, "old": old_ms} for txn in txns])
    return txns


@cache
def _open_txns_except(excluded: frozenset[TxnType]) -> ClauseElement:
    """The highest id, the lowest open one; packed the open and the aborted ids; of the young ones
    how many, the lowest and the highest, and the highest below; up to where all are known.
    """

    def in_state(state: str) -> ColumnElement[str]:
        kind = func.coalesce(_T.TXN_TYPE, int(TxnType.DEFAULT))
        wanted = (kind != int(one) for one in sorted(excluded))
        return select(packed(_T.TXN_ID)).where(_T.TXN_STATE == state, *wanted).scalar_subquery()

    young = (
        select(
            func.count().label("count"),
            func.min(_T.TXN_ID).label("lowest"),
            func.max(_T.TXN_ID).label("highest"),
        )
        .where(*_IS_YOUNG)
        .subquery("young")
    )
    return select(
        _HWM.scalar_subquery(),
        _MIN_OPEN.scalar_subquery(),
        in_state(_OPEN),
        in_state(TxnState.ABORTED.value),
        young,
        select(func.max(_T.TXN_ID)).where(_T.TXN_ID < young.c.lowest).scalar_subquery(),
        DECIDED,
    )


def read_open_txns(unit: Unit, exclude_types: Collection[TxnType]) -> OpenTxns:
    """Take the snapshot of metastore.md 2.3.

    Ids come from a sequence: a hole below a row younger than the time-out of opening counts as
    open.
    """
    found = _without_late(unit, exclude_types)
    if found is not None:
        return found
    late = _holes_between(unit)
    found = _without_late(unit, exclude_types, late=late)
    assert found is not None
    return found


def _without_late(
    unit: Unit,
    exclude_types: Collection[TxnType],
    *,
    late: list[int] | None = None,
) -> OpenTxns | None:
    """The snapshot by one question; None where ids between young ones are missing and ``late``
    does not tell them.
    """
    statement = _open_txns_except(frozenset(exclude_types))
    (row,) = unit.rows(
        statement, now=unit.statement_time_ms, timeout=unit.options.open_txn_timeout_ms
    )
    hwm, min_open, opened, aborted, count, lowest, highest, before, decided = row
    if late is None and count and highest - lowest + 1 != count:
        return None
    holes = [] if lowest is None else list(range(max(before or 0, decided) + 1, lowest))
    holes += late or []
    lowest = min((one for one in (min_open, *holes) if one is not None), default=None)
    return OpenTxns(
        hwm=TxnId(hwm),
        open=_sorted(unpacked(opened) + holes),
        aborted=_sorted(unpacked(aborted)),
        min_open=None if lowest is None else TxnId(lowest),
    )


def _sorted(txns: Iterable[int]) -> tuple[TxnId, ...]:
    return tuple(sorted(cast("Iterable[TxnId]", txns)))


def _holes_between(unit: Unit) -> list[int]:
    """Ids without rows below young ones but the lowest."""
    rows = unit.rows(_YOUNG, now=unit.statement_time_ms, timeout=unit.options.open_txn_timeout_ms)
    young = [txn for (txn,) in rows]
    holes: list[int] = []
    for previous, txn in pairwise(young):
        if txn - previous > 1:
            before = unit.scalar(_BEFORE, txn=txn)
            holes.extend(range(before + 1, txn))
    return holes


def min_open_txn(unit: Unit) -> int:
    """The lowest id that is open or may still turn up as open (metastore.md 2.10)."""
    lowest, boundary, _ = watermarks(unit)
    return min(lowest, boundary + 1)


def watermarks(unit: Unit) -> tuple[int, int, int]:
    """The lowest open id (2**63-1 where none is), the low boundary, the highest id."""
    (row,) = unit.rows(_WATERMARKS, old=unit.now_ms - unit.options.open_txn_timeout_ms)
    lowest, boundary, hwm = row
    return (LONG_MAX if lowest is None else int(lowest), int(boundary or 0), int(hwm or 0))


def ask_open_type(unit: Unit, txn: TxnId) -> Answer:
    """Ask for what ``open_type`` tells."""
    return unit.ask(_OPEN_TYPE_HELD, txn=txn)


def open_type(asked: Answer) -> TxnType | None:
    """The type of a transaction, None where it is not open; so it stays to the end of the unit."""
    row = asked.row()
    return None if row is None else TxnType(row[0] or 0)


def abort(unit: Unit, txn: TxnId, reason: AbortReason, *, detail: str = "") -> bool:
    """Abort an open transaction; False where it is not open. What it wrote stays recorded.

    The compaction that it was for waits for a worker again.
    """
    text = f"{reason.value}{detail}"[:_REASON_CHARS_MAX]
    aborted = unit.rows(_SET_ABORTED, txn=txn, reason=text)
    if not aborted:
        return False
    forget_open(unit, txn)
    unit.ask(DELETE_REBUILD_LOCKS, txn=txn)
    unit.ask(_DELETE_REPL_MAP, txn=txn)
    if aborted[0][0] in COMPACTIONS:
        give_back(unit, txn, lost=reason is AbortReason.TIMEOUT)
    return True


def forget_open(unit: Unit, txn: TxnId) -> None:
    """Drop what only open transactions have: locks and pins on history."""
    for statement in (_DELETE_LOCKS, _DELETE_HISTORY, _DELETE_HISTORY_WRITE_ID):
        unit.ask(statement, txn=txn)


def heartbeat_txn(unit: Unit, txn: TxnId) -> None:
    """Raises: TransactionError where it is not open."""
    if unit.count(_HEARTBEAT, txn=txn, now=unit.now_ms) == 0:
        raise not_open_error(unit, txn)


def heartbeat_lock(unit: Unit, lock: LockId) -> None:
    """Raises: NotFoundError: no such lock."""
    if unit.count(_HEARTBEAT_LOCK, lock=lock, now=unit.now_ms) == 0:
        raise no_such_lock(lock)


def no_such_lock(lock: LockId) -> NotFoundError:
    """Hive's NoSuchLockException."""
    return NotFoundError(f"No such lock lockid:{lock}", lock_id=lock)


def not_open_error(unit: Unit, txn: TxnId) -> TransactionError:
    """Say what has become of a transaction that is not open, in Hive's words."""
    state = unit.scalar(_STATE, txn=txn)
    if state == TxnState.ABORTED.value:
        return TransactionError(
            f"Transaction txnid:{txn} already aborted", txn=txn, state="aborted"
        )
    if state == _COMMITTED or unit.row(_COMPLETED, txn=txn) is not None:
        return TransactionError(
            f"Transaction txnid:{txn} is already committed.", txn=txn, state="committed"
        )
    return TransactionError(f"No such transaction txnid:{txn}", txn=txn, state="unknown")


def _info(row: Row) -> TxnInfo:
    return TxnInfo(
        id=TxnId(row[0]),
        state=TxnState(row[1]),
        type=TxnType(row[2] or 0),
        started_ms=row[3],
        last_heartbeat_ms=row[4],
        user=row[5],
        host=row[6],
        reason=row[7],
        agent=row[8] or "",
    )

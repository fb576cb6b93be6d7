"""Locks: enqueue, check, unlock, show (metastore.md section 3).

A request's rows get an id under the counter, so ids are in the order in which requests become
visible; a check looks at smaller ids, waiting ones too. That makes the queue fair. Of larger ids
only those granted count: a client's statement may have passed requests that wait for a lock which
the client itself holds (LOCK TABLE).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import and_, bindparam, delete, or_, select, update

from hiveacid.errors import InvalidInputError, LockError, TransactionError
from hiveacid.metastore.api import LockManager, LockResponse, OwnDatabase
from hiveacid.metastore.sql.dialect import Answer, Row
from hiveacid.metastore.sql.engine import Part, Unit
from hiveacid.metastore.sql.schema import HIVE_LOCKS, NEXT_LOCK_ID
from hiveacid.metastore.sql.txns import (
    abort,
    ask_open_type,
    heartbeat_lock,
    heartbeat_txn,
    no_such_lock,
    not_open_error,
    open_type,
)
from hiveacid.metastore.sql.write_ids import NEWER_OVERWRITE, intended_writes, record_missing
from hiveacid.model.tables import LockId, TxnId
from hiveacid.model.transactions import (
    AbortReason,
    LockComponent,
    LockInfo,
    LockSemantics,
    LockState,
    LockType,
    blocked_now,
    busy_sessions,
    deadlock_text,
    find_deadlock,
    first_blocked,
    passed_by,
)

_L = HIVE_LOCKS.c
_COLUMNS: Final = (
    _L.HL_LOCK_EXT_ID,
    _L.HL_LOCK_INT_ID,
    _L.HL_TXNID,
    _L.HL_DB,
    _L.HL_TABLE,
    _L.HL_PARTITION,
    _L.HL_LOCK_STATE,
    _L.HL_LOCK_TYPE,
    _L.HL_LAST_HEARTBEAT,
    _L.HL_ACQUIRED_AT,
    _L.HL_USER,
    _L.HL_HOST,
    _L.HL_AGENT_INFO,
    _L.HL_BLOCKEDBY_EXT_ID,
    _L.HL_BLOCKEDBY_INT_ID,
)
_OF_REQUEST: Final = _L.HL_LOCK_EXT_ID == bindparam("lock")

_TAKE_ID: Final = (
    update(NEXT_LOCK_ID)
    .values(NL_NEXT=NEXT_LOCK_ID.c.NL_NEXT + 1)
    .returning(NEXT_LOCK_ID.c.NL_NEXT - 1)
)
_REQUEST: Final = select(*_COLUMNS).where(_OF_REQUEST).order_by(_L.HL_LOCK_INT_ID)
_COUNTS: Final = or_(
    _L.HL_LOCK_EXT_ID <= bindparam("lock"),
    and_(_L.HL_LOCK_EXT_ID > bindparam("lock"), _L.HL_LOCK_STATE == LockState.ACQUIRED.value),
)
_OTHERS: Final = (
    select(*_COLUMNS)
    .where(_L.HL_DB == bindparam("db"))
    .order_by(_L.HL_LOCK_EXT_ID, _L.HL_LOCK_INT_ID)
)
_MINE: Final = HIVE_LOCKS.alias("mine")
_BESIDE: Final = (
    select(*_COLUMNS)
    .where(
        _L.HL_DB.in_(select(_MINE.c.HL_DB).where(_MINE.c.HL_LOCK_EXT_ID == bindparam("lock"))),
        _COUNTS,
    )
    .order_by(_L.HL_LOCK_EXT_ID, _L.HL_LOCK_INT_ID)
)
_EVERYWHERE: Final = select(*_COLUMNS).where(_COUNTS).order_by(_L.HL_LOCK_EXT_ID, _L.HL_LOCK_INT_ID)
_GRANT: Final = (
    update(HIVE_LOCKS)
    .where(_OF_REQUEST)
    .values(
        HL_LOCK_STATE=LockState.ACQUIRED.value,
        HL_LAST_HEARTBEAT=bindparam("heartbeat"),
        HL_ACQUIRED_AT=bindparam("now"),
        HL_BLOCKEDBY_EXT_ID=None,
        HL_BLOCKEDBY_INT_ID=None,
    )
)
_BLOCK: Final = (
    update(HIVE_LOCKS)
    .where(_OF_REQUEST, _L.HL_LOCK_INT_ID == bindparam("component"))
    .values(HL_BLOCKEDBY_EXT_ID=bindparam("by"), HL_BLOCKEDBY_INT_ID=bindparam("by_component"))
)
_HOLDER: Final = HIVE_LOCKS.alias("holder")
_BLOCKED: Final = (
    select(*_COLUMNS, *(_HOLDER.c[column.name] for column in _COLUMNS))
    .join_from(
        HIVE_LOCKS,
        _HOLDER,
        and_(
            _HOLDER.c.HL_LOCK_EXT_ID == _L.HL_BLOCKEDBY_EXT_ID,
            _HOLDER.c.HL_LOCK_INT_ID == _L.HL_BLOCKEDBY_INT_ID,
        ),
    )
    .where(_L.HL_LOCK_STATE == LockState.WAITING.value)
)
_ALL: Final = select(*_COLUMNS).order_by(_L.HL_LOCK_EXT_ID, _L.HL_LOCK_INT_ID)
_DELETE: Final = delete(HIVE_LOCKS).where(_OF_REQUEST)
_RELEASE: Final = delete(HIVE_LOCKS).where(_L.HL_TXNID == bindparam("txn"))


class SqlLocks(Part, OwnDatabase, LockManager):
    """``LockManager`` on the tables HIVE_LOCKS and TXN_COMPONENTS."""

    def lock(
        self,
        components: Sequence[LockComponent],
        *,
        txn: TxnId | None,
        user: str,
        host: str,
        agent_info: str | None = None,
        zero_wait_read: bool = False,
        exclusive_ctas: bool = False,
        held: Collection[LockId] = (),
    ) -> LockResponse:
        if not components:
            raise InvalidInputError("A lock request needs at least one component")
        semantics = self._db.options.lock_semantics
        databases = {one.database.lower() for one in components}
        with self._db.write() as unit:
            kind = None if txn is None else ask_open_type(unit, txn)
            new_id = unit.ask(_TAKE_ID)
            # Nobody else gets an id before the end of this unit: all there are are smaller.
            other_rows = _ask_others(unit, databases, held)
            writes = [] if txn is None else intended_writes(components)
            unit.outlives_a_crash = were_missing = False
            newer: Answer | None = None
            if txn is not None and writes:
                # Files that are never committed must stay invisible.
                unit.outlives_a_crash = were_missing = record_missing(unit, txn, writes)
                newer = unit.ask(NEWER_OVERWRITE, txn=txn)
            if txn is not None and kind is not None and open_type(kind) is None:
                raise not_open_error(unit, txn)
            lock = LockId(new_id.scalar())
            request = [
                LockInfo(
                    lock_id=lock,
                    component_id=at,
                    txn_id=txn or TxnId(0),
                    database=one.database.lower(),
                    table=one.table and one.table.lower(),
                    partition=one.partition,
                    state=LockState.WAITING,
                    type=one.type,
                    last_heartbeat_ms=0 if txn else unit.now_ms,
                    acquired_at_ms=None,
                    user=user,
                    host=host,
                    agent_info=agent_info,
                )
                for at, one in enumerate(components, start=1)
            ]
            infos = [_info(row) for one in other_rows for row in one.rows()]
            blocked = _blocked(unit, request, infos, semantics=semantics, held=held)
            if blocked is not None:
                refusal = _refusal(*blocked, zero_wait_read=zero_wait_read, ctas=exclusive_ctas)
                if refusal is not None:
                    return LockResponse(lock, LockState.NOT_ACQUIRED, refusal)
            unit.insert(HIVE_LOCKS, _stored(request, blocked, unit.now_ms))
            if blocked is not None or newer is None or were_missing:
                return _response(lock, blocked)  # what is not recorded may be gone: who asks looks
            found = tuple(TxnId(winner) for (winner,) in newer.rows())
            return LockResponse(lock, LockState.ACQUIRED, newer_overwrite=found)

    def check_lock(self, lock: LockId, *, held: Collection[LockId] = ()) -> LockResponse:
        with self._db.write() as unit:
            unit.outlives_a_crash = False
            request, others = _seen(unit, lock, everywhere=bool(held))
            if not request:
                raise no_such_lock(lock)
            txn = request[0].txn_id
            if txn:
                heartbeat_txn(unit, txn)
            else:
                heartbeat_lock(unit, lock)
            if all(one.state is LockState.ACQUIRED for one in request):
                return _response(lock, None)
            semantics = self._db.options.lock_semantics
            blocked = _blocked(unit, request, others, semantics=semantics, held=held)
            if blocked is None:
                heartbeat = 0 if txn else unit.now_ms
                unit.ask(_GRANT, lock=lock, now=unit.now_ms, heartbeat=heartbeat)
            else:
                wanted, other = blocked
                unit.ask(
                    _BLOCK,
                    lock=lock,
                    component=wanted.component_id,
                    by=other.lock_id,
                    by_component=other.component_id,
                )
            return _response(lock, blocked)

    def unlock(self, lock: LockId) -> None:
        with self._db.write() as unit:
            rows = [_info(row) for row in unit.rows(_REQUEST, lock=lock)]
            if any(one.txn_id and one.state is LockState.ACQUIRED for one in rows):
                raise TransactionError(
                    "Unlocking locks associated with transaction not permitted. "
                    f"LockId: {lock}, TxnId: {rows[0].txn_id}",
                    lock_id=lock,
                    txn=rows[0].txn_id,
                    state="open",
                )
            unit.ask(_DELETE, lock=lock)

    def break_deadlock(self, *, waiting: LockId | None = None) -> tuple[LockInfo, ...]:
        """See ``OwnDatabase``. A request notes one of those in its way: where that one ends, it
        looks again and notes another, so no cycle stays hidden.
        """
        with self._db.read() as unit:
            if not _deadlock(unit, waiting, self._db.options.lock_semantics):
                return ()
        with self._db.write() as unit:
            cycle = _deadlock(unit, waiting, self._db.options.lock_semantics)
            if not cycle:
                return ()
            victim = cycle[0]
            if not victim.txn_id:
                unit.ask(_DELETE, lock=victim.lock_id)
                return cycle
            detail = f": {deadlock_text(cycle)}"
            return cycle if abort(unit, victim.txn_id, AbortReason.DEADLOCK, detail=detail) else ()

    def release_locks(self, txn: TxnId) -> None:
        with self._db.write() as unit:
            unit.ask(_RELEASE, txn=txn)

    def show_locks(
        self, *, database: str | None = None, table: str | None = None, txn: TxnId | None = None
    ) -> tuple[LockInfo, ...]:
        query = select(*_COLUMNS)
        if database is not None:
            query = query.where(_L.HL_DB == database.lower())
        if table is not None:
            query = query.where(_L.HL_TABLE == table.lower())
        if txn is not None:
            query = query.where(_L.HL_TXNID == txn)
        with self._db.query() as unit:
            found = [_info(row) for row in unit.rows(query)]
        return tuple(
            sorted(
                found,
                key=lambda one: (
                    one.state is not LockState.ACQUIRED,
                    one.type.strength,
                    one.lock_id,
                    one.component_id,
                ),
            )
        )


def _deadlock(unit: Unit, waiting: LockId | None, semantics: LockSemantics) -> tuple[LockInfo, ...]:
    """One that may be broken by whom the request ``waiting`` belongs to.

    Where LOCK TABLE is to give up, only its client does so: the row is all that could tell it why.
    """
    size = len(_COLUMNS)
    noted = [(_info(row[:size]), _info(row[size:])) for row in unit.rows(_BLOCKED)]
    if not find_deadlock(noted):
        return ()
    # What a request noted when it looked last may be in its way no more.
    locks = [_info(row) for row in unit.rows(_ALL)]
    blocked, busy = blocked_now(locks, semantics=semantics), busy_sessions(locks)
    while cycle := find_deadlock(blocked, busy=busy):
        victim = cycle[0]
        if victim.txn_id or victim.lock_id == waiting:
            return cycle
        blocked = [(one, by) for one, by in blocked if one.lock_id != victim.lock_id]
    return ()


def _ask_others(unit: Unit, databases: Collection[str], held: Collection[LockId]) -> list[Answer]:
    """Ask for the requests that may stand in the way of one whose id is yet to come."""
    if held:
        return [unit.ask(_ALL)]
    return [unit.ask(_OTHERS, db=database) for database in sorted(databases)]


def _seen(unit: Unit, lock: LockId, *, everywhere: bool) -> tuple[list[LockInfo], list[LockInfo]]:
    """A request's components, none where they are not stored, and the others that count; all of one
    moment: a table that is renamed takes its locks along.
    """
    rows = unit.rows(_EVERYWHERE if everywhere else _BESIDE, lock=lock)
    seen = [_info(row) for row in rows]
    return [one for one in seen if one.lock_id == lock], [o for o in seen if o.lock_id != lock]


def _blocked(
    unit: Unit,
    request: Sequence[LockInfo],
    others: list[LockInfo],
    *,
    semantics: LockSemantics,
    held: Collection[LockId],
) -> tuple[LockInfo, LockInfo] | None:
    """The first component that has to wait, and for whom; None where nothing has to."""
    if held:
        others = _without_own(others, semantics, held=held)
    lock, txn = request[0].lock_id, request[0].txn_id
    blocked = first_blocked(request, others, semantics=semantics)
    if blocked is not None and txn and blocked[1].state is LockState.WAITING:
        stored, everybody = _seen(unit, lock, everywhere=True)
        others = _without_own(everybody, semantics, held=held, txn=txn)
        blocked = first_blocked(stored or request, others, semantics=semantics)
    return blocked


def _stored(
    request: Sequence[LockInfo], blocked: tuple[LockInfo, LockInfo] | None, now_ms: int
) -> list[dict[str, object]]:
    """The rows of a request, granted unless it is blocked."""
    waiting, blocker = blocked or (None, None)
    state = LockState.ACQUIRED if blocked is None else LockState.WAITING
    return [
        {
            "HL_LOCK_EXT_ID": one.lock_id,
            "HL_LOCK_INT_ID": one.component_id,
            "HL_TXNID": one.txn_id,
            "HL_DB": one.database,
            "HL_TABLE": one.table,
            "HL_PARTITION": one.partition,
            "HL_LOCK_STATE": state.value,
            "HL_LOCK_TYPE": one.type.value,
            "HL_LAST_HEARTBEAT": one.last_heartbeat_ms,
            "HL_USER": one.user,
            "HL_HOST": one.host,
            "HL_AGENT_INFO": one.agent_info,
            "HL_ACQUIRED_AT": now_ms if blocked is None else None,
            "HL_BLOCKEDBY_EXT_ID": None
            if blocker is None or one is not waiting
            else blocker.lock_id,
            "HL_BLOCKEDBY_INT_ID": None
            if blocker is None or one is not waiting
            else blocker.component_id,
        }
        for one in request
    ]


def _without_own(
    everybody: Sequence[LockInfo],
    semantics: LockSemantics,
    *,
    held: Collection[LockId],
    txn: TxnId | None = None,
) -> list[LockInfo]:
    """Whom the request may have to wait for, where its client or transaction holds locks."""
    lost = set(held).difference(one.lock_id for one in everybody)
    if lost:
        raise LockError(
            f"Lock {min(lost)} is lost, its heartbeat came too late: others may have used what it "
            "kept them from",
            lock_id=min(lost),
            note="UNLOCK forgets it; look at the data before LOCK takes it anew.",
        )
    mine = (
        one.lock_id
        for one in everybody
        if one.txn_id == txn and txn and one.state is LockState.ACQUIRED
    )
    passed = passed_by(everybody, {*held, *mine}, semantics=semantics)
    return [one for one in everybody if one.lock_id not in passed]


def _refusal(
    wanted: LockInfo, blocker: LockInfo, *, zero_wait_read: bool, ctas: bool
) -> str | None:
    if zero_wait_read and wanted.type is LockType.SHARED_READ and wanted.txn_id:
        return f"Unable to acquire read lock due to an existing exclusive lock {blocker}"
    if ctas:
        return (
            "Failed to initiate a concurrent CTAS operation with the same table name, "
            f"lockInfo : {blocker}"
        )
    return None


def _response(lock: LockId, blocked: tuple[LockInfo, LockInfo] | None) -> LockResponse:
    if blocked is None:
        return LockResponse(lock, LockState.ACQUIRED)
    return LockResponse(lock, LockState.WAITING, blocked_by=blocked[1])


def _info(row: Row) -> LockInfo:
    return LockInfo(
        lock_id=LockId(row[0]),
        component_id=row[1],
        txn_id=TxnId(row[2]),
        database=row[3],
        table=row[4],
        partition=row[5],
        state=LockState(row[6]),
        type=LockType(row[7]),
        last_heartbeat_ms=row[8],
        acquired_at_ms=row[9],
        user=row[10],
        host=row[11],
        agent_info=row[12],
        blocked_by_lock_id=None if row[13] is None else LockId(row[13]),
        blocked_by_component_id=row[14],
    )

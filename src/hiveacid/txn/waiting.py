"""Waiting for locks, with a deadline (metastore.md 3.7)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, Protocol

from hiveacid.clock import Clock
from hiveacid.errors import LockError, NotFoundError, TransactionError, tolerated
from hiveacid.metastore.api import LockResponse, Metastore, own
from hiveacid.model.readable import moment
from hiveacid.model.tables import LockId, TableName, TxnId
from hiveacid.model.transactions import (
    CLAIMS,
    CLEANER,
    AbortReason,
    LockComponent,
    LockInfo,
    LockState,
    TxnInfo,
    deadlock_text,
)
from hiveacid.settings import Settings
from hiveacid.storage.filesystem import Files

_LOG = logging.getLogger(__name__)
_FIRST_WORD_S: Final = 2.0
_NEXT_WORD_S: Final = 30.0
"""After so long who waits says for whom, and again each time so much later."""
_KEEPS = (
    "The session keeps what LOCK took before: UNLOCK it, so that the others go on, and take the "
    "locks in one order."
)


class Manager(Protocol):
    """What a transaction, and who waits for its locks, need of the manager it comes from."""

    metastore: Metastore
    clock: Clock
    settings: Settings
    """as they are now"""
    files: Files
    user: str
    host: str
    agent_info: str | None
    application: str
    hive_cleans: bool
    """whether a cleaner of Hive may work on the metastore"""
    looked_at: set[str]
    """locations of tables where no file is of a write id that nobody has"""

    @property
    def held_locks(self) -> Collection[LockId]:
        """The client's own locks: it does not wait for them, nor behind those who do."""

    def open_anew(self, *, read_only: bool, begin: Callable[[TxnId], None]) -> None:
        """Open a bare transaction in the place of one that has ended, for ``begin``."""

    def keep_alive(
        self, txn: TxnId, *, on_lost: Callable[[], None], on_lease_over: Callable[[], None] | None
    ) -> None:
        """Send heartbeats until it is forgotten; only a lease can be over."""

    def claim(self, components: Sequence[LockComponent], *, agent_info: str) -> LockId:
        """Take locks that outlive the transaction whose they are; ``unlock`` gives them back."""

    def unlock(self, lock: LockId) -> None:
        """Give locks without a transaction back."""

    def tell(self, end: Callable[[], object]) -> None:
        """End in the metastore what others wait for; where it fails it is told again later."""

    def forget(self, txn: TxnId, *, written: Collection[TableName]) -> None:
        """Send no more heartbeats; it is committed where it has written to tables."""


def wait_for_lock(
    manager: Manager,
    components: Sequence[LockComponent],
    *,
    txn: TxnId | None,
    agent_info: str | None = None,
) -> LockResponse:
    """Request the components and wait until all are granted; without a transaction the caller sends
    the lock's heartbeats and gives it back. ``agent_info`` None is that of the manager.

    While it waits, abandoned transactions are timed out and deadlocks are broken; a line of the
    log, which is shown where nobody has set up logging, says for whom it waits, and what ends it.
    On any failure the request is taken back.

    Raises:
        LockError: the deadline passed, the transaction was aborted or the request given up to break
            a deadlock, one of the client's own is lost, or it reads what is locked exclusively and
            ``lock.zero_wait_reads``.
        TransactionError: the transaction was ended meanwhile.
    """
    metastore, clock, settings = manager.metastore, manager.clock, manager.settings
    started_s = clock.monotonic_s()
    pause_s = settings.lock_poll_min_s
    request = partial(
        metastore.lock,
        components,
        txn=txn,
        user=manager.user,
        host=manager.host,
        agent_info=agent_info or manager.agent_info,
        zero_wait_read=settings.lock_zero_wait_reads,
    )
    response = _passing(manager, lambda mine: request(held=mine))
    if response.state is LockState.NOT_ACQUIRED:
        raise LockError(
            "Locks on the underlying objects cannot be acquired, retry after some time. "
            f"{response.message}",
            code=10104,
            txn=txn,
        )
    word_s = _FIRST_WORD_S
    try:
        while response.state is not LockState.ACQUIRED:
            waited_s = clock.monotonic_s() - started_s
            left_s = settings.lock_timeout_s - waited_s
            if left_s <= 0:
                raise _timed_out(metastore, response, waited_s=waited_s)
            if waited_s >= word_s:
                word_s = waited_s + _NEXT_WORD_S
                _say_for_whom(metastore, response, waited_s=waited_s, left_s=left_s)
            clock.sleep_s(min(pause_s, left_s))
            pause_s = min(pause_s * 2, settings.lock_poll_max_s)
            own(metastore).perform_timeouts()
            response = _passing(manager, partial(_look_again, metastore, response, txn))
    except BaseException:
        if response.state is LockState.WAITING:
            with tolerated(_LOG, "A request is taken back later: %s"):
                manager.tell(partial(metastore.unlock, response.lock_id))
        raise
    return response


def _passing(manager: Manager, ask: Callable[[Collection[LockId]], LockResponse]) -> LockResponse:
    """The answer to a lock request that passes the locks which this client holds. It is asked again
    where another thread gave one of them back meanwhile: such a lock is not a lost one.
    """
    while True:
        mine = manager.held_locks
        try:
            return ask(mine)
        except LockError as error:
            missing = error.context.get("lock_id")
            if missing not in mine or missing in manager.held_locks:
                raise


def _look_again(
    metastore: Metastore, found: LockResponse, txn: TxnId | None, held: Collection[LockId]
) -> LockResponse:
    broken = own(metastore).break_deadlock(waiting=found.lock_id)
    if broken and txn is None and broken[0].lock_id == found.lock_id:
        raise _given_up(broken, found)
    try:
        return metastore.check_lock(found.lock_id, held=held)
    except NotFoundError as error:
        if txn is None:
            raise LockError(
                f"Lock {found.lock_id} was given up while it waited: its heartbeat was lost",
                lock_id=found.lock_id,
            ) from error
        # The rows of a transaction's request vanish only with the transaction.
        info = metastore.txn_info(txn)
        reason = None if info is None else info.reason
        if reason is not None and reason.startswith(AbortReason.DEADLOCK.value):
            raise LockError(
                f"Transaction {txn} was aborted to break a {reason}",
                txn=txn,
                blocked_by=found.blocked_by,
                note=_KEEPS if held else None,
            ) from error
        what = "unknown" if info is None else info.state.name.lower()
        raise TransactionError(
            f"Transaction {txn} was ended while it waited for locks: {what}"
            + ("" if reason is None else f" ({reason})"),
            txn=txn,
            state=what,
        ) from error


def _given_up(broken: Sequence[LockInfo], found: LockResponse) -> LockError:
    mine = broken[0]
    return LockError(
        f"The request for {mine.type.name} of {_resource(mine)} was given up to break a "
        f"{AbortReason.DEADLOCK.value}: {deadlock_text(broken)}",
        lock_id=mine.lock_id,
        resource=_resource(mine),
        blocked_by=found.blocked_by,
        requests=tuple(str(one) for one in broken),
        note=_KEEPS,
    )


def _say_for_whom(
    metastore: Metastore, found: LockResponse, *, waited_s: float, left_s: float
) -> None:
    blocker = found.blocked_by
    if blocker is None:
        return
    holder = metastore.txn_info(blocker.txn_id) if blocker.txn_id else None
    _LOG.warning(
        "Waiting for a lock on %s for %d s: %s. %s Gives up in %d s (hiveacid.lock.timeout_s).",
        _resource(blocker),
        waited_s,
        _whose(blocker, holder),
        _what_frees(blocker),
        left_s,
        extra={"lock": found.lock_id, "holder": blocker.txn_id},
    )


def _whose(blocker: LockInfo, holder: TxnInfo | None) -> str:
    verb = "held" if blocker.state is LockState.ACQUIRED else "requested earlier"
    who = f"{blocker.type.name} is {verb} by {blocker.holder} of {blocker.user}@{blocker.host}"
    since_ms = _since_ms(blocker, holder)
    return who if since_ms is None else f"{who} since {moment(since_ms)}+00:00"


def _what_frees(blocker: LockInfo) -> str:
    """How the lock in the way is given back, by its owner or by an administrator."""
    if blocker.txn_id:
        return f"It ends with its transaction, or by ABORT TRANSACTIONS {blocker.txn_id}."
    if blocker.database == CLAIMS:
        return f"It ends with the transaction of its LOAD, or by ABORT LOCKS {blocker.lock_id}."
    if blocker.agent_info == CLEANER:
        return f"It ends when replaced files are removed, or by ABORT LOCKS {blocker.lock_id}."
    return f"It ends with UNLOCK in its session, or by ABORT LOCKS {blocker.lock_id}."


def _timed_out(metastore: Metastore, found: LockResponse, *, waited_s: float) -> LockError:
    waited_ms = int(waited_s * 1000)
    blocker = found.blocked_by
    if blocker is None:
        return LockError(f"Lock acquisition timed out after {waited_ms}ms.", code=10307)
    holder = metastore.txn_info(blocker.txn_id) if blocker.txn_id else None
    return LockError(
        f"Lock acquisition for {_resource(blocker)} timed out after {waited_ms}ms. "
        + _whose(blocker, holder),
        note=_what_frees(blocker),
        code=10307,
        lock_id=blocker.lock_id,
        holder=blocker.txn_id,
        user=blocker.user,
        host=blocker.host,
        since_ms=_since_ms(blocker, holder),
        resource=_resource(blocker),
    )


def _resource(lock: LockInfo) -> str:
    return "/".join(filter(None, (lock.database, lock.table, lock.partition)))


def _since_ms(blocker: LockInfo, holder: TxnInfo | None) -> int | None:
    if blocker.acquired_at_ms is not None:
        return blocker.acquired_at_ms
    return None if holder is None else holder.started_ms

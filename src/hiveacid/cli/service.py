"""``txns`` and ``locks``: what the metastore holds, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hiveacid.cli.output import Format, print_rows, to_json

if TYPE_CHECKING:
    from hiveacid.metastore.api import Metastore
    from hiveacid.model.locks import LockInfo

_TXN_COLUMNS = (
    "txnid",
    "state",
    "type",
    "startedtime",
    "lastheartbeattime",
    "user",
    "host",
    "reason",
)
_LOCK_COLUMNS = (
    "lockid",
    "database",
    "table",
    "partition",
    "lock_state",
    "blocked_by",
    "lock_type",
    "transaction_id",
    "last_heartbeat",
    "acquired_at",
    "user",
    "hostname",
    "agent_info",
)


def open_metastore(url: str) -> Metastore:
    """The metastore at ``url``, which must exist: to look at one never makes one.

    Raises:
        NotFoundError: there is none.
        MetastoreError: it is not a metastore of ours.
    """
    from hiveacid.clock import SystemClock
    from hiveacid.metastore.connect import connect
    from hiveacid.metastore.sql.migrations import Opening

    return connect(url, clock=SystemClock(), opening=Opening.EXISTING)


def txns(url: str, *, as_json: bool) -> None:
    """Print open and aborted transactions by id; times are epoch ms, as in SHOW TRANSACTIONS."""
    with open_metastore(url) as metastore:
        rows = [
            (
                info.id,
                info.state.name,
                info.type.name,
                info.started_ms,
                info.last_heartbeat_ms,
                info.user,
                info.host,
                info.reason,
            )
            for info in metastore.show_txns()
        ]
    _print(_TXN_COLUMNS, rows, as_json=as_json)


def abort(url: str, *, transactions: Sequence[int], locks: Sequence[int]) -> None:
    """Abort transactions and give back locks without one.

    Raises:
        NotFoundError: there is no such transaction or lock.
        InvalidInputError: a lock belongs to a transaction.
    """
    from hiveacid.model.ids import LockId, TxnId
    from hiveacid.statements.lock import AbortTransactions, abort_locks, abort_transactions

    with open_metastore(url) as metastore:
        if locks:
            abort_locks(metastore, tuple(map(LockId, locks)))
        if transactions:
            abort_transactions(metastore, AbortTransactions(tuple(map(TxnId, transactions))))


def locks(url: str, *, as_json: bool) -> None:
    """Print all lock rows, acquired first, with the columns of SHOW LOCKS."""
    with open_metastore(url) as metastore:
        rows = [_lock_row(lock) for lock in metastore.show_locks()]
    _print(_LOCK_COLUMNS, rows, as_json=as_json)


def _lock_row(lock: LockInfo) -> tuple[object, ...]:
    blocked_by = (
        None
        if lock.blocked_by_lock_id is None
        else f"{lock.blocked_by_lock_id}.{lock.blocked_by_component_id}"
    )
    return (
        f"{lock.lock_id}.{lock.component_id}",
        lock.database,
        lock.table,
        lock.partition,
        lock.state.name,
        blocked_by,
        lock.type.name,
        lock.txn_id or None,
        lock.last_heartbeat_ms,
        lock.acquired_at_ms,
        lock.user,
        lock.host,
        lock.agent_info,
    )


def _print(names: Sequence[str], rows: Iterable[Sequence[object]], *, as_json: bool) -> None:
    if as_json:
        print(to_json([dict(zip(names, row, strict=True)) for row in rows], indent=1))
    else:
        print_rows(names, rows, form=Format.TABLE)

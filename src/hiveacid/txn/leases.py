"""Reading a table outside a statement: a snapshot, and the read transaction that keeps its files.

A lease ends when the reader says so, or by itself after ``reads.lease_s`` (the heartbeat's rule
for read-only transactions); it holds no locks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hiveacid.layout.snapshot import Snapshot
from hiveacid.model.tables import Partition, Table
from hiveacid.txn.footprint import Footprint, TableRead
from hiveacid.txn.manager import TransactionManager
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.unit import UnitOfWork

Keep = Callable[[Sequence[Partition]], Sequence[Partition]]
"""Chooses among a table's partitions; the others are not listed."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A snapshot and what ends its transaction; to end it twice does nothing."""

    snapshot: Snapshot
    close: Callable[[], None]


def open_lease(manager: TransactionManager, table: Table, *, keep: Keep) -> Lease:
    """Begin a read transaction and take the snapshot of some partitions of a table.

    Raises:
        LockError: somebody holds the table exclusively.
        StorageError: a directory could not be listed.
        SnapshotExpiredError: cleaned beyond what this snapshot sees.
    """
    txn = manager.begin(read_only=True)
    try:
        snapshot = _snapshot(txn, table, keep)
        txn.release_locks()
    except BaseException as error:
        txn.close(because=error)
        raise
    return Lease(snapshot, txn.close)


def lease_within(unit: UnitOfWork, table: Table, *, keep: Keep) -> Lease:
    """What a transaction sees of a table, its own writes included; there is nothing to end.

    Raises:
        TransactionError: the transaction is not open.
        LockError, StorageError, SnapshotExpiredError: as ``open_lease``.
    """
    with unit.statement():
        return Lease(_snapshot(unit.txn, table, keep), _nothing)


def _nothing() -> None:
    pass


def _snapshot(txn: Transaction, table: Table, keep: Keep) -> Snapshot:
    txn.lock(Footprint(reads=(TableRead(table),)))
    if not table.partition_columns:
        return txn.snapshot(table)
    known = txn.partitions(table)
    return txn.snapshot(table, partitions=keep(known), of=known)

"""Reading a table outside a statement: a snapshot, and the read transaction that keeps its files.

A lease ends when the reader says so, or by itself after ``reads.lease_s`` (the heartbeat's rule
for read-only transactions); it holds no locks. Where the table's retention keeps the files for so
long, it has ended already (``txn.retention``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hiveacid.layout.snapshot import Snapshot
from hiveacid.model.tables import Partition, Table, TableName
from hiveacid.statements.context import Bound, ExecutionContext, fixed
from hiveacid.statements.locked import Locked, locked, locked_within
from hiveacid.txn.footprint import Footprint, TableRead
from hiveacid.txn.retention import end_reading
from hiveacid.txn.view import Look

Keep = Callable[[Sequence[Partition]], Sequence[Partition]]
"""Chooses among a table's partitions; the others are not listed."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A snapshot and what ends its transaction; to end it twice does nothing."""

    snapshot: Snapshot
    close: Callable[[], None]


def open_lease(context: ExecutionContext, expected: Table, *, keep: Keep) -> Lease:
    """Take the snapshot of some partitions of a table, in a read transaction of its own; within a
    transaction of several statements that one's, its own writes included, with nothing to end.

    Raises:
        NotFoundError: no such table.
        LockError: somebody holds the table exclusively.
        TransactionError: the transaction is not open.
        StorageError: a directory could not be listed.
        SnapshotExpiredError: cleaned beyond what this snapshot sees.
    """
    look = context.look()
    look.expect(expected)
    bound = Bound.to(look, fixed(expected.name))
    if context.unit is not None:
        with context.unit.statement():
            held = locked_within(context, context.unit.txn, bound, _needs)
            return Lease(_snapshot(held, keep), _nothing)
    held = locked(context, bound, _needs, read_only=True)
    try:
        snapshot = _snapshot(held, keep)
        end_reading(held.txn, (snapshot.table,), context.settings)
    except BaseException as error:
        held.txn.close(because=error)
        raise
    return Lease(snapshot, held.txn.close)


def _needs(context: ExecutionContext, name: TableName, look: Look) -> Footprint:
    del context
    return Footprint(reads=(TableRead(look.definition(name)),))


def _nothing() -> None:
    pass


def _snapshot(held: Locked, keep: Keep) -> Snapshot:
    table = held.view.definition(held.value)
    known = held.view.partitions(table)
    if not table.partition_columns:
        return held.txn.snapshot(table)
    return held.txn.snapshot(table, partitions=keep(known), of=known)

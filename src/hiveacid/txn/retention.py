"""How long what a compaction replaced is kept, and which reads need no lease because of it.

Where only cleaners of ours work (no service of Hive has been seen on the database), a file is
removed at the earliest its table's retention after the compaction that replaced it committed. A
reader that has planned needs its files for ``reads.lease_s`` at most, and chose none that was
replaced before it began: where the retention is no shorter, its transaction may end when the plan
is made, and holds up no cleaner.
"""

from __future__ import annotations

from collections.abc import Iterable

from hiveacid.errors import InvalidInputError
from hiveacid.model.compactions import CompactionInfo
from hiveacid.model.tables import RETENTION, AcidMode, Table
from hiveacid.setting import parse_seconds
from hiveacid.settings import Settings
from hiveacid.txn.transaction import Transaction


def end_reading(txn: Transaction, tables: Iterable[Table], settings: Settings) -> None:
    """The reads of a read-only transaction are planned, files of ``tables`` are left to read: it
    ends where their retention keeps them, else it stays as a lease, without its locks.

    Raises:
        InvalidInputError: the transaction writes.
        TransactionError, MetastoreError: as ``Transaction.commit``.
    """
    if _needs_lease(tables, settings, hive_cleans=txn.hive_cleans):
        txn.release_locks()
    else:
        txn.close()


def _needs_lease(tables: Iterable[Table], settings: Settings, *, hive_cleans: bool) -> bool:
    """Whether a read of these tables needs an open transaction to keep its files."""
    if settings.reads_lease == "always":
        return True
    kept_s = [_kept_s(one, settings) for one in tables if one.acid_mode is not AcidMode.NONE]
    return any(hive_cleans or one < settings.reads_lease_s for one in kept_s)


def _kept_s(table: Table, settings: Settings) -> float:
    try:
        return retention_s(table, settings)
    except InvalidInputError:  # the cleaner's to complain about
        return 0.0


def retained_until_ms(entry: CompactionInfo, table: Table, settings: Settings) -> int | None:
    """When the retention of a compaction's inputs is over; None where they need not be kept.

    Raises:
        InvalidInputError: the table's property is no length of time.
    """
    kept_s = retention_s(table, settings)
    begins_ms = entry.committed_ms or entry.started_ms
    if begins_ms is None or not kept_s:
        return None
    return begins_ms + int(kept_s * 1000)


def retention_s(table: Table, settings: Settings) -> float:
    """How long what was replaced in a table is kept.

    Raises:
        InvalidInputError: the table's property is no length of time.
    """
    text = table.properties.get(RETENTION)
    if text is None:
        return settings.retention_s
    try:
        return parse_seconds(text)
    except ValueError as error:
        raise InvalidInputError(
            f"Property {RETENTION} of {table.name} is no length of time: {text!r}",
            table=str(table.name),
        ) from error

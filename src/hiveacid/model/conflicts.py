"""When two transactions may both commit (pure; ARCHITECTURE section 4).

Hive's rule is the partition: the first committer wins. Ours is the row: a delete event names the
row it deletes, so two transactions conflict where they hold delete events of the same row. What
replaces a whole partition (an overwrite, recorded as UPDATE) conflicts with every change to it.
A serializable transaction conflicts, too, with every write to what it read that its snapshot does
not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hiveacid.model.bucket import RowId
from hiveacid.model.tables import TableName, TxnId, WriteId
from hiveacid.model.transactions import OperationType
from hiveacid.model.valid import ValidTxnList

ROWS_NAMED: Final = 10
"""How many rows an error names at most."""


class ConflictUnit(Enum):
    """What two concurrent writers must not both change."""

    PARTITION = "partition"
    """the partition, or the whole of an unpartitioned table: Hive's rule"""
    ROW = "row"
    """the row"""


@dataclass(frozen=True, slots=True)
class Written:
    """What a transaction recorded as written: a partition by name, or None for all of a table."""

    table: TableName
    partition: str | None
    operation: OperationType


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A table that was read, all but the partitions ``left_out``, or ``only`` some (names)."""

    table: TableName
    left_out: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    def includes(self, partition: str | None) -> bool:
        """Whether a write to this partition, None for the whole table, touches what was read."""
        if partition is None:
            return True
        return partition not in self.left_out and (self.only is None or partition in self.only)


@dataclass(frozen=True, slots=True)
class ReadSet:
    """All that a serializable transaction read, as of the transactions ``seen``."""

    seen: ValidTxnList
    tables: tuple[ReadTable, ...] = ()


@dataclass(frozen=True, slots=True)
class UnseenWrite:
    """A write that another transaction, the ``winner``, committed to what was read, and that the
    reader's snapshot does not see; ``partition`` is None for the whole of a table.
    """

    winner: TxnId
    table: TableName
    partition: str | None

    @property
    def resource(self) -> str:
        """Hive's ``db/table/partition``."""
        return _resource(self.table, self.partition)


@dataclass(frozen=True, slots=True)
class CommittedWrite:
    """A change that another transaction, the ``winner``, committed to a partition which mine
    changed too, after mine had opened.

    ``partition`` is None for an unpartitioned table; ``write_id`` is the winner's, None where it is
    not known any more; ``mine`` is what my transaction did there.
    """

    winner: TxnId
    commit_id: TxnId
    table: TableName
    partition: str | None
    operation: OperationType
    write_id: WriteId | None
    mine: OperationType

    @property
    def is_decided(self) -> bool:
        """Whether it conflicts whatever the rows are."""
        replaces = OperationType.UPDATE in (self.operation, self.mine)
        return replaces or self.write_id is None

    @property
    def resource(self) -> str:
        """Hive's ``db/table/partition``."""
        return _resource(self.table, self.partition)


def by_partition(
    writes: Iterable[CommittedWrite],
) -> Mapping[tuple[TableName, str | None], tuple[CommittedWrite, ...]]:
    """The writes of each table and partition, the first committed first."""
    found: dict[tuple[TableName, str | None], list[CommittedWrite]] = {}
    for one in sorted(writes, key=lambda one: (one.commit_id, one.winner)):
        found.setdefault((one.table, one.partition), []).append(one)
    return {place: tuple(those) for place, those in found.items()}


def describe_conflict(txn: TxnId, lost_to: CommittedWrite, rows: Sequence[RowId] = ()) -> str:
    """One sentence that starts with Hive's words."""
    text = (
        f"Aborting [txnid:{txn}] due to a write conflict on {lost_to.resource} committed by "
        f"[txnid:{lost_to.winner},{lost_to.commit_id}] "
        f"{lost_to.mine.value}/{lost_to.operation.value}"
    )
    if not rows:
        return text
    named = ", ".join(
        f"{{writeid:{one.write_id} bucketid:{one.bucket} rowid:{one.row_id}}}" for one in rows
    )
    return f"{text}: both changed {named}" + (" ..." if len(rows) == ROWS_NAMED else "")


def describe_unseen(txn: TxnId, lost_to: UnseenWrite) -> str:
    """One sentence that starts as that of a write conflict."""
    return (
        f"Aborting [txnid:{txn}] due to a read conflict on {lost_to.resource}: "
        f"[txnid:{lost_to.winner}] committed a write that it does not see"
    )


def _resource(table: TableName, partition: str | None) -> str:
    return "/".join(filter(None, (table.database, table.table, partition)))

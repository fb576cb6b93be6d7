"""Commit at row level: commit, or learn who committed meanwhile, check them, commit, ...

The rows are compared outside the metastore's critical section. The commit itself only verifies
that nobody has come who was not checked, so it is one call where nobody has, and the loop ends
unless others keep committing to the same partitions faster than one comparison takes; each round
compares the newcomers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from hiveacid.errors import ConflictError
from hiveacid.model.bucket import RowId
from hiveacid.model.conflicts import CommittedWrite, by_partition, describe_conflict
from hiveacid.model.ids import TxnId, WriteId
from hiveacid.model.tables import TableName


class Overlap(Protocol):
    """Compares delete events, handed in by who knows where the files are."""

    def __call__(
        self, table: TableName, partition: str | None, winners: Sequence[WriteId]
    ) -> Sequence[RowId] | None:
        """Rows of the partition that my transaction and one of the winners' write ids both
        deleted, ten at most; None where that cannot be told any more."""


def commit_rows(
    txn: TxnId,
    *,
    commit: Callable[[frozenset[TxnId]], Sequence[CommittedWrite]],
    sees: Callable[[TxnId], bool],
    overlap: Overlap,
) -> None:
    """Commit ``txn`` unless a row it changed was changed by who committed first.

    ``commit`` commits unless a change that overlaps mine was made by a transaction outside the set
    it gets, and then gives those. What my snapshot ``sees`` is no conflict: its rows were not there
    for me to change.

    Raises:
        ConflictError: it is not committed and has to be aborted.
    """
    checked: set[TxnId] = set()
    while left := commit(frozenset(checked)):
        _check(txn, [one for one in left if not sees(one.winner)], overlap)
        checked.update(one.winner for one in left)


def _check(txn: TxnId, writes: Sequence[CommittedWrite], overlap: Overlap) -> None:
    for (table, partition), those in by_partition(writes).items():
        decided = next((one for one in those if one.is_decided), None)
        if decided is not None:
            raise _conflict(txn, decided, ())
        winners = tuple(dict.fromkeys(one.write_id for one in those if one.write_id is not None))
        found = overlap(table, partition, winners)
        if found is not None and not found:
            continue
        for one in those:  # in the order of their commits: who was the first?
            assert one.write_id is not None
            if len(winners) > 1:
                found = overlap(table, partition, (one.write_id,))
            if found is None or found:
                raise _conflict(txn, one, found or ())


def _conflict(txn: TxnId, lost_to: CommittedWrite, rows: Sequence[RowId]) -> ConflictError:
    return ConflictError(
        describe_conflict(txn, lost_to, rows),
        txn=txn,
        winner=lost_to.winner,
        table=str(lost_to.table),
        partition=lost_to.partition,
        rows=tuple(rows),
    )

"""Who wins: what others committed before my locks, whose rows overlap mine at the commit, and the
commit itself, sent and looked up where no reply came; never guessed.

Rows are compared outside the metastore's critical section. The commit itself only verifies that
nobody has come who was not checked, so it is one call where nobody has, and the loop ends unless
others keep committing to the same partitions faster than one comparison takes; each round compares
the newcomers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from hiveacid.clock import Clock
from hiveacid.errors import CommitOutcomeUnknownError, ConflictError, MetastoreError
from hiveacid.metastore.api import LockResponse, Metastore, own
from hiveacid.model.bucket import RowId
from hiveacid.model.conflicts import (
    CommittedWrite,
    ConflictUnit,
    ReadSet,
    UnseenWrite,
    by_partition,
    describe_conflict,
)
from hiveacid.model.history import CommitNote, ConsumerMove, StreamBatch
from hiveacid.model.statistics import StatisticsChange
from hiveacid.model.tables import Column, TableName, TxnId, WriteId
from hiveacid.model.transactions import TxnState
from hiveacid.model.valid import ValidTxnList
from hiveacid.txn.footprint import Footprint, WriteKind


def outdated_by(
    store: Metastore,
    txn: TxnId,
    footprint: Footprint,
    *,
    granted: LockResponse,
    sees: ValidTxnList,
    by_row: bool,
) -> TxnId | None:
    """The transaction to which a statement with these locks would lose, None where there is none.

    ``granted`` is the metastore's answer to the request. ``by_row``: changes of others decide at
    the commit. An overwrite loses to any write.
    """
    kinds = {one.kind for one in footprint.writes if one.changes_rows}
    if kinds:
        by_row = by_row and WriteKind.OVERWRITE not in kinds
        unit = ConflictUnit.ROW if by_row else ConflictUnit.PARTITION
        found = store.latest_txn_in_conflict(txn, conflict_unit=unit)
        if found is not None:
            return found
    if footprint.overwritten_tables:
        unseen = _unseen(store, txn, footprint, sees)
        return None if unseen is None else unseen.winner
    if not footprint.written_tables:
        return None
    if granted.newer_overwrite is not None:
        return next(iter(granted.newer_overwrite), None)
    return own(store).newer_overwrite(txn)


def check_not_replaced(
    store: Metastore, txn: TxnId, footprint: Footprint, *, sees: ValidTxnList
) -> None:
    """Whether a transaction that cannot be opened anew may go on.

    Raises:
        ConflictError: what it is to write to was replaced, or what it is to replace was written to.
    """
    winner = own(store).newer_overwrite(txn)
    if winner is not None:
        raise ConflictError(
            f"Transaction {winner} replaced what transaction {txn} is to write to",
            txn=txn,
            winner=winner,
        )
    unseen = _unseen(store, txn, footprint, sees)
    if unseen is not None:
        raise ConflictError(
            f"Transaction {txn} would replace {unseen.resource} and with it what transaction "
            f"{unseen.winner} wrote to it, which it does not see",
            txn=txn,
            winner=unseen.winner,
            table=str(unseen.table),
            partition=unseen.partition,
        )


def _unseen(
    store: Metastore, txn: TxnId, footprint: Footprint, sees: ValidTxnList
) -> UnseenWrite | None:
    tables = footprint.overwritten_tables
    return own(store).unseen_write(txn, ReadSet(sees, tables)) if tables else None


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


_LOOKUP_PAUSE_S = 0.05


def commit_or_look_up(
    store: Metastore,
    txn: TxnId,
    *,
    unit: ConflictUnit,
    checked: Collection[TxnId],
    reads: ReadSet | None,
    statistics: Sequence[StatisticsChange],
    columns: Sequence[tuple[TableName, Column]],
    batches: Sequence[StreamBatch],
    moves: Sequence[ConsumerMove],
    note: CommitNote,
    clock: Clock,
    retries: int,
) -> Sequence[CommittedWrite]:
    """Commit; where no reply comes, ask what became of it, and commit again if it is open.

    Raises:
        CommitOutcomeUnknownError: nobody could be asked.
        MetastoreError: it failed, and the transaction is open.
        ConflictError, TransactionError: as ``TxnStore.commit_txn``.
    """
    failure: MetastoreError | None = None
    known_open = False
    for attempt in range(retries + 1):
        if failure is not None:
            clock.sleep_s(_LOOKUP_PAUSE_S * 2**attempt)
        try:
            info = None if failure is None else store.txn_info(txn)
            if info is not None and info.state is TxnState.COMMITTED:
                return ()
            return own(store).commit_txn(
                txn,
                conflict_unit=unit,
                checked=checked,
                reads=reads,
                statistics=statistics,
                columns=columns,
                batches=batches,
                moves=moves,
                note=note,
            )
        except MetastoreError as error:
            if error.context.get("outcome") == "committed":
                raise CommitOutcomeUnknownError(
                    f"Transaction {txn} is committed, and may be gone after a power failure: "
                    f"{error.message}",
                    txn=txn,
                ) from error
            failure = error
            known_open = _is_known_open(store, txn)
    assert failure is not None
    if known_open:
        raise failure
    raise CommitOutcomeUnknownError(
        f"The commit of transaction {txn} was sent, no reply came, and its outcome could not be "
        "looked up",
        txn=txn,
        note="SHOW TRANSACTIONS tells; an open transaction is aborted after its time-out.",
    ) from failure


def _is_known_open(store: Metastore, txn: TxnId) -> bool:
    try:
        info = store.txn_info(txn)
    except MetastoreError:
        return False
    return info is not None and info.state is TxnState.OPEN

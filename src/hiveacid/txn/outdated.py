"""What others committed between a transaction's snapshot and its locks, and what follows."""

from __future__ import annotations

from hiveacid.errors import ConflictError
from hiveacid.metastore.api import ConflictUnit, TxnStore
from hiveacid.model.conflicts import ReadSet, UnseenWrite
from hiveacid.model.ids import TxnId
from hiveacid.model.valid import ValidTxnList
from hiveacid.txn.footprint import Footprint, WriteKind


def outdated_by(
    store: TxnStore, txn: TxnId, footprint: Footprint, *, sees: ValidTxnList, by_row: bool
) -> TxnId | None:
    """The transaction to which a statement with these locks would lose, None where there is none.

    ``by_row``: changes of others decide at the commit. An overwrite loses to any write.
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
    return store.newer_overwrite(txn) if footprint.written_tables else None


def check_not_replaced(
    store: TxnStore, txn: TxnId, footprint: Footprint, *, sees: ValidTxnList
) -> None:
    """Whether a transaction that cannot be opened anew may go on.

    Raises:
        ConflictError: what it is to write to was replaced, or what it is to replace was written to.
    """
    winner = store.newer_overwrite(txn)
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
    store: TxnStore, txn: TxnId, footprint: Footprint, sees: ValidTxnList
) -> UnseenWrite | None:
    tables = footprint.overwritten_tables
    return store.unseen_write(txn, ReadSet(sees, tables)) if tables else None

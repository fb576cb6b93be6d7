"""The commit's last step: sent, and looked up where no reply came; never guessed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hiveacid.clock import Clock
from hiveacid.errors import CommitOutcomeUnknownError, MetastoreError
from hiveacid.metastore.api import ConflictUnit, Metastore
from hiveacid.model.conflicts import CommittedWrite, ReadSet
from hiveacid.model.ids import TxnId
from hiveacid.model.statistics import StatisticsChange
from hiveacid.model.tables import Column, TableName
from hiveacid.model.transactions import TxnState

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
            return store.commit_txn(
                txn,
                conflict_unit=unit,
                checked=checked,
                reads=reads,
                statistics=statistics,
                columns=columns,
            )
        except MetastoreError as error:
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

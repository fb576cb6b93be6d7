"""What the shared vectors leave out."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, select
from tests.metastores import table_rows

from hiveacid.errors import InvalidInputError, NotFoundError, TransactionError
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.metastore.sql.engine import Unit
from hiveacid.metastore.sql.schema import TXN_COMPONENTS, TXNS
from hiveacid.model.tables import LockId, TableName, TxnId
from hiveacid.model.transactions import (
    AbortReason,
    LockComponent,
    LockState,
    LockType,
    OperationType,
    TxnState,
)
from hiveacid.testing import ManualClock

T = TableName("d", "t")


def _open(metastore: SqlMetastore, n: int = 1) -> tuple[TxnId, ...]:
    return metastore.open_txns(n, user="ann", host="here")


def test_an_older_txn_with_a_higher_write_id_stays_visible_after_housekeeping(
    metastore: SqlMetastore, clock: ManualClock
) -> None:
    """Hive forgets the committed write here until the next one (metastore.md, surprise 3)."""
    older, younger = _open(metastore, 2)
    metastore.allocate_write_ids([younger], T)
    metastore.allocate_write_ids([older], T)
    metastore.commit_txn(older)
    lock = LockComponent(LockType.SHARED_WRITE, "d", "t", operation=OperationType.INSERT)
    metastore.lock([lock], txn=younger, user="u", host="h")
    metastore.abort_txn(younger)
    clock.advance_ms(10_000)
    metastore.run_housekeeping(interval_s=1)
    (valid,) = metastore.valid_write_ids([T])
    assert valid.is_valid(2)
    assert not valid.is_valid(1)


def test_ids_without_rows_are_open_as_long_as_rows_above_them_are_young(
    metastore: SqlMetastore, clock: ManualClock
) -> None:
    """Their rows may come yet (metastore.md 2.3)."""
    txns = _open(metastore, 7)
    metastore.abort_txn(txns[6])
    with metastore.database.write() as unit:
        unit.ask(delete(TXNS).where(TXNS.c.TXN_ID.in_([txns[at] for at in (0, 2, 3, 5)])))
    found = metastore.get_open_txns()
    assert (found.open, found.aborted, found.min_open) == (txns[:6], txns[6:], txns[0])
    clock.advance_ms(2_000)
    found = metastore.get_open_txns()
    assert (found.open, found.min_open) == ((txns[1], txns[4]), txns[1])


def test_a_lock_of_many_partitions_asks_as_often_as_one_of_few(
    metastore: SqlMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    ask = Unit.ask
    monkeypatch.setattr(
        Unit, "ask", lambda self, text, **params: asked.append(text) or ask(self, text, **params)
    )
    (txn,) = _open(metastore)
    metastore.allocate_write_ids([txn], T)
    counts = []
    for partitions in (2, 300):
        locks = [
            LockComponent(
                LockType.SHARED_WRITE, "d", "t", f"p={at}", operation=OperationType.UPDATE
            )
            for at in range(partitions)
        ]
        asked.clear()
        metastore.lock(locks, txn=txn, user="u", host="h")
        counts.append(len(asked))
    assert counts[0] == counts[1]
    with metastore.database.read() as unit:
        recorded = [part for (part,) in unit.rows(select(TXN_COMPONENTS.c.TC_PARTITION))]
    assert sorted(recorded) == sorted({f"p={at}" for at in range(300)})


@pytest.mark.slow
def test_a_list_holds_each_id_that_thousands_of_rows_tell(metastore: SqlMetastore) -> None:
    txns = [txn for _ in range(2) for txn in _open(metastore, 1_000)]
    metastore.allocate_write_ids(txns[::2], T)
    metastore.abort_txns(txns[::3])
    for txn in txns[2::6]:
        metastore.commit_txn(txn)
    (valid,) = metastore.valid_write_ids([T])
    of = {txn: at + 1 for at, txn in enumerate(txns[::2])}
    aborted, committed = set(txns[::3]), set(txns[2::6])
    assert valid.aborted == tuple(of[txn] for txn in txns[::2] if txn in aborted)
    assert valid.open == tuple(of[txn] for txn in txns[::2] if txn not in aborted | committed)


def test_housekeeping_runs_once_an_interval_whoever_asks(
    metastore: SqlMetastore, clock: ManualClock
) -> None:
    assert metastore.run_housekeeping(interval_s=60)
    clock.advance_ms(59_000)
    assert not metastore.run_housekeeping(interval_s=60)
    clock.advance_ms(1_000)
    assert metastore.run_housekeeping(interval_s=60)


def test_housekeeping_runs_again_after_the_clock_was_set_back(
    metastore: SqlMetastore, clock: ManualClock
) -> None:
    assert metastore.run_housekeeping(interval_s=60)
    clock.advance_ms(-3_600_000)
    assert metastore.run_housekeeping(interval_s=60)


def test_committed_transactions_do_not_pile_up(metastore: SqlMetastore, clock: ManualClock) -> None:
    for _ in range(50):
        (txn,) = _open(metastore)
        metastore.allocate_write_ids([txn], T)
        metastore.commit_txn(txn)
    clock.advance_ms(5_000)
    metastore.run_housekeeping(interval_s=60)
    assert len(table_rows(metastore, "TXNS")) == 1
    assert table_rows(metastore, "TXN_TO_WRITE_ID") == []
    assert metastore.valid_write_ids([T])[0].hwm == 50


def test_a_reader_keeps_seeing_its_snapshot_across_housekeeping(
    metastore: SqlMetastore, clock: ManualClock
) -> None:
    (writer,) = _open(metastore)
    metastore.allocate_write_ids([writer], T)
    (reader,) = _open(metastore)
    snapshot = metastore.valid_txns(reader)
    before = metastore.valid_write_ids([T], snapshot)
    metastore.commit_txn(writer)
    for _ in range(3):
        (txn,) = _open(metastore)
        metastore.allocate_write_ids([txn], T)
        metastore.commit_txn(txn)
    clock.advance_ms(5_000)
    metastore.run_housekeeping(interval_s=60)
    assert metastore.valid_write_ids([T], snapshot) == before
    assert not before[0].is_valid(1)


def test_write_ids_of_a_batch_are_given_once(metastore: SqlMetastore) -> None:
    txns = _open(metastore, 3)
    given = metastore.allocate_write_ids(list(reversed(txns)), T)
    assert given == {1: 1, 2: 2, 3: 3}
    assert metastore.allocate_write_ids(txns, T) == given


def test_unknown_locks_and_transactions_have_no_heartbeat(metastore: SqlMetastore) -> None:
    with pytest.raises(TransactionError, match="No such transaction txnid:7"):
        metastore.heartbeat(txn=TxnId(7))
    with pytest.raises(NotFoundError, match="No such lock lockid:7"):
        metastore.heartbeat(lock=LockId(7))


def test_an_acquired_lock_of_a_transaction_cannot_be_unlocked(metastore: SqlMetastore) -> None:
    (txn,) = _open(metastore)
    lock = LockComponent(LockType.EXCLUSIVE, "D", "T", operation=OperationType.NO_TXN)
    found = metastore.lock([lock], txn=txn, user="u", host="h")
    with pytest.raises(TransactionError, match="not permitted"):
        metastore.unlock(found.lock_id)
    assert metastore.show_locks(database="d", table="t")[0].state is LockState.ACQUIRED
    metastore.abort_txn(txn)
    metastore.unlock(found.lock_id)


def test_locks_without_a_transaction_time_out(metastore: SqlMetastore, clock: ManualClock) -> None:
    lock = LockComponent(LockType.EXCLUSIVE, "d", operation=OperationType.NO_TXN)
    first = metastore.lock([lock], txn=None, user="u", host="h")
    clock.advance_ms(200_000)
    metastore.heartbeat(lock=first.lock_id)
    clock.advance_ms(200_000)
    metastore.perform_timeouts()
    assert len(metastore.show_locks()) == 1
    clock.advance_ms(200_000)
    metastore.perform_timeouts()
    assert metastore.show_locks() == ()


def test_show_txns_lists_open_and_aborted(metastore: SqlMetastore) -> None:
    one, two, three = _open(metastore, 3)
    metastore.abort_txn(two, reason=AbortReason.ABORT_QUERY)
    metastore.commit_txn(three)
    shown = metastore.show_txns()
    assert [(info.id, info.state, info.reason) for info in shown] == [
        (one, TxnState.OPEN, None),
        (two, TxnState.ABORTED, "abort by query command"),
    ]
    assert (shown[0].user, shown[0].host) == ("ann", "here")


def test_aborting_a_committed_transaction_is_an_error(metastore: SqlMetastore) -> None:
    (txn,) = _open(metastore)
    metastore.commit_txn(txn)
    with pytest.raises(TransactionError, match=r"Transaction txnid:1 is already committed\."):
        metastore.abort_txn(txn)


def test_bad_arguments_are_refused(metastore: SqlMetastore) -> None:
    with pytest.raises(InvalidInputError):
        _open(metastore, 0)
    with pytest.raises(InvalidInputError):
        metastore.lock([], txn=None, user="u", host="h")


def test_an_insert_sees_that_its_target_was_overwritten_under_a_higher_write_id(
    metastore: SqlMetastore,
) -> None:
    insert, overwrite = _open(metastore, 2)
    metastore.allocate_write_ids([insert], T)
    metastore.allocate_write_ids([overwrite], T)
    replace = LockComponent(LockType.EXCL_WRITE, "d", "t", operation=OperationType.UPDATE)
    metastore.lock([replace], txn=overwrite, user="u", host="h")
    metastore.commit_txn(overwrite)
    append = LockComponent(LockType.SHARED_WRITE, "d", "t", operation=OperationType.INSERT)
    metastore.lock([append], txn=insert, user="u", host="h")
    assert metastore.newer_overwrite(insert) == overwrite
    (later,) = _open(metastore)
    metastore.allocate_write_ids([later], T)
    metastore.lock([append], txn=later, user="u", host="h")
    assert metastore.newer_overwrite(later) is None

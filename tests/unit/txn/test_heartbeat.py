"""What a beat of the heartbeat does, and what may happen while it is sent."""

from __future__ import annotations

import pytest

from hiveacid.client import Client
from hiveacid.errors import MetastoreError, StorageError, TransactionError
from hiveacid.model.tables import LockId, Table, TableName
from hiveacid.model.transactions import TxnState
from hiveacid.testing import ManualClock
from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind, use_table
from hiveacid.txn.transaction import Transaction


def test_a_beat_keeps_open_transactions_alive(client: Client, clock: ManualClock) -> None:
    txn = client.transactions.begin()
    for _ in range(4):
        clock.advance_ms(150_000)
        client.transactions.heartbeat.beat()
    txn.commit()


def test_a_transaction_aborted_by_somebody_is_told_so(client: Client, table: Table) -> None:
    txn = client.transactions.begin()
    client.metastore.abort_txn(txn.id)
    client.transactions.heartbeat.beat()
    with pytest.raises(TransactionError, match="heartbeat was lost, or somebody aborted it"):
        txn.write_id(table.name)


def test_a_beat_that_misses_what_was_just_committed_changes_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes before the commit's return, or it looked before and tells after it."""
    txn, commit = client.transactions.begin(), client.metastore.commit_txn

    def then_a_beat(*given: object, **named: object) -> object:
        done = commit(*given, **named)  # type: ignore[arg-type]
        client.transactions.heartbeat.beat()
        return done

    monkeypatch.setattr(client.metastore, "commit_txn", then_a_beat)
    txn.commit()
    assert txn.is_committed
    txn.lost()
    monkeypatch.setattr(Transaction, "is_open", True)
    txn.lost()
    monkeypatch.undo()
    assert txn.is_committed


def test_a_lock_given_back_while_a_beat_is_sent_is_not_called_lost(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    locks = [client.transactions.lock(use_table(TableName("default", n))) for n in "ab"]
    heartbeat = client.metastore.heartbeat

    def after_an_unlock(*, lock: LockId) -> None:
        if lock == locks[0]:
            client.transactions.unlock(lock)
        heartbeat(lock=lock)

    monkeypatch.setattr(client.metastore, "heartbeat", after_an_unlock)
    client.transactions.heartbeat.beat()
    assert not caplog.records
    client.metastore.unlock(locks[1])
    client.transactions.heartbeat.beat()
    assert [one.message.split(":")[0] for one in caplog.records] == ["A lock is lost"]


def test_a_read_lease_ends_by_itself(client: Client, clock: ManualClock) -> None:
    txn = client.transactions.begin(read_only=True)
    for _ in range(23):
        clock.advance_ms(150_000)
        client.transactions.heartbeat.beat()
    assert txn.is_open
    clock.advance_ms(150_000)
    client.transactions.heartbeat.beat()
    assert not txn.is_open
    info = client.metastore.txn_info(txn.id)
    assert info is not None
    assert info.state is TxnState.COMMITTED


@pytest.mark.parametrize("again", ["begin", "beat", "close"])
def test_what_the_metastore_could_not_be_told_it_is_told_as_soon_as_it_can(
    client: Client, table: Table, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    """As on a full disk, where the abort fails like the statement: else the locks would stay until
    the time-out, though the session lives.
    """
    manager = client.transactions
    wants = Footprint(writes=(TableWrite(table, WriteKind.OVERWRITE),))

    def fail(*_: object, **__: object) -> None:
        raise MetastoreError("database or disk is full")

    writer, other, lease = manager.begin(), manager.begin(), manager.begin(read_only=True)
    writer.lock(wants)
    held = manager.lock(use_table(TableName("default", "other")))
    with monkeypatch.context() as patch:
        patch.setattr(client.own.database, "write", fail)
        with pytest.raises(StorageError), writer:
            raise StorageError("No space left on device")
        for end in (lambda: other.abort("enough"), lambda: manager.unlock(held), lease.commit):
            with pytest.raises(MetastoreError, match="is full"):
                end()
        manager.heartbeat.beat()
    assert len(client.metastore.get_open_txns().open) == 3
    assert len(client.metastore.show_locks()) == 2
    if again == "close":
        manager.close()
    elif again == "beat":
        manager.heartbeat.beat()
    else:
        with manager.begin() as following:
            following.lock(wants)
            following.commit()
    assert not client.metastore.get_open_txns().open
    assert not client.metastore.show_locks()
    assert not manager.held_locks

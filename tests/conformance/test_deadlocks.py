"""Transactions that wait for each other's locks, and locks without a transaction."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.postgres import PostgresServer

from hiveacid.client import Client, open_client
from hiveacid.errors import LockError
from hiveacid.metastore.sql import locks
from hiveacid.metastore.sql.engine import Unit
from hiveacid.model.tables import Column, LockId, Table, TableName, TxnId
from hiveacid.model.transactions import SESSION_PREFIX, LockComponent, LockState, LockType, TxnState
from hiveacid.model.types import parse_type
from hiveacid.settings import Settings
from hiveacid.txn.footprint import Footprint, alter_table, use_table
from hiveacid.txn.manager import TransactionManager
from hiveacid.txn.waiting import wait_for_lock

A, B, C = (TableName("default", name) for name in "abc")


@pytest.fixture
def client(metastore_url: str, tmp_path: Path) -> Iterator[Client]:
    settings = Settings(txn_timeout_s=60, lock_timeout_s=300, lock_poll_max_s=0.1)
    opened = open_client(metastore_url, warehouse=str(tmp_path), settings=settings)
    yield opened
    opened.close()


def _in_a_ring(client: Client, tables: list[TableName]) -> list[str]:
    """Each takes a table, then that of the next; what each came to."""
    all_have_one = threading.Barrier(len(tables))

    def work(at: int) -> str:
        with client.transactions.begin() as txn:
            txn.lock(Footprint(definitions=alter_table(tables[at])))
            all_have_one.wait(timeout=300)
            try:
                txn.lock(Footprint(definitions=alter_table(tables[(at + 1) % len(tables)])))
            except LockError as error:
                txn.abort("deadlock")
                return f"{txn.id}: {error}"
            txn.commit()
            return "committed"

    with ThreadPoolExecutor(len(tables)) as pool:
        return [
            one.result(timeout=300) for one in [pool.submit(work, n) for n in range(len(tables))]
        ]


@pytest.mark.parametrize("tables", [[A, B], [A, B, C]], ids=["two", "three"])
def test_of_transactions_in_a_ring_the_youngest_is_aborted_and_all_are_named(
    client: Client, tables: list[TableName]
) -> None:
    came_to = _in_a_ring(client, tables)
    failed = [one for one in came_to if one != "committed"]
    assert len(failed) == 1, came_to
    victim, _, text = failed[0].partition(": ")
    assert int(victim) == len(tables)
    assert text.startswith(f"Transaction {victim} was aborted to break a deadlock: ")
    assert all(f"txnid:{n + 1}" in text for n in range(len(tables)))
    (info,) = client.metastore.show_txns()
    assert (info.id, info.state) == (int(victim), TxnState.ABORTED)
    assert client.metastore.show_locks() == ()


def test_waiting_is_no_deadlock(client: Client) -> None:
    store = client.metastore
    first, second = store.open_txns(2, user="u", host="h")
    store.lock(alter_table(A), txn=first, user="u", host="h")
    found = store.lock(alter_table(A), txn=second, user="u", host="h")
    assert found.state is LockState.WAITING
    assert store.break_deadlock() == ()
    store.commit_txn(first)
    assert store.check_lock(found.lock_id).state is LockState.ACQUIRED


def test_a_lock_without_a_transaction_keeps_others_out_until_it_is_given_back(
    client: Client,
) -> None:
    lock = client.transactions.lock(use_table(A))
    store = client.metastore
    (txn,) = store.open_txns(1, user="u", host="h")
    found = store.lock(alter_table(A), txn=txn, user="u", host="h")
    assert (found.state, found.blocked_by and found.blocked_by.lock_id) == (LockState.WAITING, lock)
    before = store.show_locks(txn=None)[0].last_heartbeat_ms
    client.clock.sleep_s(0.01)
    client.transactions.heartbeat.beat()
    assert next(one for one in store.show_locks() if one.lock_id == lock).last_heartbeat_ms > before
    client.transactions.unlock(lock)
    assert store.check_lock(found.lock_id).state is LockState.ACQUIRED
    client.transactions.heartbeat.beat()


@pytest.mark.timing
def test_a_lock_whose_client_is_gone_is_dropped_by_whoever_waits(
    metastore_url: str, tmp_path: Path
) -> None:
    settings = Settings(txn_timeout_s=0.3, lock_timeout_s=30, lock_poll_max_s=0.1)
    with_settings = {"warehouse": str(tmp_path), "settings": settings}
    gone = open_client(metastore_url, **with_settings)  # type: ignore[arg-type]
    gone.transactions.lock(alter_table(A))
    gone.transactions.heartbeat.stop()
    client = open_client(metastore_url, **with_settings)  # type: ignore[arg-type]
    lock = client.transactions.lock(alter_table(A))
    assert [one.lock_id for one in client.metastore.show_locks()] == [lock]
    gone.close()
    client.close()


def test_a_transaction_passes_who_waits_for_it(client: Client) -> None:
    """Else neither would go on: a rebalance waits for the writer, whose next statement for it."""
    store = client.metastore
    first, second = store.open_txns(2, user="u", host="h")
    write, exclusive = (
        [LockComponent(kind, "default", "a")]
        for kind in (LockType.SHARED_WRITE, LockType.EXCLUSIVE)
    )
    store.lock(write, txn=first, user="u", host="h")
    excluding = [LockComponent(LockType.EXCL_WRITE, "default", "a")]
    rebalance = store.lock(excluding, txn=None, user="u", host="h")
    assert rebalance.state is LockState.WAITING
    other = store.lock(write, txn=second, user="u", host="h")
    assert other.state is LockState.WAITING  # it holds nothing: first come, first served
    assert store.lock(write, txn=first, user="u", host="h").state is LockState.ACQUIRED
    assert store.lock(exclusive, txn=first, user="u", host="h").state is LockState.ACQUIRED
    assert store.check_lock(rebalance.lock_id).state is LockState.WAITING
    store.commit_txn(first)
    assert store.check_lock(rebalance.lock_id).state is LockState.ACQUIRED
    assert store.check_lock(other.lock_id).state is LockState.WAITING
    store.unlock(rebalance.lock_id)
    assert store.check_lock(other.lock_id).state is LockState.ACQUIRED


@pytest.mark.parametrize("asked", [1, 2])
def test_a_lock_given_back_by_another_thread_of_a_waiting_client_is_not_lost(
    client: Client, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    """Between what it holds and what the database says, both when it asks and when it waits."""
    store, asks = client.metastore, list[int]()
    mine = client.transactions.lock(alter_table(A))
    other = store.lock(use_table(B), txn=None, user="u", host="h").lock_id

    def held() -> tuple[LockId, ...]:
        asks.append(len(asks))
        if len(asks) == asked:
            store.unlock(mine)
        if len(asks) > asked:
            store.unlock(other)
            return ()
        return (mine,)

    monkeypatch.setattr(TransactionManager, "held_locks", property(lambda _: held()))
    found = wait_for_lock(client.transactions, alter_table(B), txn=None).lock_id
    assert [(one.lock_id, one.state) for one in store.show_locks()] == [(found, LockState.ACQUIRED)]


def test_a_lock_that_nobody_gave_back_is_lost(client: Client) -> None:
    mine = client.transactions.lock(alter_table(A))
    client.metastore.unlock(mine)
    with pytest.raises(LockError, match=f"^Lock {mine} is lost"):
        client.transactions.lock(alter_table(B))


def test_a_statement_that_has_not_looked_since_its_session_got_the_lock_is_no_deadlock(
    client: Client,
) -> None:
    """Nor is who waits for that lock in its way: the statement passes both when it looks."""
    store, name = client.metastore, f"{SESSION_PREFIX}a"
    blocker = store.lock(alter_table(A), txn=None, user="u", host="h").lock_id
    mine = store.lock(alter_table(A), txn=None, user="u", host="h", agent_info=name).lock_id
    first, second = store.open_txns(2, user="u", host="h")
    other = store.lock(alter_table(A), txn=second, user="u", host="h", agent_info=f"{name}b")
    found = store.lock(alter_table(A), txn=first, user="u", host="h", agent_info=name)
    assert found.state is LockState.WAITING
    store.unlock(blocker)
    for one in (other, found):
        blocked_by = store.check_lock(one.lock_id).blocked_by
        assert blocked_by is not None and blocked_by.lock_id == mine
    assert store.check_lock(mine).state is LockState.ACQUIRED
    assert store.break_deadlock() == ()
    assert store.check_lock(found.lock_id, held=[mine]).state is LockState.ACQUIRED


@pytest.mark.long("metastore", "txn")
def test_who_waits_for_a_table_that_is_renamed_meanwhile_goes_on_waiting(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table takes its locks along while one of them is looked at again; on SQLite only one of
    the two can write.
    """
    with ExitStack() as ends:
        first, second = (
            ends.enter_context(closing(open_client(url, warehouse=str(tmp_path))))
            for url in [postgres.metastore()] * 2
        )
        store, beat = first.metastore, locks.heartbeat_txn
        store.create_table(Table(A, (Column("id", parse_type("int")),), str(tmp_path / "a")))
        lock = second.transactions.lock(alter_table(A))
        (txn,) = store.open_txns(1, user="u", host="h")
        write = [LockComponent(LockType.SHARED_WRITE, "default", "a")]
        waiting = store.lock(write, txn=txn, user="u", host="h")

        def renamed_before(unit: Unit, of: TxnId) -> None:
            monkeypatch.setattr(locks, "heartbeat_txn", beat)
            second.metastore.alter_table(A, lambda now: replace(now, name=B))
            beat(unit, of)

        monkeypatch.setattr(locks, "heartbeat_txn", renamed_before)
        for _ in range(2):
            assert store.check_lock(waiting.lock_id).state is LockState.WAITING
        second.transactions.unlock(lock)
        assert store.check_lock(waiting.lock_id).state is LockState.ACQUIRED

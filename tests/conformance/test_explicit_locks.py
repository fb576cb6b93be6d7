"""LOCK TABLE and UNLOCK TABLE: locks of a session, on each kind of database; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.e2e.tables import rows_of

import hiveacid
from hiveacid.errors import InvalidInputError, LockError, NotFoundError, TransactionError
from hiveacid.model.transactions import LockState, TxnState
from hiveacid.session import Session
from hiveacid.txn.footprint import alter_table

ACID = "stored as orc tblproperties ('transactional'='true')"
Connect = Callable[[], Session]


@pytest.fixture
def connect(metastore_url: str, tmp_path: Path) -> Iterator[Connect]:
    opened: list[Session] = []

    def one() -> Session:
        settings = {"hiveacid.lock.timeout_s": "0.4", "hiveacid.lock.poll_max_s": "0.05"}
        session = hiveacid.connect(
            None, metastore_url, warehouse=str(tmp_path / "wh"), settings=settings
        )
        opened.append(session)
        return session

    yield one
    for session in opened:
        session.close()


@pytest.fixture
def acid(connect: Connect) -> Session:
    session = connect()
    session.sql(f"create table t (id int, v string) {ACID}")
    session.sql(f"create table u (id int, v string) {ACID}")
    session.sql(f"create table p (id int) partitioned by (k string) {ACID}")
    session.sql("insert into p partition (k='x') values (1)")
    session.sql("insert into p partition (k='y') values (1)")
    return session


@pytest.fixture
def other(connect: Connect, acid: Session) -> Session:
    del acid
    return connect()


def _locks(session: Session) -> list[tuple[str | None, ...]]:
    return [(row[2], row[3], row[4], row[6]) for row in session.sql("show locks").rows]


def _refused(session: Session, text: str) -> str:
    with pytest.raises(LockError, match=r"\[Error 10307\].*timed out") as caught:
        session.sql(text)
    return str(caught.value)


def test_exclusive_keeps_others_out_and_not_oneself(acid: Session, other: Session) -> None:
    acid.sql("lock table t exclusive")
    assert _locks(other) == [("t", None, "ACQUIRED", "EXCLUSIVE")]
    acid.sql("insert into t values (1, 'a')")
    acid.sql("insert overwrite table t values (2, 'b')")
    acid.sql("alter table t set tblproperties ('x'='y')")
    with acid.transaction() as txn:
        txn.sql("insert into t values (3, 'c')")
    assert rows_of(acid) == [(2, "b"), (3, "c")]
    told = _refused(other, "insert into t values (4, 'd')")
    assert "default/t" in told and "(LOCK TABLE)" in told
    with pytest.raises(LockError):
        rows_of(other)
    other.sql("insert into u values (4, 'd')")
    acid.sql("unlock table t")
    assert _locks(other) == []
    other.sql("insert into t values (4, 'd')")
    assert len(rows_of(other)) == 3


def test_shared_keeps_definitions_away_and_lets_rows_change(acid: Session, other: Session) -> None:
    acid.sql("lock table t shared")
    other.sql("lock table t shared")
    other.sql("insert into t values (1, 'a')")
    assert rows_of(other) == [(1, "a")]
    told = _refused(acid, "alter table t add columns (z int)")
    assert "SHARED_READ is held by lockid:" in told
    other.sql("unlock table t")
    acid.sql("alter table t add columns (z int)")
    _refused(other, "drop table t")


def test_one_partition_is_locked(acid: Session, other: Session) -> None:
    acid.table("p").lock(exclusive=True, partition={"k": "x"})
    other.sql("insert into p partition (k='y') values (2)")
    other.sql("alter table p drop partition (k='y')")
    _refused(other, "insert into p partition (k='x') values (2)")
    acid.sql("insert into p partition (k='x') values (3)")
    acid.table("p").unlock(partition={"k": "x"})
    other.sql("insert into p partition (k='x') values (2)")
    assert sorted(row[0] for row in rows_of(acid, "p")) == [1, 2, 3]


def test_a_database_is_locked(acid: Session, other: Session) -> None:
    acid.sql("lock database default exclusive")
    assert _locks(other) == [(None, None, "ACQUIRED", "EXCLUSIVE")]
    acid.sql("insert into t values (1, 'a')")
    for text in ("insert into t values (2, 'b')", f"create table w (id int) {ACID}"):
        _refused(other, text)
    acid.sql("unlock database default")
    other.sql("insert into t values (2, 'b')")


def test_a_shared_lock_becomes_exclusive_and_one_unlock_frees_both(
    acid: Session, other: Session
) -> None:
    for mode in ("shared", "exclusive", "exclusive"):
        acid.sql(f"lock table t {mode}")
    _refused(other, "lock table t shared")
    acid.sql("unlock table t")
    other.sql("lock table t exclusive")
    assert _locks(acid) == [("t", None, "ACQUIRED", "EXCLUSIVE")]


def test_ones_own_statements_pass_those_who_wait_for_the_lock(
    acid: Session, other: Session
) -> None:
    acid.sql("lock table t exclusive")
    other.sql("set hiveacid.lock.timeout_s = 300")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(other.sql, "insert overwrite table t values (9, 'z')")
        while ("t", None, "WAITING", "EXCL_WRITE") not in _locks(acid):
            acid.client.clock.sleep_s(0.01)
        acid.sql("insert into t values (1, 'a')")
        assert rows_of(acid) == [(1, "a")]
        acid.sql("unlock table t")
        waiting.result(timeout=300)
    # It replaces what was inserted while it waited.
    assert rows_of(acid) == [(9, "z")]


def test_who_passed_is_waited_for_after_the_lock_is_gone(acid: Session, other: Session) -> None:
    acid.sql("lock table t exclusive")
    (name,) = {acid.table("t").name}
    store = other.client.metastore
    (txn,) = store.open_txns(1, user="u", host="h")
    waiting = store.lock(alter_table(name), txn=txn, user="u", host="h")
    assert waiting.state is LockState.WAITING
    with acid.transaction() as passing:
        passing.sql("insert into t values (1, 'a')")
        acid.sql("unlock table t")
        found = store.check_lock(waiting.lock_id)
        assert found.state is LockState.WAITING
        assert found.blocked_by is not None and found.blocked_by.txn_id == passing.id
    assert store.check_lock(waiting.lock_id).state is LockState.ACQUIRED
    store.abort_txn(txn)


def test_the_end_of_the_session_frees_its_locks(acid: Session, other: Session) -> None:
    other.sql("lock table t exclusive")
    other.sql("lock table u shared")
    other.close()
    assert _locks(acid) == []
    acid.sql("insert into t values (1, 'a')")


def test_who_lost_the_lock_is_told_until_it_unlocks(acid: Session, other: Session) -> None:
    acid.sql("lock table t exclusive")
    for lock in acid.client.transactions.held_locks:
        other.client.metastore.unlock(lock)  # as the time-out does
    for text in ("insert into t values (1, 'a')", "insert into u values (1, 'a')"):
        with pytest.raises(LockError, match="is lost, its heartbeat came too late"):
            acid.sql(text)
    assert rows_of(other) == []
    acid.sql("unlock table t")
    acid.sql("insert into t values (1, 'a')")
    assert rows_of(other) == [(1, "a")]


def test_what_cannot_be_locked_or_unlocked(acid: Session, other: Session) -> None:
    acid.sql("create table plain (id int)")
    acid.sql("lock table t shared")
    for session, text, error in (
        (acid, "lock table plain exclusive", InvalidInputError),
        (acid, "lock table nosuch shared", NotFoundError),
        (acid, "lock table p partition (k='none') shared", NotFoundError),
        (acid, "lock table t partition (k='x') shared", InvalidInputError),
        (acid, "lock database nosuch shared", NotFoundError),
        (acid, "unlock table u", NotFoundError),
        (acid, "unlock database default", NotFoundError),
        (other, "unlock table t", NotFoundError),
    ):
        with pytest.raises(error):
            session.sql(text)
    with acid.transaction() as txn:
        for text in ("lock table u exclusive", "unlock table t", "lock database default shared"):
            with pytest.raises(
                InvalidInputError, match="not allowed in a transaction: such a lock"
            ):
                txn.sql(text)
        txn.rollback()
    assert _locks(other) == [("t", None, "ACQUIRED", "SHARED_READ")]


def test_show_locks_of_a_table_a_partition_and_a_database(acid: Session, other: Session) -> None:
    acid.sql("lock table t shared")
    acid.sql("lock table p partition (k='x') exclusive")
    shown = other.sql("show locks p partition (k='x') extended")
    assert shown.columns == (
        "lockid", "database", "table", "partition", "lock_state", "blocked_by", "lock_type",
        "transaction_id", "last_heartbeat", "acquired_at", "user", "hostname", "agent_info",
    )  # fmt: skip
    ((lock, *row),) = shown.rows
    assert lock is not None and lock.endswith(".1")
    assert row[:7] == ["default", "p", "k=x", "ACQUIRED", None, "EXCLUSIVE", None]
    assert [one[2] for one in other.sql("show locks database default").rows] == ["t", "p"]
    assert other.sql("show locks p").rows == shown.rows
    assert other.sql("show locks u extended").rows == ()


def test_zero_wait_reads_fail_at_once_and_writes_wait(acid: Session, other: Session) -> None:
    acid.sql("lock table t exclusive")
    other.sql("set hiveacid.lock.timeout_s = 300")
    other.sql("set hiveacid.lock.zero_wait_reads = true")
    with pytest.raises(LockError, match=r"10104.*due to an existing exclusive lock .*table:t"):
        rows_of(other)
    other.sql("set hiveacid.lock.timeout_s = 0.2")
    _refused(other, "insert into t values (1, 'a')")
    assert _locks(other) == [("t", None, "ACQUIRED", "EXCLUSIVE")]
    acid.sql("unlock table t")
    assert rows_of(other) == []


def test_an_administrator_gives_back_what_a_client_that_is_gone_has_locked(
    acid: Session, other: Session
) -> None:
    acid.sql("lock table t exclusive")
    acid.sql("lock table u shared")
    ids = sorted(int(row[0].partition(".")[0]) for row in other.sql("show locks").rows)
    with pytest.raises(LockError) as caught:
        other.sql("insert into t values (1, 'a')")
    assert f"ABORT LOCKS {ids[0]}" in "".join(caught.value.__notes__)
    with pytest.raises(NotFoundError, match="no lock 4711"):
        other.sql(f"abort locks {ids[0]}, 4711")
    assert len(_locks(other)) == 2, "all or none"
    other.sql(f"abort locks {ids[0]}, {ids[1]}")
    assert _locks(other) == []
    other.sql("insert into t values (1, 'a')")
    with pytest.raises(LockError, match="lost"):
        acid.sql("insert into t values (2, 'b')")


def test_a_lock_of_a_transaction_ends_with_that_alone(acid: Session, other: Session) -> None:
    with acid.transaction() as txn:
        txn.sql("insert into t values (1, 'a')")
        (info,) = other.client.metastore.show_txns()
        lock = other.client.metastore.show_locks()[0].lock_id
        with pytest.raises(InvalidInputError, match=f"belongs to transaction {info.id}"):
            other.abort_locks(lock)
    with pytest.raises(TransactionError), acid.transaction() as txn:
        txn.sql("insert into t values (2, 'b')")
        (info,) = [one for one in other.client.metastore.show_txns() if one.state is TxnState.OPEN]
        other.abort_transactions(info.id)
    assert rows_of(acid) == [(1, "a")]

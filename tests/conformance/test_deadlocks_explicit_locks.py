"""Deadlocks in which LOCK TABLE takes part, on each kind of database; without Spark."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.e2e.tables import rows_of

import hiveacid
from hiveacid.errors import LockError
from hiveacid.model.tables import TxnId
from hiveacid.model.transactions import LockState
from hiveacid.session import Session

Connect = Callable[[], Session]
SETTINGS = {"hiveacid.lock.timeout_s": "300", "hiveacid.lock.poll_max_s": "0.05"}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as opened:
        yield opened


@pytest.fixture
def connect(metastore_url: str, tmp_path: Path, pool: ThreadPoolExecutor) -> Iterator[Connect]:
    opened: list[Session] = []

    def one() -> Session:
        warehouse = str(tmp_path / "wh")
        opened.append(hiveacid.connect(None, metastore_url, warehouse=warehouse, settings=SETTINGS))
        return opened[-1]

    first = one()
    for table in "tuv":
        first.sql(
            f"create table {table} (id int) stored as orc tblproperties ('transactional'='true')"
        )
    yield one
    for session in opened:
        session.close()


def _until_waiting(session: Session, n: int) -> None:
    """Until ``n`` requests wait."""
    clock = session.client.clock
    deadline_s = clock.monotonic_s() + 300
    while _states(session).count(LockState.WAITING) < n:
        assert clock.monotonic_s() < deadline_s, session.client.metastore.show_locks()
        clock.sleep_s(0.01)


def _states(session: Session) -> list[LockState]:
    return [one.state for one in session.client.metastore.show_locks()]


def _held(session: Session) -> int:
    return len(session.client.transactions.held_locks)


def _given_up(one: Future[object]) -> LockError:
    error = one.exception(timeout=300)
    assert isinstance(error, LockError), error
    return error


def _nobody_waits_in_vain(session: Session, waiting: list[Future[object]]) -> None:
    """None of those who wait is told of a deadlock, though they look for one all the time."""
    session.client.clock.sleep_s(0.3)
    assert not any(one.done() for one in waiting)
    assert session.client.metastore.break_deadlock() == ()


@pytest.mark.parametrize("n", [2, 3])
def test_of_sessions_in_a_ring_the_last_gives_up_and_keeps_its_lock(
    connect: Connect, pool: ThreadPoolExecutor, n: int
) -> None:
    sessions = [connect() for _ in range(n)]
    for session, table in zip(sessions, "tuv", strict=False):
        session.sql(f"lock table {table} exclusive")
    waiting = []
    for at, session in enumerate(sessions):
        following = "tuv"[(at + 1) % n]
        waiting.append(pool.submit(session.sql, f"lock table {following} exclusive"))
        if at < n - 1:
            _until_waiting(session, at + 1)
    error = _given_up(waiting[-1])
    (first,) = sessions[0].client.transactions.held_locks
    requests = (first + n + at for at in (n - 1, *range(n)))
    ring = " waits for ".join(f"lockid:{one} (LOCK TABLE)" for one in requests)
    assert str(error) == (
        f"The request for EXCLUSIVE of default/t was given up to break a deadlock: {ring}"
    )
    assert error.retry and "UNLOCK" in str(error.__notes__)
    assert _held(sessions[-1]) == 1 and not any(one.done() for one in waiting[:-1])
    # Each goes on as soon as the one it waits for has unlocked.
    for at in reversed(range(n)):
        sessions[at].sql(f"unlock table {'tuv'[at]}")
        if at > 0:
            waiting[at - 1].result(timeout=300)
            sessions[at - 1].sql(f"unlock table {'tuv'[at]}")
    assert _states(sessions[0]) == []


def test_of_two_who_share_a_table_and_both_want_it_alone_one_gives_up(
    connect: Connect, pool: ThreadPoolExecutor
) -> None:
    a, b = connect(), connect()
    for session in (a, b):
        session.sql("lock table t shared")
    first = pool.submit(a.sql, "lock table t exclusive")
    _until_waiting(a, 1)
    error = _given_up(pool.submit(b.sql, "lock table t exclusive"))
    assert str(error).count("(LOCK TABLE)") == 3
    b.sql("unlock table t")
    first.result(timeout=300)


def test_a_transaction_gives_up_and_the_session_that_waited_for_it_goes_on(
    connect: Connect, pool: ThreadPoolExecutor
) -> None:
    a, b = connect(), connect()
    b.sql("lock table u exclusive")
    with a.transaction() as txn:
        txn.sql("insert into t values (1)")
        waiting = pool.submit(b.sql, "lock table t exclusive")
        _until_waiting(a, 1)
        with pytest.raises(LockError) as caught:
            txn.sql("insert into u values (1)")
        told = str(caught.value)
        assert f"Transaction {txn.id} was aborted to break a deadlock: txnid:{txn.id} waits" in told
        assert "for lockid:" in told and told.endswith(f"(LOCK TABLE) waits for txnid:{txn.id}")
        waiting.result(timeout=300)
        txn.rollback()
    assert _held(b) == 2 and rows_of(b) == []


def test_statements_of_two_sessions_that_lock_what_the_other_writes_to(
    connect: Connect, pool: ThreadPoolExecutor
) -> None:
    a, b = connect(), connect()
    a.sql("lock table t exclusive")
    b.sql("lock table u exclusive")
    first = pool.submit(a.sql, "insert into u values (1)")
    _until_waiting(a, 1)
    error = _given_up(pool.submit(b.sql, "insert into t values (1)"))
    mine = error.context["txn"]
    names = [f"txnid:{one.id}" for one in a.client.metastore.show_txns()]
    assert str(error).endswith(f"deadlock: {names[1]} waits for {names[0]} waits for {names[1]}")
    assert f"txnid:{mine}" == names[1] and "UNLOCK" in str(error.__notes__)
    assert _held(b) == 1 and not first.done()
    b.sql("unlock table u")
    first.result(timeout=300)
    a.sql("unlock table t")
    b.sql("insert into t values (1)")
    assert rows_of(a, "u") == rows_of(a, "t") == [(1,)]


def test_a_ring_of_a_transaction_and_two_sessions(
    connect: Connect, pool: ThreadPoolExecutor
) -> None:
    a, b, c = connect(), connect(), connect()
    a.sql("lock table t exclusive")
    b.sql("lock table u exclusive")
    with c.transaction() as txn:
        txn.sql("insert into v values (1)")
        waiting = pool.submit(a.sql, "lock table u shared")
        _until_waiting(a, 1)
        last = pool.submit(b.sql, "lock table v exclusive")
        _until_waiting(a, 2)
        with pytest.raises(
            LockError, match=r"deadlock: txnid:(\d+) .* waits for txnid:\1$"
        ) as told:
            txn.sql("insert into t values (1)")
        assert str(told.value).count("(LOCK TABLE)") == 2
        last.result(timeout=300)
        txn.rollback()
    assert not waiting.done()
    b.sql("unlock table u")
    waiting.result(timeout=300)


def test_who_can_get_the_lock_later_waits_for_it(
    connect: Connect, pool: ThreadPoolExecutor
) -> None:
    a, b, c = connect(), connect(), connect()
    a.sql("lock table t exclusive")
    b.sql("lock table u exclusive")
    waiting = [pool.submit(a.sql, "lock table u exclusive")]
    _until_waiting(a, 1)
    waiting += [pool.submit(c.sql, f"insert into {table} values (1)") for table in "tu"]
    _until_waiting(a, 3)
    _nobody_waits_in_vain(a, waiting)
    b.sql("unlock table u")
    waiting[0].result(timeout=300)
    a.sql("unlock table t")
    a.sql("unlock table u")
    for one in waiting:
        one.result(timeout=300)
    assert rows_of(a, "u") == rows_of(a, "t") == [(1,)]


def test_a_session_at_work_in_another_thread_may_unlock_yet(
    connect: Connect, pool: ThreadPoolExecutor
) -> None:
    a, b = connect(), connect()
    a.sql("lock table t exclusive")
    b.sql("lock table u exclusive")
    with a.transaction() as at_work:
        at_work.sql("insert into t values (1)")
        waiting = [pool.submit(a.sql, "lock table u exclusive")]
        _until_waiting(a, 1)
        waiting.append(pool.submit(b.sql, "lock table v exclusive"))
        waiting[1].result(timeout=300)
        waiting[1] = pool.submit(b.sql, "insert overwrite table t values (2)")
        _until_waiting(a, 2)
        _nobody_waits_in_vain(a, waiting)
        a.sql("unlock table t")  # within, as a session that is not at work waits in a circle
    waiting[1].result(timeout=300)
    b.sql("unlock table u")
    waiting[0].result(timeout=300)


def test_a_read_that_is_given_up_says_why(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that its transaction has ended, which is what ending it once more would say."""
    acid = connect()
    store = acid.client.metastore

    def give_up(*_: object, txn: TxnId, **__: object) -> None:
        store.abort_txn(txn)
        raise LockError("given up to break a deadlock")

    monkeypatch.setattr(store, "lock", give_up)
    with pytest.raises(LockError, match="given up to break a deadlock"):
        rows_of(acid)


_PEER = """
import sys
import hiveacid
from hiveacid.errors import LockError
url, warehouse, *settings = sys.argv[1:]
acid = hiveacid.connect(
    None, url, warehouse=warehouse, settings=dict(one.split("=") for one in settings)
)
acid.sql("lock table u exclusive")
print("locked", flush=True)
sys.stdin.readline()
try:
    acid.sql("lock table t exclusive")
    print("granted", flush=True)
except LockError as error:
    print(error, flush=True)
    acid.sql("unlock table u")
sys.stdin.readline()
acid.close()
"""


def test_of_two_processes_one_gives_up_and_both_are_named(
    connect: Connect, pool: ThreadPoolExecutor, metastore_url: str, tmp_path: Path
) -> None:
    acid = connect()
    acid.sql("lock table t exclusive")
    settings = [f"{name}={value}" for name, value in SETTINGS.items()]
    command = [sys.executable, "-c", _PEER, metastore_url, str(tmp_path / "wh"), *settings]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as peer:
        assert peer.stdin is not None and peer.stdout is not None
        assert peer.stdout.readline() == "locked\n"
        mine = pool.submit(acid.sql, "lock table u exclusive")
        _until_waiting(acid, 1)
        peer.stdin.write("go on\n")
        told = peer.stdout.readline()
        lock = r"lockid:\d+ \(LOCK TABLE\)"
        assert re.search(f"deadlock: ({lock}) waits for {lock} waits for \\1", told), told
        mine.result(timeout=300)
        assert _held(acid) == 2
        peer.stdin.write("end\n")
        assert peer.wait(timeout=300) == 0

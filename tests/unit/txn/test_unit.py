"""Several statements in one transaction: what is taken back, when, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.interrupts import pressed_after
from tests.metastores import table_rows

import hiveacid
from hiveacid.client import Client
from hiveacid.errors import (
    CommitOutcomeUnknownError,
    LockError,
    MetastoreError,
    NotFoundError,
    StorageError,
    TransactionError,
)
from hiveacid.model.tables import Partition, Table
from hiveacid.model.transactions import OperationType, TxnState
from hiveacid.testing import ManualClock
from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind
from hiveacid.txn.manager import TransactionManager
from hiveacid.txn.unit import UnitOfWork

OURS = str(Path(hiveacid.__file__).parent)


class _Steps:
    """What was done and not taken back, by name."""

    def __init__(self, client: Client) -> None:
        self.unit = UnitOfWork(client.transactions.begin)
        self.done: list[str] = []
        self.log: list[str] = []

    def step(self, name: str) -> None:
        def undo() -> None:
            self.done.remove(name)
            self.log.append(f"undo {name}")

        _ = self.unit.txn.valid_txns
        self.unit.on_undo(undo)
        self.unit.on_commit(lambda: self.log.append(f"committed {name}"))
        self.done.append(name)

    def statement(self, *names: str) -> None:
        with self.unit.statement():
            for name in names:
                self.step(name)


@pytest.fixture
def steps(client: Client) -> _Steps:
    return _Steps(client)


def _fails(message: str) -> Callable[[], None]:
    def fail() -> None:
        raise StorageError(message)

    return fail


def test_a_statement_takes_back_nothing_of_another_thread(steps: _Steps) -> None:
    other = Thread(target=steps.statement, args=("of the other",))

    def fails() -> None:
        with steps.unit.statement():
            steps.step("mine")
            other.start()
            other.join(timeout=0.2)  # it waits for its turn
            raise StorageError("disk full")

    with pytest.raises(StorageError):
        fails()
    other.join()
    assert steps.done == ["of the other"]


def test_it_is_begun_with_its_first_statement(client: Client, steps: _Steps) -> None:
    assert (steps.unit.id, steps.unit.is_open) == (None, True)
    steps.unit.savepoint("s")
    assert client.metastore.show_txns() == ()
    steps.statement("a")
    assert steps.unit.id == 1
    steps.unit.rollback_to("s")
    assert steps.done == []
    unused = UnitOfWork(client.transactions.begin)
    unused.commit(overlap=None)
    with pytest.raises(TransactionError, match="not open any more: committed"):
        unused.savepoint("late")
    assert len(client.metastore.show_txns()) == 1


def test_a_transaction_that_is_handed_over_ends_with_its_unit(client: Client) -> None:
    begun = client.transactions.begin()
    with pytest.raises(ZeroDivisionError), UnitOfWork.of(begun):
        raise ZeroDivisionError
    assert not begun.is_open


def test_steps_are_taken_back_in_reverse_order(steps: _Steps) -> None:
    steps.statement("a", "b")
    with pytest.raises(ZeroDivisionError), steps.unit.statement():
        steps.step("c")
        steps.step("d")
        raise ZeroDivisionError
    assert steps.done == ["a", "b"]
    steps.unit.savepoint("one")
    steps.statement("e")
    steps.unit.savepoint("ONE")
    steps.statement("f")
    steps.unit.rollback_to("one")
    steps.unit.rollback_to("one")  # it stays
    assert steps.done == ["a", "b", "e"]
    steps.unit.release("one")
    steps.unit.rollback_to("one")  # the one it hid
    assert steps.done == ["a", "b"]
    steps.unit.commit(overlap=None)
    steps.unit.on_end(lambda: None)
    assert steps.log == [
        "undo d", "undo c", "undo f", "undo e", "committed a", "committed b",
    ]  # fmt: skip


def test_an_unknown_savepoint_changes_nothing(steps: _Steps) -> None:
    steps.statement("a")
    for act in (steps.unit.rollback_to, steps.unit.release):
        with pytest.raises(NotFoundError, match="no savepoint x"):
            act("x")
    assert steps.done == ["a"] and steps.unit.is_open


def test_where_a_statement_cannot_be_taken_back_the_transaction_is_aborted(
    client: Client, steps: _Steps
) -> None:
    steps.statement("a")
    with pytest.raises(ZeroDivisionError), steps.unit.statement():
        steps.step("b")
        steps.unit.on_undo(_fails("disk"))
        raise ZeroDivisionError
    assert steps.done == []
    with pytest.raises(TransactionError, match="could not be taken back: disk"):
        steps.statement("c")
    with pytest.raises(TransactionError, match="could not be taken back: disk"):
        steps.unit.commit(overlap=None)
    info = client.metastore.txn_info(steps.unit.txn.id)
    assert info is not None and info.state is TxnState.ABORTED


def test_a_transaction_that_was_given_up_commits_nothing_though_nobody_could_be_told(
    client: Client, steps: _Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its earlier statements wrote is taken back: a commit would be one without them."""
    steps.statement("a")
    with monkeypatch.context() as down, pytest.raises(ZeroDivisionError), steps.unit.statement():
        down.setattr(type(steps.unit.txn), "abort", lambda *_: _fails("metastore")())
        steps.unit.on_undo(_fails("disk"))
        raise ZeroDivisionError
    assert steps.done == []
    for act in (lambda: steps.statement("c"), lambda: steps.unit.commit(overlap=None)):
        with pytest.raises(TransactionError, match="could not be taken back: disk"):
            act()
    steps.unit.rollback()
    info = client.metastore.txn_info(steps.unit.txn.id)
    assert info is not None and info.state is TxnState.ABORTED


def test_after_the_heartbeat_was_lost_a_commit_fails_and_leaves_all_to_the_cleaner(
    client: Client, clock: ManualClock, steps: _Steps
) -> None:
    steps.statement("a")
    clock.advance_ms(10 * 3600 * 1000)
    client.metastore.perform_timeouts()
    with pytest.raises(TransactionError):
        steps.unit.commit(overlap=None)
    steps.unit.rollback()  # nothing happens: its paths may be those of another table by now
    assert steps.done == ["a"]


def test_a_statement_that_finds_the_transaction_aborted_ends_it(
    client: Client, table: Table, steps: _Steps
) -> None:
    steps.statement("a")
    client.metastore.abort_txn(steps.unit.txn.id)
    with pytest.raises(TransactionError), steps.unit.statement():
        steps.unit.txn.lock(Footprint(writes=(TableWrite(table, WriteKind.INSERT),)))
    assert not steps.unit.is_open
    steps.unit.rollback()
    assert steps.done == ["a"]


def test_an_unknown_outcome_takes_nothing_back(
    client: Client, steps: _Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MetastoreError("connection lost")

    steps.statement("a")
    monkeypatch.setattr(client.metastore, "commit_txn", fail)
    monkeypatch.setattr(client.metastore, "txn_info", fail)
    with pytest.raises(CommitOutcomeUnknownError), steps.unit:
        steps.unit.commit(overlap=None)
    with pytest.raises(CommitOutcomeUnknownError):
        steps.unit.rollback()  # it may be committed
    assert steps.done == ["a"]


@pytest.mark.parametrize("commits", [True, False])
def test_interrupted_in_the_commit_only_what_is_not_committed_is_taken_back(
    client: Client, steps: _Steps, monkeypatch: pytest.MonkeyPatch, commits: bool
) -> None:
    commit = client.metastore.commit_txn

    def interrupted(*args: object, **more: object) -> None:
        if commits:
            commit(*args, **more)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    steps.statement("a")
    monkeypatch.setattr(client.metastore, "commit_txn", interrupted)
    with pytest.raises(KeyboardInterrupt), steps.unit:
        steps.unit.commit(overlap=None)
    assert steps.done == (["a"] if commits else [])
    info = client.metastore.txn_info(steps.unit.txn.id)
    assert info is not None
    assert info.state is (TxnState.COMMITTED if commits else TxnState.ABORTED)


def test_partitions_are_made_with_the_commit_unless_taken_back(
    client: Client, partitioned: Table, steps: _Steps
) -> None:
    def make(text: str) -> None:
        with steps.unit.statement():
            new = Partition((text,), f"{partitioned.location}/k={text}")
            steps.unit.txn.pending.add_partitions(partitioned.name, [new, new])

    make("x")
    steps.unit.savepoint("s")
    make("y")
    txn = steps.unit.txn
    assert [part.values for part in txn.partitions(partitioned)] == [("x",), ("y",)]
    steps.unit.rollback_to("s")
    assert [part.values for part in txn.partitions(partitioned)] == [("x",)]
    assert client.metastore.list_partitions(partitioned.name) == ()
    steps.unit.commit(overlap=None)
    made = client.metastore.list_partitions(partitioned.name)
    assert [part.values for part in made] == [("x",)]


def test_the_records_of_what_is_taken_back_are_taken_back(
    client: Client, table: Table, partitioned: Table, steps: _Steps
) -> None:
    """Else others would lose to an overwrite that never was; a placeholder counts as one."""

    def change(target: Table, kind: WriteKind, partition: str | None) -> None:
        txn = steps.unit.txn
        txn.lock(Footprint(writes=(TableWrite(target, kind),)))
        txn.write_id(target.name)
        letter = OperationType.UPDATE if kind is WriteKind.OVERWRITE else OperationType.DELETE
        txn.record_write(target, [partition], letter)

    with steps.unit.statement():
        change(table, WriteKind.UPDATE, None)
    steps.unit.savepoint("s")
    with steps.unit.statement():
        change(table, WriteKind.OVERWRITE, None)
    assert _records(client) == [("t", None, "d"), ("t", None, "u")]
    steps.unit.rollback_to("s")
    assert _records(client) == [("t", None, "d")]
    with pytest.raises(StorageError), steps.unit.statement():
        change(partitioned, WriteKind.UPDATE, "k=x")
        assert _records(client) == [("p", "k=x", "d"), ("t", None, "d")]
        steps.unit.txn.lock(Footprint(writes=(TableWrite(partitioned, WriteKind.DELETE),)))
        assert _records(client) == [("p", None, "u"), ("p", "k=x", "d"), ("t", None, "d")]
        raise StorageError("disk full")
    assert _records(client) == [("t", None, "d")]
    with steps.unit.statement():  # recorded anew, not taken for recorded
        change(partitioned, WriteKind.UPDATE, "k=x")
    steps.unit.commit(overlap=lambda *_: ())
    rows = table_rows(client.metastore, "WRITE_SET")
    assert sorted((row["WS_TABLE"], row["WS_OPERATION_TYPE"]) for row in rows) == [
        ("p", "d"),
        ("t", "d"),
    ]


def test_what_never_got_its_lock_is_not_recorded(
    client: Client, table: Table, steps: _Steps
) -> None:
    """A lock request records what it is for when it is made, granted or not."""
    overwrite = Footprint(writes=(TableWrite(table, WriteKind.OVERWRITE),))
    with client.transactions.begin() as other:
        other.lock(Footprint(writes=(TableWrite(table, WriteKind.DELETE),)))
        with pytest.raises(LockError), steps.unit.statement():
            steps.unit.txn.lock(overwrite)
        steps.unit.commit(overlap=None)
        other.record_write(table, [None], OperationType.DELETE)
        other.commit(overlap=lambda *_: ())


def test_interrupted_while_it_asks_for_a_lock_it_does_not_wait_on(
    client: Client, table: Table, steps: _Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its request would stand before those of others, and be taken for a deadlock."""
    asked = client.metastore.lock

    def interrupted(*args: Any, **named: Any) -> None:
        asked(*args, **named)
        raise KeyboardInterrupt

    with client.transactions.begin() as other:
        other.lock(Footprint(writes=(TableWrite(table, WriteKind.DELETE),)))
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(client.metastore, "lock", interrupted)
            with steps.unit.statement():
                steps.unit.txn.lock(Footprint(writes=(TableWrite(table, WriteKind.OVERWRITE),)))
        assert [one.txn_id for one in client.metastore.show_locks()] == [other.id]
        other.abort("enough")
    steps.unit.commit(overlap=None)


def _statement(manager: TransactionManager, table: Table) -> None:
    with UnitOfWork(manager.begin) as unit:
        with unit.statement():
            unit.txn.lock(Footprint(writes=(TableWrite(table, WriteKind.DELETE),)))
        unit.commit(overlap=None)


def _batch(manager: TransactionManager, table: Table) -> None:
    manager.begin_batch(2, table.name)


def _for_another(manager: TransactionManager, table: Table) -> None:
    manager.begin_for_another(table.name)


@pytest.mark.parametrize(("work", "opens"), [(_statement, 0), (_batch, 2), (_for_another, 1)])
def test_ctrl_c_anywhere_leaves_no_transaction_behind(
    client: Client,
    table: Table,
    work: Callable[[TransactionManager, Table], None],
    opens: int,
) -> None:
    """Else it would be open until its time-out, or for as long as the process sends heartbeats."""
    times, is_done = 0, False
    while not is_done:
        times += 1
        with (
            suppress(KeyboardInterrupt),
            pressed_after(times, within=lambda path: path.startswith(OURS)),
        ):
            work(client.transactions, table)
            is_done = True
        assert len(client.metastore.get_open_txns().open) == (opens if is_done else 0), times
    assert times > 50
    assert not client.metastore.show_locks()


def test_records_that_cannot_be_taken_back_stay(
    client: Client, table: Table, steps: _Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MetastoreError("connection lost")

    with monkeypatch.context() as patch, pytest.raises(StorageError), steps.unit.statement():
        patch.setattr(client.metastore, "replace_writes", fail)
        steps.unit.txn.lock(Footprint(writes=(TableWrite(table, WriteKind.DELETE),)))
        raise StorageError("disk full")
    assert _records(client) == [("t", None, "d")]
    with pytest.raises(StorageError), steps.unit.statement():
        raise StorageError("disk full")
    steps.unit.commit(overlap=None)


@pytest.mark.slow
def test_a_second_commit_is_an_error_and_nothing_is_left_undone(
    steps: _Steps, caplog: pytest.LogCaptureFixture
) -> None:
    steps.statement("a")
    steps.unit.commit(overlap=None)
    with pytest.raises(TransactionError, match="committed"), steps.unit:
        steps.unit.commit(overlap=None)
    assert caplog.records == []
    assert steps.done == ["a"]


def _records(client: Client) -> list[tuple[str, str | None, str]]:
    rows = table_rows(client.metastore, "TXN_COMPONENTS")
    found = [(row["TC_TABLE"], row["TC_PARTITION"], row["TC_OPERATION_TYPE"]) for row in rows]
    return sorted(found, key=lambda one: (one[0], one[1] or "", one[2]))

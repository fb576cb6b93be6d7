from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.metastores import table_rows

from hiveacid.client import Client
from hiveacid.errors import (
    CommitOutcomeUnknownError,
    ConflictError,
    InvalidInputError,
    LockError,
    MetastoreError,
    TransactionError,
)
from hiveacid.model.tables import Isolation, Partition, Table, TxnId, WriteId
from hiveacid.model.transactions import OperationType, TxnState
from hiveacid.settings import Settings
from hiveacid.testing import ManualClock
from hiveacid.txn import footprint
from hiveacid.txn.footprint import Footprint, TableRead, TableWrite, WriteKind
from hiveacid.txn.transaction import Transaction

INSERT, DELETE, UPDATE = OperationType.INSERT, OperationType.DELETE, OperationType.UPDATE


def _writes(table: Table, kind: WriteKind, *partitions: str) -> Footprint:
    return Footprint(writes=(TableWrite(table, kind, partitions or None),))


def _state(client: Client, txn: Transaction) -> TxnState:
    info = client.metastore.txn_info(txn.id)
    assert info is not None
    return info.state


def _insert(client: Client, table: Table) -> WriteId:
    with client.transactions.begin() as txn:
        txn.lock(_writes(table, WriteKind.INSERT))
        write_id = txn.write_id(table.name)
        txn.commit()
    return write_id


def test_a_committed_write_id_is_visible_to_those_who_begin_later(
    client: Client, table: Table
) -> None:
    with client.transactions.begin(read_only=True) as before:
        assert before.valid_write_ids(table).hwm == 0
        assert _insert(client, table) == 1
        assert not before.valid_write_ids(table).is_valid(1)
    with client.transactions.begin(read_only=True) as after:
        assert after.valid_write_ids(table).is_valid(1)


def test_a_listener_is_told_of_commits_that_wrote_alone(client: Client, table: Table) -> None:
    told: list[object] = []
    client.transactions.on_commit(told.append)
    with client.transactions.begin(read_only=True) as reader:
        reader.valid_write_ids(table)
    with pytest.raises(InvalidInputError), client.transactions.begin() as txn:
        txn.write_id(table.name)
        raise InvalidInputError("gives up")
    assert told == []
    _insert(client, table)
    assert told == [{table.name}]


def test_a_transaction_sees_its_own_writes_and_no_later_ones(client: Client, table: Table) -> None:
    with client.transactions.begin() as txn:
        txn.lock(_writes(table, WriteKind.INSERT))
        mine = txn.write_id(table.name)
        other = _insert(client, table)
        valid = txn.valid_write_ids(table)
        assert (valid.is_valid(mine), valid.is_valid(other)) == (True, False)
        txn.commit()


def test_an_exception_aborts(client: Client, table: Table) -> None:
    with pytest.raises(ZeroDivisionError), client.transactions.begin() as txn:
        txn.lock(_writes(table, WriteKind.INSERT))
        raise ZeroDivisionError
    assert _state(client, txn) is TxnState.ABORTED
    assert client.metastore.show_locks() == ()
    with pytest.raises(TransactionError, match="not open any more: ZeroDivisionError"):
        txn.commit()


def test_leaving_without_a_commit_aborts_and_says_so(client: Client) -> None:
    with (
        pytest.raises(TransactionError, match="left without a commit"),
        client.transactions.begin() as txn,
    ):
        pass
    assert _state(client, txn) is TxnState.ABORTED


def test_a_read_only_transaction_cannot_write_and_closes_itself(
    client: Client, table: Table
) -> None:
    txn = client.transactions.begin(read_only=True)
    with txn, pytest.raises(TransactionError, match="read-only"):
        txn.write_id(table.name)
    assert _state(client, txn) is TxnState.COMMITTED
    txn.close()


def test_the_first_of_two_updates_to_commit_wins(client: Client, table: Table) -> None:
    first, second = client.transactions.begin(), client.transactions.begin()
    for txn in (first, second):
        txn.lock(_writes(table, WriteKind.UPDATE))
        txn.write_id(table.name)
    second.commit()
    with pytest.raises(ConflictError) as caught:
        first.commit()
    assert str(caught.value) == (
        f"Transaction manager has aborted the transaction txnid:{first.id}. Reason: "
        f"Aborting [txnid:{first.id},{second.id}] due to a write conflict on default/t "
        f"committed by [txnid:{second.id},{second.id}] d/d"
    )
    assert caught.value.context["winner"] == second.id
    assert _state(client, first) is TxnState.ABORTED
    info = client.metastore.txn_info(first.id)
    assert info is not None
    assert info.reason == "write conflicts"


def test_inserts_do_not_conflict(client: Client, table: Table) -> None:
    first, second = client.transactions.begin(), client.transactions.begin()
    for txn in (first, second):
        txn.lock(_writes(table, WriteKind.INSERT))
    second.commit()
    first.commit()


@pytest.mark.parametrize(("other", "conflict"), [("k=y", False), ("k=x", True)])
def test_updates_conflict_by_partition(
    client: Client, partitioned: Table, other: str, conflict: bool
) -> None:
    first, second = client.transactions.begin(), client.transactions.begin()
    for txn, partition in ((first, "k=x"), (second, other)):
        txn.lock(_writes(partitioned, WriteKind.UPDATE))
        txn.record_write(partitioned, [partition], DELETE)
        txn.record_write(partitioned, [partition], INSERT)
    first.commit()
    if conflict:
        with pytest.raises(ConflictError, match=r"default/p/k=x .* d/d"):
            second.commit()
    else:
        second.commit()


def _components(client: Client) -> list[tuple[str | None, str, int | None]]:
    rows = table_rows(client.metastore, "TXN_COMPONENTS")
    return sorted(
        (row["TC_PARTITION"] or "", row["TC_OPERATION_TYPE"], row["TC_WRITEID"]) for row in rows
    )


def test_what_is_recorded_is_what_hive_records(
    client: Client, table: Table, partitioned: Table
) -> None:
    txn = client.transactions.begin()
    txn.lock(_writes(table, WriteKind.UPDATE))
    txn.record_write(table, [None], DELETE)
    txn.record_write(table, [None], INSERT)
    assert _components(client) == [("", "d", 1)]
    txn.lock(_writes(partitioned, WriteKind.DELETE, "k=x", "k=y"))
    assert _components(client) == [("", "d", 1), ("", "u", 1)]
    txn.record_write(partitioned, ["k=y"], DELETE)
    assert _components(client) == [("", "d", 1), ("k=y", "d", 1)]
    txn.lock(_writes(partitioned, WriteKind.DELETE, "k=x"))
    txn.record_write(partitioned, [], DELETE)
    assert _components(client) == [("", "d", 1), ("k=y", "d", 1)]
    txn.abort("done")


def test_where_a_partition_decides_a_pristine_transaction_is_opened_anew_when_outdated(
    client: Client, table: Table
) -> None:
    client.transactions.use_settings(Settings(conflict_unit="partition"))
    txn = client.transactions.begin()
    old = txn.id
    other = _change(client, table, WriteKind.UPDATE)
    txn.lock(_writes(table, WriteKind.UPDATE))
    assert txn.id > other > old
    assert txn.valid_txns.is_valid(other)
    assert txn.write_id(table.name) > 1
    txn.commit()


def test_where_rows_decide_a_change_meanwhile_is_left_to_the_commit(
    client: Client, table: Table
) -> None:
    txn = client.transactions.begin()
    old = txn.id
    other = _change(client, table, WriteKind.UPDATE)
    txn.lock(_writes(table, WriteKind.UPDATE))
    assert txn.id == old
    assert not txn.valid_txns.is_valid(other)
    txn.commit(overlap=lambda *_: ())


@pytest.mark.parametrize(
    ("kind", "isolation"),
    [(WriteKind.OVERWRITE, "snapshot"), (WriteKind.UPDATE, "serializable")],
)
def test_what_conflicts_with_every_change_is_opened_anew_where_rows_decide_too(
    client: Client, table: Table, kind: WriteKind, isolation: str
) -> None:
    txn = client.transactions.begin(isolation=Isolation(isolation))
    other = _change(client, table, WriteKind.UPDATE)
    txn.lock(_writes(table, kind))
    assert txn.valid_txns.is_valid(other)
    txn.commit(overlap=lambda *_: ())


@pytest.mark.parametrize("earlier_write_id", [True, False])
def test_where_rows_decide_an_overwrite_meanwhile_opens_an_update_anew(
    client: Client, table: Table, earlier_write_id: bool
) -> None:
    """Its base may have a lower write id, and then the rows to change are others all the same."""
    txn = client.transactions.begin()
    overwrite = client.transactions.begin()
    for one in (overwrite, txn) if earlier_write_id else (txn, overwrite):
        client.metastore.allocate_write_ids([one.id], table.name)
    overwrite.lock(_writes(table, WriteKind.OVERWRITE))
    overwrite.commit()
    txn.lock(_writes(table, WriteKind.UPDATE))
    assert txn.valid_txns.is_valid(overwrite.id)
    txn.commit(overlap=lambda *_: ())


def test_an_overwrite_sees_what_was_inserted_before_it_got_its_lock(
    client: Client, table: Table
) -> None:
    """Else the rows would be lost: its base hides them, and it has not read them."""
    txn = client.transactions.begin()
    client.metastore.allocate_write_ids([txn.id], table.name)
    _ = txn.valid_txns
    inserted = _insert(client, table)
    txn.lock(_writes(table, WriteKind.OVERWRITE))
    assert txn.valid_write_ids(table).is_valid(inserted)
    assert txn.write_id(table.name) > inserted
    txn.commit()
    again = client.transactions.begin()
    first = again.id
    again.lock(_writes(table, WriteKind.OVERWRITE))
    assert again.id == first
    again.abort("the test says so")


def _change(client: Client, table: Table, kind: WriteKind) -> TxnId:
    """Another transaction's change, committed."""
    with client.transactions.begin() as other:
        other.lock(_writes(table, kind))
        other.commit(overlap=lambda *_: ())
    return other.id


def test_a_transaction_that_has_read_is_not_opened_anew_and_loses(
    client: Client, table: Table
) -> None:
    txn = client.transactions.begin()
    old = txn.id
    txn.valid_write_ids(table)
    with client.transactions.begin() as other:
        other.lock(_writes(table, WriteKind.UPDATE))
        other.commit()
    txn.lock(_writes(table, WriteKind.UPDATE))
    assert txn.id == old
    with pytest.raises(ConflictError):
        txn.commit()


def test_an_insert_overtaken_by_an_overwrite_gets_a_higher_write_id(
    client: Client, table: Table
) -> None:
    """Else its delta would be obsolete under the overwrite's base, and its rows lost."""
    insert = client.transactions.begin()
    metastore = client.metastore
    metastore.allocate_write_ids([insert.id], table.name)
    with client.transactions.begin() as other:
        other.lock(_writes(table, WriteKind.OVERWRITE))
        base = other.write_id(table.name)
        other.commit()
    insert.lock(_writes(table, WriteKind.INSERT))
    assert insert.write_id(table.name) > base
    insert.commit()


def test_an_insert_that_used_its_write_id_conflicts_with_the_overwrite(
    client: Client, table: Table
) -> None:
    insert = client.transactions.begin()
    insert.write_id(table.name)
    with client.transactions.begin() as other:
        other.lock(_writes(table, WriteKind.OVERWRITE))
        other.write_id(table.name)
        other.commit()
    with pytest.raises(ConflictError, match="replaced"):
        insert.lock(_writes(table, WriteKind.INSERT))


class _ClockThatActs(ManualClock):
    """Does something while somebody sleeps."""

    action: Callable[[], None] | None = None

    def sleep_s(self, seconds: float) -> None:
        super().sleep_s(seconds)
        action, self.action = self.action, None
        if action is not None:
            action()


class TestWaiting:
    @pytest.fixture
    def clock(self) -> _ClockThatActs:
        return _ClockThatActs()

    def test_a_lock_that_is_never_free_names_its_holder(
        self, client: Client, table: Table, clock: _ClockThatActs
    ) -> None:
        holder = client.transactions.begin()
        holder.lock(Footprint(definitions=footprint.alter_table(table.name)))
        started_s = clock.monotonic_s()
        with client.transactions.begin() as txn:
            with pytest.raises(LockError, match=r"\[Error 10307\].*default/t timed out") as caught:
                txn.lock(Footprint(reads=(TableRead(table),)))
            assert 30 <= clock.monotonic_s() - started_s < 33
            assert caught.value.context["holder"] == holder.id
            assert f"held by txnid:{holder.id} of " in str(caught.value)
            assert [one.txn_id for one in client.metastore.show_locks()] == [holder.id]
            txn.abort("no lock")

    def test_who_waits_says_for_whom_and_what_frees_it(
        self,
        client: Client,
        table: Table,
        clock: _ClockThatActs,
    ) -> None:
        client.use_settings(Settings(lock_timeout_s=100, housekeeping_interval_s=3600))
        holder = client.transactions.begin()
        holder.lock(Footprint(definitions=footprint.alter_table(table.name)))
        said: list[tuple[float, str]] = []
        started_s = clock.monotonic_s()

        class Noting(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                assert record.levelno == logging.WARNING, "shown where nobody set up logging"
                said.append((clock.monotonic_s() - started_s, record.getMessage()))

        handler = Noting()
        logging.getLogger("hiveacid.txn.waiting").addHandler(handler)
        try:
            with (
                client.transactions.begin(read_only=True) as txn,
                pytest.raises(LockError, match="timed out"),
            ):
                txn.lock(Footprint(reads=(TableRead(table),)))
        finally:
            logging.getLogger("hiveacid.txn.waiting").removeHandler(handler)
        times = [moment for moment, _ in said]
        assert len(times) == 4
        assert all(due <= at < due + 2.5 for due, at in zip((2, 32, 62, 92), times, strict=True)), (
            times
        )
        assert f"default/t for 2 s: EXCLUSIVE is held by txnid:{holder.id} of" in said[0][1]
        assert f"ABORT TRANSACTIONS {holder.id}" in said[0][1]
        holder.abort("done")

    def test_a_short_wait_says_nothing(
        self,
        client: Client,
        table: Table,
        clock: _ClockThatActs,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        holder = client.transactions.begin()
        holder.lock(Footprint(definitions=footprint.alter_table(table.name)))
        clock.action = holder.commit
        with client.transactions.begin(read_only=True) as txn:
            txn.lock(Footprint(reads=(TableRead(table),)))
        assert not caplog.records

    def test_a_lock_is_granted_when_its_holder_commits(
        self, client: Client, table: Table, clock: _ClockThatActs
    ) -> None:
        holder = client.transactions.begin()
        holder.lock(Footprint(definitions=footprint.alter_table(table.name)))
        clock.action = holder.commit
        with client.transactions.begin(read_only=True) as txn:
            txn.lock(Footprint(reads=(TableRead(table),)))

    def test_a_dead_holder_is_timed_out_by_the_waiter(
        self, client: Client, table: Table, clock: _ClockThatActs
    ) -> None:
        holder = client.transactions.begin()
        holder.lock(Footprint(definitions=footprint.alter_table(table.name)))
        clock.advance_ms(299_000)
        with client.transactions.begin(read_only=True) as txn:
            txn.lock(Footprint(reads=(TableRead(table),)))
        assert _state(client, holder) is TxnState.ABORTED
        with pytest.raises(TransactionError, match="already aborted"):
            holder.commit()

    def test_being_aborted_while_waiting_is_an_error(
        self, client: Client, table: Table, clock: _ClockThatActs
    ) -> None:
        holder = client.transactions.begin()
        holder.lock(Footprint(definitions=footprint.alter_table(table.name)))
        txn = client.transactions.begin()
        clock.action = lambda: client.metastore.abort_txn(txn.id)
        with pytest.raises(TransactionError, match="ended while it waited for locks: aborted"), txn:
            txn.lock(Footprint(reads=(TableRead(table),)))


def test_statement_ids_are_never_used_twice_and_end_at_4095(client: Client, table: Table) -> None:
    with client.transactions.begin() as txn:
        assert txn.take_statement_ids(table.name, 2) == (0, 1)
        assert txn.take_statement_ids(table.name, 4093)[-1] == 4094
        with pytest.raises(InvalidInputError, match="4095 of 4096 statement ids"):
            txn.take_statement_ids(table.name, 2)
        assert txn.take_statement_ids(table.name, 1) == (4095,)
        txn.commit()


def test_a_snapshot_lists_the_partitions_asked_for(client: Client, partitioned: Table) -> None:
    parts = [Partition((v,), f"{partitioned.location}/k={v}") for v in "ab"]
    client.metastore.add_partitions(partitioned.name, parts)
    with client.transactions.begin() as txn:
        txn.lock(_writes(partitioned, WriteKind.INSERT))
        write_id = txn.write_id(partitioned.name)
        delta = Path(parts[0].location) / f"delta_{write_id:07}_{write_id:07}_0000"
        delta.mkdir(parents=True)
        (delta / "bucket_00000").write_bytes(b"x")
        mine = txn.snapshot(partitioned)
        assert [part.partition for part in mine.parts] == parts
        assert [one.path for one in mine.parts[0].directory.deltas] == [delta.name]
        assert len(txn.snapshot(partitioned, partitions=parts[1:]).parts) == 1
        with client.transactions.begin(read_only=True) as other:
            assert other.snapshot(partitioned).parts[0].directory.deltas == ()
        txn.record_write(partitioned, ["k=a"], INSERT)
        txn.commit()


class TestLostReplies:
    """The metastore commits or not, and the answer does not come."""

    def _failing(
        self, client: Client, monkeypatch: pytest.MonkeyPatch, *, commits: bool, times: int
    ) -> None:
        real = client.metastore.commit_txn
        left = [times]

        def commit_txn(txn: TxnId, **options: object) -> None:
            if left[0] == 0:
                return real(txn, **options)  # type: ignore[arg-type]
            left[0] -= 1
            if commits:
                real(txn, **options)  # type: ignore[arg-type]
            raise MetastoreError("connection lost")

        monkeypatch.setattr(client.metastore, "commit_txn", commit_txn)

    @pytest.mark.parametrize("commits", [True, False])
    def test_one_lost_reply_is_looked_up(
        self, client: Client, table: Table, monkeypatch: pytest.MonkeyPatch, commits: bool
    ) -> None:
        self._failing(client, monkeypatch, commits=commits, times=1)
        with client.transactions.begin() as txn:
            txn.lock(_writes(table, WriteKind.INSERT))
            txn.commit()
        assert _state(client, txn) is TxnState.COMMITTED

    def test_a_commit_that_never_works_aborts(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._failing(client, monkeypatch, commits=False, times=100)
        with pytest.raises(MetastoreError, match="connection lost"):
            client.transactions.begin().commit()
        assert client.metastore.get_open_txns().aborted == (1,)

    def test_an_unknown_outcome(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise MetastoreError("connection lost")

        txn, reader = client.transactions.begin(), client.transactions.begin(read_only=True)
        monkeypatch.setattr(client.metastore, "commit_txn", fail)
        monkeypatch.setattr(client.metastore, "txn_info", fail)
        with pytest.raises(CommitOutcomeUnknownError):
            txn.commit()
        with pytest.raises(MetastoreError, match="connection lost"):
            reader.commit()  # of what wrote nothing there is none
        assert not txn.is_open

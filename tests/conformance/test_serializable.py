"""What a serializable commit refuses: the metastore's half, on each database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.metastores import table_rows

from hiveacid.client import Client, open_client
from hiveacid.clock import SystemClock
from hiveacid.errors import ConflictError, UnsupportedError
from hiveacid.metastore.connect import connect
from hiveacid.metastore.sql.engine import MetastoreOptions
from hiveacid.model.commits import ReadSet
from hiveacid.model.ids import ValidTxnList
from hiveacid.model.tables import Column, Isolation, Partition, Table, TableName, WriteId
from hiveacid.model.transactions import OperationType, TxnState
from hiveacid.model.types import parse_type
from hiveacid.settings import Settings
from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind
from hiveacid.txn.transaction import Transaction

INSERT, DELETE = OperationType.INSERT, OperationType.DELETE


@pytest.fixture
def client(metastore_url: str, tmp_path: Path) -> Iterator[Client]:
    opened = open_client(
        metastore_url,
        warehouse=str(tmp_path / "warehouse"),
        settings=Settings(lock_timeout_s=300, lock_poll_max_s=0.1),
    )
    yield opened
    opened.close()


def _table(client: Client, name: str, *, partitioned: bool = False, **properties: str) -> Table:
    full = TableName("default", name)
    made = Table(
        full,
        (Column("a", parse_type("int")),),
        f"{client.warehouse}/{name}",
        (Column("k", parse_type("string")),) if partitioned else (),
        properties={"transactional": "true", **properties},
    )
    client.metastore.create_table(made)
    return made


def _begin(client: Client, *, serializable: bool = True) -> Transaction:
    """A transaction with its snapshot."""
    isolation = Isolation.SERIALIZABLE if serializable else Isolation.SNAPSHOT
    txn = client.transactions.begin(isolation=isolation)
    _ = txn.valid_txns
    return txn


def _insert(txn: Transaction, table: Table, partition: str | None = None) -> None:
    txn.lock(Footprint(writes=(TableWrite(table, WriteKind.INSERT),)))
    txn.record_write(table, [partition], INSERT)


def _delete(txn: Transaction, table: Table, partition: str | None = None) -> None:
    txn.lock(Footprint(writes=(TableWrite(table, WriteKind.DELETE),)))
    txn.record_write(table, [partition], DELETE)


def _commit(txn: Transaction) -> None:
    txn.commit(overlap=lambda *_: ())


@pytest.mark.parametrize("write", [_insert, _delete])
def test_a_write_to_what_was_read_wins_and_is_named(client: Client, write) -> None:
    table, other = _table(client, "t"), _table(client, "u")
    loser, winner = _begin(client), _begin(client, serializable=False)
    loser.snapshot(table)
    _insert(loser, other)
    write(winner, table)
    _commit(winner)
    with pytest.raises(ConflictError, match="read conflict on default/t: ") as caught:
        _commit(loser)
    context = caught.value.context
    assert (context["winner"], context["table"], context["partition"]) == (
        winner.id,
        "default.t",
        None,
    )
    assert f"[txnid:{winner.id}]" in str(caught.value)
    info = client.metastore.txn_info(loser.id)
    assert info is not None
    assert (info.state, info.reason) == (TxnState.ABORTED, "write conflicts")
    assert client.metastore.show_locks() == ()


def test_what_is_not_in_the_way(client: Client) -> None:
    """Other tables, what the snapshot sees, what was aborted, blind writes, reading alone."""
    table, other = _table(client, "t"), _table(client, "u")
    early, aborted = _begin(client), _begin(client)
    _insert(early, table)
    _commit(early)
    reader, writer, blind = _begin(client), _begin(client), _begin(client)
    for txn in (reader, writer):
        txn.snapshot(table)
    _insert(aborted, table)
    aborted.abort("the test says so")
    beside = _begin(client)
    _insert(beside, other)
    _commit(beside)
    _insert(writer, other)
    _commit(writer)
    late = _begin(client)
    _insert(late, table)
    _commit(late)
    _insert(blind, table)
    _commit(blind)
    _commit(reader)


def test_of_a_partitioned_table_what_a_predicate_left_out_may_be_written(client: Client) -> None:
    table = _table(client, "p", partitioned=True)
    parts = [Partition((k,), f"{table.location}/k={k}") for k in "ab"]
    client.metastore.add_partitions(table.name, parts)
    for written, wins in (("k=a", True), ("k=b", False), ("k=new", True)):
        txn, other = _begin(client), _begin(client)
        txn.snapshot(table, partitions=parts[:1], of=parts)
        _insert(txn, table, "k=b")
        _insert(other, table, written)
        _commit(other)
        if not wins:
            _commit(txn)
            continue
        with pytest.raises(ConflictError, match=f"read conflict on default/p/{written}") as caught:
            _commit(txn)
        assert caught.value.context["partition"] == written


def test_what_two_reads_both_left_out_may_be_written(client: Client) -> None:
    table = _table(client, "p", partitioned=True)
    parts = [Partition((k,), f"{table.location}/k={k}") for k in "abc"]
    client.metastore.add_partitions(table.name, parts)
    for written, wins in (("k=a", True), ("k=b", True), ("k=c", False)):
        txn, other = _begin(client), _begin(client)
        for one in parts[:2]:
            txn.snapshot(table, partitions=[one], of=parts)
        _insert(txn, table, "k=c")
        _insert(other, table, written)
        _commit(other)
        if wins:
            with pytest.raises(ConflictError):
                _commit(txn)
        else:
            _commit(txn)


@pytest.mark.parametrize("reads", ["t", "u"])
def test_a_table_may_demand_it_of_all_who_read_or_write_it(client: Client, reads: str) -> None:
    tables = {
        "t": _table(client, "t", **{"hiveacid.isolation": "serializable"}),
        "u": _table(client, "u"),
    }
    target = tables["u" if reads == "t" else "t"]
    txn, other = _begin(client, serializable=False), _begin(client, serializable=False)
    txn.snapshot(tables[reads])
    _insert(txn, target)
    _insert(other, tables[reads])
    _commit(other)
    with pytest.raises(ConflictError, match=f"read conflict on default/{reads}"):
        _commit(txn)


def test_housekeeping_keeps_what_an_open_transaction_does_not_see(client: Client) -> None:
    """The older write id commits last: the newer one stands for it, but not for who reads now."""
    table, other = _table(client, "t"), _table(client, "u")
    early, late = _begin(client), _begin(client)
    for txn in (early, late):
        _insert(txn, table)
    _commit(late)
    reader = _begin(client)
    reader.snapshot(table)
    _insert(reader, other)
    _commit(early)
    client.metastore.run_housekeeping(interval_s=0)
    with pytest.raises(ConflictError) as caught:
        _commit(reader)
    assert caught.value.context["winner"] == early.id
    client.metastore.run_housekeeping(interval_s=0)
    rows = table_rows(client.metastore, "COMPLETED_TXN_COMPONENTS")
    assert [row["CTC_TXNID"] for row in rows] == [late.id]


def test_a_lease_does_not_keep_it(client: Client) -> None:
    table = _table(client, "t")
    early, late = _begin(client), _begin(client)
    with client.transactions.begin(read_only=True) as lease:
        for txn in (early, late):
            _insert(txn, table)
            _commit(txn)
        client.metastore.run_housekeeping(interval_s=0)
        lease.close()
    rows = table_rows(client.metastore, "COMPLETED_TXN_COMPONENTS")
    assert [row["CTC_TXNID"] for row in rows] == [late.id]


def test_counters_that_are_read_and_inserted_give_each_number_once(client: Client) -> None:
    """Threads look for the highest number there is and insert the next: the phantom of MERGE."""
    table = _table(client, "t")
    numbers: dict[WriteId, int] = {}
    lost = [0]
    all_looked = threading.Barrier(4, timeout=300)

    def take_next(*, at_once: bool) -> None:
        while True:
            with suppress(ConflictError), _begin(client) as txn:
                valid = txn.valid_write_ids(table)
                seen = [n for write_id, n in list(numbers.items()) if valid.is_valid(write_id)]
                if at_once:
                    at_once = False
                    all_looked.wait()
                numbers[txn.write_id(table.name)] = max(seen, default=0) + 1
                _insert(txn, table)
                _commit(txn)
                return
            lost[0] += 1

    def work() -> None:
        for number in range(6):
            take_next(at_once=number == 0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=300)
    (valid,) = client.metastore.valid_write_ids([table.name])
    committed = [n for write_id, n in numbers.items() if valid.is_valid(write_id)]
    assert sorted(committed) == list(range(1, 25))
    assert lost[0] >= 3, "of those that looked at once all but one"


def test_without_the_history_that_tells_it_is_refused(metastore_url: str) -> None:
    options = MetastoreOptions(use_min_history_level=False)
    with connect(metastore_url, clock=SystemClock(), options=options) as metastore:
        (txn,) = metastore.open_txns(1, user="u", host="h")
        reads = ReadSet(ValidTxnList.of(hwm=txn))
        with pytest.raises(UnsupportedError):
            metastore.commit_txn(txn, reads=reads)

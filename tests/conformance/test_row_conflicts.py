"""Two writers of one partition: the metastore's half of row-level conflicts, on each database.

Which rows a transaction changed is a set in this file; in a table it is the delete events on disk.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from hiveacid.client import Client, open_client
from hiveacid.errors import ConflictError
from hiveacid.model.commits import ConflictUnit
from hiveacid.model.ids import RowId
from hiveacid.model.tables import Column, Table, TableName, TxnId, WriteId
from hiveacid.model.transactions import (
    LockComponent,
    LockState,
    LockType,
    OperationType,
    TxnState,
    TxnType,
)
from hiveacid.model.types import parse_type
from hiveacid.settings import Settings
from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind
from hiveacid.txn.transaction import Transaction

NAME = TableName("default", "t")


@pytest.fixture
def client(metastore_url: str, tmp_path: Path) -> Iterator[Client]:
    opened = open_client(
        metastore_url,
        warehouse=str(tmp_path / "warehouse"),
        settings=Settings(lock_timeout_s=300, lock_poll_max_s=0.1),
    )
    yield opened
    opened.close()


class Rows:
    """A table of rows 0, 1, 2, ... and which of them each write id deleted in which partition."""

    def __init__(self, client: Client, *, partitioned: bool = False) -> None:
        keys = (Column("k", parse_type("string")),) if partitioned else ()
        self.table = Table(
            NAME,
            (Column("a", parse_type("int")),),
            f"{client.warehouse}/{NAME.table}",
            keys,
            properties={"transactional": "true"},
        )
        client.metastore.create_table(self.table)
        self._client = client
        self._deleted: dict[tuple[WriteId, str | None], set[int]] = {}
        self.compared: list[tuple[str | None, tuple[WriteId, ...]]] = []

    def begin(self, kind: WriteKind = WriteKind.UPDATE) -> Transaction:
        """A transaction with its locks and its snapshot."""
        txn = self._client.transactions.begin()
        txn.lock(Footprint(writes=(TableWrite(self.table, kind),)))
        txn.valid_write_ids(self.table)
        return txn

    def change(self, txn: Transaction, *rows: int, partition: str | None = None) -> None:
        """Update some rows: delete events and inserts."""
        place = (txn.write_id(NAME), partition)
        self._deleted.setdefault(place, set()).update(rows)
        for operation in (OperationType.DELETE, OperationType.INSERT):
            txn.record_write(self.table, [partition], operation)

    def commit(self, txn: Transaction) -> None:
        """Commit at row level."""
        mine = txn.write_id(NAME)

        def overlap(
            table: TableName, partition: str | None, winners: Sequence[WriteId]
        ) -> Sequence[RowId]:
            assert table == NAME
            self.compared.append((partition, tuple(winners)))
            theirs = set().union(*(self._deleted.get((one, partition), ()) for one in winners))
            both = self._deleted.get((mine, partition), set()) & theirs
            return [RowId(1, 0, row) for row in sorted(both)][:10]

        txn.commit(overlap=overlap)


def test_writers_of_different_rows_both_commit(client: Client) -> None:
    rows = Rows(client)
    one, other = rows.begin(), rows.begin()
    rows.change(one, 1, 2)
    rows.change(other, 3)
    rows.commit(one)
    rows.commit(other)
    assert rows.compared == [(None, (1,))]
    (valid,) = client.metastore.valid_write_ids([NAME])
    assert (valid.hwm, valid.exceptions) == (2, ())


def test_of_two_writers_of_one_row_the_second_names_winner_table_and_rows(
    client: Client,
) -> None:
    rows = Rows(client)
    winner, loser = rows.begin(), rows.begin()
    rows.change(winner, *range(20))
    rows.change(loser, *range(5, 40))
    rows.commit(winner)
    with pytest.raises(ConflictError, match="write conflict on default/t committed by") as caught:
        rows.commit(loser)
    context = caught.value.context
    assert (context["winner"], context["table"]) == (winner.id, "default.t")
    named = context["rows"]
    assert isinstance(named, tuple)
    assert [one.row_id for one in named] == list(range(5, 15))
    info = client.metastore.txn_info(loser.id)
    assert info is not None
    assert (info.state, info.reason) == (TxnState.ABORTED, "write conflicts")


def test_the_winner_named_is_the_one_that_changed_the_row(client: Client) -> None:
    rows = Rows(client)
    first, second, loser = rows.begin(), rows.begin(), rows.begin()
    rows.change(first, 1)
    rows.change(second, 2)
    rows.change(loser, 2, 3)
    rows.commit(first)
    rows.commit(second)
    with pytest.raises(ConflictError) as caught:
        rows.commit(loser)
    assert caught.value.context["winner"] == second.id


def test_only_rows_of_the_winner_named_are_named(client: Client) -> None:
    rows = Rows(client)
    first, second, loser = rows.begin(), rows.begin(), rows.begin()
    rows.change(first, 1, 2)
    rows.change(second, 3)
    rows.change(loser, 2, 3)
    rows.commit(first)
    rows.commit(second)
    with pytest.raises(ConflictError) as caught:
        rows.commit(loser)
    context = caught.value.context
    assert (context["winner"], context["rows"]) == (first.id, (RowId(1, 0, 2),))


def test_rows_that_cannot_be_compared_any_more_are_a_conflict(client: Client) -> None:
    rows = Rows(client)
    winner, loser = rows.begin(), rows.begin()
    rows.change(winner, 1)
    rows.change(loser, 2)
    rows.commit(winner)
    with pytest.raises(ConflictError) as caught:
        loser.commit(overlap=lambda *_: None)
    assert (caught.value.context["winner"], caught.value.context["rows"]) == (winner.id, ())


def test_only_the_same_partition_is_compared(client: Client) -> None:
    rows = Rows(client, partitioned=True)
    one, other = rows.begin(), rows.begin()
    rows.change(one, 1, partition="k=a")
    rows.change(other, 1, partition="k=b")
    rows.commit(one)
    rows.commit(other)
    assert rows.compared == []


def test_an_overwrite_conflicts_with_every_change(client: Client) -> None:
    rows = Rows(client)
    store = client.metastore
    opened = store.open_txns(2, user="u", host="h")
    ids = store.allocate_write_ids(opened, NAME)
    mine, theirs = opened
    store.add_dynamic_partitions(mine, ids[mine], NAME, [None], OperationType.DELETE)
    store.add_dynamic_partitions(theirs, ids[theirs], NAME, [None], OperationType.UPDATE)
    assert store.commit_txn(theirs, conflict_unit=ConflictUnit.ROW) == ()
    (found,) = store.commit_txn(mine, conflict_unit=ConflictUnit.ROW)
    assert (found.winner, found.write_id, found.is_decided) == (theirs, ids[theirs], True)
    assert rows.compared == []


def test_a_rebalance_conflicts_with_every_change_and_is_waited_for(client: Client) -> None:
    """It gives rows other ids, so that delete events of an older snapshot hit nothing."""
    rows, store = Rows(client), client.metastore
    older, late = client.transactions.begin(), client.transactions.begin()
    older.valid_write_ids(rows.table)
    _ = late.valid_txns
    rebalance = _rebalance(client)
    assert store.commit_txn(rebalance) == ()
    update = Footprint(writes=(TableWrite(rows.table, WriteKind.UPDATE),))
    older.lock(update)
    rows.change(older, 1)
    with pytest.raises(ConflictError) as caught:
        rows.commit(older)
    assert caught.value.context["winner"] == rebalance
    late.lock(update)
    assert late.valid_txns.is_valid(rebalance)
    rows.change(late, 1)
    other = _rebalance(client, waits=True)
    rows.commit(late)
    with pytest.raises(ConflictError):
        store.commit_txn(other)


def _rebalance(client: Client, *, waits: bool = False) -> TxnId:
    store = client.metastore
    kind = TxnType.REBALANCE_COMPACTION
    (txn,) = store.open_txns(1, user="u", host="h", txn_type=kind)
    lock = LockComponent(
        LockType.EXCL_WRITE,
        NAME.database,
        NAME.table,
        operation=OperationType.UPDATE,
        transactional=True,
    )
    answer = store.lock([lock], txn=txn, user="u", host="h")
    assert (answer.state is LockState.WAITING) is waits
    return txn


def test_who_commits_after_the_check_is_checked_too(client: Client) -> None:
    """The commit does nothing while somebody is unchecked."""
    store = client.metastore
    txns = store.open_txns(3, user="u", host="h")
    ids = store.allocate_write_ids(txns, NAME)
    for txn in txns:
        store.add_dynamic_partitions(txn, ids[txn], NAME, [None], OperationType.DELETE)
    mine, first, second = txns
    row = ConflictUnit.ROW
    assert store.commit_txn(first, conflict_unit=row) == ()
    assert [one.winner for one in store.commit_txn(mine, conflict_unit=row)] == [first]
    assert store.commit_txn(second, conflict_unit=row, checked=[first]) == ()
    (left,) = store.commit_txn(mine, conflict_unit=row, checked=[first])
    assert (left.winner, left.write_id) == (second, ids[second])
    assert left.operation is OperationType.DELETE
    info = store.txn_info(mine)
    assert info is not None
    assert info.state is TxnState.OPEN
    assert store.commit_txn(mine, conflict_unit=row, checked=[first, second]) == ()
    assert store.commit_txn(mine, conflict_unit=row) == ()  # again, as after a lost answer


def test_what_the_snapshot_sees_is_no_conflict(client: Client) -> None:
    """The winner committed after this transaction opened and before its snapshot."""
    rows = Rows(client)
    early = rows.begin()
    late = client.transactions.begin()
    rows.change(early, 1)
    rows.commit(early)
    late.write_id(NAME)
    rows.change(late, 1)
    rows.commit(late)
    assert rows.compared == []


def test_a_hive_client_beside_sees_our_write_set(client: Client) -> None:
    """Who decides by partition loses to a commit at row level."""
    rows = Rows(client)
    ours, hives = rows.begin(), rows.begin()
    rows.change(ours, 1)
    rows.change(hives, 2)
    rows.commit(ours)
    with pytest.raises(ConflictError, match="write conflict on default/t"):
        hives.commit()


def test_no_update_is_lost_and_disjoint_ones_need_no_retry(client: Client) -> None:
    """Threads increment counters: those of their own at once, a common one by trying again."""
    rows = Rows(client)
    counters: dict[int, list[tuple[WriteId, int]]] = {row: [(WriteId(0), 0)] for row in range(5)}
    lost: dict[int, int] = dict.fromkeys(range(5), 0)
    done: list[TxnId] = []

    def increment(row: int) -> None:
        while True:
            with suppress(ConflictError), rows.begin() as txn:
                valid = txn.valid_write_ids(rows.table)
                seen = max(v for w, v in list(counters[row]) if w == 0 or valid.is_valid(w))
                counters[row].append((txn.write_id(NAME), seen + 1))
                rows.change(txn, row)
                rows.commit(txn)
                done.append(txn.id)
                return
            lost[row] += 1

    def work(own: int) -> None:
        order = [own] * 8 + [4] * 4
        random.Random(own).shuffle(order)
        for row in order:
            increment(row)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=300)
    (valid,) = client.metastore.valid_write_ids([NAME])
    values = {
        row: max(v for w, v in found if w == 0 or valid.is_valid(w))
        for row, found in counters.items()
    }
    assert values == {0: 8, 1: 8, 2: 8, 3: 8, 4: 16}
    assert [lost[own] for own in range(4)] == [0, 0, 0, 0]
    assert len(done) == 48

"""Statistics in step with commits, on each database: whoever commits between, the count is exact or
unknown.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.metastores import table_rows

from hiveacid.metastore.connect import SqlMetastore
from hiveacid.model.commits import ColumnStatistics, StatisticsChange, initial_statistics
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import Column, Database, Partition, Table, TableName, TxnId
from hiveacid.model.transactions import OperationType
from hiveacid.model.types import parse_type

T = TableName("d", "t")
ACID = {"transactional": "true"}


def _table(**more: object) -> Table:
    columns = (Column("id", parse_type("int")),)
    return Table(T, columns, "/w/t", **more)  # type: ignore[arg-type]


@pytest.fixture
def whole(metastore: SqlMetastore) -> SqlMetastore:
    metastore.create_database(Database("d", "/w"))
    metastore.create_table(_table(properties={**ACID, **initial_statistics(["id"])}))
    return metastore


@pytest.fixture
def parts(metastore: SqlMetastore) -> SqlMetastore:
    metastore.create_database(Database("d", "/w"))
    keys = (Column("p", parse_type("int")),)
    metastore.create_table(_table(properties=ACID, partition_columns=keys))
    known = initial_statistics(())
    metastore.add_partitions(T, [Partition((text,), f"/w/t/p={text}", known) for text in "12"])
    return metastore


def _begin(store: SqlMetastore, partition: str | None = None) -> TxnId:
    """A writer with a write id and a record of what it writes."""
    (txn,) = store.open_txns(1, user="u", host="h")
    write_id = store.allocate_write_ids([txn], T)[txn]
    store.add_dynamic_partitions(txn, write_id, T, [partition], OperationType.INSERT)
    return txn


def _seen(store: SqlMetastore) -> ValidWriteIdList:
    return store.valid_write_ids([T])[0]


def _added(rows: int | None, partition: str | None = None) -> list[StatisticsChange]:
    return [StatisticsChange(T, partition, rows, files=1, size_bytes=10)]


def test_each_snapshot_gets_its_own_count_or_none(whole: SqlMetastore) -> None:
    """Writers end in any order, some abort: a count that is told is that of the snapshot."""
    chance = random.Random(7)
    open_txns: dict[TxnId, int] = {}
    snapshots = [(_seen(whole), 0)]
    total = told = 0
    for _ in range(60):
        if open_txns and chance.random() < 0.6:
            txn = chance.choice(sorted(open_txns))
            rows = open_txns.pop(txn)
            if chance.random() < 0.3:
                whole.abort_txn(txn)
            else:
                whole.commit_txn(txn, statistics=_added(rows))
                total += rows
            snapshots.append((_seen(whole), total))
        else:
            open_txns[_begin(whole)] = chance.randrange(1, 100)
        for valid, count in snapshots:
            found = whole.row_count(T, valid)
            assert found in (None, count)
            told += found is not None
        assert whole.row_count(T, _seen(whole)) == total
    assert told > 60


def test_who_does_not_count_makes_the_count_unknown_until_it_is_replaced(
    whole: SqlMetastore,
) -> None:
    whole.commit_txn(_begin(whole), statistics=_added(5))
    whole.commit_txn(_begin(whole))
    whole.commit_txn(_begin(whole), statistics=_added(1))
    assert whole.row_count(T, _seen(whole)) is None
    replaced = StatisticsChange(T, None, 3, 1, 10, replaces=True)
    whole.commit_txn(_begin(whole), statistics=[replaced])
    assert whole.row_count(T, _seen(whole)) == 3
    assert whole.get_table(T).properties["numFiles"] == "1"


def test_analyze_counts_only_if_nobody_came_between(whole: SqlMetastore) -> None:
    found = ColumnStatistics("id", "int", nulls=1, distinct=2, long_low=3, long_high=4)

    def analyzed(seen: ValidWriteIdList) -> StatisticsChange:
        return StatisticsChange(T, None, 9, 1, 10, replaces=True, seen=seen, columns=(found,))

    seen = _seen(whole)
    whole.commit_txn(_begin(whole))
    (late,) = whole.open_txns(1, user="u", host="h")
    whole.allocate_write_ids([late], T)
    whole.commit_txn(late, statistics=[analyzed(seen)])
    assert whole.row_count(T, _seen(whole)) is None
    assert whole.column_statistics(T, "id") is None
    (txn,) = whole.open_txns(1, user="u", host="h")
    seen = _seen(whole)
    whole.allocate_write_ids([txn], T)
    whole.commit_txn(txn, statistics=[analyzed(seen)])
    assert whole.row_count(T, _seen(whole)) == 9
    assert whole.column_statistics(T, "ID") == found
    whole.drop_table(T)
    assert table_rows(whole, "TAB_COL_STATS") == []


def test_partitions_are_counted_one_by_one(parts: SqlMetastore) -> None:
    assert parts.row_count(T, _seen(parts)) == 0
    before = _begin(parts, "p=1")
    parts.commit_txn(_begin(parts, "p=2"), statistics=_added(2, "p=2"))
    seen = _seen(parts)
    assert parts.row_count(T, seen) == 2
    parts.commit_txn(before, statistics=_added(3, "p=1"))
    assert parts.row_count(T, seen) is None
    assert parts.row_count(T, _seen(parts)) == 5
    parts.commit_txn(_begin(parts, "p=1"))
    assert parts.row_count(T, _seen(parts)) is None
    parts.drop_partitions(T, [("1",)])
    assert parts.row_count(T, _seen(parts)) == 2


def test_definitions_change_without_touching_the_counts(whole: SqlMetastore) -> None:
    stale = whole.get_table(T)
    whole.commit_txn(_begin(whole), statistics=_added(5))
    whole.alter_table(T, lambda _: stale)
    assert whole.row_count(T, _seen(whole)) == 5
    whole.alter_table(T, lambda now: replace(now, location="/elsewhere"))
    assert whole.row_count(T, _seen(whole)) is None

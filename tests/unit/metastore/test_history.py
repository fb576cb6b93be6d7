"""Commits in their order, and what each left behind, on each database: whoever ends first."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from sqlalchemy import delete

from hiveacid.errors import NotFoundError
from hiveacid.metastore.connect import SqlMetastore
from hiveacid.metastore.sql.catalog_schema import HIVEACID_COMMITS
from hiveacid.model.history import CommitFacts, CommitNote
from hiveacid.model.tables import Column, Database, Table, TableName, TxnId, WriteId
from hiveacid.model.transactions import OperationType
from hiveacid.model.types import parse_type
from hiveacid.statements.history import DescribeHistory, history, history_listing
from hiveacid.testing import ManualClock

T = TableName("d", "t")


@pytest.fixture
def store(metastore: SqlMetastore) -> SqlMetastore:
    metastore.create_database(Database("d", "/w"))
    columns = (Column("id", parse_type("int")),)
    for name in ("t", "u"):
        made = Table(TableName("d", name), columns, f"/w/{name}")
        metastore.create_table(replace(made, properties={"transactional": "true"}))
    return metastore


def _begin(store: SqlMetastore, table: TableName = T) -> tuple[TxnId, WriteId]:
    (txn,) = store.open_txns(1, user="ann", host="h")
    write_id = store.allocate_write_ids([txn], table)[txn]
    store.add_dynamic_partitions(txn, write_id, table, [None], OperationType.INSERT)
    return txn, write_id


def _commit(store: SqlMetastore, table: TableName = T) -> WriteId:
    txn, write_id = _begin(store, table)
    store.commit_txn(txn)
    return write_id


def test_versions_are_told_in_the_order_of_commits(store: SqlMetastore, clock: ManualClock) -> None:
    """Writers end in any order, some abort, some stay open: each version is what was valid then."""
    chance = random.Random(11)
    running: list[tuple[TxnId, WriteId]] = []
    valid: set[int] = set()
    versions: list[tuple[WriteId, int, frozenset[int]]] = []
    for _ in range(60):
        clock.advance_ms(60_000)
        if not running or chance.random() < 0.5:
            running.append(_begin(store))
            continue
        txn, write_id = running.pop(chance.randrange(len(running)))
        if chance.random() < 0.25:
            store.abort_txn(txn)
            with pytest.raises(NotFoundError, match="not committed"):
                store.version(T, write_id=write_id)
            continue
        store.commit_txn(txn)
        valid.add(write_id)
        versions.append((write_id, clock.now_ms(), frozenset(valid)))
    every = range(1, store.last_write_id(T) + 1)
    told = store.commits(T)
    assert [one.write_id for one in told] == [write_id for write_id, _, _ in versions]
    assert sorted(one.sequence for one in told) == [one.sequence for one in told]
    assert [one.write_id for one in store.commits(T, limit=3, latest=True)] == [
        write_id for write_id, _, _ in versions[:-4:-1]
    ]
    for write_id, at_ms, then in versions:
        for found in (
            store.version(T, write_id=write_id),
            store.version(T, time_ms=at_ms),
            store.version(T, time_ms=at_ms + 59_999),
        ):
            assert (found.write_id, found.committed_ms) == (write_id, at_ms)
            assert {one for one in every if found.valid.is_valid(one)} == then
    assert {one for one in every if store.version(T, write_id=0).valid.is_valid(one)} == set()


def test_a_commit_keeps_what_it_did(store: SqlMetastore) -> None:
    txn, write_id = _begin(store)
    facts = CommitFacts(T, write_id, "UPDATE", 0, 2, 0, files=2, size_bytes=100)
    more = CommitFacts(T, write_id, "INSERT", 5, 0, 0, files=1, size_bytes=50)
    store.commit_txn(txn, note=CommitNote((facts, more), "job 7", "UPDATE t SET id = ?"))
    (kept,) = store.commits(T)
    assert kept.facts == CommitFacts(T, write_id, "UPDATE, INSERT", 5, 2, 0, 3, 150)
    assert (kept.txn, kept.user, kept.host, kept.application) == (txn, "ann", "h", "job 7")
    assert kept.statement == "UPDATE t SET id = ?"


def test_a_commit_that_is_sent_twice_or_wrote_nothing_counts_once(store: SqlMetastore) -> None:
    txn, _ = _begin(store)
    store.commit_txn(txn)
    store.commit_txn(txn)
    (reader,) = store.open_txns(1, user="u", host="h")
    store.commit_txn(reader)
    assert [one.txn for one in store.commits(T)] == [txn]


def test_tables_have_one_order(store: SqlMetastore) -> None:
    other = TableName("d", "u")
    first, (txn, second), third = _commit(store), _begin(store, other), _commit(store)
    store.commit_txn(txn)
    at = store.sequence_of(txn=txn)
    assert at is not None
    assert store.version(other, sequence=at).write_id == second
    assert store.version(T, sequence=at).write_id == third
    assert store.version(other, sequence=at - 1).write_id == 0
    assert store.version(T, sequence=at - 2).write_id == first


def test_time_does_not_go_back(store: SqlMetastore, clock: ManualClock) -> None:
    _commit(store)
    first = clock.now_ms()
    clock.advance_ms(-3_600_000)
    _commit(store)
    assert [one.committed_ms for one in store.commits(T)] == [first, first]


def test_a_write_id_is_no_version_where_nobody_has_it(store: SqlMetastore) -> None:
    _commit(store)
    for wrong, why in ((2, "last write id is 1"), (-1, "last write id is 1")):
        with pytest.raises(NotFoundError, match=f"no version {wrong}: its {why}"):
            store.version(T, write_id=wrong)


def test_columns_of_then(store: SqlMetastore) -> None:
    _commit(store)
    store.alter_table(T, lambda old: replace(old, columns=(Column("n", parse_type("string")),)))
    _commit(store)
    store.alter_table(T, lambda old: replace(old, comment="no other columns"))
    assert store.version(T, write_id=2).columns is None
    columns = store.version(T, write_id=1).columns
    assert columns == (Column("id", parse_type("int")),)
    assert store.version(T, write_id=0).columns == columns


def test_the_past_goes_with_a_new_name_and_not_to_a_new_table(store: SqlMetastore) -> None:
    new = TableName("d", "v")
    write_id = _commit(store)
    store.alter_table(T, lambda old: replace(old, name=new))
    store.create_table(replace(store.get_table(new), name=T, location="/w/again", id=None))
    assert [one.write_id for one in store.commits(new)] == [write_id]
    assert store.version(new, write_id=write_id).valid.is_valid(write_id)
    assert store.commits(T) == ()
    with pytest.raises(NotFoundError, match="no version 1"):
        store.version(T, write_id=1)


def test_commits_of_hive_are_told_by_its_tables(store: SqlMetastore) -> None:
    """As Hive would leave them: nothing of ours is recorded."""
    first = _commit(store)
    ours = _commit(store)
    aborted, _ = _begin(store)
    store.abort_txn(aborted)
    _begin(store)  # open
    with store._db.write() as unit:
        table = HIVEACID_COMMITS.c
        unit.ask(delete(HIVEACID_COMMITS).where(table.HC_WRITEID == first))
    (found,) = store.unrecorded(T)
    assert (found.write_id, found.facts.kind) == (first, "INSERT")
    assert (found.user, found.host, found.committed_ms) == ("ann", "h", None)
    listed = history(store, T)
    assert [one.write_id for one in listed] == [ours, first]
    assert history(store, T, 1) == listed[:1]
    listing = history_listing(store, DescribeHistory(T))
    row = dict(zip(listing.columns, listing.rows[1], strict=True))
    assert (row["version"], row["transaction"], row["operation"]) == (1, found.txn, "INSERT")
    assert (row["timestamp"], row["files"], row["seconds"]) == (None, None, None)
    store.run_housekeeping(interval_s=0.0)
    assert [one.write_id for one in history(store, T)] == [ours, first]
    assert store.unrecorded(TableName("d", "u")) == ()

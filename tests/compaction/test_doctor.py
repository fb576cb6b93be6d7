"""What ``doctor`` finds, what it mends, and its exit status."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.compaction.world import World
from tests.unit.cli.running import run

from hiveacid.errors import InvalidInputError
from hiveacid.health import Examination
from hiveacid.model.tables import Table, TableName
from hiveacid.model.transactions import LockComponent, LockType, OperationType


def kinds(found: Examination) -> list[str]:
    return [one.kind for one in found.findings]


def test_nothing_is_wrong_with_a_metastore_that_is_well(any_world: World) -> None:
    any_world.insert(1)
    found = any_world.acid.doctor()
    assert (found.findings, found.mended) == ((), ())
    assert [one.kind for one in found.advice] == ["backup"]


def test_dead_transactions_and_locks_are_named_and_timed_out(any_world: World) -> None:
    world = any_world
    store = world.client.metastore
    (txn,) = store.open_txns(1, user="ann", host="here")
    part = LockComponent(LockType.EXCLUSIVE, "default", "t", None, OperationType.NO_TXN)
    store.lock([part], txn=None, user="joe", host="there")
    assert kinds(world.acid.doctor()) == []
    world.clock.advance_ms(400_000)
    found = world.acid.doctor()
    assert kinds(found) == ["lost heartbeat", "stale lock"]
    assert f"transaction {txn} of ann@here" in found.findings[0].evidence
    assert found.findings[0].command == f"hiveacid abort {txn}"
    assert "joe@there on default.t" in found.findings[1].evidence
    mended = world.acid.doctor(fix=True)
    assert [one.kind for one in mended.mended] == ["lost heartbeat", "stale lock"]
    assert mended.findings == ()
    assert store.show_locks() == ()


def test_a_transaction_that_lives_long_is_named_and_left_alone(any_world: World) -> None:
    world = any_world
    (txn,) = world.client.metastore.open_txns(1, user="ann", host="here")
    world.clock.advance_ms(7_200_000)
    world.client.metastore.heartbeat(txn=txn)
    found = world.acid.doctor(fix=True)
    assert (kinds(found), found.mended) == (["long transaction"], ())
    assert "is open for 2 h" in found.findings[0].evidence


def test_an_old_temporary_table_is_named(any_world: World) -> None:
    any_world.acid.sql("create temporary table x (id int)")
    assert kinds(any_world.acid.doctor()) == []
    any_world.clock.advance_ms(90_000_000)
    (found,) = any_world.acid.doctor(fix=True).findings
    assert (found.kind, found.table) == ("temporary table", any_world.acid.table("x").name)
    assert f"DROP TABLE {found.table}" in found.command
    any_world.acid.sql("drop table x")


def test_what_is_due_and_what_killed_writers_left_is_mended(world: World) -> None:
    for number in range(12):
        world.insert(number)
    location = Path(world.acid.table("t").definition.location)
    (location / "_hiveacid_staging_1_x").mkdir()
    rows = world.rows()
    assert kinds(world.acid.doctor()) == ["compaction", "orphans"]
    found = world.acid.doctor(fix=True)
    assert (found.findings, len(found.mended)) == ((), 2)
    assert world.rows() == rows
    assert [name for name in world.directories() if name[0] != "b"] == []


def test_directories_that_the_metastore_knows_nothing_of_are_named(world: World) -> None:
    world.insert(1)
    location = Path(world.acid.table("t").definition.location)
    (location / "delta_0000009_0000009_0000").mkdir()
    (location / "delta_0000009_0000009_0000" / "bucket_00000").write_bytes(b"x")
    found = world.acid.doctor(fix=True)
    assert kinds(found) == ["unknown directory"]
    assert "write id 9, default.t has given out 1" in found.findings[0].evidence


def test_a_table_that_cannot_be_read_does_not_hide_the_others(world: World) -> None:
    wrong = {"compactorthreshold.hive.compactor.delta.num.threshold": "many"}

    def broken(table: Table) -> Table:
        return replace(table, properties={**table.properties, **wrong})

    world.client.metastore.alter_table(TableName("default", "t"), broken)
    world.insert(0)
    world.make("u")
    for number in range(12):
        world.insert(number, table="u")
    found = world.acid.doctor()
    assert [(one.kind, str(one.table)) for one in found.findings] == [
        ("unreadable", "default.t"),
        ("compaction", "default.u"),
    ]
    assert "'many'" in found.findings[0].evidence


def test_the_exit_status_is_for_cron(world: World) -> None:
    done = run("doctor", "--metastore", world.url)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 findings, 0 mended")
    for number in range(12):
        world.insert(number)
    told = run("doctor", "--metastore", world.url)
    assert told.returncode == 1
    assert "compaction default.t: 12 deltas, more than 10, and no base" in told.stdout
    assert "hiveacid compact default.t --wait" in told.stdout
    facts = json.loads(run("doctor", "--fix", "--json", "--metastore", world.url).stdout)
    assert [one["kind"] for one in facts["mended"]] == ["compaction"]
    assert facts["findings"] == []


def test_a_store_that_refuses_does_not_hide_the_others(world: World) -> None:
    def moved(table: Table) -> Table:
        return replace(table, location="nosuch://bucket/t")

    world.make("u")
    for number in range(12):
        world.insert(number, table="u")
    world.client.metastore.alter_table(TableName("default", "t"), moved)
    for fix in (False, True):
        found = world.acid.doctor(fix=fix)
        told = {(one.kind, str(one.table)) for one in (*found.findings, *found.mended)}
        assert told >= {("unreadable", "default.t"), ("compaction", "default.u")}


def test_what_killed_statements_left_of_plain_tables_is_named(world: World) -> None:
    world.acid.sql("create table p (id int) stored as orc")
    world.acid.sql("insert into p values (1)")
    location = Path(world.acid.table("p").definition.location)
    (location / "_hiveacid_staging_1_0").mkdir()
    world.acid.sql("create table p__hiveacid_7 (id int) stored as orc")
    (location.parent / "gone").mkdir()
    (location.parent / "gone" / "000000_0").write_bytes(b"rows of then")
    assert kinds(world.acid.doctor()) == ["orphans"]
    world.clock.advance_ms(90_000_000)
    found = world.acid.doctor(fix=True)
    assert kinds(found) == ["temporary table"]
    assert str(found.findings[0].table) == "default.p__hiveacid_7"
    assert [one.kind for one in found.advice] == ["backup", "no table"]
    assert str(location.parent / "gone") in found.advice[1].evidence
    assert [one.name for one in location.iterdir()] == ["000000_0"]
    with pytest.raises(InvalidInputError, match="holds files already"):
        world.acid.sql("create table gone (id int) stored as orc")

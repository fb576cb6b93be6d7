"""What the past tells of statements that replace rows."""

from __future__ import annotations

import pytest
from tests.compaction.world import ACID, INSERT_ONLY, MAJOR, World, cleaned

from hiveacid import read_changes
from hiveacid.errors import SnapshotExpiredError
from hiveacid.session import Session


def test_the_history_does_not_say_that_an_overwrite_deleted_nothing(world: World) -> None:
    table = world.acid.table("t")
    world.insert(1, 2)
    table.write_arrow([{"id": 3, "v": "new"}], overwrite=True)
    world.acid.sql("truncate table t")
    table.restore(write_id=2)
    facts = [one.facts for one in reversed(table.history())]
    assert [(one.kind, one.inserted, one.deleted) for one in facts] == [
        ("INSERT", 2, 0),
        ("INSERT OVERWRITE", 1, None),
        ("TRUNCATE", 0, None),
        ("RESTORE", 1, None),
    ]


def test_what_took_all_rows_of_an_insert_only_table_is_undone(world: World) -> None:
    world.make("i", INSERT_ONLY)
    world.insert(1, table="i")
    world.acid.sql("truncate table i")
    world.acid.undo(int(world.acid.table("i").history(limit=1)[0].txn))
    assert world.ids("i") == [1]
    world.acid.undo(int(world.acid.table("i").history(limit=1)[0].txn))
    assert world.ids("i") == []


def test_from_the_version_that_an_error_names_changes_are_told_up_to_now(world: World) -> None:
    world.make("p", f"partitioned by (k string) {ACID}")
    for key in "baa":
        world.insert(1, table="p", k=key)
    world.compact(MAJOR, "p", "k=a")
    world.acid.table("p").write_arrow([{"id": 2, "v": "new", "k": "b"}], overwrite=True)
    world.compact(MAJOR, "p", "k=b")
    cleaned(world)
    table = world.acid.table("p")
    with pytest.raises(SnapshotExpiredError) as raised:
        read_changes(table, since=0, until=1)
    assert raised.value.context["write_id"] == 4
    assert read_changes(table, since=4).read_all().num_rows == 0


@pytest.mark.parametrize("properties", [ACID, INSERT_ONLY])
def test_of_commits_out_of_order_an_error_names_the_last(any_world: World, properties: str) -> None:
    world = any_world
    world.make("o", properties)
    table = world.acid.table("o")
    world.insert(1, table="o")
    with Session(world.connect()).transaction() as late:
        late.table("o").write_arrow([{"id": 5, "v": "late"}])
        world.insert(6, table="o")
    world.compact(MAJOR, "o")
    cleaned(world)
    for asked in ({"since": 0}, {"since": 3}, {"since": 0, "until": 1}):
        with pytest.raises(SnapshotExpiredError, match=r"told since 2$") as raised:
            read_changes(table, **asked)
        assert raised.value.context["write_id"] == 2
    assert read_changes(table, since=2).read_all().num_rows == 0

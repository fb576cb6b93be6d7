"""A PURGE killed anywhere: no other row is lost, and the next one goes on."""

from __future__ import annotations

import pytest
from tests.compaction import dying_purge
from tests.compaction.dying import EXIT_CODE
from tests.compaction.world import Rows, World
from tests.forked import exit_status

OPERATIONS = 22
"""how often a PURGE of the table below changes files, at most"""


def kill(world: World, number: int) -> int:
    """Let a process of its own die at its ``number``-th change; its exit status."""
    now_ms = world.clock.now_ms()
    ended = exit_status(dying_purge.main, world.url, world.warehouse, now_ms, number)
    assert ended in (0, EXIT_CODE)
    return ended


def fill(world: World) -> Rows:
    """Two buckets, a base and deltas, compacted once; what stays."""
    made = "'transactional'='true','orc.compress'='NONE','hiveacid.retention'='7d'"
    world.make("b", f"clustered by (id) into 2 buckets stored as orc tblproperties ({made})")
    world.insert(1, 2, 3, table="b")
    world.insert(4, 5, 6, table="b")
    world.compact(table="b")
    world.insert(7, table="b")
    return [row for row in world.rows("b") if row[0] not in (2, 5)]


def goes_on(world: World, rows: Rows, number: int) -> None:
    kill(world, number)
    assert [row for row in world.rows("b") if row[0] not in (2, 5)] == rows
    found = world.acid.table("b").purge(where="id in (2, 5)", wait=700)
    assert found.rows_found == 0
    assert world.rows("b") == rows
    assert len([name for name in world.directories("b") if name.startswith("base")]) == 1
    assert not [name for name in world.directories("b") if "delta" in name or "staging" in name]


@pytest.mark.parametrize("number", (1, 4, 8, 16))
def test_a_purge_killed_at_some_point_is_followed_by_another(world: World, number: int) -> None:
    goes_on(world, fill(world), number)


@pytest.mark.long("compaction", "purging", "txn")
@pytest.mark.parametrize("number", range(1, OPERATIONS + 1))
def test_a_purge_killed_at_any_point_is_followed_by_another(world: World, number: int) -> None:
    goes_on(world, fill(world), number)


@pytest.mark.long("compaction", "purging")
def test_these_are_all_points(world: World) -> None:
    fill(world)
    assert kill(world, OPERATIONS + 1) == 0

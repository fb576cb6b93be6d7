"""Versions beside write ids that were aborted: they are no commits, also once nobody else remembers
them.
"""

from __future__ import annotations

from tests.compaction.test_cleaner import aborted_write, housekeeping, killed_write
from tests.compaction.world import MAJOR, T, World

from hiveacid import read_arrow, read_changes
from hiveacid.model.tables import WriteId


def _forget(world: World) -> None:
    world.client.transactions.begin().commit()
    housekeeping(world)
    assert not [one for one in world.client.metastore.show_txns() if one.state.value == "a"]


def _ids(world: World, version: int) -> list[int]:
    found = read_arrow(world.acid.table("t"), columns="id", as_of_write_id=version)
    return sorted(found.read_all()["id"].to_pylist())


def test_the_version_of_now_outlives_a_compaction_over_aborted_write_ids(
    any_world: World,
) -> None:
    """The base has the number of the last of them, as of a stream that was closed early."""
    world = any_world
    world.insert(1, 2)
    world.insert(3)
    with world.acid.stream("t", transactions_per_batch=4) as stream, stream.transaction():
        stream.write({"id": 4, "v": "x"})
    world.compact(MAJOR)
    assert "base_0000006" in {path.partition("_v")[0] for path in world.directories()}
    assert _ids(world, 3) == [1, 2, 3, 4]
    world.clock.advance_ms(3_600_000)
    world.clean()
    assert len(world.directories()) == 1
    assert _ids(world, 3) == [1, 2, 3, 4]
    _forget(world)
    assert _ids(world, 3) == [1, 2, 3, 4]
    for since in (3, 5):  # an aborted one is like the one before it
        assert read_changes(world.acid.table("t"), since=since).read_all().num_rows == 0
    world.insert(5)
    assert _ids(world, 3) == [1, 2, 3, 4]


def test_version_0_is_told_where_the_first_write_ids_were_aborted(any_world: World) -> None:
    world = any_world
    killed_write(world, 9)
    aborted_write(world, 9)
    world.clock.advance_ms(3_600_000)
    world.clean()
    world.insert(1)
    _forget(world)
    assert _ids(world, 0) == []
    assert _ids(world, 3) == [1]
    assert read_changes(world.acid.table("t"), since=0).read_all().num_rows == 1
    store = world.client.own
    assert store.version(T, time_ms=world.client.own.commits(T)[0].started_ms - 1).write_id == 0
    assert not store.unrecorded(T)


def test_a_tag_is_known_by_what_it_shows_whatever_was_aborted_since(world: World) -> None:
    world.insert(1)
    (pin,) = world.acid.tag("q", tables=["t"])
    aborted_write(world, 9)
    version = world.client.own.version(T, write_id=WriteId(1))
    assert version.valid.hwm == 2
    assert pin.shows(version.valid)
    world.insert(2)
    assert not pin.shows(world.client.own.version(T, write_id=WriteId(3)).valid)

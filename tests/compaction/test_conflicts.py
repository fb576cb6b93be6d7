"""Who changes the rows that a compaction takes is compared with others as if there were none."""

from __future__ import annotations

import pytest
from tests.compaction.world import MAJOR, MINOR, World

from hiveacid.errors import ConflictError
from hiveacid.model.compactions import CompactionType
from hiveacid.model.ids import RowId

KINDS = pytest.mark.parametrize("kind", [MINOR, MAJOR], ids=["minor", "major"])


@KINDS
@pytest.mark.parametrize("theirs", [2, 3])
def test_the_winners_delete_events_are_found_though_compacted_and_offered_to_the_cleaner(
    any_world: World, kind: CompactionType, theirs: int
) -> None:
    world = any_world
    world.insert(1, 2, 3)
    world.insert(4)
    txn = world.acid.transaction()
    txn.table("t").delete_arrow("id = 2")
    world.delete(theirs)
    world.compact(kind)
    world.clean()
    if theirs == 2:
        with pytest.raises(ConflictError) as caught:
            txn.commit()
        (row,) = caught.value.context["rows"]  # type: ignore[misc]
        assert isinstance(row, RowId)
        assert (row.write_id, row.row_id) == (1, 1)
        assert world.ids() == [1, 3, 4]
    else:
        txn.commit()
        assert world.ids() == [1, 4]
    world.clean()
    assert len(world.ids()) == 4 - len({2, theirs})


@KINDS
def test_what_a_serializable_transaction_does_not_see_is_remembered_through_cleaning(
    any_world: World, kind: CompactionType
) -> None:
    world = any_world
    world.make("u")
    world.insert(1, 2)
    txn = world.acid.transaction(isolation="serializable")
    txn.table("t").delete_arrow("id = 9")
    txn.sql("insert into u values (1, 'nobody')")
    world.insert(9)
    world.compact(kind)
    world.clean()
    with pytest.raises(ConflictError, match="read conflict on default/t"):
        txn.commit()


@KINDS
def test_a_compaction_is_no_write_to_what_was_read(any_world: World, kind: CompactionType) -> None:
    world = any_world
    world.insert(1, 2)
    world.insert(3)
    world.delete(2)
    with world.acid.transaction(isolation="serializable") as txn:
        txn.table("t").delete_arrow("id = 1")
        world.compact(kind)
        world.clean()
    assert world.ids() == [3]

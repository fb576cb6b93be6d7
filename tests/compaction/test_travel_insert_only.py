"""The past of insert-only tables, of whose rows directories alone tell the write ids."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.compaction.world import INSERT_ONLY, MAJOR, MINOR, World, cleaned

from hiveacid import read_arrow, read_changes
from hiveacid.errors import SnapshotExpiredError
from hiveacid.layout.changes import without_mixed
from hiveacid.layout.resolve import Entry
from hiveacid.model.ids import ValidTxnList, ValidWriteIdList


@pytest.fixture
def made(world_with: Callable[..., World]) -> World:
    """On each kind of database; nothing is retained."""
    return world_with()


def test_an_aborted_write_that_todays_list_has_forgotten_is_no_later_one() -> None:
    entries = [Entry("delta_0000001_0000003_v0000005/000000_0", 100)]
    then = ValidWriteIdList.of("default.t", hwm=3, aborted=[2])
    now = ValidWriteIdList.of("default.t", hwm=5, aborted=[5])
    chosen, proofs = without_mixed(entries, then, now, ValidTxnList.of(hwm=9))
    assert (chosen, proofs) == (tuple(entries), ())


def test_an_error_names_no_version_below_a_base_that_was_cleaned_up_to(made: World) -> None:
    made.make(what=INSERT_ONLY)
    table = made.acid.table("t")
    made.acid.sql("truncate table t")
    for number in (1, 2):
        made.insert(number)
    made.compact(MINOR)
    made.insert(3)
    read_changes(table, consumer="dwh", since=3).read_all()
    made.insert(4)
    made.compact(MINOR)
    made.compact(MAJOR)
    cleaned(made)
    with pytest.raises(SnapshotExpiredError, match="From version 5 on it can be read") as raised:
        read_arrow(table, as_of_write_id=2).read_all()
    assert raised.value.context["oldest"] == 5
    assert read_arrow(table, as_of_write_id=5).read_all().num_rows == 4

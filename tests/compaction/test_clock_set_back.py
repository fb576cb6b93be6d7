"""A clock that is set back hides nothing that was committed."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone

import pytest
from tests.compaction.world import World

from hiveacid import read_arrow
from hiveacid.errors import NotFoundError


def test_what_is_committed_stays_visible_when_the_clock_is_set_back(any_world: World) -> None:
    made = any_world
    with suppress(ZeroDivisionError), made.acid.transaction() as txn:
        txn.table("t").write_arrow([{"id": 0, "v": "aborted"}])
        raise ZeroDivisionError
    made.insert(1)
    made.insert(2)
    made.clock.advance_ms(10_000)
    made.client.own.run_housekeeping(interval_s=0)  # forgets whose write ids these were
    assert made.ids() == [1, 2]
    made.clock.advance_ms(-3_600_000)
    assert made.ids() == [1, 2]
    made.insert(3)
    assert made.ids() == [1, 2, 3]
    assert made.client.own.get_open_txns().open == ()


def test_a_commit_before_its_table_was_made_can_be_travelled_to(any_world: World) -> None:
    made = any_world
    made.clock.advance_ms(-3_600_000)
    made.insert(1)
    table = made.acid.table("t")
    (commit,) = table.history()
    then = datetime.fromtimestamp(commit.committed_ms / 1000, timezone.utc)
    assert read_arrow(table, as_of_time=then).read_all().num_rows == 1
    with pytest.raises(NotFoundError, match="was made later than that"):
        read_arrow(table, as_of_time=then - timedelta(seconds=1))

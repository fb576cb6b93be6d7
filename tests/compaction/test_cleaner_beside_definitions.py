"""A cleaner beside definitions: what lies at the place that it has listed stays its table's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.compaction.world import ACID, MAJOR, World

from hiveacid.compaction.cleaner import Cleaner, CleaningOutcome
from hiveacid.errors import LockError, StorageError
from hiveacid.session import Session
from hiveacid.statements.ddl import partitions


def _drop(world: World) -> None:
    world.acid.sql("drop table t")


def _rename(world: World) -> None:
    world.acid.sql("alter table t rename to u")


@pytest.mark.parametrize("goes", [_drop, _rename])
def test_a_table_that_comes_to_the_place_of_one_being_cleaned_keeps_its_files(
    any_world: World, goes: Callable[[World], None]
) -> None:
    world = any_world
    refused: list[LockError] = []

    def removing(_: str) -> None:
        try:
            goes(world)
            world.make()
            world.insert(7)
        except LockError as error:
            refused.append(error)

    for number in (1, 2):
        world.insert(number)
    world.compact(MAJOR)
    (done,) = world.clean(removing=removing)
    assert done.outcome is CleaningOutcome.CLEANED
    assert [str(one).count("(a cleaner)") for one in refused] == [1, 1]
    assert world.ids() == [1, 2]
    goes(world)
    world.make()
    world.insert(7)
    assert world.ids() == [7]


def test_what_a_drop_hides_and_puts_back_is_not_forgotten(
    any_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else rows of an aborted transaction would appear."""
    world = any_world
    world.make("p", f"partitioned by (k int) {ACID}")
    for number in (1, 2):
        world.insert(number, table="p", k="1")
    sleeper = Session(world.connect())
    aborted = sleeper.transaction()
    aborted.table("p").write_arrow([{"id": 3, "v": "aborted", "k": 1}])
    assert aborted.id is not None
    world.client.metastore.abort_txns([aborted.id])
    world.compact(MAJOR, "p", "k=1")
    hide = partitions.hide
    outcomes: list[CleaningOutcome] = []

    def hidden(*args: Any) -> None:
        hide(*args)
        outcomes.extend(one.outcome for one in world.clean())
        raise StorageError("the disk is full", path="/")

    monkeypatch.setattr(partitions, "hide", hidden)
    with pytest.raises(StorageError):
        world.acid.sql("alter table p drop partition (k=1)")
    assert outcomes == [CleaningOutcome.WAITING]
    world.clock.advance_ms(10_000)
    world.client.own.run_housekeeping(interval_s=0)
    assert world.ids("p") == [1, 2]
    (done,) = world.clean()
    assert done.outcome is CleaningOutcome.CLEANED
    assert len(done.removed) == 3
    assert world.ids("p") == [1, 2]


def test_a_cleaner_that_slept_removes_nothing_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = Cleaner._remove

    def then_slept(*args: Any) -> None:
        remove(*args)
        monkeypatch.setattr(Cleaner, "_remove", remove)
        world.clock.advance_ms(600_000)
        world.client.own.perform_timeouts()
        world.acid.sql("drop table t")
        world.make()
        for number in (7, 8):
            world.insert(number)

    monkeypatch.setattr(Cleaner, "_remove", then_slept)
    for number in (1, 2):
        world.insert(number)
    world.compact(MAJOR)
    (done,) = world.clean()
    assert done.outcome is not CleaningOutcome.CLEANED
    assert world.ids() == [7, 8]


def test_what_is_locked_exclusively_is_cleaned_later(world: World) -> None:
    for number in (1, 2):
        world.insert(number)
    world.compact(MAJOR)
    world.acid.sql("lock table t exclusive")
    (done,) = world.clean()
    assert done.outcome is CleaningOutcome.WAITING
    world.acid.sql("unlock table t")
    (done,) = world.clean()
    assert done.outcome is CleaningOutcome.CLEANED


def test_what_a_session_has_locked_itself_it_cleans_and_purges(world: World) -> None:
    for number in (1, 2):
        world.insert(number)
    world.acid.sql("lock table t exclusive")
    report = world.acid.table("t").purge(where="id = 1")
    assert (report.rows_deleted, report.rows_found) == (1, 0)
    world.acid.sql("unlock table t")
    assert world.ids() == [2]

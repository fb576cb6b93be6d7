"""What a compaction makes of a table's statistics: other files, the same rows."""

from __future__ import annotations

import pytest
from tests.compaction.world import ACID, INSERT_ONLY, MAJOR, MINOR, T, World

from hiveacid.compaction.worker import Outcome, Step
from hiveacid.model.commits import ColumnStatistics, StatisticsChange, accurate_columns
from hiveacid.model.compactions import CompactionType

FILES = ("numFiles", "totalSize")


def _properties(world: World, partition: str | None = None) -> dict[str, str]:
    if partition is None:
        return dict(world.client.metastore.get_table(T).properties)
    (found,) = world.client.metastore.list_partitions(T, statistics=True)
    return dict(found.properties)


def _row_count(world: World) -> int | None:
    store = world.client.metastore
    return store.row_count(T, store.valid_write_ids([T])[0])


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        (ACID, MINOR),
        (ACID, MAJOR),
        (ACID, CompactionType.REBALANCE),
        (INSERT_ONLY, MINOR),
        (INSERT_ONLY, MAJOR),
    ],
)
@pytest.mark.parametrize("partition", [None, "p=1"])
def test_files_are_counted_as_analyze_counts_them_and_rows_stay_known(
    world: World, kind: CompactionType, partition: str | None, what: str
) -> None:
    """Though somebody inserts meanwhile."""
    values = {} if partition is None else {"p": "1"}
    world.acid.sql("drop table t")
    world.make(what=what if partition is None else f"partitioned by (p string) {what}")
    for number in range(4):
        world.insert(2 * number, 2 * number + 1, **values)
    if what == ACID:
        world.delete(0, 3)
    rows = _row_count(world)
    assert rows == len(world.ids())

    def insert(step: Step) -> None:
        if step is Step.REWRITTEN and kind is not CompactionType.REBALANCE:
            world.insert(100, **values)

    world.request(kind, partition=partition)
    result = world.worker(reached=insert).run_next()
    assert result is not None
    assert result.outcome is Outcome.COMPACTED
    assert _row_count(world) == len(world.ids())
    after = _properties(world, partition)
    world.acid.sql("analyze table t compute statistics noscan")
    counted = _properties(world, partition)
    assert {name: after[name] for name in FILES} == {name: counted[name] for name in FILES}
    assert _row_count(world) == len(world.ids())


def test_statistics_of_columns_stay(world: World) -> None:
    world.insert(1, 2)
    world.insert(3)
    with world.client.transactions.begin() as txn:
        valid = txn.valid_write_ids(world.client.metastore.get_table(T))
        txn.write_id(T)
        found = ColumnStatistics("id", "int", nulls=0, distinct=3, long_low=1, long_high=3)
        change = StatisticsChange(T, None, 3, 2, 10, replaces=True, seen=valid, columns=(found,))
        txn.record_statistics([change])
        txn.commit()
    assert world.compact().outcome is Outcome.COMPACTED
    assert accurate_columns(_properties(world)) == {"id"}
    assert world.client.metastore.column_statistics(T, "id") == found
    world.insert(4)
    assert accurate_columns(_properties(world)) == frozenset()


def test_a_compaction_that_fails_changes_no_statistics(world: World) -> None:
    world.insert(1)
    world.insert(2)
    before = _properties(world)

    def die(step: Step) -> None:
        if step is Step.MARKED:
            raise OSError("the worker died")

    with pytest.raises(OSError, match="died"):
        world.compact(reached=die)
    assert _properties(world) == before


def test_what_was_overwritten_meanwhile_is_not_counted_off(world: World) -> None:
    for number in range(4):
        world.insert(number)

    def overwrite(step: Step) -> None:
        if step is Step.REWRITTEN:
            world.acid.sql("insert overwrite table t values (9, 'x')")

    assert world.compact(reached=overwrite).outcome is Outcome.COMPACTED
    after = _properties(world)
    assert after["numFiles"] == "1"
    world.acid.sql("analyze table t compute statistics noscan")
    assert {name: after[name] for name in FILES} == {
        name: _properties(world)[name] for name in FILES
    }
    assert _row_count(world) == 1

"""The past and the changes of tables whose rows came, went or moved without a commit of their own:
partitions that are added over files, renamed, moved or dropped, tables that are converted; and of
insert-only tables, whose compacted deltas do not tell rows of several versions apart.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.compaction.world import ACID, INSERT_ONLY, MAJOR, MINOR, World

from hiveacid import read_arrow, read_changes
from hiveacid.errors import AcidError, NotFoundError, SnapshotExpiredError
from hiveacid.model.history import AsOf
from hiveacid.model.tables import TableName
from hiveacid.past import rows_query
from hiveacid.session import Session
from hiveacid.statements.context import Bound, locked
from hiveacid.statements.job import Reader
from hiveacid.statements.select import needs

pytestmark = pytest.mark.long(
    "compaction", "layout", "metastore", "model", "past", "statements", "storage", "txn"
)

Rows = list[tuple[Any, ...]]


def _sql(made: World, *texts: str) -> None:
    for text in texts:
        made.clock.advance_ms(1_000)
        made.acid.sql(text)


def _rows(made: World, version: int | None, **asked: Any) -> Rows | str:
    """The rows of a version, or the name of the error."""
    try:
        found = read_arrow(made.acid.table("t"), as_of_write_id=version, **asked).read_all()
    except AcidError as error:
        return type(error).__name__
    return sorted(tuple(row.values()) for row in found.to_pylist())


def _all(made: World) -> list[Rows | str]:
    last = int(made.client.metastore.last_write_id(made.acid.table("t").name))
    return [_rows(made, version) for version in range(last + 1)]


def _changes(made: World, since: int, until: int | None = None) -> Rows | int | None:
    """What changed; or the version since which it can be told."""
    table = made.acid.table("t")
    try:
        found = read_changes(table, since=since, until=until).read_all().to_pylist()
    except SnapshotExpiredError as error:
        return error.context["write_id"]  # type: ignore[return-value]
    names = [*table.columns, "_change_type"]
    return sorted(tuple(row[name] for name in names) for row in found)


def _path(made: World, name: str = "") -> Path:
    return Path(made.acid.table("t").definition.location.removeprefix("file://")) / name


@pytest.fixture
def partitions(made: World) -> World:
    """Version 1 has partitions 0 and 1, version 2 more of 0."""
    _sql(
        made,
        f"create table t (id int) partitioned by (k int) {ACID}",
        "insert into t values (1, 0), (2, 1)",
        "insert into t values (3, 0)",
    )
    return made


def test_a_renamed_partition_has_its_old_name_in_older_versions(partitions: World) -> None:
    made = partitions
    first, second = [(1, 0), (2, 1)], [(1, 0), (2, 1), (3, 0)]
    _sql(
        made,
        "alter table t partition (k=1) rename to partition (k=7)",
        "insert into t values (4, 7), (5, 1)",
        "alter table t partition (k=7) rename to partition (k=8)",
    )
    renamed = [(1, 0), (2, 7), (3, 0)]
    later = [(1, 0), (2, 7), (3, 0), (4, 7), (5, 1)]
    assert _all(made)[:5] == [[], first, second, renamed, sorted(later)]
    assert _rows(made, None) == sorted([(1, 0), (2, 8), (3, 0), (4, 8), (5, 1)])
    assert _rows(made, 2, filter="k = 1") == [(2, 1)]
    assert _rows(made, 2, filter="k = 7") == _rows(made, 2, filter="k = 8") == []
    assert _changes(made, 0, 2) == [(1, 0, "insert"), (2, 1, "insert"), (3, 0, "insert")]
    assert _changes(made, 3, 4) == [(4, 7, "insert"), (5, 1, "insert")]
    assert _changes(made, 2, 4) == 5
    made.acid.table("t").restore(write_id=2)
    assert _rows(made, None) == second


def test_what_was_cleaned_of_a_partition_is_known_by_its_new_name(partitions: World) -> None:
    made = partitions
    made.acid.table("t").delete_arrow("id = 1")
    made.compact(MAJOR, partition="k=0")
    made.clock.advance_ms(2 * 86_400_000)
    made.cleaner().run_all()
    assert _all(made) == [[], *["SnapshotExpiredError"] * 2, [(2, 1), (3, 0)]]
    _sql(made, "alter table t partition (k=0) rename to partition (k=5)")
    assert _all(made) == [[], *["SnapshotExpiredError"] * 2, [(2, 1), (3, 0)], [(2, 1), (3, 5)]]
    _sql(made, "insert into t values (9, 0)")
    assert _rows(made, 5) == [(2, 1), (3, 5), (9, 0)]
    _sql(made, "alter table t drop partition (k=5)", "insert into t values (8, 5)")
    assert _rows(made, 7) == [(2, 1), (8, 5), (9, 0)]


def test_changes_of_a_dropped_partition_are_an_error(partitions: World) -> None:
    made = partitions
    _sql(
        made,
        "alter table t drop partition (k=1)",
        "insert into t values (4, 1)",
    )
    for since in (0, 1, 2):
        assert _changes(made, since) == _changes(made, since, 2) == 3
    for version in (1, 2):  # travel names the same one
        with pytest.raises(SnapshotExpiredError, match=r"k=1.* From 3 on it can") as failed:
            made.acid.table("t").restore(write_id=version)
        assert failed.value.context["oldest"] == 3
    assert _changes(made, 3) == [(4, 1, "insert")]
    assert _all(made) == [[], *["SnapshotExpiredError"] * 2, [(1, 0), (3, 0)],
                          [(1, 0), (3, 0), (4, 1)]]  # fmt: skip


@pytest.mark.parametrize("how", ["ADD PARTITION", "LOCATION", "MSCK"])
def test_a_partition_over_files_is_not_in_older_versions(partitions: World, how: str) -> None:
    made = partitions
    place = _path(made, "k=9") if how != "LOCATION" else _path(made).parent / "elsewhere"
    shutil.copytree(_path(made, "k=0"), place)
    texts = {
        "ADD PARTITION": "alter table t add partition (k=9)",
        "LOCATION": f"alter table t add partition (k=9) location 'file://{place}'",
        "MSCK": "msck repair table t",
    }
    _sql(made, texts[how])
    states = [[], [(1, 0), (2, 1)], [(1, 0), (2, 1), (3, 0)]]
    now = [(1, 0), (1, 9), (2, 1), (3, 0), (3, 9)]
    assert _all(made) == states
    assert _rows(made, None) == now
    _sql(made, "insert into t values (4, 9), (5, 10)")
    assert _all(made) == [*states, sorted([*now, (4, 9), (5, 10)])]
    assert _changes(made, 2) == 3
    assert _changes(made, 0, 2) == [(1, 0, "insert"), (2, 1, "insert"), (3, 0, "insert")]
    assert _changes(made, 3) == []


def test_an_empty_partition_is_no_change(partitions: World) -> None:
    _sql(partitions, "alter table t add partition (k=4)", "insert into t values (7, 4), (8, 5)")
    assert _changes(partitions, 2) == [(7, 4, "insert"), (8, 5, "insert")]


@pytest.mark.parametrize("keys", ["", "partitioned by (k int)"])
def test_a_moved_location_takes_the_versions_away(made: World, keys: str) -> None:
    which = "partition (k=0)" if keys else ""
    _sql(
        made,
        f"create table t (id int) {keys} {ACID}",
        f"insert into t {which} values (1)",
        f"insert into t {which} values (2)",
    )
    other = _path(made).parent / "elsewhere"
    shutil.copytree(_path(made, "k=0" if keys else ""), other)
    shutil.rmtree(other / "delta_0000001_0000001_0000")
    _sql(made, f"alter table t {which} set location 'file://{other}'")
    assert _all(made) == [[], "SnapshotExpiredError", "SnapshotExpiredError"]
    assert _changes(made, 0) is None
    _sql(made, f"insert into t {which} values (3)")
    assert _rows(made, 3) == [(2, 0), (3, 0)] if keys else [(2,), (3,)]
    assert _changes(made, 0) == 3


def test_a_converted_table_has_no_versions_before_that(made: World) -> None:
    _sql(made, "create table t (id int, v string) stored as orc")
    made.clock.advance_ms(5_000)
    before = made.clock.now_ms()
    table = made.acid.table("t")
    _sql(made, "alter table t set tblproperties ('transactional'='true')")
    after = made.clock.now_ms()
    _sql(made, "insert into t values (1, 'a')")
    with pytest.raises(NotFoundError, match="became transactional later than that"):
        read_arrow(table, as_of_time=_text(before))
    assert read_arrow(table, as_of_time=_text(after)).read_all().num_rows == 0
    assert [_rows(made, one) for one in (0, 10_000_001)] == [[], [(1, "a")]]


def test_what_came_before_a_table_was_converted_is_in_its_version_0(made: World) -> None:
    _sql(
        made,
        "create table t (id int) partitioned by (k int) stored as orc",
        "alter table t add columns (v string)",
        "insert into t values (1, 'a', 0), (2, 'b', 1), (3, 'c', 2)",
        "alter table t drop partition (k=2)",
        "alter table t partition (k=1) rename to partition (k=7)",
    )
    shutil.copytree(_path(made, "k=0"), _path(made, "k=3"))
    _sql(made, "msck repair table t", "alter table t convert to acid")
    first = [(1, "a", 0), (1, "a", 3), (2, "b", 7)]
    assert _rows(made, 0) == first
    made.acid.table("t").delete_arrow("id = 1 and k = 3")
    assert [_rows(made, one) for one in (0, 10_000_001)] == [first, [(1, "a", 0), (2, "b", 7)]]
    assert _changes(made, 0) == [(1, "a", 3, "delete")]


def _text(epoch_ms: int) -> str:
    from datetime import datetime, timezone

    return datetime.fromtimestamp(epoch_ms / 1000, timezone.utc).isoformat()


@pytest.mark.parametrize("keys", ["", "partitioned by (k int)"])
def test_compacted_rows_of_insert_only_tables_are_in_their_versions(made: World, keys: str) -> None:
    which = "partition (k=0)" if keys else ""
    _sql(made, f"create table t (id int) {keys} {INSERT_ONLY}")
    states: list[Rows | str] = [[]]

    def more(*ids: int) -> None:
        for one in ids:
            _sql(made, f"insert into t {which} values ({one})")
            states.append(sorted([*states[-1], (one, 0) if keys else (one,)]))  # type: ignore[misc]

    partition = "k=0" if keys else None
    more(1, 2, 3)
    made.compact(MINOR, partition=partition)
    more(4, 5)
    made.compact(MINOR, partition=partition)
    assert _all(made) == states
    made.compact(MAJOR, partition=partition)
    more(6, 7)
    made.compact(MINOR, partition=partition)
    assert _all(made) == states
    assert _changes(made, 0, 2) == [(*row, "insert") for row in states[2]]
    made.clock.advance_ms(2 * 86_400_000)
    made.cleaner().run_all()
    left = _all(made)
    assert left[7] == states[7]
    assert left[1:5] == ["SnapshotExpiredError"] * 4
    assert all(one in (state, "SnapshotExpiredError") for one, state in zip(left, states))  # noqa: B905


def test_rows_of_what_minor_compactions_replaced_are_an_error_once_cleaned(made: World) -> None:
    _sql(made, f"create table t (id int) {INSERT_ONLY}")
    _sql(made, *(f"insert into t values ({one})" for one in (1, 2, 3)))
    made.compact(MINOR)
    made.clock.advance_ms(2 * 86_400_000)
    made.cleaner().run_all()
    _sql(made, "insert into t values (4)")
    gone = "SnapshotExpiredError"
    assert _all(made) == [[], gone, gone, [(1,), (2,), (3,)], [(1,), (2,), (3,), (4,)]]


@pytest.mark.parametrize(
    "change", ["drop partition (k=1)", "partition (k=1) rename to partition (k=7)"]
)
def test_what_happens_to_partitions_before_a_query_has_its_locks_is_known_to_it(
    made: World, change: str
) -> None:
    _sql(made, f"create table t (id int) partitioned by (k int) {ACID}")
    _sql(made, "insert into t values (1, 0), (2, 1)")
    context = made.acid.reading_context()
    query = rows_query(TableName("default", "t"), row_ids=False, wanted=AsOf(write_id=1))
    bound = Bound.to(context.look(), query)
    Session(made.connect()).sql(f"alter table t {change}")
    held = locked(context, bound, needs, read_only=True)
    (ref,) = held.value.tables.values()
    try:
        plan = Reader(context=context, txn=held.txn, view=held.view).plan_of(ref)
        found = [part.part.partition.values for part in plan.parts]
    except SnapshotExpiredError:
        found = []
    held.txn.close()
    assert found == ([] if "drop" in change else [("0",), ("1",)])

"""RESTORE of bucketed tables, and beside others who write."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from tests.compaction.world import ACID, MAJOR, World

from hiveacid import read_arrow
from hiveacid.errors import ConflictError, LockError
from hiveacid.settings import Settings

State = dict[int, str]


@pytest.fixture
def made(world_with: Callable[..., World]) -> World:
    """On each kind of database, files are kept for a day."""
    settings = Settings(retention_s=86_400.0, lock_timeout_s=1.0)
    return world_with(settings)


def _rows(made: World, **version: int) -> State:
    found = read_arrow(made.acid.table("t"), columns=["id", "v"], **version).read_all()
    return dict(zip(*(found[name].to_pylist() for name in ("id", "v")), strict=True))


def _put(made: World, rows: State) -> None:
    data = {"id": pa.array(list(rows), pa.int32()), "v": list(rows.values())}
    made.acid.table("t").merge_arrow(pa.table(data), on="id")


def _buckets(made: World) -> dict[int, int]:
    found = read_arrow(made.acid.table("t"), columns=["id"], row_ids=True).read_all().to_pylist()
    return {row["id"]: (row["row__id"]["bucketid"] >> 16) & 0xFFF for row in found}


def test_rows_of_a_restored_table_lie_in_their_buckets(made: World) -> None:
    made.make("t", f"clustered by (id) into 3 buckets {ACID}")
    first = {number: f"v{number}" for number in range(20)}
    _put(made, first)
    places = _buckets(made)
    assert len(set(places.values())) == 3
    made.acid.table("t").delete_arrow("id < 10")
    _put(made, {12: "changed", 30: "new"})
    made.compact(MAJOR)

    made.acid.table("t").restore(write_id=1)

    assert _rows(made) == first
    assert _buckets(made) == places
    found = read_arrow(made.acid.table("t"), columns=["v"], filter="id = 12").read_all()
    assert found["v"].to_pylist() == ["v12"]
    _put(made, {12: "again"})
    made.acid.table("t").delete_arrow("id = 13")
    assert _rows(made) == {**{k: v for k, v in first.items() if k != 13}, 12: "again"}
    made.acid.table("t").restore(write_id=3)
    assert _rows(made) == _rows(made, as_of_write_id=3)


def test_an_open_writer_and_a_restore_never_both_win(made: World) -> None:
    made.make("t")
    _put(made, {1: "a"})
    _put(made, {1: "b"})
    writer = made.acid.over(None)
    writer.sql("start transaction")
    writer.sql("insert into t values (2, 'of the writer')")
    try:
        made.acid.table("t").restore(write_id=1)
        restored = True
    except LockError:
        restored = False
    try:
        writer.sql("commit")
        committed = True
    except ConflictError:
        writer.sql("rollback")
        committed = False
    assert restored is not committed
    assert _rows(made) == ({1: "a"} if restored else {1: "b", 2: "of the writer"})


def test_a_writer_that_read_before_a_restore_conflicts(made: World) -> None:
    made.make("t")
    _put(made, {1: "a"})
    _put(made, {1: "b"})
    writer = made.acid.over(None)
    writer.sql("start transaction")
    assert read_arrow(writer.table("t")).read_all().num_rows == 1  # its snapshot
    try:
        made.acid.table("t").restore(write_id=1)
    except LockError:
        writer.sql("rollback")
        return
    with pytest.raises(ConflictError):
        writer.table("t").delete_arrow("id = 1")
        writer.sql("commit")
    assert _rows(made) == {1: "a"}


def test_a_time_may_be_told_from_the_time_of_the_statement(made: World) -> None:
    made.make()
    made.insert(1)
    made.clock.advance_ms(7_200_000)
    made.insert(2)
    made.acid.sql("create tag early on t as of timestamp current_timestamp() - interval 1 hour")
    assert _rows(made, as_of_tag="early") == {1: "new"}
    made.acid.sql("restore table t to timestamp as of now() - interval '90' minutes")
    assert _rows(made) == {1: "new"}

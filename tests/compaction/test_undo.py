"""Transactions taken back, compared with what the tables were before them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from tests.compaction.world import ACID, INSERT_ONLY, MAJOR, World

from hiveacid import read_arrow
from hiveacid.errors import (
    ChangedSinceError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from hiveacid.model.compactions import CompactionType
from hiveacid.session import Session

pytestmark = pytest.mark.long(
    "compaction", "layout", "metastore", "model", "past", "statements", "storage", "txn"
)

State = dict[int, str]


def _rows(acid: Session, table: str = "t") -> State:
    found = read_arrow(acid.table(table), columns=["id", "v"]).read_all().to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["v"] for row in found}


def _put(table: Any, rows: State) -> None:
    """Insert or update."""
    data = {"id": pa.array(list(rows), pa.int32()), "v": pa.array(list(rows.values()), pa.string())}
    table.merge_arrow(pa.table(data), on="id")


def _last(acid: Session, table: str = "t") -> int:
    return int(acid.table(table).history(limit=1)[0].txn)


def test_all_tables_of_a_transaction_are_taken_back_and_that_too(
    made: World, acid: Session
) -> None:
    made.make("t")
    made.make("u", "partitioned by (p string) " + ACID)
    _put(acid.table("t"), {1: "a", 2: "b", 3: "c"})
    acid.sql("insert into u values (1, 'x', 'p1'), (2, 'y', 'p2')")
    before = _rows(acid), _rows(acid, "u")
    with acid.transaction() as txn:
        _put(txn.table("t"), {2: "changed", 4: "new"})
        txn.table("t").delete_arrow("id = 3")
        txn.table("u").delete_arrow("p = 'p1'")
        txn.sql("insert into u values (9, null, 'p3')")
    done = _last(acid)
    after = _rows(acid), _rows(acid, "u")

    found = acid.undo(done)

    assert [(one.table, one.deleted, one.inserted) for one in found] == [
        ("default.t", 2, 2),
        ("default.u", 1, 1),
    ]
    assert (_rows(acid), _rows(acid, "u")) == before
    assert acid.table("t").history(limit=1)[0].facts.kind == f"UNDO {done}"

    acid.sql(f"undo transaction {_last(acid)}")

    assert (_rows(acid), _rows(acid, "u")) == after


def test_rows_changed_since_are_named_and_nothing_is_done(made: World, acid: Session) -> None:
    made.make("t")
    made.make("u")
    with acid.transaction() as txn:
        _put(txn.table("t"), {1: "a", 2: "b"})
        _put(txn.table("u"), {1: "a"})
    done = _last(acid)
    _put(acid.table("t"), {2: "later"})

    with pytest.raises(ChangedSinceError, match=r"1 rows .*'id': 2, 'v': 'b'") as failed:
        acid.undo(done)
    (row,) = failed.value.rows
    assert (row.table, row.left, row.now) == ("default.t", {"id": 2, "v": "b"}, None)

    with pytest.raises(ChangedSinceError) as failed:
        acid.undo(done, key="ID")
    (row,) = failed.value.rows
    assert row.now == {"id": 2, "v": "later"}
    assert (_rows(acid), _rows(acid, "u")) == ({1: "a", 2: "later"}, {1: "a"})
    with pytest.raises(NotFoundError, match="no column"):
        acid.undo(done, key="nothing")


def test_a_deleted_row_that_is_there_again_stands_in_the_way(made: World, acid: Session) -> None:
    made.make("t", columns="id int, v string, primary key (id) disable novalidate rely")
    _put(acid.table("t"), {1: "a"})
    acid.table("t").delete_arrow("id = 1")
    done = _last(acid)
    _put(acid.table("t"), {1: "b"})

    with pytest.raises(ChangedSinceError) as failed:
        acid.undo(done)

    (row,) = failed.value.rows
    assert (row.left, row.now) == (None, {"id": 1, "v": "b"})


@pytest.mark.parametrize("seed", range(3))
def test_a_history_is_taken_back_transaction_by_transaction(
    made: World, acid: Session, seed: int
) -> None:
    chance = random.Random(seed)
    made.make("t")
    states, done = [], []
    for _ in range(12):
        states.append(_rows(acid))
        keys = [chance.randrange(8) for _ in range(3)]
        with acid.transaction() as txn:
            table = txn.table("t")
            kind = chance.randrange(4)
            if kind == 0:
                table.delete_arrow(f"id in ({', '.join(map(str, keys))})")
            elif kind == 1:
                table.write_arrow(
                    pa.table({"id": pa.array([keys[0]], pa.int32()), "v": ["only"]}), overwrite=True
                )
            else:
                _put(table, {key: chance.choice("abc") for key in keys})
        if txn.id is not None and _rows(acid) != states[-1]:
            done.append((txn.id, states[-1]))
        if chance.random() < 0.3:
            made.compact(MAJOR)
    for txn_id, state in reversed(done):
        acid.undo(txn_id, key="id")
        assert _rows(acid) == state
        if chance.random() < 0.3:
            made.compact(CompactionType.REBALANCE)


def test_after_a_sorted_rebalance_a_key_tells_rows(made: World, acid: Session) -> None:
    made.make("t")
    made.insert(1, 2)
    first = _last(acid)
    made.insert(1, 3)
    last = _last(acid)
    acid.table("t").compact("rebalance", order_by="id desc")
    made.worker().run_next()

    with pytest.raises(UnsupportedError, match="rebalance"):
        acid.undo(last)  # of two equal rows with one write id
    with pytest.raises(ChangedSinceError, match="2 rows"):
        acid.undo(first)
    acid.table("t").delete_arrow("id = 1")
    made.insert(1)
    acid.undo(last, key="id")

    assert _rows(acid) == {2: "new"}


def test_equal_rows_nulls_and_nested_values_come_back_as_they_were(
    made: World, acid: Session, tmp_path: Path
) -> None:
    columns = "id int, f double, l array<string>, m map<string,int>, s struct<x:int>, n timestamp"
    made.make("t", columns=columns)
    moment = pa.scalar(1_700_000_000_123_456_789, pa.timestamp("ns"))
    rows = pa.table(
        {
            "id": pa.array([1, 1, None], pa.int32()),
            "f": [float("nan"), float("nan"), None],
            "l": pa.array([["a", None], ["a", None], None]),
            "m": pa.array([[("k", 1)], [("k", 1)], None], pa.map_(pa.string(), pa.int32())),
            "s": pa.array([{"x": 1}, {"x": 1}, None], pa.struct([("x", pa.int32())])),
            "n": pa.array([moment.value, moment.value, None], pa.timestamp("ns")),
        }
    )
    table, path = acid.table("t"), tmp_path / "rows.orc"
    orc.write_table(rows, path)  # what Hive may have: our own writers refuse nanoseconds
    table.load(str(path), local=True)
    first = _last(acid)
    before = read_arrow(table).read_all()
    acid.sql("truncate table t")

    acid.undo(_last(acid))

    assert str(read_arrow(table).read_all().to_pylist()) == str(before.to_pylist())
    with pytest.raises(ChangedSinceError, match="3 rows"):
        acid.undo(first)  # the same values, other rows


def test_what_cannot_be_undone_says_why(made: World, acid: Session) -> None:
    made.make("t")
    with pytest.raises(NotFoundError, match="No commit of transaction 999"):
        acid.undo(999)
    for text, told in {
        "add columns (k int)": r"ADD COLUMNS of default\.t \(k int was added\)",
        "change k l bigint": r"\(k was renamed to l\)",
        "change l l decimal(20,0)": r"\(l was bigint\)",
    }.items():
        acid.sql(f"alter table t {text}")
        with pytest.raises(InvalidInputError, match=told):
            acid.undo(_last(acid))
    made.insert(1)
    done = _last(acid)
    acid.sql("drop table t")
    made.make("t")
    with pytest.raises(NotFoundError, match="dropped"):
        acid.undo(done)


def test_undo_goes_by_the_name_and_the_columns_of_today(made: World, acid: Session) -> None:
    made.make("t")
    made.insert(1, 2)
    made.delete(2)
    done = _last(acid)
    acid.sql("alter table t add columns (k int)")
    acid.sql("alter table t rename to other")

    acid.undo(done)

    assert _rows(acid, "other") == {1: "new", 2: "new"}


def test_undo_is_part_of_an_open_transaction(made: World, acid: Session) -> None:
    made.make("t")
    made.insert(1)
    done = _last(acid)
    with acid.transaction() as txn:
        txn.sql(f"undo transaction {done}")
        txn.rollback()
    assert _rows(acid) == {1: "new"}


@pytest.mark.parametrize("keys", ["", "partitioned by (p string) "])
def test_rows_of_insert_only_tables_are_told_by_their_values(
    made: World, acid: Session, keys: str
) -> None:
    made.make("i", keys + INSERT_ONLY)
    values = {"p": "a"} if keys else {}
    made.insert(1, 1, 2, table="i", **values)
    made.insert(1, 3, table="i", **values)
    done = _last(acid, "i")
    made.insert(4, table="i", **({"p": "b"} if keys else {}))
    other = _last(acid, "i")

    (found,) = acid.undo(done)

    assert (found.deleted, found.inserted) == (2, 0)
    assert made.ids("i") == [1, 1, 2, 4]
    undone = _last(acid, "i")
    acid.undo(other)
    assert made.ids("i") == [1, 1, 2]
    acid.undo(undone)
    assert made.ids("i") == [1, 1, 1, 2, 3]
    assert acid.table("i").history(limit=1)[0].facts.kind.startswith("UNDO ")


def test_an_overwrite_and_rows_gone_since_of_an_insert_only_table(
    made: World, acid: Session
) -> None:
    made.make("i", INSERT_ONLY)
    made.make("t")
    made.insert(1, 2, table="i")
    with acid.transaction() as txn:
        txn.sql("insert overwrite table i values (3, 'x')")
        txn.sql("insert into t values (1, 'a')")
    done = _last(acid, "i")
    made.insert(5, table="i")

    acid.undo(done)

    assert (made.ids("i"), made.ids("t")) == ([1, 2, 5], [])
    with pytest.raises(ChangedSinceError, match="is undone already"):
        acid.undo(done)
    assert made.ids("i") == [1, 2, 5]


@pytest.mark.parametrize("kind", [ACID, INSERT_ONLY])
def test_what_was_deleted_comes_back_once(made: World, acid: Session, kind: str) -> None:
    made.make("d", kind)
    made.insert(1, 2, table="d")
    acid.sql("truncate table d")
    done = _last(acid, "d")
    acid.undo(done)
    undone = _last(acid, "d")
    for _ in range(2):
        with pytest.raises(ChangedSinceError, match=f"undone already, by transaction {undone}"):
            acid.undo(done)
    assert made.ids("d") == [1, 2]
    acid.undo(undone)
    with pytest.raises(ChangedSinceError, match="undone already"):
        acid.undo(undone)
    assert made.ids("d") == []
    acid.undo(done)  # it is done again
    assert made.ids("d") == [1, 2]


def test_of_two_who_undo_one_transaction_at_once_one_does(made: World, acid: Session) -> None:
    made.make("d")
    made.insert(1, 2, table="d")
    acid.table("d").delete_arrow("id = 1")
    done = _last(acid, "d")
    other = acid.over(None)
    other.sql("start transaction")
    other.sql(f"undo transaction {done}")
    acid.undo(done)
    with pytest.raises(ConflictError, match="already"):
        other.sql("commit")
    assert made.ids("d") == [1, 2]


def test_an_undo_of_an_insert_only_table_loses_no_rows_of_others(made: World) -> None:
    made.make("i", INSERT_ONLY)
    made.insert(1, table="i")
    done = _last(made.acid, "i")
    undoing = made.acid.over(None)
    undoing.sql("start transaction")
    assert read_arrow(undoing.table("i")).read_all().num_rows == 1  # its snapshot
    made.insert(7, table="i")

    with pytest.raises(ConflictError):
        undoing.sql(f"undo transaction {done}")
        undoing.sql("commit")
    assert made.ids("i") == [1, 7]

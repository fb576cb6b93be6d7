"""Reading the past without Spark: a table as it was after each of its commits, compared with a
dictionary, whatever compactions, cleaners, overwrites and new columns came since.
"""

from __future__ import annotations

import random
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.compaction.world import ACID, MAJOR, MINOR, T, World

from hiveacid import read_arrow
from hiveacid.errors import (
    InvalidInputError,
    NotFoundError,
    SnapshotExpiredError,
)
from hiveacid.model.compactions import CompactionType
from hiveacid.session import Session

Model = dict[int, tuple[str, int]]


def _two_days_later(made: World) -> None:
    """Whatever was replaced is cleaned."""
    made.clock.advance_ms(2 * 86_400_000)
    made.cleaner().run_all()


def _rows(acid: Session, write_id: int | None, table: str = "t") -> Model:
    found = read_arrow(acid.table(table), columns=["id", "v", "k"], as_of_write_id=write_id)
    return {row["id"]: (row["v"], row["k"]) for row in found.read_all().to_pylist()}


def _insert(acid: Session, rows: Model) -> Any:
    ids = list(rows)
    columns = {"id": ids, "v": [rows[i][0] for i in ids], "k": [rows[i][1] for i in ids]}
    kinds = [("id", pa.int32()), ("v", pa.string()), ("k", pa.int32())]
    return acid.table("t").write_arrow(pa.table(columns, schema=pa.schema(kinds)))


def _step(acid: Session, chance: random.Random, now: Model, keys: int) -> Model | None:
    """One change of the table and of its model; None where no version came of it."""
    table = acid.table("t")
    kind = chance.choice(["insert"] * 3 + ["delete"] * 2 + ["update"] * 2 + ["other"])
    if kind == "insert" or not now:
        new = {chance.randrange(10_000): (f"v{chance.randrange(99)}", chance.randrange(keys))}
        new |= {key + 10_000: value for key, value in new.items()}
        new = {key: value for key, value in new.items() if key not in now}
        _insert(acid, new)
        return now | new
    if kind == "delete":
        gone = chance.choice(sorted(now))
        table.delete_arrow(f"id = {gone}")
        return {key: value for key, value in now.items() if key != gone}
    if kind == "update":
        key = chance.choice(sorted(now))
        changed = (f"u{chance.randrange(99)}", now[key][1])
        source = pa.table({"id": pa.array([key], pa.int32()), "v": [changed[0]]})
        table.merge_arrow(source.append_column("k", pa.array([changed[1]], pa.int32())), on="id")
        return now | {key: changed}
    if chance.random() < 0.5:
        acid.sql("truncate table t")
        return {}
    kept = {7: ("only", 0)}
    if keys == 1:
        acid.sql("insert overwrite table t values (7, 'only', 0)")
        return kept
    acid.sql("insert overwrite table t partition (k=0) values (7, 'only')")
    return {key: value for key, value in now.items() if value[1] != 0} | kept


def _history(made: World, seed: int, keys: int) -> None:
    acid, chance = made.acid, random.Random(seed)
    table = acid.table("t")
    now: Model = {}
    versions: dict[int, Model] = {0: now}
    for _ in range(16):
        now = _step(acid, chance, now, keys) or {}
        versions[int(acid.client.metastore.last_write_id(table.name))] = now
        if chance.random() < 0.25:
            for kind in chance.choice(([MINOR], [MAJOR], [MINOR, MAJOR])):
                _compacted(made, kind, keys)
    for write_id, then in versions.items():
        assert _rows(acid, write_id) == then, (seed, write_id)
    _two_days_later(made)
    left = {write_id: _rows_or_none(acid, write_id) for write_id in versions}
    told = {write_id for write_id, found in left.items() if found is None}
    assert all(left[one] == versions[one] for one in versions.keys() - told), seed
    assert _rows(acid, None) == now
    assert 0 < len(told) < len(versions)


def _rows_or_none(acid: Session, write_id: int) -> Model | None:
    try:
        return _rows(acid, write_id)
    except SnapshotExpiredError as error:
        assert f"Version {write_id} of default.t is not there any more" in str(error)
        return None


def _compacted(made: World, kind: CompactionType, keys: int) -> None:
    names = [None] if keys == 1 else [f"k={value}" for value in range(keys)]
    known = {one.values for one in made.client.metastore.list_partitions(T)} if keys > 1 else ()
    for name in names:
        if name is None or (name.partition("=")[2],) in known:
            made.compact(kind, partition=name)


@pytest.mark.parametrize("seed", range(3))
def test_every_version_is_what_it_was(made: World, seed: int) -> None:
    made.acid.sql(f"create table t (id int, v string, k int) {ACID}")
    _history(made, seed, 1)


@pytest.mark.parametrize("seed", range(2))
def test_every_version_of_partitions_is_what_it_was(made: World, seed: int) -> None:
    made.acid.sql(f"create table t (id int, v string) partitioned by (k int) {ACID}")
    _history(made, seed, 3)


def test_a_version_has_what_was_committed_then_not_what_has_a_lower_write_id(made: World) -> None:
    acid = made.acid
    acid.sql(f"create table t (id int, v string, k int) {ACID}")
    with acid.transaction() as slow:
        slow.sql("insert into t values (1, 'slow', 0)")
        acid.sql("insert into t values (2, 'quick', 0)")
    assert _rows(acid, 2) == {2: ("quick", 0)}
    assert _rows(acid, 1) == {1: ("slow", 0), 2: ("quick", 0)}
    for kind in (MINOR, MAJOR):
        made.compact(kind)
        assert _rows(acid, 2) == {2: ("quick", 0)}
        acid.sql("insert into t values (3, 'more', 0)")
    _two_days_later(made)
    assert _rows(acid, 3) == {1: ("slow", 0), 2: ("quick", 0), 3: ("more", 0)}
    for gone in (1, 2):
        with pytest.raises(SnapshotExpiredError, match="oldest version that is there is 3, of"):
            _rows(acid, gone)


def test_rows_of_then_have_the_columns_of_then(made: World) -> None:
    acid = made.acid
    acid.sql(f"create table t (id int, v string, k int) {ACID}")
    first = acid.sql("insert into t values (1, 'a', 0)")
    acid.sql("alter table t change v name string")
    second = acid.sql("insert into t values (2, 'b', 0)")
    acid.sql("alter table t add columns (more int)")
    third = acid.sql("insert into t values (3, 'c', 0, 5)")
    versions = [one.write_id for one in (first, second, third)]
    for kind in (None, MINOR, MAJOR):
        if kind:
            made.compact(kind)
        read = [read_arrow(acid.table("t"), as_of_write_id=one).read_all() for one in versions]
        assert [one.sort_by("id").to_pylist() for one in read] == [
            [{"id": 1, "v": "a", "k": 0}],
            [{"id": 1, "name": "a", "k": 0}, {"id": 2, "name": "b", "k": 0}],
            [
                {"id": 1, "name": "a", "k": 0, "more": None},
                {"id": 2, "name": "b", "k": 0, "more": None},
                {"id": 3, "name": "c", "k": 0, "more": 5},
            ],
        ]


def test_a_rename_is_a_version_as_every_other_change_of_a_definition(acid: Session) -> None:
    acid.sql(f"create table t (id int, v string, k int) {ACID}")
    acid.sql("insert into t values (1, 'a', 0)")
    acid.sql("alter table t rename to u")
    acid.sql("insert into u values (2, 'b', 0)")
    kinds = [one.facts.kind for one in acid.table("u").history()]
    assert kinds == ["INSERT", "RENAME TABLE", "INSERT"]
    assert [len(_rows(acid, version, "u")) for version in range(4)] == [0, 1, 1, 2]


def test_many_tables_at_one_transaction(acid: Session) -> None:
    for name in ("t", "u"):
        acid.sql(f"create table {name} (id int, v string, k int) {ACID}")
    acid.sql("insert into t values (1, 'a', 0)")
    with acid.transaction() as both:
        both.sql("insert into t values (2, 'b', 0)")
        both.sql("insert into u values (5, 'c', 0)")
        number = both.id
    acid.table("t").delete_arrow("id = 1")
    acid.sql("insert into u values (6, 'd', 0)")
    past = acid.at(number)
    read = {name: read_arrow(past.table(name), columns=["id"]).read_all() for name in ("t", "u")}
    assert {name: sorted(rows["id"].to_pylist()) for name, rows in read.items()} == {
        "t": [1, 2],
        "u": [5],
    }
    with pytest.raises(NotFoundError, match="No commit of transaction 999"):
        acid.at(999)
    with pytest.raises(InvalidInputError, match="The past can be queried alone"):
        past.sql("insert into t values (7, 'x', 0)")


@pytest.mark.parametrize(
    ("wanted", "error", "words"),
    [
        ({"as_of_write_id": 9}, NotFoundError, "no version 9: its last write id is 1"),
        ({"as_of_write_id": -1}, NotFoundError, "no version -1"),
        ({"as_of_write_id": "1"}, InvalidInputError, "whole number, not '1'"),
        ({"as_of_write_id": True}, InvalidInputError, "whole number, not True"),
        ({"as_of_tag": "q3"}, NotFoundError, "has no tag q3: it has none"),
        ({"as_of_time": "yesterday"}, InvalidInputError, "'yesterday' is no time"),
        ({"as_of_time": "2001-01-01"}, NotFoundError, "was made later than that"),
        ({"as_of_write_id": 1, "as_of_time": "2001-01-01"}, InvalidInputError, "not by write id"),
    ],
)
def test_what_is_no_version_is_told(
    acid: Session, wanted: dict[str, Any], error: type[Exception], words: str
) -> None:
    acid.sql(f"create table t (id int, v string, k int) {ACID}")
    acid.sql("insert into t values (1, 'a', 0)")
    with pytest.raises(error, match=words):
        read_arrow(acid.table("t"), **wanted)


def test_a_table_of_an_old_name_has_its_own_past(acid: Session) -> None:
    for text in ("insert into t values (1, 'a', 0)", "insert into t values (2, 'b', 0)"):
        acid.sql(f"create table if not exists t (id int, v string, k int) {ACID}")
        acid.sql(text)
    acid.sql("drop table t")
    acid.sql(f"create table t (id int, v string, k int) {ACID}")
    acid.sql("insert into t values (3, 'c', 0)")
    assert _rows(acid, 1) == {3: ("c", 0)}
    with pytest.raises(NotFoundError, match="no version 2"):
        _rows(acid, 2)


def test_a_clock_that_is_set_back_between_commits_hides_no_version(made: World) -> None:
    acid = made.acid
    acid.sql(f"create table t (id int, v string, k int) {ACID}")
    for number, step_ms in enumerate((60_000, -50_000, 5_000, 60_000), 1):
        made.clock.advance_ms(step_ms)
        _insert(acid, {number: ("a", 0)})
    commits = acid.table("t").history()
    times = [one.committed_ms for one in commits if one.committed_ms is not None]
    assert times == sorted(times, reverse=True)
    for at, ids in ((times[0], [1, 2, 3, 4]), (times[0] - 1, [1, 2, 3]), (times[-1] - 1, [])):
        moment = datetime.fromtimestamp(at / 1000, timezone.utc)
        found = read_arrow(acid.table("t"), columns=["id"], as_of_time=moment).read_all()
        assert sorted(found["id"].to_pylist()) == ids
    acid.table("t").restore(time=datetime.fromtimestamp(times[1] / 1000, timezone.utc))
    assert sorted(_rows(acid, None)) == [1, 2, 3]


def test_a_restored_table_is_as_it_was_and_goes_on(made: World) -> None:
    acid = made.acid
    acid.sql(f"create table t (id int, v string, k int) {ACID}")
    _insert(acid, {1: ("a", 0), 2: ("b", 0)})
    acid.sql("alter table t change v name string")
    acid.sql("alter table t add columns (more int)")
    acid.table("t").delete_arrow("id = 1")
    acid.sql("restore table t to version as of 1")
    rows = read_arrow(acid.table("t")).read_all().sort_by("id").to_pylist()
    assert rows == [
        {"id": 1, "name": "a", "k": 0, "more": None},
        {"id": 2, "name": "b", "k": 0, "more": None},
    ]
    undone = acid.table("t").history()[1].write_id
    acid.table("t").restore(write_id=undone)
    assert read_arrow(acid.table("t"), columns=["id"]).read_all().to_pylist() == [{"id": 2}]
    with pytest.raises(NotFoundError, match="no version 99"):
        acid.sql("restore table t to version as of 99")


def test_columns_that_changed_their_names_with_each_other_are_restored_by_place(
    made: World,
) -> None:
    acid = made.acid
    acid.sql(f"create table t (id int, a string, b string) {ACID}")
    acid.sql("insert into t values (1, 'of a', 'of b')")
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        acid.sql(f"alter table t change {old} {new} string")
    before = read_arrow(acid.table("t")).read_all().to_pylist()
    acid.sql("truncate table t")
    acid.sql("restore table t to version as of 1")
    assert read_arrow(acid.table("t")).read_all().to_pylist() == before


def test_columns_of_another_type_are_restored_as_their_files_show_them(made: World) -> None:
    acid = made.acid
    acid.sql(f"create table t (id int, s struct<x:int>, d decimal(6,2)) {ACID}")
    acid.table("t").write_arrow([{"id": 1, "s": {"x": 5}, "d": Decimal("1.50")}])
    acid.sql("alter table t change s s struct<x:bigint,y:string>")
    acid.sql("alter table t change d d string")
    before = read_arrow(acid.table("t")).read_all().to_pylist()
    assert before == [{"id": 1, "s": {"x": 5, "y": None}, "d": "1.5"}]
    acid.sql("truncate table t")
    acid.sql("restore table t to version as of 1")
    assert read_arrow(acid.table("t")).read_all().to_pylist() == before
    then = read_arrow(acid.table("t"), as_of_write_id=1).read_all().to_pylist()
    assert then == [{"id": 1, "s": {"x": 5}, "d": Decimal("1.50")}]


def test_before_the_first_commit_a_table_is_empty_whatever_was_aborted(made: World) -> None:
    acid = made.acid
    acid.sql(f"create table t (id int, v string, k int) {ACID}")
    made.clock.advance_ms(1_000)
    created = made.clock.now_ms() / 1000
    acid.sql("start transaction")
    acid.sql("insert into t values (1, 'a', 0)")
    acid.sql("rollback")
    made.clock.advance_ms(1_000)
    found = read_arrow(acid.table("t"), as_of_time=datetime.fromtimestamp(created, timezone.utc))
    assert found.read_all().num_rows == 0
    made.clock.advance_ms(1_000)
    acid.sql("insert into t values (2, 'b', 0)")
    found = read_arrow(acid.table("t"), as_of_time=datetime.fromtimestamp(created, timezone.utc))
    assert found.read_all().num_rows == 0
    assert _rows(acid, 0) == {}


def test_a_restored_table_has_the_partitions_of_then(made: World) -> None:
    acid = made.acid
    acid.sql(f"create table t (id int, v string) partitioned by (k int) {ACID}")
    _insert(acid, {1: ("a", 0), 2: ("b", 1)})
    _insert(acid, {3: ("c", 2)})
    acid.table("t").restore(write_id=1)
    assert _rows(acid, None) == {1: ("a", 0), 2: ("b", 1)}


def test_a_version_before_a_partition_was_dropped_is_an_error(acid: Session) -> None:
    acid.sql(f"create table t (id int, v string) partitioned by (k int) {ACID}")
    _insert(acid, {1: ("a", 0), 2: ("b", 1)})
    acid.sql("alter table t drop partition (k=1)")
    with pytest.raises(SnapshotExpiredError, match="partition k=1, which may have had rows"):
        _rows(acid, 1)
    assert _rows(acid, int(acid.client.metastore.last_write_id(T))) == {1: ("a", 0)}


def test_the_history_says_who_did_what(acid: Session) -> None:
    acid.sql(f"create table t (id int, v string) partitioned by (k int) {ACID}")
    acid.sql("insert into t values (1, 'secret', 0), (2, 'b', 1)")
    acid.table("t").delete_arrow("id = 1")
    acid.sql("alter table t drop partition (k=1)")
    dropped, deleted, inserted = acid.table("t").history()
    assert inserted.facts.kind == "INSERT"
    assert (inserted.facts.inserted, inserted.facts.files) == (2, 2)
    assert inserted.statement == "insert into t values (?, ?, ?), (?, ?, ?)"
    assert (deleted.facts.deleted, deleted.statement) == (1, None)
    assert dropped.facts.kind == "DROP PARTITIONS"
    with pytest.raises(InvalidInputError, match="limit is at least 0, not -1"):
        acid.table("t").history(limit=-1)
    found = acid.sql("describe history t limit 1")
    row = dict(zip(found.columns, found.rows[0], strict=True))
    assert row["version"] == dropped.write_id
    assert row["timestamp"] == datetime.fromtimestamp(dropped.committed_ms / 1000, timezone.utc)
    assert row["statement"] == "alter table t drop partition (k=?)"


def test_the_history_says_what_was_restored_and_undone(made: World, acid: Session) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    made.clock.advance_ms(1_000)
    acid.sql("insert into t values (1)")
    emp, (first,) = acid.table("t"), acid.table("t").history()
    moment = datetime.fromtimestamp((first.committed_ms or 0) / 1000, timezone.utc)
    emp.tag("q3")
    acid.sql("restore table t to version as of 0")
    acid.sql(f"restore t to timestamp as of '{moment}'")
    emp.restore(tag="q3")
    (last, *_) = emp.history()
    acid.undo(int(last.txn))
    shown = moment.replace(tzinfo=None).isoformat(" ", "milliseconds")
    assert [(one.facts.kind, one.statement) for one in reversed(emp.history())][1:] == [
        ("RESTORE", "RESTORE TABLE default.t TO VERSION AS OF 0"),
        ("RESTORE", f"RESTORE TABLE default.t TO TIMESTAMP AS OF '{shown}'"),
        ("RESTORE", "RESTORE TABLE default.t TO VERSION AS OF 'q3'"),
        (f"UNDO {last.txn}", f"UNDO TRANSACTION {last.txn}"),
    ]

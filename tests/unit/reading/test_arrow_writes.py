"""``write_arrow``, ``delete_arrow``, ``merge_arrow``: a session without Spark changes tables."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import (
    CardinalityError,
    ConversionError,
    InvalidInputError,
    NotFoundError,
    SparkNeededError,
)
from hiveacid.session import Session
from hiveacid.statements.values import DeleteResult, InsertResult, MergeResult
from hiveacid.table import AcidTable

pytestmark = pytest.mark.slow
ACID = "stored as orc tblproperties ('transactional'='true')"


def rows(table: AcidTable, *columns: str, by: str = "id") -> list[tuple[Any, ...]]:
    found = read_arrow(table, columns=columns or None).read_all()
    return [tuple(row.values()) for row in found.sort_by(by).to_pylist()]


@pytest.fixture
def plain(acid: Session) -> AcidTable:
    acid.sql(f"create table p (id int, v string, x double) {ACID}")
    table = acid.table("p")
    table.write_arrow(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"], "x": [1.0, 2.0, None]}))
    return table


# -------------------------------------------------------------------- insert


def test_unions_are_structs_of_a_tag_and_the_alternatives_in_order(acid: Session) -> None:
    acid.sql(f"create table u (id int, u uniontype<int,struct<a:varchar(3)>>) {ACID}")
    table = acid.table("u")
    inner = pa.array([None, {"b": "x"}, {"b": "hidden"}, {"b": "cut?"}])
    unions = pa.StructArray.from_arrays(
        [pa.array([0, 1, 9, 1], pa.int8()), pa.array([7, 8, None, None]), inner],
        names=["t", "x", "y"],
        mask=pa.array([False, False, True, False]),
    )
    source = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32()), "u": unions})
    table.write_arrow(source.slice(1, 2))
    table.write_arrow(source.slice(0, 1))
    with pytest.raises(ConversionError, match="cut"):
        table.write_arrow(source.slice(3))
    assert [tuple(u.values()) for _, u in rows(table)] == [
        (0, 7, None),
        (1, None, {"a": "x"}),
        (0, None, None),
    ]
    table.delete_arrow("id = 2")
    for kind in ("minor", "major"):
        table.compact(kind, wait=True)
        assert [row[0] for row in rows(table)] == [1, 3]


@pytest.mark.parametrize("kind", ["table", "batch", "reader", "polars", "pandas", "duckdb"])
def test_rows_come_from_anything_that_gives_a_stream(plain: AcidTable, kind: str) -> None:
    table = pa.table({"V": ["z"], "id": pa.array([9], pa.int64())})
    source = table.to_pandas() if kind == "pandas" else pl.from_arrow(table)
    data = {
        "table": table,
        "batch": table.to_batches()[0],
        "reader": table.to_reader(),
        "polars": source,
        "pandas": source,
        "duckdb": duckdb.from_arrow(table),
    }[kind]
    assert plain.write_arrow(data) == InsertResult(1, 2)
    assert rows(plain)[-1] == (9, "z", None)


def test_nothing_is_a_statement_too(plain: AcidTable) -> None:
    assert plain.write_arrow(pa.table({"id": pa.array([], pa.int32())})).rows == 0
    assert len(rows(plain)) == 3


def test_bucketed_and_partitioned_rows_lie_where_hive_puts_them(acid: Session) -> None:
    acid.sql(
        "create table b (id int, v string) partitioned by (p string, d date) "
        f"clustered by (id) into 8 buckets {ACID}"
    )
    table = acid.table("b")
    count = 5000
    generator = np.random.default_rng(3)
    data = pa.table(
        {
            "id": generator.permutation(count),
            "v": [f"v{i}" for i in range(count)],
            "p": pa.array(generator.choice(["x/y", "50%", "a b", "é"], count)),
            "d": pa.array(generator.choice([0, 1, -200000], count).astype(np.int32)).cast(
                pa.date32()
            ),
        }
    )
    assert table.write_arrow(data).rows == count
    read = read_arrow(table, row_ids=True).read_all()
    assert read.drop_columns("row__id").sort_by("id") == data.cast(
        pa.schema([("id", pa.int32()), ("v", pa.string()), ("p", pa.string()), ("d", pa.date32())])
    ).sort_by("id")
    files = list(Path(table.definition.location).glob("*/*/delta_*/bucket_*"))
    assert len(files) == 4 * 3 * 8
    for value in (0, 7, 4711):
        assert read_arrow(table, filter=f"id = {value}").read_all().num_rows == 1


def test_partition_values_may_be_given_beside_the_rows(emp: AcidTable) -> None:
    emp.write_arrow(pa.table({"id": [9]}), partition={"year": 2001, "city": "q"})
    assert rows(emp)[-1] == (9, None, None, 2001, "q")
    emp.write_arrow(pa.table({"id": [10], "city": ["r"]}), partition={"YEAR": None})
    assert rows(emp)[-1] == (10, None, None, None, "r")
    with pytest.raises(InvalidInputError, match="lacks the partition columns city"):
        emp.write_arrow(pa.table({"id": [9], "year": [1]}))


def test_overwrite_replaces_the_table_or_the_partitions_written(
    plain: AcidTable, emp: AcidTable
) -> None:
    plain.write_arrow(pa.table({"id": [7]}), overwrite=True)
    assert rows(plain, "id") == [(7,)]
    emp.write_arrow(pa.table({"id": [8], "year": [1995], "city": ["x"]}), overwrite=True)
    assert rows(emp, "id") == [(1,), (3,), (4,), (8,)]
    plain.write_arrow(pa.table({"id": pa.array([], pa.int32())}), overwrite=True)
    assert rows(plain) == []


def test_a_value_that_does_not_fit_names_its_column_and_changes_nothing(
    acid: Session, plain: AcidTable
) -> None:
    for data in ({"id": [2**31]}, {"id": ["x"]}, {"id": [1.5]}, {"x": ["y"]}):
        with pytest.raises(ConversionError, match=f"column {next(iter(data))}:"):
            plain.write_arrow(pa.table(data))
    with pytest.raises(NotFoundError, match="has no column nope"):
        plain.write_arrow(pa.table({"id": [1], "nope": [1]}))
    with pytest.raises(InvalidInputError, match="twice"):
        plain.write_arrow(pa.table([[1], [2]], names=["id", "ID"]))
    with pytest.raises(InvalidInputError, match="data is rows of Spark, Arrow"):
        plain.write_arrow([1])
    assert len(rows(plain)) == 3
    assert {row[1] for row in acid.sql("show transactions").rows} == {"ABORTED"}


def test_types_are_cast_where_nothing_is_lost(acid: Session) -> None:
    acid.sql(
        "create table ty (id tinyint, d decimal(5,2), c char(4), vc varchar(2), ts timestamp, "
        f"b binary, l array<int>, s struct<a:int,b:string>, m map<string,int>) {ACID}"
    )
    table = acid.table("ty")
    table.write_arrow(
        pa.table(
            {
                "id": pa.array([1], pa.int64()),
                "d": [12],
                "c": ["ab"],
                "vc": ["xy"],
                "ts": pa.array([1_600_000_000], pa.timestamp("s")),
                "b": pa.array([b"\0x"], pa.large_binary()),
                "l": pa.array([[1, None]], pa.large_list(pa.int64())).cast(pa.list_(pa.int64())),
                "s": [{"a": 5, "b": None}],
                "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
            }
        )
    )
    (row,) = read_arrow(table).read_all().to_pylist()
    assert row | {"ts": str(row["ts"])} == {
        "id": 1,
        "d": Decimal("12.00"),
        "c": "ab  ",
        "vc": "xy",
        "ts": "2020-09-13 12:26:40",
        "b": b"\0x",
        "l": [1, None],
        "s": {"a": 5, "b": None},
        "m": [("k", 1)],
    }
    assert read_arrow(table, filter="c = 'ab'").read_all().num_rows == 1
    assert table.merge_arrow(pa.table({"c": ["ab"], "d": [9]}), on=["c"]).updated == 1
    assert table.delete_arrow(pa.table({"c": ["ab"], "vc": ["xy"]})).rows == 1
    with pytest.raises(ConversionError, match="column d:"):
        table.write_arrow(pa.table({"d": [1000]}))


def test_constraints_hold(acid: Session) -> None:
    acid.sql(
        "create table c (id int not null enforced, v string default 'dflt', n int default 7, "
        f"t string) {ACID}"
    )
    table = acid.table("c")
    table.write_arrow(pa.table({"id": [1]}))
    assert rows(table) == [(1, "dflt", 7, None)]
    for data in ({"id": pa.array([None], pa.int32())}, {"v": ["x"]}):
        with pytest.raises(ConversionError, match="Column id is NULL"):
            table.write_arrow(pa.table(data))
    merged = table.merge_arrow(pa.table({"id": [1, 2], "t": ["u", "w"]}), on=["id"])
    assert merged == MergeResult(1, 0, 1, 4)
    assert rows(table) == [(1, "dflt", 7, "u"), (2, "dflt", 7, "w")]
    acid.sql(f"create table k (id int check (id > 0)) {ACID}")
    with pytest.raises(SparkNeededError, match="CHECK"):
        acid.table("k").write_arrow(pa.table({"id": [1]}))


def test_plain_tables_are_appended_to_and_not_deleted_from(acid: Session) -> None:
    acid.sql("create table q (id int, v string) stored as orc")
    table = acid.table("q")
    assert table.write_arrow(pa.table({"id": [1]})) == InsertResult(1, 0)
    assert rows(table) == [(1, None)]
    with pytest.raises(InvalidInputError, match="10297"):
        table.delete_arrow("id = 1")
    with pytest.raises(InvalidInputError, match="10297"):
        table.merge_arrow(pa.table({"id": [1]}), on=["id"])


# -------------------------------------------------------------------- delete


@pytest.mark.parametrize(
    ("what", "left"),
    [
        ("id >= 2", [1]),
        (pc.field("v") == "a", [2, 3]),
        (pa.table({"id": pa.array([1, 3, 3, 99, None], pa.int64())}), [2]),
        (pa.table({"ID": [1, 2], "v": ["a", "c"]}), [2, 3]),
        (pl.DataFrame({"x": [2.0]}), [1, 3]),
        (pa.table({"id": pa.array([None], pa.int32())}), [1, 2, 3]),
        ("x is null and id < 9", [1, 2]),
    ],
)
def test_rows_are_deleted_by_condition_or_by_key(
    plain: AcidTable, what: object, left: list[int]
) -> None:
    assert plain.delete_arrow(what) == DeleteResult(3 - len(left), 2)
    assert rows(plain, "id") == [(i,) for i in left]


def test_keys_may_name_partition_columns(emp: AcidTable) -> None:
    assert emp.delete_arrow(pa.table({"year": [1995, 1996], "id": [2, 2]})).rows == 1
    assert rows(emp, "id") == [(1,), (3,), (4,)]
    assert emp.delete_arrow("year is null").rows == 1
    assert emp.delete_arrow("id in (1, 3)").rows == 2
    assert rows(emp) == []


def test_the_default_partition_of_a_text_column_reads_as_in_sql(acid: Session) -> None:
    acid.sql(
        "create table dp (id int, v string)"
        f" partitioned by (s string, w varchar(5), c char(4), i int) {ACID}"
    )
    table, default = acid.table("dp"), "__HIVE_DEFAULT_PARTITION__"
    table.write_arrow(
        pa.table(
            {
                "id": [1, 2, 3],
                "s": ["a", None, ""],
                "w": ["a", None, default[:5]],
                "c": ["ab", None, default[:4]],
                "i": [1, None, None],
            }
        )
    )
    names = {"s": default, "w": default[:5], "c": default[:4], "i": None}
    assert read_arrow(table, columns=list(names), filter="id > 1").read_all().to_pylist() == [
        names,
        names,
    ]

    def found(**options: Any) -> list[int]:
        return sorted(read_arrow(table, columns="id", **options).read_all()["id"].to_pylist())

    assert found(filter="s is null") == []
    assert found(filter=pc.field("s").is_null()) == []
    assert found(filter=f"s = '{default}' and w = '{default[:5]}' and i is null") == [2, 3]
    assert found(filter="s <> 'a'") == found(partitions={"s": None}) == [2, 3]
    assert found(partitions={"s": "a"}) == [1]
    # back as they were read, or with NULL for the default partition: the rows stay in their places
    changed = read_arrow(table).read_all().set_column(1, "v", pa.array(["x", "y", "z"]))
    assert table.merge_arrow(changed, on="id").updated == 3
    assert (
        table.merge_arrow(
            pa.table({"id": [2], "s": pa.array([None], pa.string())}), on="id"
        ).updated
        == 1
    )
    assert len(acid.sql("show partitions dp").rows) == 2
    assert table.delete_arrow("s is null").rows == 0
    assert table.delete_arrow(pa.table({"s": [default], "id": [2]})).rows == 1
    assert found() == [1, 3]
    by_path = read_arrow(table.definition.location, filter="s is null").read_all()
    assert by_path["w"].to_pylist() == [None]


def test_char_partitions_have_padded_names_as_in_hive(acid: Session) -> None:
    acid.sql(f"create table cp (id int) partitioned by (c char(4)) {ACID}")
    table = acid.table("cp")
    acid.sql("insert into cp values (1, 'ab')")
    table.write_arrow(pa.table({"id": [2], "c": ["ab"]}))
    table.write_arrow(pa.table({"id": [3]}), partition={"c": "ab"})
    assert acid.sql("show partitions cp").rows == (("c=ab  ",),)
    assert rows(table) == [(1, "ab  "), (2, "ab  "), (3, "ab  ")]
    assert read_arrow(table, filter="c = 'ab'", partitions={"c": "ab"}).read_all().num_rows == 3
    assert table.merge_arrow(pa.table({"id": [1], "c": ["ab"]}), on="id").updated == 1
    assert table.delete_arrow(pa.table({"c": ["ab"], "id": [2]})).rows == 1


def test_many_keys_are_looked_for_in_one_pass(acid: Session) -> None:
    acid.sql(f"create table n (id bigint, v int) clustered by (id) into 4 buckets {ACID}")
    table = acid.table("n")
    table.write_arrow(pa.table({"id": np.arange(50_000), "v": np.zeros(50_000, np.int32)}))
    assert table.delete_arrow(pa.table({"id": np.arange(0, 50_000, 5)})).rows == 10_000
    merged = table.merge_arrow(
        pa.table({"id": np.arange(0, 60_000, 3), "v": np.ones(20_000, np.int32)}), on=["id"]
    )
    kept = len([i for i in range(0, 50_000, 3) if i % 5])
    assert merged == MergeResult(kept, 0, 20_000 - kept, 3)
    found = read_arrow(table).read_all()
    assert found.num_rows == 40_000 + 20_000 - kept
    assert pc.sum(found["v"]).as_py() == 20_000


# -------------------------------------------------------------------- merge


def test_merge_updates_inserts_and_deletes_in_one_transaction(emp: AcidTable) -> None:
    changes = pa.table(
        {
            "id": [1, 3, 4, 5, 6],
            "pay": [10, 30, None, 50, 60],
            "year": [1995, 1996, None, 2000, 2001],
            "city": ["a/b", "x", "y", "n", "n"],
            "op": ["U", "D", "U", "I", "D"],
        }
    )
    result = emp.merge_arrow(changes, on=["id"], delete_where="op = 'D'")
    assert result == MergeResult(updated=2, deleted=1, inserted=1, write_id=2)
    assert rows(emp) == [
        (1, "ann", Decimal(10), 1995, "a/b"),
        (2, "bob", Decimal(2), 1995, "x"),
        (4, "dan", None, None, "y"),
        (5, None, Decimal(50), 2000, "n"),
    ]
    places = {
        (path.parent.name, path.name)
        for path in Path(emp.definition.location).glob("*/*/*_0000002_*/bucket_*")
    }
    # deletes, deletes of updates, updates, inserts: as Hive 4.1 numbers them
    assert {directory.rpartition("_")[2] for directory, _ in places} == {
        "0000", "0001", "0002", "0003",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "expected", "left"),
    [
        ({"when_not_matched": None}, MergeResult(1, 0, 0, 2), [(1, "n"), (2, "b"), (3, "c")]),
        (
            {"when_matched": None},
            MergeResult(0, 0, 1, 2),
            [(1, "a"), (2, "b"), (3, "c"), (9, "n")],
        ),
        ({"when_matched": "delete"}, MergeResult(0, 1, 1, 2), [(2, "b"), (3, "c"), (9, "n")]),
        (
            {"when_matched": "delete", "when_not_matched": None},
            MergeResult(0, 1, 0, 2),
            [(2, "b"), (3, "c")],
        ),
        (
            {"when_matched": None, "delete_where": "id = 9"},
            MergeResult(0, 0, 0, 2),
            [(1, "a"), (2, "b"), (3, "c")],
        ),
    ],
)
def test_each_clause_may_be_left_out(
    plain: AcidTable, options: dict[str, Any], expected: MergeResult, left: list[Any]
) -> None:
    data = pa.table({"id": [1, 9], "v": ["n", "n"]})
    assert plain.merge_arrow(data, on=["ID"], **options) == expected
    assert rows(plain, "id", "v") == left


def test_null_keys_match_nothing_and_are_inserted(plain: AcidTable) -> None:
    data = pa.table({"id": pa.array([None], pa.int32()), "v": ["n"]})
    for _ in range(2):
        assert plain.merge_arrow(data, on=["id"]).inserted == 1
    assert len(rows(plain)) == 5


def test_two_source_rows_for_one_row_are_a_cardinality_violation(plain: AcidTable) -> None:
    twice = pa.table({"id": [1, 1], "v": ["x", "y"]})
    with pytest.raises(CardinalityError, match=r"Cardinality Violation.*\[1, 536870912, 0\]"):
        plain.merge_arrow(twice, on=["id"])
    assert rows(plain, "v", by="v") == [("a",), ("b",), ("c",)]
    assert plain.merge_arrow(twice, on=["id"], when_matched=None).inserted == 0
    assert plain.merge_arrow(pa.table({"id": [9, 9]}), on=["id"]).inserted == 2


def test_a_match_may_not_move_a_row(emp: AcidTable) -> None:
    with pytest.raises(InvalidInputError, match="10292"):
        emp.merge_arrow(pa.table({"id": [1], "year": [1999]}), on=["id"])
    with pytest.raises(InvalidInputError, match="10302"):
        emp.merge_arrow(pa.table({"id": [9], "name": ["ann"]}), on=["name"])
    same = pa.table({"id": [1], "year": [1995], "city": ["a/b"], "name": ["new"]})
    assert emp.merge_arrow(same, on=["id"]).updated == 1


def test_wrong_arguments_of_merge(plain: AcidTable) -> None:
    data = pa.table({"id": [1], "v": ["x"], "extra": [1]})
    with pytest.raises(NotFoundError, match="extra"):
        plain.merge_arrow(data, on=["id"])
    with pytest.raises(NotFoundError, match=r"has no column nope$"):
        plain.delete_arrow(pa.table({"nope": [1]}))
    plain.merge_arrow(data, on="ID", delete_where="extra = 2")
    for options, error in (
        ({"on": []}, InvalidInputError),
        ({"on": ["x"]}, NotFoundError),
        ({"on": ["extra"]}, NotFoundError),
        ({"on": ["id"], "when_matched": "upsert"}, InvalidInputError),
        ({"on": ["id"], "when_not_matched": "x"}, InvalidInputError),
        ({"on": ["id"], "delete_where": "nope = 1"}, NotFoundError),
    ):
        with pytest.raises(error):
            plain.merge_arrow(data, **options)  # type: ignore[arg-type]


def test_the_functions_are_the_methods(plain: AcidTable) -> None:
    assert hiveacid.write_arrow(plain, pa.table({"id": [4]})).rows == 1
    assert hiveacid.merge_arrow(plain, pa.table({"id": [4], "v": ["d"]}), on=["id"]).updated == 1
    assert hiveacid.delete_arrow(plain, "v = 'd'").rows == 1
    assert len(rows(plain)) == 3


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Session]:
    with hiveacid.connect(
        None, f"sqlite:///{tmp_path}/metastore.db", warehouse=str(tmp_path / "warehouse")
    ) as session:
        yield session


def test_merges_of_several_sessions_lose_no_update(
    acid: Session, other: Session, plain: AcidTable
) -> None:
    """Each adds its own rows and changes its own row, again where the other won."""
    for session in (acid, other):
        session.sql("set hiveacid.conflict.retries=20")
    failures: list[BaseException] = []

    def work(session: Session, key: int) -> None:
        table = session.table("p")
        try:
            for i in range(5):
                data = pa.table({"id": [key, 100 * key + i], "v": [f"{key}.{i}", "new"]})
                table.merge_arrow(data, on=["id"])
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=(session, key))
        for session, key in ((acid, 1), (other, 2))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    found = dict(rows(plain, "id", "v"))
    assert (found[1], found[2], found[3]) == ("1.4", "2.4", "c")
    assert len(found) == 3 + 10

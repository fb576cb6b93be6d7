"""Columns that get another name, type or place: what follows from them goes with them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from tests.e2e.tables import rows_of

import hiveacid
from hiveacid.errors import ConversionError, InvalidInputError
from hiveacid.session import Session

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.fixture
def acid(metastore_url: str, tmp_path: Path) -> Iterator[Session]:
    with hiveacid.connect(None, metastore_url, warehouse=str(tmp_path / "wh")) as session:
        yield session


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "change", "value"),
    [
        ("int", "change id id bigint", 5),
        ("int", "change id id string", "5"),
        ("smallint", "change id id decimal(10,2)", 5),
        ("string", "change id id varchar(1)", "5"),
        ("int", "replace columns (id bigint, v string)", 5),
    ],
)
def test_rows_are_in_the_buckets_of_the_type_that_they_were_written_with(
    acid: Session, kind: str, change: str, value: object
) -> None:
    acid.sql(f"create table t (id {kind}, v string) clustered by (id) into 16 buckets {ACID}")
    acid.sql("insert into t values " + ", ".join(f"({n}, 'a')" for n in range(10)))
    acid.sql(f"alter table t {change}")
    for _ in range(2):  # as they were written, and rewritten
        found = hiveacid.read_arrow(acid.table("t"), filter=f"id = {value!r}").read_all()
        assert found.num_rows == 1
        acid.sql("alter table t compact 'major' and wait")
    row = pa.table({"id": pa.array([value]), "v": ["b"]})
    assert acid.table("t").merge_arrow(row, on="id").updated == 1
    assert acid.table("t").delete_arrow(f"id = {value!r}").rows == 1
    assert len(rows_of(acid)) == 9


@pytest.mark.parametrize(
    ("kind", "new", "value", "shown"),
    [
        ("decimal(10,2)", "decimal(4,2)", Decimal("12345.67"), None),
        ("int", "decimal(2,0)", 300, None),
        ("int", "bigint", 300, 300),
        ("string", "varchar(2)", "abc", "ab"),
    ],
)
def test_a_value_that_the_new_type_cannot_say_is_null_to_a_condition(
    acid: Session, kind: str, new: str, value: object, shown: object
) -> None:
    acid.sql(f"create table t (c {kind}) {ACID}")
    acid.table("t").write_arrow(pa.table({"c": [value]}))
    acid.sql(f"alter table t change c c {new}")
    assert rows_of(acid) == [(shown,)]
    for condition, is_met in (("c is null", shown is None), ("c is not null", shown is not None)):
        found = hiveacid.read_arrow(acid.table("t"), filter=condition).read_all()
        assert found.num_rows == is_met, condition


def test_a_partition_whose_name_its_type_cannot_say_is_null_to_a_condition(
    acid: Session, tmp_path: Path
) -> None:
    acid.sql("create table n (id int) partitioned by (p tinyint) stored as orc")
    (tmp_path / "wh" / "n").mkdir(exist_ok=True)
    acid.sql("insert into n partition (p=3) values (2)")
    (tmp_path / "wh" / "n" / "p=3").rename(tmp_path / "wh" / "n" / "p=300")
    acid.sql("msck repair table n sync partitions")
    assert rows_of(acid, "n") == [(2, None)]
    found = hiveacid.read_arrow(acid.table("n"), filter="p is null").read_all()
    assert found.num_rows == 1


def test_columns_that_exchange_their_names_tell_other_buckets(acid: Session) -> None:
    acid.sql(f"create table t (a int, b int) clustered by (a) into 16 buckets {ACID}")
    acid.sql("insert into t values " + ", ".join(f"({n}, {n + 20})" for n in range(10)))
    acid.sql("alter table t replace columns (b int, a int)")
    found = hiveacid.read_arrow(acid.table("t"), filter="a = 25").read_all()
    assert found.to_pylist() == [{"b": 5, "a": 25}]


def test_files_are_sorted_by_a_column_that_was_renamed(acid: Session) -> None:
    acid.sql("create table t (a int) clustered by (a) sorted by (a) into 2 buckets stored as orc")
    acid.sql("alter table t change a b int")
    acid.sql("insert into t values (3), (1)")
    assert rows_of(acid) == [(1,), (3,)]


@pytest.mark.parametrize(
    "change",
    ["alter table t change v w string", "alter table t replace columns (id int, w string)"],
)
def test_constraints_stay_with_a_column_that_is_renamed(acid: Session, change: str) -> None:
    acid.sql(
        "create table t (id int, v string not null enable default 'x',"
        f" primary key (v) disable novalidate) {ACID}"
    )
    acid.sql(change)
    table = acid.table("t")
    with pytest.raises(ConversionError, match="NOT NULL"):
        table.write_arrow(pa.table({"id": [1], "w": pa.array([None], pa.string())}))
    table.write_arrow(pa.table({"id": [1]}))
    assert rows_of(acid) == [(1, "x")]
    acid.sql("alter table t add columns (v string)")
    table.write_arrow(pa.table({"id": [2], "w": ["y"]}))
    table.merge_arrow(pa.table({"id": [3], "w": ["y"]}), on="w")
    changes = hiveacid.read_changes(table, since=3).read_all().to_pylist()
    assert changes[-1]["_change_type"] == "update_postimage", "w is the key"


def test_constraints_follow_names_that_are_exchanged(acid: Session) -> None:
    acid.sql(f"create table t (a string not null enable, b string) {ACID}")
    acid.sql("alter table t replace columns (b string, a string)")
    table = acid.table("t")
    none = pa.array([None], pa.string())
    table.write_arrow(pa.table({"a": none, "b": ["x"]}))
    with pytest.raises(ConversionError, match="Column b is NULL"):
        table.write_arrow(pa.table({"a": ["x"], "b": none}))


def test_a_column_of_a_check_keeps_its_name(acid: Session) -> None:
    acid.sql(f"create table t (id int, v string, constraint c check (ID > 0)) {ACID}")
    with pytest.raises(InvalidInputError, match="CHECK constraint c"):
        acid.sql("alter table t change id number int")
    acid.sql("alter table t change v w string")


@pytest.mark.slow
def test_any_change_of_type_is_allowed_where_the_settings_say_so(acid: Session) -> None:
    acid.sql(f"create table t (a string, b timestamp, c int) {ACID}")
    acid.sql("insert into t values ('15', '2038-03-22 07:26:48', 300), ('x', null, 7)")
    with pytest.raises(InvalidInputError, match="types incompatible"):
        acid.sql("alter table t change a a int")
    acid.sql("set hive.metastore.disallow.incompatible.col.type.changes=false")
    acid.sql("alter table t change a a int")
    acid.sql("alter table t replace columns (a int, b date, c tinyint)")
    day = datetime.date(2038, 3, 22)
    found = hiveacid.read_arrow(acid.table("t")).read_all().to_pylist()
    assert [tuple(row.values()) for row in found] == [(15, day, None), (None, None, 7)]
    for condition in ("a = 15", f"b = '{day}'", "c is null", "a > 2"):
        found = hiveacid.read_arrow(acid.table("t"), filter=condition).read_all().to_pylist()
        assert [row["a"] for row in found] == [15], condition


@pytest.mark.parametrize("place", ["after c", "first"])
def test_a_column_may_move_among_other_types_where_the_settings_say_so(
    acid: Session, place: str
) -> None:
    acid.sql("create table t (a string, b int, c date) stored as parquet")
    change = f"alter table t change b b timestamp {place}"
    with pytest.raises(InvalidInputError, match="types incompatible"):
        acid.sql(change)
    acid.sql("set hive.metastore.disallow.incompatible.col.type.changes=false")
    acid.sql(change)
    names = [column.name for column in acid.table("t").definition.columns]
    assert names == (["b", "a", "c"] if place == "first" else ["a", "c", "b"])

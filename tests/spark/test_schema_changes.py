"""ALTER TABLE ... COLUMNS: files of before are read as Hive 4.1 reads them, by position."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from hiveacid.errors import InvalidInputError, UnsupportedError

ACID = "stored as orc tblproperties ('transactional'='true')"


def test_columns_added_renamed_and_widened_over_old_files(acid, rows):
    acid.sql(f"create table t (a tinyint, b float, c varchar(3), d decimal(5,2), e date) {ACID}")
    acid.sql("insert into t values (1, 1.5, 'abc', 1.25, date '1500-03-01')")
    acid.sql("alter table t change a k decimal(20,1)")
    acid.sql("alter table t change b b double")
    acid.sql("alter table t change c c string cascade")
    acid.sql("alter table t change d d decimal(12,4)")
    acid.sql("alter table t change e e string")
    acid.sql("alter table t add columns (s struct<x:int,y:array<timestamp>>) restrict")
    acid.sql(
        "insert into t select 2, 2.5, 'longer', 2.5, 'text',"
        " named_struct('x', 1, 'y', array(timestamp '1960-01-01 00:00:00.5'))"
    )
    old = (Decimal("1.0"), 1.5, "abc", Decimal("1.2500"), "1500-03-01", None)
    new = rows("select * from t where k = 2")[0]
    assert rows("select * from t") == [old, new]
    assert new[:5] == (Decimal("2.0"), 2.5, "longer", Decimal("2.5000"), "text")
    assert new[5].y == [datetime.datetime(1960, 1, 1, 0, 0, 0, 500_000)]
    acid.sql("update t set c = upper(c)")
    assert rows("select c, e from t") == [("ABC", "1500-03-01"), ("LONGER", "text")]


def test_replaced_columns_keep_the_values_of_their_places(acid, rows):
    acid.sql(f"create table t (a int, b string) partitioned by (p int) {ACID}")
    acid.sql("insert into t values (1, 'x', 1), (2, '3.5', 2)")
    acid.sql("alter table t replace columns (x bigint, y double, z date) cascade")
    assert rows("select * from t") == [(1, None, None, 1), (2, 3.5, None, 2)]
    with pytest.raises(InvalidInputError, match="cannot drop columns"):
        acid.sql("alter table t replace columns (x bigint)")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("change a a smallint", "types incompatible"),
        ("change b b int", "types incompatible"),
        ("change a a int after b", "Reordering columns is not supported"),
        ("change b b string first", "Reordering columns is not supported"),
    ],
)
def test_what_hive_refuses_is_refused(acid, rows, change, message):
    acid.sql(f"create table t (a int, b string) {ACID}")
    with pytest.raises(InvalidInputError, match=message):
        acid.sql(f"alter table t {change}")
    assert [row[0] for row in acid.sql("describe t").collect()] == ["a", "b"]


def test_columns_of_a_text_table_change_places(acid, rows):
    acid.sql(
        "create table t (a string, b string) stored as textfile"
        " tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    acid.sql("insert into t values ('1', '2')")
    acid.sql("alter table t change a a string after b")
    assert rows("select b, a from t") == [("1", "2")]  # Hive too: files keep their order


def test_unions_may_be_declared_and_are_not_written(acid, rows):
    acid.sql(f"create table t (i int, u uniontype<int,string>) {ACID}")
    assert rows("select u.tag, u.field1 from t") == []
    with pytest.raises(UnsupportedError, match="uniontype"):
        acid.sql("insert into t select 1, named_struct('tag', 0Y, 'field0', 1, 'field1', 'x')")
    assert rows("select * from t") == []


def test_intervals_are_no_column_types(acid):
    with pytest.raises((InvalidInputError, UnsupportedError)):
        acid.sql(f"create table t (i interval_day_time) {ACID}")
    assert acid.sql("show tables").collect() == []

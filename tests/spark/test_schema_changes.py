"""ALTER TABLE ... COLUMNS: files of before are read as Hive 4.1 reads them, by position."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.connect import arrow_of
from tests.type_changes import changed_table, wrong_answers

from hiveacid.errors import ConversionError, InvalidInputError, UnsupportedError

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


@pytest.mark.parametrize("stored_as", [ACID, "stored as orc"])
def test_every_change_of_type_is_read_as_hive_reads_it(acid, stored_as):
    changes = changed_table(acid, stored_as)
    frame = acid.sql("select * from changed order by n")
    read = arrow_of(frame)
    for place, field in enumerate(read.schema):
        if pa.types.is_timestamp(field.type):
            clock = read.column(place).cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
            read = read.set_column(place, field.name, clock)
    assert not wrong_answers(read, changes)


def test_values_that_the_new_type_does_not_hold(acid, rows):
    """What Hive 4.1 returned after the same statements."""
    acid.sql(f"create table t (v varchar(6), d decimal(12,4), i int, s struct<x:int>) {ACID}")
    acid.sql("insert into t select 'abcdef', 1234.5678, 7, named_struct('x', 1)")
    acid.sql("alter table t change v v varchar(2)")
    acid.sql("alter table t change d d decimal(5,2)")
    acid.sql("alter table t change i i decimal(10,2)")
    acid.sql("alter table t change s s struct<x:bigint,y:string>")
    assert rows("select v, d, i, s.x, s.y from t") == [("ab", None, Decimal("7.00"), 1, None)]


def test_replaced_columns_keep_the_values_of_their_places(acid, rows):
    acid.sql(f"create table t (a int, b string) partitioned by (p int) {ACID}")
    acid.sql("insert into t values (1, 'x', 1), (2, 'long', 2)")
    acid.sql("alter table t replace columns (x bigint, y varchar(2), z date) cascade")
    assert rows("select * from t") == [(1, "x", None, 1), (2, "lo", None, 2)]
    with pytest.raises(InvalidInputError, match="cannot drop columns"):
        acid.sql("alter table t replace columns (x bigint)")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("change a a smallint", "types incompatible"),
        ("change b b int", "types incompatible"),
        ("change b b double", "types incompatible"),
        ("change f f decimal(10,2)", "types incompatible"),
        ("change o o string", "types incompatible"),
        ("change dt dt timestamp", "types incompatible"),
        ("change a a int after b", "Reordering columns is not supported"),
        ("change b b string first", "Reordering columns is not supported"),
    ],
)
def test_what_hive_refuses_is_refused(acid, rows, change, message):
    acid.sql(f"create table t (a int, b string, f float, o boolean, dt date) {ACID}")
    with pytest.raises(InvalidInputError, match=message):
        acid.sql(f"alter table t {change}")
    found = [row[0] for row in acid.sql("describe t").collect()]
    assert found == ["a", "b", "f", "o", "dt"]


def test_columns_of_a_text_table_change_places(acid, rows):
    acid.sql(
        "create table t (a string, b string) stored as textfile"
        " tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    acid.sql("insert into t values ('1', '2')")
    acid.sql("alter table t change a a string after b")
    assert rows("select b, a from t") == [("1", "2")]  # Hive too: files keep their order


def test_unions_are_written_from_structs_of_tag_and_alternatives(acid, rows):
    acid.sql(f"create table t (i int, u uniontype<int,string>) {ACID}")
    assert rows("select u.tag, u.field1 from t") == []
    union = "named_struct('tag', {}Y, 'field0', 7, 'field1', 'x')"
    acid.sql(f"insert into t select 1, {union.format(0)}")
    acid.sql(f"insert into t select 2, {union.format(1)}")
    acid.sql("update t set i = i + 10 where u.tag = 1")
    assert sorted(rows("select i, u.* from t")) == [(1, 0, 7, None), (12, 1, None, "x")]
    for tag in (2, -1):
        with pytest.raises(ConversionError, match=f"has no alternative {tag}"):
            acid.sql(f"insert into t select 3, {union.format(tag)}")
    assert len(rows("select * from t")) == 2


def test_intervals_are_no_column_types(acid):
    with pytest.raises((InvalidInputError, UnsupportedError)):
        acid.sql(f"create table t (i interval_day_time) {ACID}")
    assert acid.sql("show tables").collect() == []


def test_the_default_partition_of_text_columns_reads_as_its_name(acid, rows):
    acid.sql(f"create table t (id int) partitioned by (p varchar(8), q string, n int) {ACID}")
    acid.sql("insert into t values (1, null, '', null)")
    expected = (1, "__HIVE_D", "__HIVE_DEFAULT_PARTITION__", None)
    assert rows("select * from t where p is not null and n is null") == [expected]
    acid.sql("update t set id = 2 where q = '__HIVE_DEFAULT_PARTITION__'")
    assert rows("select id, p from t") == [(2, "__HIVE_D")]
    assert len(acid.sql("show partitions t").collect()) == 1

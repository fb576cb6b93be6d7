"""Functions that Spark lacks or answers otherwise: Hive's answers."""

from __future__ import annotations

import pytest

from hiveacid.errors import UnsupportedError

ACID = "stored as orc tblproperties ('transactional'='true')"

ANSWERS = {
    "size(cast(null as array<int>))": -1,
    "size(array(1, 2))": 2,
    "istrue(cast(null as boolean))": False,
    "isnottrue(cast(null as boolean))": True,
    "isfalse(1 > 2)": True,
    "isnotfalse(cast(null as boolean))": True,
    "mid('abcdef', 2, 3)": "bcd",
    "greatest(1, 3, 2)": 3,
    "greatest(1, null, 3)": None,
    "least('b', 'a')": "a",
    "ltrim('xyzzxyfacebook', 'zyx')": "facebook",
    "rtrim('facebookxyz', 'zyx')": "facebook",
    "trim('xfacebooky', 'yx')": "facebook",
    "trim('  a ')": "a",
    "'google' not like all ('%oo%', '%in', 'fa%')": True,
    "'google' not like any ('%oo%', '%in', 'fa%')": False,
    "'a' || 1 + 2 || 'b'": "a3b",
    "pmod(10, -3)": -2,
    "pmod(-10, 3)": 2,
    "sqrt(-1)": None,
    "sqrt(9)": 3.0,
    "acos(2)": None,
    "array_contains(array(1, null), 2)": False,
    "array_contains(array(1, 2), cast(null as int))": False,
    "cast(add_months('2014-02-28', 2) as string)": "2014-04-30",
    "cast(add_months('2016-01-29 10:30:00', 1) as string)": "2016-02-29",
    "cast(add_months(date'2014-01-14', -1) as string)": "2013-12-14",
    "least(1, null)": None,
    "substr('ab', -4)": "",
    "substring('abcdef', -4, 2)": "cd",
    "mid('abc', -5, 3)": "",
    "cast(substr(cast('abcdef' as binary), -4) as string)": "cdef",
    "substr('abcdef', -2 + 1)": "f",
    "substr('ab', -(2 * 2) + 2, 1)": "a",
    "substr('ab', -(4))": "",
    "unix_timestamp('2024-01-05 10:20:30.5')": 1704450030,
    "to_unix_timestamp('2024-1-5T1:2:3')": 1704416523,
    "unix_timestamp('1969-12-31 23:59:58.5')": -2,
    "unix_timestamp(timestamp'1969-12-31 23:59:58.5')": -2,
    "unix_timestamp(date'2024-01-05')": 1704412800,
    "unix_timestamp('2024/01/05', 'yyyy/MM/dd')": 1704412800,
    "extract(second from timestamp'2024-01-05 10:20:30.5')": 30,
    "extract(day from date'2024-01-05')": 5,
    "cast(trunc('2024-05-06', 'Q') as string)": "2024-04-01",
    "current_schema()": "default",
    "is_not_distinct_from(null, null)": True,
    "cast(floor_month(timestamp'2020-05-17 10:11:12') as string)": "2020-05-01 00:00:00",
    "mask_hash('a')": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
    "base64(aes_encrypt('ABC', '1234567890123456'))": "y6Ss+zCYObpCbgfWfyNWTw==",
    "cast(aes_decrypt(unbase64('y6Ss+zCYObpCbgfWfyNWTw=='), '1234567890123456') as string)": "ABC",
}


def test_answers_are_hives(acid):
    found = acid.sql("select " + ", ".join(ANSWERS)).collect()[0]
    assert dict(zip(ANSWERS, found, strict=True)) == ANSWERS


def test_functions_are_listed_and_described_by_spark(acid, rows):
    assert rows("show functions like 'abs'") == [("abs",)]
    assert ("Function: abs",) in rows("describe function abs")


def test_a_time_is_cut_to_a_unit(rows):
    assert rows("select cast(floor(timestamp'2020-05-17 10:11:12' to hour) as string)") == [
        ("2020-05-17 10:00:00",)
    ]


def test_grouping_id_is_the_word_of_hive(acid, rows):
    acid.sql(f"create table t (a int, b int) {ACID}")
    acid.sql("insert into t values (1,1),(1,2)")
    found = rows("select a, b, grouping__id, count(*) from t group by a, b with rollup")
    assert found == [(1, 1, 0, 1), (1, 2, 0, 1), (1, None, 1, 2), (None, None, 3, 2)]


def test_what_a_deviation_is_and_rows_are_ranked_without_an_order(acid, rows):
    acid.sql(f"create table t (a int, b int) {ACID}")
    acid.sql("insert into t values (1, 2), (1, 4), (2, 9)")
    spread = "stddev(b), std(distinct b), variance(b), stddev_samp(b)"
    assert rows(f"select {spread} from t where a = 1") == [(1.0, 1.0, 1.0, 2**0.5)]
    found = "b, rank() over (partition by a), dense_rank() over (), ntile(1) over ()"
    assert rows(f"select {found} from t") == [(2, 1, 1, 1), (4, 1, 1, 1), (9, 1, 1, 1)]
    assert rows("select stddev(b) over (partition by a) from t") == [(0.0,), (1.0,), (1.0,)]
    assert rows("select row_number() over (partition by a) n from t") == [(1,), (1,), (2,)]


def test_qualify_keeps_rows_by_what_their_window_says(acid, rows, spark):
    if spark.version.startswith("3."):
        acid.sql(f"create table t (a int) {ACID}")
        with pytest.raises(UnsupportedError, match="QUALIFY needs PySpark 4"):
            acid.sql("select a from t qualify row_number() over (order by a) = 1")
        return
    acid.sql(f"create table t (a int, b string, c int) {ACID}")
    acid.sql("insert into t values (1,'A',1),(1,'A',1),(2,'A',2),(3,'B',1),(4,'B',2)")
    first = "row_number() over (partition by b order by c desc)"
    assert rows(f"select a, b from t qualify {first} = 1 order by a limit 5") == [
        (2, "A"),
        (4, "B"),
    ]
    assert rows(f"select distinct b, {first} n from t qualify n = 1") == [("A", 1), ("B", 1)]
    some = "select * from t where a < 4 qualify rank() over (order by c desc) = 1"
    assert rows(f"select q.a from ({some}) q") == [(2,)]
    counts = "select b, count(*) n from t group by b qualify rank() over (order by count(*)) = 1"
    assert rows(counts) == [("B", 2)]
    acid.sql(f"create view v as {some}")
    assert acid.sql("select * from v").columns == ["a", "b", "c"]
    assert rows("select * from v") == [(2, "A", 2)]


def test_grouping_of_several_columns_has_a_bit_for_each(acid, rows):
    acid.sql(f"create table t (a string, b string) {ACID}")
    acid.sql("insert into t values ('x', 'p')")
    bits = "grouping(a, b), grouping(b, a), grouping(a)"
    found = rows(f"select a, b, {bits} from t group by cube(a, b)")
    assert sorted(found, key=str) == [
        ("x", "p", 0, 0, 0),
        ("x", None, 1, 2, 0),
        (None, "p", 2, 1, 1),
        (None, None, 3, 3, 1),
    ]


def test_the_end_of_a_text_can_be_grouped_by(acid, rows):
    acid.sql(f"create table t (a string) {ACID}")
    acid.sql("insert into t values ('x12'), ('y12'), ('2')")
    found = rows("select substr(a, -2) e, count(*) from t group by substr(a, -2)")
    assert found == [("", 1), ("12", 2)]
    assert rows("select a from t where substr(a, -2) = '12' and a > 'xx'") == [("y12",)]


def test_a_comparison_with_any_or_all_rows_of_a_query(acid, rows):
    acid.sql(f"create table t (a int, b int) {ACID}")
    acid.sql("insert into t values (1, 1), (2, 1), (3, null)")
    assert rows("select a from t where a= any(select b from t)") == [(1,)]
    assert rows("select a from t where a <> all (select b from t where b is not null)") == [
        (2,),
        (3,),
    ]
    with pytest.raises(UnsupportedError, match=r"> ALL \(query\) is not"):
        acid.sql("select a from t where a > all (select b from t)")

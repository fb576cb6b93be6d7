"""Columns that nobody looks at are not read, and count for nothing where Spark chooses a join;
how many values a column has is told without a row.
"""

from __future__ import annotations

import pyspark
import pytest
from tests.spark.running import jobs_begun

from hiveacid.errors import SqlSyntaxError

ACID = "stored as orc tblproperties ('transactional'='true')"


@pytest.mark.jvm
def test_some_columns_are_for_spark_the_part_of_a_table_that_they_are_of_flat_files(
    acid, spark, tmp_path
):
    """By it Spark chooses what to broadcast."""
    columns = "k bigint, v int, d decimal(12,2)" + "".join(f", s{n} string" for n in range(9))
    acid.sql(f"create table wide ({columns}) {ACID}")
    values = ", ".join(f"concat('{n}', id)" for n in range(9))
    rows = spark.sql(
        f"select id, cast(id as int), cast(id as decimal(12,2)), {values} from range(999)"
    ).toDF(*acid.table("wide").columns)
    acid.table("wide").insert(rows)
    rows.coalesce(1).write.orc(f"{tmp_path}/flat")
    spark.read.orc(f"{tmp_path}/flat").createOrReplaceTempView("flat_wide")

    def size(text, files):
        plan = acid.sql(text)._jdf.queryExecution().optimizedPlan()
        return int(str(plan.stats().sizeInBytes())) / sum(f.stat().st_size for f in files)

    ours = list(tmp_path.glob("wh/wide/*/bucket_*"))
    flat = list(tmp_path.glob("flat/*.orc"))
    for wanted in ("k", "k, v", "k, s1, d", "s1, s2, s3, s4, s5", "*"):
        text = f"select {wanted} from {{}} where rand() >= 0"
        ratio = size(text.format("wide"), ours) / size(text.format("flat_wide"), flat)
        assert (0.6 if wanted == "*" else 0.9) < ratio < 1.2, (wanted, ratio)
    acid.sql("create view seen as select * from wide")
    for text in ("select k, v from seen", "select k, v from (select * from {}) x"):
        ratio = size(f"{text.format('wide')} where rand() >= 0", ours) / size(
            "select k, v from flat_wide where rand() >= 0", flat
        )
        assert 0.7 < ratio < 1.8, (text, ratio)
    read = spark._jvm.PythonSQLUtils.explainString(
        acid.sql("select v, s1 from wide where k + 0 > 0")._jdf.queryExecution(), "formatted"
    )
    assert "struct<row:struct<k:bigint,v:int,s1:string>>" in read
    assert acid.sql("select count(*), count(s8) from wide where rand() >= 0").collect() == [
        (999, 999)
    ]
    assert acid.sql("select sum(1) from wide where rand() >= 0").collect() == [(999,)]


@pytest.mark.long("spark", "statements")
@pytest.mark.jvm
def test_a_star_that_only_asks_for_a_row_reads_no_columns_for_it(acid, rows, plans):
    columns = ", ".join(f"s{n} string" for n in range(20))
    for name in ("a", "b"):
        acid.sql(f"create table {name} (k int, v int, {columns}) {ACID}")
        values = ", ".join(f"'{n}'" for n in range(20))
        acid.sql(f"insert into {name} select id, id % 7, {values} from range(0, 60, 1, 2)")
    acid.sql("delete from b where k > 10")
    for some, none in (("exists", "not exists"), ("EXISTS", "NOT EXISTS")):
        body = "(select * from b where b.k = a.k and b.v < a.v + 1)"
        assert rows(f"select count(*) from a where {some} {body}") == [(11,)]
        assert rows(f"select count(*) from a where {none} {body}") == [(49,)]
    assert {plan.columns for plan in plans[-8:]} == {("k", "v")}
    assert rows("select count(k) from a where exists (select * from b)") == [(60,)]
    assert plans[-1].columns in ((), ("k",))
    assert rows("select count(k) from a where exists (select * from b where s3 = 'x')") == [(0,)]
    acid.sql("delete from a where exists (select * from b where b.k = a.k)")
    assert rows("select count(k), min(k) from a where rand() >= 0") == [(49, 11)]


@pytest.mark.jvm
def test_values_of_any_column_are_counted_without_reading_rows(acid, rows, routes, spark):
    acid.sql(
        "create table c (k int, s string, d double, h char(3), t timestamp, y struct<x:int>)"
        f" {ACID}"
    )
    acid.sql(
        "insert into c select id, if(id % 3 = 0, null, 'x'), if(id % 4 = 0, null, id),"
        " if(id % 5 = 0, null, 'y'), if(id % 6 = 0, null, timestamp'2020-01-01'),"
        " named_struct('x', 1)"
        " from range(0, 60, 1, 2)"
    )
    text = "select count(s), count(d), count(h), count(t), count(k), max(k), count(*) from c"
    expected = [(40, 45, 48, 50, 60, 59, 60)]
    before = jobs_begun(spark)
    assert rows(text) == expected
    assert (jobs_begun(spark), routes) == (before, [])
    assert rows(f"{text} where rand() >= 0") == expected
    assert rows("select count(y), count(s) from c") == [(60, 40)]
    assert routes != []
    routes.clear()
    acid.sql("delete from c where k = 1")
    assert rows("select count(s) from c") == [(39,)]
    assert routes != []
    acid.sql("set hive.metastore.disallow.incompatible.col.type.changes=false")
    acid.sql("alter table c change column s s int")
    routes.clear()
    assert rows("select count(s) from c") == [(0,)]
    assert routes != []


def test_names_that_a_query_gives_to_columns_by_their_place(acid):
    acid.sql(f"create table pairs (id int, v int) partitioned by (p int) {ACID}")
    for row in ("1, 10, 5", "10, 1, 6"):
        acid.sql(f"insert into pairs values ({row})")
    for text, expected in (
        ("select * from pairs as x(v, id, p) where id = 10 and p = 5", [(1, 10, 5)]),
        ("select b from pairs x(a, b, c) where a = 10", [(1,)]),
        ("select x.b from (pairs) as x(p, b, id) where x.id < 6 and p < 6", [(10,)]),
        (
            "select k from pairs unpivot (v for k in (id, v)) where v = 10 order by k",
            [("id",), ("v",)],
        ),
        (
            "select b from pairs pivot (sum(v) for p in (5 as a, 6 as b)) order by b",
            [(1,), (None,)],
        ),
        (
            "select p.k, p.v from pairs as q unpivot include nulls (v for k in (id, v)) as p"
            " where p.v = 10 order by p.k",
            [("id", 10), ("v", 10)],
        ),
        (
            "select b from (select * from pairs) q pivot (sum(v) for p in (6 as b)) where b = 1",
            [(1,)],
        ),
        (
            "select k, w from pairs join (select p as r from pairs) y on y.r = pairs.p"
            " unpivot exclude nulls (w for k in (id, v)) where w = 10 order by k",
            [("id", 10), ("v", 10)],
        ),
        (
            "select pivot.id from pairs pivot join pairs as unpivot on pivot.v = unpivot.id"
            " order by 1",
            [(1,), (10,)],
        ),
    ):
        assert acid.sql(text).collect() == expected, text


def test_exists_by_a_field_of_a_struct_reads_wide_tables(acid, rows):
    """Spark's rule for nested columns reads all of an event then, whatever the query needs."""
    wide = "b string, c string, d string, e string, f string"
    acid.sql("set hiveacid.reads.local_bytes = 0")
    acid.sql(f"create table t (id int, {wide}) {ACID}")
    acid.sql(f"create table s (s struct<id:int,x:string>, {wide}) {ACID}")
    acid.sql("insert into t select id, 'b', 'c', 'd', 'e', 'f' from range(9)")
    acid.sql("insert into s select named_struct('id', 3, 'x', 'x'), 'b', 'c', 'd', 'e', 'f'")
    inner = "(select 1 from s where s.s.id = t.id)"
    for step in ("insert into s select * from s", "delete from t where id = 8"):
        assert rows(f"select id from t where exists {inner}") == [(3,)]
        assert len(rows(f"select id, b from t where not exists {inner}")) >= 7
        acid.sql(step)
    assert len(rows(f"select id, b from t where not exists {inner} or c = 'c'")) == 8


def test_a_query_that_names_itself(acid):
    acid.sql(f"create table staff (id int, boss int, name string) {ACID}")
    acid.sql("insert into staff values (1, null, 'a'), (2, 1, 'b'), (3, 2, 'c'), (4, 1, 'd')")
    acid.sql("delete from staff where id = 4")
    below = (
        "with recursive below (n, depth) max recursion level 9 as (select id, 0 from staff where"
        " boss is null union all select staff.id, depth + 1 from staff join below on boss = n)"
        " select name, depth from below join staff on id = n"
    )
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 1):
        with pytest.raises(SqlSyntaxError):
            acid.sql(below)
        return
    acid.sql(f"create view deep as {below}")
    for text in (below, "select * from deep"):
        assert sorted(map(tuple, acid.sql(text).collect())) == [("a", 0), ("b", 1), ("c", 2)]


@pytest.mark.parametrize(
    ("table", "is_broadcast"),
    [("o", False), ("o", True), ("table_changes('o', 0)", False), ("table_changes('o', 0)", True)],
)
def test_what_python_workers_read_is_broadcast_only_where_it_is_small(
    table, is_broadcast, acid, spark, rows, routes, tmp_path, monkeypatch, capsys
):
    """Spark takes what comes of a function for as large as what goes in: a few numbers."""
    monkeypatch.setattr("hiveacid.spark.arrow_read._BROADCAST_ANYWAY", 0)
    if table == "o":
        acid.sql("create table o (k bigint, v string) stored as orc")
    else:
        acid.sql(f"create table o (k bigint, v string) {ACID}")
    acid.table("o").insert(spark.range(3000).selectExpr("id k", "sha1(string(id)) v"))
    acid.sql("alter table o set tblproperties ('transactional'='true')")
    size = sum(file.stat().st_size for file in tmp_path.glob("wh/o/**/*0*"))
    text = f"select count(*), max(a.k) from {table} a join {table} b on a.k = b.k"
    name = "spark.sql.autoBroadcastJoinThreshold"
    spark.conf.set(name, str(size * 20 if is_broadcast else size // 16))
    try:
        acid.sql(text).explain()
        assert ("BroadcastHashJoin" in capsys.readouterr().out) is is_broadcast
        assert rows(text) == [(3000, 2999)]
    finally:
        spark.conf.unset(name)
    assert set(routes) <= {"in_workers"}


def test_few_rows_of_many_decimals_go_through_arrow(acid, rows, routes, monkeypatch):
    monkeypatch.setattr("hiveacid.spark.read._MANY_ROWS", 1)
    monkeypatch.setattr("hiveacid.spark.arrow_read.ROWS_TRIED_MAX", 0)
    columns = "k int, d date, price decimal(9,2), part decimal(5,3), s string"
    acid.sql(f"create table t ({columns}) {ACID}")
    acid.sql(
        "insert into t select id, date_add(date'2024-01-01', cast(id % 100 as int)), id, id / 1000,"
        " 's' from range(0, 1000, 1, 1)"
    )
    seldom = "d >= '2024-01-05' and d < '2024-01-15' and price between 100.0 and 299"
    for text, route, found in (
        (f"select count(*), sum(price * part) from t where {seldom}", "in_workers", 20),
        ("select count(*), sum(price * part) from t where price >= 100", "rows", 900),
        (f"select count(*), sum(price), min(s), min(part) from t where {seldom}", "rows", 20),
        (f"select count(*), min(k) from t where {seldom}", "rows", 20),
    ):
        assert rows(text)[0][0] == found
        assert routes == [route], text
        routes.clear()
    acid.sql("delete from t where k = 109")
    routes.clear()
    assert rows(f"select count(*), sum(part) from t where {seldom}")[0][0] == 19
    assert routes == ["rows"]

"""Partitions, buckets, stripes: what a condition leaves over is read, and the rows are the same."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pyspark
import pytest
from tests.spark.running import jobs_begun

from hiveacid.spark import arrow_read, native_read
from hiveacid.storage.orc.bucket_reader import BucketFileReader

pytestmark = pytest.mark.long(
    "model", "reading", "session", "spark", "sql", "statements", "storage"
)

ARROW_FRAMES = int(pyspark.__version__.partition(".")[0]) >= 4
here = pytest.mark.skipif(not ARROW_FRAMES, reason="PySpark 3.5 takes no Arrow table")
ACID = "stored as orc tblproperties ('transactional'='true', 'orc.stripe.size'='65536')"


@pytest.fixture
def bucketed(acid):
    acid.sql(
        "create table b (k bigint, v string) partitioned by (p int) clustered by (k) into 4 buckets"
        f" {ACID}"
    )
    acid.sql(
        "insert into b select id, concat('v', id), cast(id % 3 as int) from range(0, 3000, 1, 2)"
    )
    acid.sql("delete from b where k % 10 = 3")
    return acid.table("b")


def test_a_key_of_a_bucketed_table_is_one_file_of_each_partition(bucketed, acid, rows, plans):
    assert rows("select * from b where k = 77") == [(77, "v77", 2)]
    (plan,) = plans
    amount = plan.amount
    assert (len(plan.parts), amount.files, amount.files_of) == (3, 3, 12)
    assert rows("select v from b where k = 77 and p = 2") == [("v77",)]
    assert (len(plans[1].parts), plans[1].partitions_of, plans[1].amount.files) == (1, 3, 1)
    assert plans[1].columns == ("k", "v", "p")
    assert rows("select * from b where k = 73") == []
    assert rows("select count(*) from b where p in (0, 1) and k >= 0") == [(1800,)]
    assert len(plans[3].parts) == 2


@here
@pytest.mark.jvm
def test_a_lookup_runs_no_job(bucketed, acid, routes, spark):
    before = jobs_begun(spark)
    assert acid.sql("select v from b where k = 77 and p = 2").collect() == [("v77",)]
    assert acid.sql("select v from b where k = 73").collect() == []
    assert jobs_begun(spark) == before
    assert routes == ["in_driver", "in_driver"]


@pytest.mark.long("reading", "spark", "storage")
@here
def test_few_rows_are_text_of_the_query(bucketed, acid, routes, rows, spark, monkeypatch):
    """One call to Spark: no DataFrame of the rows, and no view of it."""
    acid.sql(f"create table odd (k int, v string) {ACID}")
    odd = ["'", '"', "\\", "\\n", "${env:HOME}", "{b}", "-- ", "/* */", "é", "", None]
    acid.table("odd").insert(spark.createDataFrame(list(enumerate(odd)), "k int, v string"))
    text = "select o.v, b.v, p, '{}' from odd o left join b on b.k = o.k where b.k <= 77"
    expected = rows(text)
    routes.clear()
    calls = []
    frames = type(spark.range(1))
    for owner, name in ((type(spark), "createDataFrame"), (frames, "createOrReplaceTempView")):
        monkeypatch.setattr(owner, name, lambda *_, called=name, **__: calls.append(called))
    found = {row.v for row in acid.sql("select v from odd where k >= 0").collect()}
    assert found == set(odd)
    assert acid.sql("select v, p from b where k = 77").collect() == [("v77", 2)]
    assert acid.sql("select count(v) from b where k = 73").collect() == [(0,)]
    assert acid.sql("select v from b where k = 73").schema.simpleString() == "struct<v:string>"
    assert (set(routes), calls) == ({"in_driver"}, [])
    monkeypatch.undo()
    monkeypatch.setattr("hiveacid.spark.session.CELLS_MAX", -1)
    assert rows(text) == expected


@here
@pytest.mark.jvm
def test_a_lookup_that_is_collected_asks_spark_for_nothing(acid, spark, monkeypatch):
    acid.sql(
        "create table e (k bigint, t tinyint, b boolean, f float, g double, d decimal(9,3),"
        f" s string, c varchar(9), dt date) clustered by (k) into 2 buckets {ACID}"
    )
    acid.sql(
        "insert into e values (1, -7, true, 0.1, 1e300, 1.5, 'it''s é', 'abc', '1500-03-01'),"
        " (2, null, false, null, double('NaN'), -0.001, '', null, '9999-12-31'),"
        " (3, null, null, null, null, null, null, null, null)"
    )
    texts = (
        "select * from e where k = 1",
        "select s, k as Key, s from e x where x.k in (1, 3) and x.dt is null",
        "select b, f, g, d, c, dt from default.e where k >= 2 or s = 'x'",
        "select d from e where dt = date '1500-03-01'",
        "select k from e where k = 7",
    )
    spark_sql, asked = type(spark).sql, []
    monkeypatch.setattr(
        type(spark), "sql", lambda *a, **n: asked.append(a[1]) or spark_sql(*a, **n)
    )
    for text in texts:
        frame = acid.sql(text)
        found = frame.collect()
        assert asked == [], text
        expected = frame.select("*").collect()  # by Spark
        assert len(asked) == 1, text
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), text
        assert [list(row.__fields__) for row in found] == [frame.columns] * len(expected), text
        asked.clear()
    assert acid.sql("select upper(s) from e where k = 1").collect() == [("ITS É",)]
    assert acid.sql("select k from e where k = 1 + 1").collect() == [(2,)]
    assert len(asked) == 2


def sent_to_jvm(spark, patched):
    """The commands sent to the JVM from now on, but for those that free its objects."""
    gateway = spark._jvm._gateway_client
    sent, send = [], gateway.send_command

    def counted(command, *arguments, **names):
        if not command.startswith("m\n"):
            sent.append(command)
        return send(command, *arguments, **names)

    patched.setattr(gateway, "send_command", counted)
    return sent


@here
@pytest.mark.jvm
def test_statements_of_few_rows_call_the_jvm_for_the_names_of_its_views_alone(
    acid, spark, monkeypatch
):
    acid.sql(f"create table k (id int, v string) clustered by (id) into 2 buckets {ACID}")

    def calls(text):
        sent.clear()
        answer = acid.sql(text)
        if text.startswith("select"):
            assert answer.collect() == [(1, "b")]
        return len(sent)

    with monkeypatch.context() as patched:
        sent = sent_to_jvm(spark, patched)
        assert calls("insert into k values (1, 'a'), (2, 'c')") == 0
        assert calls("update k set v = 'b' where id = 1") == 0
        assert calls("select * from k where id = 1") == 1
        assert calls("delete from k where id = 2") == 0
    assert acid.sql("select * from k").collect() == [(1, "b")]


@pytest.mark.jvm
def test_a_query_of_files_that_spark_knows_makes_few_calls_and_shows_the_rows_of_now(
    acid, spark, rows, monkeypatch, tmp_path
):
    acid.sql(f"create table a (k int, `b{{r}}` string) {ACID}")
    acid.sql("insert into a values (1, 'x'), (2, 'y')")

    def asked(text):
        sent.clear()
        acid.sql(text)
        return list(sent)

    text = "select upper(`b{r}`) u, k from a where k + 0 > 0"
    with monkeypatch.context() as patched:
        sent = sent_to_jvm(spark, patched)
        first, second = asked(text), asked(text)
        assert any("\nload\n" in command for command in first)
        assert not any("\nload\n" in command for command in second)
        assert len(second) <= 13
    assert rows(text) == [("X", 1), ("Y", 2)]
    joined = "select x.k, y.k from a x join a y on x.k + 1 = y.k"
    assert rows(joined) == [(1, 2)]
    acid.sql("insert into a values (3, 'z')")
    assert rows(text) == [("X", 1), ("Y", 2), ("Z", 3)]
    assert rows(joined) == [(1, 2), (2, 3)]
    acid.sql("update a set k = 9 where `b{r}` = 'x'")
    assert rows("select * from a where k + 0 > 0") == [(2, "y"), (3, "z"), (9, "x")]
    acid.sql("drop table a")
    acid.sql(f"create table a (k int, `b{{r}}` string) {ACID}")
    acid.sql("insert into a values (7, 'v'), (8, 'w')")
    assert rows(text) == [("V", 7), ("W", 8)]


@pytest.mark.long("reading", "spark", "storage")
@pytest.mark.jvm
def test_deletes_that_spark_knows_are_not_read_again_and_others_are(acid, spark, rows, monkeypatch):
    of_parts = "partitioned by (p int)"
    for name, parts in (("a", ""), ("b", of_parts)):
        acid.sql(f"create table {name} (k int, v string) {parts} {ACID}")
        more = ", id % 2" if parts else ""
        acid.sql(f"insert into {name} select id, concat('v', id){more} from range(0, 60, 1, 2)")
        acid.sql(f"delete from {name} where k >= 50")
    read = []
    original = native_read.read_marks
    monkeypatch.setattr(
        native_read, "read_marks", lambda *given: read.append(given) or original(*given)
    )
    for name in ("a", "b"):
        text = f"select count(*), sum(k), max(v) from {name} where k + 0 > 0"

        def asked(text=text):
            read.clear()
            return rows(text), len(read)

        assert asked() == ([(49, 1225, "v9")], 1)
        with monkeypatch.context() as patched:
            sent = sent_to_jvm(spark, patched)
            acid.sql(text)
            assert len(sent) <= 20
        assert asked() == ([(49, 1225, "v9")], 0)
        assert rows(f"select count(v) from {name} where v > ''") == [(50,)]
        assert rows(f"select count(*) from {name} x join {name} y on x.k = y.k + 1") == [(49,)]
        acid.sql(f"delete from {name} where k = 9")
        assert asked() == ([(48, 1216, "v8")], 1)
        acid.sql(f"update {name} set v = 'w' where k = 8")
        assert asked() == ([(48, 1216, "w")], 1)
        acid.sql(f"insert into {name} select 70, 'x'{', 1' if name == 'b' else ''}")
        assert asked()[0] == [(49, 1286, "x")]
    acid.sql("alter table a change column v v2 string")
    assert rows("select v2 from a where k = 70") == [("x",)]
    with acid.transaction() as txn:
        txn.sql("delete from a where k > 1")
        assert [tuple(r) for r in txn.sql("select k from a where k + 0 > 0").collect()] == [(1,)]
    assert rows("select k from a where k + 0 > 0") == [(1,)]


def test_a_back_quote_in_a_name_is_no_column_of_nulls(acid, rows):
    for how in (ACID, "stored as orc tblproperties ('transactional'='false')"):
        acid.sql("drop table if exists q")
        acid.sql(f"create table q (k int, `c``d` string) {how}")
        acid.sql("insert into q values (1, 'x'), (2, 'y')")
        assert rows("select `c``d`, k from q where k + 0 > 0") == [("x", 1), ("y", 2)]
        assert rows("select k from q where upper(`c``d`) = 'Y'") == [(2,)]


@pytest.mark.long("reading", "spark", "storage")
@pytest.mark.filterwarnings("ignore:The SQL config:UserWarning")  # over Connect
def test_values_of_partitions_are_no_text_that_a_session_takes_otherwise(acid, rows, spark):
    acid.sql(f"create table odd (k int) partitioned by (p string) {ACID}")
    odd = list(enumerate(["a'b", "a\\b", "${spark.app.name}", "${env:HOME}", "{x}", "\\u0041"]))
    acid.table("odd").insert(spark.createDataFrame(odd, "k int, p string"))
    name = "spark.sql.parser.escapedStringLiterals"
    try:
        for escaped in ("true", "false"):
            spark.conf.set(name, escaped)
            assert rows("select k, p from odd where k + 0 >= 0") == odd
    finally:
        spark.conf.unset(name)


def test_many_rows_of_few_stripes_go_through_arrow(acid, rows, routes, monkeypatch):
    acid.sql(f"create table s (k int, v string) {ACID}")
    acid.sql(
        "insert into s select cast(id as int), sha1(cast(id as string)) from range(0, 60000, 1, 1)"
    )
    monkeypatch.setattr(arrow_read, "ROWS_MAX", 10)
    text = "select count(*), min(k), max(k) from s where k between 30000 and 30999"
    assert rows(text) == [(1000, 30000, 30999)]
    assert routes == ["in_workers"]
    routes.clear()
    assert rows("select count(*), sum(k) from s where k >= 10") == [(59990, 1799969955)]
    assert routes == ["rows"]


@pytest.mark.long("reading", "spark", "storage")
@here
def test_the_driver_decodes_nothing_where_a_range_leaves_out_no_stripe(
    acid, rows, routes, monkeypatch
):
    """Rows that lie anyhow: some of each stripe meet a range, a key is in one."""
    acid.sql(f"create table a (k int, v int, s string) {ACID}")
    acid.sql(
        "insert into a select cast(id as int), cast(id * 7919 % 60000 as int), sha1(cast(id as"
        " string)) from range(0, 60000, 1, 1)"
    )
    monkeypatch.setattr(arrow_read, "ROWS_TRIED_MAX", 10_000)
    decoded: list[int] = []
    original = BucketFileReader._read_stripe

    def read(self, reader, number, names):
        decoded.append(number)
        return original(self, reader, number, names)

    monkeypatch.setattr(BucketFileReader, "_read_stripe", read)
    assert rows("select count(*), sum(v) from a where v between 100 and 1299") == [(1200, 839400)]
    assert (routes, decoded) == (["rows"], [])
    routes.clear()
    assert rows("select k from a where v = 7919") == [(1,)]
    stripes = len(set(decoded))
    assert (routes, len(decoded)) == (["in_driver"], stripes + 1)  # the one with the row once more
    routes.clear()
    assert rows("select sum(v) from a where k < 3") == [(23757,)]
    assert (routes, len(decoded)) == (["in_driver"], stripes + 3)
    routes.clear()
    monkeypatch.setattr(arrow_read, "ROWS_TRIED_MAX", 60_000)
    assert rows("select sum(v) from a where v between 100 and 102") == [(303,)]
    assert routes == ["in_driver"]


@pytest.mark.long("reading", "spark", "storage")
def test_a_column_called_row_does_not_answer_for_its_neighbours(acid, rows, routes, monkeypatch):
    """Spark pushes down ``row.v``, which ORC looks for in the table's own ``row``."""
    monkeypatch.setattr(arrow_read, "ROWS_MAX", -1)
    for name, kind, value in (
        ("v", "struct<v:int>", "named_struct('v', -1)"),
        ("_elem", "array<int>", "array(-1)"),
        ("_value", "map<string,int>", "map('a', -1)"),
    ):
        acid.sql(f"create table {name}_row (`{name}` int, `row` {kind}) {ACID}")
        source = f"select cast(id as int), {value} from range(0, 1000, 1, 1)"
        acid.sql(f"insert into {name}_row {source}")
        text = f"select count(*), count(`row`) from {name}_row where `{name}` > 900"
        assert rows(text) == [(99, 99)], name
        assert rows(f"select max(`{name}`) + 0 from {name}_row where `{name}` > 900") == [(999,)]
    assert set(routes) == {"in_workers", "rows"}


@pytest.mark.long("spark", "storage", "sql", "statements")
def test_many_partitions_are_one_relation(acid, rows, routes, capsys):
    acid.sql(f"create table m (k int) partitioned by (p string, d date) {ACID}")
    acid.sql(
        "insert into m select cast(id as int), concat('a %/:', id % 100),"
        " date_add(date '2020-01-01', cast(id % 2 as int)) from range(0, 4000, 1, 2)"
    )
    acid.sql("delete from m where k % 4 = 0 and p <> 'x'")
    assert rows("select count(*), sum(k), count(distinct p), count(distinct d) from m") == [
        (3000, 6000000, 75, 2)
    ]
    assert rows("select k, d from m where p = 'a %/:7' and k < 50") == rows(
        "select k, d from m where concat(p, '') = 'a %/:7' and k < 50"
    )
    assert acid.sql("select distinct p from m where p like '%:7'").collect() == [("a %/:7",)]
    assert set(routes) == ({"rows", "in_driver"} if ARROW_FRAMES else {"rows"})
    acid.sql("select count(distinct p) from m").explain()
    by_python_workers = "ExistingRDD" in capsys.readouterr().out
    assert by_python_workers != ARROW_FRAMES


@pytest.mark.long("spark", "storage", "sql", "statements")
def test_conditions_that_look_alike_change_nothing(acid, rows):
    """The same condition in a form that the planner reads, and in one that it does not."""
    acid.sql(
        "create table c (i int, d decimal(10,2), f double, s string, t timestamp, dt date)"
        f" partitioned by (p string) {ACID}"
    )
    acid.sql(
        "insert into c select i, d, f, s, t, dt, p from (values"
        " (1, 1.50, 1.5D, 'a', timestamp '2020-01-01 00:00:00', date '2020-01-01', 'x'),"
        " (2, -2.25, double('NaN'), 'b ', timestamp '1969-12-31 23:00:00', date '1500-03-01',"
        " ''), (3, 100, double('Infinity'), 'é', timestamp '2200-01-01 12:00:00',"
        " date '9999-12-31', 'y'),"
        " (null, null, null, null, null, null, null)) as v(i, d, f, s, t, dt, p)"
    )
    conditions = (
        "i = 2", "i <> 2", "i > 2.5", "i in (1, 3)", "not (i = 1 or i = 2)", "i is null",
        "d = 1.5", "d < 0", "d >= 100.00", "f > 5", "f = 1.5", "f <= 1.5", "f <> 1.5",
        "s = 'b '", "s = 'b'", "s > 'b'", "s <= 'é'", "t > '2020-01-01'",
        "t < timestamp '1970-01-01'",
        "t = '2020-01-01 00:00:00'", "dt < '1582-10-15'", "dt = date '9999-12-31'",
        "dt between '2020-01-01' and '2020-12-31'", "p = 'x'", "p <> 'x'", "p is null",
        "p = '' or i = 1", "p >= 'x' and i >= 1", "i = 1 and p = 'y'",
    )  # fmt: skip
    forms = ("{}", "case when {} then true else false end")
    plain, hidden = (
        " union all ".join(
            f"select {at} n, i from c where {form.format(condition)}"
            for at, condition in enumerate(conditions)
        )
        for form in forms
    )
    found, expected = Counter(rows(plain)), Counter(rows(hidden))
    assert {conditions[at] for at, _ in (found - expected) + (expected - found)} == set()


@here
def test_explain_tells_what_is_read_of_all(bucketed, acid):
    def lines(text):
        return [row[0] for row in acid.sql(f"explain {text}").collect()]

    query = lines("select v from b where k = 77 and p = 2")
    assert query[0] == "== Tables =="
    assert query[1].startswith(
        "default.b: partitions 1 of 3, of those files 1 of 4, stripes 1 of 1, bytes "
    )
    assert query[1].endswith("delete files 1 of 4")
    assert any("LocalTableScan" in line for line in query)
    change = lines("update b set v = 'x' where k = 77")
    assert any("reads: partitions 3 of 3, of those files 3 of 12" in line for line in change)
    assert not any(acid.sql("show locks").collect())


@here
def test_few_rows_are_changed_by_the_driver(bucketed, acid, rows, routes, layout):
    assert acid.sql("update b set v = concat(v, '!') where k in (77, 78)").rows == 2
    assert acid.sql("delete from b where k = 79 and v like 'v%'").rows == 1
    assert acid.sql("update b set v = 'none' where k = 73").rows == 0
    assert set(routes) == {"in_driver"}
    assert rows("select k, v from b where k between 76 and 80") == [
        (76, "v76"), (77, "v77!"), (78, "v78!"), (80, "v80"),
    ]  # fmt: skip
    assert rows("select count(*), sum(k) from b where rand() >= 0") == [(2699, 4049021)]
    (kept,) = (name for name in layout("b") if "p=1/delete_delta_0000004_0000004_0000/b" in name)
    assert kept.split("/")[1:] == ["delete_delta_0000004_0000004_0000", kept.rpartition("/")[2]]


@pytest.mark.jvm
def test_aggregates_over_all_come_from_metadata_where_it_is_exact(acid, rows, spark):
    acid.sql(
        f"create table g (i int, d date, x decimal(10,2), s string) partitioned by (p int) {ACID}"
    )
    acid.sql(
        "insert into g values (1, '2020-01-01', 1.5, 'a', 1), (-7, '1999-12-31', -2, null, 2),"
        " (null, null, 100.25, 'b', 2)"
    )
    text = "count(*), count(i), min(i), max(d), min(x), max(p)"
    expected = acid.sql(f"select {text} from g where rand() >= 0").collect()

    before = jobs_begun(spark)
    frame = acid.sql(f"select {text} from g")
    assert frame.collect() == expected
    assert jobs_begun(spark) == before
    assert frame.columns == ["count(1)", "count(i)", "min(i)", "max(d)", "min(x)", "max(p)"]
    assert frame.dtypes == acid.sql(f"select {text} from g where rand() >= 0").dtypes
    acid.sql("delete from g where i = -7")
    assert rows("select count(i), min(i), max(x) from g") == rows(
        "select count(i), min(i), max(x) from g where rand() >= 0"
    )
    assert rows("select min(s), max(s) from g") == [("a", "b")]


@pytest.mark.jvm
def test_a_decimal_from_metadata_keeps_all_its_digits(acid, rows):
    small = Decimal("0.00000012345678901234567890")
    acid.sql(f"create table g (x decimal(38,26)) {ACID}")
    acid.sql(f"insert into g values ({small:f}), (-{small:f})")
    assert rows("select min(x), max(x) from g") == [(-small, small)]


@here
def test_a_small_table_is_read_by_the_driver(acid, rows, routes, spark):
    acid.sql(f"create table y (k int, v string) partitioned by (p int) {ACID}")
    acid.sql("insert into y values (1, 'a', 1), (2, 'b', 2), (3, null, 2)")
    acid.sql("set hiveacid.reads.local_bytes=262144")
    acid.sql("delete from y where k % 2 = 0")
    assert acid.sql("update y set v = 'c' where p > 1").rows == 1
    source = spark.sql("select 1 as k union all select 9")
    merge = acid.table("y").merge(source, on="t.k = s.k").when_matched_update({"v": "'m'"})
    result = merge.when_not_matched_insert({"k": "s.k", "p": "7"}).run()
    assert (result.updated, result.inserted) == (1, 1)
    assert rows("select *, row__id.writeid from y") == [
        (1, "m", 1, 4), (3, "c", 2, 3), (9, None, 7, 4),
    ]  # fmt: skip
    assert rows("select a.k, b.p from y a join y b on a.k = b.k where a.p >= 2") == [
        (3, 2), (9, 7),
    ]  # fmt: skip
    assert set(routes) == {"in_driver"}
    open_ones = [row for row in acid.sql("show transactions").collect() if "OPEN" in str(row)]
    assert open_ones == []


def test_a_condition_on_a_derived_table_leaves_subqueries_in_it_their_rows(acid, rows):
    acid.sql(f"create table t (id int, x int) {ACID}")
    acid.sql(f"create table s (x int) partitioned by (id int) {ACID}")
    acid.sql("insert into t values (5, 1), (6, 2)")
    acid.sql("insert into s partition (id) values (1, 7), (2, 6), (9, null)")
    kept = "select id from t where exists (select id from s where s.x = t.x)"
    assert rows(f"select * from ({kept}) q where id = 5") == [(5,)]
    without = "select id from t where id not in (select id from s)"
    assert rows(f"select * from ({without}) q where id = 5") == []
    below = "select id from t where x < (select max(id) id from s)"
    assert rows(f"select * from ({below}) q where id = 5") == [(5,)]


def test_a_condition_beside_a_semi_join_leaves_the_joined_table_its_rows(acid, rows):
    acid.sql(f"create table t (id int, p int) {ACID}")
    acid.sql(f"create table s (id int) partitioned by (p int) {ACID}")
    acid.sql("insert into t values (1, 1), (2, 1), (3, 1)")
    acid.sql("insert into s partition (p) values (1, 1), (2, 2)")
    for table in ("s", "(select id, p from s)"):
        joined = f"join {table} b on t.id = b.id where p = 1"
        assert rows(f"select t.id from t left anti {joined}") == [(3,)]
        assert rows(f"select id from t left semi {joined}") == [(1,), (2,)]
    acid.sql("create view v as select * from t left anti join s on t.id = s.id where p = 1")
    assert rows("select *, t.row__id.writeid from t left anti join s on t.id = s.id") == [(3, 1, 1)]
    assert rows("select * from v") == [(3, 1)]

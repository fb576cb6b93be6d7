"""Event files as Spark's ORC reader has them: whatever the session is set to, and never the values
of another column.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

from hiveacid.spark import arrow_read, delete_filter, native_read

pytestmark = pytest.mark.long("layout", "model", "spark", "storage")

ACID = "stored as orc tblproperties ('transactional'='true')"
COLUMNS = (
    "a bigint, b bigint, c bigint, s string, u string, d decimal(15,2), at timestamp,"
    " st struct<x:bigint,y:bigint,z:string>, ar array<struct<p:bigint,q:bigint>>,"
    " m map<string,struct<g:bigint,h:bigint>>"
)
ROWS = """
    select id a, id * 10 b, if(id % 7 = 0, null, id * 100) c, concat('s', id) s,
        if(id % 5 = 0, null, concat('u', id)) u, cast(id / 4 as decimal(15,2)) d,
        timestamp_seconds(id * 1000) at,
        if(id % 11 = 0, null, named_struct('x', id * 2, 'y', nullif(id * 4, 8), 'z', 'z')) st,
        if(id % 13 = 0, null, array(named_struct('p', id, 'q', id + 1))) ar,
        map('k', named_struct('g', id, 'h', id + 1)) m
    from range(0, 300, 1, 2)"""
QUERIES = (
    "select count(*), max(b), max(u) from {} where rand() >= 0",
    "select c, a from {} where b > 100 and c is not null",
    "select st.y, ar[0].q, m['k'].h, d from {} where st.x > 50",
    "select u, at from {} where u is null or at > timestamp'1970-01-02'",
    "select x.a, y.st.z, y.c from {} x join {} y on x.a = y.b where y.u is not null",
    "select a, e.p from {} lateral view explode(ar) z as e where e.q % 2 = 0",
    "select a from {} v where exists (select 1 from {} w where w.b = v.c and w.st.x > 10)",
    "select s from (select s, b, row_number() over (partition by a % 3 order by b desc) n from {})"
    " where n < 5",
    "select b from {} where a < 9 union all select c from {} where c > (select avg(c) from {})",
)
SETTINGS = (
    {},
    {"spark.sql.codegen.wholeStage": "false", "spark.sql.adaptive.enabled": "false"},
)
MORE_SETTINGS = (
    {"spark.sql.orc.enableVectorizedReader": "false"},
    {"spark.sql.orc.enableNestedColumnVectorizedReader": "false"},
    {"spark.sql.optimizer.nestedSchemaPruning.enabled": "false"},
    {"spark.sql.caseSensitive": "true"},
    {"spark.sql.sources.useV1SourceList": ""},
    {"spark.sql.orc.filterPushdown": "false"},
)
IDS = ["writeid", "bucketid", "rowid"]


@contextmanager
def settings(spark, wanted):
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield
    for name in wanted:
        spark.conf.unset(name)


@pytest.fixture(scope="module")
def many(lasting):
    """Table v in two deltas of two files each, of which rows are deleted."""
    lasting.sql(f"create table v ({COLUMNS}) {ACID}")
    lasting.sql(f"insert into v {ROWS}")
    lasting.sql(f"insert into v {ROWS}")
    lasting.sql("delete from v where a >= 250")
    return lasting


@pytest.fixture(scope="module")
def expected(spark):
    """The rows of each query, of a view that no file is read for."""
    left = f"select * from ({ROWS}) where a < 250"
    spark.sql(f"{left} union all {left}").createOrReplaceTempView("expected_rows")
    return {
        query: sorted(map(str, spark.sql(query.replace("{}", "expected_rows")).collect()))
        for query in QUERIES
    }


@pytest.mark.parametrize(
    "wanted",
    [*SETTINGS, *(pytest.param(one, marks=pytest.mark.long("spark")) for one in MORE_SETTINGS)],
    ids=lambda one: next(iter(one), "none"),
)
def test_rows_are_right_whatever_the_session_is_set_to(
    many, expected, spark, monkeypatch, routes, wanted
):
    monkeypatch.setattr(arrow_read, "in_driver", lambda *_, **__: None)
    with settings(spark, wanted):
        for query in QUERIES:
            assert expected[query], query
            found = many.sql(query.replace("{}", "v")).collect()
            assert sorted(map(str, found)) == expected[query], query
    assert "rows" in routes
    assert "in_workers" not in routes


@pytest.mark.long("reading", "spark", "storage")
@pytest.mark.parametrize(
    "limits", [{}, {"EVENTS_HERE_MAX": 0, "_PACKED_BITS": 0}], ids=["bits", "join"]
)
def test_a_column_called_as_a_system_column_hides_no_row(acid, rows, monkeypatch, limits):
    """ORC, asked for ``bucket`` or, in whatever case, ``rowId``, looks at the table's column."""
    monkeypatch.setattr(arrow_read, "in_driver", lambda *_, **__: None)
    for name, limit in limits.items():
        monkeypatch.setattr(delete_filter, name, limit)
    system = "operation int, originaltransaction bigint, bucket int, rowid bigint"
    acid.sql(f"create table v (k int, {system}, currenttransaction bigint, w int) {ACID}")
    acid.sql("insert into v select id, -7, -7, -7, -7, 1000000, 0 from range(0, 20, 1, 1)")
    acid.sql("insert into v select id, null, null, null, null, null, 0 from range(20, 40, 1, 1)")
    columns = "count(*), sum(bucket), sum(rowid), sum(operation), sum(originaltransaction)"
    assert rows(f"select {columns} from v where ROW__ID.bucketid >= 0 and ROW__ID.rowid = 3") == [
        (2, -7, -7, -7, -7)
    ]
    assert rows(f"select {columns} from v where ROW__ID.writeid = 2") == [(20, *[None] * 4)]
    found, again = (acid.sql(f"select {one}, ROW__ID from v") for one in "kw")
    assert found.select("ROW__ID.*").join(again.select("ROW__ID.*"), IDS).count() == 40
    acid.sql("delete from v where k % 2 = 0")
    assert rows("select count(*), sum(k), count(bucket) from v where rand() >= 0") == [
        (20, 400, 10)
    ]
    acid.sql("update v set w = 1 where k in (select rowid + 12 from v) or bucket is null")
    assert rows("select w, count(*), sum(k) from v where rand() >= 0 group by w order by w") == [
        (0, 9, 95),
        (1, 11, 305),
    ]
    with pytest.raises(RuntimeError), acid.transaction() as txn:
        txn.sql("insert into v (k, currenttransaction) values (100, -1)")
        raise RuntimeError
    acid.sql("insert into v (k, currenttransaction) values (101, 1000000)")
    acid.sql("alter table v compact 'minor' and wait")
    assert rows("select count(*), sum(k), count(currenttransaction) from v where rand() >= 0") == [
        (21, 501, 11)
    ]


@pytest.mark.jvm
@pytest.mark.parametrize("fields", ["b bigint", "s string", "m map<string,struct<g:bigint>>"])
def test_fields_that_spark_leaves_out_and_orc_does_not_are_an_error(spark, many, fields):
    """Each would have the values of the one before it. No Spark that is known does this."""
    jvm, session = spark._jvm, spark._jsparkSession
    system = (
        "operation int, originalTransaction bigint, bucket int, rowId bigint,"
        " currentTransaction bigint"
    )
    (file,) = Path(many.client.warehouse).glob("v/delta_0000001_*/bucket_00000*")
    size = file.stat().st_size

    def read(told_to_orc):
        """The first batch; ``told_to_orc`` before the fields that Spark takes."""
        options = {**native_read._BY_NUMBER, "returning_batch": "true"}
        options = jvm.PythonUtils.toScalaMap(options)
        schema = jvm.org.apache.spark.sql.types.DataType.fromDDL
        row = ", ".join(one.replace(" ", ": ", 1) for one in (*told_to_orc, fields))
        reader = jvm.org.apache.spark.sql.execution.datasources.orc.OrcFileFormat()
        reader = reader.buildReaderWithPartitionValues(
            session,
            schema(f"{system}, row struct<{row}>"),
            jvm.org.apache.spark.sql.types.StructType(),
            schema(f"row struct<{fields.replace(' ', ': ', 1)}>"),
            jvm.PythonUtils.toSeq([]),
            options,
            session.sessionState().newHadoopConfWithOptions(options),
        )
        batches = reader.apply(
            jvm.org.apache.spark.sql.execution.datasources.PartitionedFile(
                jvm.org.apache.spark.sql.catalyst.InternalRow.empty(),
                jvm.org.apache.spark.paths.SparkPath.fromPathString(str(file)),
                0,
                size,
                spark.sparkContext._gateway.new_array(jvm.java.lang.String, 0),
                0,
                size,
                jvm.PythonUtils.toScalaMap({}),
            )
        )
        assert batches.hasNext()
        return batches.next()

    guard = f"{native_read._GUARD.name} {native_read._GUARD.dataType.simpleString()}"
    assert read([]).numRows() == 150
    with pytest.raises(Exception, match="ClassCastException"):
        read([guard])

"""What Spark is asked to do: one action a statement, source and target each read once, none for
VALUES; which columns a scan reads.
"""

from __future__ import annotations

import pytest
from tests.spark.running import jobs_begun

ACID = "stored as orc tblproperties ('transactional'='true')"


pytestmark = [pytest.mark.jvm, pytest.mark.long("spark", "statements")]


class Meter:
    """Spark's own account of what ran (a test may look behind the gateway)."""

    def __init__(self, spark):
        self._spark = spark
        self._bus = spark._jsc.sc().listenerBus()
        self._executions = spark._jsparkSession.sharedState().statusStore()
        self.reset()

    def _ran(self):
        """Ids of the executions that ran jobs (making a view is one without), how many jobs."""
        self._bus.waitUntilEmpty(300_000)
        found = self._executions.executionsList()
        executions = [found.apply(i) for i in range(found.size())]
        with_jobs = {one.executionId() for one in executions if one.jobs().size()}
        return with_jobs, jobs_begun(self._spark)

    def reset(self):
        self._before = self._ran()

    @property
    def actions(self):
        return len(self._ran()[0] - self._before[0])

    @property
    def jobs(self):
        return self._ran()[1] - self._before[1]

    def scanned(self):
        """Rows put out by each scan of ORC files in the last action."""
        execution = max(self._ran()[0])
        values = self._executions.executionMetrics(execution)
        nodes = self._executions.planGraph(execution).allNodes()
        rows = []
        for node in (nodes.apply(i) for i in range(nodes.size())):
            metrics = node.metrics()
            for metric in (metrics.apply(i) for i in range(metrics.size())):
                if node.name().startswith("Scan orc") and metric.name() == "number of output rows":
                    text = values.get(metric.accumulatorId())
                    rows.append(int(text.get().replace(",", "")) if text.isDefined() else 0)
        return sorted(rows)


LONG = pytest.mark.long("spark", "statements", "storage")


@pytest.fixture
def meter(spark):
    return Meter(spark)


@pytest.fixture
def table(acid):
    acid.sql(f"create table t (id int, v string) {ACID}")
    acid.sql("insert into t select cast(id as int), concat('v', id) from range(0, 1000, 1, 2)")
    acid.sql("insert into t values (5000, 'x')")
    return acid.table("t")


def test_values_and_statements_about_metadata_run_no_job(acid, meter):
    acid.sql(f"create table t (id int, v string) {ACID}")
    acid.sql("insert into t values (1, 'a'), (2, null)")
    acid.sql("insert into t (v) values ('b')")
    acid.sql("insert overwrite table t values (1, 'a')")
    acid.sql("show tables").collect()
    acid.sql("show locks").collect()
    acid.sql("describe t").collect()
    assert meter.jobs == 0


@pytest.mark.parametrize(
    ("statement", "shuffles"),
    [
        pytest.param("insert into t select id, v from u", 0, marks=LONG),
        ("insert overwrite table t select id, v from u", 0),
        ("insert into b select id, v from u", 1),
        ("update t set v = 'new' where id % 3 = 0", 1),
        pytest.param("delete from t where id % 3 = 0", 1, marks=LONG),
        ("delete from t", 0),
        pytest.param("truncate table t", 0, marks=LONG),
    ],
)
def test_one_action_for_each_statement(acid, table, meter, statement, shuffles):
    acid.sql(f"create table u (id int, v string) {ACID}")
    acid.sql("insert into u select id, v from t")
    acid.sql(f"create table b (id int, v string) clustered by (id) into 2 buckets {ACID}")
    meter.reset()
    acid.sql(statement)
    truncates = statement in ("delete from t", "truncate table t")
    assert meter.actions == (0 if truncates else 1)
    assert meter.jobs <= (0 if truncates else shuffles + 1)
    if not truncates:
        assert meter.scanned() == [1001]


def test_merge_reads_source_and_target_once(acid, spark, table, meter):
    read = spark.sparkContext.accumulator(0)

    def counted(batches):
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    source = spark.range(500, 1500, 1, 2).selectExpr("cast(id as int) id", "'new' v")
    source = source.mapInArrow(counted, source.schema)
    meter.reset()
    merged = (
        table.merge(source, on="t.id = s.id")
        .when_matched_delete(where="s.id % 10 = 0")
        .when_matched_update({"v": "s.v"})
        .when_not_matched_insert({"id": "s.id", "v": "s.v"})
        .run()
    )
    assert (merged.updated, merged.deleted, merged.inserted) == (450, 50, 500)
    assert meter.actions == 1
    assert read.value == 1000
    assert meter.scanned() == [1001]
    assert acid.sql("select count(*) n from t").collect()[0].n == 1451


def test_a_scan_reads_rows_once_and_no_delete_files(acid, table, meter):
    acid.sql("delete from t where id % 10 = 1")
    meter.reset()
    acid.sql("update t set v = 'again' where id % 10 = 2")
    assert meter.actions == 1
    assert meter.scanned() == [1001]


def read_schema(frame):
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return [line.split("ReadSchema: ")[1] for line in plan.splitlines() if "ReadSchema: " in line]


def test_a_scan_reads_the_columns_needed_and_no_other(acid, spark):
    spark.conf.set("spark.sql.maxMetadataStringLength", "1000")
    acid.sql(
        "create table wide (a string, small tinyint, b string, c string,"
        f" s struct<x:string,y:string>) {ACID}"
    )
    acid.sql("insert into wide select 'a', 1, 'b', 'c', named_struct('x', 'x', 'y', 'y')")
    ids = "originalTransaction:bigint,bucket:int,rowId:bigint"
    for query, read in (
        ("select count(*) from wide where rand() >= 0", ""),
        ("select b from wide", "row:struct<b:string>"),
        ("select s.y from wide where trim(c) = 'c'", "row:struct<c:string,s:struct<y:string>>"),
        ("select small, ROW__ID from wide", f"{ids},row:struct<small:tinyint>"),
        ("select ROW__ID.rowid from wide where rand() >= 0", "rowId:bigint"),
    ):
        frame = acid.sql(query)
        assert read_schema(frame) == [f"struct<{read}>"], query
        assert len(frame.collect()) == 1
    acid.sql("delete from wide where a = 'b'")
    acid.sql("insert into wide (a) values ('b')")
    acid.sql("delete from wide where a = 'b'")
    acid.sql("create view seen as select * from wide")
    for text in ("select a from wide where rand() >= 0", "select a from seen where rand() >= 0"):
        assert read_schema(acid.sql(text)) == [f"struct<{ids},row:struct<a:string>>"], text
        assert acid.sql(text).collect() == [("a",)]


def test_spark_and_orc_do_not_agree_about_fewer_columns_than_six(acid, spark, table, tmp_path):
    """Where this passes no more, ``native_read.py`` may have become too careful."""
    files = str(tmp_path / "wh" / "t" / "delta_0000001_0000001_0000")
    frame = spark.read.orc(files)
    assert len(frame.collect()) == 1000
    for narrow in (frame.select("row.id"), frame.select("rowId"), frame.groupBy().count()):
        with pytest.raises(Exception, match=r"ClassCastException|IndexOutOfBoundsException"):
            narrow.collect()

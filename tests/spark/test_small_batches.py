"""What a small micro-batch costs: jobs, workers, evaluations; by whom it is written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.streamed import ACID
from tests.spark.test_one_action import Meter

import hiveacid
from hiveacid import read_arrow
from hiveacid.errors import CardinalityError, ConversionError
from hiveacid.session import Session

LONG = pytest.mark.long("spark", "statements", "storage")

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.skipif(
        pyspark.__version__.startswith("3."), reason="PySpark 3.5 gives no Arrow tables"
    ),
    pytest.mark.long("spark", "storage", "streams"),
]
UPSERT = {"mode": "upsert", "on": "id"}
CDC = {**UPSERT, "mode": "cdc", "delete_where": "s.op = 'd'"}


@pytest.fixture
def acid(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    url, root = f"sqlite:///{tmp_path}/m.db", str(tmp_path / "wh")
    off = {"hiveacid.compactor.auto": "off"}
    with hiveacid.connect(spark, url, warehouse=root, settings=off) as session:
        session.sql(f"create table emp (id int, pay int) {ACID}")
        yield session


@pytest.fixture
def by_workers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each write by Spark's workers."""
    import hiveacid.spark.write as module

    found: list[str] = []
    original = module.staged_by_spark

    def spy(*arguments: Any, **names: Any) -> Any:
        found.append("written")
        return original(*arguments, **names)

    monkeypatch.setattr(module, "staged_by_spark", spy)
    return found


def batch(spark: SparkSession, low: int, high: int, pay: str = "1") -> DataFrame:
    """Rows that Spark has to compute, in two partitions."""
    columns = ("cast(id as int) id", f"cast({pay} as int) pay")
    return spark.range(low, high, 1, 2).selectExpr(*columns)


def rows(acid: Session) -> dict[int, int]:
    found = read_arrow(acid.table("emp")).read_all()
    assert len(found) == len(set(found["id"].to_pylist()))
    return dict(zip(found["id"].to_pylist(), found["pay"].to_pylist(), strict=True))


@pytest.mark.parametrize("how", [{}, UPSERT])
def test_a_small_batch_is_one_job_and_no_worker(
    acid: Session, spark: SparkSession, by_workers: list[str], how: dict[str, Any]
) -> None:
    write = hiveacid.foreach_batch(acid, "emp", app_id="a", **how)
    meter = Meter(spark)
    for number in range(2):
        low = 5 * number if how else 10 * number
        meter.reset()
        write(batch(spark, low, low + 10, str(number)), number)
        assert meter.jobs == 1
    assert by_workers == []
    assert len(rows(acid)) == (15 if how else 20)
    assert rows(acid)[12] == 1


def test_a_large_batch_is_for_the_workers_and_the_next_is_not_tried(
    acid: Session, spark: SparkSession, by_workers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = hiveacid.foreach_batch(acid, "emp", app_id="a")
    monkeypatch.setattr(sys.modules[type(write).__module__], "FEW", 10)
    meter, jobs, by = Meter(spark), [], []
    for number, (low, high) in enumerate([(0, 10), (10, 30), (30, 50), (50, 53), (53, 55)]):
        meter.reset()
        by_workers.clear()
        write(batch(spark, low, high), number)
        jobs.append(meter.jobs)
        by.append(len(by_workers))
    assert jobs == [1, 2, 1, 1, 1]
    assert by == [0, 1, 1, 0, 0]
    assert rows(acid).keys() == set(range(55))


def written(acid: Session, spark: SparkSession, few: int, changes: DataFrame, **how: Any) -> Any:
    """The rows of a table with such a batch, or the error."""
    acid.sql("truncate table emp")
    acid.sql("insert into emp values (1, 1), (2, 2), (3, 3)")
    write = hiveacid.foreach_batch(acid, "emp", app_id=f"few {few}", **how)
    write._waits = 0 if few else 9
    try:
        write(changes, int(acid.sql("select max(row__id.writeid) from emp").collect()[0][0]))
    except (CardinalityError, ConversionError) as error:
        return type(error), error.message.partition(": {")[0]  # of two keys Spark may tell either
    return sorted(map(str, read_arrow(acid.table("emp")).read_all().to_pylist()))


@pytest.mark.long("spark", "statements", "storage")
def test_the_driver_writes_what_spark_would(
    acid: Session, spark: SparkSession, by_workers: list[str]
) -> None:
    at = "2026-01-0"
    changes = [
        (1, 10, "u", f"{at}1", "a"),
        (1, 11, "u", f"{at}3", "b"),
        (1, 12, "u", f"{at}3", None),
        (2, 20, "u", f"{at}1", "a"),
        (2, 0, "d", f"{at}2", "a"),
        (3, 30, None, None, "a"),
        (4, 40, "d", f"{at}1", "a"),
        (5, 50, "i", f"{at}1", "b"),
        (None, 60, "i", f"{at}1", "b"),
        (None, 61, "i", f"{at}1", "b"),
    ]
    lines = [(i, p, op, at and f"{at} 10:00:00", x) for i, p, op, at, x in changes]
    text = "id int, pay int, op string, at string, part string"
    frame = spark.createDataFrame(lines, text).selectExpr("* except (at)", "timestamp(at) at")
    for columns, how in (
        (["op", "at", "part"], {**CDC, "order_by": ["at", "part"]}),
        (["op", "at"], {**CDC, "order_by": ["at"]}),
        (["op"], CDC),
        (["op", "at", "part"], {**UPSERT, "order_by": ["AT", "part", "op"]}),
    ):
        by_workers.clear()
        given = frame.select("id", "pay", *columns)
        found = [written(acid, spark, few, given, **how) for few in (0, 100)]
        assert found[0] == found[1], how
        assert len(by_workers) <= 1, how
    plain = frame.select("id", "pay")
    assert written(acid, spark, 0, plain) == written(acid, spark, 100, plain)
    assert written(acid, spark, 0, plain, **UPSERT) == written(acid, spark, 100, plain, **UPSERT)
    large = plain.selectExpr("id", "if(id = 4, 1000000000000L, pay) pay")
    assert written(acid, spark, 0, large) == written(acid, spark, 100, large)


@pytest.mark.parametrize(
    ("columns", "clauses"),
    [
        ("id int, pay int", "clustered by (id) into 3 buckets"),
        ("id int", "partitioned by (pay string)"),
        pytest.param("id int", "partitioned by (pay int)", marks=LONG),
        pytest.param("id int", "partitioned by (pay double)", marks=LONG),
    ],
)
def test_all_kinds_of_tables(
    acid: Session, spark: SparkSession, by_workers: list[str], columns: str, clauses: str
) -> None:
    frame = spark.range(0, 20, 1, 2).selectExpr("cast(id as int) id", "nullif(id % 3, 0) pay")
    answers = []
    for name, few in (("here", 100), ("there", 0)):
        acid.sql(f"create table {name} ({columns}) {clauses} {ACID}")
        for mode in ({}, UPSERT):
            write = hiveacid.foreach_batch(acid, name, app_id=f"{name} {mode}", **mode)
            write._waits = 0 if few else 9
            write(frame if mode else frame.where("id < 15"), 0)
        found = read_arrow(acid.table(name)).read_all()
        answers.append(found.sort_by("id").to_pylist())
        files = sorted(
            one.parent.name for one in Path(acid.table(name).definition.location).rglob("bucket*")
        )
        answers.append(files if "partitioned" in clauses else [])
    assert answers[0] == answers[2]
    assert set(answers[1]) == set(answers[3])


@pytest.mark.parametrize("how", [{}, UPSERT])
def test_long_rows_are_for_the_workers(
    acid: Session, spark: SparkSession, by_workers: list[str], how: dict[str, Any]
) -> None:
    """As many as are few would not fit into the driver: only their lengths come there."""
    acid.sql(f"create table texts (id int, a string, b binary) {ACID}")
    write = hiveacid.foreach_batch(acid, "texts", app_id="a", **how)
    for number, long in enumerate((300, 30_000)):
        text = f"if(id % 5 = 3, repeat('x', {long}), null)"
        columns = ("cast(id as int) id", f"{text} a", f"cast({text} as binary) b")
        by_workers.clear()
        write(spark.range(5 * number, 5 * number + 8, 1, 2).selectExpr(*columns), number)
        assert len(by_workers) == (0 if long == 300 else 1)
    found = read_arrow(acid.table("texts")).read_all()
    for name in ("a", "b"):
        lengths = [len(value) for value in found[name].to_pylist() if value is not None]
        assert sorted(lengths) == [300, 30_000]


def test_no_rows_are_a_batch(acid: Session, spark: SparkSession) -> None:
    for number, how in enumerate(({}, UPSERT)):
        write = hiveacid.foreach_batch(acid, "emp", app_id=f"a{number}", **how)
        write(batch(spark, 0, 0), 0)
        write(batch(spark, 0, 5), 0)
    assert rows(acid) == {}


def test_workers_do_not_look_through_what_they_imported(acid: Session, spark: SparkSession) -> None:
    """PySpark lets them collect garbage after each task."""
    acid.table("emp").insert(batch(spark, 0, 20))

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc
        import sys

        for _ in batches:
            ours = "hiveacid.spark.jobs" in sys.modules
            found = gc.get_freeze_count() if ours else 1
            yield pa.record_batch([pa.array([found])], names=["id"])

    found = spark.range(0, 2, 1, 2).mapInArrow(look, "id bigint").collect()
    assert all(row[0] > 0 for row in found)


def test_values_of_all_types_and_new_columns(acid: Session, spark: SparkSession) -> None:
    columns = {
        "i tinyint": "id",
        "l bigint": "id * 5000000000L",
        "b boolean": "id = 1",
        "f float": "id / 3",
        "d double": "if(id = 1, double('nan'), -0.0D)",
        "n decimal(20,4)": "cast(id as decimal(9,2)) / 7",
        "s string": "if(id = 2, '', concat('ä', id))",
        "c char(4)": "concat('c', id)",
        "v varchar(3)": "repeat('x', id)",
        "y binary": "cast(concat('b', id) as binary)",
        "a date": "date_sub(date '1969-12-31', cast(id as int))",
        "t timestamp": "timestamp '1900-01-01 00:00:00.123456' + make_interval(0, 0, 0, id)",
        "z timestamp with local time zone": "timestamp '2026-03-29 02:30:00'",
        "r array<int>": "if(id = 1, null, array(id, null))",
        "m map<string,int>": "map('k', id)",
        "o struct<p:int,q:array<string>>": "named_struct('P', id, 'q', array('w', null))",
    }
    texts = [f"{value} as {name.partition(' ')[0]}" for name, value in columns.items()]
    frame = spark.range(0, 4, 1, 2).selectExpr("nullif(id, 3) id", "id k")
    frame = frame.selectExpr(*texts, "k")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        for name, waits in (("here", 0), ("there", 9)):
            acid.sql(f"create table {name} ({', '.join(columns)}) {ACID}")
            write = hiveacid.foreach_batch(acid, name, app_id=name, evolve=True)
            write._waits = waits
            write(frame, 0)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))
    here, there = (
        sorted(map(str, read_arrow(acid.table(one)).read_all().to_pylist()))
        for one in ("here", "there")
    )
    assert len(here) == 4
    assert here == there

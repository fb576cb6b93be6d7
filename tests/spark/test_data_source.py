"""``format("hiveacid")``: a table of ours as a data source of Spark's own readers and writers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from hiveacid.session import Session

pytestmark = pytest.mark.skipif(
    pyspark.__version__.startswith("3."), reason="PySpark 3.5 has no data sources in Python"
)
ACID = "stored as orc tblproperties ('transactional'='true')"
TYPES = (
    "id int, b boolean, ti tinyint, si smallint, bi bigint, f float, d double, s string,"
    " c char(4), v varchar(9), x binary, dd date, n decimal(10,2), m map<string,int>, t timestamp,"
    " l array<struct<a:int,t:timestamp>>"
)
VALUES = (
    "select cast(id as int) id, id % 2 = 0 b, cast(id as tinyint) ti, cast(id as smallint) si,"
    " id bi, cast(id as float) f, cast(id as double) d, concat('n', id) s, 'ab' c, 'wide' v,"
    " cast('x' as binary) x, date_add(date'2024-03-30', cast(id as int)) dd,"
    " cast(id / 4 as decimal(10,2)) n,"
    " array(struct(cast(id as int) a, timestamp'2024-07-01 10:00:00' t)) l,"
    " map('k', cast(id as int)) m, timestamp'2024-10-27 00:30:00' + make_interval(0,0,0,0,id) t,"
    " if(id = 3, null, id % 3) p from range(10)"
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/metastore.db"


@pytest.fixture
def load(spark: SparkSession, url: str) -> Callable[..., DataFrame]:
    def found(table: str, **options: object) -> DataFrame:
        given = {"metastore": url, **options}
        return spark.read.format("hiveacid").options(**given).load(table)  # type: ignore[arg-type]

    return found


@pytest.fixture
def save(url: str) -> Callable[..., None]:
    def done(frame: DataFrame, table: str, mode: str = "append", **options: str) -> None:
        given = {"metastore": url, "table": table, **options}
        frame.write.format("hiveacid").mode(mode).options(**given).save()

    return done


def as_text(frame: DataFrame) -> list[str]:
    """The rows as the session's time zone shows them."""
    texts = [f"cast({name} as string) as {name}" for name in frame.columns]
    return sorted(str(row) for row in frame.selectExpr(*texts).collect())


@pytest.mark.parametrize(
    ("zone", "more"),
    [
        ("UTC", f"partitioned by (p int) {ACID}"),
        ("Europe/Berlin", f"partitioned by (p int) clustered by (id) into 2 buckets {ACID}"),
        (
            "+05:30",
            "partitioned by (p int) stored as orc tblproperties"
            " ('transactional'='true','transactional_properties'='insert_only')",
        ),
    ],
)
def test_all_types_go_there_and_come_back(
    acid: Session, spark: SparkSession, load: Any, save: Any, zone: str, more: str
) -> None:
    acid.sql(f"create table t ({TYPES}) {more}")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = spark.sql(VALUES)
        save(rows.repartition(3), "t")
        rows = rows.select(*load("t").columns)
        assert as_text(load("t")) == as_text(rows)
        assert as_text(acid.sql("select * from t")) == as_text(rows)
        assert load("t").schema == acid.sql("select * from t").schema
        assert as_text(load("t", fresh="false")) == as_text(rows)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert acid.sql("select count(*) from t").collect()[0][0] == 10
    assert "OPEN" not in str(acid.sql("show transactions").collect())


def test_overwrite_replaces_the_partitions_of_its_rows(
    acid: Session, spark: SparkSession, save: Any, rows: Any, tmp_path: Path
) -> None:
    acid.sql(f"create table t (id int) partitioned by (p int) {ACID}")
    acid.sql("insert into t values (1, 1), (2, 2)")
    save(spark.createDataFrame([(2, 20), (2, 21)], "p int, id int"), "t", "overwrite")
    assert rows("select * from t") == [(1, 1), (20, 2), (21, 2)]
    acid.sql(f"create table b (id int) clustered by (id) into 2 buckets {ACID}")
    save(spark.range(8).selectExpr("cast(id as int) id").repartition(4), "b")
    assert len(list((tmp_path / "wh" / "b").glob("delta_*"))) == 1
    save(spark.range(4).selectExpr("cast(id as int) id").repartition(4), "b", "overwrite")
    save(spark.range(0).selectExpr("cast(id as int) id"), "b")
    assert rows("select id from b") == [(0,), (1,), (2,), (3,)]
    acid.sql("delete from b where id > 1")
    assert rows("select id from b") == [(0,), (1,)]
    save(spark.range(0).selectExpr("cast(id as int) id"), "b", "overwrite")
    assert rows("select id from b") == []


def test_a_view_is_fresh_at_each_query_and_a_large_table_stays_as_it_was(
    acid: Session, spark: SparkSession, load: Any, url: str
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    spark.sql(
        f"create or replace temporary view v using hiveacid options (table 't', metastore '{url}')"
    )
    fixed = load("t", fresh="false")
    acid.sql("insert into t values (1)")
    assert (fixed.count(), spark.sql("select * from v").count()) == (1, 1)
    acid.sql("insert into t values (2)")
    acid.sql("delete from t where id = 1")
    assert [
        row[0] for row in spark.sql("select v.id from v join v w on v.id = w.id").collect()
    ] == [2]
    assert fixed.count() == 1
    spark.catalog.dropTempView("v")


def test_filters_that_spark_hands_down_change_no_other_query(
    acid: Session, spark: SparkSession, load: Any
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("insert into t values (1), (2), (3)")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = load("t")
        assert [frame.where("id = 1").count(), frame.count()] == [1, 3]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


WRONG_READS = {
    "no option tabel here; there are": {"tabel": "t"},
    "Table not found default.nosuch": {"table": "nosuch"},
    "is a view": {"table": "v"},
    "needs the name of a table": {},
    "Option fresh is true or false": {"table": "t", "fresh": "1"},
    "A password does not belong into options": {
        "table": "t",
        "metastore": "postgresql://me:secret@localhost/m",
    },
    "no metastore": {"table": "t", "metastore": "sqlite:////nowhere/m.db"},
    "hiveacid.txn.timeout_s": {"table": "t", "hiveacid.txn.timeout_s": "soon"},
}


@pytest.fixture
def tables(acid: Session) -> None:
    acid.sql(f"create table t (id int not null, s string) partitioned by (p int) {ACID}")
    acid.sql("create table plain (id int) stored as orc")
    acid.sql("create view v as select * from t")
    acid.sql(
        "create table c (id int check (id > 0)) stored as orc"
        " tblproperties ('transactional'='true')"
    )


@pytest.mark.parametrize("words", WRONG_READS)
def test_wrong_options_are_named(spark: SparkSession, url: str, tables: None, words: str) -> None:
    options = {"metastore": url, **WRONG_READS[words]}
    with pytest.raises(Exception, match=words) as failed:
        spark.read.format("hiveacid").options(**options).load()
    assert "secret" not in str(failed.value)


WRONG_WRITES = {
    "plain is not transactional": ("plain", "1 id"),
    "is a view": ("v", "1 id"),
    "lacks the partition columns p": ("t", "1 id"),
    "columns that would be lost: other": ("t", "1 id, 1 p, 2 other"),
    "NULL in 1 rows": ("t", "cast(null as int) id, 1 p"),
    "does not fit|not parse|Failed to parse": ("t", "'x' id, 1 p"),
    "CHECK constraints": ("c", "1 id"),
}


@pytest.mark.parametrize("words", WRONG_WRITES)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_left(
    acid: Session, spark: SparkSession, save: Any, tables: None, tmp_path: Path, words: str
) -> None:
    table, select = WRONG_WRITES[words]
    with pytest.raises(Exception, match=words):
        save(spark.sql(f"select {select}"), table)
    assert not list((tmp_path / "wh").rglob("*staging*"))
    assert "OPEN" not in str(acid.sql("show transactions").collect())


def test_a_table_that_is_altered_under_a_frame(
    acid: Session, spark: SparkSession, load: Any, rows: Any
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("insert into t values (1)")
    frame = load("t")
    acid.sql("alter table t add columns (more string)")
    assert frame.collect() == [(1,)]
    acid.sql("alter table t change id id bigint")
    with pytest.raises(Exception, match="has a bigint id where int is expected"):
        frame.collect()

"""What changed in a table, through Spark: DataFrames and SQL."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

import hiveacid
from hiveacid import functions
from hiveacid.errors import AcidError, InvalidInputError
from hiveacid.session import Session
from hiveacid.table import AcidTable

in_python = pytest.mark.skipif(
    pyspark.__version__.startswith("3."), reason="PySpark 3.5 has no data sources in Python"
)
ACID = "stored as orc tblproperties ('transactional'='true')"
CHANGED = {
    (2, "delete", 1, "a", "x"),
    (2, "insert", 1, "A", "x"),
    (3, "delete", 3, "c", "y"),
}
PAIRED = {
    (2, "update_preimage", 1, "a", "x"),
    (2, "update_postimage", 1, "A", "x"),
    (3, "delete", 3, "c", "y"),
}


@pytest.fixture
def emp(acid: Session) -> AcidTable:
    """Write ids 1 to 3: three rows in two partitions, an update, a delete."""
    acid.sql(f"create table emp (id int, v char(3)) partitioned by (p string) {ACID}")
    acid.sql("insert into emp values (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')")
    acid.sql("update emp set v = 'A' where id = 1")
    acid.sql("delete from emp where id = 3")
    return acid.table("emp")


def events(frame: DataFrame) -> set[tuple[Any, ...]]:
    found = frame.collect()
    names = ("_commit_version", "_change_type", "id", "v", "p")
    told = {tuple(row[name] for name in names) for row in found}
    assert len(told) == len(found)
    return told


@pytest.mark.parametrize("bytes_here", ["4000000", "0"])
def test_changes_are_a_frame_read_here_or_by_tasks(
    acid: Session, emp: AcidTable, bytes_here: str
) -> None:
    acid.sql(f"set hiveacid.reads.local_bytes = {bytes_here}")
    assert events(emp.changes(since=1)) == CHANGED
    assert events(emp.changes(since=1, key="id")) == PAIRED
    assert emp.changes(since=3).columns[-4:] == [
        "_change_type",
        "_commit_version",
        "_commit_timestamp",
        "_write_id",
    ]
    assert emp.changes(since=3).count() == 0


@in_python
def test_the_data_source_has_the_options_of_delta(
    acid: Session, spark: SparkSession, emp: AcidTable, tmp_path: Path
) -> None:
    def feed(**options: object) -> DataFrame:
        given = {"metastore": f"sqlite:///{tmp_path}/metastore.db", "readChangeFeed": "true"}
        return spark.read.format("hiveacid").options(**given, **options).load("emp")  # type: ignore[arg-type]

    first = {(1, "insert", n, v, p) for n, v, p in ((1, "a", "x"), (2, "b", "x"), (3, "c", "y"))}
    assert events(feed(startingVersion=2, endingVersion=3)) == CHANGED
    assert events(feed(startingVersion=0, endingVersion=1)) == first
    assert events(feed(startingVersion=1, key="ID, p")) == first | PAIRED
    frame = feed(startingVersion=2, deduplicationMode="netChanges", key="id")
    assert frame.columns == emp.changes(since=1).columns
    assert frame.dtypes[:3] == acid.sql("select * from emp").dtypes
    assert sorted(frame.where("p = 'x'").toPandas()["_change_type"]) == [
        "update_postimage",
        "update_preimage",
    ]
    times = {row._commit_timestamp for row in frame.collect()}
    assert times == {row._commit_timestamp for row in emp.changes(since=1).collect()}
    acid.sql("alter table emp compact 'major' and wait")
    acid.sql("insert into emp values (4, 'd', 'x')")
    assert (4, "insert", 4, "d", "x") in events(feed(startingVersion=4))
    assert events(feed(startingVersion=2, endingVersion=3)) == CHANGED


WRONG = {
    "needs the first version": {"readChangeFeed": "true"},
    "startingVersion needs readChangeFeed": {"startingVersion": "1"},
    "versionAsOf does not go with readChangeFeed": {"readChangeFeed": "true", "versionAsOf": "1"},
    "no version 9 yet": {"readChangeFeed": "true", "startingVersion": "9"},
    "no column 'nosuch'": {"readChangeFeed": "true", "startingVersion": "1", "key": "nosuch"},
    "Version 1 of default.emp committed before version 2": {
        "readChangeFeed": "true",
        "startingVersion": "2",
        "endingVersion": "1",
    },
    "startingVersion and startingTimestamp are two ways": {
        "readChangeFeed": "true",
        "startingVersion": "1",
        "startingTimestamp": "2026-01-01",
    },
    "'then' is no time": {"readChangeFeed": "true", "startingTimestamp": "then"},
    "endingTimestamp needs readChangeFeed": {"endingTimestamp": "2026-01-01"},
    "startingVersion is a whole number": {"readChangeFeed": "true", "startingVersion": "first"},
    "deduplicationMode is one of": {
        "readChangeFeed": "true",
        "startingVersion": "1",
        "deduplicationMode": "all",
    },
}


@in_python
@pytest.mark.parametrize("words", WRONG)
def test_wrong_options_of_a_feed_are_named(tmp_path: Path, words: str) -> None:
    from hiveacid.connectors.data_source import HiveAcidDataSource

    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(None, url, warehouse=tmp_path / "wh") as session:
        session.sql(f"create table emp (id int) {ACID}")
        for number in range(3):
            session.sql(f"insert into emp values ({number})")
    with pytest.raises(AcidError, match=words):
        source = HiveAcidDataSource({"metastore": url, "table": "emp", **WRONG[words]})
        source.reader(source.schema()).partitions()


def test_sql_has_the_words_of_spark_and_of_delta(acid: Session, emp: AcidTable) -> None:
    assert events(acid.sql("select * from table_changes('emp', 2, 3)")) == CHANGED
    assert events(acid.sql("select * from table_changes('default.emp', 2)")) == CHANGED
    assert events(acid.sql("select * from emp changes from version 2 to version 3")) == CHANGED
    paired = "select c.* from emp changes from version 1 exclusive with (key = 'id') as c"
    assert events(acid.sql(paired)) == PAIRED
    joined = acid.sql(
        "select c.id from table_changes('emp', 2) c join emp on emp.id = c.id"
        " where c._change_type = 'insert'"
    )
    assert [row.id for row in joined.collect()] == [1]
    counted = "select count(*) as n from emp changes from version 3 to version 3"
    assert acid.sql(counted).collect()[0].n == 1
    with pytest.raises(InvalidInputError, match="no version 9 yet"):
        acid.sql("select * from table_changes('emp', 9)")


@pytest.mark.long("connectors", "reading", "spark")
@in_python
def test_times_of_commits_serve_for_versions(
    acid: Session, spark: SparkSession, emp: AcidTable, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/metastore.db"
    commits = {int(one.write_id): one.committed_ms or 0 for one in emp.history()}
    second, third = (
        datetime.fromtimestamp(commits[number] / 1000, timezone.utc) for number in (2, 3)
    )
    between = f"emp changes from timestamp '{second}' to timestamp '{third}'"
    assert events(acid.sql(f"select * from {between}")) == CHANGED
    assert events(acid.sql(f"select * from table_changes('emp', '{second}')")) == CHANGED
    assert events(emp.changes(since=second, bounds="[]", key="id")) == PAIRED
    options = {"metastore": url, "readChangeFeed": "true", "startingTimestamp": str(second)}
    found = spark.read.format("hiveacid").options(**options, endingTimestamp=str(third))
    assert events(found.load("emp")) == CHANGED
    functions.register(acid)
    try:
        text = f"select * from table_changes('emp', timestamp '{second}', '{third}')"
        assert events(spark.sql(text)) == CHANGED
    finally:
        functions.unregister(spark)


def test_the_reader_of_an_enabled_session_tells_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    hiveacid.enable(spark, f"sqlite:///{tmp_path}/m.db", warehouse=str(tmp_path / "enabled"))
    try:
        _reader_tells_changes(spark)
    finally:
        hiveacid.disable(spark)


def _reader_tells_changes(spark: SparkSession) -> None:
    def values(frame: DataFrame) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in frame.collect()), key=str)

    spark.sql("create table emp (id int, name string) using hiveacid")
    spark.sql("insert into emp values (1, 'Ann'), (2, 'Joe')")
    spark.sql("update emp set name = 'Jo' where id = 2")

    def feed(**options: object) -> DataFrame:
        reader = spark.read.format("hiveacid").option("readChangeFeed", "true")
        return reader.options(**options).load("emp")  # type: ignore[arg-type]

    told = feed(startingVersion=1).select("_commit_version", "_change_type", "id", "name")
    first = [(1, "insert", 1, "Ann"), (1, "insert", 2, "Joe")]
    assert values(told) == [*first, (2, "delete", 2, "Joe"), (2, "insert", 2, "Jo")]
    told = feed(startingVersion=2, key="id").select("_change_type", "name")
    assert values(told) == [("update_postimage", "Jo"), ("update_preimage", "Joe")]
    assert feed(startingVersion=1, endingVersion=1).count() == 2
    assert feed(startingTimestamp="2020-01-01 00:00:00").count() == 4
    for wrong, words in (
        ({}, "needs the first version"),
        ({"startingVersion": 9}, "no version 9 yet"),
        ({"startingVersion": 1, "versionAsOf": 1}, "versionAsOf does not go with readChangeFeed"),
        ({"startingVersion": 1, "mergeSchema": "true"}, "no option mergeschema"),
    ):
        with pytest.raises(AcidError, match=words):
            feed(**wrong)
    with pytest.raises(InvalidInputError, match="startingVersion needs readChangeFeed"):
        spark.read.format("hiveacid").option("startingVersion", 1).load("emp")

"""Options of ``df.write`` on a session that is enabled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import hiveacid
from hiveacid.errors import InvalidInputError, UnsupportedError

EMP = [(1, "Ann"), (2, "Joe")]


@pytest.fixture
def emp(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A table of two rows, each in a partition of its own."""
    url, off = f"sqlite:///{tmp_path}/m.db", {"hiveacid.compactor.auto": "off"}
    with hiveacid.enable(spark, url, warehouse=str(tmp_path / "wh"), settings=off):
        frame = spark.createDataFrame(EMP, "id int, name string")
        frame.write.format("hiveacid").partitionBy("name").saveAsTable("emp")
        yield "emp"
        hiveacid.disable(spark)


def rows(spark: SparkSession) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.table("emp").collect())


def test_options_that_are_not_known_are_refused(emp: str, spark: SparkSession) -> None:
    frame = spark.table(emp)
    with pytest.raises(UnsupportedError, match="option compression"):
        frame.write.mode("append").option("compression", "zstd").saveAsTable(emp)
    with pytest.raises(UnsupportedError, match="option wholetable"):
        spark.read.option("wholeTable", 1).table(emp)
    assert sorted(map(tuple, spark.read.option("versionAsOf", 1).table(emp).collect())) == EMP
    with pytest.raises(InvalidInputError, match="partitioned by"):
        frame.write.mode("append").partitionBy("id").saveAsTable(emp)
    with pytest.raises(UnsupportedError, match="another format"):
        frame.write.format("parquet").mode("overwrite").saveAsTable(emp)
    assert rows(spark) == EMP


def test_a_word_that_is_no_mode_replaces_nothing(emp: str, spark: SparkSession) -> None:
    """It was taken for ``static``, which replaces all partitions."""
    writer = spark.createDataFrame([(3, "Ann")], "id int, name string").write.mode("overwrite")
    with pytest.raises(InvalidInputError, match="static or dynamic, not 'dinamic'"):
        writer.option("partitionOverwriteMode", "dinamic").saveAsTable(emp)
    assert rows(spark) == EMP
    writer.option("partitionOverwriteMode", "Dynamic").saveAsTable(emp)
    assert rows(spark) == [(2, "Joe"), (3, "Ann")]


def test_what_an_append_cannot_do_is_refused(emp: str, spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.table(emp).write.mode("append")
    with pytest.raises(InvalidInputError, match="this only adds rows"):
        spark.table(emp).write.mode("append").option("replaceWhere", "id = 1").saveAsTable(emp)
    with pytest.raises(InvalidInputError, match="doesn't match the specified location"):
        writer.option("path", str(tmp_path / "elsewhere")).saveAsTable(emp)
    assert rows(spark) == EMP
    writer.option("path", f"{tmp_path}/wh/emp/").saveAsTable(emp)
    assert rows(spark) == sorted(2 * EMP)


def test_a_version_is_written_once_whatever_writes_it(emp: str, spark: SparkSession) -> None:
    """The write that made the table kept no version, nor did ``writeTo``'s overwrite."""
    first, second = (spark.createDataFrame([(n, "Ann")], "id int, name string") for n in (5, 6))
    for frame in (first, second):
        batch = frame.write.format("hiveacid").option("txnAppId", "job").option("txnVersion", 0)
        batch.mode("append").partitionBy("name").saveAsTable("made")
        with_version = frame.writeTo(emp).option("txnAppId", "job").option("txnVersion", 0)
        with_version.overwrite(F.col("name") == "Ann")
    assert [tuple(row) for row in spark.table("made").collect()] == [(5, "Ann")]
    assert rows(spark) == [(2, "Joe"), (5, "Ann")]
    with pytest.raises(InvalidInputError, match="overwriteSchema"):
        batch.mode("overwrite").option("overwriteSchema", "true").saveAsTable("made")
    with pytest.raises(InvalidInputError, match="belong together"):
        batch.option("txnVersion", "last").saveAsTable("other")
    with pytest.raises(InvalidInputError, match="VOID"):
        batch = spark.sql("select null as one").write.format("hiveacid").option("txnAppId", "job")
        batch.option("txnVersion", 0).saveAsTable("other")
    assert not spark.catalog.tableExists("other")


def test_options_of_a_table_that_is_made(emp: str, spark: SparkSession, tmp_path: Path) -> None:
    """They were passed over."""
    place = f"{tmp_path}/elsewhere"
    spark.table(emp).writeTo("made").using("hiveacid").option("path", place).create()
    assert spark.acid.table("made").definition.location == place  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedError, match="option txnappid"):
        spark.table(emp).writeTo("other").using("hiveacid").option("txnAppId", "job").create()

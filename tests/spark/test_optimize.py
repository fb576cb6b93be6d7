"""Compaction under the names that Delta's tables have for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hiveacid
from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.tables import HiveacidTable


@pytest.fixture(autouse=True)
def _disabled(spark: SparkSession) -> Iterator[None]:
    yield
    hiveacid.disable(spark)


def test_optimize_compacts_what_has_something_to_do(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    off = {"hiveacid.compactor.auto": "off"}
    hiveacid.enable(spark, url, warehouse=str(tmp_path / "wh"), settings=off)
    spark.sql("create table emp (id int, name string) using hiveacid")
    spark.sql("insert into emp values (1, 'Ann'), (2, 'Joe')")
    spark.sql("insert into emp values (7, 'x')")
    emp = HiveacidTable.forName(spark, "emp")
    (done,) = emp.optimize().executeCompaction().collect()
    assert (done.compactionid, done.partition) == (1, None)
    assert emp.optimize().executeCompaction().collect() == [done]  # nothing new
    assert spark.table("emp").count() == 3
    spark.sql(
        "create table parts (id int, day string, hour int) using hiveacid"
        " partitioned by (day, hour)"
    )
    for _ in range(2):
        spark.sql("insert into parts values (1, 'a/b', 1), (2, 'a/b', 2), (3, null, 3)")
    parts = HiveacidTable.forName(spark, "parts").optimize()
    found = parts.where("day = 'a/b'").where("hour > 1").executeCompaction().collect()
    assert [row.partition for row in found] == ["day=a%2Fb/hour=2"]
    assert len(parts.executeCompaction().collect()) == 2
    either = parts.where("hour = 1 or hour = 2").where("day like 'b%'")
    assert either.executeCompaction().collect() == []
    assert parts.where("hour = 9").executeCompaction().collect() == []
    with pytest.raises(InvalidInputError):
        parts.where("id = 1").executeCompaction()
    with pytest.raises(UnsupportedError, match="several columns"):
        parts.executeZOrderBy("id")

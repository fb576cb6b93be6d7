"""Views in a session that is enabled: of ours where no table of ours is left below them, and
temporary ones beside tables of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hiveacid
from hiveacid.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from hiveacid.session import Session

EMP = [(1, "Ann"), (2, "Joe")]


@pytest.fixture
def acid(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    """An enabled session with a table of ours."""
    acid = hiveacid.enable(spark, f"sqlite:///{tmp_path}/m.db", warehouse=str(tmp_path / "wh"))
    spark.sql("create table emp (id int, name string) using hiveacid")
    spark.sql("insert into emp values (1, 'Ann'), (2, 'Joe')")
    yield acid
    hiveacid.disable(spark)


def values(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_views_that_read_no_table_of_ours_are_ours(acid: Session, spark: SparkSession) -> None:
    spark.range(1, 4).write.mode("overwrite").saveAsTable("plain")
    try:
        spark.sql("create table gone (id int) using hiveacid")
        acid.sql("create view inner_view as select id from gone")
        acid.sql("create view outer_view as select id from inner_view")
        acid.sql("create view of_sparks as select id from plain")
        acid.sql("drop table gone")
        assert spark.sql("select sum(id) from of_sparks").collect() == [(6,)]
        for text in ("select * from inner_view", "create view v as select * from outer_view"):
            with pytest.raises(NotFoundError, match="`gone`"):
                spark.sql(text)
        with pytest.raises(AlreadyExistsError):  # Spark made one, which nobody could read
            spark.sql("create view emp as select 1 as one")
    finally:
        spark.sql("drop table plain")


def test_temporary_views_have_any_name(acid: Session, spark: SparkSession) -> None:
    for name in ("`a b`", "`ü`", "`x``y`", "`select`"):
        spark.sql(f"create temporary view {name} as select * from emp")
        assert values(spark.sql(f"select * from {name}")) == EMP
        spark.sql(f"drop view {name}")


def test_a_cached_query_is_read_again(acid: Session, spark: SparkSession) -> None:
    """What it was made of was gone."""
    spark.sql("cache lazy table kept options ('storageLevel' = 'MEMORY_ONLY') as select * from emp")
    try:
        spark.sql("insert into emp values (3, 'Eve')")
        assert values(spark.sql("select * from kept")) == EMP
    finally:
        spark.sql("uncache table kept")
        spark.catalog.dropTempView("kept")
    with pytest.raises(Exception, match="no number"):
        spark.sql("cache table kept as select raise_error('no number'), id from emp")
    assert not spark.catalog.tableExists("kept")


def test_a_temporary_view_is_not_in_the_way_of_who_saves_a_table(
    acid: Session, spark: SparkSession
) -> None:
    """Spark made a table of its own, which the one of ours hid."""
    spark.range(1).createOrReplaceTempView("emp")
    more = spark.createDataFrame([(3, "Eve")], "id int, name string")
    try:
        more.write.mode("append").saveAsTable("emp")
        more.write.format("hiveacid").mode("append").save("emp")
        for make in (
            lambda: more.write.saveAsTable("emp"),
            lambda: more.writeTo("emp").create(),
            lambda: spark.catalog.createTable("emp", source="parquet", schema=more.schema),
            lambda: spark.sql("create table emp (id int)"),
            lambda: spark.sql("create table emp as select * from default.emp"),
        ):
            with pytest.raises(AlreadyExistsError):
                make()
        assert values(spark.table("emp")) == [(0,)]
    finally:
        spark.catalog.dropTempView("emp")
    assert values(spark.table("emp")) == [*EMP, (3, "Eve"), (3, "Eve")]


def test_no_table_takes_the_place_of_a_view(acid: Session, spark: SparkSession) -> None:
    """The view was gone without a word."""
    spark.sql("create view v as select id from emp where id = 1")
    for replace_it in (
        lambda: spark.sql("create or replace table v using hiveacid as select 5 as id"),
        lambda: spark.sql("create or replace table v (id int) using hiveacid"),
        lambda: spark.table("emp").writeTo("v").using("hiveacid").createOrReplace(),
        lambda: (
            spark.table("emp")
            .write.mode("overwrite")
            .option("overwriteSchema", "true")
            .saveAsTable("v")
        ),
    ):
        with pytest.raises(InvalidInputError, match="is a view"):
            replace_it()
    assert values(spark.table("v")) == [(1,)]

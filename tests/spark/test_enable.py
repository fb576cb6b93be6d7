"""Spark's own methods on a session that is enabled: which statements are ours, and what else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import hiveacid
from hiveacid.errors import AlreadyExistsError, InvalidInputError
from hiveacid.session import Session

OFF = {"hiveacid.compactor.auto": "off"}


def enabled(spark: SparkSession, root: Path) -> Session:
    return hiveacid.enable(spark, url(root), warehouse=str(root / "wh"), settings=OFF)


def url(root: Path) -> str:
    return f"sqlite:///{root}/m.db"


@pytest.fixture
def acid(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    session = enabled(spark, tmp_path)
    spark.sql("create table emp (id int, name string) using hiveacid")
    spark.sql("insert into emp values (1, 'Ann'), (2, 'Joe')")
    yield session
    hiveacid.disable(spark)


@pytest.fixture
def plain(spark: SparkSession) -> Iterator[str]:
    """A table of Spark's own."""
    spark.range(1, 4).write.mode("overwrite").saveAsTable("plain")
    yield "plain"
    spark.sql("drop table plain")


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


EMP = [(1, "Ann"), (2, "Joe")]
QUERIES: dict[str, list[tuple[Any, ...]]] = {
    "select * from emp": EMP,
    "SELECT * FROM `default`.`emp` -- of ours": EMP,
    "/* from plain */ with e as (select id from default.emp) select * from e": [(1,), (2,)],
    "select e.name, p.id from emp e join plain p on e.id = p.id": [("Ann", 1), ("Joe", 2)],
    "select id from plain where id in (select id from emp)": [(1,), (2,)],
    "with emp as (select 7 as id) select * from emp": [(7,)],
    "select 'from emp' as emp from plain limit 1": [("from emp",)],
    "from emp select name": [("Ann",), ("Joe",)],
    "select count(*) from emp, plain": [(6,)],
    "select emp.id from (emp join plain on emp.id = plain.id)": [(1,), (2,)],
    "table plain": [(1,), (2,), (3,)],
}


@pytest.mark.parametrize("text", QUERIES)
def test_queries_read_ours_and_sparks(
    acid: Session, plain: str, spark: SparkSession, text: str
) -> None:
    assert values(spark.sql(text)) == QUERIES[text]


def test_changes_tell_how_many_rows(acid: Session, spark: SparkSession) -> None:
    def told(text: str) -> list[tuple[Any, ...]]:
        return values(spark.sql(text))

    assert told("insert into emp values (3, 'Eve')") == [(1, 1)]
    assert told("update emp set name = 'x' where id > 1") == [(2,)]
    assert told("delete from emp where id = 3") == [(1,)]
    source = "(select 2 as id, 'y' as name union all select 9, 'z')"
    merge = f"merge into emp t using {source} s on t.id = s.id when matched then update set *"
    assert told(f"{merge} when not matched then insert *") == [(2, 1, 0, 1)]
    frame = spark.sql("alter table emp set tblproperties ('a' = 'b')")
    assert (frame.columns, frame.collect()) == ([], [])
    assert values(spark.table("emp")) == [(1, "Ann"), (2, "y"), (9, "z")]


def test_saving_as_a_table(acid: Session, spark: SparkSession) -> None:
    rows = spark.createDataFrame([("Eve", 3)], "name string, id int")
    rows.write.mode("append").saveAsTable("emp")
    assert values(spark.read.table("default.emp")) == [*EMP, (3, "Eve")]
    rows.write.mode("overwrite").saveAsTable("emp")
    assert values(spark.table("emp")) == [(3, "Eve")]
    with pytest.raises(AlreadyExistsError):
        rows.write.saveAsTable("emp")
    rows.write.format("hiveacid").partitionBy("name").saveAsTable("other")
    assert acid.table("other").definition.partition_keys == ("name",)


def test_spark_keeps_the_rows_of_a_query_over_ours(
    acid: Session, plain: str, spark: SparkSession
) -> None:
    spark.sql("insert into plain select id + 10 from emp")
    assert values(spark.table("plain")) == [(1,), (11,), (12,), (2,), (3,)]
    spark.sql("create or replace temporary view v (a, b) as select * from emp")
    assert values(spark.sql("select b from v")) == [("Ann",), ("Joe",)]
    spark.catalog.dropTempView("v")


def test_temporary_views_come_first(acid: Session, spark: SparkSession) -> None:
    spark.range(1).createOrReplaceTempView("emp")
    try:
        assert values(spark.table("emp")) == values(spark.sql("select * from emp")) == [(0,)]
        assert values(spark.table("default.emp")) == EMP
    finally:
        spark.catalog.dropTempView("emp")


def test_values_and_frames_within_a_text(acid: Session, spark: SparkSession) -> None:
    assert values(spark.sql("select name from emp where id = :id", {"id": 1})) == [("Ann",)]
    assert values(spark.sql("select name from emp where id = ?", [2])) == [("Joe",)]
    frame = spark.range(2, 9)
    joined = spark.sql("select {frame}.id from {frame} join emp using (id)", frame=frame)
    assert values(joined) == [(2,)]
    assert values(spark.sql("select * from {emp}", emp=spark.range(1))) == [(0,)]


def test_a_statement_that_names_no_table_asks_the_metastore_nothing(
    acid: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(type(acid.client.metastore), "get_tables", lambda *a: asked.append(a) or {})
    spark.sql("select 1, 'from emp', /* from emp */ id from range(3)")
    assert asked == []
    spark.range(1).createOrReplaceTempView("some")
    spark.sql("select emp.id from some as emp where id in (1, 2)")
    spark.catalog.dropTempView("some")
    assert len(asked) == 1


def test_enabling_again_and_disabling(spark: SparkSession, tmp_path: Path) -> None:
    before = dict(vars(type(spark))), dict(vars(type(spark.range(0))))
    assert not hasattr(spark, "acid")
    hiveacid.disable(spark)
    acid = enabled(spark, tmp_path)
    assert enabled(spark, tmp_path) is acid is spark.acid
    with pytest.raises(InvalidInputError, match="enabled with"):
        hiveacid.enable(spark, f"sqlite:///{tmp_path}/other.db", warehouse=str(tmp_path))
    hiveacid.disable(spark)
    assert not hasattr(spark, "acid")
    with pytest.raises(InvalidInputError, match="closed"):
        acid.sql("show tables")
    assert (dict(vars(type(spark))), dict(vars(type(spark.range(0))))) == before


def test_another_session_is_as_it_was(acid: Session, spark: SparkSession) -> None:
    other = spark.newSession()
    assert not hasattr(other, "acid")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        other.sql("select * from emp").collect()
    assert values(spark.sql("select * from emp")) == EMP


@pytest.mark.jvm
def test_the_active_session_and_clones_are_enabled(acid: Session, spark: SparkSession) -> None:
    active = SparkSession.getActiveSession()
    assert active is not None and active.acid is acid

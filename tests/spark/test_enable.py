"""Spark's own methods on a session that is enabled: which statements are ours, and what else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import hiveacid
from hiveacid.errors import (
    AcidError,
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
)
from hiveacid.session import Session
from hiveacid.tables import HiveacidTable

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
    "TABLE emp order by id": EMP,
    "with q as (table emp) select id from q union table plain": [(1,), (2,), (3,)],
    "desc query select id from emp": [("id", "int", None)],
    "refresh table emp": [],
    "select identifier('id') from identifier('default.emp')": [(1,), (2,)],
    "select 'identifier(''emp'')' <> 'x', id from identifier('plain') where id = 1": [(True, 1)],
}


def test_queries_read_ours_and_sparks(acid: Session, plain: str, spark: SparkSession) -> None:
    assert {text: values(spark.sql(text)) for text in QUERIES} == QUERIES


def test_changes_tell_how_many_rows(acid: Session, spark: SparkSession) -> None:
    def told(text: str) -> list[tuple[Any, ...]]:
        return values(spark.sql(text))

    assert told("insert into emp values (3, 'Eve')") == [(1, 1)]
    assert told("update emp set name = 'x' where id > 1") == [(2,)]
    assert told("delete from emp where id = 3") == [(1,)]
    source = "(select 2 as id, 'y' as name union all select 9, 'z')"
    merge = f"merge into emp t using {source} s on t.id = s.id when matched then update set *"
    assert told(f"{merge} when not matched then insert *") == [(2, 1, 0, 1)]
    spark.sql("comment on table emp is 'people'")
    assert acid.table("emp").definition.comment == "people"
    frame = spark.sql("alter table emp set tblproperties ('a' = 'b')")
    assert (frame.columns, frame.collect()) == ([], [])
    assert values(spark.table("emp")) == [(1, "Ann"), (2, "y"), (9, "z")]
    html = spark.sql("delete from emp where id = 9")._repr_html_()
    assert html.endswith("<th>num_affected_rows</th></tr><tr><td>1</td></tr></table>")
    assert "delete from emp where id = ?" in spark.sql("describe history emp")._repr_html_()


def test_the_catalog_of_spark_may_stand_before_a_name(
    acid: Session, plain: str, spark: SparkSession
) -> None:
    emp, rows = (
        "spark_catalog.default.emp",
        spark.createDataFrame([(3, "Eve")], acid.table("emp").df().schema),
    )
    assert values(spark.table(emp)) == values(spark.read.table(emp)) == EMP
    spark.sql(f"insert into {emp} select 7, 'Zoe' from `spark_catalog`.default.plain limit 1")
    rows.write.mode("append").saveAsTable(emp)
    rows.writeTo(emp).append()
    assert acid.table("emp").df().count() == 5
    spark.sql(f"create table spark_catalog.default.a using hiveacid as select * from {emp}")
    rows.write.format("hiveacid").saveAsTable("spark_catalog.default.b")
    rows.writeTo("spark_catalog.default.c").using("hiveacid").create()
    assert [acid.table(name).df().count() for name in "abc"] == [5, 1, 1]
    spark.sql(f"drop table {emp}")
    assert not spark.catalog.tableExists(emp)
    assert values(spark.sql("select * from spark_catalog.default.plain")) == [(1,), (2,), (3,)]


def test_what_a_list_of_tables_tells_of_ours(
    acid: Session, plain: str, spark: SparkSession
) -> None:
    listed = {
        row[1]: row[3] for row in spark.sql("show  table extended in default like '*'").collect()
    }
    assert {"emp", "plain"} <= set(listed)
    assert "Provider: hiveacid" in listed["emp"]
    assert " |-- name: string (nullable = true)" in listed["emp"]


def test_the_catalog_makes_tables_of_ours(acid: Session, spark: SparkSession) -> None:
    wanted = spark.table("emp").schema
    made = spark.catalog.createTable("made", source="hiveacid", schema=wanted, description="new")
    assert made.columns == ["id", "name"] and acid.table("made").definition.comment == "new"
    with pytest.raises(AlreadyExistsError):
        spark.catalog.createTable("emp", source="parquet", schema=wanted)
    with pytest.raises(InvalidInputError):
        spark.catalog.createTable("other", source="hiveacid")
    spark.sql("create table parts (id int) using hiveacid partitioned by (k int)")
    for table in ("emp", "parts"):
        spark.catalog.uncacheTable(table)
    spark.catalog.recoverPartitions("parts")


def test_saving_as_a_table(acid: Session, spark: SparkSession) -> None:
    rows = spark.createDataFrame([("Eve", 3)], "name string, id int")
    rows.write.mode("append").saveAsTable("emp")
    assert values(spark.read.table("default.emp")) == [*EMP, (3, "Eve")]
    rows.write.mode("overwrite").saveAsTable("emp")
    assert values(spark.table("emp")) == [(3, "Eve")]
    with pytest.raises(AlreadyExistsError):
        rows.write.saveAsTable("emp")
    rows.toDF("a b", "(x)").write.format("hiveacid").saveAsTable("odd")
    rows.toDF("a b", "(x)").write.mode("append").saveAsTable("odd")
    assert spark.table("odd").columns == ["a b", "(x)"] and len(values(spark.table("odd"))) == 2
    rows.write.format("hiveacid").partitionBy("name").saveAsTable("other")
    assert acid.table("other").definition.partition_keys == ("name",)


def test_spark_keeps_the_rows_of_a_query_over_ours(
    acid: Session, plain: str, spark: SparkSession
) -> None:
    spark.sql("with e as (select id + 10 as n from emp) insert into plain select n from e")
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
    more = {"id": 1, "of_another": 5}
    assert values(spark.sql("select name from emp where id = :id", more)) == [("Ann",)]


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


def test_what_spark_does_not_drop_stays(acid: Session, spark: SparkSession) -> None:
    spark.sql("create database both")
    spark.sql("create table both.t (id int) using hiveacid")
    acid.sql("drop table both.t")
    spark.range(1).write.saveAsTable("both.spark_t")
    with pytest.raises(Exception, match=r"NOT_EMPTY|not empty"):
        spark.sql("drop database both")
    assert "both" in acid.client.metastore.list_databases()
    spark.sql("drop database both cascade")
    assert "both" not in acid.client.metastore.list_databases()
    assert not spark.catalog.databaseExists("both")


def test_a_name_may_be_a_value(acid: Session, spark: SparkSession) -> None:
    text = "select * from identifier(:name) where id = :id"
    assert values(spark.sql(text, args={"name": "emp", "id": 1})) == [(1, "Ann")]


def test_enabling_again_and_disabling(spark: SparkSession, tmp_path: Path) -> None:
    before = dict(vars(type(spark))), dict(vars(type(spark.range(0))))
    assert not hasattr(spark, "acid")
    hiveacid.disable(spark)
    acid = enabled(spark, tmp_path)
    assert enabled(spark, tmp_path) is acid is spark.acid
    with pytest.raises(InvalidInputError, match="enabled with"):
        hiveacid.enable(spark, f"sqlite:///{tmp_path}/other.db", warehouse=str(tmp_path))
    with pytest.raises(InvalidInputError, match="other settings"):
        hiveacid.enable(spark, acid.client.metastore.url, settings={"hiveacid.retention_s": "7"})
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


def test_databases_and_lists_are_sparks_and_ours(
    acid: Session, plain: str, spark: SparkSession
) -> None:
    names = {row["tableName"] for row in spark.sql("show tables").collect()}
    assert names >= {"emp", "plain"}
    assert values(spark.sql("show tables like 'em*'")) == [("default", "emp", False)]
    assert {one.name for one in spark.catalog.listTables()} >= {"emp", "plain"}
    assert spark.catalog.tableExists("emp") and spark.catalog.tableExists("plain")
    assert not spark.catalog.tableExists("nope")
    assert spark.catalog.getTable("emp").tableType == "MANAGED"
    columns = [(one.name, one.dataType) for one in spark.catalog.listColumns("emp")]
    assert columns == [("id", "int"), ("name", "string")]
    spark.catalog.refreshTable("emp")
    spark.sql("create database sparks")
    acid.sql("create database ours")
    try:
        shown = {row[0] for row in spark.sql("show databases").collect()}
        assert shown >= {"default", "sparks", "ours"}
        spark.sql("use sparks")
        spark.sql("create table t (id int) using hiveacid")
        spark.range(2).selectExpr("cast(id as int) id").write.insertInto("t")
        assert (
            values(spark.table("sparks.t")) == values(spark.sql("from t select *")) == [(0,), (1,)]
        )
        spark.sql("use default")
        for words in ("use schema sparks", "use spark_catalog.sparks", "use spark_catalog"):
            spark.sql(words)
            assert values(spark.sql("select current_database()")) == [(acid.database,)]
            assert words == "use spark_catalog" or acid.database == "sparks"
        spark.catalog.setCurrentDatabase("ours")
        assert (spark.catalog.currentDatabase(), acid.database) == ("ours", "ours")
        with pytest.raises(Exception, match="SCHEMA_NOT_FOUND"):
            spark.sql("use nowhere")
    finally:
        spark.sql("use default")
        with pytest.raises(Exception, match=r"not empty|NOT_EMPTY"):
            spark.sql("drop database sparks")
        assert values(spark.table("sparks.t")) == [(0,), (1,)]
        spark.sql("drop database sparks cascade")
        spark.sql("drop database ours")
    assert "sparks" not in {row[0] for row in spark.sql("show databases").collect()}


HIVE = {
    "show transactions": "txnid",
    "show locks": "lockid",
    "show compactions": "compactionid",
    "set hiveacid.progress": "set",
    "explain locks select * from emp": "",
    "explain select * from emp": "",
    "show create table emp": "",
    "describe formatted emp": "",
    "show partitions parted": "",
    "create tag q3 on emp": "",
    "show tags on emp": "tag",
    "drop tag q3 on emp": "",
    "show consumers": "consumer",
}


def test_what_spark_lacks_is_answered(acid: Session, spark: SparkSession) -> None:
    spark.sql(
        "create table parted (id int) partitioned by (p int) tblproperties ('transactional'='true')"
    )
    for text, column in HIVE.items():
        frame = spark.sql(text)
        assert column in "".join(frame.columns[:1]).lower(), text
        frame.collect()


def test_a_transaction_of_several_statements(acid: Session, spark: SparkSession) -> None:
    spark.sql("start transaction")
    spark.sql("insert into emp values (3, 'Eve')")
    spark.createDataFrame([(4, "Kim")], "id int, name string").write.insertInto("emp")
    assert len(spark.table("emp").collect()) == 4
    spark.sql("rollback")
    assert values(spark.table("emp")) == EMP


REFUSED = {
    "cache table emp": "CACHE TABLE",
    "optimize emp": "OPTIMIZE",
    "vacuum emp retain 1 hours": "keeps what was replaced for 24 h",
    "select * from emp version as of 99": "has no version 99",
    "select nope from emp": "nope",
    "selec * from emp": "selec",
    "insert into emp select * from nowhere": "nowhere",
    "delete from sparks_own where id in (select id from emp)": "sparks_own is a table of Spark's",
    "merge into sparks_own s using emp on s.id = emp.id when matched then delete": "Spark's",
}


def test_what_is_not_possible_ends_in_an_error_that_says_so(
    acid: Session, spark: SparkSession
) -> None:
    for text, words in REFUSED.items():
        with pytest.raises(Exception, match=words):
            spark.sql(text)


def test_an_overwrite_empties_the_other_partitions(acid: Session, spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id int, p string")
    rows.write.format("hiveacid").partitionBy("p").saveAsTable("t")
    new = spark.createDataFrame([(5, "b"), (6, "d")], rows.schema)
    new.write.mode("overwrite").saveAsTable("t")
    assert values(spark.table("t")) == [(5, "b"), (6, "d")]
    new.where("id = 5").write.mode("overwrite").option(
        "partitionOverwriteMode", "dynamic"
    ).saveAsTable("t")
    assert values(spark.table("t")) == [(5, "b"), (6, "d")]
    with pytest.raises(InvalidInputError, match="does not meet"):
        new.write.mode("overwrite").option("replaceWhere", "p = 'b'").saveAsTable("t")
    assert values(spark.table("t")) == [(5, "b"), (6, "d")]
    new.limit(0).write.mode("overwrite").saveAsTable("t")
    assert values(spark.table("t")) == []


def test_a_table_that_is_replaced(acid: Session, spark: SparkSession) -> None:
    before = acid.table("emp").definition
    spark.sql("create or replace table emp using hiveacid as select id, name from emp where id = 1")
    assert acid.table("emp").definition.id == before.id  # one commit
    assert values(spark.table("emp")) == [(1, "Ann")]
    spark.sql("create or replace table emp using hiveacid as select id + 1.5 as n from emp")
    assert [column.name for column in acid.table("emp").definition.columns] == ["n"]
    assert len(spark.table("emp").collect()) == 1
    assert acid.client.metastore.list_tables("default") == ("emp",)
    with pytest.raises(NotFoundError):
        spark.sql("replace table nope (id int) using hiveacid")
    with pytest.raises(NotFoundError):
        spark.range(1).writeTo("nope").using("hiveacid").replace()


def test_merge_into_by_a_frame(acid: Session, spark: SparkSession) -> None:
    from pyspark.sql.functions import expr

    rows = spark.createDataFrame([(2, "New"), (9, "Zoe")], "id int, name string")
    if not hasattr(rows, "mergeInto"):
        pytest.skip("Spark 4 has it")
    (
        rows.alias("s")
        .mergeInto("emp", expr("s.id = emp.id"))
        .whenMatched()
        .update({"name": expr("concat(s.name, emp.name)")})
        .whenNotMatched(expr("s.id > 5"))
        .insertAll()
        .whenNotMatchedBySource()
        .delete()
        .merge()
    )
    assert values(spark.table("emp")) == [(2, "NewJoe"), (9, "Zoe")]


def test_arguments_that_are_none(spark: SparkSession, tmp_path: Path) -> None:
    for wrong in (None, "spark", spark.range(1)):
        with pytest.raises(InvalidInputError, match="SparkSession"):
            hiveacid.enable(wrong, url(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="swapped"):
        hiveacid.enable(spark, str(tmp_path / "wh"), warehouse=url(tmp_path))
    with pytest.raises(AcidError, match="metastore"):
        hiveacid.enable(spark, f"sqlite:///{tmp_path}/nowhere/m.db")
    assert not hasattr(spark, "acid")
    with pytest.raises(InvalidInputError, match="not enabled"):
        HiveacidTable.forName(spark, "emp")


def test_threads_of_a_session_are_enabled(acid: Session, spark: SparkSession) -> None:
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: values(spark.sql("select * from emp")), range(4)))
        list(pool.map(lambda n: spark.sql(f"insert into emp values ({n}, 'x')"), range(5, 9)))
    assert found == [EMP] * 4
    assert values(spark.table("emp")) == EMP + [(n, "x") for n in range(5, 9)]


@pytest.mark.long("connectors", "spark", "streaming")
def test_streams_into_tables(acid: Session, spark: SparkSession, tmp_path: Path) -> None:
    if spark.version < "4":
        pytest.skip("Spark 4 has streams of Python data sources")
    spark.createDataFrame([(3, "Eve")], "id int, name string").write.json(f"{tmp_path}/in")

    def rows() -> Any:
        return spark.readStream.schema("id int, name string").json(f"{tmp_path}/in").writeStream

    starts = (
        lambda stream: stream.toTable("emp"),
        lambda stream: stream.toTable("made", format="hiveacid", partitionBy="name"),
        lambda stream: stream.toTable("`a new-one`", format="hiveacid"),
        lambda stream: stream.format("hiveacid").start(f"{tmp_path}/placed"),
    )
    for number, start in enumerate(starts):
        checkpoint = str(tmp_path / f"checkpoint{number}")
        stream = rows().option("checkpointLocation", checkpoint).trigger(availableNow=True)
        start(stream).awaitTermination()
    with pytest.raises(InvalidInputError, match="ignorechanges"):
        spark.readStream.option("ignoreChanges", "true").table("emp")
    with pytest.raises(InvalidInputError, match="mergeschema"):
        rows().option("mergeSchema", "true").toTable("emp")
    assert values(spark.table("emp")) == [*EMP, (3, "Eve")]
    assert acid.table("made").definition.partition_keys == ("name",)
    assert values(spark.table("made")) == values(spark.table("`a new-one`")) == [(3, "Eve")]
    assert values(spark.read.format("hiveacid").load(f"{tmp_path}/placed")) == [(3, "Eve")]


def test_one_word_in_the_place_of_a_path_is_a_name(acid: Session, spark: SparkSession) -> None:
    more = spark.createDataFrame([(3, "Eve")], "id int, name string")
    more.write.format("hiveacid").mode("append").save("emp")
    assert values(spark.read.format("hiveacid").load("emp")) == [*EMP, (3, "Eve")]
    assert values(spark.read.format("hiveacid").load("default.emp")) == [*EMP, (3, "Eve")]


@pytest.mark.jvm
def test_the_active_session_and_clones_are_enabled(acid: Session, spark: SparkSession) -> None:
    active = SparkSession.getActiveSession()
    assert active is not None and active.acid is acid


def test_the_past_of_a_table_under_the_names_of_other_formats(
    acid: Session, spark: SparkSession
) -> None:
    spark.sql("delete from emp where id = 1")
    assert values(spark.sql("select * from emp version as of 1")) == EMP
    assert [row.operation for row in spark.sql("describe history emp").collect()][-1] == "INSERT"
    assert spark.sql("vacuum emp dry run").columns == ["path", "fate", "reason"]
    HiveacidTable.forName(spark, "emp").vacuum(24)
    emp = HiveacidTable.forName(spark, "emp")
    assert [(row.version, row.operation) for row in emp.history().collect()] == [
        (2, "DELETE"),
        (1, "INSERT"),
    ]
    assert emp.history(1).count() == 1
    assert emp.detail().collect()[0].format == "orc"
    assert emp.restoreToVersion(1).collect()[0].num_restored_rows == 2
    assert values(spark.table("emp")) == EMP
    first = emp.history().orderBy("version").collect()[0]
    with pytest.raises(NotFoundError):
        emp.restoreToVersion(99)
    spark.sql("delete from emp")
    when = spark.sql(f"select date_format('{first.timestamp}', 'yyyy-MM-dd HH:mm:ss.SSSXXX')")
    assert emp.restoreToTimestamp(when.collect()[0][0]).collect()[0].num_restored_rows == 2

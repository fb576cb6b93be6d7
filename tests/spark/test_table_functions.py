"""Table functions that Spark itself asks: ``table_changes`` and ``table_history``."""

from __future__ import annotations

from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf

import hiveacid
from hiveacid import functions
from hiveacid.errors import SparkNeededError
from hiveacid.session import Session

pytestmark = pytest.mark.long(
    "connectors", "model", "reading", "session", "spark", "sql", "statements", "storage"
)

IS_OLD = pyspark.__version__.startswith("3.")
needs_spark_4 = pytest.mark.skipif(IS_OLD, reason="columns of a table came with PySpark 4")
ACID = "stored as orc tblproperties ('transactional'='true')"
NAMES = ("table_history",) if IS_OLD else ("table_changes", "table_history")


@pytest.fixture(scope="module")
def emp(lasting: Session) -> Session:
    lasting.sql(f"create table emp (id int, m map<string,array<int>>, t timestamp) {ACID}")
    value = "map('k', array(1, null)), timestamp'2024-10-27 02:30:00'"
    lasting.sql(f"insert into emp select 1, {value} union all select 2, null, null")
    lasting.sql("delete from emp where id = 2")
    return lasting


@needs_spark_4
def test_changes_are_those_of_the_table(emp: Session, spark: SparkSession) -> None:
    assert functions.register(emp) == NAMES
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        found = spark.sql("select * from table_changes('emp', 1)")
        expected = emp.sql("select * from table_changes('emp', 1)")
        assert found.schema.names == expected.schema.names
        assert told(found) == told(expected)
        assert len(told(found)) == 3
        if pyspark.__version__.startswith("4.0."):
            return  # it gives parameters to the functions only after it has analysed them
        text = "select id from table_changes(:name, 2, 2)"
        execute = spark.sql(f"execute immediate '{text}' using 'emp' as name")
        assert [row.id for row in execute.collect()] == [2]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
        functions.unregister(spark)


def told(frame: Any) -> list[str]:
    """The rows as texts, for maps have no order."""
    texts = [f"cast({name} as string) as {name}" for name in frame.columns]
    return sorted(str(row) for row in frame.selectExpr(*texts).collect())


def test_history_is_that_of_the_table(emp: Session, spark: SparkSession) -> None:
    functions.register(emp)
    try:
        rows = spark.sql("select version, operation, deleted from table_history('emp')").collect()
        assert [tuple(row) for row in rows] == [(2, "DELETE", 1), (1, "INSERT", 0)]
        assert spark.sql("select * from table_history('emp', 1)").count() == 1
        with pytest.raises(Exception, match="Table not found"):
            spark.sql("select * from table_history('nothing')").collect()
    finally:
        functions.unregister(spark)
    assert not any(map(spark.catalog.functionExists, NAMES))


@needs_spark_4
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("'nothing', 1", "Table not found"),
        ("7, 1", "name of a table"),
        ("'emp', -1", "A version is"),
        ("'emp', 'x'", "'x' is no time"),
        ("'emp', 1.5", "A version is"),
        ("'emp', 9", "version 9"),
    ],
)
def test_wrong_arguments_are_named(
    emp: Session, spark: SparkSession, arguments: str, words: str
) -> None:
    functions.register(emp)
    try:
        with pytest.raises(Exception, match=words):
            spark.sql(f"select * from table_changes({arguments})").collect()
    finally:
        functions.unregister(spark)


def test_an_enabled_session_has_them(emp: Session, spark: SparkSession) -> None:
    acid = hiveacid.enable(spark, emp.client.metastore.url)
    try:
        assert all(map(spark.catalog.functionExists, NAMES))
        # tables of ours are read as a whole, on each version of Spark
        assert spark.sql("select id from table_changes('emp', 2)").collect()[0].id == 2
        history = "table_history('emp') h on h.version = e.id"
        joined = spark.sql(f"select e.id, h.operation from emp e join {history}")
        assert [tuple(row) for row in joined.collect()] == [(1, "INSERT")]
        assert functions.register(acid) == NAMES
    finally:
        hiveacid.disable(spark)
    assert not any(map(spark.catalog.functionExists, NAMES))


def test_a_function_of_that_name_stays(emp: Session, spark: SparkSession) -> None:
    class Other:
        def eval(self) -> Any:
            yield (7,)

    spark.udtf.register("table_history", udtf(Other, returnType="a int"))
    try:
        assert "table_history" not in functions.register(emp)
        functions.unregister(spark)
        assert [row.a for row in spark.sql("select * from table_history()").collect()] == [7]
    finally:
        spark.sql("drop temporary function table_history")


def test_a_session_without_spark_is_refused(emp: Session) -> None:
    with (
        hiveacid.connect(None, emp.client.metastore.url) as other,
        pytest.raises(SparkNeededError),
    ):
        functions.register(other)

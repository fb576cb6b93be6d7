"""Failures of Spark tasks reach the user as errors of ours."""

from __future__ import annotations

import pytest

from hiveacid.errors import AcidError, InvalidInputError, UnsupportedError


def test_a_value_that_a_task_cannot_write_is_the_same_error_as_in_the_driver(acid, rows):
    acid.sql("create table t (ts timestamp) stored as orc tblproperties ('transactional'='true')")
    early = "timestamp'1969-12-31 23:59:59.5'"
    for insert in (f"insert into t values ({early})", f"insert into t select {early}"):
        with pytest.raises(UnsupportedError, match="before 1970"):
            acid.sql(insert)
    assert rows("select * from t") == []


@pytest.mark.parametrize(
    "statement",
    [
        "update t set n = cast(concat('x', n) as int)",
        "delete from t where n / 0 = 1",
        "insert into t select raise_error('no') from t",
    ],
)
def test_an_expression_that_fails_on_a_row_is_an_error_of_ours(acid, rows, spark, statement):
    acid.sql("create table t (n int) stored as orc tblproperties ('transactional'='true')")
    acid.sql("insert into t values (1)")
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        with pytest.raises(AcidError):
            acid.sql(statement)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert rows("select * from t") == [(1,)]


def test_a_frame_without_a_column_is_told_which(acid, spark):
    acid.sql(
        "create table t (n int, v string) stored as orc tblproperties ('transactional'='true')"
    )
    with pytest.raises(InvalidInputError, match="lacks the columns v; it has n"):
        acid.table("t").insert(spark.sql("select 1 as n"))

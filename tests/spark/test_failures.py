"""Failures of Spark tasks reach the user as errors of ours."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from tests.connect import OVER_CONNECT

from hiveacid.errors import (
    AcidError,
    InvalidInputError,
    StorageError,
    TransactionError,
    UnsupportedError,
)
from hiveacid.spark.failures import statement_error
from hiveacid.spark.session import session_conf
from hiveacid.storage.filesystem import Files


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


@pytest.mark.skipif(OVER_CONNECT, reason="its jobs are cancelled through the JVM here")
@pytest.mark.parametrize("statement", ["insert", "merge"])
def test_a_statement_whose_job_is_cancelled_has_done_nothing(
    acid, rows, spark, tmp_path, statement
):
    acid.sql("create table t (n int) stored as orc tblproperties ('transactional'='true')")
    acid.sql("insert into t values (1)")
    source = spark.range(1, 3).mapInArrow(partial(_waits_for, tmp_path / "go"), "n int")
    work = {
        "insert": lambda: acid.table("t").insert(source),
        "merge": lambda: acid.table("t").merge(source, on="n").when_matched_delete().run(),
    }[statement]
    with ThreadPoolExecutor(1) as pool:
        doing = pool.submit(work)
        error = None
        while error is None:  # it cannot end by itself
            spark.sparkContext.cancelAllJobs()
            try:
                error = doing.exception(0.05)
            except NotYet:
                continue
        (tmp_path / "go").touch()
    assert isinstance(error, TransactionError), error
    assert "cancelled" in str(error) and "\n" not in str(error)
    assert rows("select * from t") == [(1,)]
    assert acid.client.metastore.show_locks() == ()
    assert acid.client.metastore.get_open_txns().open == ()


def _waits_for(go, batches):
    import time

    while not Path(go).exists():
        time.sleep(0.01)
    for batch in batches:
        yield batch.rename_columns(["n"]).cast(pa.schema([("n", pa.int32())]))


def test_a_frame_without_a_column_is_told_which(acid, spark):
    acid.sql(
        "create table t (n int, v string) stored as orc tblproperties ('transactional'='true')"
    )
    with pytest.raises(InvalidInputError, match="lacks the columns v; it has n"):
        acid.table("t").insert(spark.sql("select 1 as n"))


def test_names_that_differ_in_case_are_one_column(acid, spark, rows):
    """As Spark may tell such names apart, a row of ``n`` would be lost."""
    acid.sql(
        "create table t (n int, v string) stored as orc tblproperties ('transactional'='true')"
    )
    with session_conf(spark, {"spark.sql.caseSensitive": "true"}):
        acid.table("t").insert(spark.sql("select 1 as N, 'a' as V"))
        with pytest.raises(InvalidInputError, match="Column n is named twice"):
            acid.table("t").insert(spark.sql("select 1 as n, 'a' as v, 2 as N"))
    assert rows("select * from t") == [(1, "a")]


def test_a_stage_whose_results_die_with_their_executors_is_such_a_failure():
    said = (
        "Job aborted due to stage failure: ResultStage 3 (collect at <unknown>:0) has failed the "
        "maximum allowable number of times: 4. Most recent failure reason:"
    )
    lost = "org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location"
    found = statement_error(
        RuntimeError(f"{said}\n{lost} for shuffle 1 partition 0"), at=Files().at
    )
    assert isinstance(found, StorageError) and str(found).endswith(said.partition(": ")[2])
    other = RuntimeError("Job aborted due to stage failure: Task 0 failed: ValueError: no")
    assert statement_error(other, at=Files().at) is other


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("java.net.ConnectException: Call From a to b:8020 failed: Connection refused", "Storage"),
        ("java.net.SocketTimeoutException: 60000 millis timeout", "Storage"),
        ("org.apache.hadoop.hdfs.BlockMissingException: Could not obtain block", "Storage"),
        ("org.apache.orc.FileFormatException: Malformed ORC file hdfs://b/f.", "Format"),
    ],
)
def test_a_place_that_does_not_answer_says_nothing_of_its_files(cause, kind):
    said = f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file hdfs://b/f. {cause}"
    found = statement_error(RuntimeError(f"{said}\n\tat org.apache.hadoop.ipc.Client"), at=None)
    assert type(found).__name__ == f"{kind}Error"
    assert kind == "Format" or cause in str(found)


def test_a_worker_that_dies_fails_the_statement_and_leaves_nothing(acid, rows, spark):
    acid.sql("create table t (n int) stored as orc tblproperties ('transactional'='true')")

    def deadly(batches):
        yield next(batches)
        os.kill(os.getpid(), signal.SIGKILL)

    frame = spark.range(100).selectExpr("cast(id as int) n").mapInArrow(deadly, "n int")
    with pytest.raises(StorageError, match=r"work died: Task .* Python worker") as told:
        acid.table("t").insert(frame)
    assert "Job aborted due to stage failure" in str(told.value.__cause__)
    assert rows("select * from t") == []


@pytest.mark.skipif(OVER_CONNECT, reason="its server analyses a query when rows are wanted")
def test_a_query_that_spark_gives_up_is_told_in_a_line(acid, spark):
    name = "spark.sql.analyzer.maxIterations"
    before = spark.conf.get(name)
    acid.sql("create table t (a array<int>) stored as orc")
    views = " ".join(f"lateral view explode(a) v as c{at}" for at in range(9))
    spark.conf.set(name, "5")
    try:
        with pytest.raises(InvalidInputError, match=r"^Max iterations \(5\) reached [^\n]*$"):
            acid.sql(f"select * from t {views}")
    finally:
        spark.conf.set(name, before)

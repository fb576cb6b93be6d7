"""Ctrl-C in the middle of a statement that Spark runs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from tests.connect import OVER_CONNECT
from tests.spark.running import slow_rows, wait_for

from hiveacid.model.transactions import TxnState, TxnType
from hiveacid.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long("session", "spark", "statements", "txn")

ACID = "stored as orc tblproperties ('transactional'='true')"
Interrupted = Callable[[Callable[[], Any]], None]


@pytest.fixture
def interrupted(tmp_path: Path) -> Interrupted:
    """Runs something and presses Ctrl-C once a task of it runs."""

    def run(statement: Callable[[], Any]) -> None:
        def press() -> None:
            wait_for(lambda: any(tmp_path.glob("started-*")))
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)

        pressing = threading.Thread(target=press)
        pressing.start()
        with pytest.raises(KeyboardInterrupt):
            statement()
        pressing.join(timeout=300)

    return run


def _files(warehouse: Path, table: str) -> list[str]:
    """What is published."""
    found = (warehouse / table).rglob("*")
    names = (str(p.relative_to(warehouse / table)) for p in found if p.is_file())
    return sorted(name for name in names if not name.startswith("_hiveacid_staging"))


def _open(acid: Session) -> list[int]:
    """Transactions that are not leases of queries."""
    shown = acid.client.metastore.show_txns()
    is_open = (TxnState.OPEN, TxnType.DEFAULT)
    return [one.id for one in shown if (one.state, one.type) == is_open]


@pytest.mark.jvm
def test_its_tasks_end_too(
    acid: Session,
    spark: SparkSession,
    tmp_path: Path,
    interrupted: Interrupted,
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    tracker = spark.sparkContext.statusTracker()
    rows = slow_rows(spark, tmp_path, sleep_s=120)
    interrupted(lambda: acid.table("t").insert(rows))
    wait_for(lambda: tracker.getActiveJobsIds() == [])


def test_a_statement_is_taken_back_and_the_session_goes_on(
    acid: Session,
    spark: SparkSession,
    tmp_path: Path,
    interrupted: Interrupted,
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("insert into t values (1)")
    before = _files(tmp_path / "wh", "t")
    rows = slow_rows(spark, tmp_path, sleep_s=120)
    interrupted(lambda: acid.table("t").insert(rows))
    assert _open(acid) == []
    assert acid.sql("show locks").collect() == []
    assert _files(tmp_path / "wh", "t") == before
    assert acid.sql("update t set id = 5").rows == 1
    assert [row[0] for row in acid.sql("select id from t").collect()] == [5]


@pytest.mark.long("spark", "statements", "txn")
def test_within_a_transaction_only_the_statement_is_taken_back(
    acid: Session,
    spark: SparkSession,
    tmp_path: Path,
    interrupted: Interrupted,
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    rows = slow_rows(spark, tmp_path, sleep_s=120)
    with acid.transaction() as txn:
        txn.sql("insert into t values (1)")
        interrupted(lambda: txn.table("t").insert(rows))
        assert txn.is_open
        txn.sql("update t set id = id + 1")
        assert [row[0] for row in txn.sql("select id from t").collect()] == [2]
    assert [row[0] for row in acid.sql("select id from t").collect()] == [2]
    assert _open(acid) == []
    assert acid.sql("show locks").collect() == []


def test_a_with_block_that_ctrl_c_leaves_is_rolled_back(
    acid: Session,
    spark: SparkSession,
    tmp_path: Path,
    interrupted: Interrupted,
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    rows = slow_rows(spark, tmp_path, sleep_s=120)

    def block() -> None:
        with acid.transaction() as txn:
            txn.sql("insert into t values (1)")
            txn.table("t").insert(rows)

    interrupted(block)
    assert _open(acid) == []
    assert acid.sql("show locks").collect() == []
    assert _files(tmp_path / "wh", "t") == []
    acid.sql("insert into t values (7)")
    assert [row[0] for row in acid.sql("select id from t").collect()] == [7]


@pytest.mark.skipif(
    not OVER_CONNECT and tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2),
    reason="what PySpark raises from a query by itself is an error of py4j's there",
)
def test_a_query_is_interrupted(
    acid: Session,
    spark: SparkSession,
    tmp_path: Path,
    interrupted: Interrupted,
) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql("insert into t values (1)")
    slow_rows(spark, tmp_path, sleep_s=120).createOrReplaceTempView("slow")
    interrupted(lambda: acid.sql("select * from t join slow on t.id = slow.id").collect())
    assert acid.sql("show locks").collect() == []
    assert acid.sql("select count(*) from t").collect()[0][0] == 1
    spark.interruptAll()  # Spark itself leaves the tasks of a query to their end: two minutes
    spark.catalog.dropTempView("slow")

"""UPDATE through Spark beside a compaction of the same rows: both succeed, every time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.running import wait_for

import hiveacid
from hiveacid.compaction import rewrites
from hiveacid.compaction.compactor import run_once
from hiveacid.compaction.worker import Outcome, Step, Worker
from hiveacid.model.compactions import CompactionRequest, CompactionType
from hiveacid.model.tables import TableName
from hiveacid.session import Session
from hiveacid.settings import Settings

ACID = "stored as orc tblproperties ('transactional'='true')"
SETTINGS = Settings(
    retention_s=0, reads_local_bytes=0, compactor_auto="off", conflict_retries=0, lock_timeout_s=300
)
ROUNDS = 3


@pytest.fixture
def acid(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(spark, url, warehouse=str(tmp_path / "wh"), settings=SETTINGS) as made:
        made.sql(f"create table t (id int, v int) {ACID}")
        made.sql("insert into t select id, 0 from (select explode(sequence(1, 100)) as id) s")
        yield made


def test_an_update_and_a_compaction_of_the_same_rows_both_succeed(acid: Session) -> None:
    begun = threading.Event()
    errors: list[BaseException] = []

    def update() -> None:
        try:
            begun.wait(300)
            assert acid.sql("update t set v = v + 1").rows == 100
        except BaseException as error:
            errors.append(error)

    def reached(step: Step) -> None:
        if step is Step.CLAIMED:
            begun.set()

    store = acid.client.metastore
    for turn in range(ROUNDS):
        acid.sql("update t set v = v + 1 where id <= 50")
        begun.clear()
        writer = threading.Thread(target=update)
        writer.start()
        kind = CompactionType.MAJOR if turn % 2 else CompactionType.MINOR
        store.compact(CompactionRequest(TableName("default", "t"), None, kind))
        how = partial(rewrites.rewrite, settings=SETTINGS)
        done = Worker(acid.client, how, name=f"h-{turn}", reached=reached).run_next()
        writer.join()
        assert errors == []
        assert done is not None
        assert done.outcome is Outcome.COMPACTED, done.message
    found = acid.sql("select v, count(*) n from t group by v").collect()
    assert {row.v: row.n for row in found} == {ROUNDS: 50, 2 * ROUNDS: 50}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that had something rewritten by Spark."""
    found: list[str] = []
    real = rewrites.rewrite_with_spark

    def rewrite_with_spark(*given: Any) -> Any:
        found.append(threading.current_thread().name)
        return real(*given)

    monkeypatch.setattr(rewrites, "rewrite_with_spark", rewrite_with_spark)
    return found


def _again(acid: Session, **settings: Any) -> Session:
    return hiveacid.connect(
        acid.spark,
        acid.client.metastore.url,
        warehouse=str(Path(acid.table("t").definition.location).parent),
        settings=replace(SETTINGS, compactor_spark_bytes=0, **settings),
    )


@pytest.mark.long("compaction", "spark")
@pytest.mark.jvm  # a Connect server is no Spark of the application's own
def test_beside_an_application_its_own_spark_compacts_only_for_who_waits(
    acid: Session, asked: list[str]
) -> None:
    with _again(acid, compactor_auto="embedded") as session:
        session.sql("update t set v = v + 1 where id <= 50")
        session.sql("alter table t compact 'minor'")
        wait_for(lambda: bool(session.compactions("t", status="succeeded")))
        assert asked == []
        session.sql("alter table t compact 'major' and wait")
        assert asked == [threading.current_thread().name]
        assert session.sql("select sum(v) s from t").collect()[0].s == 50


def test_a_service_compacts_by_the_spark_that_it_has(acid: Session, asked: list[str]) -> None:
    acid.sql("update t set v = v + 1 where id <= 50")
    acid.table("t").compact("major")
    with _again(acid) as session:
        (done,) = run_once(session.compacting.compactor(), pool=None, clock=session.client.clock)
    assert done.outcome is Outcome.COMPACTED, done.message
    assert len(asked) == 1
    assert acid.sql("select sum(v) s from t").collect()[0].s == 50

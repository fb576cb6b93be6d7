"""UPDATE through Spark beside a compaction of the same rows: both succeed, every time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hiveacid
from hiveacid.compaction.rewrites import rewrite
from hiveacid.compaction.worker import Outcome, Step, Worker
from hiveacid.model.compactions import CompactionRequest, CompactionType
from hiveacid.model.tables import TableName
from hiveacid.session import Session
from hiveacid.settings import Settings

ACID = "stored as orc tblproperties ('transactional'='true')"
SETTINGS = Settings(
    retention_s=0, reads_local_bytes=0, compactor_auto="off", conflict_retries=0, lock_timeout_s=60
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
            begun.wait(60)
            assert acid.sql("update t set v = v + 1").rows == 100
        except BaseException as error:
            errors.append(error)

    def reached(step: Step) -> None:
        if step is Step.CLAIMED:
            begun.set()

    store = acid.runtime.metastore
    for turn in range(ROUNDS):
        acid.sql("update t set v = v + 1 where id <= 50")
        begun.clear()
        writer = threading.Thread(target=update)
        writer.start()
        kind = CompactionType.MAJOR if turn % 2 else CompactionType.MINOR
        store.compact(CompactionRequest(TableName("default", "t"), None, kind))
        how = partial(rewrite, settings=SETTINGS)
        done = Worker(acid.runtime, how, name=f"h-{turn}", reached=reached).run_next()
        writer.join()
        assert errors == []
        assert done is not None
        assert done.outcome is Outcome.COMPACTED, done.message
    found = acid.sql("select v, count(*) n from t group by v").collect()
    assert {row.v: row.n for row in found} == {ROUNDS: 50, 2 * ROUNDS: 50}

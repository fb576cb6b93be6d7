"""A DataFrame that outlives its lease, and a quicker cleaner: an error, never fewer rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import hiveacid
from hiveacid.compaction.cleaner import Cleaner
from hiveacid.compaction.rewrites import rewrite
from hiveacid.compaction.worker import Outcome, Worker
from hiveacid.errors import SnapshotExpiredError
from hiveacid.model.compactions import CompactionRequest, CompactionType
from hiveacid.model.tables import TableName
from hiveacid.session import Session
from hiveacid.settings import Settings

pytestmark = pytest.mark.long("metastore", "session", "spark", "statements", "txn")

ACID = "stored as orc tblproperties ('transactional'='true')"
SETTINGS = Settings(retention_s=0, reads_local_bytes=0, compactor_auto="off")


@pytest.fixture
def acid(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(spark, url, warehouse=str(tmp_path / "wh"), settings=SETTINGS) as made:
        made.sql(f"create table t (id int, v string) {ACID}")
        made.sql(f"create table copy (id int, v string) {ACID}")
        for value in range(3):
            made.sql(f"insert into t values ({value}, 'x')")
        made.sql("delete from t where id = 1")
        yield made


def compact_and_clean(acid: Session) -> None:
    store = acid.client.metastore
    store.compact(CompactionRequest(TableName("default", "t"), None, CompactionType.MAJOR))
    done = Worker(acid.client, partial(rewrite, settings=SETTINGS), name="h-1").run_next()
    assert done is not None
    assert done.outcome is Outcome.COMPACTED
    time.sleep(1.1)
    Cleaner(acid.client).run()


def outlived(acid: Session) -> DataFrame:
    """A DataFrame whose lease is over and whose files are gone."""
    acid.sql("set hiveacid.reads.lease_s = 0")
    found: DataFrame = acid.sql("select * from t")
    acid.client.transactions.heartbeat.beat()
    compact_and_clean(acid)
    return found


def test_a_leased_frame_reads_all_its_rows_after_a_compaction(acid: Session) -> None:
    found = acid.sql("select * from t")
    compact_and_clean(acid)
    assert sorted(row.id for row in found.collect()) == [0, 2]


def test_an_outlived_frame_fails_even_where_spark_may_skip_files(
    acid: Session, spark: SparkSession
) -> None:
    found = outlived(acid)
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(Exception, match=r"FILE_NOT_EXIST|FileNotFound|does not exist"):
            found.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_a_statement_over_an_outlived_frame_says_what_has_happened(acid: Session) -> None:
    found = outlived(acid)
    with pytest.raises(SnapshotExpiredError, match="cleaned while it was being read"):
        acid.table("copy").insert(found)
    assert acid.sql("select * from copy").count() == 0


def test_a_collected_query_leaves_no_transaction_open(acid: Session) -> None:
    acid.sql("reset")
    acid.sql("set hiveacid.retention_s = 1d")
    lazy = acid.sql("select * from t")
    assert sorted(acid.sql("select id from t").collect()) == [(0,), (2,)]
    assert acid.sql("show transactions").collect() == []
    compact_and_clean(acid)
    assert sorted(row.id for row in lazy.collect()) == [0, 2]


KINDS = {
    "full": "'transactional'='true'",
    "insert only": "'transactional'='true', 'transactional_properties'='insert_only'",
}
SUCCESSORS = {
    "dropped and created": ["drop table s", "create table s {like}", "insert into s {rows}"],
    "dropped, and another one renamed": [
        "create table other {like}",
        "insert into other {rows}",
        "drop table s",
        "alter table other rename to s",
    ],
    "renamed, and created": [
        "alter table s rename to away",
        "create table s {like}",
        "insert into s {rows}",
    ],
    "overwritten after it was created again": [
        "drop table s",
        "create table s {like}",
        "insert overwrite table s {rows}",
    ],
    "replaced": ["create or replace table s {other} as select * from values (2, 'b') as x(id, v)"],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", SUCCESSORS)
def test_a_frame_never_shows_the_rows_of_a_table_that_took_the_name(
    acid: Session, kind: str, way: str
) -> None:
    first = "insert overwrite table" if way.startswith("overwritten") else "insert into"
    like = f"(id int, v string) stored as orc tblproperties ({KINDS[kind]})"
    acid.sql(f"create table s {like}")
    acid.sql(f"{first} s values (1, 'a')")
    made_before = acid.sql("select * from s")
    for step in SUCCESSORS[way]:
        other = f"stored as orc tblproperties ({KINDS[kind]}, 'other'='yes')"
        acid.sql(step.format(like=like, other=other, rows="values (2, 'b')"))
    assert [tuple(row) for row in acid.sql("select * from s").collect()] == [(2, "b")]
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|FileNotFound|does not exist"):
        made_before.collect()

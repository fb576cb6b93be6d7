"""``readStream.format("hiveacid")``: each appended row once, in the order of write ids."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType
from tests.spark.streamed import ACID, INSERT_ONLY, noted, noting, set_back

import hiveacid
from hiveacid import merge_arrow
from hiveacid.errors import (
    AcidError,
    InvalidInputError,
    NotFoundError,
    SnapshotExpiredError,
    UnsupportedError,
)
from hiveacid.session import Session

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))
pytestmark = [
    pytest.mark.skipif(VERSION < (4, 0), reason="PySpark 3.5 has no data sources in Python"),
    pytest.mark.long("connectors", "metastore", "session", "spark", "storage", "streams", "txn"),
]
limited = pytest.mark.skipif(VERSION < (4, 2), reason="limits came with PySpark 4.2")


class Stream:
    """A table's rows, batch by batch, as a file each; AvailableNow."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self.root = root
        self._url = f"sqlite:///{root}/metastore.db"

    def run(self, table: str = "t", **options: object) -> list[list[Any]]:
        """The rows of each batch of this run: the first columns."""
        given = {"metastore": self._url, "table": table, **options}
        notes = self.root / "notes"
        shutil.rmtree(notes, ignore_errors=True)
        query = (
            self._spark.readStream.format("hiveacid")
            .options(**given)  # type: ignore[arg-type]
            .load()
            .writeStream.foreachBatch(noting(notes))
            .option("checkpointLocation", str(self.root / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [[first for first, *_ in rows] for _, rows in sorted(noted(notes).items())]

    def set_back(self) -> None:
        set_back(self.root / "checkpoint")


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


def test_the_table_as_it_is_then_what_is_appended(acid: Session, stream: Stream) -> None:
    acid.sql(f"create table t (id int) partitioned by (p int) {ACID}")
    acid.sql("insert into t values (1, 1), (2, 2), (3, 3)")
    acid.sql("delete from t where id = 2")
    assert stream.run() == [[1, 3]]
    with hiveacid.connect(None, acid.client.metastore.url) as other, other.transaction() as txn:
        txn.table("t").insert([{"id": 4, "p": 1}])
        acid.sql("insert into t values (5, 2)")
        assert stream.run() == []  # write id 4 is committed, write id 3 is open
    acid.sql("insert into t values (6, 9)")
    assert stream.run() == [[4, 5, 6]]
    stream.set_back()
    acid.sql("insert into t values (7, 9)")
    acid.sql("alter table t compact 'major' and wait")
    # up to Spark 4.1 a run that does a batch again ends with it
    assert [*stream.run(), *stream.run()] == [[4, 5, 6], [7]]


@pytest.mark.long("connectors", "txn", "layout")
def test_rows_of_write_ids_that_changed_others(acid: Session, stream: Stream) -> None:
    acid.sql(f"create table t (id int, pay int) {ACID}")
    acid.sql("insert into t values (1, 1), (2, 2)")
    assert stream.run(startingWriteId=1) == [[1, 2]]
    acid.sql("insert into t values (3, 3)")
    acid.sql("update t set pay = 10 where id = 1")
    acid.sql("insert into t values (4, 4)")
    with pytest.raises(Exception, match="Write id 3 updated, deleted or replaced rows"):
        stream.run()
    for kind in ("minor", "major"):
        acid.sql(f"alter table t compact '{kind}' and wait")
        with pytest.raises(Exception, match="Write id 3 updated, deleted or replaced rows"):
            stream.run()
    assert stream.run(skipChangeCommits="true") == [[3, 4]]
    acid.sql("insert overwrite table t values (9, 9)")
    acid.sql("insert into t values (10, 10)")
    with pytest.raises(Exception, match="Write id 5 updated, deleted or replaced rows"):
        stream.run()
    assert stream.run(skipChangeCommits="true") == [[10]]


# -------------------------------------------------------------------- without Spark's processes


class Reader:
    """What Spark asks the source of a table for, one call after the other."""

    def __init__(self, session: Session, table: str = "t", **options: str) -> None:
        from hiveacid.connectors.data_source import HiveAcidDataSource

        url = session.client.metastore.url
        source = HiveAcidDataSource({"metastore": url, "table": table, **options})
        self._reader: Any = source.streamReader(source.schema())
        self.at: Any = None

    def begin(self) -> Any:
        """Where the next batch begins."""
        return self.at or self._reader.initialOffset()

    def next(self, *, limited: bool = False) -> list[Any]:
        """The first column of what is there by now."""
        start = self.begin()
        self.at = self.latest(limited=limited)
        try:
            return self.between(start, self.at)
        except AcidError:
            self.at = start
            raise

    def latest(self, *, limited: bool = False) -> Any:
        """Where the next batch ends."""
        if VERSION < (4, 2):
            return self._reader.latestOffset()
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        start = self.begin()
        limit = self._reader.getDefaultReadLimit() if limited else ReadAllAvailable()
        return self._reader.latestOffset(start, limit)

    def between(self, start: Any, end: Any) -> list[Any]:
        tasks = self._reader.partitions(start, end)
        batches = [batch for task in tasks for batch in self._reader.read(task)]
        return sorted(value.as_py() for batch in batches for value in batch.column(0))


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Session]:
    """A session without Spark."""
    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(None, url, warehouse=tmp_path / "wh") as session:
        yield session


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_an_insert_only_table_that_is_compacted_before_it_is_read(
    alone: Session, tmp_path: Path, kind: str
) -> None:
    alone.sql(f"create table t (id int) partitioned by (p int) {INSERT_ONLY}")
    alone.sql("insert into t values (1, 1)")
    alone.sql("insert into t values (2, 1)")
    reader = Reader(alone)
    assert reader.next() == [1, 2]
    alone.sql("insert into t values (3, 1), (4, 2)")
    with alone.transaction() as txn:
        txn.table("t").insert([{"id": 40, "p": 1}])
        txn.rollback()
    alone.sql("insert into t values (5, 1)")
    alone.sql(f"alter table t partition (p=1) compact '{kind}' and wait")
    alone.sql("insert into t values (6, 1)")
    assert Reader(alone).next() == [1, 2, 3, 4, 5, 6]
    assert reader.next() == [3, 4, 5, 6]
    for path in (tmp_path / "wh/t/p=1").glob("delta_0000001_0000001*"):
        shutil.rmtree(path)
    late = Reader(alone, startingWriteId="3")
    with pytest.raises(SnapshotExpiredError, match="were compacted before the stream read them"):
        late.next()
    alone.sql("insert overwrite table t partition (p=1) values (7)")
    alone.sql("insert into t values (8, 1)")
    with pytest.raises(UnsupportedError, match="replaced rows"):
        reader.next()
    skipping = Reader(alone, startingWriteId="7", skipChangeCommits="true")
    assert skipping.next() == [8]


@pytest.mark.parametrize(
    ("replaced", "rows"),
    [
        ("insert overwrite table t values (2)", [2, 3]),
        ("insert overwrite table t values (2), (20)", [2, 3, 20]),
        ("truncate table t", [3]),
    ],
)
def test_a_compaction_after_an_overwrite_tells_rows_of_an_insert_only_table_apart(
    alone: Session, replaced: str, rows: list[int]
) -> None:
    alone.sql(f"create table t (id int) {INSERT_ONLY}")
    alone.sql("insert into t values (1)")
    alone.sql(replaced)
    alone.sql("insert into t values (3)")
    reader = Reader(alone)
    start = reader.begin()
    assert reader.next() == rows
    alone.sql("insert into t values (4)")
    alone.sql("alter table t compact 'major' and wait")
    assert reader.between(start, reader.at) == rows
    assert reader.next() == [4]


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_compaction_hides_nobody_who_changed_rows(alone: Session, kind: str) -> None:
    alone.sql(f"create table t (id int, pay int) {ACID}")
    alone.sql("insert into t values (1, 1), (2, 2)")
    reader, skipping = Reader(alone), Reader(alone, skipChangeCommits="true")
    assert (reader.next(), skipping.next()) == ([1, 2], [1, 2])
    alone.sql("insert into t values (3, 3)")
    merge_arrow(alone.table("t"), [{"id": 1, "pay": 10}, {"id": 4, "pay": 4}], on="id")
    alone.sql("insert into t values (5, 5)")
    alone.sql(f"alter table t compact '{kind}' and wait")
    with pytest.raises(UnsupportedError, match="Write id 3 updated, deleted or replaced rows"):
        reader.next()
    assert skipping.next() == [3, 5]


def overwritten(acid: Session) -> None:
    acid.sql("insert overwrite table t values (9, 9)")


def truncated(acid: Session) -> None:
    acid.sql("truncate table t")


def deleted(acid: Session) -> None:
    acid.table("t").delete_arrow("id in (2, 3)")
    acid.sql("alter table t compact 'major' and wait")


def updated(acid: Session) -> None:
    merge_arrow(acid.table("t"), [{"id": 3, "p": 7}], on="id")
    acid.sql("alter table t compact 'minor' and wait")


def rebalanced(acid: Session) -> None:
    acid.sql("alter table t compact 'rebalance' and wait")
    deleted(acid)


GONE = [(one, ACID) for one in (overwritten, truncated, deleted, updated, rebalanced)]
GONE += [(one, INSERT_ONLY) for one in (overwritten, truncated)]


@pytest.mark.parametrize(("change", "kind"), GONE)
def test_appended_rows_that_are_gone_before_they_are_read(
    alone: Session, change: Callable[[Session], None], kind: str
) -> None:
    alone.sql(f"create table t (id int, p int) {kind}")
    alone.sql("insert into t values (1, 1)")
    skipping, plain = Reader(alone, skipChangeCommits="true"), Reader(alone)
    assert (skipping.next(), plain.next()) == ([1], [1])
    alone.sql("insert into t values (2, 2)")
    alone.sql("insert into t values (3, 3), (30, 30)")
    start, end = plain.at, plain.latest()
    first = Reader(alone).begin()
    change(alone)
    assert plain.between(start, end) == [2, 3, 30]
    assert plain.between(first, end) == [1, 2, 3, 30]
    with pytest.raises(UnsupportedError, match="Write id 4 updated, deleted or replaced"):
        plain.next()
    assert skipping.next() == [2, 3, 30]
    alone.sql("insert into t values (5, 5)")
    assert skipping.next() == [5]


@pytest.mark.parametrize("kind", [ACID, INSERT_ONLY])
@pytest.mark.parametrize(
    ("goes", "left"),
    [("drop partition (p=1)", []), ("partition (p=1) rename to partition (p=3)", [3])],
)
def test_a_partition_that_goes_takes_no_rows_of_others_along(
    alone: Session, kind: str, goes: str, left: list[int]
) -> None:
    alone.sql(f"create table t (id int) partitioned by (p int) {kind}")
    alone.sql("insert into t values (1, 1), (2, 2)")
    skipping, plain = Reader(alone, skipChangeCommits="true"), Reader(alone)
    start = plain.begin()
    assert (skipping.next(), plain.next()) == ([1, 2], [1, 2])
    alone.sql("insert into t values (3, 1), (4, 2)")
    alone.sql("insert overwrite table t partition (p=2) values (5)")
    alone.sql(f"alter table t {goes}")
    if not left:  # the first batch is planned again
        with pytest.raises(UnsupportedError, match="Partition p=1 of"):
            Reader(alone).between(start, plain.at)
    alone.sql("insert into t values (6, 1)")
    with pytest.raises(UnsupportedError, match=r"dropped or moved|deleted or replaced"):
        plain.next()
    assert skipping.next() == [*left, 4, 6]


@pytest.mark.parametrize("kind", [ACID, INSERT_ONLY])
def test_a_base_that_hive_3_compacted_is_no_overwrite(
    alone: Session, tmp_path: Path, kind: str
) -> None:
    alone.sql(f"create table t (id int) {kind}")
    alone.sql("insert into t values (1)")
    reader = Reader(alone)
    assert reader.next() == [1]
    alone.sql("insert into t values (2)")
    alone.sql("alter table t compact 'major' and wait")
    (made,) = (tmp_path / "wh/t").glob("base_*_v*")
    as_hive_3 = made.rename(made.with_name(made.name.partition("_v")[0]))
    marker = as_hive_3 / "_metadata_acid"
    marker.write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    alone.sql("insert into t values (3)")
    assert reader.next() == [2, 3]
    marker.unlink()
    with pytest.raises(UnsupportedError, match="replaced rows"):
        Reader(alone, startingWriteId="2").next()


def test_a_write_id_to_come_is_waited_for(alone: Session) -> None:
    from hiveacid.connectors.options import SOURCE, Options
    from hiveacid.connectors.stream_read import StreamReader

    alone.sql(f"create table t (id int) {ACID}")
    alone.sql("insert into t values (1)")
    given = {"table": "t", "metastore": alone.client.metastore.url, "startingWriteId": "3"}
    schema = StructType([StructField("id", IntegerType())])
    unlimited = StreamReader(Options.of(given, SOURCE), schema)  # Spark up to 4.1
    start = unlimited.initialOffset()
    reader = Reader(alone, startingWriteId="3")
    for number in (2, 3):
        assert unlimited.latestOffset() == start
        assert reader.next() == []
        alone.sql(f"insert into t values ({number})")
    assert unlimited.latestOffset()["writeId"] == 3
    assert reader.next() == [3]


def test_a_checkpoint_that_is_newer_than_a_restored_metastore_is_refused(
    alone: Session, tmp_path: Path
) -> None:
    """Its write ids are given out again: rows that come by them would be passed over."""
    alone.sql(f"create table t (id int) {ACID}")
    alone.sql("insert into t values (1)")
    with closing(sqlite3.connect(tmp_path / "metastore.db")) as database:
        database.execute(f"vacuum into '{tmp_path}/backup.db'")
    reader = Reader(alone)
    before = reader.begin()
    assert reader.next() == [1]
    read = reader.at
    for number in (2, 3):
        alone.sql(f"insert into t values ({number})")
    assert reader.next() == [2, 3]

    older = f"sqlite:///{tmp_path}/backup.db"
    with hiveacid.connect(None, older) as restored:
        again = Reader(restored)
        words = (
            "up to write id 3, and the metastore has given out 1: it is older than the checkpoint"
        )
        for start in (before, read, reader.at):  # batches that are done again
            with pytest.raises(InvalidInputError, match=words):
                again.between(start, {**read, "writeId": 3 if start != reader.at else 1})
        again.at = reader.at
        if VERSION >= (4, 2):
            with pytest.raises(InvalidInputError, match=words):
                again.latest()
        again.at = read
        assert again.next() == []


def test_no_write_id_is_passed_over_while_a_lower_one_is_open(alone: Session) -> None:
    alone.sql(f"create table t (id int) {ACID}")
    reader = Reader(alone, startingWriteId="1")
    assert reader.next() == []
    with hiveacid.connect(None, alone.client.metastore.url) as other:
        for ends in (True, False):
            with other.transaction() as txn:
                txn.table("t").insert([{"id": 1}])
                alone.sql("insert into t values (2)")
                assert reader.next() == []
                if not ends:
                    txn.rollback()
            assert reader.next() == ([1, 2] if ends else [2])


@limited
@pytest.mark.long("connectors")
def test_limits_end_the_batches_of_a_query(acid: Session, stream: Stream, tmp_path: Path) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    for number in range(1, 6):
        acid.sql(f"insert into t values ({number})")
    assert stream.run(startingWriteId=2, maxWriteIdsPerTrigger=3) == [[2, 3, 4], [5]]
    for number in range(6, 9):
        acid.sql(f"insert into t values ({number})")
    size = sum(p.stat().st_size for p in (tmp_path / "wh/t").glob("delta_0000006*/bucket_*"))
    assert stream.run(maxBytesPerTrigger=size * 2 + 1) == [[6, 7], [8]]


@limited
def test_limits_end_batches(alone: Session) -> None:
    alone.sql(f"create table t (id int) {ACID}")
    for number in range(1, 6):
        alone.sql(f"insert into t values ({number})")
    by_ids = Reader(alone, startingWriteId="2", maxWriteIdsPerTrigger="3")
    assert [by_ids.next(limited=True) for _ in range(3)] == [[2, 3, 4], [5], []]
    by_bytes = Reader(alone, startingWriteId="4", maxBytesPerTrigger="1")
    assert [by_bytes.next(limited=True) for _ in range(3)] == [[4], [5], []]


def test_the_newest_write_id_is_a_place_to_begin(alone: Session) -> None:
    alone.sql(f"create table t (id int) {ACID}")
    alone.sql("insert into t values (1)")
    reader = Reader(alone, startingWriteId="latest")
    assert reader.next() == []
    alone.sql("insert into t values (2)")
    assert reader.next() == [2]


WRONG = {
    "no option startingwriteid1 here; there are": {"startingWriteId1": "1"},
    "startingWriteId is a write id or 'latest', not 'x'": {"startingWriteId": "x"},
    "skipChangeCommits is true or false, not 'yes'": {"skipChangeCommits": "yes"},
    "maxBytesPerTrigger is a whole number": {"maxBytesPerTrigger": "1g"},
    "plain is not transactional": {"table": "plain"},
    r"Table not found default\.nosuch": {"table": "nosuch"},
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_options_are_named(tmp_path: Path, words: str) -> None:
    from hiveacid.connectors.data_source import HiveAcidDataSource

    url = f"sqlite:///{tmp_path}/metastore.db"
    with hiveacid.connect(None, url, warehouse=tmp_path / "wh") as acid:
        acid.sql(f"create table t (id int) {ACID}")
        acid.sql("create table plain (id int) stored as orc")
    with pytest.raises((InvalidInputError, NotFoundError), match=words):
        source = HiveAcidDataSource({"metastore": url, "table": "t", **WRONG[words]})
        source.streamReader(source.schema()).initialOffset()


@pytest.mark.long("connectors", "txn", "layout")
def test_a_table_that_is_another_one_under_the_stream(acid: Session, stream: Stream) -> None:
    acid.sql(f"create table t (id int) {ACID}")
    acid.sql(f"create table u (id int) {ACID}")
    acid.sql("insert into t values (1)")
    acid.sql("insert into u values (7)")
    assert stream.run() == [[1]]
    acid.sql("insert into t values (2)")
    acid.sql("alter table t rename to s")
    with pytest.raises(Exception, match=r"Table not found default\.t"):
        stream.run()
    assert stream.run("s") == [[2]]
    acid.sql("insert into u values (8)")
    acid.sql("insert into u values (9)")
    with pytest.raises(Exception, match=r"is one of another table than default\.u"):
        stream.run("u")


@pytest.mark.long("connectors", "txn", "layout")
def test_from_table_to_table_nothing_is_lost_or_there_twice(
    acid: Session, spark: SparkSession, stream: Stream, rows: Any, tmp_path: Path
) -> None:
    acid.sql(f"create table t (id int, s string) {ACID}")
    acid.sql(f"create table copied (id int, s string) {ACID}")
    url = acid.client.metastore.url
    for number in range(4):
        if number < 3:  # up to Spark 4.1 a run that does a batch again ends with it
            acid.sql(f"insert into t values ({number}, 'x')")
        query = (
            spark.readStream.format("hiveacid")
            .options(table="t", metastore=url)
            .load()
            .writeStream.format("hiveacid")
            .options(table="copied", metastore=url, checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        if number == 1:
            stream.set_back()
    assert rows("select id from copied") == [(0,), (1,), (2,)]
    sources = json.loads((tmp_path / "checkpoint/offsets/0").read_text().splitlines()[-1])
    assert sources["writeId"] == 1

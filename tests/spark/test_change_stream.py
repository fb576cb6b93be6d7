"""``readChangeFeed`` as a stream, and streams that keep how far they have read by a name."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.spark.streamed import ACID, noted, noting, set_back

import hiveacid
from hiveacid import merge_arrow
from hiveacid.errors import (
    AcidError,
    ConflictError,
    InvalidInputError,
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
FEED = {"readChangeFeed": "true"}
Events = list[tuple[int, str, int]]


class Reader:
    """What Spark asks the source of a table for, one call after the other."""

    def __init__(self, session: Session, at: Any = None, **options: str) -> None:
        from hiveacid.connectors.data_source import HiveAcidDataSource

        given = {"metastore": session.client.metastore.url, "table": "t", **options}
        source = HiveAcidDataSource(given)
        self._schema = source.schema()
        self._reader: Any = source.streamReader(self._schema)
        self.at = at

    def begin(self) -> Any:
        self.at = self.at or self._reader.initialOffset()
        return self.at

    def next(self, *, done: bool = True) -> Events:
        """Version, kind and id of what is there by now; of a stream of rows version 0."""
        start = self.begin()
        if VERSION < (4, 2):
            end = self._reader.latestOffset()
        else:
            end = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        found = self.between(start, end)
        self.at = end
        if done:
            self.commit()
        return found

    def commit(self) -> None:
        self._reader.commit(self.at)

    def between(self, start: Any, end: Any) -> Events:
        tasks = self._reader.partitions(start, end)
        batches = [batch for task in tasks for batch in self._reader.read(task)]
        rows = [
            dict(zip(self._schema.names, row, strict=True))
            for batch in batches
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]
        return sorted(
            (row.get("_commit_version", 0), row.get("_change_type", "insert"), row["id"])
            for row in rows
        )


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Session]:
    """A session without Spark, and a table that retains nothing."""
    url, settings = f"sqlite:///{tmp_path}/metastore.db", {"hiveacid.retention_s": "0"}
    settings["hiveacid.compactor.auto"] = "off"
    with hiveacid.connect(None, url, warehouse=tmp_path / "wh", settings=settings) as session:
        session.sql(f"create table t (id int, pay int) {ACID}")
        yield session


def _insert(session: Session, *ids: int) -> None:
    session.table("t").write_arrow([{"id": one, "pay": one} for one in ids])


def _compact(session: Session) -> None:
    """Compacts ``t``, and cleans until what nobody needs is gone: of a table that nobody reads."""
    session.sql(f"create table unread (id int, pay int) {ACID}")
    for number in (1, 2):
        session.table("unread").write_arrow([{"id": number, "pay": 0}])
    for name in ("t", "unread"):
        session.sql(f"alter table {name} compact 'major' and wait")
    place = Path(session.table("unread").definition.location)
    while any(place.glob("delta_*")):
        session.clean()
    session.clean()
    session.sql("drop table unread")


def test_versions_come_in_the_order_of_commits_and_once(alone: Session) -> None:
    _insert(alone, 1)
    reader = Reader(alone, startingVersion="1", **FEED)
    assert reader.next() == [(1, "insert", 1)]
    with alone.transaction() as late:
        late.table("t").write_arrow([{"id": 2, "pay": 2}])
        _insert(alone, 3)
        assert reader.next() == [(3, "insert", 3)]
        assert reader.at["without"] == [2]
        assert reader.next() == []
        again = Reader(alone, reader.at, **FEED)
        with alone.transaction() as later:
            later.table("t").write_arrow([{"id": 4, "pay": 4}])
            late.commit()
            assert reader.next() == [(2, "insert", 2)]
            assert reader.next() == []
            _insert(alone, 5)
    assert reader.next() == [(4, "insert", 4), (5, "insert", 5)]
    assert again.next() == [(2, "insert", 2), (4, "insert", 4), (5, "insert", 5)]


def test_images_are_paired_by_key_within_a_batch(alone: Session) -> None:
    _insert(alone, 1, 2)
    keyed = Reader(alone, startingWriteId="latest", key="id", **FEED)
    plain = Reader(alone, startingVersion="latest", **FEED)
    net = Reader(alone, startingVersion="latest", deduplicationMode="netChanges", **FEED)
    assert keyed.next() == plain.next() == net.next() == []
    merge_arrow(alone.table("t"), [{"id": 1, "pay": 10}], on="id")
    alone.table("t").delete_arrow("id = 1")
    assert keyed.next() == [
        (2, "update_postimage", 1),
        (2, "update_preimage", 1),
        (3, "delete", 1),
    ]
    assert plain.next() == [(2, "delete", 1), (2, "insert", 1), (3, "delete", 1)]
    assert net.next() == [(2, "delete", 1)]


@limited
def test_limits_end_batches_and_what_comes_later_waits(alone: Session) -> None:
    for number in range(1, 6):
        _insert(alone, number)
    reader = Reader(alone, startingVersion="2", maxWriteIdsPerTrigger="3", **FEED)
    assert [one[2] for one in reader.next()] == [2, 3, 4]
    assert [one[2] for one in reader.next()] == [5]
    one_by_one = Reader(alone, startingVersion="1", maxBytesPerTrigger="1", **FEED)
    assert [[one[2] for one in one_by_one.next()] for _ in range(3)] == [[1], [2], [3]]
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    now = Reader(alone, startingVersion="4", **FEED)
    now.begin()
    now._reader.prepareForTriggerAvailableNow()
    _insert(alone, 6)
    end = now._reader.latestOffset(now.at, ReadAllAvailable())
    assert [one[2] for one in now.between(now.at, end)] == [4, 5]
    assert now._reader.latestOffset(end, ReadAllAvailable()) == end
    assert now._reader.reportLatestOffset()["version"] == 6


@pytest.mark.parametrize("kind", ["rows", "changes"])
def test_a_consumer_keeps_its_place_for_a_new_checkpoint(alone: Session, kind: str) -> None:
    feed = FEED if kind == "changes" else {}
    start = {"startingVersion" if feed else "startingWriteId": "1"}
    _insert(alone, 1)
    reader = Reader(alone, consumer="crm", consumerRetainDays="2", **start, **feed)
    assert [one[2] for one in reader.next()] == [1]
    (state,) = alone.show_consumers()
    assert (state.name, state.version, state.behind) == ("crm", 1, 0)
    _insert(alone, 2)
    assert [one[2] for one in reader.next(done=False)] == [2]
    assert alone.show_consumers()[0].behind == 1
    again = Reader(alone, consumer="crm", **feed)  # another checkpoint
    assert [one[2] for one in again.next()] == [2]
    with pytest.raises(ConflictError, match="somebody else has read under its name"):
        reader.commit()
    _insert(alone, 3)
    assert [one[2] for one in again.next()] == [3]
    with pytest.raises(ConflictError, match="another one reads under its name"):
        reader.next()


def test_files_are_kept_for_a_stream_with_a_name_alone(alone: Session) -> None:
    _insert(alone, 1)
    named = Reader(alone, startingVersion="1", consumer="crm", **FEED)
    other = Reader(alone, startingVersion="1", **FEED)
    assert named.next() == other.next() == [(1, "insert", 1)]
    _insert(alone, 2)
    alone.table("t").delete_arrow("id = 2")
    _compact(alone)
    assert named.next(done=False) == [(2, "insert", 2), (3, "delete", 2)]
    named.commit()
    _compact(alone)
    with pytest.raises(SnapshotExpiredError, match="can be told since 3"):
        other.next()


def test_a_named_stream_that_ends_after_its_first_batch_keeps_its_files(alone: Session) -> None:
    """Spark tells that a batch is done when the next run begins, a week later, say."""
    _insert(alone, 1)
    named = Reader(alone, consumer="crm")
    assert [one[2] for one in named.next(done=False)] == [1]
    (state,) = alone.show_consumers()
    assert (state.name, state.version, state.behind) == ("crm", 0, 0)
    _insert(alone, 2)
    merge_arrow(alone.table("t"), [{"id": 1, "pay": 10}], on="id")
    _insert(alone, 4)
    _compact(alone)
    anew = Reader(alone, consumer="crm")  # another checkpoint: nobody knows what became of the rows
    assert sorted(one[2] for one in anew.next(done=False)) == [1, 2, 4]
    again = Reader(alone, named.at, consumer="crm", skipChangeCommits="true")
    again.commit()
    assert alone.show_consumers()[0].version == 1
    assert [one[2] for one in again.next()] == [2, 4]


def test_a_stream_of_rows_that_was_away_for_too_long_is_told_so(alone: Session) -> None:
    _insert(alone, 1)
    named = Reader(alone, startingWriteId="1", consumer="crm")
    other = Reader(alone, startingWriteId="1")
    assert [one[2] for one in named.next()] == [one[2] for one in other.next()] == [1]
    skipping = Reader(alone, other.at, skipChangeCommits="true")
    _insert(alone, 2)
    merge_arrow(alone.table("t"), [{"id": 1, "pay": 10}], on="id")
    _compact(alone)
    with pytest.raises(UnsupportedError, match="Write id 3 updated, deleted or replaced"):
        named.next()
    alone.table("t").drop_consumer("crm")
    _compact(alone)
    with pytest.raises(SnapshotExpiredError, match="it can read on from version 3") as raised:
        other.next()
    assert raised.value.context["write_id"] == 3
    with pytest.raises(SnapshotExpiredError, match="it can read on from version 3"):
        skipping.next()
    assert Reader(alone, startingWriteId="4").next() == []


def test_a_stream_begins_at_a_time(alone: Session) -> None:
    for number in (1, 2):
        _insert(alone, number)
    second, first = (one.committed_ms or 0 for one in alone.table("t").history())
    moment = datetime.fromtimestamp(second / 1000, timezone.utc).isoformat()
    reader = Reader(alone, startingTimestamp=moment, **FEED)
    _insert(alone, 3)
    among = 2 if first < second else 1
    assert reader.next() == [(1, "insert", 1), (2, "insert", 2), (3, "insert", 3)][among - 1 :]


def test_a_dropped_partition_is_a_change(alone: Session) -> None:
    alone.sql(f"create table parts (id int) partitioned by (p int) {ACID}")
    parts = alone.table("parts")
    parts.write_arrow([{"id": 1, "p": 1}, {"id": 2, "p": 2}])
    reader = Reader(alone, table="parts")
    assert [one[2] for one in reader.next()] == [1, 2]
    parts.write_arrow([{"id": 3, "p": 1}, {"id": 4, "p": 2}])
    alone.sql("alter table parts drop partition (p = 1)")
    with pytest.raises(UnsupportedError, match=r"Partition p=1 of default\.parts was dropped"):
        reader.next()
    skipping = Reader(alone, reader.at, table="parts", skipChangeCommits="true")
    assert [one[2] for one in skipping.next()] == [4]
    parts.write_arrow([{"id": 5, "p": 2}])
    assert [one[2] for one in skipping.next()] == [5]


@pytest.mark.parametrize("options", [{}, {**FEED, "startingVersion": "1"}], ids=["rows", "feed"])
def test_a_column_that_was_renamed_is_told(alone: Session, options: dict[str, str]) -> None:
    _insert(alone, 1)
    stream = Reader(alone, **options)
    stream.next()
    alone.sql("alter table t change pay wage int")
    alone.table("t").write_arrow([{"id": 2, "wage": 2}])
    with pytest.raises(InvalidInputError, match=r"t has no column pay .* it was altered") as told:
        stream.next()
    assert told.value.__notes__ == ["Load it again, without a schema."]
    anew = Reader(alone, stream.at, **options)
    assert [number for _, _, number in anew.next()] == [2]


def test_checkpoints_of_other_streams_are_told(alone: Session) -> None:
    _insert(alone, 1)
    rows = Reader(alone)
    rows.next()
    with pytest.raises(InvalidInputError, match="one of a stream of rows"):
        Reader(alone, rows.at, **FEED).next()
    feed = Reader(alone, startingVersion="1", **FEED)
    feed.next()
    alone.sql("alter table t rename to moved")
    assert Reader(alone, feed.at, table="moved", **FEED).next() == []
    alone.sql(f"create table t (id int, pay int) {ACID}")
    with pytest.raises(InvalidInputError, match=r"one of another table than default\.t"):
        Reader(alone, feed.at, **FEED).next()
    now = Reader(alone)  # it is not beyond the other one: Spark up to 4.1 asks for such a batch
    with pytest.raises(InvalidInputError, match=r"one of another table than default\.t"):
        now.between(rows.at, {**now.begin(), "writeId": rows.at["writeId"]})


WRONG = {
    "needs the first version that is read": {},
    "startingVersion is a version or 'latest', not 'x'": {"startingVersion": "x"},
    "two names of one option": {"startingVersion": "1", "startingWriteId": "1"},
    "startingVersion and startingTimestamp": {"startingVersion": "1", "startingTimestamp": "2026"},
    "'2026' is no time": {"startingTimestamp": "2026"},
    "has no version 7 yet": {"startingVersion": "7"},
    "skipChangeCommits does not go with": {"startingVersion": "1", "skipChangeCommits": "true"},
    "no option endingversion here": {"startingVersion": "1", "endingVersion": "2"},
    "consumerRetainDays is a number of days": {"startingVersion": "1", "consumerRetainDays": "2"},
    "A consumer is a name": {"startingVersion": "1", "consumer": " "},
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_options_of_a_stream_of_changes_are_named(alone: Session, words: str) -> None:
    with pytest.raises(AcidError, match=words):
        Reader(alone, **FEED, **WRONG[words]).begin()
    with pytest.raises(InvalidInputError, match="startingVersion needs readChangeFeed"):
        Reader(alone, startingVersion="1").begin()


@pytest.mark.long("connectors", "spark", "streaming")
def test_a_query_tells_each_change_once_whatever_is_done_again(
    acid: Session, spark: SparkSession, tmp_path: Path
) -> None:
    acid.sql(f"create table t (id int, pay int) {ACID}")
    notes = tmp_path / "notes"
    note = noting(notes, "_commit_version", "_change_type", "id", "pay")

    def run() -> None:
        given = {"metastore": acid.client.metastore.url, "table": "t", "startingVersion": "1"}
        query = (
            spark.readStream.format("hiveacid")
            .options(**given, **FEED, key="id", consumer="crm")
            .load()
            .writeStream.foreachBatch(note)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    acid.sql("insert into t values (1, 1), (2, 2)")
    run()
    acid.sql("update t set pay = 20 where id = 2")
    run()
    first = [(1, "insert", 1, 1), (1, "insert", 2, 2)]
    second = [(2, "update_postimage", 2, 20), (2, "update_preimage", 2, 2)]
    assert [rows for _, rows in sorted(noted(notes).items()) if rows] == [first, second]
    shutil.rmtree(notes)
    set_back(tmp_path / "checkpoint")
    run()
    assert [rows for rows in noted(notes).values() if rows] == [second]


def test_limits_need_a_spark_that_knows_them(alone: Session, monkeypatch: Any) -> None:
    from hiveacid.connectors import table_stream

    monkeypatch.setattr(table_stream, "limits", None)
    with pytest.raises(UnsupportedError, match=r"need Spark 4\.2"):
        Reader(alone, startingVersion="1", maxWriteIdsPerTrigger="1", **FEED)

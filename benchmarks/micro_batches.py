"""Micro-batches of Structured Streaming: 5,000 rows a second, a trigger a second, appended or
upserted by ``foreach_batch`` with automatic compaction, while an independent process looks.

The look takes what is newer than it has seen, so a row is visible when a look that has it ends;
rows come evenly, so the rows between two looks stand for all moments between. Those of the first
and of the last third are compared: a stream must not get slower.
"""

from __future__ import annotations

import multiprocessing
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

import hiveacid
from hiveacid import read_arrow
from hiveacid.session import Session
from hiveacid.spark.workers import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS_A_SECOND: Final = 5_000
_KEYS: Final = 50_000
"""of the upserted table: each is written again every ten seconds"""
_WARM_UP_S: Final = 15.0
_FIRST_ROW_S: Final = 300.0
"""at most until the first row is there"""
_STEP_S: Final = 0.02
_PAUSE_S: Final = 0.2


class Line(Protocol):
    """Prints a figure with its goal."""

    def __call__(
        self, what: str, figure: float, unit: str, *, at_least: float = 0, below: float = 0
    ) -> None: ...


def _newest(acid: Session, than: float) -> float:
    """Moment of the newest row, in seconds."""
    moment = datetime.fromtimestamp(than, timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
    found = read_arrow(acid.table("t"), columns=["at"], filter=f"at > timestamp '{moment}'")
    moments = found.read_all()["at"].combine_chunks().to_numpy(zero_copy_only=False)
    if not len(moments):
        return than
    return float(moments.max().astype("datetime64[us]").astype(np.int64)) / 1e6


def _directories(acid: Session) -> int:
    """How many a snapshot reads now."""
    table = acid.table("t").definition
    with acid.client.transactions.begin(read_only=True) as txn:
        (part,) = txn.snapshot(table).parts
    return int(part.directory.base is not None) + len(part.directory.deltas)


def _look(url: str, seconds: float, answers: Any) -> None:
    """Looks (when it ended, newest row before, newest row), directories read, seconds a look; from
    a warm-up after the first row on.
    """
    looks: list[tuple[float, float, float]] = []
    directories, took = [], []
    with hiveacid.connect(None, url, settings={"hiveacid.compactor.auto": "off"}) as acid:
        seen, begins = 0.0, time.time() + _FIRST_ROW_S
        while time.time() < begins + seconds:
            begin = time.time()
            newest = _newest(acid, seen)
            now = time.time()
            if newest > seen:
                if not seen:
                    begins = now + _WARM_UP_S
                elif now > begins:
                    looks.append((now, seen, newest))
                seen = newest
            if now > begins:
                took.append(now - begin)
                directories.append(_directories(acid))
            time.sleep(_PAUSE_S)
    answers.put((looks, directories, took))


def _waits(looks: list[tuple[float, float, float]]) -> np.ndarray[Any, Any]:
    """How long each moment's rows were not visible."""
    found = [now - np.arange(before, newest, _STEP_S) for now, before, newest in looks]
    return np.concatenate(found) if found else np.array([np.inf])


def _last(batch: DataFrame) -> DataFrame:
    """One row a key, as an upsert needs it: a batch that was late has keys twice."""
    return batch.groupBy("id").agg({"at": "max"}).withColumnRenamed("max(at)", "at")


def micro_batches(directory: str, mode: str, *, seconds: float, line: Line) -> None:
    """Stream for so long, after a warm-up, and print the figures."""
    spark = local_session("micro-batches", conf={"spark.driver.memory": "2g"})
    url = f"sqlite:///{directory}/metastore.db"
    settings = {"hiveacid.compactor.embedded_pause_s": "2", "hiveacid.retention_s": "60"}
    with hiveacid.connect(
        spark, url, warehouse=f"{directory}/warehouse", settings=settings
    ) as acid:
        acid.sql(
            "create table t (id bigint, at timestamp) stored as orc"
            " tblproperties ('transactional'='true')"
        )
        append = mode == "append"
        write = hiveacid.foreach_batch(acid, "t", mode=mode, on=None if append else "id")
        events = spark.readStream.format("rate").option("rowsPerSecond", _ROWS_A_SECOND).load()
        key = "value" if append else f"value % {_KEYS}"
        query = (
            events.selectExpr(f"{key} id", "timestamp at")
            .writeStream.foreachBatch(
                write if append else lambda rows, number: write(_last(rows), number)
            )
            .option("checkpointLocation", f"{directory}/checkpoint")
            .trigger(processingTime="1 second")
            .start()
        )
        context = multiprocessing.get_context("spawn")
        answers = context.Queue()
        watcher = context.Process(target=_look, args=(url, seconds, answers))
        watcher.start()
        looks, directories, took = answers.get(timeout=seconds + 2 * _FIRST_ROW_S)
        watcher.join()
        progress = [dict(one) for one in query.recentProgress if one["numInputRows"]]
        failure = query.exception()
        query.stop()
        assert failure is None, failure
        rows = acid.sql("select count(*), count(distinct id) from t").collect()[0]
        assert rows[0] == rows[1], f"{rows[0] - rows[1]} rows are there twice"
    third = max(len(looks) // 3, 1)
    for which, part in (("first", looks[:third]), ("last", looks[-third:])):
        p95 = float(np.percentile(_waits(part), 95))
        line(f"{mode}: event to visible, p95 of the {which} third", p95, "s", below=2.5)
    batches = [one["durationMs"]["triggerExecution"] / 1000 for one in progress]
    on_disk = sum(1 for one in Path(directory, "warehouse", "t").iterdir() if one.is_dir())
    line(f"{mode}: directories a snapshot reads, highest", max(directories), "", below=100)
    line(f"{mode}: directories kept besides at the end", on_disk - directories[-1], "")
    line(f"{mode}: a batch, p95", float(np.percentile(batches, 95)), "s")
    line(f"{mode}: a look, p95", float(np.percentile(took, 95)), "s")
    line(f"{mode}: rows", rows[0], "")

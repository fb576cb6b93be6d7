"""Micro-batches of Structured Streaming, 5,000 rows a second, a trigger a second: into a table of
ours beside its automatic compaction and, in the same run and in turn, into those of other systems,
each as it is by default, while an independent process looks.

That process has a Spark of its own with one core and asks each system by the same SQL for what is
newer than it has seen, so a row is visible when a look that has it ends; rows come evenly, so the
rows between two looks stand for all moments between. The first and the last two minutes, of a short
run its thirds, are compared: a stream must not get slower.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import hiveacid
from benchmarks.goals import ICEBERG
from benchmarks.meter import OURS
from benchmarks.processes import cpu_s
from benchmarks.systems import SYSTEMS, FlatOrc, HiveAcid, System, start_spark
from hiveacid.session import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_ROWS_A_SECOND: Final = 5_000
_COLUMNS: Final = "id bigint, at timestamp"
_KEYS: Final = 50_000
"""of the upserted table: each is written again every ten seconds"""
_WARM_UP_S: Final = 15.0
_FIRST_ROW_S: Final = 300.0  # at most until it is there
_WINDOW_S: Final = 120.0
_STEP_S: Final = 0.02
_PAUSE_S: Final = 0.2


@dataclass(slots=True)
class _Seen:
    """What the process saw: (when a look ended, newest row before, newest row), seconds a look,
    directories that a snapshot reads, its CPU seconds.
    """

    looks: list[tuple[float, float, float]] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    directories: list[int] = field(default_factory=lambda: [0])
    cpu_s: float = 0.0

    def wait_s(self, percentile: float, *, last: bool) -> float:
        """How long the rows of the first or the last two minutes were not visible."""
        begin, end = self.looks[0][0], self.looks[-1][0]
        window_s = min(_WINDOW_S, (end - begin) / 3)
        low, high = (end - window_s, end) if last else (begin, begin + window_s)
        within = [one for one in self.looks if low <= one[0] <= high]
        waits = [now - np.arange(before, newest, _STEP_S) for now, before, newest in within]
        return float(np.percentile(np.concatenate(waits), percentile))


def _newest(system: System, than: float) -> float:
    """Moment of the newest row, in seconds."""
    moment = datetime.fromtimestamp(than, timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
    text = f"SELECT max(at) FROM {{table}} WHERE at > timestamp '{moment}'"
    newest = system.query(text, "t").collect()[0][0]
    return than if newest is None else float(newest.replace(tzinfo=timezone.utc).timestamp())


def _directories(acid: Session) -> int:
    """How many a snapshot reads now."""
    with acid.client.transactions.begin(read_only=True) as txn:
        (part,) = txn.snapshot(acid.table("t").definition).parts
    return int(part.directory.base is not None) + len(part.directory.deltas)


def _look(name: str, work: Path, seconds: float, answers: Any) -> None:
    """Answers None when the warm-up after the first row is over, and then what was seen."""
    spark = start_spark([SYSTEMS[name]], work, cores=1, memory="1g", conf={})
    system = SYSTEMS[name](spark, work / "tables")
    if isinstance(system, FlatOrc):
        system.columns["t"] = _COLUMNS
    seen, newest, begins = _Seen(), 0.0, time.time() + _FIRST_ROW_S
    while time.time() < begins + seconds:
        begin, before = time.time(), newest
        newest = _newest(system, before)
        now = time.time()
        if newest > before == 0:
            begins = now + _WARM_UP_S
        if now > begins:
            if not seen.took:
                answers.put(None)
                seen.cpu_s = -cpu_s()
            seen.took.append(now - begin)
            if newest > before:
                seen.looks.append((now, before, newest))
            if isinstance(system, HiveAcid):
                seen.directories.append(_directories(system.session))
        time.sleep(_PAUSE_S)
    seen.cpu_s += cpu_s()
    answers.put(seen)


def _upsert(table: str, batch: DataFrame, _: int) -> None:
    """One row a key: a batch that was late has keys twice."""
    newest = batch.groupBy("id").agg({"at": "max"}).withColumnRenamed("max(at)", "at")
    newest.createOrReplaceTempView("batch")
    batch.sparkSession.sql(
        f"MERGE INTO {table} t USING batch s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def _started(system: System, acid: Session | None, mode: str, work: Path) -> StreamingQuery:
    """The query, with ``acid`` where the table is ours."""
    spark = system.spark
    events = spark.readStream.format("rate").option("rowsPerSecond", _ROWS_A_SECOND).load()
    key = f"value % {_KEYS}" if mode == "upsert" else "value"
    writer = (
        events.selectExpr(f"{key} id", "timestamp at")
        .writeStream.option("checkpointLocation", str(work / f"checkpoint_{system.name}_{mode}"))
        .trigger(processingTime="1 second")
    )
    if mode == "upsert":
        if acid is not None:
            by_key = hiveacid.foreach_batch(acid, "t", mode="upsert", on="id", order_by="at")
            return writer.foreachBatch(by_key).start()
        return writer.foreachBatch(partial(_upsert, system.named("t"))).start()
    if isinstance(system, FlatOrc):
        return writer.format("orc").option("compression", "zstd").start(str(system.path("t")))
    if acid is None:
        return writer.toTable(system.named("t"))
    if mode == "append":
        return writer.foreachBatch(hiveacid.foreach_batch(acid, "t")).start()
    return writer.format("hiveacid").options(table="t", metastore=acid.client.metastore.url).start()


def _streamed(
    system: System, mode: str, work: Path, *, seconds: float, line: Callable[..., None]
) -> _Seen:
    """Stream for so long, after a warm-up, and print the figures."""
    what = f"{mode}, {system.name}"
    with ExitStack() as stack:
        acid = None
        if isinstance(system, HiveAcid):
            acid = stack.enter_context(system.connect(settings={}))
            acid.create_table("t", _COLUMNS)
        else:
            system.create("t", _COLUMNS)
        query = _started(system, acid, mode, work)
        context = multiprocessing.get_context("spawn")
        answers = context.Queue()
        watcher = context.Process(target=_look, args=(system.name, work, seconds, answers))
        watcher.start()
        answers.get(timeout=2 * _FIRST_ROW_S)
        cpu = -cpu_s()
        seen: _Seen = answers.get(timeout=seconds + _FIRST_ROW_S)
        cpu += cpu_s() - seen.cpu_s
        watcher.join()
        progress = [dict(one) for one in query.recentProgress if one["numInputRows"]]
        failure = query.exception()
        query.stop()
        text = "SELECT count(*), count(DISTINCT id), max(id) + 1 FROM {table}"
        rows = system.query(text, "t").collect()[0]
        on_disk = sum(1 for one in system.path("t").glob("*delta_*"))
        system.drop("t")
    if failure is not None:
        print(f"{what}: {failure}")
    ours = acid is not None
    for which, last in (("first", False), ("last", True)):
        name = f"{what}: event to visible, {which} minutes"
        line(f"{name}, p50", seen.wait_s(50, last=last), "s")
        line(f"{name}, p95", seen.wait_s(95, last=last), "s", below=2.5 if ours else 0)
    batches = [one["durationMs"]["triggerExecution"] / 1000 for one in progress]
    line(f"{what}: failed batches", failure is not None, f"of {len(batches)}", below=1)
    line(f"{what}: rows lost or twice", max(rows) - min(rows), f"of {rows[0]:,}", below=1)
    if ours:
        line(f"{what}: directories a snapshot reads, highest", max(seen.directories), "", below=100)
        line(f"{what}: directories kept besides", on_disk - seen.directories[-1], "")
    line(f"{what}: a batch, p95", float(np.percentile(batches, 95)), "s")
    line(f"{what}: a look, p95", float(np.percentile(seen.took, 95)), "s")
    line(f"{what}: CPU of what writes", cpu / seconds, "CPU s/s")
    line(f"{what}: CPU of what looks", seen.cpu_s / seconds, "CPU s/s")
    return seen


def micro_batches(
    directory: str, mode: str, *, beside: Sequence[str], seconds: float, line: Callable[..., None]
) -> None:
    """Stream into a table of each system, ours first, and print the figures."""
    work = Path(directory)
    able = [name for name in beside if mode != "upsert" or name != FlatOrc.name]
    conf = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
    systems = [SYSTEMS[name] for name in (OURS, *able)]
    spark = start_spark(systems, work, cores=2, memory="2g", conf=conf)
    p95 = {}
    for name in (OURS, *able):
        system = SYSTEMS[name](spark, work / "tables")
        seen = _streamed(system, mode, work, seconds=seconds, line=line)
        p95[name] = seen.wait_s(95, last=True)
        if name != OURS:
            goal = 1.0 if name == ICEBERG else 0
            line(f"{mode}: p95 of the last, by {name}'s", p95[OURS] / p95[name], "x", below=goal)
    spark.stop()

"""Compaction going on beside the work: ``make bench-rounds`` (`--scale 0.01 --rounds 3 --only b7`).

    rounds   MERGE after MERGE (70 % updates, 30 % inserts) into one table with automatic compaction
             and into one without: the time of a query after each round, and its slope
    commit   the commit step with automatic compaction on and off
    beside   a whole statement while a compaction of another table runs, and alone
    b7       a compaction and an UPDATE of the same rows at the same time: both must succeed

At scale 1 the table has 5,000,000 rows and a MERGE 500,000. Every count and sum is checked. The
exit code says whether all limits are met.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hiveacid
from hiveacid.model.compactions import CompactionState
from hiveacid.model.tables import TableName
from hiveacid.session import Session
from hiveacid.settings import Settings
from hiveacid.spark.local import local_session
from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 5_000_000
CHANGES: Final = 500_000
QUERY: Final = "select k, count(*), sum(a), max(b) from t group by k"
QUERY_LIMIT: Final = 1.2
COMMIT_LIMIT: Final = 1.1
BESIDE_LIMIT: Final = 1.5
_COLUMNS: Final = "id bigint, k int, a bigint, b string, c double"
_UNFINISHED: Final = (CompactionState.INITIATED, CompactionState.WORKING)


@dataclass(slots=True)
class Report:
    """Figures by name, and which limits were missed."""

    figures: dict[str, Any] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    def judge(self, name: str, ratio: float, limit: float) -> None:
        """Keep a ratio and hold it against its limit."""
        self.figures[name] = round(ratio, 3)
        verdict = "ok" if ratio <= limit else "MISSED"
        print(f"{name}: {ratio:.2f} (limit {limit:g}) {verdict}", flush=True)
        if ratio > limit:
            self.missed.append(name)


class Side:
    """A table of its own with automatic compaction or without, in a metastore of its own."""

    def __init__(self, spark: SparkSession, work: Path, name: str, *, auto: bool) -> None:
        self.name = name
        directory = work / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        settings = Settings(
            compactor_auto="embedded" if auto else "off",
            compactor_embedded_pause_s=1.0,
            compactor_cleaner_interval_s=1.0,
            reads_lease_s=10.0,  # the cleaner waits for queries that nobody closes
        )
        self.acid = hiveacid.connect(
            spark,
            f"sqlite:///{directory / 'metastore.db'}",
            warehouse=str(directory / "warehouse"),
            settings=settings,
        )

    def load(self, frame: DataFrame, table: str = "t") -> None:
        """Make the table of the frame's rows."""
        self.acid.create_table(table, frame, properties={"hiveacid.retention": "0"})

    def settle(self) -> None:
        """Wait until nothing is noted, asked for or under way."""
        while not self.acid.compacting.is_idle:
            time.sleep(0.05)

    def query_s(self, *, times: int) -> float:
        """Median time of the query."""
        return median_s(lambda: self.acid.sql(QUERY).collect(), times=times)

    def sums(self) -> tuple[int, int]:
        """Number of rows and their sum."""
        row = self.acid.sql("select count(*), sum(a) from t where a >= 0").collect()[0]
        return int(row[0]), int(row[1] or 0)

    def deltas(self) -> int:
        """Directories of the table."""
        location = Path(self.acid.table("t").definition.location)
        return sum(1 for one in location.iterdir() if one.is_dir())


def median_s(work: Callable[[], object], *, times: int) -> float:
    """Median duration of a call."""
    return statistics.median(timed_s(work) for _ in range(times))


def timed_s(work: Callable[[], object]) -> float:
    """Duration of a call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def base_rows(spark: SparkSession, rows: int) -> DataFrame:
    """The table's rows; ids are even, so odd ones are free."""
    return spark.range(0, rows, numPartitions=4).selectExpr(
        "id * 2 as id",
        "cast(id % 97 as int) as k",
        "id % 1000 as a",
        "concat('text ', cast(id % 5003 as string), ' of the row') as b",
        "cast(id as double) / 7 as c",
    )


def changes(spark: SparkSession, *, rows: int, count: int, turn: int) -> DataFrame:
    """70 % of them change scattered rows of the base, 30 % are new: their ids are odd."""
    updates = int(count * 0.7)
    changed = spark.range(0, updates).selectExpr(
        f"((id * 7919 + {turn} * 104729) % {rows}) * 2 as id"
    )
    new = spark.range(0, count - updates).selectExpr(f"({turn} * {count} + id) * 2 + 1 as id")
    return (
        changed.distinct()
        .union(new)
        .selectExpr(
            "id", "cast(id % 97 as int) as k", f"{turn} as a", "'changed' as b", "1.5D as c"
        )
    )


def merge(side: Side, source: DataFrame) -> Any:
    """MERGE the changes."""
    return (
        side.acid.table("t")
        .merge(source, on="t.id = s.id")
        .when_matched_update({"a": "s.a", "b": "s.b"})
        .when_not_matched_insert_all()
        .run()
    )


def rounds(spark: SparkSession, work: Path, given: argparse.Namespace, report: Report) -> None:
    """MERGE after MERGE, and the query after each."""
    rows, count = int(ROWS * given.scale), int(CHANGES * given.scale)
    sides = [Side(spark, work, "with", auto=True), Side(spark, work, "without", auto=False)]
    found: dict[str, list[float]] = {side.name: [] for side in sides}
    at_once: dict[str, list[float]] = {side.name: [] for side in sides}
    for side in sides:
        side.load(base_rows(spark, rows))
        side.query_s(times=2)
    for turn in range(1, given.rounds + 1):
        answers = set()
        for side in sides:
            source = changes(spark, rows=rows, count=count, turn=turn)
            merge_s = timed_s(partial(merge, side, source))
            at_once[side.name].append(side.query_s(times=1))
            side.settle()
            found[side.name].append(side.query_s(times=given.times))
            answers.add(side.sums())
            print(
                f"round {turn:2d} {side.name:8s} MERGE {merge_s:7.2f} s, query at once "
                f"{at_once[side.name][-1]:6.3f} s, settled {found[side.name][-1]:6.3f} s, "
                f"{side.deltas()} directories",
                flush=True,
            )
        if len(answers) != 1:
            raise SystemExit(f"wrong result in round {turn}: {answers}")
    done = sides[0].acid.compactions(status="succeeded")
    failed = sides[0].acid.compactions(status="failed")
    print(f"{len(done)} compactions in the history, {len(failed)} failed")
    if failed:
        report.missed.append("failed compactions")
    for side in sides:
        side.acid.close()
    report.figures["rounds"] = {"settled": found, "at once": at_once}
    print_plot(found)
    report.judge("query, last round / first", found["with"][-1] / found["with"][0], QUERY_LIMIT)
    slope = found["without"][-1] / found["without"][0]
    report.figures["query without, last round / first"] = round(slope, 3)
    print(f"without compaction the same is {slope:.2f}")


def print_plot(found: dict[str, list[float]]) -> None:
    """A bar for each round: ``=`` with, ``.`` without."""
    longest = max(max(times) for times in found.values())
    for turn, pair in enumerate(zip(found["with"], found["without"], strict=True), 1):
        for mark, seconds in zip("=.", pair, strict=True):
            print(f"{turn:3d} {mark * max(1, int(60 * seconds / longest))} {seconds:.3f} s")


def commit(spark: SparkSession, work: Path, given: argparse.Namespace, report: Report) -> None:
    """The commit of a transaction that has written, in blocks of both kinds by turns."""
    sides = [Side(spark, work, "commit-on", auto=True), Side(spark, work, "commit-off", auto=False)]
    for side in sides:
        side.acid.sql(
            "create table t (id int) stored as orc tblproperties ('transactional'='true')"
        )
        side.acid.sql("insert into t values (1)")
    taken: dict[str, list[float]] = {side.name: [] for side in sides}
    for _ in range(10):
        for side in sides:
            for _ in range(given.commits // 10):
                taken[side.name].append(_commit_s(side.acid))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    for name, median in medians.items():
        mean = statistics.mean(taken[name])
        print(f"{name}: median {1000 * median:.3f} ms, mean {1000 * mean:.3f} ms")
    for side in sides:
        side.acid.close()
    report.judge("commit on / off", medians["commit-on"] / medians["commit-off"], COMMIT_LIMIT)


def _commit_s(acid: Session) -> float:
    """Of a transaction with locks and a write id, the commit alone."""
    table = acid.client.metastore.get_table(TableName("default", "t"))
    with acid.client.transactions.begin() as txn:
        txn.lock(Footprint(writes=(TableWrite(table, WriteKind.INSERT, None),)))
        txn.write_id(table.name)
        return timed_s(txn.commit)


def beside(spark: SparkSession, work: Path, given: argparse.Namespace, report: Report) -> None:
    """A MERGE into one table alone, and while another table is being compacted all the time."""
    side = Side(spark, work, "beside", auto=True)
    rows, count = int(ROWS * given.scale), int(CHANGES * given.scale)
    for table in ("t", "other"):
        side.load(base_rows(spark, rows), table)
        side.acid.sql(f"alter table {table} set tblproperties ('no_auto_compaction'='true')")
    turns, deletes = itertools.count(1), itertools.count()

    def work_s() -> float:
        source = changes(spark, rows=rows, count=count, turn=next(turns))
        return timed_s(partial(merge, side, source))

    work_s()
    alone: list[float] = []
    together: list[float] = []
    for _ in range(given.times):
        alone.append(work_s())
        with _compacted(side, deletes):
            together.append(work_s())
    side.acid.close()
    print(f"alone {statistics.median(alone):.2f} s, beside {statistics.median(together):.2f} s")
    ratio = statistics.median(together) / statistics.median(alone)
    report.judge("statement beside a compaction / alone", ratio, BESIDE_LIMIT)


@contextmanager
def _compacted(side: Side, deletes: Iterator[int]) -> Iterator[None]:
    """Meanwhile the other table is being compacted in the background, all the time."""
    ended, begun = threading.Event(), threading.Event()

    def run() -> None:
        for turn in deletes:
            side.acid.table("other").delete_arrow(f"id = {2 * turn}")
            side.acid.table("other").compact("major")
            while any(one.state in _UNFINISHED for one in side.acid.compactions("other")):
                begun.set()
                if ended.wait(0.1):
                    return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    begun.wait()
    yield
    ended.set()
    thread.join()
    side.settle()


def b7(spark: SparkSession, work: Path, given: argparse.Namespace, report: Report) -> None:
    """A compaction and an UPDATE of the same rows at once, again and again."""
    side = Side(spark, work, "b7", auto=False)
    rows = int(ROWS * given.scale)
    side.load(base_rows(spark, rows))
    errors: list[str] = []
    for turn in range(given.times):
        side.acid.sql("delete from t where id = " + str(2 * turn))
        _, before = side.sums()
        steps: list[Callable[[], object]] = [
            lambda: side.acid.table("t").compact("major", wait=True),
            lambda: side.acid.sql("update t set a = a + 1 where k % 10 = 3"),
        ]
        threads = [threading.Thread(target=_kept, args=(step, errors)) for step in steps]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        changed = side.acid.sql("select count(*) from t where k % 10 = 3").collect()[0][0]
        count, after = side.sums()
        if after - before != changed or count != rows - turn - 1:
            errors.append(f"turn {turn}: {count} rows, sum {after} after {before} + {changed}")
    side.acid.close()
    report.figures["b7 errors"] = errors
    print(f"b7: {given.times} times both at once, {len(errors)} errors", *errors[:5], sep="\n  ")
    if errors:
        report.missed.append("b7")


def _kept(work: Callable[[], object], errors: list[str]) -> None:
    try:
        work()
    except Exception as error:
        errors.append(f"{type(error).__name__}: {error}")


PARTS: Final = {"rounds": rounds, "commit": commit, "beside": beside, "b7": b7}


def main() -> int:
    """Run the parts; 0 where all limits are met."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--scale", type=float, default=1.0)
    arguments.add_argument("--rounds", type=int, default=24)
    arguments.add_argument("--times", type=int, default=3, help="how often a figure is taken")
    arguments.add_argument("--commits", type=int, default=1000)
    arguments.add_argument("--only", choices=list(PARTS), action="append")
    arguments.add_argument("--work", type=Path, default=Path("bench-data") / "rounds")
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    spark = local_session(
        "hiveacid rounds",
        conf={
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": "4",
            "spark.driver.memory": "4g",
        },
    )
    report = Report()
    for name in given.only or PARTS:
        PARTS[name](spark, given.work.absolute(), given, report)
    if given.json:
        given.json.write_text(json.dumps(report.figures, indent=1))
    spark.stop()
    print(f"missed: {', '.join(report.missed) or 'nothing'}")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())

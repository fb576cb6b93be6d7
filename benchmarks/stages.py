"""What the workloads do, stage by stage: both sides interleaved, every result checked.

Rounds alternate which side goes first. Round 0 is the warm-up and is not kept; statements that
change a table are warmed up on a small table instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks.data import COLUMNS, Input
from benchmarks.meter import OTHER, OURS, Meter, WrongResultError
from benchmarks.sides import FlatOrc, HiveAcid, checksum, sums
from benchmarks.workloads import ALL_COLUMNS, COUNT, DELETE_KEYS, MERGE_CHANGES, Q1, QUERIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLEAN: Final = "clean"
_SMALL: Final = "id bigint, kind int, name string, amount double"
_ROWS_AN_INSERT: Final = 3
_MERGES: Final = 3
_FULL: Final = 2
"""SQLite waits at each commit until the disk has it"""


@dataclass(slots=True)
class Bench:
    """All that a stage needs."""

    spark: SparkSession
    ours: HiveAcid
    flat: FlatOrc
    made: Input
    meter: Meter
    rounds: int
    inserts: int
    loaded_clean: bool = False

    def lineitem(self) -> DataFrame:
        """The rows to load."""
        return self.spark.read.schema(COLUMNS).parquet(self.made.lineitem)

    def clean(self) -> None:
        """Both sides hold the table ``clean``, loaded and never changed, with the same rows."""
        if not self.loaded_clean:
            self.loaded_clean = True
            self.ours.create(CLEAN)
            self.flat.drop(CLEAN)
            self.ours.load(CLEAN, self.lineitem())
            self.flat.load(CLEAN, self.lineitem())
            equal("checksums", checksum(self.ours, CLEAN), checksum(self.flat, CLEAN))

    def load_ours(self, table: str, *, workload: str, side: str, kept: bool) -> None:
        """Measure one load of ours and check it."""
        self.ours.create(table)
        rows = self.made.loaded.rows
        loaded = self.meter.measure(
            workload, side, lambda: self.ours.load(table, self.lineitem()), rows=rows, kept=kept
        )
        equal("rows loaded", loaded, rows)
        equal("table loaded", sums(self.ours, table), self.made.loaded)


def warm_up(bench: Bench) -> None:
    """Every statement twice on a small table, so that no first use is measured."""
    table = "warm"
    for _ in range(2):
        bench.ours.create(table)
        bench.ours.load(table, bench.lineitem().where("l_orderkey < 20000"))
        bench.ours.run(MERGE_CHANGES, table)
        bench.ours.run(DELETE_KEYS, table)
        for text in (Q1, COUNT, ALL_COLUMNS):
            bench.ours.query(text, table).write.format("noop").mode("overwrite").save()
    bench.ours.drop(table)


def load(bench: Bench) -> None:
    """Load the same rows into an ACID table and into flat ORC."""
    rows = bench.made.loaded.rows

    def flat(kept: bool) -> None:
        bench.flat.drop("loaded")
        work = lambda: bench.flat.load("loaded", bench.lineitem())  # noqa: E731
        bench.meter.measure("load", OTHER, work, rows=rows, kept=kept)
        equal("flat table", sums(bench.flat, "loaded"), bench.made.loaded)
        bench.flat.drop("loaded")

    def ours(kept: bool) -> None:
        bench.load_ours("loaded", workload="load", side=OURS, kept=kept)
        bench.ours.drop("loaded")

    interleave(bench.rounds, ours, flat)


def scan(bench: Bench) -> None:
    """q1, all columns into the noop sink, count(*)."""
    bench.clean()
    rows = bench.made.loaded.rows

    def runner(side: HiveAcid | FlatOrc, name: str) -> Callable[[bool], None]:
        def run(kept: bool) -> None:
            for workload, text in (("q1", Q1), ("full", ALL_COLUMNS), ("count", COUNT)):
                work = _reading(side, text, noop if workload == "full" else collect)
                answer = bench.meter.measure(workload, name, work, rows=rows, kept=kept)
                if workload != "full":
                    equal(workload, answers.setdefault(workload, answer), answer)

        return run

    answers: dict[str, Any] = {}
    interleave(bench.rounds, runner(bench.ours, OURS), runner(bench.flat, OTHER))
    equal("count(*)", answers["count"], [(rows,)])


def delete(bench: Bench) -> None:
    """DELETE of scattered keys in a freshly loaded table; then q1 on it and on the clean one."""
    bench.clean()
    table, rows = "deleted", bench.made.deletes
    for _ in range(bench.rounds):
        bench.ours.create(table)
        bench.ours.load(table, bench.lineitem())
        result = bench.meter.measure(
            "delete", OURS, lambda: bench.ours.run(DELETE_KEYS, table), rows=rows
        )
        equal("rows deleted", result.rows, rows)
        equal("table after DELETE", sums(bench.ours, table), bench.made.deleted)

    dirty = _read_both(bench, bench.ours, table, OURS, "deleted", rows=bench.made.deleted.rows)
    clean = _read_both(bench, bench.ours, CLEAN, OTHER, "deleted", rows=bench.made.loaded.rows)
    interleave(bench.rounds, dirty, clean)
    bench.ours.drop(table)


def _read_both(
    bench: Bench, side: HiveAcid | FlatOrc, table: str, name: str, after: str, *, rows: int
) -> Callable[[bool], None]:
    """Measures q1 and a full scan of a table."""

    def run(kept: bool) -> None:
        for workload, text, sink in (("q1", Q1, collect), ("full", ALL_COLUMNS, noop)):
            work = partial(_read, side, text, table, sink)
            bench.meter.measure(f"{workload}_{after}", name, work, rows=rows, kept=kept)

    return run


def _read(
    side: HiveAcid | FlatOrc,
    text: str,
    table: str,
    sink: Callable[[DataFrame], list[tuple[Any, ...]]],
) -> list[tuple[Any, ...]]:
    return sink(side.query(text, table))


def merged(bench: Bench) -> None:
    """q1 and a full scan after three MERGEs of the same changes, and of flat ORC: a row of the
    table is stored as often as it was written.
    """
    bench.clean()
    table = "merged"
    bench.ours.create(table)
    bench.ours.load(table, bench.lineitem())
    for _ in range(_MERGES):
        bench.ours.run(MERGE_CHANGES, table)
    equal("table after the MERGEs", sums(bench.ours, table), bench.made.merged)
    stored = bench.made.loaded.rows + _MERGES * (bench.made.updates + bench.made.inserts)
    changed = _read_both(bench, bench.ours, table, OURS, "merged", rows=stored)
    flat = _read_both(bench, bench.flat, CLEAN, OTHER, "merged", rows=bench.made.loaded.rows)
    interleave(bench.rounds, changed, flat)
    bench.ours.drop(table)


def queries(bench: Bench) -> None:
    """TPC-H 3, 6, 14 and 18 over clean tables."""
    bench.clean()
    for name, path in bench.made.others.items():
        rows = bench.spark.read.parquet(path)
        fields = rows.schema.fields
        bench.ours.create(name, ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in fields))
        bench.ours.load(name, rows)
        bench.flat.drop(name)
        bench.flat.load(name, rows)
        bench.flat.name(name)
    answers: dict[str, Any] = {}

    def runner(side: HiveAcid | FlatOrc, name: str) -> Callable[[bool], None]:
        def run(kept: bool) -> None:
            for workload, text in QUERIES.items():
                work = partial(_read, side, text, CLEAN, collect)
                rows = bench.made.loaded.rows
                answer = bench.meter.measure(workload, name, work, rows=rows, kept=kept)
                equal(workload, answers.setdefault(workload, answer), answer)

        return run

    interleave(bench.rounds, runner(bench.ours, OURS), runner(bench.flat, OTHER))
    for name in bench.made.others:
        bench.ours.drop(name)


def merge(bench: Bench) -> None:
    """Load a table, MERGE the changes into it, compare the two times."""
    table = "merged"
    rows = bench.made.updates + bench.made.inserts
    for _ in range(bench.rounds):
        bench.load_ours(table, workload="merge", side=OTHER, kept=True)
        result = bench.meter.measure(
            "merge", OURS, lambda: bench.ours.run(MERGE_CHANGES, table), rows=rows
        )
        counts = (result.updated, result.inserted, result.deleted)
        equal("rows merged", counts, (bench.made.updates, bench.made.inserts, 0))
        equal("table after MERGE", sums(bench.ours, table), bench.made.merged)
    bench.ours.drop(table)


def insert(bench: Bench) -> None:
    """INSERT ... VALUES of three rows, many times; then a count right after the last."""
    equal("PRAGMA synchronous", bench.ours.synchronous(), _FULL)
    for turn in range(bench.rounds + 1):
        kept = turn > 0
        bench.ours.create("few", _SMALL)
        statements = bench.inserts if kept else min(10, bench.inserts)
        works = [_insert_of(bench, number) for number in range(statements)]
        bench.meter.measure_each("insert", works, rows=_ROWS_AN_INSERT, kept=kept)
        rows = statements * _ROWS_AN_INSERT
        counted = bench.meter.measure(
            "insert_count",
            OURS,
            lambda: collect(bench.ours.query(COUNT, "few")),
            rows=rows,
            kept=kept,
        )
        equal("rows after the INSERTs", counted, [(rows,)])
        total = collect(bench.ours.query("select sum(id), sum(amount) from {table}", "few"))
        equal("sums", total, [(rows * (rows - 1) // 2, rows * (rows - 1) / 4)])
    bench.ours.drop("few")


RUN: Final[dict[str, Callable[[Bench], None]]] = {
    "load": load,
    "scan": scan,
    "delete": delete,
    "merge": merge,
    "merged": merged,
    "queries": queries,
    "insert": insert,
}


def _insert_of(bench: Bench, number: int) -> Callable[[], object]:
    first = number * _ROWS_AN_INSERT
    values = ", ".join(
        f"({one}, {one % 7}, 'name {one}', {one / 2})"
        for one in range(first, first + _ROWS_AN_INSERT)
    )
    return lambda: bench.ours.run(f"insert into {{table}} values {values}", "few")


def interleave(rounds: int, *sides: Callable[[bool], object]) -> None:
    """A warm-up and ``rounds`` rounds; who goes first alternates."""
    for turn in range(rounds + 1):
        for side in sides if turn % 2 else reversed(sides):
            side(turn > 0)


def _reading(
    side: HiveAcid | FlatOrc, text: str, sink: Callable[[DataFrame], list[tuple[Any, ...]]]
) -> Callable[[], list[tuple[Any, ...]]]:
    return lambda: sink(side.query(text, CLEAN))


def collect(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows."""
    return [tuple(row) for row in frame.collect()]


def noop(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Every column of every row is made and thrown away."""
    frame.write.format("noop").mode("overwrite").save()
    return []


def equal(what: str, found: object, expected: object) -> None:
    """Raises WrongResultError where they are not."""
    if found != expected:
        raise WrongResultError(f"{what}: found {found}, expected {expected}")

"""Reading less: lookups, ranges, partitions, many deltas; and writing into many partitions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import hiveacid
from benchmarks.data import COLUMNS
from benchmarks.many_partitions import make_many_partitions
from benchmarks.meter import OTHER, OURS
from benchmarks.stages import CLEAN, Bench, collect, equal, interleave, noop
from benchmarks.workloads import Q1

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY: Final = 3_000_001
_RANGE: Final = "l_orderkey between 3000000 and 3006000"
_ALL: Final = "select * from {table}"
_PLACED: Final = "placed"
_DELTAS: Final = 50
_DYNAMIC: Final = 1_000
_PARTITIONS: Final = 10_000
_EARLY: Final = "l_year <= 1994"


def lookup(bench: Bench) -> None:
    """One key, a short range, some partitions; each against a scan of all of the same table."""
    bench.clean()
    _make_placed(bench)
    rows = bench.made.loaded.rows
    point = f"select * from {{table}} where l_orderkey = {KEY}"
    expected = collect(bench.ours.query(f"{point} and rand() >= 0", _PLACED))

    def full(workload: str, table: str) -> Callable[[bool], object]:
        work = lambda: noop(bench.ours.query(_ALL, table))  # noqa: E731
        return lambda kept: bench.meter.measure(workload, OTHER, work, rows=rows, kept=kept)

    def one_key(kept: bool) -> None:
        work = lambda: collect(bench.ours.query(point, _PLACED))  # noqa: E731
        found = bench.meter.measure("lookup", OURS, work, rows=len(expected), kept=kept)
        equal("rows of the key", sorted(found, key=str), sorted(expected, key=str))

    def some(kept: bool) -> None:
        text = f"{_ALL} where {_RANGE}"
        count = collect(bench.ours.query(f"select count(*) from {{table}} where {_RANGE}", CLEAN))
        work = lambda: noop(bench.ours.query(text, CLEAN))  # noqa: E731
        bench.meter.measure("range", OURS, work, rows=int(count[0][0]), kept=kept)

    def halves(kept: bool) -> None:
        def work() -> None:
            for condition in (_EARLY, f"not {_EARLY}"):
                noop(bench.ours.query(f"{_ALL} where {condition}", _PLACED))

        bench.meter.measure("partitions", OURS, work, rows=rows, kept=kept)

    def without_spark(kept: bool) -> None:
        handle = bench.ours.acid.table(_PLACED)
        work = lambda: hiveacid.read_arrow(  # noqa: E731
            handle, filter=f"l_orderkey = {KEY}"
        ).read_all()
        found = bench.meter.measure("arrow_key", OURS, work, rows=len(expected), kept=kept)
        equal("rows of the key without Spark", found.num_rows, len(expected))

    interleave(bench.rounds, one_key, full("lookup", _PLACED))
    interleave(bench.rounds, some, full("range", CLEAN))
    interleave(bench.rounds, halves, full("partitions", _PLACED))
    interleave(bench.rounds, without_spark)
    _update_one(bench)
    bench.ours.drop(_PLACED)


def _make_placed(bench: Bench) -> None:
    bench.ours.create(
        _PLACED, COLUMNS, "partitioned by (l_year int) clustered by (l_orderkey) into 8 buckets"
    )
    bench.ours.load(_PLACED, bench.lineitem().selectExpr("*", "year(l_shipdate) as l_year"))


def _update_one(bench: Bench) -> None:
    for turn in range(bench.rounds + 1):
        key = 32 * (turn * 3001 + 7)
        text = f"update {{table}} set l_linestatus = 'Y' where l_orderkey = {key}"
        work = partial(bench.ours.run, text, _PLACED)
        result = bench.meter.measure("update_one", OURS, work, rows=1, kept=turn > 0)
        changed = f"select count(*) from {{table}} where l_orderkey = {key} and l_linestatus = 'Y'"
        equal("rows updated", collect(bench.ours.query(changed, _PLACED)), [(result.rows,)])


def deltas(bench: Bench) -> None:
    """q1 over 50 deltas and 1 % deletes in all of them, and over the clean table."""
    bench.clean()
    table = "deltas"
    bench.ours.create(table)
    spread = "pmod(xxhash64(l_orderkey), {count}) = {number}"
    for number in range(_DELTAS):
        part = spread.format(count=_DELTAS, number=number)
        bench.ours.load(table, bench.lineitem().where(part).coalesce(1))
    bench.ours.run("delete from {table} where pmod(hash(l_orderkey, l_linenumber), 100) = 0", table)

    def runner(name: str, side: str) -> Callable[[bool], object]:
        work = lambda: collect(bench.ours.query(Q1, name))  # noqa: E731
        rows = bench.made.loaded.rows
        return lambda kept: bench.meter.measure("deltas", side, work, rows=rows, kept=kept)

    interleave(bench.rounds, runner(table, OURS), runner(CLEAN, OTHER))
    bench.ours.drop(table)


def dynamic(bench: Bench) -> None:
    """Write into 1,000 partitions, as Spark's own partitioned writer does."""
    table = "dynamic"
    rows = bench.made.loaded.rows
    directory = bench.flat.directory / table

    def source() -> DataFrame:
        return bench.lineitem().selectExpr("*", f"cast(l_suppkey % {_DYNAMIC} as int) as p")

    def flat(kept: bool) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        writer = source().write.option("compression", "zstd").partitionBy("p")
        work = lambda: writer.orc(str(directory))  # noqa: E731
        bench.meter.measure("dynamic", OTHER, work, rows=rows, kept=kept)

    def ours(kept: bool) -> None:
        bench.ours.create(table, COLUMNS, "partitioned by (p int)")
        work = lambda: bench.ours.load(table, source())  # noqa: E731
        equal("rows", bench.meter.measure("dynamic", OURS, work, rows=rows, kept=kept), rows)

    interleave(max(1, bench.rounds - 2), ours, flat)
    count = collect(bench.ours.query("select count(*), count(distinct p) from {table}", table))
    equal("rows written", count, [(rows, _DYNAMIC)])
    shutil.rmtree(directory, ignore_errors=True)
    bench.ours.drop(table)


def many(bench: Bench) -> None:
    """Plan a query over 10,000 partitions with 3 deltas each: over one of them, over all."""
    rows = make_many_partitions(bench.ours.acid, "many", partitions=_PARTITIONS)
    texts = {
        "plan_one": "select * from {table} where p = 77",
        "plan_all": "select count(*), sum(k) from {table}",
    }
    answers: dict[str, Any] = {}
    for turn in range(bench.rounds + 1):
        for workload, text in texts.items():
            work = partial(bench.ours.query, text, "many")
            answers[workload] = bench.meter.measure(
                workload, OURS, work, rows=_PARTITIONS, kept=turn > 0
            )
    equal("rows of one partition", answers["plan_one"].count(), rows // _PARTITIONS)
    equal("rows of all", collect(answers["plan_all"])[0][0], rows)
    bench.ours.drop("many")


RUN: Final[dict[str, Callable[[Bench], None]]] = {
    "lookup": lookup,
    "deltas": deltas,
    "dynamic": dynamic,
    "many": many,
}

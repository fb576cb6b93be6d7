"""The workloads through Spark: each runs for all systems, round after round.

So a noisy minute hits all alike. Counts and sums must be DuckDB's. A failure of a peer is noted,
and the others go on; a failure or a wrong result of ours fails the run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks.data import APPENDS, CHANGE_SETS, COLUMNS, OTHERS, SUMS, UPSERTS, Input
from benchmarks.meter import OFTEN_S, OURS, SELDOM_S, Figures, Meter
from benchmarks.systems import System

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL: Final = "id bigint, grp int, v string, amt double"
THREADS, UPDATES_PER_THREAD = 4, 10
LATER_S: Final = 1.5
"""An UPDATE begins so long after the compaction beside it."""
_BUCKETS: Final = "CLUSTERED BY (l_orderkey) INTO 8 BUCKETS"
"""As a Hive table would be of which single rows are looked up and changed."""
FULL: Final = "select * from {table}"
Q1: Final = """
select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
    sum(l_extendedprice * (1 - l_discount)),
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
    avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
from {table}
where l_shipdate <= date '1998-09-02'
group by l_returnflag, l_linestatus
order by l_returnflag, l_linestatus
"""
QUERIES: Final = {
    "q3": """
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) revenue, o_orderdate, o_shippriority
from {customer} join {orders} on c_custkey = o_custkey join {table} on l_orderkey = o_orderkey
where c_mktsegment = 'BUILDING' and o_orderdate < date '1995-03-15'
    and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate, o_shippriority
order by revenue desc, o_orderdate, l_orderkey limit 10
""",
    "q6": """
select sum(l_extendedprice * l_discount) from {table}
where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
    and l_discount between 0.05 and 0.07 and l_quantity < 24
""",
    "q14": """
select 100.00
    * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
    / sum(l_extendedprice * (1 - l_discount))
from {table} join {part} on l_partkey = p_partkey
where l_shipdate >= date '1995-09-01' and l_shipdate < date '1995-10-01'
""",
    "q18": """
select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
from {customer} join {orders} on c_custkey = o_custkey join {table} on o_orderkey = l_orderkey
where o_orderkey in
    (select l_orderkey from {table} group by l_orderkey having sum(l_quantity) > 300)
group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
order by o_totalprice desc, o_orderdate, o_orderkey limit 100
""",
}


@dataclass(slots=True)
class Bench:
    """What the workloads share: the systems, the input, what is loaded, the samples."""

    spark: SparkSession
    systems: list[System]
    data: Input
    figures: Figures
    meter: Meter
    rounds: int
    few: int
    loaded: set[tuple[str, str]] = field(default_factory=set)

    def able(self, *verbs: str) -> list[System]:
        """The systems that can do all of these."""
        return [system for system in self.systems if system.can.issuperset(verbs)]

    def rows(self) -> DataFrame:
        """Lineitem."""
        return self.spark.read.schema(COLUMNS).parquet(self.data.table())

    def set(self, name: str) -> DataFrame:
        """A set of changes."""
        path, columns = self.data.set(name)
        return self.spark.read.schema(columns).parquet(path)

    def load(self, system: System, table: str, buckets: str = "") -> None:
        """Lineitem into a new table."""
        system.create(table, COLUMNS, buckets)
        system.append(table, self.rows())
        self.loaded.add((system.name, table))

    def ensure(self, system: System, table: str, buckets: str = "") -> None:
        """Lineitem in a table, loaded once a run."""
        if (system.name, table) not in self.loaded:
            self.load(system, table, buckets)

    def measure(
        self, metric: str, system: System, work: Callable[[], Any], *, look_every_s: float = OFTEN_S
    ) -> Any:
        """Keep what ``work`` took."""
        answer, sample = self.meter.measure(work, look_every_s=look_every_s)
        self.figures.keep(metric, system.name, sample, told=look_every_s == OFTEN_S)
        return answer

    @contextmanager
    def guarded(self, system: System, what: str) -> Iterator[None]:
        """An error of a peer is noted; one of ours fails the run."""
        try:
            yield
        except Exception as error:  # a peer's may be anything
            self.failed(system, what, brief(error))

    def failed(self, system: System, what: str, why: str) -> None:
        """Note it."""
        self.figures.note(f"{what} failed", system.name, why)
        if system.name == OURS:
            self.figures.fail(f"{what}: {why}")

    def ask(self, system: System, table: str, kind: str) -> list[Any]:
        """The rows of a query; of ``full`` each column of each row is made and thrown away."""
        text = {"q1": Q1, "sums": SUMS, "full": FULL, "count": "select count(*) from {table}"}
        frame = system.query(QUERIES.get(kind) or text[kind], table)
        if kind == "full":  # Delta fails on Spark's `noop` where there are deletion vectors
            return [frame._jdf.queryExecution().toRdd().count()]
        return frame.collect()

    def check(self, workload: str, system: System, table: str) -> None:
        """Count and sums must be those of DuckDB."""
        with self.guarded(system, workload):
            (row,) = self.ask(system, table, "sums")
            found, expected = "/".join(map(str, row)), self.data.sums[workload]
            if found != expected:
                self.failed(system, workload, f"wrong result: {found}, not {expected}")

    def reads(self, workload: str, systems: list[System], table: str, *more: str) -> None:
        """Queries of a table; the first round warms up."""
        for turn in range(self.rounds + 1):
            for system in systems if turn % 2 else reversed(systems):
                with self.guarded(system, f"{workload} read"):
                    for kind in ("q1", "full", *more):
                        work = partial(self.ask, system, table, kind)
                        if turn:
                            self.measure(f"{workload}.{kind}", system, work)
                        else:
                            work()


def brief(error: BaseException) -> str:
    """An error in a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def load(bench: Bench) -> None:
    """Lineitem from Parquet; the first round warms up."""
    for turn in range(bench.rounds + 1):
        for system in bench.systems if turn % 2 else reversed(bench.systems):
            with bench.guarded(system, "load"):
                work = partial(bench.load, system, "clean")
                if turn:
                    bench.measure("load", system, work)
                else:
                    work()
    for system in bench.systems:
        bench.check("clean", system, "clean")
        with bench.guarded(system, "live bytes"):
            bench.figures.note("live bytes", system.name, f"{system.live_bytes('clean'):,}")


def clean(bench: Bench) -> None:
    """q1, all columns, count(*) of a table that never was changed."""
    for system in bench.systems:
        bench.ensure(system, "clean")
    bench.reads("clean", bench.systems, "clean", "count")


def upsert(bench: Bench) -> None:
    """Three MERGEs of a twelfth of the table, 70 % updates, 30 % inserts; then reads."""
    sets = [f"upsert_{n}" for n in range(1, UPSERTS + 1)]
    _merges(bench, "upsert", sets, lambda system: system.upsert)


def cdc(bench: Bench) -> None:
    """Two MERGEs of a sixth: 60 % inserts, 30 % updates, 10 % deletes; then reads."""
    sets = [f"changes_{n}" for n in range(1, CHANGE_SETS + 1)]
    _merges(bench, "cdc", sets, lambda system: system.apply)


def delete(bench: Bench) -> None:
    """A sixtieth of the rows, scattered; then reads."""
    for _ in range(bench.rounds):
        _merges(bench, "delete", ["delete_scattered"], lambda system: system.delete, read=False)
    systems = bench.able("merge")
    bench.reads("delete", systems, "delete")


def _merges(
    bench: Bench,
    workload: str,
    sets: list[str],
    verb: Callable[[System], Callable[[str, DataFrame], None]],
    *,
    read: bool = True,
) -> None:
    systems = bench.able("merge")
    for system in systems:
        with bench.guarded(system, f"{workload} load"):
            bench.load(system, workload)
    for name in sets:
        for system in systems:
            with bench.guarded(system, workload):
                work = partial(verb(system), workload, bench.set(name))
                bench.measure(workload, system, work)
    for system in systems:
        bench.check(workload, system, workload)
    if read:
        bench.reads(workload, systems, workload)
        for system in systems:
            system.drop(workload)


def queries(bench: Bench) -> None:
    """TPC-H 3, 6, 14 and 18 over clean tables."""
    for system in bench.systems:
        with bench.guarded(system, "queries load"):
            bench.ensure(system, "clean")
            for name in OTHERS:
                rows = bench.spark.read.parquet(bench.data.table(name))
                fields = rows.schema.fields
                columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in fields)
                system.create(name, columns)
                system.append(name, rows)
    answers: dict[str, list[Any]] = {}
    for turn in range(bench.rounds + 1):
        for system in bench.systems if turn % 2 else reversed(bench.systems):
            for name in QUERIES:
                with bench.guarded(system, name):
                    work = partial(bench.ask, system, "clean", name)
                    found = bench.measure(name, system, work) if turn else work()
                    if found != answers.setdefault(name, found):
                        bench.failed(system, name, "another answer than another system's")


def appends(bench: Bench) -> None:
    """Ten small appends, a delete of a hundredth, reads; compaction, reads."""
    systems = bench.able("compact", "merge")
    for system in systems:
        with bench.guarded(system, "appends"):
            bench.load(system, "appends")
            for n in range(APPENDS):
                work = partial(system.append, "appends", bench.set(f"append_{n}"))
                bench.measure("appends.append", system, work)
            keys = bench.set("delete_hundredth")
            bench.measure("appends.delete", system, partial(system.delete, "appends", keys))
        bench.check("appends", system, "appends")
    bench.reads("appends", systems, "appends")
    for system in systems:
        with bench.guarded(system, "compact"):
            bench.measure("appends.compact", system, partial(system.compact, "appends"))
        bench.check("appends", system, "appends")
    bench.reads("compacted", systems, "appends")


def beside(bench: Bench) -> None:
    """A compaction and an UPDATE of the same rows at once: both shall succeed."""
    for system in bench.able("compact", "concurrent"):
        with bench.guarded(system, "beside"):
            bench.load(system, "beside")
            system.delete("beside", bench.set("delete_hundredth"))
            other = threading.Thread(
                target=_kept, args=(bench, system, "compaction", partial(system.compact, "beside"))
            )
            other.start()
            time.sleep(LATER_S)
            where = "l_orderkey % 20011 = 32"
            update = partial(system.update, "beside", {"l_linestatus": "'X'"}, where)
            _kept(bench, system, "UPDATE", update)
            other.join()
            system.drop("beside")


def _kept(bench: Bench, system: System, what: str, work: Callable[[], object]) -> None:
    begin = time.perf_counter()
    with bench.guarded(system, f"{what} beside"):
        work()
        bench.figures.note(
            f"{what} beside", system.name, f"ok, {time.perf_counter() - begin:.1f} s"
        )


def few(bench: Bench) -> None:
    """One row at a time: INSERT into a small table; point reads, UPDATE, DELETE in the large."""
    for system in bench.systems:
        with bench.guarded(system, "few.insert"):
            system.create("few", SMALL)
            for n in range(bench.few + 1):
                row = (n, n % 7, f"v{n}", n / 2)
                _one(bench, "few.insert", system, partial(system.insert, "few", row), kept=n > 0)
    for system in bench.able("update", "concurrent"):
        with bench.guarded(system, "few"):
            bench.ensure(system, "big", _BUCKETS)
            for n in range(bench.few + 1):
                key = 32 * (n * 31 + 7)
                point = f"select * from {{table}} where l_orderkey = {key}"
                read = partial(_rows, system, point)
                _one(bench, "few.point", system, read, kept=n > 0)
            for n in range(max(bench.few // 10, 3) + 1):
                where = f"l_orderkey = {32 * (n * 3001 + 7)}"
                change = partial(system.update, "big", {"l_linestatus": "'Y'"}, where)
                _one(bench, "few.update", system, change, kept=n > 0)
                changed = f"select count(*) from {{table}} where {where} and l_linestatus <> 'Y'"
                if _rows(system, changed)[0][0]:
                    bench.failed(system, "few.update", "rows are not changed")
                remove = partial(system.delete_where, "big", where)
                _one(bench, "few.delete", system, remove, kept=n > 0)
                if _rows(system, f"select * from {{table}} where {where}"):
                    bench.failed(system, "few.delete", "rows are still there")


def _rows(system: System, text: str) -> list[Any]:
    return system.query(text, "big").collect()


def _one(
    bench: Bench, metric: str, system: System, work: Callable[[], object], *, kept: bool
) -> None:
    if kept:
        bench.measure(metric, system, work, look_every_s=SELDOM_S)
    else:
        work()


def threads(bench: Bench) -> None:
    """Four threads update rows of their own in one table, without a retry."""
    for system in bench.able("concurrent"):
        for layout in ("one file", "file per thread"):
            with bench.guarded(system, layout):
                _at_once(bench, system, layout)


def _at_once(bench: Bench, system: System, layout: str) -> None:
    system.create("threads", SMALL)
    rows = bench.spark.range(1000 * THREADS).selectExpr(
        "id", "cast(id div 1000 as int) grp", "concat('v', id) v", "cast(0 as double) amt"
    )
    parts = [rows] if layout == "one file" else [rows.where(f"grp={n}") for n in range(THREADS)]
    for part in parts:
        system.append("threads", part.coalesce(1))
    start = threading.Barrier(THREADS + 1)
    ends: list[bool] = []

    def run(thread: int) -> None:
        start.wait()
        ends.extend(updated(thread * 1000 + n * 7) for n in range(UPDATES_PER_THREAD))

    def updated(key: int) -> bool:
        try:
            system.update("threads", {"amt": "amt + 1"}, f"id = {key}")
        except Exception:  # lost to another thread; a peer's error may be anything
            return False
        return True

    works = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
    for work in works:
        work.start()
    start.wait()
    begin = time.perf_counter()
    for work in works:
        work.join()
    commits, aborts = ends.count(True), ends.count(False)
    wall_s = time.perf_counter() - begin
    told = f"{commits} commits, {aborts} aborts, {wall_s:.1f} s"
    bench.figures.note(f"4 threads, {layout}", system.name, told)
    count = system.query("select count(*), sum(amt) from {table}", "threads").collect()[0]
    lost = commits - count[1]
    if count[0] != 1000 * THREADS or lost or (system.name == OURS and aborts):
        bench.failed(system, layout, f"{count[0]} rows, {lost:g} updates lost, {aborts} aborts")


WORKLOADS: Final[dict[str, Callable[[Bench], None]]] = {
    "load": load,
    "clean": clean,
    "upsert": upsert,
    "cdc": cdc,
    "delete": delete,
    "queries": queries,
    "appends": appends,
    "beside": beside,
    "few": few,
    "threads": threads,
}

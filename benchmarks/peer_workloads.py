"""The workloads of ``make bench-peers``: each runs for all systems, round after round.

So a noisy minute hits all alike. A failure of one system is a sample of its own, ``..._error``, and
the others go on. Figures are wall seconds and, with ``_cpu_s``, CPU seconds of the driver, the JVM
and the Python workers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.data import COLUMNS
from benchmarks.peer_data import APPENDS, CHANGE_SETS, UPSERTS, PeerInput
from benchmarks.peer_systems import System
from benchmarks.processes import cpu_s

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = "id bigint, grp int, v string, amt double"
THREADS, UPDATES_PER_THREAD = 4, 10
LATER_S = 1.5
"""An UPDATE begins so long after the compaction beside it."""
Q1 = """
select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
    sum(l_extendedprice * (1 - l_discount)),
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
    avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
from {rows} where l_shipdate <= date'1998-09-02' group by 1, 2 order by 1, 2
"""
SUMS = "select count(*), sum(l_quantity), sum(l_extendedprice) from {rows}"


@dataclass(frozen=True, slots=True)
class Options:
    """How much of it."""

    rounds: int
    inserts: int
    updates: int


class Bench:
    """What the workloads share: the systems, the input, what is loaded, the samples."""

    def __init__(
        self,
        spark: SparkSession,
        systems: list[System],
        data: PeerInput,
        record: Callable[[str, str, str, float | str], None],
        options: Options,
    ) -> None:
        self.spark, self.systems, self.options = spark, systems, options
        self._data, self._record, self._loaded = data, record, set[tuple[str, str]]()

    def able(self, *verbs: str) -> list[System]:
        """The systems that can do all of these."""
        return [system for system in self.systems if system.can.issuperset(verbs)]

    def rows(self) -> DataFrame:
        """Lineitem."""
        return self.spark.read.schema(COLUMNS).parquet(str(self._data.lineitem))

    def set(self, name: str) -> DataFrame:
        """A set of changes."""
        path, columns = self._data.set(name)
        return self.spark.read.schema(columns).parquet(path)

    def load(self, system: System, table: str) -> None:
        """Lineitem into a new table."""
        system.create(table, COLUMNS)
        system.append(table, self.rows())
        self._loaded.add((system.name, table))

    def ensure(self, system: System, table: str) -> None:
        """Lineitem in a table, loaded once a run."""
        if (system.name, table) not in self._loaded:
            self.load(system, table)

    def say(self, workload: str, system: System, metric: str, value: float | str) -> None:
        """Keep a sample."""
        self._record(workload, system.name, metric, value)

    def measure(
        self,
        workload: str,
        system: System,
        metric: str,
        work: Callable[..., object],
        *arguments: object,
    ) -> None:
        """Keep the wall and CPU seconds of ``work`` as ``metric_s`` and ``metric_cpu_s``."""
        cpu, begin = cpu_s(), time.perf_counter()
        work(*arguments)
        wall = time.perf_counter() - begin
        self.say(workload, system, f"{metric}_s", wall)
        self.say(workload, system, f"{metric}_cpu_s", cpu_s() - cpu)

    @contextmanager
    def guarded(self, workload: str, system: System, what: str) -> Iterator[None]:
        """An error becomes a sample."""
        try:
            yield
        except Exception as error:  # a peer's may be anything
            self.say(workload, system, f"{what}_error", brief(error))

    def query(self, system: System, table: str, kind: str) -> list[Any]:
        """A query of the rows of now: ``q1``, ``sums``, or ``full``, each column of each row."""
        frame = system.read(table)
        if kind == "full":  # Delta fails on Spark's `noop` where there are deletion vectors
            return [frame._jdf.queryExecution().toRdd().count()]
        view = f"rows_{system.name}"
        frame.createOrReplaceTempView(view)
        return self.spark.sql({"q1": Q1, "sums": SUMS}[kind].format(rows=view)).collect()

    def check(self, workload: str, system: System, table: str) -> None:
        """Keep count and sums, which all systems have to agree on."""
        (found,) = self.query(system, table, "sums")
        self.say(workload, system, "check", "/".join(map(str, found)))

    def reads(self, workload: str, systems: list[System], table: str, suffix: str) -> None:
        """Queries of a changed table and of one that never was; the first round warms up."""
        for round_ in range(self.options.rounds + 1):
            for system in systems:
                self.ensure(system, "clean")
                with self.guarded(workload, system, "read"):
                    for kind in ("q1", "full"):
                        for of, name in ((table, suffix), ("clean", "clean")):
                            if round_:
                                metric = f"{kind}_{name}"
                                self.measure(workload, system, metric, self.query, system, of, kind)
                            else:
                                self.query(system, of, kind)


def brief(error: BaseException) -> str:
    """An error in a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def load(bench: Bench) -> None:
    """B1: lineitem from Parquet."""
    for _ in range(min(2, bench.options.rounds)):
        for system in bench.systems:
            with bench.guarded("B1", system, "load"):
                bench.measure("B1", system, "load", bench.load, system, "clean")
    for system in bench.systems:
        bench.say("B1", system, "live_bytes", system.live_bytes("clean"))
        bench.check("B1", system, "clean")


def upserts(bench: Bench) -> None:
    """B3: three MERGEs of a twelfth of the table, 70 % updates, 30 % inserts."""
    _merges(bench, "B3", "upsert", UPSERTS, lambda system: system.upsert)


def changes(bench: Bench) -> None:
    """B4: two MERGEs of a sixth: 60 % inserts, 30 % updates, 10 % deletes."""
    _merges(bench, "B4", "changes", CHANGE_SETS, lambda system: system.apply)


def _merges(
    bench: Bench,
    workload: str,
    sets: str,
    count: int,
    verb: Callable[[System], Callable[[str, DataFrame], None]],
) -> None:
    table = workload.lower()
    systems = bench.able("merge")
    for system in systems:
        bench.load(system, table)
    for n in range(1, count + 1):
        for system in systems:
            with bench.guarded(workload, system, f"merge{n}"):
                source = bench.set(f"{sets}_{n}")
                bench.measure(workload, system, "merge", verb(system), table, source)
    bench.reads(workload, systems, table, "after")
    for system in systems:
        bench.check(workload, system, table)
        bench.say(workload, system, "live_bytes", system.live_bytes(table))
        system.drop(table)


def deletes(bench: Bench) -> None:
    """B5: a sixtieth of the rows, scattered; then reads."""
    systems = bench.able("merge")
    for _ in range(2 if bench.options.rounds >= 3 else 1):
        for system in systems:
            with bench.guarded("B5", system, "delete"):
                bench.load(system, "b5")
                keys = bench.set("delete_scattered")
                bench.measure("B5", system, "delete", system.delete, "b5", keys)
    bench.reads("B5", systems, "b5", "dirty")
    for system in systems:
        bench.check("B5", system, "b5")


def reads(bench: Bench) -> None:
    """B6: reads after ten small appends and a delete of a hundredth."""
    systems = bench.able("merge")
    for system in systems:
        with bench.guarded("B6", system, "prepare"):
            _with_deltas(bench, system)
    bench.reads("B6", systems, "b6", "dirty")
    for system in systems:
        bench.check("B6", system, "b6")


def _with_deltas(bench: Bench, system: System) -> None:
    bench.load(system, "b6")
    for n in range(APPENDS):
        rows = bench.set(f"append_{n}")
        bench.measure("B6", system, "append", system.append, "b6", rows)
    keys = bench.set("delete_hundredth")
    bench.measure("B6", system, "delete", system.delete, "b6", keys)


def compaction(bench: Bench) -> None:
    """B7: of the table of B6; then one beside an UPDATE of its rows."""
    systems = bench.able("compact", "merge")
    for system in systems:
        with bench.guarded("B7", system, "compact"):
            _with_deltas(bench, system)
            bench.measure("B7", system, "compact", system.compact, "b6")
            bench.say("B7", system, "live_bytes", system.live_bytes("b6"))
    bench.reads("B7", systems, "b6", "after_compact")
    for system in systems:
        if "concurrent" in system.can:
            with bench.guarded("B7", system, "both"):
                _compaction_and_update(bench, system)


def _compaction_and_update(bench: Bench, system: System) -> None:
    bench.load(system, "b7")
    system.delete("b7", bench.set("delete_hundredth"))
    ends: dict[str, str] = {}

    def kept(what: str, work: Callable[[], object]) -> None:
        begin = time.perf_counter()
        try:
            work()
            end = "ok"
        except Exception as error:  # a peer's may be anything
            end = f"FAILED {brief(error)}"
        ends[what] = f"{end} {time.perf_counter() - begin:.1f} s"

    other = threading.Thread(target=kept, args=("compact", lambda: system.compact("b7")))
    other.start()
    time.sleep(LATER_S)
    where = "l_orderkey % 20011 = 32"
    kept("update", lambda: system.update("b7", {"l_linestatus": "'X'"}, where))
    other.join()
    for what, end in ends.items():
        bench.say("B7", system, f"concurrent_{what}", end)
    system.drop("b7")


def small(bench: Bench) -> None:
    """B8: INSERTs of a row, UPDATEs of a row, one after the other; UPDATEs of a row of lineitem."""
    inserts, updates = bench.options.inserts, bench.options.updates
    for system in bench.systems:
        system.create("b8", SMALL)
        system.insert("b8", (-1, 0, "w", 0.0))
    for begin in range(0, inserts, max(1, inserts // 4)):
        for system in bench.systems:
            with bench.guarded("B8", system, "insert"):
                for n in range(begin, min(inserts, begin + max(1, inserts // 4))):
                    row = (n, n % 7, f"v{n}", n / 2)
                    bench.measure("B8", system, "insert", system.insert, "b8", row)
    systems = bench.able("update", "concurrent")
    for n in range(updates):
        for system in systems:
            with bench.guarded("B8", system, "update"):
                values, where = {"amt": "amt + 1000"}, f"id = {n}"
                bench.measure("B8", system, "update", system.update, "b8", values, where)
    for system in systems:
        (found,) = system.read("b8").selectExpr("count(*)", "sum(amt)").collect()
        bench.say("B8", system, "check", f"{found[0]}/{found[1]}")
        with bench.guarded("B8", system, "update_big"):
            bench.ensure(system, "b8big")
            for n in range(5):
                where = f"l_orderkey = {32 * (n * 3001 + 7)}"
                metric, values = "update_one_row_of_big", {"l_linestatus": "'Y'"}
                bench.measure("B8", system, metric, system.update, "b8big", values, where)


def concurrency(bench: Bench) -> None:
    """B9: four threads update rows of their own in one table, without a retry."""
    for system in bench.able("concurrent"):
        for layout in ("one_file", "file_per_thread"):
            with bench.guarded("B9", system, layout):
                _at_once(bench, system, layout)


def _at_once(bench: Bench, system: System, layout: str) -> None:
    system.create("b9", SMALL)
    rows = bench.spark.range(1000 * THREADS).selectExpr(
        "id", "cast(id div 1000 as int) grp", "concat('v', id) v", "cast(0 as double) amt"
    )
    parts = [rows] if layout == "one_file" else [rows.where(f"grp={n}") for n in range(THREADS)]
    for part in parts:
        system.append("b9", part.coalesce(1))
    start = threading.Barrier(THREADS + 1)
    ends: list[bool] = []

    def run(thread: int) -> None:
        start.wait()
        ends.extend(updated(thread * 1000 + n * 7) for n in range(UPDATES_PER_THREAD))

    def updated(key: int) -> bool:
        try:
            system.update("b9", {"amt": "amt + 1"}, f"id = {key}")
        except Exception:  # lost to another thread; a peer's error may be anything
            return False
        return True

    threads = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    start.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    prefix = f"{layout}_noretry"
    bench.say("B9", system, f"{prefix}_wall_s", time.perf_counter() - begin)
    bench.say("B9", system, f"{prefix}_commits", ends.count(True))
    bench.say("B9", system, f"{prefix}_aborts", ends.count(False))
    (found,) = system.read("b9").selectExpr("count(*)", "sum(amt)").collect()
    lost = ends.count(True) - found[1]
    if found[0] != 1000 * THREADS or lost:
        bench.say("B9", system, f"{prefix}_error", f"{found[0]} rows, {lost:g} updates lost")


WORKLOADS: dict[str, Callable[[Bench], None]] = {
    "B1": load,
    "B3": upserts,
    "B4": changes,
    "B5": deletes,
    "B6": reads,
    "B7": compaction,
    "B8": small,
    "B9": concurrency,
}

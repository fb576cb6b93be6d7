"""Transactions a second, without Spark: ``make bench-txn`` (`--only sqlite`, `--part snapshot`).

A cycle is what every write does: open a transaction, allocate a write id, commit, each a durable
commit of the database (so at most a third of the bare fsyncs). Clients are processes. Settings:
SQLite in WAL mode with synchronous=FULL; PostgreSQL as it comes, synchronous_commit=on, started
from pip or named by HIVEACID_TEST_POSTGRES.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from hiveacid.clock import SystemClock
from hiveacid.metastore.connect import SqlMetastore, connect
from hiveacid.metastore.sql.schema import TXN_TO_WRITE_ID, TXNS
from hiveacid.model.tables import TableName

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.postgres import postgres_server

TABLES = tuple(TableName("default", f"t{n}") for n in range(3))


def _cycle(metastore: SqlMetastore, table: TableName) -> None:
    (txn,) = metastore.open_txns(1, user="u", host="h")
    metastore.allocate_write_ids([txn], table)
    metastore.commit_txn(txn)


def _client(url: str, at: int, seconds: float, same: bool, ready: Any, counts: Any) -> None:
    with connect(url, clock=SystemClock()) as metastore:
        table = TABLES[0] if same else TableName("default", f"own{at}")
        _cycle(metastore, table)
        ready.wait()
        until, done = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            _cycle(metastore, table)
            done += 1
    counts.put(done)


def cycles_a_second(url: str, *, clients: int, seconds: float, same: bool) -> float:
    """Of all clients together, on one table or each on its own."""
    context = multiprocessing.get_context("spawn")
    ready, counts = context.Barrier(clients), context.Queue()
    processes = [
        context.Process(target=_client, args=(url, at, seconds, same, ready, counts))
        for at in range(clients)
    ]
    for one in processes:
        one.start()
    done = sum(counts.get(timeout=seconds + 120) for _ in processes)
    for one in processes:
        one.join()
    return float(done / seconds)


def fill_uncommitted(metastore: SqlMetastore, count: int) -> None:
    """Half open, half aborted transactions, each with a write id of one of three tables."""
    for start in range(0, count, 1000):
        txns = metastore.open_txns(min(1000, count - start), user="u", host="h")
        for at, table in enumerate(TABLES):
            metastore.allocate_write_ids(txns[at::3], table)
        metastore.abort_txns(txns[::2])


def fill_committed(metastore: SqlMetastore, count: int) -> None:
    """Committed transactions of long ago, straight into the tables."""
    name = TABLES[0]
    txn, write_id = (list(one) for one in ((), ()))
    with metastore.database.schema_change() as unit:
        first = unit.dialect.next_txn_id(unit.channel)
        for start in range(first, first + count, 10_000):
            ids = range(start, min(start + 10_000, first + count))
            txn = [
                {
                    "TXN_ID": one,
                    "TXN_STATE": "c",
                    "TXN_STARTED": 1,
                    "TXN_LAST_HEARTBEAT": 1,
                    "TXN_USER": "u",
                    "TXN_HOST": "h",
                    "TXN_TYPE": 0,
                }
                for one in ids
            ]
            write_id = [
                {
                    "T2W_TXNID": one,
                    "T2W_DATABASE": name.database,
                    "T2W_TABLE": name.table,
                    "T2W_WRITEID": 1_000_000 + one,
                }
                for one in ids
            ]
            unit.connection.execute(insert(TXNS), txn)
            unit.connection.execute(insert(TXN_TO_WRITE_ID), write_id)
        unit.dialect.set_next_txn_id(unit.channel, first + count)
    metastore.seed_write_id(name, 1_000_000 + first + count)


def median_s(work: Callable[[], object], *, times: int) -> float:
    """Median duration of ``work``."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return statistics.median(found)


def _interleaved(
    one: Callable[[], object], other: Callable[[], object], *, times: int
) -> tuple[float, float]:
    """Median durations of two, measured in turns: both meet the same load of the machine."""
    found = [(median_s(one, times=1), median_s(other, times=1)) for _ in range(times)]
    return statistics.median(a for a, _ in found), statistics.median(b for _, b in found)


def _snapshot(metastore: SqlMetastore) -> None:
    metastore.valid_write_ids(TABLES, metastore.valid_txns())


def _syncs_a_second(directory: str) -> float:
    """What the disk gives: small appends, each followed by fsync."""
    with tempfile.NamedTemporaryFile(dir=directory) as file:

        def append() -> None:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())

        return 1 / median_s(append, times=200)


def _line(what: str, figure: float, unit: str, wanted: str) -> None:
    print(f"{what:<68} {figure:>9.1f} {unit:<6} {wanted}", flush=True)


_PARTS = ("cycles", "snapshot", "committed")


def measure(name: str, new: Callable[[], str], chosen: argparse.Namespace) -> None:
    """The chosen figures of one kind of database; ``new`` gives the URL of a new metastore."""
    if "cycles" in chosen.part:
        _measure_cycles(name, new, chosen.seconds)
    if "snapshot" in chosen.part:
        _measure_snapshot(name, new())
    if "committed" in chosen.part:
        _measure_committed(name, new, chosen.committed)


def _measure_cycles(name: str, new: Callable[[], str], seconds: float) -> None:
    floors = {"sqlite": {1: ">= 600", 8: ">= 400"}, "postgres": {8: ">= 300"}}[name]
    for clients, same in ((1, True), (8, True), (8, False)):
        figure = cycles_a_second(new(), clients=clients, seconds=seconds, same=same)
        where = "one table" if same else "own tables"
        what = f"{name}: open + write id + commit, {clients} client(s), {where}"
        _line(what, figure, "/s", floors.get(clients, ""))


def _measure_snapshot(name: str, url: str) -> None:
    with connect(url, clock=SystemClock()) as metastore:
        fill_uncommitted(metastore, 10_000)
        took_ms = 1000 * median_s(lambda: _snapshot(metastore), times=15)
        _line(f"{name}: snapshot of 3 tables, 10,000 open or aborted", took_ms, "ms", "< 20")


def _measure_committed(name: str, new: Callable[[], str], committed: int) -> None:
    url = new()
    with (
        connect(new(), clock=SystemClock()) as empty,
        connect(url, clock=SystemClock()) as metastore,
    ):
        fill_committed(metastore, committed)
        empty_s, full_s = _interleaved(
            lambda: _cycle(empty, TABLES[1]), lambda: _cycle(metastore, TABLES[1]), times=300
        )
        what = f"{name}: cycle with {committed:,} committed, against empty"
        _line(what, full_s / empty_s, "x", "<= 1.2")
        started = time.perf_counter()
        longest = _housekeeping_beside(url, metastore)
        _line(f"{name}: housekeeping of them", time.perf_counter() - started, "s", "")
        _line(f"{name}: longest cycle beside it", longest * 1000, "ms", "")
        left = len(metastore.database.table_rows("TXNS"))
        _line(f"{name}: transactions left", left, "", "")


def _housekeep(url: str) -> None:
    with connect(url, clock=SystemClock()) as metastore:
        metastore.run_housekeeping(interval_s=0)


def _housekeeping_beside(url: str, metastore: SqlMetastore) -> float:
    """Longest cycle while another process does the housekeeping."""
    process = multiprocessing.get_context("spawn").Process(target=_housekeep, args=(url,))
    process.start()
    longest = 0.0
    while process.is_alive():
        started = time.perf_counter()
        _cycle(metastore, TABLES[1])
        longest = max(longest, time.perf_counter() - started)
    return longest


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--committed", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path, help="where the SQLite files go")
    parser.add_argument("--part", choices=_PARTS, nargs="+", default=_PARTS)
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} cores")
    if chosen.only != "postgres":
        with tempfile.TemporaryDirectory(dir=chosen.dir) as directory:
            load = os.getloadavg()[0]
            print(f"{_syncs_a_second(directory):.0f} bare fsyncs a second; load average {load:.1f}")
            numbers = iter(range(100))
            measure("sqlite", lambda: f"sqlite:///{directory}/{next(numbers)}.db", chosen)
    if chosen.only != "sqlite":
        with postgres_server() as server:
            measure("postgres", server.metastore, chosen)


if __name__ == "__main__":
    main()

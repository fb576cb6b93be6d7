"""Streams: ``make bench-stream`` (`BENCH='--part commits visible'`).

Without Spark: rows and one-row writes a second of one writer, commits a second of eight processes,
and when an independent process reads what was committed. With it (``micro_batches.py``): micro-
batches that are appended and upserted, where ``make bench-peers`` has made the peers' environment
beside Iceberg, too (``--beside iceberg_v3 orc``). Each line has the figure, its goal, whether it is
met, and CPU seconds, which count on a machine that does other things too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import queue
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import hiveacid
from benchmarks import peers
from hiveacid import read_arrow
from hiveacid.session import Session

_COLUMNS: Final = "id bigint, name string, amount double, day date, kind int"
_ACID: Final = "stored as orc tblproperties ('transactional'='true')"
_WRITERS: Final = 8


def open_session(url: str) -> Session:
    """A session that compacts nothing."""
    return hiveacid.connect(None, url, settings={"hiveacid.compactor.auto": "off"})


def make_table(directory: str) -> str:
    """A metastore with the table ``events``; its URL."""
    url = f"sqlite:///{directory}/metastore.db"
    with hiveacid.connect(None, url, warehouse=f"{directory}/warehouse") as acid:
        acid.sql(f"create table events ({_COLUMNS}) {_ACID}")
    return url


def rows(first: int, count: int) -> pa.Table:
    """Five columns."""
    ids = np.arange(first, first + count)
    return pa.table(
        {
            "id": ids,
            "name": pa.array(np.char.add("name ", (ids % 1000).astype(str))),
            "amount": ids * 0.25,
            "day": pa.array((ids % 365).astype(np.int32), pa.date32()),
            "kind": (ids % 7).astype(np.int32),
        }
    )


class _Told:
    """Prints the lines and keeps whether all goals are met."""

    def __init__(self) -> None:
        self.all_met = True

    def line(
        self, what: str, figure: float, unit: str, *, at_least: float = 0, below: float = 0
    ) -> None:
        """A figure, with its goal where it has one."""
        goal = f">= {at_least:,.0f}" if at_least else f"< {below:g}" if below else ""
        met = figure >= at_least and (not below or figure < below)
        self.all_met &= met
        verdict = ("met" if met else "MISSED") if goal else ""
        print(f"{what:<58} {figure:>12,.2f} {unit:<10} {goal:<12} {verdict}", flush=True)


def _measured(work: Callable[[], int]) -> tuple[float, float]:
    """What was done, a second of time and a second of CPU."""
    cpu, begin = time.process_time(), time.perf_counter()
    done = work()
    return done / (time.perf_counter() - begin), done / (time.process_time() - cpu)


def bulk(url: str, told: _Told) -> None:
    """Arrow batches of 50,000 rows, two a transaction."""
    batch = rows(0, 50_000)
    with open_session(url) as acid, acid.stream("events") as stream:

        def write(transactions: int) -> int:
            for _ in range(transactions):
                with stream.transaction():
                    stream.write(batch)
                    stream.write(batch)
            return transactions * 2 * int(batch.num_rows)

        write(2)
        a_second, a_cpu_second = _measured(lambda: write(20))
    told.line("rows, one writer, Arrow batches of 5 columns", a_second, "/s", at_least=200_000)
    told.line("the same, by CPU", a_cpu_second, "/CPU s")


def single(url: str, told: _Told) -> None:
    """One row a write, 100 a transaction."""
    row = {"id": 1, "name": "ann", "amount": 0.5, "day": "2026-11-22", "kind": 3}
    with open_session(url) as acid, acid.stream("events", transactions_per_batch=100) as stream:

        def write(transactions: int) -> int:
            for _ in range(transactions):
                with stream.transaction():
                    for _ in range(100):
                        stream.write(row)
            return transactions * 100

        write(10)
        a_second, a_cpu_second = _measured(lambda: write(300))
    told.line("one-row writes, 100 a transaction", a_second, "/s", at_least=5_000)
    told.line("the same, by CPU", a_cpu_second, "/CPU s")


def _commit(url: str, seconds: float, ready: Any, counts: Any) -> None:
    batch = rows(0, 10)
    with open_session(url) as acid, acid.stream("events", transactions_per_batch=100) as stream:

        def write(until: float) -> int:
            done = 0
            while time.monotonic() < until:
                with stream.transaction():
                    stream.write(batch)
                done += 1
            return done

        write(time.monotonic() + 1)
        ready.wait()
        cpu = time.process_time()
        done = write(time.monotonic() + seconds)
        counts.put((done, time.process_time() - cpu))


def commits(url: str, told: _Told, *, seconds: float) -> None:
    """Ten rows a transaction, a process each."""
    context = multiprocessing.get_context("spawn")
    ready, counts = context.Barrier(_WRITERS), context.Queue()
    processes = [
        context.Process(target=_commit, args=(url, seconds, ready, counts)) for _ in range(_WRITERS)
    ]
    for one in processes:
        one.start()
    found = [counts.get(timeout=seconds + 120) for _ in processes]
    for one in processes:
        one.join()
    done = sum(count for count, _ in found)
    told.line(f"commits, {_WRITERS} writers on SQLite", done / seconds, "/s", at_least=400)
    told.line("the same, CPU of one", 1000 * sum(cpu for _, cpu in found) / done, "CPU ms")


def _commit_often(url: str, seconds: float, ready: Any, told: Any) -> None:
    with open_session(url) as acid, acid.stream("events", transactions_per_batch=100) as stream:
        ready.wait()
        found: dict[int, float] = {}
        until, number = time.monotonic() + seconds, 1_000_000_000
        while time.monotonic() < until:
            with stream.transaction():
                stream.write(rows(number, 1))
            found[number] = time.monotonic()
            number += 1
            time.sleep(0.05)
        told.put(found)


def visible(url: str, told: _Told, *, seconds: float) -> None:
    """From the end of a commit to the end of the first read that has it."""
    context = multiprocessing.get_context("spawn")
    ready, answers = context.Barrier(2), context.Queue()
    process = context.Process(target=_commit_often, args=(url, seconds, ready, answers))
    process.start()
    seen: dict[int, float] = {}
    committed: dict[int, float] = {}
    with open_session(url) as acid:
        ready.wait()
        while not committed:  # the last look begins after the last commit
            with suppress(queue.Empty):
                committed = answers.get_nowait()
            found = read_arrow(acid.table("events"), columns=["id"], filter="id >= 1000000000")
            ids = found.read_all()["id"].to_pylist()
            now = time.monotonic()
            for one in ids:
                seen.setdefault(one, now)
    process.join()
    lost = committed.keys() - seen.keys()
    assert not lost, f"{len(lost)} commits were never read"
    waits = np.array([max(0.0, seen[one] - at) for one, at in committed.items()])
    p95 = float(np.percentile(waits, 95))
    told.line(f"commit to visible, p95 of {len(waits)}", p95, "s", below=1)


PARTS: Final = ("bulk", "single", "commits", "visible", "append", "sink", "upsert")


def main() -> int:
    """Measure and print; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, nargs="+", default=PARTS)
    parser.add_argument("--seconds", type=float, default=60, help="of micro-batches")
    parser.add_argument("--beside", nargs="+", default=[], help="other systems, for micro-batches")
    parser.add_argument("--dir", type=Path, help="where the files go")
    chosen = parser.parse_args()
    if not peers.is_here() and any(one != "orc" for one in chosen.beside):
        return peers.run("benchmarks.streaming")
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    told = _Told()
    works: dict[str, Callable[[str], None]] = {
        "bulk": lambda url: bulk(url, told),
        "single": lambda url: single(url, told),
        "commits": lambda url: commits(url, told, seconds=10),
        "visible": lambda url: visible(url, told, seconds=15),
    }
    for part in chosen.part:
        with tempfile.TemporaryDirectory(dir=chosen.dir) as directory:
            if part in works:
                works[part](make_table(directory))
            else:
                from benchmarks.micro_batches import micro_batches

                micro_batches(
                    directory, part, beside=chosen.beside, seconds=chosen.seconds, line=told.line
                )
    return 0 if told.all_met else 1


if __name__ == "__main__":
    sys.exit(main())

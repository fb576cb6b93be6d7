"""``python -m tests.soak.latency``: what a server far away costs: 30 ms are added to each request.

One-row INSERTs, scans of a hundred files, and plans of 10,000 partitions, on a server of S3 in
memory, each in a process of its own; beside each the same without the 30 ms. Not a test: figures
depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from tests.s3_memory import Memory, memory_server

import hiveacid
from hiveacid.model.tables import Partition
from hiveacid.session import Session

_LATENCY_S: Final = 0.03
_INSERTS: Final = 20
_FILES: Final = 100
_PARTITIONS: Final = 10_000
_ROWS: Final = {"64 KB": 5_000, "1 MB": 80_000, "4 MB": 320_000}
_ACID: Final = "stored as orc tblproperties ('transactional'='true')"


def insert(acid: Session) -> dict[str, Any]:
    """Seconds of one-row INSERTs after the first."""
    taken = []
    for n in range(_INSERTS + 1):
        began = time.perf_counter()
        acid.sql(f"insert into one values ({n}, 'x')")
        taken.append(time.perf_counter() - began)
    return {"p50_s": statistics.median(taken[1:])}


def scan(acid: Session, table: str) -> dict[str, Any]:
    """Seconds of reading a table whole, after its snapshot was read once."""
    began, cpu = time.perf_counter(), time.process_time()
    rows = sum(batch.num_rows for batch in hiveacid.read_arrow(acid.table(table)))
    took = time.perf_counter() - began
    return {"s": took, "cpu_s": time.process_time() - cpu, "rows": rows}


def plan(acid: Session) -> dict[str, Any]:
    """Seconds until it is known that no stripe of any partition can hold a row."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu = time.perf_counter(), time.process_time()
    rows = hiveacid.read_arrow(acid.table("many"), filter="id > 1000000").read_all().num_rows
    assert rows == 0
    took = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"s": took, "cpu_s": time.process_time() - cpu, "more_mib": (peak - before) / 1024}


STEPS: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "insert": insert,
    "scan": scan,
    "plan": plan,
}


def filled(acid: Session, server: Memory) -> None:
    """Tables of many files, by copies of one."""
    acid.sql(f"create table one (id int, v string) {_ACID}")
    random = np.random.default_rng(1)
    for size, count in _ROWS.items():
        name = f"scan_{size.replace(' ', '').lower()}"
        acid.sql(f"create table {name} (a bigint, b bigint) partitioned by (p int) {_ACID}")
        values = {column: random.integers(0, 2**48, count) for column in "ab"}
        rows = pa.table({**values, "p": pa.array(np.zeros(count), pa.int32())})
        acid.table(name).write_arrow(rows)
        copied(acid, server, name, _FILES)
    acid.sql(f"create table many (id bigint) partitioned by (p int) {_ACID}")
    acid.sql("insert into many values (1, 0)")
    copied(acid, server, "many", _PARTITIONS)


def copied(acid: Session, server: Memory, table: str, count: int) -> None:
    """Partition 0 becomes so many."""
    root = acid.table(table).definition.location
    files = {path: data for path, data in server.objects.items() if f"/{table}/p=0/" in path}
    for n in range(1, count):
        for path, data in files.items():
            server.objects[path.replace("/p=0/", f"/p={n}/")] = data
    parts = [Partition((str(n),), f"{root}/p={n}") for n in range(1, count)]
    acid.client.metastore.add_partitions(acid.table_name(table), parts)


def measured(server: Memory, url: str, latency_s: float, *words: str) -> dict[str, Any]:
    """What a process of its own says, and what the server counted."""
    server.reset()
    server.latency_s = latency_s
    command = [sys.executable, "-m", "tests.soak.latency", "--client", url, server.endpoint, *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    server.latency_s = 0
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "asked": dict(server.asked), "at once": server.most}


def _client(url: str, endpoint: str, step: str, *more: str) -> None:
    settings = {**Memory(endpoint).settings, "hiveacid.compactor.auto": "off"}
    with hiveacid.connect(None, url, settings=settings) as acid:
        list(hiveacid.read_arrow(acid.table("one")))  # the libraries are there
        print(json.dumps(STEPS[step](acid, *more)))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--client", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="+", help="of insert, scan, plan")
    given = parser.parse_args()
    if given.client:
        _client(*given.client)
        return
    wanted = [("insert",), *(("scan", f"scan_{size.replace(' ', '').lower()}") for size in _ROWS)]
    with memory_server() as server, tempfile.TemporaryDirectory() as scratch:
        url = f"sqlite:///{Path(scratch)}/metastore.db"
        settings = {**server.settings, "hiveacid.compactor.auto": "off"}
        with hiveacid.connect(None, url, warehouse="s3://b/wh", settings=settings) as acid:
            filled(acid, server)
        for words in (*wanted, ("plan",)):
            if not given.only or words[0] in given.only:
                for latency_s in (0.0, _LATENCY_S):
                    found = measured(server, url, latency_s, *words)
                    said = {k: round(v, 3) if isinstance(v, float) else v for k, v in found.items()}
                    print(f"{' '.join(words):<16} {latency_s * 1000:3.0f} ms  {said}", flush=True)


if __name__ == "__main__":
    main()

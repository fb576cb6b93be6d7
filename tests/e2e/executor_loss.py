"""A program on ``local-cluster[2,1,1024]`` in which executors are killed while they write.

Its argument is a directory; it prints one JSON object, what each statement came to.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import hiveacid
from hiveacid.session import Session

WHERE = Path(sys.argv[1])
ROWS = 2000


def parent(pid: int) -> int:
    """0 where the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def my_executor() -> int:
    """In a Python worker: the JVM above it and its daemon."""
    pid = os.getpid()
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = parent(pid)
    return pid


def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as they are, in pieces; says where it runs."""
    for batch in batches:
        mark = WHERE / f"runs-{my_executor()}"
        for at in range(0, batch.num_rows, 100):
            yield batch.slice(at, 100)
            mark.touch()
            time.sleep(0.2)


def deadly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first task kills its executor, whenever it runs, after some rows."""
    for batch in batches:
        yield batch.slice(0, 100)
        if batch.column(0)[0].as_py() == 0:
            os.kill(my_executor(), signal.SIGKILL)
        yield batch.slice(100)


def kill_one(jvm: int) -> tuple[threading.Thread, list[int]]:
    """Kills the first executor that says it runs, once it does; who does it, and what it killed."""
    killed: list[int] = []

    def run() -> None:
        until = time.monotonic() + 240
        while not killed and time.monotonic() < until:
            time.sleep(0.05)
            for mark in WHERE.glob("runs-*"):
                pid = int(mark.name.partition("-")[2])
                if parent(pid) == jvm:
                    time.sleep(0.5)
                    killed.append(pid)
                    os.kill(pid, signal.SIGKILL)
                    return

    thread = threading.Thread(target=run)
    thread.start()
    return thread, killed


def outcome(statement: Callable[[], Any], jvm: int, *, kill: bool) -> dict[str, object]:
    for mark in WHERE.glob("runs-*"):
        mark.unlink()
    killer, killed = kill_one(jvm) if kill else (None, [])
    cause = None
    try:
        found = str(statement())
    except Exception as error:  # the program tells what it was
        found, cause = f"{type(error).__name__}: {error}", str(error.__cause__)[:300]
    if killer is not None:
        killer.join()
    return {"result": found, "cause": cause, "killed": len(killed)}


def state(acid: Session) -> dict[str, object]:
    table = acid.table("t")
    rows = hiveacid.read_arrow(table, row_ids=True).read_all()
    ids = [tuple(one.values()) for one in rows.column("row__id").to_pylist()]
    return {
        "rows": sorted(rows.column("id").to_pylist()),
        "distinct_ids": len(set(ids)),
        "by_spark": acid.sql("select count(*), sum(id) from t").collect()[0][1],
        "staging": [p.name for p in (WHERE / "wh/t").glob("_hiveacid_staging*")],
        "deltas": sorted(p.name for p in (WHERE / "wh/t").glob("delta_*")),
        "locks": len(acid.client.metastore.show_locks()),
    }


def use_own_spark_home() -> None:
    """The executors of ``local-cluster`` work below SPARK_HOME: not in PySpark's own package."""
    home = WHERE / "spark_home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)


def main() -> None:
    use_own_spark_home()
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.task.maxFailures", "2")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(WHERE / "spark"))
        .config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        .config("spark.executor.extraJavaOptions", os.environ.get("SPARK_SUBMIT_OPTS", ""))
        .getOrCreate()
    )
    jvm = next(
        int(one.name)
        for one in Path("/proc").iterdir()
        if one.name.isdigit() and parent(int(one.name)) == os.getpid() and is_java(one)
    )
    numbers = spark.range(0, ROWS, 1, 2).select(F.col("id").cast("int").alias("id"))
    found: dict[str, object] = {}
    url, warehouse = f"sqlite:///{WHERE}/m.db", str(WHERE / "wh")
    with hiveacid.connect(spark, url, warehouse=warehouse) as acid:
        acid.sql("create table t (id int) stored as orc tblproperties ('transactional'='true')")
        insert = outcome(
            lambda: acid.table("t").insert(numbers.mapInArrow(slow, "id int")), jvm, kill=True
        )
        found["insert"] = {**insert, **state(acid)}
        source = numbers.mapInArrow(slow, "id int")
        merge = (
            acid.table("t")
            .merge(source, on="t.id = s.id")
            .when_matched_update({"id": "s.id + 10000"})
        )
        found["merge"] = {**outcome(merge.run, jvm, kill=True), **state(acid)}
        fails = outcome(
            lambda: acid.table("t").insert(numbers.mapInArrow(deadly, "id int")), jvm, kill=False
        )
        found["fails"] = {**fails, **state(acid)}
        acid.sql("insert into t values (-1)")
        found["after"] = state(acid)
        spark.stop()
        found["stopped"] = outcome(lambda: acid.table("t").update({"id": 1}), jvm, kill=False)
        acid.sql("insert into t values (-2)")
        found["tables"] = acid.sql("show tables").rows
    print(json.dumps(found))


def is_java(process: Path) -> bool:
    return b"java" in (process / "cmdline").read_bytes().split(b"\0")[0]


if __name__ == "__main__":
    main()

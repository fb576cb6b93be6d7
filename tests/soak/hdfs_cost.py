"""``python -m tests.soak.hdfs_cost``: what HDFS costs beside a local disk: load, MERGE, a full scan
and TPC-H's q1 of rows like lineitem's, through Spark, each in turn on both, in one session.

CPU seconds of the driver, its JVM and the workers, medians; those of the servers are told apart.
Not a test: figures depend on the machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.processes import cpu_s
from tests.hdfs import hdfs_server

import hiveacid
from hiveacid.spark.workers import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.session import Session

_ACID: Final = "stored as orc tblproperties ('transactional'='true')"
_ROWS: Final = 6_000_000
"""at scale 1"""
_COLUMNS: Final = """
    id bigint, part bigint, supplier bigint, quantity decimal(12,2), price decimal(12,2),
    discount decimal(12,2), tax decimal(12,2), flag string, status string, shipped date, text string
"""
_GENERATED: Final = """
    id, pmod(hash(id, 1), 200000) * 1L part, pmod(hash(id, 2), 10000) * 1L supplier,
    cast(pmod(hash(id, 3), 50) as decimal(12,2)) quantity,
    cast(pmod(hash(id, 4), 9000000) / 100 as decimal(12,2)) price,
    cast(pmod(hash(id, 5), 11) / 100 as decimal(12,2)) discount,
    cast(pmod(hash(id, 6), 9) / 100 as decimal(12,2)) tax,
    substr('ANR', 1 + pmod(hash(id, 7), 3), 1) flag, substr('OF', 1 + id % 2, 1) status,
    date_add(date'1992-01-02', pmod(hash(id, 8), 2526)) shipped, hex(hash(id, 9)) text
"""
_Q1: Final = """
    select flag, status, sum(quantity), sum(price), sum(price * (1 - discount)),
        sum(price * (1 - discount) * (1 + tax)), avg(quantity), avg(price), avg(discount), count(*)
    from t where shipped <= date'1998-09-02' group by flag, status order by flag, status
"""


def _server_cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _work(acid: Session, spark: SparkSession, scratch: Path, step: str) -> None:
    match step:
        case "load":
            acid.sql("drop table if exists t")
            acid.sql(f"create table t ({_COLUMNS}) {_ACID}")
            acid.table("t").insert(spark.read.parquet(f"{scratch}/rows"))
        case "merge":
            acid.table("t").merge(
                spark.read.parquet(f"{scratch}/changes"), on="id"
            ).when_matched_update_all().when_not_matched_insert_all().run()
        case "scan":
            acid.sql("select * from t").write.format("noop").mode("overwrite").save()
        case _:
            acid.sql(_Q1).collect()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--scale", type=float, default=0.1, help="of 6 million rows")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rows = int(_ROWS * given.scale)
    with tempfile.TemporaryDirectory() as directory, hdfs_server() as address:
        scratch = Path(directory)
        conf = {"spark.master": "local[2]", "spark.driver.memory": "2g"}
        spark = local_session("HDFS beside a disk", conf=conf)
        spark.range(rows).selectExpr(*_split(_GENERATED)).write.parquet(f"{scratch}/rows")
        some = spark.range(0, rows + rows // 40, 20)
        some.selectExpr(*_split(_GENERATED)).write.parquet(f"{scratch}/changes")
        off = {"hiveacid.compactor.auto": "off"}
        places = {
            place: hiveacid.connect(
                spark, f"sqlite:///{scratch}/{place}.db", warehouse=root, settings=off
            )
            for place, root in (("disk", f"{scratch}/wh"), ("hdfs", f"{address}/wh"))
        }
        taken: dict[tuple[str, str], list[float]] = defaultdict(list)
        served = _server_cpu_s(address.process.pid)
        for turn in range(given.rounds + 1):
            for step in ("load", "scan", "q1", "merge", "q1 merged"):
                for place, acid in places.items():
                    server = _server_cpu_s(address.process.pid)
                    began = cpu_s()
                    _work(acid, spark, scratch, step)
                    server = _server_cpu_s(address.process.pid) - server
                    if turn:  # the first is to warm up
                        taken[step, place].append(cpu_s() - began - server)
        for step in ("load", "scan", "q1", "merge", "q1 merged"):
            disk, hdfs = (statistics.median(taken[step, place]) for place in places)
            print(f"{step:<10} disk {disk:6.2f}  HDFS {hdfs:6.2f}  {hdfs / disk:.2f} x", flush=True)
        print(f"the servers {_server_cpu_s(address.process.pid) - served:.1f}")
        for acid in places.values():
            acid.close()
        spark.stop()


def _split(text: str) -> list[str]:
    """Expressions of a list, by the commas outside of parentheses."""
    found, depth = [""], 0
    for char in text:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and not depth:
            found.append("")
        else:
            found[-1] += char
    return [one.strip() for one in found]


if __name__ == "__main__":
    main()

"""A program on a cluster, or on Spark Connect, whose workers run another Python.

    cluster.py DIRECTORY MASTER PYTHON...

prints one JSON object: for each Python what statements came to. MASTER ``connect`` starts a Connect
server with workers of its own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import hiveacid
from hiveacid.session import Session

WHERE = Path(sys.argv[1])
CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m",
    "spark.cores.max": "1",
    "spark.sql.warehouse.dir": str(WHERE / "spark"),
}


def session(master: str) -> SparkSession:
    if master == "connect":
        builder = SparkSession.builder.remote("local[1]")
    else:
        builder = SparkSession.builder.master(master)
    for name, value in CONF.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def statements(acid: Session, spark: SparkSession) -> dict[str, Any]:
    acid.sql(
        "create table t (id int, name string) clustered by (id) into 2 buckets stored as orc "
        "tblproperties ('transactional'='true')"
    )
    rows = spark.range(6).selectExpr("cast(id as int) as id", "cast(id as string) as name")
    found: dict[str, Any] = {"insert": acid.table("t").insert(rows).rows}
    acid.sql("delete from t where id = 1")
    found["update"] = acid.sql("update t set name = 'x' where id = 2").rows
    acid.sql("alter table t compact 'major' and wait")
    found["rows"] = sorted(tuple(row) for row in acid.sql("select * from t").collect())
    return found


def outcome(python: str, spark: SparkSession) -> dict[str, Any]:
    place = WHERE / Path(python).parents[1].name
    settings = {"hiveacid.reads.local_bytes": "0", "hiveacid.compactor.spark_bytes": "0"}
    with hiveacid.connect(
        spark, f"sqlite:///{place}.db", warehouse=f"{place}.wh", settings=settings
    ) as acid:
        try:
            return statements(acid, spark)
        except Exception as error:  # the program tells what it was
            notes = getattr(error, "__notes__", [])
            return {"error": type(error).__name__, "text": str(error), "notes": notes}


def main() -> None:
    found: dict[str, Any] = {}
    for python in sys.argv[3:]:
        os.environ["PYSPARK_PYTHON"] = python
        spark = session(sys.argv[2])
        found[python] = outcome(python, spark)
        spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()

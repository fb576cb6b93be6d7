"""A virtual environment that is used without being activated: ``python3`` is another one's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

STREAM = """
import sys
import hiveacid
from pyspark.sql import SparkSession

where = sys.argv[1]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
acid = hiveacid.enable(spark, f"sqlite:///{where}/m.db", warehouse=f"{where}/wh")
spark.sql("create table emp (id bigint) using hiveacid")
spark.range(3).write.mode("overwrite").json(f"{where}/in")
rows = spark.readStream.schema("id bigint").json(f"{where}/in")
writer = rows.writeStream.format("hiveacid").option("checkpointLocation", f"{where}/at")
writer.trigger(availableNow=True).option("table", "emp").start().awaitTermination()
named = {"table": "emp", "metastore": f"sqlite:///{where}/m.db"}
again = rows.writeStream.format("hiveacid").option("checkpointLocation", f"{where}/again")
again.trigger(availableNow=True).options(**named).start().awaitTermination()
print(spark.read.format("hiveacid").options(**named).load().count())
spark.range(1).write.format("hiveacid").options(**named).mode("append").save()
print(sorted(row.id for row in spark.table("emp").collect()))
"""


@pytest.mark.long("connectors", "spark")
@pytest.mark.jvm
@pytest.mark.skipif(
    pyspark.__version__.startswith("3."), reason="PySpark 3.5 has no data sources in Python"
)
def test_an_enabled_session_streams_by_its_own_interpreter(tmp_path: Path) -> None:
    foreign = tmp_path / "bin" / "python3"
    foreign.parent.mkdir()
    foreign.write_text("#!/bin/sh\nexit 1\n")
    foreign.chmod(0o755)
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYSPARK_")}
    environment = {**kept, "PATH": f"{foreign.parent}:{kept['PATH']}", "TZ": "UTC"}
    command = [sys.executable, "-c", STREAM, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip().splitlines() == ["6", "[0, 0, 0, 1, 1, 2, 2]"], done.stderr[-3000:]

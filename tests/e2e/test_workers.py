"""Spark's Python workers find hiveacid, whichever ``python3`` stands first in PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, hiveacid
from pyspark.sql import SparkSession
where = sys.argv[1]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
with hiveacid.connect(spark, f"sqlite:///{where}/m.db", warehouse=f"{where}/w") as acid:
    acid.sql("create table t (id int) stored as orc tblproperties ('transactional'='true')")
    print(acid.table("t").insert(spark.range(3).selectExpr("cast(id as int) as id")))
"""


@pytest.mark.java
@pytest.mark.long("spark", "session")
def test_a_program_run_by_a_python_outside_path_writes_rows(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYSPARK_PYTHON"}
    environment["PATH"] = os.pathsep.join(
        part
        for part in environment["PATH"].split(os.pathsep)
        if Path(part).resolve() != Path(sys.executable).parent.resolve()
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert "InsertResult(rows=3, write_id=1)" in done.stdout, done.stderr[-2000:]

"""The main statements over Spark Connect: tests of this directory once more, in a process of their
own whose session is a remote one.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from tests.connect import OVER_CONNECT, VARIABLE

HERE = Path(__file__).parent
FILES = ("test_statements.py", "test_views.py", "test_transactions.py", "test_interrupts.py")
ROOMS = ("spark", "statements", "session", "sql", "connectors")


@pytest.mark.java
@pytest.mark.timeout(1800)
@pytest.mark.skipif(OVER_CONNECT, reason="these tests are run over Spark Connect already")
@pytest.mark.skipif(
    pyspark.__version__.startswith("3."),
    reason="before Spark 4 the Connect server is a package that PySpark does not bring",
)
@pytest.mark.skipif(
    importlib.util.find_spec("grpc_status") is None,
    reason="Spark Connect needs grpcio-status: pip install 'hiveacid[connect]'",
)
@pytest.mark.long(*ROOMS)
def test_statements_over_spark_connect() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *(str(HERE / name) for name in FILES)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, VARIABLE: "1"},
    )
    assert run.returncode == 0, run.stdout[-5000:]
    passed = int(run.stdout.rpartition(" passed")[0].split()[-1])
    assert passed >= 30, run.stdout[-500:]

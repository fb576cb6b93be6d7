"""A Spark session on this machine, as the command line, the demo and the tests start it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hiveacid.errors import SparkNeededError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local_session(app: str, *, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark in UTC, without web page and progress bar; ``conf`` comes on top.

    The process takes UTC too, so a library has no business here, only a program.

    Raises:
        SparkNeededError: PySpark or pandas is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkNeededError(
            "This needs PySpark, which is not installed", note="pip install 'hiveacid[spark]'"
        ) from error
    os.environ["TZ"] = "UTC"
    time.tzset()
    # with which Spark looks for data sources in Python, this package's among them
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(conf or {}),
    }
    builder = SparkSession.builder.appName(app)
    for name, text in settings.items():
        builder = builder.config(name, text)
    session = builder.getOrCreate()
    prepare(session)
    session.sparkContext.setLogLevel("ERROR")
    return session


def prepare(spark: SparkSession) -> None:
    """Let the Python workers of a local session run this interpreter, in which hiveacid is.

    Spark takes the first ``python3`` in PATH, which is another one where a virtual environment is
    used without being activated. Nothing is changed where the user chose a Python, on a cluster, or
    on Spark Connect.

    Raises:
        SparkNeededError: pandas is missing, without which Spark hands no rows to Python.
    """
    if importlib.util.find_spec("pandas") is None:
        raise SparkNeededError(
            "Spark needs pandas to hand rows to Python, and it is not installed",
            note="pip install 'hiveacid[spark]'",
        )
    if is_local(spark) and chosen_python(spark) is None:
        spark.sparkContext.pythonExec = sys.executable


def chosen_python(spark: SparkSession) -> str | None:
    """The Python that the user chose for the workers, None where Spark's default counts."""
    chosen = os.environ.get("PYSPARK_PYTHON") or spark.conf.get("spark.pyspark.python", None)
    return None if chosen is None else shutil.which(chosen) or chosen


def is_local(spark: SparkSession) -> bool:
    """Whether the tasks of a session are run on this machine; of Spark Connect nobody knows."""
    from pyspark.errors import PySparkException

    try:
        return (spark.sparkContext.master or "").startswith("local")
    except PySparkException:
        return False

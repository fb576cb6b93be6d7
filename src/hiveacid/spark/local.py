"""A Spark session on this machine, as the command line, the demo and the tests start it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hiveacid.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local_session(app: str, *, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark in UTC, without web page and progress bar; ``conf`` comes on top.

    The process takes UTC too, and Spark's Python workers run this Python unless PYSPARK_PYTHON says
    otherwise: both hold for the whole process, so a library has no business here, only a program.

    Raises:
        InvalidInputError: PySpark is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InvalidInputError(
            "This needs PySpark, which is not installed", note="pip install 'hiveacid[spark]'"
        ) from error
    os.environ["TZ"] = "UTC"
    time.tzset()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
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
    session.sparkContext.setLogLevel("ERROR")
    return session

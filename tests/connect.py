"""Tests over Spark Connect: with HIVEACID_TEST_CONNECT=1 the session is a remote one."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "HIVEACID_TEST_CONNECT"
OVER_CONNECT = os.environ.get(VARIABLE) == "1"


def connect_session(master: str, *, conf: Mapping[str, str]) -> SparkSession:
    """A session on a Connect server that PySpark starts from its own package; the server gets its
    settings when it starts, and what it says when it gets them again is not heard.
    """
    from pyspark.sql import SparkSession

    # the server's Python workers; its default is the first python3 in PATH
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.remote(master)
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
        "spark.ui.enabled": "false",
        **conf,
    }
    for name, text in settings.items():
        builder = builder.config(name, text)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Failed to set", UserWarning)
        return builder.getOrCreate()


def arrow_of(frame: Any) -> pa.Table:
    """The rows of a DataFrame as Arrow has them, of any Spark and over Connect."""
    if frame.sparkSession.version.startswith("3."):  # has no ``toArrow``
        from pyspark.sql.pandas.types import to_arrow_schema

        batches = frame._collect_as_arrow()  # none where there is no row
        return pa.Table.from_batches(batches, None if batches else to_arrow_schema(frame.schema))
    found: pa.Table = frame.toArrow()
    return found

"""Statements that run for a while, and waiting for what they do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def slow_rows(
    spark: SparkSession, where: Path, *, sleep_s: float, rows: int = 4, tasks: int = 2
) -> DataFrame:
    """Rows ``id int``; each task makes a file ``started-<first id>`` in ``where`` and sleeps."""
    place = str(where)

    def sleeping(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            Path(place, f"started-{batch.column(0)[0]}").touch()
            time.sleep(sleep_s)
            yield pa.RecordBatch.from_arrays([batch.column(0).cast(pa.int32())], names=["id"])

    return spark.range(0, rows, 1, tasks).mapInArrow(sleeping, "id int")


def jobs_begun(spark: SparkSession) -> int:
    """How many jobs Spark has begun, by its scheduler: what listens to it comes late, and forgets.

    A test may look behind the gateway.
    """
    context = spark.sparkContext._jsc.sc()  # type: ignore[attr-defined, union-attr]
    return int(context.dagScheduler().numTotalJobs())


def wait_for(happened: Callable[[], bool], *, seconds: float = 300) -> None:
    """Returns when it has happened.

    Raises:
        TimeoutError: it has not.
    """
    until = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > until:
            raise TimeoutError("what a test waits for did not happen")
        time.sleep(0.05)

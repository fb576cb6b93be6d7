"""Ctrl-C while Spark works for us."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBERS = itertools.count()


@contextmanager
def jobs_end_with(spark: SparkSession) -> Iterator[None]:
    """Ctrl-C in the block ends the Spark jobs that it started, too.

    PySpark's own handler wants to, but cannot while its thread waits for an answer: the call that
    would do it is refused as reentrant. The client of Spark Connect can.
    """
    from pyspark.errors import PySparkException

    try:
        context = spark.sparkContext
    except PySparkException:
        yield
        return
    tag = f"hiveacid-{os.getpid()}-{next(_NUMBERS)}"
    context.addJobTag(tag)
    try:
        yield
    except KeyboardInterrupt:
        context.cancelJobsWithTag(tag)
        raise
    finally:
        context.removeJobTag(tag)

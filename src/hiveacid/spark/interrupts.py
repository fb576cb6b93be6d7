"""Ctrl-C while Spark works for us."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBERS = itertools.count()


@contextmanager
def jobs_end_with(spark: SparkSession) -> Iterator[None]:
    """Ctrl-C in the block is a KeyboardInterrupt, and ends the Spark jobs that it started.

    PySpark's own handler wants to end them, but cannot while its thread waits for an answer: the
    call that would do it is refused as reentrant, and up to PySpark 4.1 it is that error of py4j's
    which is raised. The client of Spark Connect can.
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
        with _ending_in_an_interrupt():
            yield
    except KeyboardInterrupt:
        context.cancelJobsWithTag(tag)
        raise
    finally:
        context.removeJobTag(tag)


@contextmanager
def _ending_in_an_interrupt() -> Iterator[None]:
    """What PySpark's handler does, its error included, which closes the connection with the answer
    that nobody will read; and then KeyboardInterrupt, as since PySpark 4.2.
    """
    theirs = signal.getsignal(signal.SIGINT)
    if (
        not callable(theirs)
        or not str(theirs.__module__).startswith("pyspark.")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def handler(number: int, frame: FrameType | None) -> NoReturn:
        try:
            theirs(number, frame)
        finally:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, theirs)

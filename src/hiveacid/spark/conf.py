"""Session settings that a statement of ours needs for a moment, put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session_conf(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Sets ``values`` in the session's configuration for the length of a block.

    A name that this version of Spark does not know does no harm.
    """
    before: dict[str, str | None] = {}
    for name, value in values.items():
        old = spark.conf.get(name, None)
        if old == value:
            continue
        before[name] = old
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def is_ansi(spark: SparkSession) -> bool:
    """Whether Spark's casts and arithmetic raise errors (Spark 4's default) instead of giving
    NULL.
    """
    # with a default given, an unset name would answer that default, not Spark's
    return spark.conf.get("spark.sql.ansi.enabled") == "true"

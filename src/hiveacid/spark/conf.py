"""The session's configuration: what a statement needs for a moment, and what is asked of it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UTC = frozenset({"UTC", "Z", "GMT", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu"})
_JVM_ZONES: weakref.WeakKeyDictionary[SparkSession, str] = weakref.WeakKeyDictionary()


def is_utc(spark: SparkSession) -> bool:
    """Whether the session's time zone and the JVM's are UTC; asks the JVM by a query, once.

    ORC's Java library takes a wall clock for one of the JVM's time zone, Spark shows it in the
    session's. Where both are UTC nothing is lost on the way; elsewhere some wall clocks do not
    exist or stand for two times, and those of before 1900 depend on the library.
    """
    if spark.conf.get("spark.sql.session.timeZone") not in _UTC:
        return False
    if spark not in _JVM_ZONES:
        zone = "java_method('java.time.ZoneId', 'systemDefault')"
        _JVM_ZONES[spark] = spark.sql(f"select {zone}").collect()[0][0]
    return _JVM_ZONES[spark] in _UTC


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

"""Whether times are read and written in UTC.

ORC's Java library takes a wall clock for one of the JVM's time zone, Spark shows it in the
session's. Where both are UTC nothing is lost on the way; elsewhere some wall clocks do not exist
or stand for two times, and those of before 1900 depend on the library.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UTC = frozenset({"UTC", "Z", "GMT", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu"})


def is_utc(spark: SparkSession) -> bool:
    """Whether the session's time zone and the JVM's are UTC; asks the JVM by a query, once."""
    if spark.conf.get("spark.sql.session.timeZone") not in _UTC:
        return False
    if spark not in _JVM_ZONES:
        zone = "java_method('java.time.ZoneId', 'systemDefault')"
        _JVM_ZONES[spark] = spark.sql(f"select {zone}").collect()[0][0]
    return _JVM_ZONES[spark] in _UTC


_JVM_ZONES: weakref.WeakKeyDictionary[SparkSession, str] = weakref.WeakKeyDictionary()

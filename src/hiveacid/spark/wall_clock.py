"""Times between moments and Hive's wall clocks, in a data source's workers and of Arrow data.

Hive's ``timestamp`` is a wall clock, Spark's an instant that the session's time zone shows as one.
A data source's tasks get the session's settings as local properties, and Arrow data in UTC.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from inspect import signature
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from hiveacid.errors import UnsupportedError
from hiveacid.spark.session import local_frame, shows_utc
from hiveacid.storage.arrow_types import with_children
from hiveacid.storage.plan.scan_plan import ScanPlan

_ZONE: Final = "spark.sql.session.timeZone"
_LOCAL_TIME: Final = "/etc/localtime"
_IN_UTC: Final[dict[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)
"""Older versions do it by themselves."""
_UTC_NAMES: Final = frozenset({"Z", "GMT", "UTC"})


def session_zone() -> str:
    """The time zone of the session whose task this is; where it sets none, the process's own."""
    context = TaskContext.get()
    zone = context.getLocalProperty(_ZONE) if context is not None else None
    return _known(zone or os.environ.get("TZ") or _machine_zone())


def _machine_zone() -> str:
    _, found, name = os.path.realpath(_LOCAL_TIME).partition("/zoneinfo/")
    return name if found else "UTC"


def _known(zone: str) -> str:
    """The zone by a name that Arrow knows: ``GMT+08:00`` is ``+08:00``."""
    if zone in _UTC_NAMES:
        return "UTC"
    for prefix in ("GMT", "UTC"):
        if zone.startswith((f"{prefix}+", f"{prefix}-")):
            zone = zone.removeprefix(prefix)
    return zone


def spark_batch(batch: pa.RecordBatch, schema: StructType, *, zone: str) -> pa.RecordBatch:
    """Rows of storage's reader as Spark takes them from a data source: the columns of ``schema``,
    wall clocks of ``zone`` as instants.
    """
    wanted = to_arrow_schema(schema, **_IN_UTC)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    arrays = []
    for field in wanted:
        array = _instants(columns[field.name.lower()], zone)
        arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _instants(array: pa.Array, zone: str) -> pa.Array:
    kind = array.type
    if pa.types.is_nested(kind):
        return with_children(array, lambda child: _instants(child, zone))
    if not pa.types.is_timestamp(kind) or kind.tz is not None:
        return array
    if zone == "UTC":
        return array.cast(pa.timestamp(kind.unit, "UTC"))
    return instants(array, zone).cast(pa.timestamp(kind.unit, "UTC"))


def instants(clocks: pa.Array, zone: str) -> pa.Array:
    """When a clock in ``zone`` shows these times, as Java tells it: of two instants the earlier; a
    time that is left out, because the clock is set forward, is as much later as it is set.
    """
    found = pc.assume_timezone(clocks, zone, ambiguous="earliest", nonexistent="latest")
    shown = pc.local_timestamp(found)
    left_out = pc.not_equal(shown, clocks)
    if not pc.any(left_out).as_py():
        return found
    before = pc.assume_timezone(clocks, zone, ambiguous="earliest", nonexistent="earliest")
    last = pc.local_timestamp(before).cast(pa.int64())
    into = pc.subtract(clocks.cast(pa.int64()), pc.add(last, 1))
    moved = pc.add(found.cast(pa.int64()), into).cast(found.type)
    return pc.if_else(left_out, moved, found)


def shown_by(spark: SparkSession, rows: pa.Table, *, moments: Collection[str]) -> pa.Table:
    """Rows whose instants say that they are wall clocks of the session's time zone; wall clocks in
    the columns ``moments`` (in lower case) become instants.
    """
    zone = _known(spark.conf.get(_ZONE) or "UTC")
    columns = [
        [_zoned(_instants(c, zone) if name.lower() in moments else c, zone) for c in column.chunks]
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    arrays = [
        pa.chunked_array(chunks) if chunks else column
        for chunks, column in zip(columns, rows.columns, strict=True)
    ]
    return pa.table(arrays, names=rows.schema.names)


def check_partitions(spark: SparkSession, plan: ScanPlan) -> None:
    """Rows to change are told by their partition, whose value Spark has.

    Raises:
        UnsupportedError: the session's zone skips the time of a partition: for Spark its rows are
            those of another one.
    """
    table = plan.snapshot.table
    for place, column in enumerate(table.partition_columns):
        values = {part.part.partition.values[place] or "" for part in plan.parts} - {""}
        if str(column.type) != "timestamp" or not values or shows_utc(spark):
            continue
        texts = pa.table({"text": sorted(values)})
        clocks = local_frame(spark, texts, StructType([StructField("text", StringType())]))
        shown = "cast(try_cast(text as timestamp) as timestamp_ntz)"
        skipped = clocks.where(f"{shown} <> try_cast(text as timestamp_ntz)").head()
        if skipped is not None:
            zone = spark.conf.get(_ZONE)
            raise UnsupportedError(
                f"{table.name} has a partition {column.name}={skipped.text}, a time that {zone},"
                " the session's time zone, skips: its rows cannot be told from those of another",
                note="spark.sql.session.timeZone = UTC has all times.",
            )


def with_zone(batch: pa.RecordBatch, zone: str) -> pa.RecordBatch:
    """Rows whose instants say in which zone they are wall clocks."""
    arrays = [_zoned(column, zone) for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _zoned(array: pa.Array, zone: str) -> pa.Array:
    kind = array.type
    if pa.types.is_nested(kind):
        return with_children(array, lambda child: _zoned(child, zone))
    if not pa.types.is_timestamp(kind) or kind.tz in (None, zone):
        return array
    return array.cast(pa.timestamp(kind.unit, zone))

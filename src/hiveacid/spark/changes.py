"""A DataFrame of a table's changes: events are read in Spark's Python workers, one bucket of one
partition a unit; few of them in the driver.

Images of updates are paired where all events of a version and key are together: after a shuffle by
these, which a table without a key does not need.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from hiveacid.layout.changes import Versions
from hiveacid.model.tables import Column
from hiveacid.model.types import CharType
from hiveacid.spark.arrow_read import table_columns
from hiveacid.spark.assign import stored_type
from hiveacid.spark.conf import check_names, takes_arrow, without_rows
from hiveacid.spark.jobs import settle
from hiveacid.spark.text import quoted
from hiveacid.spark.workers import make_ready
from hiveacid.storage.change_pairs import paired
from hiveacid.storage.change_plan import ChangeUnit
from hiveacid.storage.changes import CHANGE_FIELDS, ChangeReader

_TASKS_MAX: Final = 200
CHANGE_TYPES: Final = t.StructType(
    [
        t.StructField("_change_type", t.StringType()),
        t.StructField("_commit_version", t.LongType()),
        t.StructField("_commit_timestamp", t.TimestampType()),
        t.StructField("_write_id", t.LongType()),
    ]
)
"""``CHANGE_FIELDS`` as Spark's."""


def changes_frame(
    spark: SparkSession,
    units: tuple[ChangeUnit, ...],
    reader: ChangeReader,
    *,
    key: tuple[str, ...],
    versions: Versions,
    bytes_here: int,
) -> DataFrame:
    """The events of some units, updates with their images where there is a ``key``; units of no
    more than ``bytes_here`` bytes are read at once.

    Raises:
        AcidError: reading failed.
        UnsupportedError: the name of a column cannot be told to Spark.
    """
    check_names(spark, (*reader.reader.data, *reader.reader.keys))
    told = replace(reader, reader=replace(reader.reader, key_texts=True))
    pairs = PairTask(key, versions, is_net=reader.is_net)
    task = ChangesTask(tuple(map(pickle.dumps, units)), told)
    data, keys = reader.reader.data, reader.reader.keys
    schema = _schema(data, keys)
    if not units:
        frame = without_rows(spark, schema)
    elif takes_arrow(spark) and sum(unit.size_bytes for unit in units) <= bytes_here:
        batches = [batch for number in range(len(units)) for batch in task.read(number)]
        rows = pairs.finished(batches, task.reader.schema())
        frame = spark.createDataFrame(rows, schema) if len(rows) else without_rows(spark, schema)
    else:
        make_ready(spark)
        count = min(len(units), _TASKS_MAX)
        frame = spark.range(0, len(units), 1, count).mapInArrow(task, schema)
        if key:
            by = key if reader.is_net else ("_commit_version", *key)
            together = frame.repartition(*map(quoted, by))
            frame = together.mapInArrow(pairs, schema)
    columns = [field.name for field in CHANGE_TYPES.fields]
    return frame.select(*table_columns(data, keys), *columns)


def with_change_columns(rows: DataFrame) -> DataFrame:
    """No rows of a table, as none of its changes."""
    nulls = (f"cast(null as {f.dataType.simpleString()}) {f.name}" for f in CHANGE_TYPES.fields)
    return rows.selectExpr("*", *nulls)


def _schema(data: tuple[Column, ...], keys: tuple[Column, ...]) -> t.StructType:
    """What the tasks yield: stored values, partition values as texts."""
    fields = [t.StructField(c.name, stored_type(c.type)) for c in data]
    fields += [t.StructField(c.name, t.StringType()) for c in keys]
    return t.StructType([*fields, *CHANGE_TYPES.fields])


@dataclass(frozen=True, slots=True)
class ChangesTask:
    """Reads the units whose numbers it is given; each is pickled by itself."""

    units: tuple[bytes, ...]
    reader: ChangeReader

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of unit numbers in, batches of events out."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.read(number)
        settle()

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """The events of one unit, chars without blanks as Spark's own readers give them."""
        for batch in self.reader.rows(pickle.loads(self.units[number])):
            arrays = batch.columns
            for place, column in enumerate(self.reader.reader.data):
                if isinstance(column.type, CharType):
                    arrays[place] = pc.utf8_rtrim(arrays[place], " ")
            yield pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


@dataclass(frozen=True, slots=True)
class PairTask:
    """Gives updates their images; all events of a version and key come to one task."""

    key: tuple[str, ...]
    versions: Versions
    is_net: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of events in, batches of events out."""
        collected = list(batches)
        if collected:
            yield from self.finished(collected, collected[0].schema).to_batches()
        settle()

    def finished(self, batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
        """The events in order."""
        events = pa.Table.from_batches(batches, schema)
        return paired(events, key=self.key, versions=self.versions, is_net=self.is_net)


assert [field.name for field in CHANGE_TYPES.fields] == [field.name for field in CHANGE_FIELDS]

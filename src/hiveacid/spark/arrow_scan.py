"""The other way to scan: storage's ``merge_read`` in Spark's Python workers.

For what Spark's ORC reader cannot do, or not as fast (see ``scan.py``). A unit of work is one
bucket of one partition directory; a task has several. Rows cross from Python to the JVM in Arrow
batches.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql import types as t

from hiveacid.layout.snapshot import AcidDirectory
from hiveacid.model.tables import Column, Partition
from hiveacid.model.types import CharType
from hiveacid.spark.assign import key_value, stored_type
from hiveacid.spark.text import quoted
from hiveacid.spark.types import spark_type
from hiveacid.spark.workers import make_ready
from hiveacid.storage.plan.scan_plan import PartPlan, ScanPlan, Selection
from hiveacid.storage.read import TableReader

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

_ROW_ID: t.StructType = t.StructType(
    [
        t.StructField("writeid", t.LongType()),
        t.StructField("bucketid", t.IntegerType()),
        t.StructField("rowid", t.LongType()),
    ]
)
_TASKS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Unit:
    """Some files of one partition directory."""

    partition: Partition
    directory: AcidDirectory
    selection: Selection


def scan(
    spark: SparkSession, plan: ScanPlan, parts: Sequence[PartPlan], *, row_ids: bool
) -> DataFrame:
    """The rows of ``parts`` of a plan, as ``scan.scan`` returns them."""
    units = [unit for part in parts for unit in _units(part)]
    count = min(len(units), _TASKS_MAX)
    make_ready(spark)
    # each task takes a run of numbers: neighbours, which are often alike, go to different ones
    units = [unit for first in range(count) for unit in units[first::count]]
    task = ArrowScanTask.of(plan, units, row_ids=row_ids)
    frame = spark.range(0, len(units), 1, count).mapInArrow(
        task, arrow_schema(plan, row_ids=row_ids)
    )
    return as_table_types(frame, plan, row_ids=row_ids)


def arrow_schema(plan: ScanPlan, *, row_ids: bool) -> t.StructType:
    """What ``ArrowScanTask`` yields: stored values, partition values as texts."""
    data, keys = _wanted(plan)
    fields = [t.StructField(c.name, stored_type(c.type)) for c in data]
    fields += [t.StructField(c.name, t.StringType()) for c in keys]
    if row_ids:
        fields.append(t.StructField("ROW__ID", _ROW_ID))
    return t.StructType(fields)


def as_table_types(frame: DataFrame, plan: ScanPlan, *, row_ids: bool) -> DataFrame:
    """Columns of ``arrow_schema`` as the table's types, in the plan's order."""
    data, keys = _wanted(plan)
    columns: list[str | SparkColumn] = []
    for c in data:  # each Column is a dozen calls to the JVM, a name is none
        same = stored_type(c.type) == spark_type(c.type)
        name = quoted(c.name)
        columns.append(name if same else F.col(name).cast(spark_type(c.type)).alias(c.name))
    columns += [F.expr(key_value(quoted(c.name), c)).alias(c.name) for c in keys]
    return frame.select(*columns, *(["ROW__ID"] if row_ids else []))


def _wanted(plan: ScanPlan) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    table, wanted = plan.snapshot.table, set(plan.columns)
    return (
        tuple(c for c in table.columns if c.name in wanted),
        tuple(c for c in table.partition_columns if c.name in wanted),
    )


def _units(part: PartPlan) -> list[Unit]:
    """One for each bucket; files without events are counted together, so they stay together."""
    chosen = part.selection.files
    buckets: dict[int, dict[str, tuple[int, ...] | None]] = {}
    for file in part.files:
        if part.part.directory.originals or not file.is_bucket_file:
            return [Unit(part.part.partition, part.part.directory, part.selection)]
        buckets.setdefault(file.bucket, {})[file.path] = chosen[file.path]
    return [
        Unit(part.part.partition, part.part.directory, replace(part.selection, files=files))
        for files in buckets.values()
    ]


@dataclass(frozen=True, slots=True)
class ArrowScanTask:
    """Reads the units whose numbers it is given.

    Each unit is pickled by itself: a task gets all of them, and unpacks its own.
    """

    units: tuple[bytes, ...]
    reader: TableReader

    @staticmethod
    def of(plan: ScanPlan, units: Sequence[Unit], *, row_ids: bool) -> ArrowScanTask:
        """A task for some units of a plan."""
        snapshot, wanted = plan.snapshot, frozenset(plan.columns)
        reader = TableReader(
            plan.files, snapshot.table, wanted, snapshot.valid, row_ids=row_ids, key_texts=True
        )
        return ArrowScanTask(tuple(map(pickle.dumps, units)), reader)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of unit numbers in, batches of rows out."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.read(pickle.loads(self.units[number]))

    def read(self, unit: Unit) -> Iterator[pa.RecordBatch]:
        """The rows of one unit."""
        for rows in self.reader.rows(unit.partition, unit.directory, unit.selection):
            yield for_spark(rows, self.reader)


def for_spark(rows: pa.RecordBatch, reader: TableReader) -> pa.RecordBatch:
    """Rows as Spark's own readers give them: times of microseconds, chars without blanks."""
    arrays = [_microseconds(column) for column in rows.columns]
    for place, column in enumerate(reader.data):
        if isinstance(column.type, CharType):
            arrays[place] = pc.utf8_rtrim(arrays[place], " ")
    names = [column.name for column in (*reader.data, *reader.keys)]
    if reader.row_ids:
        names.append("ROW__ID")
    return pa.RecordBatch.from_arrays(arrays, names=names) if arrays else rows


def _microseconds(array: pa.Array) -> pa.Array:
    kind = _spark_arrow(array.type)
    return array if kind == array.type else array.cast(kind, safe=False)


def _spark_arrow(kind: pa.DataType) -> pa.DataType:
    """The Arrow type Spark reads: its timestamps have microseconds."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_list(kind):
        return pa.list_(_spark_arrow(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_spark_arrow(kind.key_type), _spark_arrow(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _spark_arrow(field.type)) for field in kind])
    return kind

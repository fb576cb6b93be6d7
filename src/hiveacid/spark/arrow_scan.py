"""The other way to scan: storage's ``merge_read`` in Spark's Python workers, one task per partition
directory.

For what Spark's ORC reader cannot do (see ``scan.py``). Rows cross from Python to the JVM in Arrow
batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql import types as t

from hiveacid.layout.snapshot import Snapshot, SnapshotPart
from hiveacid.model.tables import Table
from hiveacid.model.types import CharType
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.spark.assign import stored_type
from hiveacid.spark.types import spark_type
from hiveacid.storage.filesystem import file_system_for
from hiveacid.storage.merge import merge_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROW_ID: t.StructType = t.StructType(
    [
        t.StructField("writeid", t.LongType()),
        t.StructField("bucketid", t.IntegerType()),
        t.StructField("rowid", t.LongType()),
    ]
)


def scan(
    spark: SparkSession, snapshot: Snapshot, parts: Sequence[SnapshotPart], *, row_ids: bool
) -> DataFrame:
    """The rows of ``parts``, as ``scan.scan`` returns them."""
    table = snapshot.table
    fields = [t.StructField(c.name, stored_type(c.type)) for c in table.columns]
    fields += [t.StructField(c.name, t.StringType()) for c in table.partition_columns]
    if row_ids:
        fields.append(t.StructField("ROW__ID", _ROW_ID))
    tasks = spark.range(0, len(parts), 1, len(parts))
    frame = tasks.mapInArrow(
        ArrowScanTask(table, tuple(parts), snapshot.valid, row_ids), t.StructType(fields)
    )
    columns = [
        F.col(f"`{c.name}`").cast(spark_type(c.type)).alias(c.name) for c in table.all_columns
    ]
    return frame.select(*columns, *(["ROW__ID"] if row_ids else []))


@dataclass(frozen=True, slots=True)
class ArrowScanTask:
    """Reads the parts whose numbers it is given."""

    table: Table
    parts: tuple[SnapshotPart, ...]
    valid: ValidWriteIdList
    row_ids: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of part numbers in, batches of rows out."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._read(self.parts[number])

    def _read(self, part: SnapshotPart) -> Iterator[pa.RecordBatch]:
        fs, path = file_system_for(part.partition.location)
        for rows in merge_read(
            fs,
            path,
            part.directory,
            table_columns=self.table.columns,
            valid=self.valid,
            row_ids=self.row_ids,
        ):
            width = len(self.table.columns)
            arrays = [_microseconds(column) for column in rows.columns]
            for place, column in enumerate(self.table.columns):
                if isinstance(column.type, CharType):
                    arrays[place] = pc.utf8_rtrim(arrays[place], " ")  # as Spark's ORC reader
            texts = [
                pa.array([value] * rows.num_rows, pa.string()) for value in part.partition.values
            ]
            names = [c.name for c in self.table.all_columns]
            if self.row_ids:
                names.append("ROW__ID")
            yield pa.RecordBatch.from_arrays(
                [*arrays[:width], *texts, *arrays[width:]], names=names
            )


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

"""Files of rows read in Spark's Python workers: text, and what Spark's own readers would read
otherwise than Hive. One unit of work is one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql import types as t

from hiveacid.layout.snapshot import DataFile
from hiveacid.model.row_format import row_format
from hiveacid.model.tables import Partition, Table
from hiveacid.model.types import CharType
from hiveacid.spark.assign import key_value, stored_type
from hiveacid.spark.text import quoted
from hiveacid.spark.types import spark_type
from hiveacid.storage.filesystem import file_system_for
from hiveacid.storage.plain.directory import plain_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASKS_MAX: Final = 200


def read_files(
    spark: SparkSession, table: Table, files: Sequence[tuple[Partition, DataFile]]
) -> DataFrame:
    """The rows of some files of a table: data columns, then partition columns."""
    count = min(len(files), _TASKS_MAX)
    # each task takes a run of numbers: neighbours, which are often alike, go to different ones
    units = tuple(file for first in range(count) for file in files[first::count])
    fields = [t.StructField(c.name, stored_type(c.type)) for c in table.columns]
    fields += [t.StructField(c.name, t.StringType()) for c in table.partition_columns]
    frame = spark.range(0, len(units), 1, count).mapInArrow(
        PlainScanTask(table, units), t.StructType(fields)
    )
    return frame.select(
        *[F.col(quoted(c.name)).cast(spark_type(c.type)).alias(c.name) for c in table.columns],
        *[F.expr(key_value(quoted(c.name), c)).alias(c.name) for c in table.partition_columns],
    )


@dataclass(frozen=True, slots=True)
class PlainScanTask:
    """Reads the files whose numbers it is given."""

    table: Table
    units: tuple[tuple[Partition, DataFile], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of file numbers in, batches of rows out."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._read(*self.units[number])

    def _read(self, partition: Partition, file: DataFile) -> Iterator[pa.RecordBatch]:
        table = self.table
        fs, path = file_system_for(partition.location)
        names = [column.name for column in table.all_columns]
        for rows in plain_read(
            fs,
            path,
            [file],
            table_columns=table.columns,
            format=table.format,
            row_format=row_format(table.properties),
        ):
            arrays = [
                pc.utf8_rtrim(array, " ") if isinstance(column.type, CharType) else array
                for array, column in zip(rows.columns, table.columns, strict=True)
            ]
            texts = [
                pa.repeat(pa.scalar(value, pa.string()), rows.num_rows)
                for value in partition.values
            ]
            yield pa.RecordBatch.from_arrays([*arrays, *texts], names=names)

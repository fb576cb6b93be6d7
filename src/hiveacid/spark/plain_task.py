"""Files of rows read in Spark's Python workers: text, and what Spark's own readers would read
otherwise than Hive. One unit of work is one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as t

from hiveacid.layout.snapshot import DataFile
from hiveacid.model.tables import Partition, Table
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.spark.arrow_scan import for_spark
from hiveacid.spark.assign import key_value, stored_type
from hiveacid.spark.text import quoted
from hiveacid.spark.types import spark_type
from hiveacid.spark.workers import make_ready
from hiveacid.storage.filesystem import Files
from hiveacid.storage.read import TableReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASKS_MAX: Final = 200


def read_files(
    spark: SparkSession,
    table: Table,
    read: Sequence[tuple[Partition, DataFile]],
    *,
    files: Files,
) -> DataFrame:
    """The rows of some files of a table: data columns, then partition columns."""
    count = min(len(read), _TASKS_MAX)
    make_ready(spark)
    # each task takes a run of numbers: neighbours, which are often alike, go to different ones
    units = tuple(file for first in range(count) for file in read[first::count])
    fields = [t.StructField(c.name, stored_type(c.type)) for c in table.columns]
    fields += [t.StructField(c.name, t.StringType()) for c in table.partition_columns]
    names = frozenset(column.name for column in table.all_columns)
    reader = TableReader(files, table, names, ValidWriteIdList.everything(), key_texts=True)
    frame = spark.range(0, len(units), 1, count).mapInArrow(
        PlainScanTask(reader, units), t.StructType(fields)
    )
    return frame.select(
        *[F.col(quoted(c.name)).cast(spark_type(c.type)).alias(c.name) for c in table.columns],
        *[F.expr(key_value(quoted(c.name), c)).alias(c.name) for c in table.partition_columns],
    )


@dataclass(frozen=True, slots=True)
class PlainScanTask:
    """Reads the files whose numbers it is given."""

    reader: TableReader
    units: tuple[tuple[Partition, DataFile], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of file numbers in, batches of rows out."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                partition, file = self.units[number]
                for rows in self.reader.rows_of_files(partition, [file]):
                    yield for_spark(rows, self.reader)

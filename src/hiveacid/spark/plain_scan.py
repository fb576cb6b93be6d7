"""Files as Spark reads them, and the tables whose files hold rows and no events: plain ones, and
what an insert-only table's directories hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as t

from hiveacid.layout.names import partition_name
from hiveacid.layout.snapshot import AcidDirectory, DataFile, SnapshotPart
from hiveacid.model.tables import Column, FileFormat, Partition, Table
from hiveacid.spark.conf import session_conf
from hiveacid.spark.text import literal, quoted
from hiveacid.spark.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

LISTING: Final = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "100000"}
"""The files are known: Spark must not start a job to look at them."""
_GLOB: Final = "{}[]*?\\"
"""What makes a path a glob to Spark."""


def scan(spark: SparkSession, table: Table, parts: Sequence[SnapshotPart]) -> DataFrame:
    """Rows of a table without row ids: originals, and what an insert-only table's directories
    hold.
    """
    schema = t.StructType([t.StructField(c.name, spark_type(c.type)) for c in table.columns])
    groups = [(p.partition, [f for f in row_files(p.directory) if f.size_bytes > 0]) for p in parts]
    format = {FileFormat.ORC: "orc", FileFormat.PARQUET: "parquet", FileFormat.TEXT: "csv"}
    frame = _read_plain(spark, table, groups, schema, format=format[table.format])
    return frame.select(*[quoted(c.name) for c in table.all_columns])


def _read_plain(
    spark: SparkSession,
    table: Table,
    groups: Iterable[tuple[Partition, Sequence[DataFile]]],
    schema: t.StructType,
    *,
    format: str,
) -> DataFrame:
    """Files with ``schema`` and the partition columns.

    Partitions where their names say they are, are read in one relation: Spark takes their values
    from the path.
    """
    in_place: list[str] = []
    frames: list[DataFrame] = []
    keys = [c.name for c in table.partition_columns]
    with_keys = t.StructType(
        schema.fields + [t.StructField(c.name, spark_type(c.type)) for c in table.partition_columns]
    )
    with session_conf(spark, LISTING):
        for partition, files in groups:
            paths = [spark_path(join(partition.location, file.path)) for file in files]
            if keys and partition.location != join(
                table.location, partition_name(keys, partition.values)
            ):
                frame = load(file_reader(spark, schema).format(format), paths)
                frames.append(frame.selectExpr("*", *partition_literals(table, partition)))
            else:
                in_place += paths
        if in_place:
            reader = file_reader(spark, with_keys)
            if keys:
                reader = reader.option("basePath", spark_path(table.location))
            frames.append(load(reader.format(format), in_place))
    return reduce(lambda a, b: a.unionAll(b), frames)


def partition_literal(column: Column, value: str | None) -> str:
    """The value of a partition column as Spark reads it from a directory's name."""
    return f"cast({literal(value)} as {spark_type(column.type).simpleString()})"


def partition_literals(table: Table, partition: Partition) -> list[str]:
    """The partition columns with their values in one partition, as select expressions."""
    return [
        f"{partition_literal(column, value)} as {quoted(column.name)}"
        for column, value in zip(table.partition_columns, partition.values, strict=True)
    ]


def file_reader(spark: SparkSession, schema: t.StructType) -> DataFrameReader:
    """A reader of files with ``schema`` whose paths are taken as they are."""
    return spark.read.schema(schema).option("__globPaths__", "false")


def load(reader: DataFrameReader, paths: list[str]) -> DataFrame:
    """The files at ``paths``, one relation.

    Without globbing, Spark (3.5 to 4.3) takes all paths anew for each one that looks like a glob,
    so rows would come several times: such paths are read one by one.
    """
    if not any(letter in path for path in paths for letter in _GLOB):
        return reader.load(paths)
    return reduce(lambda a, b: a.unionAll(b), [reader.load([path]) for path in paths])


def row_files(directory: AcidDirectory) -> list[DataFile]:
    """The files of a directory that hold rows; those that are empty as yet are left out."""
    base = directory.base.files if directory.base else ()
    files = (*base, *directory.originals, *(f for d in directory.insert_deltas for f in d.files))
    return [f for f in files if f.logical_bytes != 0]


def spark_path(location: str) -> str:
    """A location as Spark must be told it: a bare path is a local file, whatever the default file
    system.
    """
    return f"file://{location}" if location.startswith("/") else location


def join(location: str, relative: str) -> str:
    """A path below a location."""
    return f"{location.rstrip('/')}/{relative}"

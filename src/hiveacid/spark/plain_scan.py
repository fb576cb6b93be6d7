"""Files as Spark reads them, and the tables whose files hold rows and no events: plain ones, and
what an insert-only table's directories hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as t

from hiveacid.layout.names import partition_name
from hiveacid.layout.snapshot import DataFile, SnapshotPart
from hiveacid.model.tables import Column, FileFormat, Partition, Table
from hiveacid.spark.assign import key_value
from hiveacid.spark.conf import is_utc, session_conf
from hiveacid.spark.driver_rows import without_rows
from hiveacid.spark.plain_task import read_files
from hiveacid.spark.text import literal, quoted
from hiveacid.spark.types import spark_type
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.orc.native import is_native_plain
from hiveacid.storage.orc.tails import tail_of
from hiveacid.storage.plain.readers import parquet_has_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

LISTING: Final = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "100000"}
"""The files are known: Spark must not start a job to look at them."""
_GLOB: Final = "{}[]*?\\"
"""What makes a path a glob to Spark."""


def scan(
    spark: SparkSession, table: Table, parts: Sequence[SnapshotPart], *, files: Files
) -> DataFrame:
    """Rows of a table without row ids: originals, and what an insert-only table's directories
    hold.
    """
    read = [(p.partition, f) for p in parts for f in p.directory.row_files if f.size_bytes > 0]
    utc = all("timestamp" not in str(c.type) for c in table.columns) or is_utc(spark)
    native: dict[tuple[str | None, ...], tuple[Partition, list[DataFile]]] = {}
    other: list[tuple[Partition, DataFile]] = []
    for partition, file in read:
        if _is_native(table, files.at(partition.location), file, utc=utc):
            native.setdefault(partition.values, (partition, []))[1].append(file)
        else:
            other.append((partition, file))
    schema = t.StructType([t.StructField(c.name, spark_type(c.type)) for c in table.columns])
    frames = []
    if native:
        frame = _read_plain(spark, table, native.values(), schema)
        frames.append(frame.select(*[quoted(c.name) for c in table.all_columns]))
    if other:
        frames.append(read_files(spark, table, other, files=files))
    if not frames:
        fields = [t.StructField(c.name, spark_type(c.type)) for c in table.all_columns]
        return without_rows(spark, t.StructType(fields))
    return reduce(lambda a, b: a.unionAll(b), frames)


def _is_native(table: Table, place: tuple[FileSystem, str], file: DataFile, *, utc: bool) -> bool:
    """Whether Spark's own reader reads a file of the table as Hive does.

    Text never: Spark has no reader of Hive's rows. Parquet unless there are times, which each
    writer stores in its own calendar and zone, or types that were changed.
    """
    if table.format is FileFormat.ORC:
        return is_native_plain(tail_of(*place, file), table.columns, utc=utc)
    times = any(word in str(c.type) for c in table.columns for word in ("timestamp", "date"))
    if table.format is not FileFormat.PARQUET or times:
        return False
    return parquet_has_types(*place, file, table.columns)


def _read_plain(
    spark: SparkSession,
    table: Table,
    groups: Iterable[tuple[Partition, Sequence[DataFile]]],
    schema: t.StructType,
) -> DataFrame:
    """Files with ``schema`` and the partition columns.

    Partitions where their names say they are, are read in one relation: Spark takes their values
    from the path.
    """
    format = table.format.value
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
            frame = load(reader.format(format), in_place)
            values = [
                f"{key_value(quoted(c.name), c)} as {quoted(c.name)}"
                for c in table.partition_columns
            ]
            frames.append(frame.selectExpr(*[quoted(c.name) for c in table.columns], *values))
    return reduce(lambda a, b: a.unionAll(b), frames)


def partition_literal(column: Column, value: str | None) -> str:
    """The value of a partition column from the text in a directory's name."""
    return key_value(literal(value), column)


def partition_literals(table: Table, partition: Partition) -> list[str]:
    """The partition columns with their values in one partition, as select expressions."""
    return [
        f"{partition_literal(column, value)} as {quoted(column.name)}"
        for column, value in zip(table.partition_columns, partition.values, strict=True)
    ]


def file_reader(spark: SparkSession, schema: t.StructType) -> DataFrameReader:
    """A reader of files with ``schema`` whose paths are taken as they are."""
    reader = spark.read.schema(schema).option("__globPaths__", "false")
    # Whatever the session says: a file that is gone or damaged is never passed over.
    return reader.option("ignoreMissingFiles", "false").option("ignoreCorruptFiles", "false")


def load(reader: DataFrameReader, paths: list[str]) -> DataFrame:
    """The files at ``paths``, one relation.

    Without globbing, Spark (3.5 to 4.3) takes all paths anew for each one that looks like a glob,
    so rows would come several times: such paths are read one by one.
    """
    if not any(letter in path for path in paths for letter in _GLOB):
        return reader.load(paths)
    return reduce(lambda a, b: a.unionAll(b), [reader.load([path]) for path in paths])


def spark_path(location: str) -> str:
    """A location as Spark must be told it: a bare path is a local file, whatever the default file
    system.
    """
    return f"file://{location}" if location.startswith("/") else location


def join(location: str, relative: str) -> str:
    """A path below a location."""
    return f"{location.rstrip('/')}/{relative}"

"""The one door through which Spark reads a table: a plan in, a DataFrame out.

    few rows              storage's reader in this process: no job       ``arrow_read.in_driver``
    files that Spark      its own vectorised readers                     ``native_read``
    reads as Hive does
    what is left          storage's reader in Spark's Python workers     ``arrow_read.in_workers``

What is left are original files and raw deltas (their row ids are positions), streaming files with a
logical length, tables whose files may name their columns otherwise (Spark finds fields of ``row``
by name, Hive by position), text, times that Spark takes for others; and what is faster so: a few
stripes of large files, very many small files. And all that lies where Spark's JVM reads no files.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from hiveacid.errors import UnsupportedError
from hiveacid.layout import events
from hiveacid.layout.directories import DataFile
from hiveacid.model.tables import AcidMode, FileFormat, Table
from hiveacid.spark import arrow_read, native_read
from hiveacid.spark.conf import check_names, is_utc, names_local_times, reads_files, without_rows
from hiveacid.spark.relations import Chosen
from hiveacid.spark.text import ROW_ID_COLUMN
from hiveacid.spark.types import ROW_ID_TYPE, spark_type
from hiveacid.storage.orc.statistics import is_native
from hiveacid.storage.orc.tails import event_tail, tail_of
from hiveacid.storage.plain.readers import parquet_has_types
from hiveacid.storage.plan.scan_plan import PartPlan, ScanPlan

BUCKET_ID_COLUMN: Final = "BUCKET__ID"
FILE_NAME_COLUMN: Final = "INPUT__FILE__NAME"
IS_DELETED_COLUMN: Final = "ROW__IS__DELETED"
_PROPERTY: Final = f"{ROW_ID_COLUMN}.bucketid"
_DERIVED: Final = {
    # Hive before 3 (version 0 in the top three bits) stored the bucket itself (format.md 4.4)
    BUCKET_ID_COLUMN: f"case when shiftrightunsigned({_PROPERTY}, 29) = 0 then {_PROPERTY}"
    f" else shiftright({_PROPERTY}, 16) & 4095 end",
    IS_DELETED_COLUMN: "false",
}
_SMALL_FILES: Final = 1000
"""From so many files on, what counts is their number, if they are small on average."""
_SMALL_FILE_BYTES: Final = 1 << 20
_STRIPES_PAY: Final = 4
"""Reading chosen stripes through Arrow costs at most so much more a byte than Spark's reader."""


Given = DataFrame | Chosen | arrow_read.RowsHere


@dataclass(frozen=True, slots=True)
class Rows:
    """What a plan leaves over; ``are_here`` where the driver has read it, else Spark reads files
    when it runs.
    """

    spark: SparkSession
    given: Given
    are_here: bool

    @property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame."""
        text = relation_of(self.spark, self.given)
        return self.spark.sql(f"select * from {text}") if isinstance(text, str) else _frame(text)


def relation_of(spark: SparkSession, given: Given) -> DataFrame | Chosen | str:
    """Rows as a DataFrame, as what is chosen of one, or as the text of a query."""
    return given.relation(spark) if isinstance(given, arrow_read.RowsHere) else given


def _frame(given: DataFrame | Chosen) -> DataFrame:
    return given.rows() if isinstance(given, Chosen) else given


def read(
    spark: SparkSession,
    plan: ScanPlan,
    *,
    virtual: Collection[str] = (),
    bytes_here: int | None = None,
) -> Rows:
    """The live rows of a plan: its columns, then the virtual ones asked for. Rows that cannot meet
    the plan's predicate may be missing.

    Plans of no more than ``bytes_here`` bytes, and those whose stripes a predicate chose, are read
    in this process where their rows are few; None reads nothing here but the tails of files.
    INPUT__FILE__NAME takes a scan of each file by itself: a row does not say where it was.

    Raises:
        MissingFileError, FormatError, StorageError: a file is not there, or is damaged.
        UnsupportedError: a column's type cannot be read through Spark, or its name be told to it;
        or row ids of a table without them.
    """
    row_ids = _needs_row_ids(virtual)
    table = plan.snapshot.table
    check_names(spark, table.all_columns)
    if row_ids and table.acid_mode is not AcidMode.FULL:
        raise UnsupportedError(
            f"Rows of {table.name} have no {ROW_ID_COLUMN}: it is no full ACID table",
            table=str(table.name),
        )
    if FILE_NAME_COLUMN in virtual:
        frames = []
        for part in plan.parts:
            for file in part.files:
                name = F.lit(_uri(native_read.join(part.part.partition.location, file.path)))
                frame = _frame(_by_spark(spark, plan, [part.only([file])], row_ids=row_ids))
                frames.append(frame.withColumn(FILE_NAME_COLUMN, name))
        if not frames:
            frame = no_rows(spark, table, virtual=virtual, columns=plan.columns)
            return Rows(spark, frame, False)
        return Rows(spark, _with_virtual(reduce(_union, frames), virtual), False)
    if bytes_here is not None:
        here = arrow_read.in_driver(spark, plan, row_ids=row_ids, bytes_max=bytes_here)
        if here is not None:
            rows = Rows(spark, here, True)
            return Rows(spark, _with_virtual(rows.frame, virtual), True) if virtual else rows
    chosen = _by_spark(spark, plan, plan.parts, row_ids=row_ids)
    return Rows(spark, _with_virtual(_frame(chosen), virtual) if virtual else chosen, False)


def no_rows(
    spark: SparkSession,
    table: Table,
    *,
    virtual: Collection[str],
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """What ``read`` gives of a table without rows; ``columns`` None: all of them."""
    rows = _nothing(spark, table, columns, row_ids=_needs_row_ids(virtual))
    if FILE_NAME_COLUMN in virtual:
        rows = rows.withColumn(FILE_NAME_COLUMN, F.lit(None).cast(t.StringType()))
    return _with_virtual(rows, virtual)


# -------------------------------------------------------------------- the choice


def _by_spark(
    spark: SparkSession, plan: ScanPlan, parts: Sequence[PartPlan], *, row_ids: bool
) -> DataFrame | Chosen:
    native, other = _chosen(spark, plan, parts)
    frames: list[DataFrame | Chosen] = []
    if native:
        frames.append(native_read.rows(spark, plan, native, row_ids=row_ids))
    if other:
        frames.append(arrow_read.in_workers(spark, plan, other, row_ids=row_ids))
    if not frames:
        return _nothing(spark, plan.snapshot.table, plan.columns, row_ids=row_ids)
    return frames[0] if len(frames) == 1 else reduce(_union, map(_frame, frames))


def _chosen(
    spark: SparkSession, plan: ScanPlan, parts: Sequence[PartPlan]
) -> tuple[list[PartPlan], list[PartPlan]]:
    """What Spark's own readers read, and what is left: whole partitions of a table with row events,
    else files.
    """
    table = plan.snapshot.table
    parts = [part for part in parts if any(file.size_bytes for file in part.files)]
    has_events = table.acid_mode is AcidMode.FULL
    local_times = any("local time zone" in str(column.type) for column in table.columns)
    if local_times and not names_local_times(spark):
        return [], list(parts)
    if not parts or (has_events and _is_better_through_arrow(plan, parts)):
        return [], list(parts)
    wanted = [column for column in table.columns if column.name in plan.columns]
    if has_events and any(column.name == events.ROW and column.type.children for column in wanted):
        # what is pushed down of ``row.v`` ORC asks the statistics of this column's own ``v``
        return [], list(parts)
    utc = all("timestamp" not in str(column.type) for column in wanted) or is_utc(spark)
    native: list[PartPlan] = []
    other: list[PartPlan] = []
    for part in parts:
        if not reads_files(spark, part.part.partition.location):
            other.append(part)
            continue
        if has_events:
            whole = not part.reduced.directory.originals
            whole = whole and all(_is_native(plan, part, file, utc=utc) for file in part.files)
            (native if whole else other).append(part)
            continue
        sides: tuple[list[DataFile], list[DataFile]] = ([], [])
        for file in part.files:
            if file.size_bytes:
                sides[not _is_native(plan, part, file, utc=utc)].append(file)
        for files, side in zip(sides, (native, other), strict=True):
            side += [part.only(files)] if files else []
    return native, other


def _is_native(plan: ScanPlan, part: PartPlan, file: DataFile, *, utc: bool) -> bool:
    """Whether Spark's own reader reads a file as Hive does.

    Of row events: bucket files of full length, with the table's columns. Text never: Spark has no
    reader of Hive's rows. Parquet unless there are times, which each writer stores in its own
    calendar and zone, or types that were changed.
    """
    table, place = plan.snapshot.table, plan.files.at(part.part.partition.location)
    if table.acid_mode is AcidMode.FULL:
        whole = file.size_bytes > 0 and file.logical_bytes in (None, file.size_bytes)
        if not file.is_bucket_file or not whole:
            return False
        tail = event_tail(*place, file)
        return is_native(tail, table.columns, has_events=True, utc=utc, wanted=plan.columns)
    if table.format is FileFormat.ORC:
        tail = tail_of(*place, file)
        return is_native(tail, table.columns, has_events=False, utc=utc, wanted=plan.columns)
    times = any(word in str(c.type) for c in table.columns for word in ("timestamp", "date"))
    if table.format is not FileFormat.PARQUET or times:
        return False
    return parquet_has_types(*place, file, table.columns)


def _is_better_through_arrow(plan: ScanPlan, parts: Sequence[PartPlan]) -> bool:
    """Few stripes of large files, which Spark cannot choose; or so many small files that opening
    them is all.
    """
    files = sum(len(part.files) for part in parts)
    size = sum(file.size_bytes for part in parts for file in part.files)
    if files >= _SMALL_FILES and size < files * _SMALL_FILE_BYTES:
        return True
    some_stripes = any(s is not None for part in parts for s in part.selection.files.values())
    return some_stripes and plan.amount.bytes * _STRIPES_PAY <= size


# -------------------------------------------------------------------- columns


def _nothing(
    spark: SparkSession, table: Table, columns: Sequence[str] | None, *, row_ids: bool
) -> DataFrame:
    fields = [
        t.StructField(c.name, spark_type(c.type))
        for c in table.all_columns
        if columns is None or c.name in columns
    ]
    if row_ids:
        fields.append(t.StructField(ROW_ID_COLUMN, ROW_ID_TYPE))
    return without_rows(spark, t.StructType(fields))


def _needs_row_ids(virtual: Collection[str]) -> bool:
    return not {ROW_ID_COLUMN, BUCKET_ID_COLUMN}.isdisjoint(virtual)


def _with_virtual(rows: DataFrame, wanted: Collection[str]) -> DataFrame:
    """``rows`` (with ROW__ID where BUCKET__ID is wanted) and what follows from them."""
    derived = [f"{text} as {name}" for name, text in _DERIVED.items() if name in wanted]
    if not derived:
        return rows
    all_columns = rows.selectExpr("*", *derived)
    return all_columns if ROW_ID_COLUMN in wanted else all_columns.drop(ROW_ID_COLUMN)


def _union(first: DataFrame, second: DataFrame) -> DataFrame:
    return first.unionAll(second)


def _uri(path: str) -> str:
    """As Hive shows it: one slash after ``file:``."""
    if path.startswith("/"):
        return f"file:{path}"
    return path.replace("file:///", "file:/", 1)

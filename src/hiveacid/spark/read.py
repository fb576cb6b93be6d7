"""The one door through which Spark reads a table: a plan in, a DataFrame out.

    few rows              storage's reader in this process: no job       ``arrow_read.in_driver``
    files that Spark      its own vectorised readers                     ``native_read``
    reads as Hive does
    what is left          storage's reader in Spark's Python workers     ``arrow_read.in_workers``

What is left are original files and raw deltas (their row ids are positions), streaming files with a
logical length, tables whose files may name their columns otherwise (Spark finds fields of ``row``
by name, Hive by position), text, times that Spark takes for others; and what is faster so: a few
stripes of large files, few rows of many decimals, very many small files. And all that lies where
Spark's JVM reads no files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import attrgetter
from statistics import fmean
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from hiveacid.layout import events
from hiveacid.layout.directories import DataFile
from hiveacid.model.predicates import columns_of, likely_share
from hiveacid.model.tables import AcidMode, FileFormat, Table
from hiveacid.model.types import INTEGER_BITS, DecimalType, is_decimal_or
from hiveacid.spark import arrow_read, native_read
from hiveacid.spark.arrow_read import EXTRAS, FILE_NAME_COLUMN, IS_DELETED_COLUMN
from hiveacid.spark.assign import HIVE_TYPE, spark_type
from hiveacid.spark.failures import done_by_spark
from hiveacid.spark.session import (
    ROW_ID_COLUMN,
    Chosen,
    check_names,
    is_utc,
    names_local_times,
    reads_files,
    without_rows,
)
from hiveacid.storage.orc.statistics import is_native, stripe_ranges
from hiveacid.storage.orc.tails import event_tail, tail_of
from hiveacid.storage.plain.readers import parquet_has_types
from hiveacid.storage.plan.scan_plan import PartPlan, ScanPlan

BUCKET_ID_COLUMN: Final = "BUCKET__ID"
DELETED_ROWS: Final = "acid.fetch.deleted.rows"
FILE_IDS: Final = "insertonly.fetch.bucketid"
OWN_TYPES: Final = "hiveacid.own_types"
_PROPERTY: Final = f"{ROW_ID_COLUMN}.bucketid"
_DERIVED: Final = {
    ROW_ID_COLUMN: f"cast(null as {EXTRAS[ROW_ID_COLUMN].simpleString()})",
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
_MANY_ROWS: Final = 1_000_000
_DECIMALS_PAY: Final = 2
_FEW: Final = 0.04
"""Of so many rows, with so many columns of decimals, this part is handed over for less than Spark's
reader costs (measured.md 60)."""
_OURS: Final = re.compile(r"timestamp|date|(array|map)<.*char\(")
"""Types of Parquet files that Spark reads otherwise than Hive."""
_NUMBERS: Final = (*INTEGER_BITS, "float", "double", "date")


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
    options: Collection[str] = (),
    bytes_here: int | None = None,
) -> Rows:
    """The live rows of a plan: its columns, then the virtual ones asked for. Rows that cannot meet
    the plan's predicate may be missing. ``options``: with ``DELETED_ROWS`` deleted rows are there,
    too; with ``FILE_IDS`` rows without events have a ROW__ID, that of their file, else it is NULL;
    with ``OWN_TYPES`` Spark may read each column of an event, also those that nobody asks for.

    Plans of no more than ``bytes_here`` bytes, and those whose stripes a predicate chose, are read
    in this process where their rows are few; None reads nothing here but the tails of files.
    What Spark's readers do not know of a row, such as its file, storage's reader tells.

    Raises:
        MissingFileError, FormatError, StorageError: a file is not there, or is damaged.
        UnsupportedError: a column's type cannot be read through Spark, or its name be told to it.
    """
    table = plan.snapshot.table
    check_names(spark, table.all_columns)
    extras = _extras(table, virtual, options)
    by_file = extras - {ROW_ID_COLUMN} or (extras and table.acid_mode is not AcidMode.FULL)
    given: Given | None = None
    if bytes_here is not None:
        given = arrow_read.in_driver(spark, plan, extras=extras, bytes_max=bytes_here)
    are_here = given is not None
    if given is None and not by_file:
        given = _by_spark(
            spark, plan, plan.parts, row_ids=bool(extras), own_types=OWN_TYPES in options
        )
    elif given is None and plan.parts:
        given = arrow_read.in_workers(spark, plan, plan.parts, extras=extras)
    elif given is None:
        given = no_rows(spark, table, virtual=extras, columns=plan.columns)
    rows = Rows(spark, given, are_here)
    if not virtual and not extras:
        return rows
    return replace(rows, given=_with_virtual(rows.frame, virtual, extras))


def no_rows(
    spark: SparkSession,
    table: Table,
    *,
    virtual: Collection[str],
    columns: Sequence[str] | None = None,
    told: bool = False,
) -> DataFrame:
    """What ``read`` gives of a table without rows; ``columns`` None: all of them; ``told``: with
    their types in Hive, which stay with them in a query (``hive_type_of``).
    """
    fields = [
        t.StructField(c.name, spark_type(c.type), metadata={HIVE_TYPE: str(c.type)} if told else {})
        for c in table.all_columns
        if columns is None or c.name in columns
    ]
    kinds = {**EXTRAS, BUCKET_ID_COLUMN: t.IntegerType()}
    fields += [t.StructField(name, kind) for name, kind in kinds.items() if name in virtual]
    return without_rows(spark, t.StructType(fields))


# -------------------------------------------------------------------- the choice


def _by_spark(
    spark: SparkSession,
    plan: ScanPlan,
    parts: Sequence[PartPlan],
    *,
    row_ids: bool,
    own_types: bool = False,
) -> DataFrame | Chosen:
    native, other = _chosen(spark, plan, parts)
    extras = (ROW_ID_COLUMN,) if row_ids else ()
    frames: list[DataFrame | Chosen] = []
    if native:
        rows = partial(native_read.rows, spark, plan, native, row_ids=row_ids, own_types=own_types)
        place = plan.snapshot.table.location
        frames.append(done_by_spark(rows, at=plan.files.at, place=place))
    if other:
        frames.append(arrow_read.in_workers(spark, plan, other, extras=extras))
    if not frames:
        return no_rows(spark, plan.snapshot.table, virtual=extras, columns=plan.columns)
    return (
        frames[0] if len(frames) == 1 else reduce(lambda a, b: a.unionAll(b), map(_frame, frames))
    )


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
    columns = [column for column in table.columns if column.name in plan.columns]
    if has_events and any(column.name == events.ROW and column.type.children for column in columns):
        # what is pushed down of ``row.v`` ORC asks the statistics of this column's own ``v``
        return [], list(parts)
    utc = all("timestamp" not in str(column.type) for column in columns) or is_utc(spark)
    native: list[PartPlan] = []
    others: list[PartPlan] = []
    for part in parts:
        if not reads_files(spark, part.part.partition.location):
            others.append(part)
            continue
        if has_events:
            is_whole = not part.reduced.directory.originals
            is_whole = is_whole and all(
                _is_native(plan, part, file, utc=utc) for file in part.files
            )
            (native if is_whole else others).append(part)
            continue
        sides: tuple[list[DataFile], list[DataFile]] = ([], [])
        for file in part.files:
            if file.size_bytes:
                sides[not _is_native(plan, part, file, utc=utc)].append(file)
        for files, side in zip(sides, (native, others), strict=True):
            side += [part.only(files)] if files else []
    return native, others


def _is_native(plan: ScanPlan, part: PartPlan, file: DataFile, *, utc: bool) -> bool:
    """Whether Spark's own reader reads a file as Hive does.

    Of row events: bucket files of full length, with the table's columns. Text never: Spark has no
    reader of Hive's rows. Parquet unless there are times, which each writer stores in its own
    calendar and zone, texts in lists, which Hive cuts to their length, or types that were changed.
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
    ours = any(_OURS.search(str(column.type)) for column in table.columns)
    if table.format is not FileFormat.PARQUET or ours:
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
    if some_stripes and plan.amount.bytes * _STRIPES_PAY <= size:
        return True
    return plan.amount.rows >= _MANY_ROWS and _is_left_to_few(plan, parts)


def _is_left_to_few(plan: ScanPlan, parts: Sequence[PartPlan]) -> bool:
    """Whether decimals are most of the work, and few rows are likely to be left: Arrow decodes and
    compares a decimal for a fraction of what it costs Spark, and texts for more; each row that is
    handed over costs again.
    """
    table = plan.snapshot.table
    kinds = [column.type for column in table.columns if column.name in plan.columns]
    decimals = sum(isinstance(kind, DecimalType) for kind in kinds)
    is_plain = all(is_decimal_or(_NUMBERS, kind) for kind in kinds)
    if decimals < _DECIMALS_PAY or not is_plain or any(part.delete_files for part in parts):
        return False
    part = max(parts, key=lambda part: part.amount.bytes)
    file = max(part.files, key=attrgetter("size_bytes"))
    tail = tail_of(*plan.files.at(part.part.partition.location), file)
    predicate = part.selection.predicate
    ranges = stripe_ranges(tail, table.columns, columns_of(predicate)) or ({},)
    return fmean(likely_share(predicate, one) for one in ranges) <= _FEW


# -------------------------------------------------------------------- columns


def _extras(table: Table, virtual: Collection[str], options: Collection[str]) -> set[str]:
    """What storage's reader, or for ROW__ID of events Spark's, is to give with the columns."""
    is_full, extras = table.acid_mode is AcidMode.FULL, {FILE_NAME_COLUMN}.intersection(virtual)
    needs_ids = not {ROW_ID_COLUMN, BUCKET_ID_COLUMN}.isdisjoint(virtual)
    if needs_ids and (is_full or FILE_IDS in options):
        extras.add(ROW_ID_COLUMN)
    if is_full and DELETED_ROWS in options:
        extras.add(IS_DELETED_COLUMN)
    return extras


def _with_virtual(rows: DataFrame, wanted: Collection[str], extras: Collection[str]) -> DataFrame:
    """``rows``, which have ``extras``, with the virtual columns wanted and no others."""
    needed = {*wanted, ROW_ID_COLUMN} if BUCKET_ID_COLUMN in wanted else wanted
    for name, text in _DERIVED.items():
        if name in needed and name not in extras:
            rows = rows.selectExpr("*", f"{text} as {name}")
    surplus = {*needed, *extras}.difference(wanted)
    return rows.drop(*surplus) if surplus else rows

"""A planned snapshot as a DataFrame: the only place that reads ACID ORC through Spark.

The six event columns are read with Spark's own vectorised ORC reader. The ORC library recognises
their names and fails on any narrower root schema, so every read is pinned: a filter that is always
true and mentions the five system columns and one cheap leaf of ``row`` keeps them all in the read
schema, and nested column pruning then works for the rest (docs/measured.md).

Files are given one by one, never as directories: Spark lists again, and a delete file that went
missing between our listing and Spark's must be an error, not rows that come back.

What Spark's reader cannot do, and what others do faster, goes through storage's ``merge_read``:
few rows at once, without a job (``local_scan``); else in ``mapInArrow`` (``arrow_scan``): original
files and raw deltas (their row ids are positions), streaming files with a logical length, tables
whose files may name their columns otherwise (Spark finds fields of ``row`` by name, Hive by
position), a few stripes of large files, very many small files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pyspark.sql import functions as F
from pyspark.sql import types as t

from hiveacid.layout import events
from hiveacid.layout.snapshot import DataFile, Snapshot, SnapshotPart
from hiveacid.model.tables import AcidMode, Column, Partition, Table
from hiveacid.model.types import HiveType, ListType, MapType, StructType, UnionType
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.spark import arrow_scan, deletes, plain_scan
from hiveacid.spark.assign import key_value
from hiveacid.spark.conf import is_utc, session_conf
from hiveacid.spark.driver_rows import given_rows, without_rows
from hiveacid.spark.failures import FOREIGN_FILE_MARK
from hiveacid.spark.plain_scan import (
    LISTING,
    file_reader,
    join,
    load,
    partition_literals,
    spark_path,
)
from hiveacid.spark.text import quoted
from hiveacid.spark.types import spark_type
from hiveacid.storage.orc.native import is_native
from hiveacid.storage.orc.tails import event_tail
from hiveacid.storage.plan.scan_plan import PartPlan, ScanPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

ROW_ID_COLUMN: Final = "ROW__ID"
ROW_ID_TYPE: Final = t.StructType(
    [
        t.StructField("writeid", t.LongType()),
        t.StructField("bucketid", t.IntegerType()),
        t.StructField("rowid", t.LongType()),
    ]
)


_SMALL_FILES: Final = 1000
"""From so many files on, what counts is their number, if they are small on average."""
_SMALL_FILE_BYTES: Final = 1 << 20
_STRIPES_PAY: Final = 4
"""Reading chosen stripes through Arrow costs at most so much more a byte than Spark's reader."""
_LITERAL_PARTITIONS: Final = 32
"""More partitions than this are one relation, joined with their values by file name."""
_PATH: Final = "__hiveacid_path"


def scan(spark: SparkSession, plan: ScanPlan, *, row_ids: bool = False) -> DataFrame:
    """The live rows of a plan: its columns, then ``ROW__ID`` if asked for. Rows that cannot meet
    the plan's predicate may be missing.

    Lazy, but for the footers of files, which are read here. A plan that leaves over few rows is
    better read by ``local_scan``: callers ask that first.

    Raises:
        MissingFileError, FormatError: a delete file is not there, or is damaged.
        UnsupportedError: a column's type cannot be read through Spark, or row ids of a table
        without them.
    """
    table = plan.snapshot.table
    parts = [part for part in plan.parts if any(file.size_bytes for file in part.files)]
    if not parts:
        empty = result_schema(table, row_ids=row_ids, columns=plan.columns)
        return without_rows(spark, empty)
    if table.acid_mode is not AcidMode.FULL:
        frame = plain_scan.scan(spark, table, [part.reduced for part in parts], files=plan.files)
        return frame.select(*map(quoted, plan.columns))
    read = [column for column in table.columns if column.name in plan.columns]
    utc = all("timestamp" not in str(column.type) for column in read) or is_utc(spark)
    arrow = _is_better_through_arrow(plan, parts)
    other = [p for p in parts if arrow or not _is_native(plan, p.reduced, utc=utc)]
    apart = {part.part.partition.values for part in other}
    native = [part.reduced for part in parts if part.part.partition.values not in apart]
    frames = []
    if native:
        frames.append(_native(spark, plan, native, row_ids=row_ids))
    if other:
        frames.append(arrow_scan.scan(spark, plan, other, row_ids=row_ids))
    return reduce(lambda a, b: a.unionAll(b), frames)


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


def result_schema(
    table: Table, *, row_ids: bool, columns: Sequence[str] | None = None
) -> t.StructType:
    """The schema of ``scan`` of some columns (None: all)."""
    fields = [
        t.StructField(c.name, spark_type(c.type))
        for c in table.all_columns
        if columns is None or c.name in columns
    ]
    if row_ids:
        fields.append(t.StructField(ROW_ID_COLUMN, ROW_ID_TYPE))
    return t.StructType(fields)


def _native(
    spark: SparkSession, plan: ScanPlan, parts: Sequence[SnapshotPart], *, row_ids: bool
) -> DataFrame:
    snapshot = plan.snapshot
    table = snapshot.table
    numbers = {part.partition.values: index for index, part in enumerate(snapshot.parts)}
    groups = [(p.partition, p.directory.row_files) for p in parts]
    rows = _read_events(spark, table, groups, numbers=numbers)
    rows = _live(rows, snapshot, parts, operation=events.Operation.INSERT)
    deleting = [part for part in parts if part.directory.delete_deltas]
    if deleting:
        rows = _filter_deleted(spark, plan, rows, deleting)
    return rows.selectExpr(*_output(plan, row_ids=row_ids))


def _live(
    rows: DataFrame,
    snapshot: Snapshot,
    parts: Sequence[SnapshotPart],
    *,
    operation: events.Operation,
) -> DataFrame:
    """The events of valid write ids, read with all root columns."""
    rows = rows.where(_pin(snapshot.table, operation=operation))
    visible = _visible(snapshot, parts, delete=operation is events.Operation.DELETE)
    return rows if visible is None else rows.where(visible)


def _output(plan: ScanPlan, *, row_ids: bool) -> list[str]:
    data = {column.name for column in plan.snapshot.table.columns}
    columns = [
        f"{quoted(events.ROW, name)} as {quoted(name)}" if name in data else quoted(name)
        for name in plan.columns
    ]
    if row_ids:
        columns.append(
            f"named_struct('writeid', {events.ORIGINAL_TRANSACTION}, 'bucketid', {events.BUCKET},"
            f" 'rowid', {events.ROW_ID}) as {ROW_ID_COLUMN}"
        )
    return columns


def _filter_deleted(
    spark: SparkSession, plan: ScanPlan, rows: DataFrame, parts: Sequence[SnapshotPart]
) -> DataFrame:
    snapshot = plan.snapshot
    table = snapshot.table
    groups = [(p.partition, [f for d in p.directory.delete_deltas for f in d.files]) for p in parts]
    known = deletes.read_delete_events(
        plan.files.at(join(partition.location, file.path))
        for partition, files in groups
        for file in files
    )
    if known.rows == 0:
        return rows
    numbers = {part.partition.values: index for index, part in enumerate(snapshot.parts)}
    gone = _read_events(spark, table, groups, numbers=numbers)
    gone = _live(gone, snapshot, parts, operation=events.Operation.DELETE)
    return deletes.without_deleted(rows, gone, known=known)


def _read_events(
    spark: SparkSession,
    table: Table,
    groups: Sequence[tuple[Partition, Sequence[DataFile]]],
    *,
    numbers: Mapping[tuple[str | None, ...], int],
) -> DataFrame:
    """The six event columns, the partition columns and, in a partitioned table, the partition's
    number.

    One relation for each partition, with its values as literals: Spark appends partition columns
    that it finds in paths to the schema it gives the ORC reader, which then is not the six columns
    any more. A filter on partition columns removes the relations that it does not need.
    """
    row = t.StructType([t.StructField(c.name, spark_type(c.type)) for c in table.columns])
    schema = t.StructType(
        [
            t.StructField(events.OPERATION, t.IntegerType()),
            t.StructField(events.ORIGINAL_TRANSACTION, t.LongType()),
            t.StructField(events.BUCKET, t.IntegerType()),
            t.StructField(events.ROW_ID, t.LongType()),
            t.StructField(events.CURRENT_TRANSACTION, t.LongType()),
            t.StructField(events.ROW, row),
        ]
    )
    reader = file_reader(spark, schema).format("orc")
    with session_conf(spark, LISTING):
        if len(groups) > _LITERAL_PARTITIONS:
            return _joined(spark, table, reader, groups, numbers=numbers)
        frames = []
        for partition, files in groups:
            frame = load(reader, _paths(partition, files))
            if table.partition_columns:
                number = f"{numbers[partition.values]}L as {deletes.PART}"
                frame = frame.selectExpr("*", *partition_literals(table, partition), number)
            frames.append(frame)
    return reduce(lambda a, b: a.unionAll(b), frames)


def _paths(partition: Partition, files: Iterable[DataFile]) -> list[str]:
    return [spark_path(join(partition.location, file.path)) for file in files]


def _joined(
    spark: SparkSession,
    table: Table,
    reader: DataFrameReader,
    groups: Sequence[tuple[Partition, Sequence[DataFile]]],
    *,
    numbers: Mapping[tuple[str | None, ...], int],
) -> DataFrame:
    """Files of many partitions as one relation; a broadcast join by file name gives the values.

    A union of as many relations takes Spark longer to plan than to run.
    """
    places = {path: partition for partition, files in groups for path in _paths(partition, files)}
    frame = load(reader, list(places))
    by_path = {_plain_path(path): partition for path, partition in places.items()}
    rows = []
    for name in frame.inputFiles():
        partition = by_path[_plain_path(unquote(name))]
        facts = (numbers[partition.values], *partition.values)
        # what a row says of its file has one slash where this has three
        rows += [(spelled, *facts) for spelled in {name, name.replace("file:///", "file:/", 1)}]
    texts = [f"{_PATH}_{number}" for number in range(len(table.partition_columns))]
    known = t.StructType(
        [
            t.StructField(_PATH, t.StringType()),
            t.StructField(deletes.PART, t.LongType()),
            *(t.StructField(text, t.StringType()) for text in texts),
        ]
    )
    values = given_rows(spark, rows, known).selectExpr(
        _PATH,
        *[
            f"{key_value(text, c)} as {quoted(c.name)}"
            for c, text in zip(table.partition_columns, texts, strict=True)
        ],
        deletes.PART,
    )
    frame = frame.selectExpr("*", f"_metadata.file_path as {_PATH}")
    return frame.join(F.broadcast(values), _PATH).drop(_PATH)


def _plain_path(name: str) -> str:
    """The path of a URI, which Spark writes with one slash or three after the scheme."""
    return "/" + name.partition(":")[2].lstrip("/") if ":" in name.partition("/")[0] else name


def _pin(table: Table, *, operation: events.Operation) -> str:
    """True on a healthy file, an error on events of another kind (update events of Hive before 3).

    It names all five system columns and one leaf of the row, which keeps all six root columns in
    the read schema, and decides by the first two: a count over the pin costs twice a count over
    a flat file. One expression, not a conjunction, so that Spark has nothing to push down to the
    ORC reader, which would evaluate it and prune nothing.
    """
    leaf = quoted(events.ROW, *_cheap_leaf(table.columns))
    wrong = f"{FOREIGN_FILE_MARK}: no {operation.name.lower()} event where {table.name} holds them"
    return (
        f"case when {events.OPERATION} = {int(operation)} then coalesce("
        f"{events.ORIGINAL_TRANSACTION}, cast({events.BUCKET} as bigint), {events.ROW_ID},"
        f" {events.CURRENT_TRANSACTION}, case when {leaf} is not null then 1L end)"
        f" else cast(raise_error('{wrong}') as bigint) end is not null"
    )


def _cheap_leaf(columns: Sequence[Column]) -> tuple[str, ...]:
    """The path of a leaf that costs little to read: a narrow fixed-width column where there is
    one.
    """

    def cost(kind: HiveType) -> int:
        if isinstance(kind, ListType | MapType | StructType | UnionType):
            return len(_LEAF_COST) + 1
        return _LEAF_COST.get(str(kind), len(_LEAF_COST))

    best = min(columns, key=lambda column: cost(column.type))
    path, kind = [best.name], best.type
    while isinstance(kind, StructType):
        name, kind = min(kind.fields, key=lambda field: cost(field[1]))
        path.append(name)
    return tuple(path)


_LEAF_COST: Final = {
    name: index
    for index, name in enumerate(
        ("boolean", "tinyint", "smallint", "int", "date", "bigint", "float", "double")
    )
}


def _visible(snapshot: Snapshot, parts: Sequence[SnapshotPart], *, delete: bool) -> str | None:
    """currentTransaction is a valid write id; None where every delta's range is valid as a whole
    (format.md 4.3).
    """
    mixed = [
        delta.name
        for part in parts
        for delta in part.directory.deltas
        if delta.name.is_delete is delete and not delta.all_valid
    ]
    if not mixed:
        return None
    valid: ValidWriteIdList = snapshot.valid
    low = min(name.min_write_id for name in mixed)
    high = max(name.max_write_id for name in mixed)
    seen = f"{events.CURRENT_TRANSACTION} <= {valid.hwm}L"
    hidden = ", ".join(f"{w}L" for w in valid.exceptions if low <= w <= high)
    return f"{seen} and {events.CURRENT_TRANSACTION} not in ({hidden})" if hidden else seen


def _is_native(plan: ScanPlan, part: SnapshotPart, *, utc: bool) -> bool:
    """Whether Spark's reader can read every file: ACID bucket files of full length, with the
    table's columns.
    """
    columns, place = plan.snapshot.table.columns, plan.files.at(part.partition.location)
    return not part.directory.originals and all(
        file.is_bucket_file
        and file.size_bytes > 0
        and file.logical_bytes in (None, file.size_bytes)
        and is_native(event_tail(*place, file), columns, utc=utc, wanted=plan.columns)
        for file in part.directory.row_files
    )

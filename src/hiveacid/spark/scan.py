"""A snapshot as a DataFrame: the only place that reads ACID ORC through Spark.

The six event columns are read with Spark's own vectorised ORC reader. The ORC library recognises
their names and fails on any narrower root schema, so every read is pinned: a filter that is always
true and mentions the five system columns and one cheap leaf of ``row`` keeps them all in the read
schema, and nested column pruning then works for the rest (docs/ARCHITECTURE.md, facts that force
the design).

Files are given one by one, never as directories: Spark lists again, and a delete file that went
missing between our listing and Spark's must be an error, not rows that come back.

What Spark's reader cannot do goes through storage's ``merge_read`` in ``mapInArrow``, partition by
partition: original files and raw deltas (their row ids are positions), streaming files with a
logical length, tables whose files may name their columns otherwise (Spark finds fields of ``row``
by name, Hive by position).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as t

from hiveacid.layout import events
from hiveacid.layout.snapshot import AcidDirectory, DataFile, Snapshot, SnapshotPart
from hiveacid.model.tables import AcidMode, Column, Partition, Table
from hiveacid.model.types import HiveType, ListType, MapType, StructType, UnionType
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.spark import arrow_scan, deletes, plain_scan
from hiveacid.spark.conf import session_conf
from hiveacid.spark.failures import FOREIGN_FILE_MARK
from hiveacid.spark.plain_scan import (
    LISTING,
    file_reader,
    join,
    load,
    partition_literals,
    row_files,
    spark_path,
)
from hiveacid.spark.text import quoted
from hiveacid.spark.types import spark_type
from hiveacid.storage.filesystem import file_system_for
from hiveacid.storage.verify import check_event_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW_ID_COLUMN: Final = "ROW__ID"
ROW_ID_TYPE: Final = t.StructType(
    [
        t.StructField("writeid", t.LongType()),
        t.StructField("bucketid", t.IntegerType()),
        t.StructField("rowid", t.LongType()),
    ]
)


def scan(spark: SparkSession, snapshot: Snapshot, *, row_ids: bool = False) -> DataFrame:
    """The live rows of a snapshot: data columns, partition columns, then ``ROW__ID`` if asked for.

    Lazy, but for the footers of delete files, which are read here.

    Raises:
        MissingFileError, FormatError: a delete file is not there, or is damaged.
        UnsupportedError: a column's type cannot be read through Spark, or row ids of a table
        without them.
    """
    table = snapshot.table
    parts = [part for part in snapshot.parts if _has_rows(part.directory)]
    if table.acid_mode is not AcidMode.FULL:
        frames = [plain_scan.scan(spark, table, parts)] if parts else []
    else:
        by_name = not table.is_read_by_position
        native = [part for part in parts if by_name and _is_native(part.directory)]
        other = [part for part in parts if part not in native]
        frames = [_native(spark, snapshot, native, row_ids=row_ids)] if native else []
        if other:
            frames.append(arrow_scan.scan(spark, snapshot, other, row_ids=row_ids))
    if not frames:
        return spark.createDataFrame([], result_schema(table, row_ids=row_ids))
    return reduce(lambda a, b: a.unionAll(b), frames)


def result_schema(table: Table, *, row_ids: bool) -> t.StructType:
    """The schema of ``scan``."""
    fields = [t.StructField(c.name, spark_type(c.type)) for c in table.all_columns]
    if row_ids:
        fields.append(t.StructField(ROW_ID_COLUMN, ROW_ID_TYPE))
    return t.StructType(fields)


def _native(
    spark: SparkSession, snapshot: Snapshot, parts: Sequence[SnapshotPart], *, row_ids: bool
) -> DataFrame:
    table = snapshot.table
    numbers = {part.partition.values: index for index, part in enumerate(snapshot.parts)}
    groups = [(p.partition, row_files(p.directory)) for p in parts]
    for partition, files in groups:
        for file in files:
            check_event_file(partition.location, file)
    rows = _read_events(spark, table, groups, numbers=numbers)
    rows = _live(rows, snapshot, parts, operation=events.Operation.INSERT)
    deleting = [part for part in parts if part.directory.delete_deltas]
    if deleting:
        rows = _filter_deleted(spark, snapshot, rows, deleting)
    return rows.selectExpr(*_output(table, row_ids=row_ids))


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


def _output(table: Table, *, row_ids: bool) -> list[str]:
    columns = [f"{quoted(events.ROW, c.name)} as {quoted(c.name)}" for c in table.columns]
    columns += [quoted(c.name) for c in table.partition_columns]
    if row_ids:
        columns.append(
            f"named_struct('writeid', {events.ORIGINAL_TRANSACTION}, 'bucketid', {events.BUCKET},"
            f" 'rowid', {events.ROW_ID}) as {ROW_ID_COLUMN}"
        )
    return columns


def _filter_deleted(
    spark: SparkSession, snapshot: Snapshot, rows: DataFrame, parts: Sequence[SnapshotPart]
) -> DataFrame:
    table = snapshot.table
    groups = [(p.partition, [f for d in p.directory.delete_deltas for f in d.files]) for p in parts]
    fs, _ = file_system_for(table.location)
    paths = [
        join(file_system_for(partition.location)[1], file.path)
        for partition, files in groups
        for file in files
    ]
    known = deletes.read_delete_events(fs, paths)
    if known.rows == 0:
        return rows
    numbers = {part.partition.values: index for index, part in enumerate(snapshot.parts)}
    gone = _read_events(spark, table, groups, numbers=numbers)
    gone = _live(gone, snapshot, parts, operation=events.Operation.DELETE)
    return deletes.without_deleted(rows, gone, known=known)


def _read_events(
    spark: SparkSession,
    table: Table,
    groups: Iterable[tuple[Partition, Sequence[DataFile]]],
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
    frames = []
    with session_conf(spark, LISTING):
        for partition, files in groups:
            paths = [spark_path(join(partition.location, file.path)) for file in files]
            frame = load(file_reader(spark, schema).format("orc"), paths)
            if table.partition_columns:
                number = f"{numbers[partition.values]}L as {deletes.PART}"
                frame = frame.selectExpr("*", *partition_literals(table, partition), number)
            frames.append(frame)
    return reduce(lambda a, b: a.unionAll(b), frames)


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


def _has_rows(directory: AcidDirectory) -> bool:
    return any(file.size_bytes > 0 for file in row_files(directory))


def _is_native(directory: AcidDirectory) -> bool:
    """Whether Spark's reader can read every file: ACID bucket files of full length."""
    return not directory.originals and all(
        file.path.rpartition("/")[2].startswith("bucket_")
        and file.size_bytes > 0
        and file.logical_bytes in (None, file.size_bytes)
        for file in row_files(directory)
    )

"""Files that Spark's own readers read: row events in ORC, and rows of tables without them.

Event files are read with Spark's vectorised ORC reader. The ORC library knows them by the names of
their six columns, and breaks where the schema that it is given has fewer. So Spark is made to give
it all six, and beside them the numbers of those to decode, as it does for files whose columns it
takes by position (``_BY_NUMBER``; docs/measured.md 1 and 42).

Files are given one by one, never as directories: Spark lists again, and a delete file that went
missing between our listing and Spark's must be an error, not rows that come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final
from urllib.parse import unquote

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from hiveacid.layout import events
from hiveacid.layout.directories import DataFile, Snapshot, SnapshotPart, partition_name
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import AcidMode, Column, FileFormat, Partition, Table
from hiveacid.model.types import CharType, HiveType, StructType, VarcharType
from hiveacid.spark.assign import keys_from, spark_type
from hiveacid.spark.delete_filter import (
    IDENTITY,
    PART,
    not_pushed,
    read_delete_events,
    read_marks,
    without_deleted,
    without_marked,
)
from hiveacid.spark.failures import FOREIGN_FILE_MARK
from hiveacid.spark.scan_size import rest_of
from hiveacid.spark.session import (
    ROW_ID_COLUMN,
    Chosen,
    constant,
    given_rows,
    kept,
    no_glob,
    quoted,
    session_conf,
    spark_path,
)
from hiveacid.storage.plan.scan_plan import PartPlan, ScanPlan

_LISTING: Final = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "100000"}
"""The files are known: Spark must not start a job to look at them."""
_LISTED_AT_ONCE: Final = 32
"""So many it looks at without a job by default."""
_LITERAL_PARTITIONS: Final = 32
"""More partitions than this are one relation, joined with their values by file name."""
_DELETES_KEPT_MAX: Final = 1 << 20
"""Bytes of delete files; Spark's driver has up to some ten times as many for each query kept."""
_CASTS_BY: Final = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
"""Settings that Spark binds to a cast, as of a partition's text, when it analyses it."""
_EVENT_FILES: Final = "org.apache.spark.sql.execution.datasources.orc.OrcFileFormat"
"""By its class: what the session calls "orc" may be another reader, which cannot read them so."""
_BY_NUMBER: Final = {
    "orc.include.columns": "true",
    "orc.force.positional.evolution": "${orc.include.columns}",
}
"""Spark, which finds "true" in the second, hands over all columns of the schema and the numbers of
those that it needs. It writes these in the place of the first: so ORC, which looks at the second
later, finds no "true" in it, and looks the fields of ``row`` up by their names."""
_GUARD: Final = t.StructField(
    "__hiveacid_guard", t.MapType(t.BinaryType(), t.ArrayType(t.BooleanType()))
)
"""The first field of ``row``. No file has it, nobody asks for it, and Spark leaves it out like all
that nobody asks for. Should it ever do so without telling ORC, each field would have the values of
the one before: the first that is read would be this map, of which Spark makes an error."""
_FLOATING: Final = ("float", "double")
_PATH: Final = "__hiveacid_path"
_KEY: Final = "__hiveacid_key_"


def rows(
    spark: SparkSession,
    plan: ScanPlan,
    parts: Sequence[PartPlan],
    *,
    row_ids: bool,
    own_types: bool,
) -> DataFrame | Chosen:
    """The live rows of parts of a plan, in the order of its columns, then ``ROW__ID`` if asked
    for; with ``own_types`` Spark may read each column of an event (``rest_of`` says why not else).

    Raises:
        MissingFileError, FormatError: a delete file is not there, or is damaged.
    """
    reduced = [part.reduced for part in parts]
    if plan.snapshot.table.acid_mode is not AcidMode.FULL:
        return _plain(spark, plan.snapshot.table, reduced).select(*map(quoted, plan.columns))
    return _events(spark, plan, reduced, row_ids=row_ids, own_types=own_types)


# -------------------------------------------------------------------- rows without events


def _plain(spark: SparkSession, table: Table, parts: Sequence[SnapshotPart]) -> DataFrame:
    """All columns of the table.

    Partitions where their names say they are, are read in one relation: Spark takes the texts of
    their values from the path. As a decimal it would read ``p=1.5`` with the digits of 15.
    """
    format = table.format.value
    schema = t.StructType([t.StructField(c.name, spark_type(c.type)) for c in table.columns])
    in_place: list[str] = []
    frames: list[DataFrame] = []
    keys = table.partition_keys
    with_keys = t.StructType(schema.fields + [t.StructField(key, t.StringType()) for key in keys])
    for part in parts:
        partition = part.partition
        paths = _paths(partition, part.directory.row_files)
        if keys and partition.location != join(
            table.location, partition_name(keys, partition.values)
        ):
            frame = _load(spark, _reader(spark, schema).format(format), paths)
            values = _literals(table.partition_columns, partition)
            frames.append(frame.selectExpr(*_values(table), *values))
        else:
            in_place += paths
    if in_place:
        reader = _reader(spark, with_keys)
        if keys:
            reader = reader.option("basePath", spark_path(table.location))
        frame = _load(spark, reader.format(format), in_place)
        values = keys_from(table.partition_columns, list(map(quoted, keys)))
        frames.append(frame.selectExpr(*_values(table), *values))
    return reduce(lambda a, b: a.unionAll(b), frames)


def _values(table: Table) -> list[str]:
    """The columns as select expressions. Conditions on floating numbers, in structs too, stay with
    Spark: for its readers of files -0.0 is less than 0.0, and those of Parquet do not know NaN.
    Texts of Parquet files, which say nothing of lengths, are cut, as Hive does it.
    """
    cut, names = table.format is FileFormat.PARQUET, [quoted(c.name) for c in table.columns]
    values = [_value(n, c.type, cut=cut) for n, c in zip(names, table.columns, strict=True)]
    return [f"{value} as {name}" for name, value in zip(names, values, strict=True)]


def _value(value: str, kind: HiveType, *, cut: bool) -> str:
    if str(kind) in _FLOATING:
        return f"nanvl({value}, {value})"
    if cut and isinstance(kind, CharType | VarcharType):
        text = f"substring({value}, 1, {kind.length})"
        return f"rtrim({text})" if isinstance(kind, CharType) else text
    if not isinstance(kind, StructType):
        return value
    parts = [(name, f"{value}.{quoted(name)}", inner) for name, inner in kind.fields]
    fields = [(name, part, _value(part, inner, cut=cut)) for name, part, inner in parts]
    if all(part == text for _, part, text in fields):
        return value
    listed = ", ".join(f"{constant(name)}, {text}" for name, _, text in fields)
    return f"if({value} is null, null, named_struct({listed}))"


# -------------------------------------------------------------------- row events


def _events(
    spark: SparkSession,
    plan: ScanPlan,
    parts: Sequence[SnapshotPart],
    *,
    row_ids: bool,
    own_types: bool,
) -> DataFrame | Chosen:
    deleting = [part for part in parts if part.directory.delete_deltas]
    clean = [part for part in parts if not part.directory.delete_deltas]
    output = _output(plan, row_ids=row_ids)
    frames = []
    if clean:
        frame, where = _event_rows(spark, plan, clean, own_types=own_types)
        chosen = Chosen(frame, output, where)
        if output and not deleting:
            return chosen
        frames.append(chosen.rows())
    if deleting:
        frames.append(_left_over(spark, plan, deleting, output, own_types=own_types))
    return reduce(lambda a, b: a.unionAll(b), frames)


def _left_over(
    spark: SparkSession,
    plan: ScanPlan,
    parts: Sequence[SnapshotPart],
    output: Sequence[str],
    *,
    own_types: bool,
) -> DataFrame:
    """What deletes leave over of parts; kept for the next query of the same files where few bytes
    tell what is deleted.
    """

    def made() -> DataFrame:
        frame, where = _event_rows(spark, plan, parts, own_types=own_types)
        return _filter_deleted(spark, plan, frame.where(where), parts).selectExpr(*output)

    snapshot, numbers = plan.snapshot, _numbers(plan.snapshot)
    known: list[tuple[str, int, int]] = []
    size = 0
    for part in parts:
        gone = part.directory.delete_files
        size += sum(file.size_bytes for file in gone)
        files = (*part.directory.row_files, *gone)
        paths = _paths(part.partition, files)
        known += [(p, f.length_bytes, f.modified_ns) for p, f in zip(paths, files, strict=True)]
    if size > _DELETES_KEPT_MAX:
        return made()
    places = tuple((numbers[p.partition.values], p.partition.values) for p in parts)
    settings = tuple(spark.conf.get(name) for name in _CASTS_BY)
    columns = (snapshot.table.all_columns, plan.columns, tuple(output), own_types)
    return kept(spark, (*columns, settings, str(snapshot.valid), places), known, made)


def _event_rows(
    spark: SparkSession, plan: ScanPlan, parts: Sequence[SnapshotPart], *, own_types: bool
) -> tuple[DataFrame, str]:
    """The events of files with rows, and which of them count if nobody deleted them."""
    snapshot = plan.snapshot
    numbers = _numbers(snapshot)
    groups = [(p.partition, p.directory.row_files) for p in parts]
    columns = snapshot.table.columns
    read = [column for column in columns if column.name in plan.columns]
    rest = t.IntegerType() if own_types else rest_of(columns, read)
    rows = _read_events(
        spark, snapshot.table, groups, columns=read, operation=rest, numbers=numbers
    )
    return rows, _visible(snapshot, parts, delete=False)


def _numbers(snapshot: Snapshot) -> Mapping[tuple[str | None, ...], int]:
    """What partitions are called in the column ``PART``."""
    return {part.partition.values: index for index, part in enumerate(snapshot.parts)}


def _output(plan: ScanPlan, *, row_ids: bool) -> list[str]:
    data = {column.name for column in plan.snapshot.table.columns}
    columns = [
        f"{quoted(events.ROW, name) if name in data else quoted(_KEY + name)} as {quoted(name)}"
        for name in plan.columns
    ]
    if row_ids:
        write_id, bucket, row_id = map(not_pushed, IDENTITY)
        columns.append(
            f"named_struct('writeid', {write_id}, 'bucketid', {bucket}, 'rowid', {row_id})"
            f" as {ROW_ID_COLUMN}"
        )
    return columns


def _filter_deleted(
    spark: SparkSession, plan: ScanPlan, rows: DataFrame, parts: Sequence[SnapshotPart]
) -> DataFrame:
    snapshot = plan.snapshot
    numbers = _numbers(snapshot)
    marks = read_marks(plan, {numbers[part.partition.values]: part for part in parts})
    if marks is not None:
        return without_marked(spark, rows, marks)
    known = read_delete_events(
        plan.files.at(join(part.partition.location, file.path))
        for part in parts
        for file in part.directory.delete_files
    )
    if known.rows == 0:
        return rows
    groups = [(part.partition, part.directory.delete_files) for part in parts]
    gone = _read_events(
        spark, snapshot.table, groups, columns=(), operation=t.IntegerType(), numbers=numbers
    )
    gone = gone.where(_visible(snapshot, parts, delete=True)).where(_is_delete(snapshot.table))
    parts_deleted = [numbers[part.partition.values] for part in parts]
    return without_deleted(rows, gone, known=known, parts=parts_deleted)


def _read_events(
    spark: SparkSession,
    table: Table,
    groups: Sequence[tuple[Partition, Sequence[DataFile]]],
    *,
    columns: Iterable[Column],
    operation: t.DataType,
    numbers: Mapping[tuple[str | None, ...], int],
) -> DataFrame:
    """The six event columns, of ``row`` some columns of the table, the partition columns and, in a
    partitioned table, the partition's number. A column that nobody reads may have any type here.

    One relation for each partition, with its values as literals: Spark appends partition columns
    that it finds in paths to the schema it gives the ORC reader, which then is not the six columns
    any more. A filter on partition columns removes the relations that it does not need.
    """
    schema = t.StructType(
        [
            t.StructField(events.OPERATION, operation),
            t.StructField(events.ORIGINAL_TRANSACTION, t.LongType()),
            t.StructField(events.BUCKET, t.IntegerType()),
            t.StructField(events.ROW_ID, t.LongType()),
            t.StructField(events.CURRENT_TRANSACTION, t.LongType()),
            t.StructField(events.ROW, t.StructType([_GUARD, *_fields(columns)])),
        ]
    )
    if len(groups) > _LITERAL_PARTITIONS:
        return _joined(spark, table, schema, groups, numbers=numbers)
    frames = []
    for partition, files in groups:
        frame = _relation(spark, schema, partition, files)
        if table.partition_columns:
            number = f"{numbers[partition.values]}L as {PART}"
            frame = frame.selectExpr("*", *_literals(_keys(table), partition), number)
        frames.append(frame)
    return reduce(lambda a, b: a.unionAll(b), frames)


def _relation(
    spark: SparkSession, schema: t.StructType, partition: Partition, files: Sequence[DataFile]
) -> DataFrame:
    """Files of a partition as Spark has them, or had them for a query before."""
    paths = _paths(partition, files)
    known = [(path, f.size_bytes, f.modified_ns) for path, f in zip(paths, files, strict=True)]

    def load() -> DataFrame:
        return _load(spark, _event_reader(spark, schema), paths)

    return kept(spark, schema.json(), known, load)


def _paths(partition: Partition, files: Iterable[DataFile]) -> list[str]:
    return [spark_path(join(partition.location, file.path)) for file in files]


def _joined(
    spark: SparkSession,
    table: Table,
    schema: t.StructType,
    groups: Sequence[tuple[Partition, Sequence[DataFile]]],
    *,
    numbers: Mapping[tuple[str | None, ...], int],
) -> DataFrame:
    """Files of many partitions as one relation; a broadcast join by file name gives the values.

    A union of as many relations takes Spark longer to plan than to run.
    """
    places = {path: partition for partition, files in groups for path in _paths(partition, files)}
    frame = _load(spark, _event_reader(spark, schema), list(places))
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
            t.StructField(PART, t.LongType()),
            *(t.StructField(text, t.StringType()) for text in texts),
        ]
    )
    values = given_rows(spark, rows, known).selectExpr(_PATH, *keys_from(_keys(table), texts), PART)
    frame = frame.selectExpr("*", f"_metadata.file_path as {_PATH}")
    return frame.join(F.broadcast(values), _PATH).drop(_PATH)


def _plain_path(name: str) -> str:
    """The path of a URI, which Spark writes with one slash or three after the scheme."""
    return "/" + name.partition(":")[2].lstrip("/") if ":" in name.partition("/")[0] else name


def _fields(columns: Iterable[Column]) -> t.StructType:
    return t.StructType([t.StructField(c.name, spark_type(c.type)) for c in columns])


def _is_delete(table: Table) -> str:
    """True of an event of a delete file; another kind there is an error. Of files with rows the
    tails have proved that they hold inserts only, of delete files nobody has.
    """
    wrong = f"{FOREIGN_FILE_MARK}: no delete event where {table.name} holds them"
    return (
        f"case when {events.OPERATION} = {int(events.Operation.DELETE)} then true"
        f" else cast(raise_error('{wrong}') as boolean) end"
    )


def _visible(snapshot: Snapshot, parts: Sequence[SnapshotPart], *, delete: bool) -> str:
    """Which events count: those whose currentTransaction is a valid write id; all where every
    delta's range is valid as a whole (format.md 4.3).
    """
    mixed = [
        delta.name
        for part in parts
        for delta in part.directory.deltas
        if delta.name.is_delete is delete and not delta.all_valid
    ]
    if not mixed:
        return "true"
    valid: ValidWriteIdList = snapshot.valid
    low = min(name.min_write_id for name in mixed)
    high = max(name.max_write_id for name in mixed)
    write_id = not_pushed(events.CURRENT_TRANSACTION)
    seen = f"{write_id} <= {valid.hwm}L"
    hidden = ", ".join(f"{w}L" for w in valid.exceptions if low <= w <= high)
    return f"{seen} and {write_id} not in ({hidden})" if hidden else seen


# -------------------------------------------------------------------- files as Spark is told them


def _keys(table: Table) -> tuple[Column, ...]:
    """The partition columns as they are called beside the event columns, of which one may have the
    same name.
    """
    return tuple(replace(one, name=f"{_KEY}{one.name}") for one in table.partition_columns)


def _literals(columns: Sequence[Column], partition: Partition) -> list[str]:
    """Partition columns with their values in one partition, as select expressions."""
    return keys_from(columns, list(map(constant, partition.values)))


def _reader(spark: SparkSession, schema: t.StructType) -> DataFrameReader:
    """A reader of files with ``schema``: whatever the session says, a file that is gone or damaged
    is never passed over.
    """
    reader = spark.read.schema(schema).option("ignoreMissingFiles", "false")
    return reader.option("ignoreCorruptFiles", "false")


def _event_reader(spark: SparkSession, schema: t.StructType) -> DataFrameReader:
    return _reader(spark, schema).format(_EVENT_FILES).options(**_BY_NUMBER)


def _load(spark: SparkSession, reader: DataFrameReader, paths: list[str]) -> DataFrame:
    """The files at ``paths``, one relation."""
    with session_conf(spark, _LISTING if len(paths) > _LISTED_AT_ONCE else {}):
        return reader.load(list(map(no_glob, paths)))


def join(location: str, relative: str) -> str:
    """A path below a location."""
    return f"{location.rstrip('/')}/{relative}"

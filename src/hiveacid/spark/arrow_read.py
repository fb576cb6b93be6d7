"""Storage's reader, in Spark's Python workers or in this process: rows of a table, and its changes.

A unit of work is one bucket of one partition directory, in a table without row events one file; a
task has several. Rows cross from Python to the JVM in Arrow batches. A lookup by key chooses some
stripes of some files, and a small table has few: to read those here takes milliseconds, a job with
its tasks takes many times that.

Images of updates are paired where all events of a version and key are together: after a shuffle by
these, which a table without a key does not need.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from hiveacid.layout.changes import Versions
from hiveacid.layout.directories import DataFile
from hiveacid.model.predicates import Predicate, columns_of, equal_values
from hiveacid.model.tables import AcidMode, Column
from hiveacid.spark.assign import ROW_ID_TYPE, keys_from, spark_type, stored_type, type_text
from hiveacid.spark.jobs import settle
from hiveacid.spark.session import (
    ROW_ID_COLUMN,
    InlineColumn,
    check_names,
    quoted,
    rows_text,
    takes_arrow,
    without_rows,
)
from hiveacid.spark.workers import make_ready
from hiveacid.storage.change_pairs import paired
from hiveacid.storage.change_plan import ChangeUnit
from hiveacid.storage.changes import CHANGE_FIELDS, ChangeReader
from hiveacid.storage.evolution import without_blanks
from hiveacid.storage.plan.scan_plan import PartPlan, ScanPlan
from hiveacid.storage.read import TableReader, Unit, parts_of, unit_of

IS_DELETED_COLUMN: Final = "ROW__IS__DELETED"
FILE_NAME_COLUMN: Final = "INPUT__FILE__NAME"
EXTRAS: Final = {
    ROW_ID_COLUMN: ROW_ID_TYPE,
    IS_DELETED_COLUMN: t.BooleanType(),
    FILE_NAME_COLUMN: t.StringType(),
}
"""What the reader adds where it is asked for, in this order; ROW__IS__DELETED with deleted rows."""
_TASKS_MAX: Final = 200
"""But where each would read more bytes than a task of Spark's own:"""
_TASK_BYTES: Final = 128 << 20
_BROADCAST_ANYWAY: Final = 1 << 20
"""Tables of so many bytes are small for any join."""
_SEEMING_MAX: Final = 1 << 30
"""From so many bytes on no table is broadcast."""
ROWS_LOOKED_AT_MAX: Final = 2_000_000
"""Rows of the chosen stripes; of most of them only the predicate's columns are read."""
ROWS_TRIED_MAX: Final = 250_000
"""So many are looked at whatever the predicate is: it costs less than a job without any rows."""
FILES_MAX: Final = 256
TINY_FILES_MAX: Final = 64
"""Files of a small table, delete files included: to open one takes a millisecond or two."""
ROWS_MAX: Final = 10_000
BYTES_MAX: Final = 4 << 20
"""More rows, or Arrow bytes, than these are left to Spark."""


def in_workers(
    spark: SparkSession, plan: ScanPlan, parts: Sequence[PartPlan], *, extras: Collection[str]
) -> DataFrame:
    """The rows of parts of a plan, in the order of its columns, then those of ``EXTRAS`` that are
    asked for.
    """
    units = units_of(replace(plan, parts=tuple(parts)), row_ids=ROW_ID_COLUMN in extras)
    count = task_count(units)
    make_ready(spark)
    # each task takes a run of numbers: neighbours, which are often alike, go to different ones
    units = [unit for first in range(count) for unit in units[first::count]]
    task, schema = ArrowScanTask.of(plan, units, extras=extras), _schema(plan, extras=extras)
    share = (len(schema) + 1) / (len(plan.snapshot.table.all_columns) + 1)
    size_bytes = int(sum(unit.size_bytes for unit in units) * min(share, 1))
    numbers = numbers_for(spark, len(units), tasks=count, size_bytes=size_bytes)
    return _as_table_types(numbers.mapInArrow(task, schema), plan, extras=extras)


def task_count(units: Sequence[Unit | ChangeUnit]) -> int:
    """In how many tasks units are read."""
    size_bytes = sum(unit.size_bytes for unit in units)
    return min(len(units), max(_TASKS_MAX, size_bytes // _TASK_BYTES))


def numbers_for(spark: SparkSession, count: int, *, tasks: int, size_bytes: int) -> DataFrame:
    """The numbers from 0 to ``count`` in so many tasks. Spark takes what a function makes of them
    for ``size_bytes`` to twice as many, of ``_SEEMING_MAX`` at most.

    Spark takes what comes of a function for as large as what goes in: by a few numbers it would
    broadcast the largest table of a join. So there are more, of 8 bytes each, which are left out
    only as it runs; that takes it a nanosecond each.
    """
    if size_bytes <= _BROADCAST_ANYWAY:
        return spark.range(0, count, 1, tasks)
    rows = min(size_bytes, _SEEMING_MAX) // 8
    bits = max((rows // count).bit_length(), 1)
    seeming = spark.range(0, count << bits, 1, tasks).where(f"id & {(1 << bits) - 1}L = 0")
    return seeming.selectExpr(f"shiftright(id, {bits}) as id")


@dataclass(frozen=True, slots=True)
class RowsHere:
    """The rows of a plan, read by this process: stored values, partition values as texts."""

    plan: ScanPlan
    batches: Sequence[pa.RecordBatch]
    extras: Collection[str]

    def relation(self, spark: SparkSession) -> DataFrame | str:
        """A local DataFrame of them, or the text of a query that gives them (``rows_text``)."""
        plan, extras = self.plan, self.extras
        text = None if extras else _as_text(plan, self.batches)
        if text is not None:
            return text
        schema = _schema(plan, extras=extras)
        if not self.batches:
            return _as_table_types(without_rows(spark, schema), plan, extras=extras)
        frame = spark.createDataFrame(pa.Table.from_batches(self.batches), schema)
        return _as_table_types(frame, plan, extras=extras)


def in_driver(
    spark: SparkSession, plan: ScanPlan, *, extras: Collection[str], bytes_max: int
) -> RowsHere | None:
    """The rows of a plan; None where they are, or may be, too many.

    Read are plans of no more than ``bytes_max`` bytes, and those whose stripes a predicate chose
    where few rows are likely to meet it.

    Raises:
        FormatError, MissingFileError, StorageError: reading failed.
    """
    small = takes_arrow(spark) and bool(plan.columns) and is_for_driver(plan, bytes_max=bytes_max)
    batches = _read(plan, extras=extras) if small else None
    return None if batches is None else RowsHere(plan, batches, extras)


def _as_text(plan: ScanPlan, batches: Sequence[pa.RecordBatch]) -> str | None:
    data, keys = _wanted(plan)
    none = pa.chunked_array([], pa.int32())
    values = pa.Table.from_batches(batches).columns if batches else [none] * len((*data, *keys))
    kinds = [stored_type(c.type) for c in data] + [t.StringType()] * len(keys)
    columns = [
        InlineColumn(column.name, type_text(kind), its)
        for column, kind, its in zip((*data, *keys), kinds, values, strict=True)
    ]
    wanted = [
        quoted(c.name)
        if kind == spark_type(c.type)
        else f"cast({quoted(c.name)} as {type_text(spark_type(c.type))}) as {quoted(c.name)}"
        for c, kind in zip(data, kinds, strict=False)
    ]
    return rows_text(columns, [*wanted, *keys_from(keys, [quoted(c.name) for c in keys])])


def is_for_driver(plan: ScanPlan, *, bytes_max: int) -> bool:
    """Whether what a plan reads is so little that this process reads it."""
    is_small = plan.snapshot.table.acid_mode is AcidMode.FULL and plan.amount.files <= FILES_MAX
    return is_small and (_is_chosen(plan) or _is_tiny(plan, bytes_max))


def _is_chosen(plan: ScanPlan) -> bool:
    """Whether a predicate chose the stripes of all files, they have few rows, and fewer are likely
    to meet it: what left out no stripes is met by rows of each, unless it names a value.
    """
    amount = plan.amount
    if not amount.stripes or amount.rows > ROWS_LOOKED_AT_MAX:
        return False
    is_narrow = amount.bytes * 2 <= amount.bytes_of or amount.rows <= ROWS_TRIED_MAX
    return is_narrow or all(_names_a_value(part.selection.predicate) for part in plan.parts)


def _names_a_value(predicate: Predicate) -> bool:
    return any(equal_values(predicate, name) is not None for name in columns_of(predicate))


def _is_tiny(plan: ScanPlan, bytes_max: int) -> bool:
    deletes = sum(len(part.delete_files) for part in plan.parts)
    files = plan.amount.files + deletes
    return plan.amount.bytes <= bytes_max and files <= TINY_FILES_MAX


def _read(plan: ScanPlan, *, extras: Collection[str]) -> list[pa.RecordBatch] | None:
    task = ArrowScanTask.of(plan, (), extras=extras)
    batches: list[pa.RecordBatch] = []
    count = size = 0
    for batch in task.read(parts_of(plan)):
        count += batch.num_rows
        size += batch.nbytes
        if count > ROWS_MAX or size > BYTES_MAX:
            return None
        batches.append(batch)
    return batches


def _schema(plan: ScanPlan, *, extras: Collection[str]) -> t.StructType:
    """What ``ArrowScanTask`` yields: stored values, partition values as texts."""
    more = [t.StructField(name, kind) for name, kind in EXTRAS.items() if name in extras]
    return _stored_schema(*_wanted(plan), more)


def _stored_schema(
    data: Sequence[Column], keys: Sequence[Column], more: Sequence[t.StructField]
) -> t.StructType:
    fields = [t.StructField(c.name, stored_type(c.type)) for c in data]
    return t.StructType([*fields, *(t.StructField(c.name, t.StringType()) for c in keys), *more])


def _as_table_types(frame: DataFrame, plan: ScanPlan, *, extras: Collection[str]) -> DataFrame:
    """Columns of ``_schema`` as the table's types, in the plan's order."""
    data, keys = _wanted(plan)
    return frame.select(*table_columns(data, keys), *(name for name in EXTRAS if name in extras))


def table_columns(data: Sequence[Column], keys: Sequence[Column]) -> list[str | SparkColumn]:
    """What makes stored values, and texts of partition columns, those of the table's types."""
    columns: list[str | SparkColumn] = []
    for c in data:  # each Column is a dozen calls to the JVM, a name is none
        same = stored_type(c.type) == spark_type(c.type)
        name = quoted(c.name)
        columns.append(name if same else F.col(name).cast(spark_type(c.type)).alias(c.name))
    return [*columns, *map(F.expr, keys_from(keys, [quoted(c.name) for c in keys]))]


def _wanted(plan: ScanPlan) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    table, wanted = plan.snapshot.table, set(plan.columns)
    return (
        tuple(c for c in table.columns if c.name in wanted),
        tuple(c for c in table.partition_columns if c.name in wanted),
    )


def units_of(plan: ScanPlan, *, row_ids: bool = False) -> list[Unit]:
    """The units of a plan; with ``row_ids`` those of which the ids of rows can be told."""
    return [unit for part in plan.parts for unit in _units(plan, part, row_ids=row_ids)]


def _units(plan: ScanPlan, part: PartPlan, *, row_ids: bool) -> list[Unit]:
    """One for each file; where events are told by ids, as beside deltas, one for each bucket, whose
    files are counted together. The directory of each holds nothing else.
    """
    directory = part.part.directory
    has_events = plan.snapshot.table.acid_mode is AcidMode.FULL
    if not (has_events and (row_ids or directory.deltas)):
        return [
            replace(unit_of(part.only([file])), directory=directory.alone(file))
            for file in part.files
        ]
    chosen: dict[int, list[DataFile]] = {}
    for file in part.files:
        chosen.setdefault(file.bucket, []).append(file)
    buckets = directory.by_bucket()
    return [
        replace(unit_of(part.only(files)), directory=buckets[bucket])
        for bucket, files in chosen.items()
    ]


@dataclass(frozen=True, slots=True)
class ArrowScanTask:
    """Reads the units whose numbers it is given.

    Each unit is pickled by itself: a task gets all of them, and unpacks its own.
    """

    units: tuple[bytes, ...]
    reader: TableReader

    @staticmethod
    def of(plan: ScanPlan, units: Sequence[Unit], *, extras: Collection[str]) -> ArrowScanTask:
        """A task for some units of a plan."""
        snapshot, wanted = plan.snapshot, frozenset(plan.columns)
        reader = TableReader(
            plan.files,
            snapshot.table,
            wanted,
            snapshot.valid,
            row_ids=ROW_ID_COLUMN in extras,
            deleted=IS_DELETED_COLUMN in extras,
            file_names=FILE_NAME_COLUMN in extras,
            key_texts=True,
        )
        return ArrowScanTask(tuple(map(pickle.dumps, units)), reader)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of unit numbers in, batches of rows out."""
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            yield from self.read([pickle.loads(self.units[number]) for number in numbers])

    def read(self, units: Sequence[Unit]) -> Iterator[pa.RecordBatch]:
        """The rows of some units."""
        for _, rows in self.reader.rows_of(units):
            yield _for_spark(rows, self.reader)
        settle()


def _as_spark_has(rows: pa.RecordBatch, data: Sequence[Column]) -> list[pa.Array]:
    """The columns of rows that begin with ``data``: chars as Spark's own readers give them."""
    arrays: list[pa.Array] = rows.columns
    for place, column in enumerate(data):
        arrays[place] = without_blanks(arrays[place], column.type)
    return arrays


def _for_spark(rows: pa.RecordBatch, reader: TableReader) -> pa.RecordBatch:
    """Rows as Spark's own readers give them."""
    arrays = _as_spark_has(rows, reader.data)
    names = [column.name for column in (*reader.data, *reader.keys)]
    names += [extra.name.upper() for extra in reader.extras]
    return pa.RecordBatch.from_arrays(arrays, names=names) if arrays else rows


CHANGE_TYPES: Final = t.StructType(
    [
        t.StructField("_change_type", t.StringType()),
        t.StructField("_commit_version", t.LongType()),
        t.StructField("_commit_timestamp", t.TimestampType()),
        t.StructField("_write_id", t.LongType()),
    ]
)
"""``CHANGE_FIELDS`` as Spark's."""


def changes_frame(
    spark: SparkSession,
    units: tuple[ChangeUnit, ...],
    reader: ChangeReader,
    *,
    key: tuple[str, ...],
    versions: Versions,
    bytes_here: int,
) -> DataFrame:
    """The events of some units, updates with their images where there is a ``key``; units of no
    more than ``bytes_here`` bytes are read at once.

    Raises:
        AcidError: reading failed.
        UnsupportedError: the name of a column cannot be told to Spark.
    """
    check_names(spark, (*reader.reader.data, *reader.reader.keys))
    told = replace(reader, reader=replace(reader.reader, key_texts=True))
    pairs = PairTask(key, versions, is_net=reader.is_net)
    task = ChangesTask(tuple(map(pickle.dumps, units)), told)
    data, keys = reader.reader.data, reader.reader.keys
    schema = _stored_schema(data, keys, CHANGE_TYPES.fields)
    if not units:
        frame = without_rows(spark, schema)
    elif takes_arrow(spark) and sum(unit.size_bytes for unit in units) <= bytes_here:
        batches = [batch for number in range(len(units)) for batch in task.read(number)]
        rows = pairs.finished(batches, task.reader.schema())
        frame = spark.createDataFrame(rows, schema) if len(rows) else without_rows(spark, schema)
    else:
        make_ready(spark)
        count, size_bytes = task_count(units), sum(unit.size_bytes for unit in units)
        numbers = numbers_for(spark, len(units), tasks=count, size_bytes=size_bytes)
        frame = numbers.mapInArrow(task, schema)
        if key:
            by = key if reader.is_net else ("_commit_version", *key)
            together = frame.repartition(*map(quoted, by))
            frame = together.mapInArrow(pairs, schema)
    columns = [field.name for field in CHANGE_TYPES.fields]
    return frame.select(*table_columns(data, keys), *columns)


def with_change_columns(rows: DataFrame) -> DataFrame:
    """No rows of a table, as none of its changes."""
    nulls = (f"cast(null as {f.dataType.simpleString()}) {f.name}" for f in CHANGE_TYPES.fields)
    return rows.selectExpr("*", *nulls)


@dataclass(frozen=True, slots=True)
class ChangesTask:
    """Reads the units whose numbers it is given; each is pickled by itself."""

    units: tuple[bytes, ...]
    reader: ChangeReader

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of unit numbers in, batches of events out."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self.read(number)
        settle()

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """The events of one unit, chars without blanks as Spark's own readers give them."""
        for batch in self.reader.rows(pickle.loads(self.units[number])):
            arrays = _as_spark_has(batch, self.reader.reader.data)
            yield pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


@dataclass(frozen=True, slots=True)
class PairTask:
    """Gives updates their images; all events of a version and key come to one task."""

    key: tuple[str, ...]
    versions: Versions
    is_net: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of events in, batches of events out."""
        collected = list(batches)
        if collected:
            yield from self.finished(collected, collected[0].schema).to_batches()
        settle()

    def finished(self, batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
        """The events in order."""
        events = pa.Table.from_batches(batches, schema)
        return paired(events, key=self.key, versions=self.versions, is_net=self.is_net)


assert [field.name for field in CHANGE_TYPES.fields] == [field.name for field in CHANGE_FIELDS]

"""The one Arrow reader of a table: the live rows of a partition, with its partition columns.

Run by the driver (reading without Spark, few rows, Arrow statements) and by Spark's workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hiveacid.layout.directories import AcidDirectory, DataFile, written_by
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import (
    AcidMode,
    Column,
    FileFormat,
    Partition,
    RowFormat,
    Table,
    row_format,
)
from hiveacid.storage.arrow_types import MICROSECONDS, arrow_type
from hiveacid.storage.filesystem import Files, FileSystem
from hiveacid.storage.listing import noticing_cleaning
from hiveacid.storage.merge.merge_read import (
    FILE_NAME_NAME,
    IS_DELETED_NAME,
    ROW_ID_NAME,
    MergeTask,
    extra_fields,
    merge_tasks,
    record_batch,
)
from hiveacid.storage.merge.sources import DirectorySources
from hiveacid.storage.plain.readers import open_plain_reader
from hiveacid.storage.plan.arrow_conditions import partition_arrays
from hiveacid.storage.plan.scan_plan import PartPlan, ScanPlan, Selection
from hiveacid.storage.ranged import OpenedEarly, Opener, in_order

_FAR_THREADS: Final = 8
"""In an object store, for each that reads a disk."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What is read of a partition's directory; all of it where there is no selection."""

    partition: Partition
    directory: AcidDirectory
    selection: Selection | None

    @property
    def files(self) -> list[DataFile]:
        """Those with rows."""
        chosen = None if self.selection is None else self.selection.files
        return [f for f in self.directory.row_files if chosen is None or f.path in chosen]

    @property
    def size_bytes(self) -> int:
        """Of these files."""
        return sum(file.size_bytes for file in self.files)


def unit_of(part: PartPlan) -> Unit:
    """What a plan reads of one partition."""
    return Unit(part.part.partition, part.part.directory, part.selection)


def parts_of(plan: ScanPlan) -> list[Unit]:
    """What a plan reads, a unit a partition."""
    return list(map(unit_of, plan.parts))


@dataclass(frozen=True, slots=True)
class _Task:
    """A task of a partition."""

    partition: Partition
    task: MergeTask

    def __call__(self) -> tuple[Partition, list[pa.RecordBatch]]:
        return self.partition, self.task()

    def bytes_of(self) -> int:
        """How much it reads."""
        return self.task.size_bytes


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads partitions of a table: the ``columns`` named, in the table's order, partition columns
    last; then ``row__id`` where ``row_ids`` is set (where rows are no events: write id and bucket
    of the file, NULL of one that is compacted), ``row__is__deleted`` where ``deleted`` gives these
    rows, too, ``input__file__name`` where ``file_names`` is set. ``unit`` is that of timestamps.

    ``key_texts`` gives partition columns as the texts of directory names (NULL is the default
    partition) instead of values. ``any_format`` lets each file of a table without row ids tell its
    format. ``threads`` read stripes of row events side by side; in an object store, where threads
    wait more than they work, several times as many.
    """

    files: Files
    table: Table
    columns: frozenset[str]
    valid: ValidWriteIdList
    row_ids: bool = False
    deleted: bool = False
    file_names: bool = False
    unit: str = MICROSECONDS
    key_texts: bool = False
    any_format: bool = False
    threads: int = 1

    @property
    def data(self) -> tuple[Column, ...]:
        """The data columns read."""
        return tuple(c for c in self.table.columns if c.name in self.columns)

    @property
    def keys(self) -> tuple[Column, ...]:
        """The partition columns read."""
        return tuple(c for c in self.table.partition_columns if c.name in self.columns)

    def rows(
        self, partition: Partition, directory: AcidDirectory, selection: Selection | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one partition; ``selection`` leaves out some that nobody wants.

        Raises:
            FormatError, MissingFileError, SnapshotExpiredError, StorageError, UnsupportedError: as
            ``merge_read`` and ``plain_read``.
        """
        for _, batch in self.rows_of([Unit(partition, directory, selection)]):
            yield batch

    def rows_of(self, units: Sequence[Unit]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """The rows of several partitions, one after the other; files of an object store are opened
        while those before them are read.

        Raises:
            FormatError, MissingFileError, SnapshotExpiredError, StorageError, UnsupportedError: as
            ``rows``.
        """
        fs = self.files.at(self.table.location)[0]
        if not fs.is_object_store:
            yield from self._read(units, fs, fs)
            return
        files = (pair for one in units for pair in self._files(one, fs))
        with OpenedEarly(fs.open_input, files) as opener:
            yield from self._read(units, fs, opener)

    def _read(
        self, units: Sequence[Unit], fs: FileSystem, opener: Opener
    ) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """``opener`` opens files of the table's file system ``fs``."""
        if not self._has_events:
            for one in units:
                for batch in self._with_keys(one.partition, self._plain_rows(one, fs, opener)):
                    yield one.partition, batch
            return
        threads = self.threads * (_FAR_THREADS if fs.is_object_store else 1)
        tasks = (
            _Task(one.partition, task)
            for one in units
            for task in self._tasks(one, fs, opener, in_runs=threads > 1)
        )
        if threads == 1:
            for task in tasks:
                for batch in self._with_keys(task.partition, task.task.rows()):
                    yield task.partition, batch
            return
        for partition, batches in in_order(tasks, threads=threads, bytes_of=_Task.bytes_of):
            for batch in self._with_keys(partition, batches):
                yield partition, batch

    @property
    def extras(self) -> list[pa.Field]:
        """What stands after the partition columns."""
        return extra_fields(row_ids=self.row_ids, deleted=self.deleted, file_names=self.file_names)

    def _place(self, unit: Unit) -> str | None:
        return shown_uri(unit.partition.location).rstrip("/") if self.file_names else None

    @property
    def _has_events(self) -> bool:
        return self.table.acid_mode is AcidMode.FULL

    def _files(self, unit: Unit, fs: FileSystem) -> Iterator[tuple[str, int]]:
        """Paths and sizes of what is read of a partition, in this order, if it is in ``fs``."""
        there, path = self.files.at(unit.partition.location)
        if there is not fs:
            return
        files: Iterable[DataFile] = unit.files
        if self._has_events:
            files = DirectorySources(
                fs, path, unit.directory, valid=self.valid, selection=unit.selection
            ).files()
        for file in files:
            yield f"{path.rstrip('/')}/{file.path}", file.size_bytes

    def _tasks(
        self, unit: Unit, fs: FileSystem, opener: Opener, *, in_runs: bool
    ) -> Iterator[MergeTask]:
        there, path = self.files.at(unit.partition.location)
        return merge_tasks(
            there,
            path,
            unit.directory,
            table_columns=self.table.columns,
            columns=[column.name for column in self.data],
            valid=self.valid,
            row_ids=self.row_ids,
            selection=unit.selection,
            unit=self.unit,
            opener=opener if there is fs else there,
            in_runs=in_runs,
            deleted=self.deleted,
            place=self._place(unit),
        )

    def _plain_rows(self, unit: Unit, fs: FileSystem, opener: Opener) -> Iterator[pa.RecordBatch]:
        there, path = self.files.at(unit.partition.location)
        return plain_read(
            there,
            path,
            unit.files,
            table_columns=self.table.columns,
            columns=[column.name for column in self.data],
            format=None if self.any_format else self.table.format,
            row_format=row_format(self.table.properties),
            opener=opener if there is fs else there,
            extras=self.extras,
            place=self._place(unit) or "",
        )

    def _with_keys(
        self, partition: Partition, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        width, names = len(self.data), [one.name for one in (*self.data, *self.keys, *self.extras)]
        constants = self.constants(partition)
        for batch in batches:
            if not constants:
                yield batch
                continue
            keys = [pa.repeat(value, batch.num_rows) for value in constants]
            arrays = [*batch.columns[:width], *keys, *batch.columns[width:]]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def constants(self, partition: Partition) -> list[pa.Scalar]:
        """What the partition columns are in all rows of a partition."""
        wanted = set(self.keys)
        columns = self.table.partition_columns
        if self.key_texts:
            found = [pa.scalar(text, pa.string()) for text in partition.values]
        else:
            found = [array[0] for array in partition_arrays([partition], columns)]
        return [value for value, column in zip(found, columns, strict=True) if column in wanted]


# -------------------------------------------------------------------- files without row events
# Read a partition directory of a table without row ids: the rows of all its files, in order.
#
# What ``merge_read`` is for tables with row events. Every file of the chosen base and deltas
# counts, whatever its name, and so do those outside them in a table without transactions.


def plain_read(
    fs: FileSystem,
    location: str,
    files: Iterable[DataFile],
    *,
    table_columns: Sequence[Column],
    columns: Sequence[str] | None = None,
    format: FileFormat | None,
    row_format: RowFormat,
    opener: Opener | None = None,
    extras: Sequence[pa.Field] = (),
    place: str = "",
) -> Iterator[pa.RecordBatch]:
    """The rows of ``files``, whose paths are below ``location``; those of 0 bytes have none.
    ``extras`` are added; file names are paths below ``place``.

    ``columns`` selects by name, in the order given; None is all. Without a ``format`` each file's
    first bytes tell. ``opener`` opens files instead of the file system.

    Raises:
        FormatError: a damaged file, one of another format, or a type that cannot be read as the
        table's.
        MissingFileError: a file is not there.
        SnapshotExpiredError: it was cleaned.
        StorageError: reading failed.
    """
    names = [column.name for column in table_columns]
    numbers = [names.index(name) for name in (names if columns is None else columns)]
    fields = [pa.field(names[i], arrow_type(table_columns[i].type)) for i in numbers]
    schema = pa.schema(fields)
    full_schema = pa.schema([*fields, *extras])
    for file in files:
        if not file.size_bytes:
            continue
        path = f"{location.rstrip('/')}/{file.path}"
        with (
            noticing_cleaning(fs),
            open_plain_reader(opener or fs, path, format=format, row_format=row_format) as reader,
        ):
            for batch in reader.batches(
                table_columns=table_columns, wanted=numbers, identities=False
            ):
                arrays = [
                    array.cast(field.type) if array.type != field.type else array
                    for array, field in zip(batch.columns, schema, strict=True)
                ]
                if batch.rows:
                    constants = (_constant(field, file, place) for field in extras)
                    arrays += [pa.repeat(value, batch.rows) for value in constants]
                    yield record_batch(arrays, full_schema, batch.rows)


def _constant(field: pa.Field, file: DataFile, place: str) -> pa.Scalar:
    """What an extra column is in all rows of a file without row events."""
    value: object = {IS_DELETED_NAME: False, FILE_NAME_NAME: f"{place}/{file.path}"}.get(field.name)
    if field.name == ROW_ID_NAME:
        written = written_by(file)
        value = written and {"writeid": written, "bucketid": file.bucket, "rowid": 0}
    return pa.scalar(value, field.type)


def shown_uri(path: str) -> str:
    """A location as Hive shows it: one slash after ``file:``."""
    if path.startswith("/"):
        return f"file:{path}"
    return path.replace("file:///", "file:/", 1)

"""What one Spark task does: sorted Arrow batches in, staged bucket files out. Runs in Spark's
Python workers.

Rows come sorted so that everything for one file is together; a task has one file of each kind open
at a time. The tasks are values (pickled by reference to this module), and yield one row per file
written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from hiveacid.layout.target import FileKind, WriteTarget, file_place, partition_values
from hiveacid.model.bucket import BucketCodec
from hiveacid.model.ids import StatementId
from hiveacid.storage.filesystem import file_system_for
from hiveacid.storage.orc.bucket_writer import BucketFileWriter
from hiveacid.storage.plain.writers import RowFileWriter, open_row_writer

RESULT_SCHEMA: Final = (
    "part string, directory string, name string, staged string, kind string,"
    " rows bigint, bytes bigint"
)
_RESULT: Final = pa.schema(
    [
        *[(name, pa.string()) for name in ("part", "directory", "name", "staged", "kind")],
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
TOO_MANY_WRITERS_MARK: Final = "HIVEACID-TOO-MANY-WRITERS"
CARDINALITY_MARK: Final = "HIVEACID-CARDINALITY"

_Actions = npt.NDArray[np.int8]

TOUCH, DELETE, UPDATE, INSERT = 0, 1, 2, 3
"""Actions of an event row. TOUCH changes nothing: a matched row that no clause of a MERGE takes."""


@dataclass(slots=True)
class _Files:
    """The open files of a task, by kind and statement; ``turn`` closes them when the next place
    begins.
    """

    target: WriteTarget
    task: int
    attempt: int
    writers_max: int
    done: list[tuple[object, ...]] = field(default_factory=list)
    open: dict[tuple[FileKind, int], tuple[RowFileWriter, tuple[object, ...]]] = field(
        default_factory=dict
    )
    place: tuple[object, ...] | None = None
    count: int = 0

    def turn(self, place: tuple[object, ...]) -> None:
        if place != self.place:
            self.close()
            self.place = place

    def writer(
        self,
        kind: FileKind,
        statement: StatementId,
        *,
        partition: tuple[str | None, ...],
        bucket: int,
    ) -> RowFileWriter:
        key = (kind, int(statement))
        if key not in self.open:
            self.open[key] = self._create(kind, statement, partition, bucket)
        return self.open[key][0]

    def _create(
        self, kind: FileKind, statement: StatementId, partition: tuple[str | None, ...], bucket: int
    ) -> tuple[RowFileWriter, tuple[object, ...]]:
        if bucket >= self.writers_max and self.target.table.bucket is None:
            raise ValueError(TOO_MANY_WRITERS_MARK)
        target = self.target
        directory, name = file_place(target, kind=kind, statement=statement, bucket=bucket)
        staged = f"{target.staging}/{self.task:05d}-{self.attempt}-{self.count:06d}"
        self.count += 1
        fs, path = file_system_for(staged)
        writer = open_row_writer(
            fs,
            path,
            format=target.table.format,
            columns=target.table.columns,
            kind=kind,
            write_id=int(target.write_id),
            bucket_property=0
            if kind is FileKind.PLAIN
            else BucketCodec.V1.encode(bucket, int(statement)),
            properties=target.table.properties,
        )
        return writer, (json.dumps(partition), directory, name, staged, kind.value)

    def close(self) -> None:
        for writer, facts in self.open.values():
            file = writer.close()
            if file is not None:
                self.done.append((*facts, file.rows, file.size_bytes))
        self.open = {}
        self.place = None

    def abort(self) -> None:
        for writer, _ in self.open.values():
            writer.abort()
        self.open = {}

    def result(self) -> pa.RecordBatch:
        columns = zip(*self.done, strict=True) if self.done else ([] for _ in _RESULT)
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, _RESULT, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_RESULT)


def _runs(columns: list[pa.Array], rows: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of each run of equal keys."""
    if not columns or rows == 0:
        yield from ([(0, rows)] if rows else [])
        return
    change = np.zeros(rows, dtype=bool)
    for column in columns:
        codes = pc.fill_null(column.dictionary_encode(null_encoding="encode").indices, -1)
        values = codes.to_numpy(zero_copy_only=False)
        change[1:] |= values[1:] != values[:-1]
    starts = np.flatnonzero(change).tolist()
    yield from zip([0, *starts], [*starts, rows], strict=True)


@dataclass(frozen=True, slots=True)
class RowTask:
    """INSERT: data columns, then ``dynamic`` partition texts, then the bucket number of a bucketed
    table.
    """

    target: WriteTarget
    kind: FileKind
    dynamic: tuple[str, ...]
    bucketed: bool
    writers_max: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all batches; yields one result batch."""
        context = TaskContext.get()
        task = context.partitionId() if context else 0
        attempt = context.taskAttemptId() if context else 0
        files = _Files(self.target, task, attempt, self.writers_max)
        width = len(self.target.table.columns)
        try:
            for batch in batches:
                for start, stop in _runs(batch.columns[width:], batch.num_rows):
                    self._write(files, batch.slice(start, stop - start), width, task)
            files.close()
        except BaseException:
            files.abort()
            raise
        yield files.result()

    def _write(self, files: _Files, rows: pa.RecordBatch, width: int, task: int) -> None:
        keys = [column[0].as_py() for column in rows.columns[width:]]
        bucket = int(keys[-1]) if self.bucketed else task
        partition = partition_values(self.target, dict(zip(self.dynamic, keys, strict=False)))
        files.turn((partition, bucket))
        statement = self.target.insert_statement
        writer = files.writer(
            self.kind,
            statement if statement is not None else StatementId(0),
            partition=partition,
            bucket=bucket,
        )
        writer.write_rows(_first_columns(rows, width))


@dataclass(frozen=True, slots=True)
class EventTask:
    """UPDATE, DELETE, MERGE: action, write id, bucket property, row id, bucket number (NULL for a
    new row of an unbucketed table), partition texts, then the data columns (absent where nothing is
    written but deletes).
    """

    target: WriteTarget
    parts: int
    writers_max: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all batches; yields one result batch."""
        context = TaskContext.get()
        task = context.partitionId() if context else 0
        attempt = context.taskAttemptId() if context else 0
        files = _Files(self.target, task, attempt, self.writers_max)
        last: tuple[object, ...] | None = None
        try:
            for batch in batches:
                for start, stop in _runs(batch.columns[4 : 5 + self.parts], batch.num_rows):
                    last = self._write(files, batch.slice(start, stop - start), task, last)
            files.close()
        except BaseException:
            files.abort()
            raise
        yield files.result()

    def _write(
        self, files: _Files, rows: pa.RecordBatch, task: int, last: tuple[object, ...] | None
    ) -> tuple[object, ...]:
        number = rows.column(4)[0].as_py()
        texts = [column[0].as_py() for column in rows.columns[5 : 5 + self.parts]]
        names = [c.name for c in self.target.table.partition_columns]
        partition = partition_values(self.target, dict(zip(names, texts, strict=True)))
        place = (partition, number)
        files.turn(place)
        bucket = task if number is None else int(number)
        actions = rows.column(0).to_numpy(zero_copy_only=False)
        _check_once(rows, actions, place, last)
        target = self.target
        for action, statement in (
            (DELETE, target.delete_statement),
            (UPDATE, target.update_delete_statement),
        ):
            chosen = _chosen(rows, actions, action)
            if chosen.num_rows and statement is not None:
                writer = files.writer(
                    FileKind.DELETE, statement, partition=partition, bucket=bucket
                )
                assert isinstance(writer, BucketFileWriter)
                writer.write_deletes(chosen.column(1), chosen.column(2), chosen.column(3))
        for action, statement in (
            (UPDATE, target.update_insert_statement),
            (INSERT, target.insert_statement),
        ):
            chosen = _chosen(rows, actions, action)
            if chosen.num_rows and statement is not None:
                writer = files.writer(
                    FileKind.INSERT, statement, partition=partition, bucket=bucket
                )
                writer.write_rows(_last_columns(chosen, 5 + self.parts))
        ids = tuple(rows.column(i)[-1].as_py() for i in (1, 2, 3))
        return (place, *ids)


def _check_once(
    rows: pa.RecordBatch,
    actions: _Actions,
    place: tuple[object, ...],
    last: tuple[object, ...] | None,
) -> None:
    """No row of the target may be taken twice: rows are sorted by identity, so twice is side by
    side.
    """
    old = actions != INSERT
    if not old.any():
        return
    ids = [np.asarray(rows.column(i).to_numpy(zero_copy_only=False)) for i in (1, 2, 3)]
    same = (actions[1:] != INSERT) & (actions[:-1] != INSERT)
    for values in ids:
        same &= values[1:] == values[:-1]
    first = (place, *(rows.column(i)[0].as_py() for i in (1, 2, 3)))
    if same.any() or (first == last and actions[0] != INSERT):
        at = int(np.flatnonzero(same)[0]) if same.any() else 0
        found = [int(values[at]) for values in ids]
        raise ValueError(f"{CARDINALITY_MARK} {json.dumps(found)}")


def _chosen(rows: pa.RecordBatch, actions: _Actions, action: int) -> pa.RecordBatch:
    mask = actions == action
    if mask.all():
        return rows
    return rows.filter(pa.array(mask)) if mask.any() else rows.slice(0, 0)


def _first_columns(rows: pa.RecordBatch, width: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(rows.columns[:width], names=rows.schema.names[:width])


def _last_columns(rows: pa.RecordBatch, start: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(rows.columns[start:], names=rows.schema.names[start:])

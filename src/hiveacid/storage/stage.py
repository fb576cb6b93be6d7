"""The one way a statement's files are written: Arrow batches in, staged files out.

    RowStage     new rows                      EventStage     changes of rows that are there
        batches, sorted so that what goes into one file is together
        Stager: of each place (partition and bucket) one file of each kind is open at a time

Callers are Spark's Python workers, for which stages are values that pickle, and the driver
(``staged_here``). A staged file waits in a hidden directory until it is published.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import AcidError, CardinalityError
from hiveacid.model.ids import encode_bucket
from hiveacid.model.tables import StatementId
from hiveacid.storage.orc.bucket_writer import BucketFile, BucketFileWriter
from hiveacid.storage.plain.writers import RowFileWriter, open_row_writer, write_no_rows
from hiveacid.storage.target import (
    FileKind,
    WriteResult,
    WriteTarget,
    WrittenFile,
    file_place,
    final_path,
    insert_kind,
    partition_values,
    write_result,
)

TOUCH, DELETE, UPDATE, INSERT = 0, 1, 2, 3
"""Actions of an event row. TOUCH changes nothing: a matched row that no clause of a MERGE takes."""
_IDENTITY: Final = (1, 2, 3)
_NUMBER: Final = 4
_FIRST_TEXT: Final = 5
"""Places of columns in the batches of an ``EventStage``."""
_CLOSING_MAX: Final = 4
"""Of files that are requests so many are completed while the next is written; each may hold 16 MiB
until then.
"""

_Actions = npt.NDArray[np.int8]
_Place = tuple[tuple[str | None, ...], int | None]
_Row = tuple[_Place, tuple[int, ...]]


class Stager(AbstractContextManager["Stager"]):
    """The staged files of one task. A context manager; what is open is finished on success and
    removed on an exception.
    """

    def __init__(self, target: WriteTarget, *, name: str) -> None:
        """``name`` tells the files of this task from those of others of the statement."""
        self._target = target
        self._name = name
        self._fs, self._staging = target.files.at(target.staging)
        self._uploads = self._fs.uploads if target.sends else None
        self._open: dict[
            tuple[FileKind, StatementId | None], tuple[RowFileWriter, WrittenFile]
        ] = {}
        self._ahead = 0 if self._fs.requests_at_once == 1 else _CLOSING_MAX
        self._threads = ThreadPoolExecutor(_CLOSING_MAX, thread_name_prefix="hiveacid-close")
        self._closing: deque[tuple[Callable[[], BucketFile | None], WrittenFile]] = deque()
        self._place: object = None
        self._count = 0
        self.files: list[WrittenFile] = []
        """Those that are finished."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._threads, ExitStack() as aborts:
            # of all: the library would complete what is left open
            for writer, _ in self._open.values():
                aborts.callback(writer.abort)
            aborts.callback(self._end_sent)
            if kind is None:
                self._finish()
                self._take_closed(but=0)
                aborts.pop_all()

    def turn(self, place: object) -> None:
        """Finish the open files where rows of another partition or bucket begin."""
        if place != self._place:
            self._finish()
            self._place = place

    def writer(
        self,
        kind: FileKind,
        statement: StatementId | None,
        *,
        partition: tuple[str | None, ...],
        bucket: int,
    ) -> RowFileWriter:
        """The open file of a kind and statement; begun where there is none."""
        key = (kind, statement)
        if key not in self._open:
            self._open[key] = self._begun(kind, statement, partition, bucket)
        return self._open[key][0]

    def _begun(
        self,
        kind: FileKind,
        statement: StatementId | None,
        partition: tuple[str | None, ...],
        bucket: int,
    ) -> tuple[RowFileWriter, WrittenFile]:
        table, number = self._target.table, statement or StatementId(0)
        directory, name = file_place(self._target, kind=kind, statement=number, bucket=bucket)
        file = WrittenFile(partition, directory, name, "", kind, 0, 0, statement=statement)
        if self._target.in_place is None and self._uploads is None:
            path = f"{self._staging}/{self._name}-{self._count:06d}"
        else:
            path = final_path(self._fs.path_of(table.location), file, table.partition_keys)
            if self._target.in_place is not None:
                self._target.in_place.append(path)
        self._count += 1
        writer = open_row_writer(
            self._uploads or self._fs,
            path,
            format=table.format,
            columns=table.columns,
            kind=kind,
            write_id=int(self._target.write_id),
            bucket_property=0 if kind is FileKind.PLAIN else encode_bucket(bucket, int(number)),
            properties=table.properties,
        )
        return writer, replace(file, staged_path=path)

    def _finish(self) -> None:
        for writer, place in self._open.values():
            close = self._threads.submit(writer.close).result if self._ahead else writer.close
            self._closing.append((close, place))
            self._take_closed(but=self._ahead)
        self._open = {}
        self._place = None

    def _take_closed(self, *, but: int) -> None:
        """Wait until no more files than so many are being closed."""
        while len(self._closing) > but:
            close, place = self._closing.popleft()
            file = close()
            if file is not None:
                upload = None if self._uploads is None else self._uploads.taken(place.staged_path)
                done = replace(place, rows=file.rows, size_bytes=file.size_bytes, upload=upload)
                self.files.append(done)

    def _end_sent(self) -> None:
        """Let the store forget what nobody completes."""
        while self._closing:
            with suppress(AcidError):  # another one is told
                self._take_closed(but=len(self._closing) - 1)
        with ExitStack() as ends:
            for file in self.files:
                if self._uploads and file.upload:
                    ends.callback(self._uploads.end, file.staged_path, file.upload.number)


@dataclass(frozen=True, slots=True)
class RowStage:
    """New rows: data columns, then ``dynamic`` partition texts, then, where ``bucketed``, the
    bucket number; else the task's number is that of the file. ``statement`` writes them.
    """

    target: WriteTarget
    dynamic: tuple[str, ...]
    bucketed: bool
    statement: StatementId | None

    def staged(
        self, batches: Iterable[pa.RecordBatch], *, name: str, number: int = 0
    ) -> list[WrittenFile]:
        """Write all batches; ``name`` as in ``Stager``, ``number`` is the task's.

        Raises:
            ConversionError, StorageError: as the writers.
        """
        width = len(self.target.table.columns)
        with Stager(self.target, name=name) as stager:
            for batch in batches:
                for start, stop in runs(batch.columns[width:], batch.num_rows):
                    self._write(stager, batch.slice(start, stop - start), width, number)
        return stager.files

    def _write(self, stager: Stager, rows: pa.RecordBatch, width: int, number: int) -> None:
        keys = [column[0].as_py() for column in rows.columns[width:]]
        bucket = int(keys[-1]) if self.bucketed else number
        partition = partition_values(self.target, dict(zip(self.dynamic, keys, strict=False)))
        stager.turn((partition, bucket))
        kind = insert_kind(self.target)
        writer = stager.writer(kind, self.statement, partition=partition, bucket=bucket)
        writer.write_rows(_columns(rows, 0, width))


@dataclass(frozen=True, slots=True)
class EventStage:
    """Changes: action, write id, bucket property, row id, bucket number (NULL for a new row of an
    unbucketed table), partition texts, then the data columns (absent where nothing is written but
    deletes).
    """

    target: WriteTarget

    def staged(
        self, batches: Iterable[pa.RecordBatch], *, name: str, number: int = 0
    ) -> list[WrittenFile]:
        """Write all batches; ``name`` as in ``Stager``, ``number`` is the task's.

        Raises:
            CardinalityError: a row is taken twice.
            ConversionError, StorageError: as the writers.
        """
        last: _Row | None = None
        first_data = _FIRST_TEXT + len(self.target.table.partition_columns)
        with Stager(self.target, name=name) as stager:
            for batch in batches:
                for start, stop in runs(batch.columns[_NUMBER:first_data], batch.num_rows):
                    last = self._write(stager, batch.slice(start, stop - start), number, last)
        return stager.files

    def _write(self, stager: Stager, rows: pa.RecordBatch, number: int, last: _Row | None) -> _Row:
        target = self.target
        names = target.table.partition_keys
        first_data = _FIRST_TEXT + len(names)
        texts = [column[0].as_py() for column in rows.columns[_FIRST_TEXT:first_data]]
        partition = partition_values(target, dict(zip(names, texts, strict=True)))
        known = rows.column(_NUMBER)[0].as_py()
        place = (partition, known)
        stager.turn(place)
        bucket = number if known is None else int(known)
        actions = rows.column(0).to_numpy(zero_copy_only=False)
        _check_once(rows, actions, place, last)
        for action, kind, statement in (
            (DELETE, FileKind.DELETE, target.delete_statement),
            (UPDATE, FileKind.DELETE, target.update_delete_statement),
            (UPDATE, FileKind.INSERT, target.update_insert_statement),
            (INSERT, FileKind.INSERT, target.insert_statement),
        ):
            chosen = _chosen(rows, actions, action)
            if not chosen.num_rows or statement is None:
                continue
            writer = stager.writer(kind, statement, partition=partition, bucket=bucket)
            if kind is FileKind.INSERT:
                writer.write_rows(_columns(chosen, first_data, chosen.num_columns))
            else:
                assert isinstance(writer, BucketFileWriter)
                writer.write_deletes(*(chosen.column(i) for i in _IDENTITY))
        return place, tuple(rows.column(i)[-1].as_py() for i in _IDENTITY)


def staged_here(
    stage: RowStage | EventStage, batches: Sequence[pa.RecordBatch], *, name: str
) -> WriteResult:
    """What a task would do, in this process.

    Raises:
        CardinalityError, ConversionError, StorageError: as the stage.
    """
    make_staging(stage.target)
    fs, path = stage.target.files.at(stage.target.staging)
    files = fs.made_again(path, lambda: stage.staged(batches, name=f"driver-{name}"))
    return write_result(stage.target, files)


def make_staging(target: WriteTarget) -> None:
    """Make the hidden directory of a statement's files.

    Raises:
        StorageError: the file system failed.
    """
    fs, path = target.files.at(target.staging)
    fs.make_room(path)


def stage_nothing(target: WriteTarget) -> WriteResult:
    """The base of an overwrite without rows: one file with no rows (real-hive.md 4).

    Raises:
        StorageError: writing failed.
    """
    table, kind = target.table, insert_kind(target)
    make_staging(target)
    fs, staging = target.files.at(target.staging)
    path = f"{staging}/empty"
    file = write_no_rows(
        fs,
        path,
        format=table.format,
        columns=table.columns,
        properties=table.properties,
        events=kind is FileKind.BASE,
    )
    directory, name = file_place(target, kind=kind, statement=StatementId(0), bucket=0)
    values = partition_values(target, {})
    return write_result(
        target, [WrittenFile(values, directory, name, path, kind, 0, file.size_bytes)]
    )


def runs(columns: list[pa.Array], rows: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of each run of rows with equal values in all columns; NULLs are equal."""
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


def _check_once(rows: pa.RecordBatch, actions: _Actions, place: _Place, last: _Row | None) -> None:
    """No row of the target may be taken twice: rows are sorted by identity, so twice is side by
    side.
    """
    old = actions != INSERT
    if not old.any():
        return
    ids = [np.asarray(rows.column(i).to_numpy(zero_copy_only=False)) for i in _IDENTITY]
    same = (actions[1:] != INSERT) & (actions[:-1] != INSERT)
    for values in ids:
        same &= values[1:] == values[:-1]
    first = (place, tuple(rows.column(i)[0].as_py() for i in _IDENTITY))
    if same.any() or (first == last and actions[0] != INSERT):
        at = int(np.flatnonzero(same)[0]) if same.any() else 0
        row = str([int(values[at]) for values in ids])
        raise CardinalityError(f"Cardinality Violation in Merge statement: {row}", row=row)


def _chosen(rows: pa.RecordBatch, actions: _Actions, action: int) -> pa.RecordBatch:
    mask = actions == action
    if mask.all():
        return rows
    return rows.filter(pa.array(mask)) if mask.any() else rows.slice(0, 0)


def _columns(rows: pa.RecordBatch, start: int, stop: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(rows.columns[start:stop], names=rows.schema.names[start:stop])

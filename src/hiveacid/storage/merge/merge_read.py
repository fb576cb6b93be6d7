"""Read one partition directory: rows minus deleted rows, bucket by bucket, without Spark.

    for each bucket number N, ascending
        delete events that can concern N  ->  DeleteSet (sorted numbers)
        base or originals, then deltas    ->  stripe by stripe: filter, yield

This is the reference reader. A row counts if its currentTransaction is valid and no valid delete
event has its identity (format.md 4.3, 7.1); where deltas hold updates (Hive before 3), if it is the
newest event of its identity. Memory: one stripe of the columns asked for, of tasks the stripes of
each, and the delete events of one bucket (of Hive before 3: all identities of one bucket).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from hiveacid.layout.directories import AcidDirectory
from hiveacid.layout.events import OriginalRows
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.predicates import (
    ANYTHING,
    columns_of,
)
from hiveacid.model.tables import Column
from hiveacid.storage.arrow_types import MICROSECONDS, arrow_type
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.listing import noticing_cleaning
from hiveacid.storage.merge.delete_set import Bools, DeleteSet, Int64s
from hiveacid.storage.merge.sources import (
    DirectorySources,
    Source,
    both,
    numpy_of,
    rows_that_count,
    valid_mask,
)
from hiveacid.storage.orc.bucket_reader import BucketFileReader, EventBatch
from hiveacid.storage.plan.arrow_conditions import mask
from hiveacid.storage.plan.scan_plan import Selection
from hiveacid.storage.ranged import Opener

ROW_ID_NAME: Final = "row__id"
"""The column that ``row_ids`` adds: Hive's virtual column (format.md 4.6)."""
ROW_ID_TYPE: Final = pa.struct(
    [("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())]
)
IS_DELETED_NAME: Final = "row__is__deleted"
"""The column that ``deleted`` adds."""
FILE_NAME_NAME: Final = "input__file__name"
"""The column that ``place`` adds."""

_RUN_BYTES: Final = 4 << 20
"""A thread reads so many bytes of stripes at once, at least a stripe: to open a file takes a
millisecond.
"""


def merge_read(
    fs: FileSystem,
    location: str,
    directory: AcidDirectory,
    *,
    table_columns: Sequence[Column],
    columns: Sequence[str] | None = None,
    valid: ValidWriteIdList,
    row_ids: bool = False,
    selection: Selection | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition directory (``location`` is its path) that are alive under
    ``valid``.

    ``table_columns`` are the table's without partition columns; a file's columns are matched to
    them by position. ``columns`` selects by name, in the order given; None is all. ``row_ids``
    adds ``row__id`` last. ``selection`` names the files and
    stripes to read; rows that cannot meet its predicate are left out.

    Raises:
        FormatError: a damaged or foreign file, or a type that cannot be read as the table's.
        MissingFileError: a file that ``directory`` names is not there.
        SnapshotExpiredError: it was cleaned.
        StorageError: reading failed.
        UnsupportedError: a timestamp outside 1677..2262 in a union.
    """
    tasks = merge_tasks(
        fs,
        location,
        directory,
        table_columns=table_columns,
        columns=columns,
        valid=valid,
        row_ids=row_ids,
        selection=selection,
        unit=MICROSECONDS,
    )
    for task in tasks:
        yield from task.rows()


def merge_tasks(
    fs: FileSystem,
    location: str,
    directory: AcidDirectory,
    *,
    table_columns: Sequence[Column],
    columns: Sequence[str] | None,
    valid: ValidWriteIdList,
    row_ids: bool,
    selection: Selection | None,
    unit: str,
    opener: Opener | None = None,
    in_runs: bool = False,
    deleted: bool = False,
    place: str | None = None,
) -> Iterator[MergeTask]:
    """What reads the rows that ``merge_read`` gives, in this order, each for itself: a file, or
    ``in_runs`` some stripes of it. ``opener`` opens files instead of the file system. ``deleted``
    also gives rows that are deleted, with the write id of what deleted them, and adds
    ``row__is__deleted``. ``place`` adds ``input__file__name``: paths below it.

    Raises:
        FormatError, MissingFileError, SnapshotExpiredError, StorageError, UnsupportedError: as
        ``merge_read``; a task, too.
    """
    names = [column.name for column in table_columns]
    wanted = [names.index(name) for name in (names if columns is None else columns)]
    fields = [pa.field(names[i], arrow_type(table_columns[i].type, unit=unit)) for i in wanted]
    fields += extra_fields(row_ids=row_ids, deleted=deleted, file_names=place is not None)
    schema = pa.schema(fields)
    with noticing_cleaning(fs):
        merger = DirectorySources(
            fs, location, directory, valid=valid, selection=selection, opener=opener
        )
        what = _Wanted(
            table_columns,
            wanted,
            schema,
            valid=valid,
            row_ids=row_ids,
            selection=selection,
            unit=unit,
            deleted=deleted,
            place=place,
        )
        for one, reader in _source_reads(merger, what):
            if in_runs:
                yield from one.tasks(reader)
            else:
                yield MergeTask(one, one.stripes, reader)


def extra_fields(*, row_ids: bool, deleted: bool, file_names: bool) -> list[pa.Field]:
    """What stands after the columns of a table."""
    fields = {
        pa.field(ROW_ID_NAME, ROW_ID_TYPE): row_ids,
        pa.field(IS_DELETED_NAME, pa.bool_()): deleted,
        pa.field(FILE_NAME_NAME, pa.string()): file_names,
    }
    return [field for field, is_wanted in fields.items() if is_wanted]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a read asks for of every file: columns, events or rows, which of them."""

    columns: Sequence[Column]
    wanted: Sequence[int]
    schema: pa.Schema
    _: KW_ONLY
    valid: ValidWriteIdList
    row_ids: bool
    selection: Selection | None
    unit: str
    deleted: bool
    place: str | None


def _source_reads(
    merger: DirectorySources, what: _Wanted
) -> Iterator[tuple[_SourceRead, BucketFileReader]]:
    """How each file is read, and the file, open, which whoever gets it closes."""
    for source, deletes in merger.sources():
        reader = merger.open(source.file)
        try:
            needs_ids = what.row_ids or bool(len(deletes)) or source.check_write_ids
            one = _SourceRead(
                merger,
                source,
                deletes,
                what,
                newest=merger.newest(reader, source, needs_ids=needs_ids),
                raw=None if reader.is_acid or not needs_ids else merger.raw_rows(source),
                needs_ids=needs_ids,
                deleters=_deleters(merger, source, deletes, what) if what.deleted else None,
                sizes=[s.size_bytes for s in reader.tail.stripes] if reader.tail else [],
            )
        except BaseException:
            reader.close()
            raise
        yield one, reader


def _deleters(
    merger: DirectorySources, source: Source, deletes: DeleteSet, what: _Wanted
) -> Int64s:
    """The newest write id that deletes each row of a bucket's deletes, in their order."""
    found = np.zeros(len(deletes), dtype=np.int64)
    for file in merger.delete_files_of(source.file.bucket):
        with merger.open(file) as reader:
            for ids in reader.identities():
                places, by = deletes.places(*ids.numbers()), numpy_of(ids.current_write_id)
                known = both(places >= 0, valid_mask(by, what.valid))
                np.maximum.at(found, places[known], by[known])
    return found


@dataclass(frozen=True, slots=True)
class _SourceRead:
    """How one file is read."""

    merger: DirectorySources
    source: Source
    deletes: DeleteSet
    what: _Wanted
    _: KW_ONLY
    newest: Bools | None
    raw: OriginalRows | None
    needs_ids: bool
    deleters: Int64s | None
    """What deleted each of ``deletes``, where those rows are wanted, too."""
    sizes: Sequence[int]
    """Of the stripes, in bytes."""

    @property
    def stripes(self) -> Sequence[int]:
        """The numbers, in their file, of the stripes to read."""
        selection = self.what.selection
        chosen = None if selection is None else selection.files.get(self.source.file.path)
        return range(len(self.sizes)) if chosen is None else chosen

    def tasks(self, reader: BucketFileReader) -> Iterator[MergeTask]:
        """What reads the stripes in runs, each worth opening the file for; the first run takes the
        open one.
        """
        given: BucketFileReader | None = reader
        run: list[int] = []
        for number in self.stripes:
            run.append(number)
            if sum(self.sizes[one] for one in run) >= _RUN_BYTES:
                yield MergeTask(self, run, given)
                given, run = None, []
        if run or given is not None:
            yield MergeTask(self, run, given)

    def rows(self, reader: BucketFileReader, stripes: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows of some stripes of the file, which is open."""
        what = self.what
        found = _filtered(reader, what, stripes, identities=self.needs_ids, raw=self.raw)
        left_out = self.deletes if self.deleters is None else DeleteSet(())
        for batch, meets in found:
            alive = rows_that_count(
                batch, self.source, left_out, newest=self.newest, valid=what.valid
            )
            arrays = [*batch.columns, *self._extras(batch)]
            yield from _kept(arrays, batch.rows, both(meets, alive), what.schema)

    def _extras(self, batch: EventBatch) -> Iterator[pa.Array]:
        what, is_deleted = self.what, np.zeros(batch.rows, dtype=np.bool_)
        write_id = None if batch.identities is None else batch.ids.original_write_id
        if self.deleters is not None and len(self.deletes):
            at, places = self.deletes.matches(*batch.ids.numbers())
            is_deleted[at] = True
            deleted_by = numpy_of(write_id).copy()
            deleted_by[at] = self.deleters[places]
            write_id = pa.array(deleted_by)
        if what.row_ids:
            key = (write_id, batch.ids.bucket, batch.ids.row_id)
            yield pa.StructArray.from_arrays(key, fields=list(ROW_ID_TYPE))
        if what.deleted:
            yield pa.array(is_deleted)
        if what.place is not None:
            yield pa.repeat(f"{what.place}/{self.source.file.path}", batch.rows)


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Reads some stripes of a file, which is open, or is opened."""

    source: _SourceRead
    stripes: Sequence[int]
    reader: BucketFileReader | None

    @property
    def size_bytes(self) -> int:
        """Of the stripes, as they are stored."""
        return sum(self.source.sizes[number] for number in self.stripes)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows, once."""
        merger = self.source.merger
        with (
            noticing_cleaning(merger.fs),
            self.reader or merger.open(self.source.source.file) as file,
        ):
            yield from self.source.rows(file, self.stripes)

    def __call__(self) -> list[pa.RecordBatch]:
        """All rows at once, for a pool of threads."""
        return list(self.rows())


def _filtered(
    reader: BucketFileReader,
    what: _Wanted,
    stripes: Sequence[int],
    *,
    identities: bool,
    raw: OriginalRows | None,
) -> Iterator[tuple[EventBatch, Bools | None]]:
    """Batches of the chosen stripes with, for each row, whether it may meet the predicate (None:
    all do): first the columns of the predicate are read, the others only where some row meets it.
    """
    predicate = ANYTHING if what.selection is None else what.selection.predicate
    mentioned = columns_of(predicate)
    decides = [i for i, column in enumerate(what.columns) if column.name in mentioned]
    read = partial(reader.batches, table_columns=what.columns, unit=what.unit)
    others = [i for i in what.wanted if i not in decides]
    rest = partial(read, wanted=others, identities=identities, raw=raw)
    if not decides:
        for batch in rest(stripes=stripes):
            yield batch, None
        return
    names = [what.columns[i].name for i in decides]
    for number in stripes:
        for batch in read(wanted=decides, identities=False, stripes=(number,)):
            columns = dict(zip(names, batch.columns, strict=True))
            meets = numpy_of(mask(predicate, columns, rows=batch.rows))
            if not meets.any():
                continue
            (more,) = rest(stripes=(number,)) if others or identities else (batch,)
            found = dict(zip(decides, batch.columns, strict=True))
            found |= zip(others, more.columns, strict=False)  # none of ``others``: as it is
            wanted = tuple(found[i] for i in what.wanted)
            yield replace(more, columns=wanted), None if meets.all() else meets


def _kept(
    arrays: Sequence[pa.Array], rows: int, keep: Bools | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of one batch that are kept, as at most one batch."""
    result = record_batch(arrays, schema, rows)
    if keep is not None:
        result = result.filter(pa.array(keep)) if arrays else result.slice(0, int(keep.sum()))
    if result.num_rows:
        yield result


def record_batch(arrays: Sequence[Any], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch that knows its number of rows where it has no columns, too."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # no columns wanted: Arrow keeps the number of rows only of a struct array's batch
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, type=pa.struct([])))

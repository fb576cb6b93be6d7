"""Read one partition directory: rows minus deleted rows, bucket by bucket, without Spark.

    for each bucket number N, ascending
        delete events that can concern N  ->  DeleteSet (sorted numbers)
        base or originals, then deltas    ->  stripe by stripe: filter, yield

This is the reference reader. A row counts if its currentTransaction is valid and no valid delete
event has its identity (format.md 4.3, 7.1); where deltas hold updates (Hive before 3), if it is the
newest event of its identity. Memory: one stripe of the columns asked for, and the delete events of
one bucket (of Hive before 3: all identities of one bucket).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hiveacid.errors import FormatError
from hiveacid.layout.deletes import delete_files
from hiveacid.layout.events import BUCKET, Operation
from hiveacid.layout.names import BaseName, DeltaName
from hiveacid.layout.original import OriginalFile, OriginalRows, assign_row_ids
from hiveacid.layout.plan import Selection
from hiveacid.layout.snapshot import AcidDirectory, DataFile
from hiveacid.model.bucket import bucket_id_of
from hiveacid.model.predicates import ANYTHING, columns_of
from hiveacid.model.tables import Column
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.storage.arrow_types import MICROSECONDS, arrow_type
from hiveacid.storage.bucket_reader import BucketFileReader, EventBatch, Identities
from hiveacid.storage.delete_set import DeleteSet, Int32s, Int64s
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.masks import mask
from hiveacid.storage.update_events import FileEvents, newest_rows

ROW_ID_NAME: Final = "row__id"
"""The column that ``row_ids`` adds: Hive's virtual column (format.md 4.6)."""
ROW_ID_TYPE: Final = pa.struct(
    [("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())]
)
_DeleteKeys = tuple[Int64s, Int32s, Int64s]


@dataclass(frozen=True, slots=True)
class _Source:
    """A file that holds rows; ``origin`` is its base or delta, None for originals."""

    file: DataFile
    origin: BaseName | DeltaName | None
    scope: int
    check_write_ids: bool


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
    unit: str = MICROSECONDS,
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition directory (``location`` is its path) that are alive under
    ``valid``.

    ``table_columns`` are the table's without partition columns; a file's columns are matched to
    them by position. ``columns`` selects by name, in the order given; None is all. ``row_ids``
    adds ``row__id`` last. ``unit`` is that of timestamps. ``selection`` names the files and
    stripes to read; rows that cannot meet its predicate are left out.

    Raises:
        FormatError: a damaged or foreign file, or a type that cannot be read as the table's.
        MissingFileError: a file that ``directory`` names is not there.
        StorageError: reading failed.
        UnsupportedError: a timestamp outside 1677..2262 in a union.
    """
    names = [column.name for column in table_columns]
    wanted = [names.index(name) for name in (names if columns is None else columns)]
    fields = [pa.field(names[i], arrow_type(table_columns[i].type, unit=unit)) for i in wanted]
    if row_ids:
        fields.append(pa.field(ROW_ID_NAME, ROW_ID_TYPE))
    schema = pa.schema(fields)
    merger = _Merger(fs, location, directory, valid=valid, selection=selection)
    for source, deletes in merger.sources():
        with merger.open(source.file) as reader:
            needs_ids = row_ids or bool(len(deletes)) or source.check_write_ids
            newest = merger.newest(reader, source, needs_ids=needs_ids)
            raw = None if reader.is_acid or not needs_ids else merger.raw_rows(source)
            filter = _RowFilter(reader, table_columns, selection, source.file, unit=unit)
            for batch, meets in filter.batches(wanted=wanted, identities=needs_ids, raw=raw):
                if newest is not None:
                    meets = _both(meets, newest[batch.first_row : batch.first_row + batch.rows])
                yield from _alive(
                    batch, source, deletes, valid=valid, schema=schema, row_ids=row_ids, meets=meets
                )


def valid_mask(write_ids: Int64s, valid: ValidWriteIdList) -> npt.NDArray[np.bool_] | None:
    """For each write id whether it is valid; None stands for all."""
    if not len(write_ids) or valid.all_valid(max(int(write_ids.min()), 1), int(write_ids.max())):
        return None
    mask = write_ids <= valid.hwm
    if valid.exceptions:
        mask &= ~np.isin(write_ids, np.array(valid.exceptions, dtype=np.int64))
    mask |= write_ids == 0
    return None if mask.all() else mask


def read_delete_keys(
    fs: FileSystem, path: str, *, valid: ValidWriteIdList, bucket: int | None
) -> _DeleteKeys:
    """The identities in one delete file whose events are valid; ``bucket`` keeps those of one
    bucket number.

    Raises:
        FormatError: a damaged, empty or foreign file; never skipped, its rows would come back.
        MissingFileError: no such file.
    """
    parts: list[_DeleteKeys] = []
    with BucketFileReader(fs, path) as reader:
        if not reader.is_acid and (reader.rows or reader.tail is None):
            raise FormatError(
                f"{path} holds no delete events",
                path=path,
                expected="the six columns of row events",
                found=", ".join(name for name, _ in reader.fields) or "an empty file",
            )
        if bucket is not None and _only_of(reader) == bucket:
            bucket = None
        for batch in reader.batches(table_columns=(), wanted=(), identities=True):
            ids = batch.identities
            assert ids is not None
            keys = (_numpy(ids.original_write_id), _numpy(ids.bucket), _numpy(ids.row_id))
            mask = _numpy(ids.operation) == Operation.DELETE
            visible = valid_mask(_numpy(ids.current_write_id), valid)
            if visible is not None:
                mask &= visible
            if bucket is not None:
                mask &= bucket_numbers(keys[1]) == bucket
            parts.append(keys if mask.all() else (keys[0][mask], keys[1][mask], keys[2][mask]))
    return (
        np.concatenate([part[0] for part in parts]) if parts else np.zeros(0, np.int64),
        np.concatenate([part[1] for part in parts]) if parts else np.zeros(0, np.int32),
        np.concatenate([part[2] for part in parts]) if parts else np.zeros(0, np.int64),
    )


def bucket_numbers(properties: Int32s) -> Int32s:
    """The file number in each bucket property (format.md 4.4).

    Raises:
        FormatError: a property of an unknown version.
    """
    distinct, places = np.unique(properties, return_inverse=True)
    decoded = np.array([bucket_id_of(int(value)) for value in distinct], dtype=np.int32)
    return decoded[places]


def _holds_changes(reader: BucketFileReader) -> bool:
    """Whether updates or deletes stand among the rows; looks at each event where metadata does not
    tell.
    """
    if reader.rows == 0 or reader.holds_only_inserts():
        return False
    batches = reader.batches(table_columns=(), wanted=(), identities=True)
    return any(b.identities is not None and _numpy(b.identities.operation).any() for b in batches)


def _only_of(reader: BucketFileReader) -> int | None:
    """The one bucket number of all events in a file, where its statistics prove one."""
    found = reader.statistics_range(BUCKET)
    if found is None:
        return None
    try:
        low, high = bucket_id_of(found[0]), bucket_id_of(found[1])
    except FormatError as error:
        raise _damaged(reader.path, error) from error
    return low if low == high else None


def _damaged(path: str, error: FormatError) -> FormatError:
    """An error about numbers in a file, with the file's path."""
    found = {key: value for key, value in error.context.items() if key != "path"}
    return FormatError(f"{path} is damaged: {error.message}", path=path, **found)  # type: ignore[arg-type]


class _RowFilter:
    """Reads the chosen stripes of a file: first the columns of the predicate, the rest only where
    some row meets it.
    """

    def __init__(
        self,
        reader: BucketFileReader,
        table_columns: Sequence[Column],
        selection: Selection | None,
        file: DataFile,
        *,
        unit: str,
    ) -> None:
        self._reader = reader
        self._unit = unit
        self._columns = table_columns
        self._stripes = None if selection is None else selection.files.get(file.path)
        self._predicate = ANYTHING if selection is None else selection.predicate
        mentioned = columns_of(self._predicate)
        self._decides = [i for i, c in enumerate(table_columns) if c.name in mentioned]

    def batches(
        self, *, wanted: Sequence[int], identities: bool, raw: OriginalRows | None
    ) -> Iterator[tuple[EventBatch, npt.NDArray[np.bool_] | None]]:
        """Batches with, for each row, whether it may meet the predicate (None: all do)."""
        read = partial(self._reader.batches, table_columns=self._columns, unit=self._unit)
        if not self._decides:
            for batch in read(wanted=wanted, identities=identities, raw=raw, stripes=self._stripes):
                yield batch, None
            return
        stripes = range(self._reader.stripes) if self._stripes is None else self._stripes
        for number in stripes:
            for batch in read(wanted=self._decides, identities=False, stripes=(number,)):
                meets = self._mask(batch)
                if meets.any():
                    for found in read(
                        wanted=wanted, identities=identities, raw=raw, stripes=(number,)
                    ):
                        yield found, None if meets.all() else meets

    def _mask(self, batch: EventBatch) -> npt.NDArray[np.bool_]:
        names = (self._columns[i].name for i in self._decides)
        columns = dict(zip(names, batch.columns, strict=True))
        return _numpy(mask(self._predicate, columns, rows=batch.rows))


class _Merger:
    """What the reading of one directory keeps: where raw rows start, which delete files hold
    what.
    """

    def __init__(
        self,
        fs: FileSystem,
        location: str,
        directory: AcidDirectory,
        *,
        valid: ValidWriteIdList,
        selection: Selection | None,
    ) -> None:
        self._fs = fs
        self._location = location
        self._directory = directory
        self._valid = valid
        self._chosen = None if selection is None else selection.files
        self._deleting = None if selection is None else selection.delete_files
        self._raw: dict[int, Mapping[str, OriginalRows]] = {}
        self._scopes: list[tuple[BaseName | DeltaName | None, tuple[DataFile, ...]]] = []
        self._sources: list[_Source] = []
        self._newest: dict[int, dict[tuple[int, str], npt.NDArray[np.bool_]]] = {}

    def path(self, file: DataFile) -> str:
        return f"{self._location.rstrip('/')}/{file.path}"

    def open(self, file: DataFile) -> BucketFileReader:
        return BucketFileReader(self._fs, self.path(file), logical_bytes=file.logical_bytes)

    def sources(self) -> Iterator[tuple[_Source, DeleteSet]]:
        """Every file that holds rows, by bucket number, with the deletes of that number."""
        directory = self._directory
        if directory.base is not None:
            self._scopes.append((directory.base.name, directory.base.files))
        self._scopes.append((None, directory.originals))
        self._scopes += [(delta.name, delta.files) for delta in directory.insert_deltas]
        unsure = {delta.name for delta in directory.insert_deltas if not delta.all_valid}
        self._sources = [
            _Source(file, origin, scope, check_write_ids=origin in unsure)
            for scope, (origin, files) in enumerate(self._scopes)
            for file in files
        ]
        found = [
            source
            for source in self._sources
            if self._chosen is None or source.file.path in self._chosen
        ]
        foreign = self._files_of_several_buckets() if found else set()
        for bucket in sorted({source.file.bucket for source in found}):
            deletes = DeleteSet(self._delete_keys(bucket, foreign))
            for source in found:
                if source.file.bucket == bucket:
                    yield source, deletes

    def newest(
        self, reader: BucketFileReader, source: _Source, *, needs_ids: bool
    ) -> npt.NDArray[np.bool_] | None:
        """Which events of a file are rows that count; None for all, where its bucket has inserts
        only.

        Raises:
            FormatError: raw rows in a delta of several write ids, updates in a base, events outside
            bases and deltas.
        """
        name = source.origin
        if name is None and reader.is_acid:
            raise FormatError(
                f"{reader.path} holds row events and lies outside bases and deltas",
                path=reader.path,
                expected="rows without events, or a place in a base or delta",
                found="the six columns of row events",
            )
        several = isinstance(name, DeltaName) and name.min_write_id != name.max_write_id
        if needs_ids and several and reader.rows and not reader.is_acid:
            raise FormatError(
                f"{reader.path} holds rows without events in a delta of several write ids",
                path=reader.path,
                expected="the six columns of row events",
                found=", ".join(field for field, _ in reader.fields),
            )
        bucket = source.file.bucket
        if bucket not in self._newest:
            self._newest[bucket] = self._newest_of(bucket)
        found = self._newest[bucket].get((source.scope, source.file.path))
        if found is None and _holds_changes(reader):
            raise FormatError(
                f"{reader.path} holds update or delete events among its rows",
                path=reader.path,
                expected="insert events",
                found="other events",
            )
        return found

    def _newest_of(self, bucket: int) -> dict[tuple[int, str], npt.NDArray[np.bool_]]:
        """The rows that count of each file of a bucket whose deltas hold updates or deletes."""
        sources = [source for source in self._sources if source.file.bucket == bucket]
        if not any(
            isinstance(source.origin, DeltaName) and self._file_holds_changes(source.file)
            for source in sources
        ):
            return {}
        masks = newest_rows([self._events(source) for source in sources])
        places = ((source.scope, source.file.path) for source in sources)
        return dict(zip(places, masks, strict=True))

    def _file_holds_changes(self, file: DataFile) -> bool:
        with self.open(file) as reader:
            return _holds_changes(reader)

    def _events(self, source: _Source) -> FileEvents:
        parts: list[Identities] = []
        with self.open(source.file) as reader:
            raw = None if reader.is_acid else self.raw_rows(source)
            for batch in reader.batches(table_columns=(), wanted=(), identities=True, raw=raw):
                assert batch.identities is not None
                parts.append(batch.identities)
        operation, original, bucket, row_id, current = (
            np.concatenate([_numpy(getattr(part, name)) for part in parts] or [np.zeros(0, int)])
            for name in Identities.__slots__
        )
        statement = source.origin.statement_id if isinstance(source.origin, DeltaName) else None
        return FileEvents(
            identity=(original, bucket, row_id),
            current_write_id=current,
            operation=operation,
            statement=-1 if statement is None else statement,
            visible=valid_mask(current, self._valid) if source.check_write_ids else None,
        )

    def raw_rows(self, source: _Source) -> OriginalRows:
        """Where the identities of a raw file's rows start: all files of its scope are counted
        once.
        """
        if source.scope not in self._raw:
            origin, files = self._scopes[source.scope]
            counted: list[OriginalFile] = []
            for file in files:
                with self.open(file) as reader:
                    counted.append(OriginalFile(file.path, reader.rows))
            self._raw[source.scope] = {
                rows.path: rows for rows in assign_row_ids(counted, directory=origin)
            }
        return self._raw[source.scope][source.file.path]

    def _files_of_several_buckets(self) -> set[str]:
        """Delete files that may hold events of other numbers than their name's (Hive 3.0,
        format.md 7.2).
        """
        found: set[str] = set()
        for file in self._delete_files():
            with self.open(file) as reader:
                if _only_of(reader) != file.bucket:
                    found.add(file.path)
        return found

    def _delete_files(self) -> Iterator[DataFile]:
        for file in delete_files(self._directory, None, bucket=None):
            if self._deleting is None or file.path in self._deleting:
                yield file

    def _delete_keys(self, bucket: int, foreign: set[str]) -> Iterator[_DeleteKeys]:
        for file in self._delete_files():
            if file.bucket == bucket or bucket < 0 or file.path in foreign:
                yield read_delete_keys(
                    self._fs,
                    self.path(file),
                    valid=self._valid,
                    bucket=None if bucket < 0 else bucket,
                )


def _alive(
    batch: EventBatch,
    source: _Source,
    deletes: DeleteSet,
    *,
    valid: ValidWriteIdList,
    schema: pa.Schema,
    row_ids: bool,
    meets: npt.NDArray[np.bool_] | None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one batch that count, as at most one batch."""
    arrays = list(batch.columns)
    ids = batch.identities
    keep = meets
    if ids is not None:
        key = (ids.original_write_id, ids.bucket, ids.row_id)
        if row_ids:
            arrays.append(pa.StructArray.from_arrays(key, fields=list(ROW_ID_TYPE)))
        if source.check_write_ids:
            seen = valid_mask(_numpy(ids.current_write_id), valid)
            keep = _both(keep, seen)
        if len(deletes):
            gone = deletes.contains(*(_numpy(array) for array in key))
            if gone.any():
                keep = _both(keep, ~gone)
    result = record_batch(arrays, schema, batch.rows)
    if keep is not None:
        result = result.filter(pa.array(keep)) if arrays else result.slice(0, int(keep.sum()))
    if result.num_rows:
        yield result


def _both(
    first: npt.NDArray[np.bool_] | None, second: npt.NDArray[np.bool_] | None
) -> npt.NDArray[np.bool_] | None:
    """Rows that are in both; None stands for all of them."""
    if first is None or second is None:
        return first if second is None else second
    return first & second


def record_batch(arrays: Sequence[Any], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch that knows its number of rows where it has no columns, too."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    # no columns wanted: Arrow keeps the number of rows only of a struct array's batch
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, type=pa.struct([])))


def _numpy(array: Any) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values

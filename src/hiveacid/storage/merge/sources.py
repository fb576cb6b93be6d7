"""The files of one partition directory that hold rows, bucket by bucket, with their deletes.

What every reader of a directory keeps: which files belong to which bucket number, where the
identities of raw rows start, which delete files hold what, and which events are the newest where
deltas hold updates (Hive before 3).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from hiveacid.errors import FormatError
from hiveacid.layout.directories import AcidDirectory, BaseName, DataFile, DeltaName
from hiveacid.layout.events import (
    BUCKET,
    ORIGINAL_TRANSACTION,
    ROW_ID,
    Operation,
    OriginalFile,
    OriginalRows,
    assign_row_ids,
)
from hiveacid.model.ids import ValidWriteIdList, bucket_id_of
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.merge.delete_set import (
    Bools,
    DeleteSet,
    FileEvents,
    Int32s,
    Int64s,
    distinct,
    newest_rows,
)
from hiveacid.storage.orc.bucket_reader import BucketFileReader, EventBatch, Identities
from hiveacid.storage.orc.statistics import integer_range, only_inserts
from hiveacid.storage.orc.tail import OrcTail
from hiveacid.storage.orc.tails import CACHED_TAILS, event_tail, tail_of
from hiveacid.storage.plan.scan_plan import Selection
from hiveacid.storage.ranged import Opener

Key = tuple[int, int, int]
"""An identity: write id, bucket property, row id."""
IDENTITY: Final = (ORIGINAL_TRANSACTION, BUCKET, ROW_ID)
_KEPT_MAX: Final = 32
"""Files that were opened for what they say of themselves, and are read later."""
DeleteKeys = tuple[Int64s, Int32s, Int64s]
"""Write ids, bucket properties and row ids of rows that go."""
_ALL: Final = slice(None)


@dataclass(frozen=True, slots=True)
class Source:
    """A file that holds rows; ``origin`` is its base or delta, None for originals."""

    file: DataFile
    origin: BaseName | DeltaName | None
    scope: int
    check_write_ids: bool


class DirectorySources:
    """What the reading of one directory keeps: which files hold a bucket's rows and deletes, where
    raw rows start, which events are the newest.
    """

    def __init__(
        self,
        fs: FileSystem,
        location: str,
        directory: AcidDirectory,
        *,
        valid: ValidWriteIdList,
        selection: Selection | None = None,
        foreign: frozenset[str] | None = None,
        opener: Opener | None = None,
    ) -> None:
        """``foreign`` is what ``delete_files_of_several_buckets`` found, where it is known already.
        ``opener`` opens files instead of the file system.
        """
        self.fs = fs
        self._opener = opener or fs
        self._location = location
        self._directory = directory
        self._valid = valid
        self._chosen = None if selection is None else selection.files
        self._deleting = None if selection is None else selection.delete_files
        self._foreign = foreign
        self._tails: dict[str, OrcTail] = {}
        self._kept: dict[str, BucketFileReader] = {}
        self._raw: dict[tuple[int, int], Mapping[str, OriginalRows]] = {}
        self._newest: dict[int, dict[tuple[int, str], npt.NDArray[np.bool_]]] = {}
        self._scopes: list[tuple[BaseName | DeltaName | None, tuple[DataFile, ...]]] = []
        if directory.base is not None:
            self._scopes.append((directory.base.name, directory.base.files))
        self._scopes.append((None, directory.originals))
        self._scopes += [(delta.name, delta.files) for delta in directory.insert_deltas]
        unsure = {delta.name for delta in directory.insert_deltas if not delta.all_valid}
        self._sources = [
            Source(file, origin, scope, check_write_ids=origin in unsure)
            for scope, (origin, files) in enumerate(self._scopes)
            for file in files
        ]

    def path(self, file: DataFile) -> str:
        """The file's path within its file system."""
        return f"{self._location.rstrip('/')}/{file.path}"

    def open(self, file: DataFile) -> BucketFileReader:
        """The file, up to its logical length; its tail is read once.

        Raises:
            FormatError, MissingFileError, StorageError: as ``BucketFileReader``.
        """
        kept = self._kept.pop(file.path, None)
        if kept is not None:
            return kept
        tail = self._tails.get(file.path)
        if tail is None and not self.fs.is_object_store and file.size_bytes and file.modified_ns:
            tail = None if file.logical_bytes == 0 else tail_of(self.fs, self._location, file)
        reader = BucketFileReader(
            self._opener, self.path(file), logical_bytes=file.logical_bytes, tail=tail
        )
        if reader.tail is not None and len(self._tails) < CACHED_TAILS:
            self._tails[file.path] = reader.tail
        return reader

    def sources(self) -> Iterator[tuple[Source, DeleteSet]]:
        """Every file that holds rows, by bucket number, with the deletes of that number."""
        found = self._sources_chosen()
        for bucket in sorted({source.file.bucket for source in found}):
            deletes = self.deletes(bucket)
            for source in found:
                if source.file.bucket == bucket:
                    yield source, deletes

    def files(self) -> Iterator[DataFile]:
        """What ``sources`` opens, in its order, as far as names tell."""
        chosen = self._sources_chosen()
        for bucket in sorted({source.file.bucket for source in chosen}):
            yield from (f for f in self._delete_files() if f.bucket == bucket or bucket < 0)
            yield from (source.file for source in chosen if source.file.bucket == bucket)

    def _sources_chosen(self) -> list[Source]:
        return [
            source
            for source in self._sources
            if self._chosen is None or source.file.path in self._chosen
        ]

    def rows_of(self, bucket: int) -> tuple[Source, ...]:
        """The files that hold a bucket's rows: base or originals, then deltas."""
        return tuple(source for source in self._sources if source.file.bucket == bucket)

    def deletes(self, bucket: int) -> DeleteSet:
        """The rows of a bucket that valid events delete.

        Raises:
            FormatError, MissingFileError: a delete file is damaged or not there.
        """
        return DeleteSet(self._delete_keys(bucket))

    def _delete_keys(self, bucket: int) -> Iterator[DeleteKeys]:
        for file in self.delete_files_of(bucket):
            with self.open(file) as reader:
                only = None if bucket < 0 else bucket
                keys = _delete_keys(reader, valid=self._valid, bucket=only)
                self._check_originals(reader.path, keys)
                yield keys

    def _check_originals(self, path: str, keys: DeleteKeys) -> None:
        """No event changes an original row under the plain number of Hive before 3.

        Original rows have encoded numbers, and Hive 4.1 and 3.1 find none by a plain one: what was
        updated is there twice, what was deleted comes back, also after a major compaction.

        Raises:
            FormatError: one does.
        """
        versions = keys[1] >> 29  # of bucket properties (format.md 4.4)
        if self._directory.originals and ((keys[0] == 0) & (versions == 0)).any():
            raise FormatError(
                f"{path} changes original rows by bucket numbers of before Hive 3, which later ones"
                " do not find: it needs a major compaction by the Hive that wrote it",
                path=path,
                expected="encoded bucket properties",
                found="plain bucket numbers",
            )

    def delete_files_of(self, bucket: int) -> Iterator[DataFile]:
        """The delete files that may hold events of a bucket; of any where it is -1."""
        foreign = self.delete_files_of_several_buckets()
        for file in self._delete_files():
            if file.bucket == bucket or bucket < 0 or file.path in foreign:
                yield file

    def delete_files_of_several_buckets(self) -> frozenset[str]:
        """Delete files that may hold events of other numbers than their name's (Hive 3.0,
        format.md 7.2).
        """
        if self._foreign is None:
            found: set[str] = set()
            for file in self._delete_files():
                if self._of_several(file):
                    found.add(file.path)
            self._foreign = frozenset(found)
        return self._foreign

    def _of_several(self, file: DataFile) -> bool:
        if file.size_bytes and file.logical_bytes != 0:  # a plan has read its tail, as a rule
            tail = event_tail(self.fs, self._location, file)
            known = integer_range(tail, tail.types[0].children[IDENTITY.index(BUCKET) + 1])
            return _one_bucket(known, self.path(file)) != file.bucket
        with self.open(file) as reader:
            return _only_of(reader) != file.bucket

    def delete_buckets(self) -> frozenset[int]:
        """The bucket numbers of which there may be delete events."""
        foreign = self.delete_files_of_several_buckets()
        found = {file.bucket for file in self._delete_files() if file.path not in foreign}
        for file in self._delete_files():
            if file.path in foreign:
                keys = read_delete_keys(self.fs, self.path(file), valid=self._valid)
                found.update(distinct(bucket_numbers(keys[1])).tolist())
        return frozenset(found)

    def newest(
        self, reader: BucketFileReader, source: Source, *, needs_ids: bool
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
        known = self._tails.get(file.path)
        if self.fs.is_object_store and known is not None and only_inserts(known):
            return False
        reader = self.open(file)
        if self.fs.is_object_store and len(self._kept) < _KEPT_MAX:  # to open it is a request
            self._kept[file.path] = reader
            return _holds_changes(reader)
        with reader:
            return _holds_changes(reader)

    def _events(self, source: Source) -> FileEvents:
        with self.open(source.file) as reader:
            raw = None if reader.is_acid else self.raw_rows(source)
            parts = list(reader.identities(raw))
        operation, original, bucket, row_id, current = (
            np.concatenate([numpy_of(getattr(part, name)) for part in parts] or [np.zeros(0, int)])
            for name in Identities.__slots__
        )
        statement = source.origin.statement_id if isinstance(source.origin, DeltaName) else None
        visible = valid_mask(current, self._valid) if source.check_write_ids else None
        changes = operation != Operation.INSERT
        if visible is not None:
            changes &= visible
        keys = (original[changes], bucket[changes], row_id[changes])
        self._check_originals(self.path(source.file), keys)
        return FileEvents(
            identity=(original, bucket, row_id),
            current_write_id=current,
            operation=operation,
            statement=-1 if statement is None else statement,
            visible=visible,
        )

    def raw_rows(self, source: Source) -> OriginalRows:
        """Where the identities of a raw file's rows start: the files of its scope and bucket are
        counted once.
        """
        bucket = source.file.bucket
        if (source.scope, bucket) not in self._raw:
            origin, files = self._scopes[source.scope]
            counted: list[OriginalFile] = []
            for file in files:
                if file.bucket == bucket:
                    with self.open(file) as reader:
                        counted.append(OriginalFile(file.path, reader.rows))
            self._raw[source.scope, bucket] = {
                rows.path: rows for rows in assign_row_ids(counted, directory=origin)
            }
        return self._raw[source.scope, bucket][source.file.path]

    def _delete_files(self) -> Iterator[DataFile]:
        for file in self._directory.delete_files:
            if self._deleting is None or file.path in self._deleting:
                yield file


def rows_that_count(
    batch: EventBatch,
    source: Source,
    deletes: DeleteSet,
    *,
    newest: Bools | None,
    valid: ValidWriteIdList,
    at: Int64s | slice = _ALL,
) -> Bools | None:
    """Which rows of a batch are alive, of those ``at`` some places: of a valid write id, the newest
    of their identity (as ``DirectorySources.newest`` found), and not deleted; None for all.
    """
    keep = newest
    if newest is not None:
        keep = newest[batch.first_row : batch.first_row + batch.rows][at]
    if source.check_write_ids:
        keep = both(keep, valid_mask(numpy_of(batch.ids.current_write_id)[at], valid))
    if len(deletes):
        numbers = batch.ids.numbers() if isinstance(at, slice) else batch.numbers_at(at)
        gone = deletes.contains(*numbers)
        keep = both(keep, ~gone) if gone.any() else keep
    return keep


def both(first: Bools | None, second: Bools | None) -> Bools | None:
    """Rows that are in both; None stands for all of them."""
    if first is None or second is None:
        return first if second is None else second
    return first & second


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
    fs: FileSystem, path: str, *, valid: ValidWriteIdList, tail: OrcTail | None = None
) -> DeleteKeys:
    """The identities in one delete file whose events are valid; ``tail`` is its, where it was read
    already.

    Raises:
        FormatError: a damaged, empty or foreign file; never skipped, its rows would come back.
        MissingFileError: no such file.
    """
    with BucketFileReader(fs, path, tail=tail) as reader:
        return _delete_keys(reader, valid=valid, bucket=None)


def check_holds_deletes(reader: BucketFileReader) -> None:
    """A delete file is one.

    Raises:
        FormatError: a foreign file, or one of 0 bytes.
    """
    if not reader.is_acid and (reader.rows or reader.tail is None):
        raise FormatError(
            f"{reader.path} holds no delete events",
            path=reader.path,
            expected="the six columns of row events",
            found=", ".join(name for name, _ in reader.fields) or "an empty file",
        )


def _delete_keys(
    reader: BucketFileReader, *, valid: ValidWriteIdList, bucket: int | None
) -> DeleteKeys:
    parts: list[DeleteKeys] = []
    check_holds_deletes(reader)
    if bucket is not None and _only_of(reader) == bucket:
        bucket = None
    for ids in reader.identities():
        keys, mask = ids.numbers(), deletes_among(ids, valid, bucket=bucket)
        parts.append(keys if mask.all() else (keys[0][mask], keys[1][mask], keys[2][mask]))
    return (
        np.concatenate([part[0] for part in parts]) if parts else np.zeros(0, np.int64),
        np.concatenate([part[1] for part in parts]) if parts else np.zeros(0, np.int32),
        np.concatenate([part[2] for part in parts]) if parts else np.zeros(0, np.int64),
    )


def deletes_among(ids: Identities, valid: ValidWriteIdList, *, bucket: int | None) -> Bools:
    """Which events are deletes that count, of one bucket where it is given."""
    mask: Bools = numpy_of(ids.operation) == Operation.DELETE
    visible = valid_mask(numpy_of(ids.current_write_id), valid)
    if visible is not None:
        mask &= visible
    if bucket is not None:
        mask &= bucket_numbers(numpy_of(ids.bucket)) == bucket
    return mask


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
    return any(numpy_of(ids.operation).any() for ids in reader.identities())


def _only_of(reader: BucketFileReader) -> int | None:
    """The one bucket number of all events in a file, where its statistics prove one."""
    return _one_bucket(reader.statistics_range(BUCKET), reader.path)


def _one_bucket(known: tuple[int, int] | None, path: str) -> int | None:
    if known is None:
        return None
    try:
        low, high = map(bucket_id_of, known)
    except FormatError as error:
        found = {key: value for key, value in error.context.items() if key != "path"}
        raise FormatError(f"{path} is damaged: {error.message}", path=path, **found) from error  # type: ignore[arg-type]
    return low if low == high else None


def key_bounds(reader: BucketFileReader, raw: OriginalRows | None = None) -> tuple[Key, Key]:
    """Keys below and above which a file has none: from its statistics, or from its identities."""
    if raw is not None:
        bucket = -1 if raw.bucket is None else raw.bucket
        first = raw.first_row_id
        return (raw.write_id, bucket, first), (raw.write_id, bucket, first + raw.rows - 1)
    ranges = [reader.statistics_range(name) or _scanned(reader, name) for name in IDENTITY]
    return (
        (ranges[0][0], ranges[1][0], ranges[2][0]),
        (ranges[0][1], ranges[1][1], ranges[2][1]),
    )


def _scanned(reader: BucketFileReader, name: str) -> tuple[int, int]:
    place = IDENTITY.index(name)
    all_of = [values for ids in reader.identities() if len(values := ids.numbers()[place])]
    return min(int(values.min()) for values in all_of), max(int(values.max()) for values in all_of)


def numpy_of(array: Any) -> npt.NDArray[Any]:
    """The values of an Arrow array of numbers or booleans without nulls."""
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values

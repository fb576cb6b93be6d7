"""Read what happened to a partition: its change events, as Arrow batches.

    delete events of the versions  ->  which row each write id deleted (sorted numbers)
    rows of their deltas           ->  inserts, and deletes of those among them
    rows of the state before       ->  deletes of older rows, from the stripes that may have them

A row that one transaction both inserted and deleted is no change of it. Rows have one bucket number
for life, so buckets are read one by one, each for itself. An insert-only table has no row ids: its
directories tell the write id, and only an overwrite takes rows away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hiveacid.errors import SnapshotExpiredError, UnsupportedError
from hiveacid.layout.changes import Versions
from hiveacid.layout.directories import AcidDirectory, DataFile, DeltaDirectory
from hiveacid.layout.events import Operation
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import AcidMode, Partition, row_format
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.change_plan import ChangeUnit
from hiveacid.storage.filesystem import FileSystem
from hiveacid.storage.listing import noticing_cleaning
from hiveacid.storage.merge.delete_set import Bools, DeleteSet, Int32s, Int64s, distinct
from hiveacid.storage.merge.sources import (
    IDENTITY,
    DirectorySources,
    Source,
    bucket_numbers,
    check_holds_deletes,
    numpy_of,
    rows_that_count,
    valid_mask,
)
from hiveacid.storage.orc.bucket_reader import BucketFileReader, EventBatch
from hiveacid.storage.read import TableReader, plain_read

INSERT: Final = "insert"
DELETE: Final = "delete"
CHANGE_FIELDS: Final = (
    pa.field("_change_type", pa.string()),
    pa.field("_commit_version", pa.int64()),
    pa.field("_commit_timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("_write_id", pa.int64()),
)
"""The columns that follow a table's own."""
_PIECE_ROWS: Final = 10_000
_FEW_OF: Final = 4
"""Of a stripe of so many rows one: as many are worth looking for each text by itself."""


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Reads units: the ``columns`` named, in the table's order, partition columns last, then
    ``CHANGE_FIELDS``.

    ``keeps_passing`` keeps rows that one transaction both inserted and deleted; ``is_net`` leaves
    out all that were inserted and deleted within the versions.
    """

    reader: TableReader
    times_ms: Mapping[int, int] | None = None
    keeps_passing: bool = False
    is_net: bool = False

    def schema(self) -> pa.Schema:
        """That of the batches."""
        reader = self.reader
        data = [(c.name, arrow_type(c.type, unit=reader.unit)) for c in reader.data]
        text = pa.string() if reader.key_texts else None
        keys = [(c.name, text or arrow_type(c.type)) for c in reader.keys]
        return pa.schema([*data, *keys, *CHANGE_FIELDS])

    def rows(self, unit: ChangeUnit) -> Iterator[pa.RecordBatch]:
        """The events of one unit.

        Raises:
            FormatError, MissingFileError, SnapshotExpiredError, StorageError: reading failed.
            UnsupportedError: update events of Hive before 3.
        """
        fs, path = self.reader.files.at(unit.partition.location)
        with noticing_cleaning(fs):
            if self.reader.table.acid_mode is AcidMode.FULL:
                read = self._overwritten if unit.step.overwrite else self._logged
                events = read(fs, path, unit)
            else:
                events = self._plain(fs, path, unit)
            schema = self.schema()
            for columns, kind, versions in _gathered(events, schema):
                yield self._batch(unit.partition, columns, kind, versions, schema)

    def _logged(self, fs: FileSystem, path: str, unit: ChangeUnit) -> Iterator[_Events]:
        step = unit.step
        log = DirectorySources(fs, path, step.changed, valid=step.versions.high)
        bases = {int(base.name.write_id): base for base in step.rebalanced}
        for bucket in _buckets(log, step.changed, unit.bucket):
            events = _delete_events(log, bucket, step.versions)
            rebased = _rebased(events, sorted(bases))
            deleted = DeletedRows(events.where(rebased == 0), step.versions)
            for source in log.rows_of(bucket):
                yield from self._appended(log, source, deleted, step.versions)
            if len(deleted):
                yield from self._removed(fs, path, step.before, bucket, deleted, step.versions.low)
            for write_id in np.unique(rebased[rebased > 0]):
                deleted = DeletedRows(events.where(rebased == write_id), step.versions)
                alone = replace(step.before, base=bases[write_id], originals=(), deltas=())
                valid = step.versions.high
                yield from self._removed(fs, path, alone, bucket, deleted, valid)

    def _appended(
        self, log: DirectorySources, source: Source, deleted: DeletedRows, versions: Versions
    ) -> Iterator[_Events]:
        """Inserts of a file, and deletes of rows among them."""
        with log.open(source.file) as reader:
            if log.newest(reader, source, needs_ids=True) is not None:
                raise UnsupportedError(
                    f"{reader.path} holds update events of Hive before 3, whose changes are not"
                    " told one by one",
                    path=reader.path,
                    note="A major compaction of the table makes them rows.",
                )
            for batch in self._batches(log, reader, source, None):
                current = numpy_of(batch.ids.current_write_id)
                is_new = is_among(current, versions)
                gone, is_gone = np.full(batch.rows, -1, np.int64), np.zeros(batch.rows, np.bool_)
                at, places = deleted.left_in(batch)
                gone[at] = deleted.write_ids[places]
                is_gone[at] = is_new[at]
                deleted.take(places[is_new[at]])
                if self.is_net:
                    is_new &= ~is_gone
                    is_gone[:] = False
                elif not self.keeps_passing:
                    passing = is_gone & (gone == current)
                    is_new &= ~passing
                    is_gone &= ~passing
                yield _picked(batch, is_new), INSERT, current[is_new]
                yield _picked(batch, is_gone), DELETE, gone[is_gone]

    def _removed(
        self,
        fs: FileSystem,
        path: str,
        directory: AcidDirectory,
        bucket: int,
        deleted: DeletedRows,
        valid: ValidWriteIdList,
    ) -> Iterator[_Events]:
        """Deletes of rows that are alive in a directory and were not found yet."""
        properties = self.reader.table.properties
        if properties.get("transactional_properties", "").lower() == "default":
            # deltas hold inserts only: rows of a write id lie in no delta but its own
            directory = replace(
                directory, deltas=tuple(filter(deleted.may_be_in, directory.deltas))
            )
        before = DirectorySources(fs, path, directory, valid=valid)
        deletes = before.deletes(bucket)
        for source in before.rows_of(bucket):
            with before.open(source.file) as reader:
                stripes = None if not reader.is_acid else deleted.stripes(reader)
                if stripes is not None and not stripes:
                    continue
                newest = before.newest(reader, source, needs_ids=True)
                for number, batch in self._stripes(before, reader, source, stripes):
                    at, gone = deleted.left_in(batch)
                    alive = rows_that_count(
                        batch, source, deletes, newest=newest, valid=valid, at=at
                    )
                    if alive is not None:
                        at, gone = at[alive], gone[alive]
                    if not len(at):
                        continue
                    deleted.take(gone)
                    if batch.run is None:
                        columns = _taken(batch, at)
                    else:
                        few = not fs.is_object_store and len(at) < batch.rows // _FEW_OF
                        columns = reader.columns_at(number, at, few=few, **self._wanted())
                    yield columns, DELETE, deleted.write_ids[gone]

    def _stripes(
        self,
        sources: DirectorySources,
        reader: BucketFileReader,
        source: Source,
        stripes: Sequence[int] | None,
    ) -> Iterator[tuple[int, EventBatch]]:
        """Stripes by number; those of whose rows statistics tell the ids without columns."""
        for number in range(reader.stripes) if stripes is None else stripes:
            run = None if source.check_write_ids else reader.run_of(number)
            if run is not None:
                yield number, run
                continue
            for batch in self._batches(sources, reader, source, (number,)):
                yield number, batch

    def _overwritten(self, fs: FileSystem, path: str, unit: ChangeUnit) -> Iterator[_Events]:
        """All rows that an overwrite took away, and all that it wrote."""
        step = unit.step
        sides = (
            (step.before, step.versions.low, DELETE),
            (step.changed, step.versions.high, INSERT),
        )
        for directory, valid, kind in sides:
            found = DirectorySources(fs, path, directory, valid=valid)
            for bucket in _buckets(found, directory, unit.bucket):
                deletes = found.deletes(bucket)
                for source in found.rows_of(bucket):
                    with found.open(source.file) as reader:
                        newest = found.newest(reader, source, needs_ids=True)
                        for batch in self._batches(found, reader, source, None):
                            alive = rows_that_count(
                                batch, source, deletes, newest=newest, valid=valid
                            )
                            chosen = np.ones(batch.rows, bool) if alive is None else alive
                            versions = np.full(int(chosen.sum()), step.overwrite, np.int64)
                            yield _picked(batch, chosen), kind, versions

    def _batches(
        self,
        sources: DirectorySources,
        reader: BucketFileReader,
        source: Source,
        stripes: Sequence[int] | None,
    ) -> Iterator[EventBatch]:
        raw = None if reader.is_acid else sources.raw_rows(source)
        return reader.batches(identities=True, raw=raw, stripes=stripes, **self._wanted())

    def _wanted(self) -> dict[str, Any]:
        columns = self.reader.table.columns
        names = [column.name for column in columns]
        wanted = [names.index(column.name) for column in self.reader.data]
        return {"table_columns": columns, "wanted": wanted, "unit": self.reader.unit}

    # ---------------------------------------------------------------- insert-only tables

    def _plain(self, fs: FileSystem, path: str, unit: ChangeUnit) -> Iterator[_Events]:
        step = unit.step
        if step.overwrite:
            yield from self._files(fs, path, step.before.row_files, DELETE, step.overwrite)
            yield from self._files(fs, path, step.changed.row_files, INSERT, step.overwrite)
            return
        for delta in step.changed.insert_deltas:
            write_id = self._only(delta, step.versions)
            if write_id:
                yield from self._files(fs, path, delta.files, INSERT, write_id)

    def _files(
        self, fs: FileSystem, path: str, files: Sequence[DataFile], kind: str, write_id: int
    ) -> Iterator[_Events]:
        for batch in plain_read(
            fs,
            path,
            files,
            table_columns=self.reader.table.columns,
            columns=[column.name for column in self.reader.data],
            format=None if self.reader.any_format else self.reader.table.format,
            row_format=row_format(self.reader.table.properties),
        ):
            yield batch.columns, kind, np.full(batch.num_rows, write_id, np.int64)

    def _only(self, delta: DeltaDirectory, versions: Versions) -> int:
        """The only write id whose rows a directory has, if it is one of the versions; else 0.

        Raises:
            SnapshotExpiredError: it has several, and one of them is: Hive 3 compacted it.
        """
        first, last = int(delta.name.min_write_id), int(delta.name.max_write_id)
        held = [one for one in range(first, last + 1) if versions.now.is_valid(one)]
        chosen = [one for one in held if versions.has(one)]
        if chosen and len(held) > 1:
            raise SnapshotExpiredError(
                f"Files of the insert-only table {self.reader.table.name} were compacted: nothing"
                f" tells rows of write ids {first} to {last} apart, and changes can be told since"
                f" {last}",
                table=str(self.reader.table.name),
                write_id=last,
            )
        return chosen[0] if chosen else 0

    def _batch(
        self,
        partition: Partition,
        columns: Sequence[pa.Array],
        kind: str,
        versions: Int64s,
        schema: pa.Schema,
    ) -> pa.RecordBatch:
        rows, known = len(versions), distinct(versions)
        moments = [(self.times_ms or {}).get(int(one)) for one in known]
        micros = pa.array([None if ms is None else ms * 1000 for ms in moments], pa.int64())
        times = micros.cast(CHANGE_FIELDS[2].type).take(pa.array(np.searchsorted(known, versions)))
        constants = self.reader.constants(partition)
        ids = pa.array(versions)
        arrays = [*columns, *(pa.repeat(value, rows) for value in (*constants, pa.scalar(kind)))]
        arrays += [ids, times, ids]
        return pa.RecordBatch.from_arrays(_cast(arrays, schema), schema=schema)


_Events = tuple[Sequence[pa.Array], str, Int64s]
"""Rows, what happened to them, and the write id of each event."""


def _gathered(events: Iterable[_Events], schema: pa.Schema) -> Iterator[_Events]:
    """The same rows in fewer pieces: a batch costs what a thousand rows do."""
    held: list[_Events] = []
    for columns, kind, versions in events:
        if held and held[0][1] != kind:
            yield _joined(held)
            held = []
        if len(versions):
            held.append((_cast(columns, schema), kind, versions))
        if sum(len(one) for *_, one in held) >= _PIECE_ROWS:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _joined(pieces: Sequence[_Events]) -> _Events:
    (columns, kind, versions), *others = pieces
    if others:
        parts = zip(*(one for one, *_ in pieces), strict=True)
        columns = [pa.concat_arrays(one) for one in parts]
        versions = np.concatenate([one for *_, one in pieces])
    return columns, kind, versions


def _cast(arrays: Sequence[pa.Array], schema: pa.Schema) -> list[pa.Array]:
    fields = zip(arrays, schema, strict=False)
    return [one if one.type == field.type else one.cast(field.type) for one, field in fields]


def is_among(write_ids: Int64s, versions: Versions) -> Bools:
    """Which write ids are those of the versions."""
    seen, old = valid_mask(write_ids, versions.high), valid_mask(write_ids, versions.low)
    if old is None:
        return np.zeros(len(write_ids), np.bool_)
    return ~old if seen is None else seen & ~old


def _buckets(sources: DirectorySources, directory: AcidDirectory, only: int | None) -> list[int]:
    if only is not None:
        return [only]
    found = {file.bucket for file in directory.row_files}
    return sorted(found | sources.delete_buckets())


def _picked(batch: EventBatch, chosen: Bools) -> list[pa.Array]:
    if chosen.all():
        return list(batch.columns)
    return _taken(batch, np.flatnonzero(chosen))


def _taken(batch: EventBatch, places: Int64s) -> list[pa.Array]:
    return [column.take(pa.array(places)) for column in batch.columns]


@dataclass(frozen=True, slots=True)
class DeleteEvents:
    """Delete events, as arrays of one length: which rows, and which write ids deleted them."""

    ids: tuple[Int64s, Int32s, Int64s]
    write_ids: Int64s

    def where(self, chosen: Bools | Int64s) -> DeleteEvents:
        """Those that are chosen, or those at some places in that order."""
        write_id, bucket, row_id = self.ids
        return DeleteEvents(
            (write_id[chosen], bucket[chosen], row_id[chosen]), self.write_ids[chosen]
        )


def _delete_events(log: DirectorySources, bucket: int, versions: Versions) -> DeleteEvents:
    """The delete events of a bucket that some versions wrote.

    Raises:
        FormatError, MissingFileError: a delete file is damaged or not there.
    """
    parts: list[list[Int64s]] = []
    for file in log.delete_files_of(bucket):
        with log.open(file) as reader:
            check_holds_deletes(reader)
            for ids in reader.identities():
                is_delete = numpy_of(ids.operation) == Operation.DELETE
                arrays = (*ids.numbers(), numpy_of(ids.current_write_id))
                parts.append([array[is_delete] for array in arrays])
    keys = [np.concatenate([part[i] for part in parts] or [_NONE]) for i in range(4)]
    chosen = is_among(keys[3], versions)
    if bucket >= 0:
        chosen &= bucket_numbers(keys[1]) == bucket
    return DeleteEvents((keys[0], keys[1].astype(np.int32), keys[2]), keys[3]).where(chosen)


def _rebased(events: DeleteEvents, bases: Sequence[int]) -> Int64s:
    """For each event the write id of the base by whose ids it names its row, 0 where it is by the
    ids that rows were written with. ``bases`` are the write ids of bases that gave rows other ids,
    ascending: what was deleted after such a base is one of its rows, or younger than it.
    """
    numbers = np.array([0, *bases], np.int64)
    last = numbers[np.searchsorted(numbers[1:], events.write_ids, side="left")]
    return np.where(events.ids[0] <= last, last, 0)


class DeletedRows:
    """Rows that some versions deleted, each with the write id that was first."""

    def __init__(self, events: DeleteEvents, versions: Versions) -> None:
        """Of events of one bucket whose ids name the rows of one numbering."""
        order = np.argsort(-positions(events.write_ids, versions), kind="stable")
        last = events.where(order)  # the first one is assigned last
        self._ids = last.ids
        self._set = DeleteSet([self._ids])
        self.write_ids = np.zeros(len(self._set), np.int64)
        self._taken = np.zeros(len(self._set), np.bool_)
        self.write_ids[self._set.places(*self._ids)] = last.write_ids

    def __len__(self) -> int:
        return len(self._set)

    def left_in(self, batch: EventBatch) -> tuple[Int64s, Int64s]:
        """Which rows of a batch are among those that were not taken yet, and their places there."""
        if batch.run is None:
            at, places = self._set.matches(*batch.ids.numbers())
        else:
            run, first = batch.run, batch.run.first_row_id
            last = first + batch.rows - 1
            sought, places = self._set.between(run.write_id, run.bucket, first, last)
            at = sought - first
        left = ~self._taken[places]
        return at[left], places[left]

    def take(self, places: Int64s) -> None:
        """These are told, and told once."""
        self._taken[places] = True

    def may_be_in(self, delta: DeltaDirectory) -> bool:
        """Whether one of them may lie in the delta, or what deleted it before in a delete delta."""
        if delta.name.is_delete:
            return True
        ids, name = self._ids[0], delta.name
        return bool(((ids >= name.min_write_id) & (ids <= name.max_write_id)).any())

    def stripes(self, reader: BucketFileReader) -> list[int] | None:
        """The stripes that may have one of them; None where the file does not say."""
        tail = reader.tail
        if tail is None or tail.row_index_stride == 0:
            return None
        statistics = tail.stripe_statistics()
        if len(statistics) != len(tail.stripes):
            return None
        names = [name.lower() for name, _ in tail.root.fields]
        numbers = [tail.types[0].children[names.index(name.lower())] for name in IDENTITY]
        found = []
        for place, columns in enumerate(statistics):
            inside = np.ones(len(self._ids[0]), np.bool_)
            for number, ids in zip(numbers, self._ids, strict=True):
                known = columns[number].intStatistics
                if known.HasField("minimum") and known.HasField("maximum"):
                    inside &= (ids >= known.minimum) & (ids <= known.maximum)
            if inside.any():
                found.append(place)
        return found


_NONE: Final[npt.NDArray[np.int64]] = np.zeros(0, np.int64)


def positions(write_ids: Int64s, versions: Versions) -> Int64s:
    """The places of write ids in the order of commits."""
    if versions.positions is None:
        return write_ids
    distinct, places = np.unique(write_ids, return_inverse=True)
    return np.array([versions.position(int(one)) for one in distinct], np.int64)[places]

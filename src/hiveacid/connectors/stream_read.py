"""``spark.readStream.format("hiveacid")``: the rows that each new write id appended.

An offset is the table's identity and a write id up to which all are decided, committed or aborted:
one that is open while higher ones commit holds the stream back, and is not passed over. A batch is
the rows whose own write id lies between two offsets. Rows keep theirs when they are compacted, so
it does not matter what was compacted meanwhile; in insert-only tables files have it, not rows.

The first batch of a stream without ``startingWriteId`` is the table as it is. A write id that
updated, deleted or replaced rows is an error, or passed over with ``skipChangeCommits``. Who did is
told by directories, also by those that a compaction replaced, as long as the retention keeps them.
Where somebody did, rows that a batch is to have may be gone since: they come from what is kept
(``batch_read.appended_between``).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from hiveacid.connectors.batch_read import (
    AppendedPartition,
    appended_between,
    check_schema,
    read_appended,
    read_units,
    table_then,
    tasks_of,
)
from hiveacid.connectors.options import Options
from hiveacid.connectors.table_stream import (
    ANEW,
    Limited,
    TableStream,
    check_none_dropped,
    check_same,
    check_told,
    identity,
    stream_table,
    valid_now,
)
from hiveacid.errors import InvalidInputError, SnapshotExpiredError, UnsupportedError
from hiveacid.layout.changes import write_ids_of
from hiveacid.layout.directories import (
    BaseName,
    DeltaDirectory,
    DeltaName,
    Snapshot,
    SnapshotPart,
    parse_directory,
)
from hiveacid.model.history import Pin, Version
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import AcidMode, Table, WriteId
from hiveacid.spark.arrow_read import units_of
from hiveacid.spark.session import ROW_ID_COLUMN
from hiveacid.statements.select import open_lease
from hiveacid.storage.change_plan import is_overwrite, uncompacted
from hiveacid.storage.filesystem import Files
from hiveacid.storage.merge.overlap import deleting_write_ids
from hiveacid.storage.plan.planning import plan_scan
from hiveacid.storage.read import TableReader

if TYPE_CHECKING:
    from hiveacid.session import Session

_NOTHING_YET: Final = -1
"""The offset before the first batch of a stream that begins with the whole table."""


@dataclass(frozen=True, slots=True)
class WriteIds:
    """The write ids of a batch: above ``low``, up to ``high``, without those ``skipped``."""

    low: int
    high: int
    skipped: frozenset[int] = frozenset()

    @property
    def is_first(self) -> bool:
        """Whether it is the table as it is, up to ``high``."""
        return self.low == _NOTHING_YET

    def has(self, write_id: int) -> bool:
        """Whether it is one of them, or of those skipped."""
        return self.low < write_id <= self.high

    def overlap(self, name: BaseName | DeltaName) -> bool:
        """Whether the rows of a directory may be of these."""
        first, last = write_ids_of(name)
        return last > self.low and first <= self.high

    def cover(self, name: BaseName | DeltaName) -> bool:
        """Whether all rows of a directory are of these."""
        first, last = write_ids_of(name)
        is_plain = not any(first <= one <= last for one in self.skipped)
        return first > self.low and last <= self.high and is_plain

    def mask(self, write_ids: pa.Array) -> pa.Array:
        """Which of these are among them."""
        chosen = pc.and_(pc.greater(write_ids, self.low), pc.less_equal(write_ids, self.high))
        if self.skipped:
            skipped = pa.array(sorted(self.skipped), pa.int64())
            chosen = pc.and_not(chosen, pc.is_in(write_ids, skipped))
        return chosen


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """The units of one task, with all that is needed to read them."""

    units: tuple[bytes, ...]
    reader: bytes
    write_ids: WriteIds


class StreamReader(TableStream):
    """A stream of rows, without limits."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._skips = bool(options.flag("skipChangeCommits"))
        self._starting = _starting(options)

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first batch: where its consumer is, else ``startingWriteId``."""
        with self._options.connect() as session:
            table = stream_table(session, self._options)
            decided = _decided(valid_now(session, table))
            own = session.client.own
            start = decided if self._starting == "latest" else int(self._starting) - 1
            begun = self._consumer.begins(own, table)
            if begun is not None:
                start = _decided_by(begun)
            elif start != _NOTHING_YET:
                self._consumer.begin(own, table, _state(session, table, start))
        return _offset(table, start)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch.

        Raises:
            InvalidInputError: the checkpoint is one of another table, or is newer than this one.
            UnsupportedError: rows were updated, deleted or replaced.
            SnapshotExpiredError: the write ids of rows cannot be told any more.
        """
        write_ids = WriteIds(int(start["writeId"]), int(end["writeId"]))
        if start == end:
            return []
        with self._options.connect() as session:
            table = stream_table(session, self._options)
            for offset in (start, end):
                check_same(table, offset)
            self._check_given_out(table, valid_now(session, table), write_ids.low, write_ids.high)
            if write_ids.low >= write_ids.high:
                return []
            lease = open_lease(session.reading_context(), table, keep=lambda partitions: partitions)
            snapshot, files = lease.snapshot, lease.files
            check_schema(snapshot.table, self._schema)
            if write_ids.is_first:
                own, high = session.client.own, _state(session, table, write_ids.high)
                self._consumer.begin(own, table, replace(high, write_id=WriteId(0)))
                check_none_dropped(own, table, high, skips_changes=self._skips)
                if _changed(snapshot, replace(write_ids, low=write_ids.high), files):
                    snapshot = table_then(session, table, high)
                return self._tasks(_narrowed(snapshot, write_ids, files), write_ids, files)
            low = _state(session, table, write_ids.low)
            with self._consumer.reading(session.client.own, table, low):
                check_told(session, table, low, write_ids.high, skips_changes=self._skips)
                changes = self._changes(snapshot, write_ids, files)
                write_ids = replace(write_ids, skipped=frozenset(filter(write_ids.has, changes)))
                if changes:
                    return appended_between(
                        session,
                        table,
                        self._schema,
                        (low, _state(session, table, write_ids.high)),
                        skipped=write_ids.skipped if self._skips else None,
                    )
                return self._tasks(_narrowed(snapshot, write_ids, files), write_ids, files)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        if isinstance(partition, AppendedPartition):
            yield from read_appended(partition, self._schema)
            return
        assert isinstance(partition, RangePartition)
        reader: TableReader = pickle.loads(partition.reader)
        units = map(pickle.loads, partition.units)

        def kept(batch: pa.RecordBatch) -> pa.RecordBatch:
            if not reader.row_ids:
                return batch
            ids = batch.column(batch.schema.names.index(ROW_ID_COLUMN))
            return batch.filter(partition.write_ids.mask(ids.field(0)))

        yield from read_units(reader, units, self._schema, keep=kept)

    def _last(self, session: Session, table: Table) -> dict[str, Any]:
        """The highest write id up to which all are decided: a batch never ends below where the
        stream begins.
        """
        return _offset(table, max(_decided(valid_now(session, table)), self._first - 1))

    def _state(self, session: Session, table: Table, offset: Mapping[str, Any]) -> Version:
        check_same(table, offset)
        return _state(session, table, int(offset["writeId"]))

    def _next(
        self, session: Session, table: Table, start: dict[str, Any], *, is_limited: bool
    ) -> dict[str, Any]:
        now = valid_now(session, table)
        low, high = int(start["writeId"]), _decided(now)
        self._check_given_out(table, now, low)
        if self._until is not None:
            high = min(high, int(self._until["writeId"]))
        if high <= low:
            return start
        if is_limited and low != _NOTHING_YET:
            high = self._limited(session, table, WriteIds(low, high))
        return _offset(table, high)

    @property
    def _first(self) -> int:
        """The write id that the stream begins with, which may be one to come."""
        return 0 if self._starting == "latest" else int(self._starting)

    def _check_given_out(self, table: Table, now: ValidWriteIdList, *read: int) -> None:
        """Raises: InvalidInputError: nobody has a write id that the stream has read, so that what
        comes by it would be passed over.
        """
        last = max(read)
        if last > max(now.hwm, self._first - 1):
            raise InvalidInputError(
                f"The checkpoint has read {table.name} up to write id {last}, and the metastore"
                f" has given out {now.hwm}: it is older than the checkpoint, as where a backup was"
                " restored",
                table=str(table.name),
                write_id=last,
                note=ANEW,
            )

    def _changes(self, snapshot: Snapshot, wanted: WriteIds, files: Files) -> frozenset[int]:
        """The write ids since the last batch that changed rows, those after this batch, too.

        Raises:
            UnsupportedError: there are some in this batch, and they are not to be skipped.
        """
        found = _changed(snapshot, wanted, files)
        first = min(filter(wanted.has, found), default=None)
        if first is not None and not self._skips:
            raise UnsupportedError(
                f"Write id {first} updated, deleted or replaced rows of"
                f" {snapshot.table.name}: the source hiveacid reads appended rows",
                table=str(snapshot.table.name),
                write_id=first,
                note=f".option('skipChangeCommits', 'true') passes over such write ids. {ANEW}",
            )
        return found

    def _tasks(
        self, snapshot: Snapshot, wanted: WriteIds, files: Files
    ) -> Sequence[InputPartition]:
        columns = [name.lower() for name in self._schema.names]
        plan = plan_scan(snapshot, files=files, columns=columns)
        has_ids = snapshot.table.acid_mode is AcidMode.FULL
        reader = TableReader(
            files, snapshot.table, frozenset(plan.columns), snapshot.valid, row_ids=has_ids
        )
        pickled = pickle.dumps(reader)
        units = units_of(plan, row_ids=has_ids)
        return [RangePartition(some, pickled, wanted) for some in tasks_of(units)]

    def _limited(self, session: Session, table: Table, wanted: WriteIds) -> int:
        high = wanted.high
        if self._versions_max:
            high = min(high, wanted.low + self._versions_max)
        if not self._bytes_max:
            return high
        lease = open_lease(session.reading_context(), table, keep=lambda partitions: partitions)
        sizes: dict[int, int] = {}
        for part in _narrowed(lease.snapshot, wanted, lease.files).parts:
            base = part.directory.base
            for one in (*part.directory.deltas, *(() if base is None else (base,))):
                size_bytes = sum(file.size_bytes for file in one.files)
                last = write_ids_of(one.name)[1]
                sizes[last] = sizes.get(last, 0) + size_bytes
        sum_bytes, reached = 0, wanted.low
        for last in sorted(sizes):
            sum_bytes += sizes[last]
            if sum_bytes > self._bytes_max and reached > wanted.low:
                return min(high, reached)
            reached = last
        return high


class LimitedStreamReader(StreamReader, Limited):
    """A stream of rows, a batch of which may have an end where Spark can say so."""


# -------------------------------------------------------------------- offsets


def _starting(options: Options) -> str:
    text = options.more.get("startingwriteid", "0")
    if text != "latest" and not (text.isascii() and text.isdigit()):
        raise InvalidInputError(
            f"Option startingWriteId is a write id or 'latest', not {text!r}",
            option="startingWriteId",
        )
    return text


def _decided(now: ValidWriteIdList) -> int:
    """The highest write id up to which none is open."""
    return min(now.hwm, now.min_open - 1)


def _state(session: Session, table: Table, write_id: int) -> Version:
    """The table with all write ids up to this one; they are decided."""
    now = valid_now(session, table)
    aborted = [one for one in now.aborted if one <= write_id]
    last = write_id
    while last and not now.is_valid(last):
        last -= 1
    valid = ValidWriteIdList.of(now.table, hwm=write_id, aborted=aborted)
    return Version(WriteId(last), valid, None, None)


def _decided_by(consumer: Pin) -> int:
    """The write id up to which a consumer has read all.

    Raises:
        InvalidInputError: it has read others than the first ones.
    """
    if consumer.valid.open:
        raise InvalidInputError(
            f"The consumer {consumer.name} of {consumer.table} has read versions in the order of"
            " commits, and this stream goes by write ids",
            table=str(consumer.table),
            consumer=consumer.name,
        )
    return consumer.valid.hwm


def _offset(table: Table, write_id: int) -> dict[str, Any]:
    return {"table": identity(table), "writeId": write_id}


# -------------------------------------------------------------------- directories


def _changed(snapshot: Snapshot, wanted: WriteIds, files: Files) -> frozenset[int]:
    """The write ids since the last batch that changed rows."""
    found = (one for part in snapshot.parts for one in _changing(part, wanted, files))
    return frozenset(filter(snapshot.valid.is_valid, found))


def _changing(part: SnapshotPart, wanted: WriteIds, files: Files) -> Iterator[int]:
    """The write ids since the last batch that changed rows of a partition, as far as its
    directories tell.
    """
    directory = part.directory
    visible = [] if directory.base is None else [directory.base.path]
    visible += [delta.path for delta in directory.deltas]
    fs, root = files.at(part.partition.location)
    for path in (*visible, *directory.obsolete):
        name = parse_directory(path)
        if name is None or write_ids_of(name)[1] <= wanted.low:
            continue
        if is_overwrite(name, fs, root):
            yield write_ids_of(name)[1]
        if not isinstance(name, DeltaName) or not name.is_delete:
            continue
        if name.min_write_id == name.max_write_id:
            yield int(name.min_write_id)
            continue
        for entry in fs.list_directory(f"{root}/{path}"):
            if not entry.is_directory and entry.name.startswith("bucket_"):
                found = deleting_write_ids(fs, entry.path)
                yield from (one for one in found if one > wanted.low)


def _narrowed(snapshot: Snapshot, wanted: WriteIds, files: Files) -> Snapshot:
    """The directories that may have rows of these write ids; deletes count for the first batch.

    Raises:
        SnapshotExpiredError: files of an insert-only table hold rows of others, too.
    """
    parts = []
    for part in snapshot.parts:
        directory = part.directory
        base = directory.base
        if base is not None and not wanted.overlap(base.name):
            base = None
        deltas = tuple(
            one
            for one in directory.deltas
            if wanted.overlap(one.name) and (wanted.is_first or not one.name.is_delete)
        )
        if snapshot.table.acid_mode is AcidMode.INSERT_ONLY:
            deltas = _told_apart(snapshot, part, wanted, files)
            base = None
        originals = directory.originals if wanted.is_first else ()
        narrowed = replace(directory, base=base, deltas=deltas, originals=originals)
        parts.append(SnapshotPart(part.partition, narrowed))
    return Snapshot(snapshot.table, snapshot.valid, tuple(parts))


def _told_apart(
    snapshot: Snapshot, part: SnapshotPart, wanted: WriteIds, files: Files
) -> tuple[DeltaDirectory, ...]:
    """The directories of an insert-only table whose rows are all wanted.

    Raises:
        SnapshotExpiredError: what told rows apart was compacted, and is gone.
    """
    table, directory = snapshot.table, part.directory
    fs, root = files.at(part.partition.location)
    directories: list[DeltaDirectory] = []
    for one in (*(() if directory.base is None else (directory.base,)), *directory.deltas):
        first, last = write_ids_of(one.name)
        is_skipped = last in wanted.skipped and is_overwrite(one.name, fs, root)
        if is_skipped or not wanted.overlap(one.name):
            continue
        if wanted.cover(one.name):
            as_delta = DeltaName(WriteId(max(first, 1)), WriteId(max(last, 1)))
            directories.append(DeltaDirectory(one.path, as_delta, one.files, all_valid=True))
            continue
        inputs = uncompacted(fs, root, table, part, one, valid=snapshot.valid)
        chosen = [each for each in inputs or () if wanted.overlap(each.name)]
        if inputs is None or not all(_is_chosen(each, wanted) for each in chosen):
            raise SnapshotExpiredError(
                f"Files of the insert-only table {table.name} were compacted before the stream"
                f" read them: rows of the write ids {first} to {last} cannot be told apart, and it"
                f" reads on from {wanted.low + 1}",
                table=str(table.name),
                note=f"Rows of full ACID tables can. {ANEW}",
            )
        directories += [each for each in chosen if wanted.cover(each.name)]
    return tuple(directories)


def _is_chosen(delta: DeltaDirectory, wanted: WriteIds) -> bool:
    """Whether all of a directory's rows are wanted, or none."""
    first, last = write_ids_of(delta.name)
    return wanted.cover(delta.name) or (first == last and first in wanted.skipped)

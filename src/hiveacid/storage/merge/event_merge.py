"""The events of one bucket of a partition directory in one sorted stream, for a compaction.

    every file -> its range of identities -> files whose ranges overlap stand in one group
        a group of one file    its events, stripe by stripe
        a group of several     windows: as much of each file's stripe as comes before the first end
                               of a stripe, sorted together

Base and deltas of different write ids are apart, so most groups are of one file. Memory: one
stripe of each file of a group; no generator keeps what it has yielded. Order and duplicates are
those of Hive's compactor (format.md 4.5, 10.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hiveacid.errors import FormatError
from hiveacid.layout.directories import DataFile, DeltaName
from hiveacid.layout.events import EVENT_FIELDS, KEY_INDEX_KEY, Operation, usable_key_index
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import Column
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.merge.delete_set import Bools, DeleteSet
from hiveacid.storage.merge.sources import (
    DirectorySources,
    Key,
    Source,
    both,
    check_holds_deletes,
    deletes_among,
    key_bounds,
    numpy_of,
    rows_that_count,
)
from hiveacid.storage.orc.bucket_reader import BucketFileReader, EventBatch

_AT_ONCE_ROWS: Final = 200_000
"""Groups of no more rows than this are sorted as a whole: many small files make many windows."""
_PIECE_ROWS: Final = 1 << 17
_CURRENT: Final = 4
"""Place of currentTransaction among ``Events.system``; 1 to 3 are the identity."""


@dataclass(frozen=True, slots=True)
class Events:
    """Some events: ``system`` holds the five numbers of each, ``statement`` the statement id of its
    directory, ``columns`` the user columns (none for deletes), ``null_rows`` which have no row.
    """

    system: tuple[npt.NDArray[Any], ...]
    statement: npt.NDArray[np.int32]
    columns: tuple[pa.Array, ...]
    null_rows: Bools | None

    def __len__(self) -> int:
        return len(self.statement)

    def key(self, place: int) -> Key:
        """The identity of one event."""
        write_id, bucket, row_id = (int(self.system[i][place]) for i in (1, 2, 3))
        return write_id, bucket, row_id

    def slice(self, start: int, stop: int) -> Events:
        """Events from ``start`` up to ``stop``."""
        null = None if self.null_rows is None else self.null_rows[start:stop]
        return Events(
            tuple(array[start:stop] for array in self.system),
            self.statement[start:stop],
            tuple(column.slice(start, stop - start) for column in self.columns),
            null,
        )

    def filter(self, keep: Bools) -> Events:
        """The events where ``keep`` is true."""
        chosen = pa.array(keep)
        null = None if self.null_rows is None else self.null_rows[keep]
        return Events(
            tuple(array[keep] for array in self.system),
            self.statement[keep],
            tuple(column.filter(chosen) for column in self.columns),
            null,
        )

    def take(self, places: npt.NDArray[np.int64]) -> Events:
        """The events at ``places``, in that order."""
        chosen = pa.array(places)
        null = None if self.null_rows is None else self.null_rows[places]
        return Events(
            tuple(array[places] for array in self.system),
            self.statement[places],
            tuple(column.take(chosen) for column in self.columns),
            null,
        )

    def count_to(self, bound: Key) -> int:
        """How many of these sorted events have an identity up to ``bound``."""
        low, high = 0, len(self)
        for array, value in zip(self.system[1:_CURRENT], bound, strict=True):
            part = array[low:high]
            low, high = (
                low + int(np.searchsorted(part, value, "left")),
                low + int(np.searchsorted(part, value, "right")),
            )
            if low == high:
                return low
        return high

    def record_batch(self, row_type: pa.StructType) -> pa.RecordBatch:
        """The six columns of format.md 4.1."""
        count = len(self)
        if not self.columns:
            row = pa.nulls(count, row_type)
        else:
            mask = None if self.null_rows is None else pa.array(self.null_rows)
            names = [field.name for field in row_type]
            row = pa.StructArray.from_arrays(self.columns, names=names, mask=mask)
        system = [pa.array(array) for array in self.system]
        return pa.RecordBatch.from_arrays([*system, row], names=list(EVENT_FIELDS))


@dataclass(frozen=True, slots=True)
class _Run:
    """The events of one file: ``low`` and ``high`` bound their identities."""

    path: str
    low: Key
    high: Key
    rows: int
    events: Callable[[], Iterator[Events]]


@dataclass(frozen=True, slots=True)
class What:
    """Bucket numbers, the columns of the table, whose events count, and the unit of timestamps.

    ``low`` and ``high`` bound the identities, ``high`` being excluded; None for no bound.
    """

    buckets: tuple[int, ...]
    columns: tuple[Column, ...]
    valid: ValidWriteIdList
    unit: str
    low: Key | None = None
    high: Key | None = None


def live_rows(sources: DirectorySources, what: What) -> Iterator[Events]:
    """The rows that count, as insert events with the identities they have (a base).

    Raises:
        FormatError: a damaged file, or one whose events are not sorted.
        MissingFileError, StorageError: a file is not there or cannot be read.
    """
    runs = [run for bucket in what.buckets for run in _live_runs(sources, bucket, what)]
    for events in _merged(runs, unique=_IDENTITY_ONLY):
        system = list(events.system)
        system[0] = np.full(len(events), Operation.INSERT, dtype=np.int32)
        yield Events(tuple(system), events.statement, events.columns, None)
        del events, system


def _live_runs(sources: DirectorySources, bucket: int, what: What) -> Iterator[_Run]:
    deletes = sources.deletes(bucket)

    def keep(source: Source, batch: EventBatch, newest: Bools | None) -> Bools | None:
        found = rows_that_count(batch, source, deletes, newest=newest, valid=what.valid)
        return both(found, _between(batch, what))

    for source in sources.rows_of(bucket):
        yield from _row_runs(sources, source, what, keep=keep, newest=True)


def all_events(sources: DirectorySources, what: What) -> Iterator[Events]:
    """The events in insert deltas whose transactions are valid (a delta).

    Updates and deletes of Hive before 3 stay what they are.

    Raises:
        FormatError, MissingFileError, StorageError: as ``live_rows``.
    """
    nothing = DeleteSet(())

    def keep(source: Source, batch: EventBatch, _: Bools | None) -> Bools | None:
        return rows_that_count(batch, source, nothing, newest=None, valid=what.valid)

    runs = [
        run
        for bucket in what.buckets
        for source in sources.rows_of(bucket)
        if isinstance(source.origin, DeltaName)
        for run in _row_runs(sources, source, what, keep=keep, newest=False)
    ]
    yield from _merged(runs, unique=_WITH_CURRENT)


def delete_events(sources: DirectorySources, what: What) -> Iterator[Events]:
    """The delete events whose transactions are valid (a delete delta).

    Raises:
        FormatError, MissingFileError, StorageError: as ``live_rows``.
    """
    foreign = sources.delete_files_of_several_buckets()
    runs = []
    for bucket in what.buckets:
        for file in sources.delete_files_of(bucket):
            only = bucket if file.path in foreign else None
            run = _delete_run(sources, file, what.valid, only=only)
            if run is not None:
                runs.append(run)
    yield from _merged(runs, unique=_WITH_CURRENT)


_IDENTITY_ONLY: Final = 3
_WITH_CURRENT: Final = 4
"""How many of identity and currentTransaction tell events apart."""


def _row_runs(
    sources: DirectorySources,
    source: Source,
    what: What,
    *,
    keep: Callable[[Source, EventBatch, Bools | None], Bools | None],
    newest: bool,
) -> Iterator[_Run]:
    """The run of one file with rows; none where it is empty."""
    with sources.open(source.file) as reader:
        if not reader.rows:
            return
        raw = None if reader.is_acid else sources.raw_rows(source)
        rows = reader.rows
        mask = sources.newest(reader, source, needs_ids=True) if newest else None
        low, high = key_bounds(reader, raw)
        stripes = _stripes_between(reader, what)
    if (what.high is not None and low >= what.high) or (what.low is not None and high < what.low):
        return
    statement = source.origin.statement_id if isinstance(source.origin, DeltaName) else -1

    def events() -> Iterator[Events]:
        wanted = range(len(what.columns))
        with sources.open(source.file) as reader:
            for batch in reader.batches(
                table_columns=what.columns,
                wanted=wanted,
                identities=True,
                raw=raw,
                stripes=stripes,
                unit=what.unit,
                exact=True,
            ):
                yield from _events(batch, statement, keep(source, batch, mask))
                del batch

    yield _Run(sources.path(source.file), low, high, rows, events)


def _delete_run(
    sources: DirectorySources, file: DataFile, valid: ValidWriteIdList, *, only: int | None
) -> _Run | None:
    with sources.open(file) as reader:
        check_holds_deletes(reader)
        if not reader.rows:
            return None
        rows = reader.rows
        low, high = key_bounds(reader)

    def events() -> Iterator[Events]:
        with sources.open(file) as reader:
            for batch in reader.batches(table_columns=(), wanted=(), identities=True):
                yield from _events(batch, -1, deletes_among(batch.ids, valid, bucket=only))

    return _Run(sources.path(file), low, high, rows, events)


def _events(batch: EventBatch, statement: int, keep: Bools | None) -> Iterator[Events]:
    """The events to keep of a stripe, in pieces: a second copy of a whole stripe is not held."""
    ids = batch.ids
    system = (numpy_of(ids.operation), *ids.numbers(), numpy_of(ids.current_write_id))
    null = None if batch.row_is_null is None else numpy_of(batch.row_is_null)
    found = Events(system, np.full(batch.rows, statement, dtype=np.int32), batch.columns, null)
    if keep is None or keep.all():
        yield found
        return
    for start in range(0, batch.rows, _PIECE_ROWS):
        stop = min(start + _PIECE_ROWS, batch.rows)
        yield found.slice(start, stop).filter(keep[start:stop])


def _between(batch: EventBatch, what: What) -> Bools | None:
    """Which identities lie within the bounds; None for all."""
    if what.low is None and what.high is None:
        return None
    keys = batch.ids.numbers()
    found = np.ones(batch.rows, dtype=np.bool_)
    if what.low is not None:
        found &= ~_before(keys, what.low)
    if what.high is not None:
        found &= _before(keys, what.high)
    return found


def _before(keys: Sequence[npt.NDArray[Any]], bound: Key) -> Bools:
    found = np.zeros(len(keys[0]), dtype=np.bool_)
    same = np.ones(len(keys[0]), dtype=np.bool_)
    for array, value in zip(keys, bound, strict=True):
        found |= same & (array < value)
        same &= array == value
    return found


def _stripes_between(reader: BucketFileReader, what: What) -> list[int] | None:
    """The stripes that may hold identities within the bounds, by the key index; None for all."""
    if reader.tail is None or (what.low is None and what.high is None):
        return None
    text = reader.tail.user_metadata.get(KEY_INDEX_KEY, b"").decode("ascii", "replace")
    last = usable_key_index(text, stripes=reader.stripes)
    if last is None:
        return None
    ends = [(row.write_id, row.bucket, row.row_id) for row in last]
    return [
        number
        for number, end in enumerate(ends)
        if (what.low is None or end >= what.low)
        and (what.high is None or number == 0 or ends[number - 1] < what.high)
    ]


def _merged(runs: Iterable[_Run], *, unique: int) -> Iterator[Events]:
    """The events of all runs in order, those alike in ``unique`` numbers once."""
    for group in _groups(sorted(runs, key=lambda run: (run.low, run.high))):
        if len(group) == 1:
            yield from _in_order(group[0])
        elif sum(run.rows for run in group) <= _AT_ONCE_ROWS:
            parts = [events for run in group for events in run.events() if len(events)]
            if parts:
                yield _sorted(parts, unique=unique, before=None)
        else:
            yield from _windows(group, unique=unique)


def _groups(runs: Sequence[_Run]) -> Iterator[list[_Run]]:
    group: list[_Run] = []
    for run in runs:
        if group and run.low > max(other.high for other in group):
            yield group
            group = []
        group.append(run)
    if group:
        yield group


def _in_order(run: _Run) -> Iterator[Events]:
    """The events of one file, none of them empty batches.

    Raises:
        FormatError: they are not sorted; Hive relies on it, too.
    """
    last: Key | None = None
    for events in run.events():
        if not len(events):
            continue
        if not _is_sorted(events) or (last is not None and events.key(0) < last):
            raise FormatError(
                f"The events of {run.path} are not sorted by row",
                path=run.path,
                expected="events sorted by originalTransaction, bucket, rowId",
                found="others",
            )
        last = events.key(-1)
        yield events
        del events


def _is_sorted(events: Events) -> bool:
    same = np.ones(len(events) - 1, dtype=np.bool_)
    for array in events.system[1:_CURRENT]:
        if (same & (array[1:] < array[:-1])).any():
            return False
        same &= array[1:] == array[:-1]
    return True


def _windows(group: Sequence[_Run], *, unique: int) -> Iterator[Events]:
    streams = [_in_order(run) for run in group]
    heads = {place: next(stream, None) for place, stream in enumerate(streams)}
    before: tuple[int, ...] | None = None
    while waiting := {place: head for place, head in heads.items() if head is not None}:
        bound = min(head.key(-1) for head in waiting.values())
        parts = []
        for place, head in waiting.items():
            count = head.count_to(bound)
            if count:
                parts.append(head.slice(0, count))
            rest = head.slice(count, len(head))
            heads[place] = rest if len(rest) else next(streams[place], None)
        events = _sorted(parts, unique=unique, before=before)
        if len(events):
            before = tuple(int(array[-1]) for array in events.system[1 : 1 + unique])
            yield events


def _sorted(parts: Sequence[Events], *, unique: int, before: tuple[int, ...] | None) -> Events:
    """Events of several files sorted by identity, the newest first, each once; ``before`` is the
    last one that went out.
    """
    all_of = joined(parts)
    identity, current = all_of.system[1:_CURRENT], all_of.system[_CURRENT]
    order = np.lexsort((-all_of.statement, -current, *reversed(identity)))
    keys = [array[order] for array in all_of.system[1 : 1 + unique]]
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    if before is not None and tuple(int(key[0]) for key in keys) == before:
        new[0] = False
    return all_of.take(order[new])


def joined(parts: Sequence[Events]) -> Events:
    """Some events after each other."""
    null = None
    if any(part.null_rows is not None for part in parts):
        null = np.concatenate(
            [
                np.zeros(len(part), np.bool_) if part.null_rows is None else part.null_rows
                for part in parts
            ]
        )
    return Events(
        tuple(
            np.concatenate(arrays) for arrays in zip(*(part.system for part in parts), strict=True)
        ),
        np.concatenate([part.statement for part in parts]),
        tuple(pa.concat_arrays(arrays) for arrays in zip(*(p.columns for p in parts), strict=True)),
        null,
    )


def row_type_of(columns: Sequence[Column], *, unit: str) -> pa.StructType:
    """The Arrow type of a row with these columns."""
    return pa.struct([(column.name, arrow_type(column.type, unit=unit)) for column in columns])

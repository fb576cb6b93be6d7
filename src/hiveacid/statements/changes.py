"""The changes of a table between two versions, as a transaction that reads sees them.

A version is a write id: the state just after it committed, in the order of commits. Where somebody
writes who records no commits (Hive), what is open holds the last version back, so that a reader who
goes on from there misses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from hiveacid.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    SnapshotExpiredError,
)
from hiveacid.layout.changes import Versions, WrittenFiles
from hiveacid.metastore.api import OwnDatabase
from hiveacid.model.history import (
    AsOf,
    ChangeRange,
    Commit,
    ConsumerMove,
    Deduplication,
    Floor,
    Pin,
    PinKind,
    Version,
)
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import FIRST_WRITE_ID_AFTER_CONVERSION, AcidMode, Table
from hiveacid.statements.constraints import key_constraints
from hiveacid.statements.context import ExecutionContext
from hiveacid.storage.change_pairs import paired
from hiveacid.storage.change_plan import ChangeUnit, change_units
from hiveacid.storage.changes import CHANGE_FIELDS, ChangeReader
from hiveacid.storage.filesystem import Files
from hiveacid.storage.read import TableReader
from hiveacid.txn.past import check_all_there, first_with_all_partitions, partitions_then
from hiveacid.txn.pins import (
    consumer_pin,
    keeps_changes_since,
    kept_for_ms,
    pin_name,
)
from hiveacid.txn.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class ChangeScan:
    """What there is to read for some changes; ``close`` ends the transaction that keeps it."""

    table: Table
    versions: Versions
    units: tuple[ChangeUnit, ...]
    reader: ChangeReader
    key: tuple[str, ...]
    close: Callable[[], None] = lambda: None
    move: ConsumerMove | None = None
    """What its consumer has read with it, where no transaction will say so in its commit."""

    @property
    def is_net(self) -> bool:
        """Whether only the difference between the states is told."""
        return self.reader.is_net

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The events, as they lie in the files.

        Raises:
            AcidError: reading failed.
        """
        for unit in self.units:
            yield from self.reader.rows(unit)

    def read(self) -> pa.Table:
        """All events, ordered by version, updates with their images.

        Raises:
            AcidError: reading failed.
        """
        schema = self.reader.schema()
        return self.finished(pa.Table.from_batches(list(self.batches()), schema))

    def frame(self, context: ExecutionContext) -> DataFrame:
        """The events as a DataFrame that reads them when it runs.

        Raises:
            AcidError: reading failed.
        """
        from hiveacid.spark.arrow_read import changes_frame

        return changes_frame(
            context.session(),
            self.units,
            self.reader,
            key=self.key,
            versions=self.versions,
            bytes_here=context.settings.reads_local_bytes,
        )

    def finished(self, events: pa.Table) -> pa.Table:
        """Events of whole keys and versions in their order, updates with their images."""
        return paired(events, key=self.key, versions=self.versions, is_net=self.is_net)


def plan_changes(
    txn: Transaction,
    table: Table,
    wanted: ChangeRange,
    *,
    own: OwnDatabase,
    files: Files,
    columns: Iterable[str] | None = None,
    between: tuple[Version, Version] | None = None,
) -> ChangeScan:
    """What a transaction reads for the changes of a table; ``between`` two states, where they are
    given, whatever ``wanted`` says.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a version that the table does not have yet.
        SnapshotExpiredError: files that tell the changes are cleaned; ``write_id`` is the oldest
            version from which they can be told.
        MissingFileError: somebody removed some of them by hand.
        ConflictError: somebody else read under the name of the consumer at this moment.
    """
    if table.acid_mode is AcidMode.NONE:
        raise InvalidInputError(
            f"{table.name} is not transactional: nothing tells what changed", table=str(table.name)
        )
    plan = _Plan(txn, table, wanted, own, files, columns, _others(txn, table))
    if between is not None:
        return plan.since(*between)[0]
    if wanted.consumer is None:
        return plan.told(plan.first())[0]
    name, keep_ms = pin_name(wanted.consumer, PinKind.CONSUMER), wanted.keep_ms
    first = None if wanted.since is None else plan.first
    with consumer_pin(own, table, name, keep_ms=keep_ms, first=first) as pin:
        scan, high = plan.told(plan.of_consumer(pin))
    after = Pin(PinKind.CONSUMER, name, table.name, high.write_id, high.valid)
    move = ConsumerMove(pin, after, kept_for_ms(pin, keep_ms))
    if txn.is_read_only:
        return replace(scan, move=move)
    txn.pending.consumed.append(move)
    return scan


@dataclass(frozen=True, slots=True)
class _Plan:
    """Plans changes; ``now`` are the write ids that others committed."""

    txn: Transaction
    table: Table
    wanted: ChangeRange
    own: OwnDatabase
    files: Files
    columns: Iterable[str] | None
    now: ValidWriteIdList

    def told(self, low: Version) -> tuple[ChangeScan, Version]:
        """As ``since``; an error names a version from which on all is told."""
        try:
            return self.since(low)
        except SnapshotExpiredError as error:
            surely = self._surely(error)
            if surely is error:
                raise
            raise surely from error

    def _surely(self, error: SnapshotExpiredError) -> SnapshotExpiredError:
        """The error with a version from which on all changes up to now are told: of what is lost
        there may be more than was found first.
        """
        to_now = replace(self, wanted=replace(self.wanted, until=None))
        while isinstance(oldest := error.context.get("write_id"), int):
            try:
                to_now.since(state_of(self.own, self.table, self.now, oldest))
                break
            except SnapshotExpiredError as later:
                if later.context.get("write_id") == oldest:
                    break
                error = later
        return error

    def first(self) -> Version:
        """The state that the first version of the range begins with."""
        wanted = self.wanted
        assert wanted.since is not None
        return self._state(wanted.since, included=not wanted.includes_since)

    def _state(self, wanted: int | AsOf, *, included: bool) -> Version:
        """The state just after a version or a time, or just before it."""
        if isinstance(wanted, AsOf):
            return state_at_time(self.own, self.table, self.now, wanted, included=included)
        return state_of(self.own, self.table, self.now, wanted, included=included)

    def of_consumer(self, pin: Pin) -> Version:
        """The state that a consumer has read to; what committed unrecorded since is no part of it.

        Raises:
            ConflictError: it went beyond what the transaction sees.
        """
        if pin.write_id > self.now.hwm or pin.write_id in self.now.open:
            raise ConflictError(
                f"The consumer {pin.name} of {self.table.name} was moved to version {pin.write_id}"
                " by somebody else, after the transaction began",
                table=str(self.table.name),
                consumer=pin.name,
                version=int(pin.write_id),
            )
        there = self.own.version(self.table.name, write_id=pin.write_id)
        return replace(there, valid=replace(pin.valid, table=self.now.table))

    def since(self, low: Version, high: Version | None = None) -> tuple[ChangeScan, Version]:
        """The changes from a state on, and the state that they end with."""
        own, table, txn, wanted = self.own, self.table, self.txn, self.wanted
        high = high or self._last(low)
        commits = _commits_after(own, table, self.now, low)
        versions = Versions(
            low.valid,
            high.valid,
            self.now,
            positions=_positions(commits, low.valid, high.valid),
            times_ms={int(one.write_id): one.committed_ms for one in commits},
        )
        _check_partitions(own, table, low, high)
        key = _key(table, wanted)
        names = _columns(table, self.columns)
        written = WrittenFiles()
        units = change_units(
            table,
            partitions_then(table, high, txn.partitions(table)),
            versions,
            txn.valid_txns,
            files=self.files,
            floors=partial(self._floors, low, high),
            written=written,
        )
        seen = (one for one in commits if versions.has(one.write_id))
        check_all_there(own, table, written, seen, hive_cleans=txn.hive_cleans)
        reader = ChangeReader(
            TableReader(self.files, table, names.union(key), versions.high),
            times_ms=versions.times_ms,
            keeps_passing=wanted.deduplication is Deduplication.NONE,
            is_net=wanted.deduplication is Deduplication.NET_CHANGES,
        )
        return ChangeScan(table, versions, tuple(units), reader, key), high

    def _last(self, low: Version) -> Version:
        """Raises: InvalidInputError: it was before ``low``."""
        wanted, table, until = self.wanted, self.table, self.wanted.until
        if until is None:
            return last_version(self.own, table, self.now, low)
        high = self._state(until, included=wanted.includes_until)
        since = int(low.write_id)
        is_backwards = is_before(high, low)
        if isinstance(wanted.since, int) and isinstance(until, int) and wanted.consumer is None:
            since = wanted.since or since
            is_backwards |= until < since and not high.valid.is_valid(since)
        if is_backwards:
            last = until if isinstance(until, int) else high.write_id
            raise InvalidInputError(
                f"Version {last} of {table.name} committed before version {since}",
                table=str(table.name),
            )
        return high

    def _floors(self, low: Version, high: Version) -> dict[str, Floor]:
        """What cleaners have begun to remove, by the names that partitions had in a version."""
        name = self.table.name
        floors = self.own.floors(name)
        if floors and keeps_changes_since(
            self.own, name, low.valid, hive_cleans=self.txn.hive_cleans
        ):
            return {}
        return {then: floors[now] for now, then in high.names_of_then(floors).items()}


def _others(txn: Transaction, table: Table) -> ValidWriteIdList:
    """The write ids that a transaction sees, without its own."""
    now = txn.valid_write_ids(table)
    if table.name not in txn.written_tables:
        return now
    opened = (*now.open, txn.write_id(table.name))
    return ValidWriteIdList.of(now.table, hwm=now.hwm, open=opened, aborted=now.aborted)


def last_version(
    own: OwnDatabase,
    table: Table,
    now: ValidWriteIdList,
    low: Version,
    *,
    versions_max: int | None = None,
    bytes_max: int | None = None,
) -> Version:
    """The last version after ``low``, or ``low`` where there is none; within the limits, but one
    version at the least.
    """
    commits = _commits_after(own, table, now, low)
    if not _has_strangers(own, table, commits, low, now):
        if not commits:
            return low
        count = _limited(commits, versions_max, bytes_max)
        return state_of(own, table, now, int(commits[count - 1].write_id))
    # What is open may be of somebody who records no commits, and must not be missed.
    decided = min(now.hwm, now.min_open - 1)
    ends = [low.valid.hwm + versions_max] if versions_max else []
    for end in (*ends, decided):
        high = state_of(own, table, now, max(min(decided, end), int(low.write_id)))
        if is_before(low, high):
            break
    # Lower write ids may have committed after the highest one.
    in_order = list(takewhile(lambda one: one.write_id <= decided, commits))
    if in_order and end == decided and high.sequence is not None:
        last = state_of(own, table, now, int(in_order[-1].write_id))
        high = last if is_before(high, last) else high
    return high if is_before(low, high) else own.version(table.name, write_id=low.write_id)


def _commits_after(
    own: OwnDatabase, table: Table, now: ValidWriteIdList, low: Version
) -> list[Commit]:
    """The commits that ``now`` sees and ``low`` does not, in their order."""
    found = own.commits(table.name, after=low.sequence or 0)
    return [
        one for one in found if now.is_valid(one.write_id) and not low.valid.is_valid(one.write_id)
    ]


def _limited(commits: Sequence[Commit], versions_max: int | None, bytes_max: int | None) -> int:
    """How many of the commits are within the limits; one at the least."""
    count = min(len(commits), versions_max or len(commits))
    size_bytes = 0
    for at, one in enumerate(commits[:count]):
        size_bytes += one.facts.size_bytes
        if at and bytes_max and size_bytes > bytes_max:
            return at
    return count


def is_before(first: Version, second: Version) -> bool:
    """Whether a version is of an earlier commit than another, as far as commits are recorded."""
    if first.sequence is not None and second.sequence is not None:
        return first.sequence < second.sequence
    return int(first.write_id) < int(second.write_id)


def _check_partitions(own: OwnDatabase, table: Table, low: Version, high: Version) -> None:
    """Rows that came or went with their partition are no changes of any version.

    Raises:
        SnapshotExpiredError: some did.
    """
    between = low.came[: len(low.came) - len(high.came)]
    came = [one.name for one in between if one.name]
    if not low.dropped and not came:
        return
    gone = (one or "location of the table" for one in low.dropped)
    names = ", ".join([*gone, *came])
    oldest = first_with_all_partitions(own, table, low, since_all=True)
    since = "by no version yet" if oldest is None else f"since {oldest}"
    raise SnapshotExpiredError(
        f"Changes of {table.name} since {low.write_id} cannot be told: partitions were dropped,"
        f" renamed, moved or added with their files after it ({names}). They can be told {since}",
        table=str(table.name),
        write_id=oldest,
    )


def state_of(
    own: OwnDatabase, table: Table, now: ValidWriteIdList, write_id: int, *, included: bool = True
) -> Version:
    """The table just after a write id committed, or just before (not ``included``); an aborted one
    is like the one before it.

    Raises:
        InvalidInputError: nobody committed it yet.
    """
    if write_id > now.hwm or write_id in now.open:
        raise InvalidInputError(
            f"{table.name} has no version {write_id} yet: the last write id is {now.hwm}",
            table=str(table.name),
            write_id=write_id,
        )
    while now.is_aborted(write_id) or (write_id in now.open):
        write_id -= 1
    try:
        version = own.version(table.name, write_id=write_id)
    except NotFoundError:
        (last,) = own.latest((table.name,))  # knows of those that readers have forgotten, too
        if not last.valid.is_aborted(write_id):
            raise
        return state_of(own, table, last.valid, write_id, included=included)
    if included or not write_id:
        return version
    if version.sequence is not None:
        with suppress(NotFoundError):  # what was before it was not recorded
            return own.version(table.name, sequence=version.sequence - 1)
    return state_of(own, table, now, write_id - 1)


def state_at_time(
    own: OwnDatabase, table: Table, now: ValidWriteIdList, wanted: AsOf, *, included: bool
) -> Version:
    """The table after the last commit up to a time, or before it (not ``included``), of those that
    ``now`` sees; before the first one it is empty, or as it became transactional.

    Raises:
        NotFoundError: when it was there no times of commits were recorded.
    """
    assert wanted.time_ms is not None
    time_ms = wanted.time_ms if included else wanted.time_ms - 1
    try:
        found = own.version(table.name, time_ms=time_ms)
    except NotFoundError:
        found = own.version(table.name, write_id=0)
        if found.sequence is None:
            raise
    while found.sequence and not now.is_valid(found.write_id):
        found = own.version(table.name, sequence=found.sequence - 1)
    return found


def _has_strangers(
    own: OwnDatabase, table: Table, commits: Sequence[Commit], low: Version, now: ValidWriteIdList
) -> bool:
    """Whether some commit was not recorded: Hive writes to the table, or wrote it before it was
    taken over. A write id that is valid and of no commit may be one that was aborted, which readers
    have forgotten.
    """
    known, first = {int(one.write_id) for one in commits}, low.valid.hwm + 1
    if now.hwm >= FIRST_WRITE_ID_AFTER_CONVERSION:  # a converted table never had those below
        first = max(first, FIRST_WRITE_ID_AFTER_CONVERSION)
    new = [*low.valid.exceptions, *range(first, now.hwm + 1)]
    unknown = [one for one in new if now.is_valid(one) and one not in known]
    if not unknown:
        return False
    (last,) = own.latest((table.name,))
    return any(map(last.valid.is_valid, unknown))


def _positions(
    commits: Sequence[Commit], low: ValidWriteIdList, high: ValidWriteIdList
) -> dict[int, int] | None:
    """The places of the commits between two states; None where they are in order of write ids. One
    that was not recorded is told by its number: it comes after those of lower ones.
    """
    ids = [int(one.write_id) for one in commits if high.is_valid(one.write_id)]
    if not ids or (ids == sorted(ids) and low.exceptions == ()):
        return None
    places, first = {int(one.write_id): one.sequence for one in commits}, min(ids)
    others = (*low.exceptions, *range(max(first, low.hwm + 1), high.hwm + 1))
    last, order = 0, []
    for write_id in sorted({*ids, *(one for one in others if one > first)}):
        last = max(last, places.get(write_id, 0))
        order.append((places.get(write_id, last), write_id not in places, write_id))
    return {write_id: place for place, (_, _, write_id) in enumerate(sorted(order), 1)}


def _key(table: Table, wanted: ChangeRange) -> tuple[str, ...]:
    if not wanted.computes_updates:
        return ()
    if wanted.key is not None:
        return tuple(sorted(_columns(table, wanted.key))) if wanted.key else ()
    keys = (key.columns for key in key_constraints(table) if key.kind == "PRIMARY KEY")
    return next(keys, ())


def _columns(table: Table, names: Iterable[str] | None) -> frozenset[str]:
    there = table.column_names
    added = {field.name for field in CHANGE_FIELDS}
    if taken := added.intersection(there):
        raise InvalidInputError(
            f"{table.name} has a column {min(taken)} of its own: its changes would have two",
            column=min(taken),
            note="ALTER TABLE ... CHANGE COLUMN gives it another name.",
        )
    if names is None:
        return frozenset(there)
    for name in names:
        if name.lower() not in there and name.lower() not in added:
            raise NotFoundError(f"no column {name!r}; there are {', '.join(there)}", column=name)
    return frozenset(name.lower() for name in names) - added

"""``read_changes`` and ``AcidTable.changes``: what changed in a table between two versions;
``explain_row``: which transactions inserted, updated and deleted the rows that meet a condition.

The change feed tells of such rows, from the oldest version that it reaches. With a key they are
those that met the condition once, with all that they were before and after; without one each state
of a row is a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import InvalidInputError, SnapshotExpiredError
from hiveacid.metastore.api import OwnDatabase
from hiveacid.model.history import (
    ChangeRange,
    Commit,
    Deduplication,
    PinKind,
    UnrecordedCommit,
    version_or_time,
)
from hiveacid.model.readable import HtmlFields, at
from hiveacid.model.tables import Table, TableName
from hiveacid.reading.rows import condition_of
from hiveacid.statements.arguments import checked
from hiveacid.statements.changes import ChangeScan
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.history import KINDS, check_moves, history
from hiveacid.statements.matching import Keys
from hiveacid.statements.select import open_changes
from hiveacid.statements.values import Listing
from hiveacid.storage.change_pairs import POSTIMAGE, PREIMAGE
from hiveacid.storage.changes import CHANGE_FIELDS, DELETE
from hiveacid.storage.plan.arrow_conditions import Condition, filtered
from hiveacid.storage.python_values import python_rows
from hiveacid.txn.pins import kept_ms, pin_name

if TYPE_CHECKING:
    from hiveacid.reading.source import SessionTable
    from hiveacid.statements.changes import ChangeScan
    from hiveacid.statements.select import Keep, Lease

_BOUNDS = ("(]", "[]", "()", "[)")


@checked
def read_changes(
    table: SessionTable,
    *,
    since: int | str | date | None = None,
    until: int | str | date | None = None,
    bounds: str = "(]",
    columns: str | Sequence[str] | None = None,
    key: str | Sequence[str] | None = None,
    deduplication: str = Deduplication.DROP_CARRYOVERS.value,
    updates: bool = True,
    consumer: str | None = None,
    retain: timedelta | float | None = None,
) -> pa.RecordBatchReader:
    """The changes of a session's table after version ``since``, up to and with ``until`` (None: all
    that is committed), as Arrow batches; the state at ``since`` with them is that at ``until``.

    A version is a write id. Both may be times instead (a datetime, a date, or a text of one; UTC
    where it has no zone; in whole milliseconds), of the table as it was then. ``bounds`` says which
    ends belong to it: ``"(]"``, ``"[]"``, ``"()"`` or ``"[)"``. The columns are the table's, or
    those of ``columns``, then ``_change_type`` (``insert``, ``delete``, ``update_preimage``,
    ``update_postimage``), ``_commit_version`` and its other name ``_write_id``,
    ``_commit_timestamp`` (NULL where it is not known). ``key`` names the columns that tell a row,
    by which a delete and an insert of one version are an update; without
    it those of the PRIMARY KEY do, and where there is none, or not ``updates``, nothing does.
    ``deduplication`` is ``dropCarryovers`` (the net change of each transaction), ``none`` or
    ``netChanges`` (from one end to the other).

    Without a key, events come as they lie in the files; with one, ordered by version and all at
    once in memory.

    A ``consumer`` goes on from where it has read to, and ``since`` is where a new one begins. It
    moves with the commit of the transaction that the table's handle belongs to; outside of one once
    its last batch was taken and the next one asked for: who stops before reads the same again. The
    files that it needs are kept until it has been away for ``retain`` (a timedelta, or days; 7).

    Raises:
        NotFoundError: the table, a column, or the consumer is not there.
        ConflictError: somebody else has read under the consumer's name.
        NotFoundError: a time before those of commits were recorded.
        InvalidInputError: a version that is yet to come, or ends the wrong way round.
        SnapshotExpiredError: files that told the changes are cleaned; ``write_id`` is the oldest
            version since which they can be told.
    """
    wanted = change_range(
        since, until, bounds, key, deduplication, consumer, retain, updates=updates
    )
    scan = _opened(table, wanted, columns)
    return _reader(scan, table.session.reading_context().client.own)


def _opened(
    table: SessionTable, wanted: ChangeRange, columns: str | Sequence[str] | None
) -> ChangeScan:
    from hiveacid.statements.select import open_changes

    names = [columns] if isinstance(columns, str) else columns
    return open_changes(table.session.reading_context(), table.definition, wanted, names)


def _reader(scan: ChangeScan, store: OwnDatabase) -> pa.RecordBatchReader:

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from scan.read().to_batches() if scan.key else scan.batches()
            if scan.move is not None:
                store.move_consumers([scan.move])
        finally:
            scan.close()

    return pa.RecordBatchReader.from_batches(scan.reader.schema(), batches())


def change_range(
    since: int | str | date | None,
    until: int | str | date | None,
    bounds: str,
    key: str | Sequence[str] | None,
    deduplication: str,
    consumer: str | None,
    retain: timedelta | float | None,
    *,
    updates: bool,
) -> ChangeRange:
    """What a user's arguments mean.

    Raises:
        InvalidInputError: they mean nothing.
    """
    if retain is not None and consumer is None:
        raise InvalidInputError("retain= is of a consumer: consumer=... names it")
    if since is None and consumer is None:
        raise InvalidInputError(
            "changes since when? since= names the version (write id) or the time after which they"
            " are told; 0 is before the first",
            argument="since",
            note="DESCRIBE HISTORY lists versions; consumer=... goes on from where it has read to.",
        )
    if bounds not in _BOUNDS:
        raise InvalidInputError(f"bounds is one of {', '.join(_BOUNDS)}, not {bounds!r}")
    names = (key,) if isinstance(key, str) else None if key is None else tuple(key)
    return ChangeRange(
        version_or_time("since", since),
        version_or_time("until", until),
        names,
        Deduplication.parse(deduplication),
        computes_updates=updates,
        includes_since=bounds[0] == "[",
        includes_until=bounds[1] == "]",
        consumer=None if consumer is None else pin_name(consumer, PinKind.CONSUMER),
        keep_ms=kept_ms(retain),
    )


class TableChanges:
    """What reads a table and its changes without a statement, for its handle."""

    __slots__ = ()
    session: Any
    name: TableName

    def lease(self, *, keep: Keep, expected: Table) -> Lease:
        """A snapshot for ``read_arrow`` and ``dataset``, kept until closed; ``keep`` chooses
        partitions. ``expected`` is the definition that the reader knows: it may be outdated, that
        of the snapshot counts.

        Raises:
            NotFoundError, LockError, StorageError: the table cannot be read.
        """
        from hiveacid.statements.select import open_lease

        return open_lease(self.session.reading_context(), expected, keep=keep)

    def changes(
        self,
        *,
        since: int | str | date | None = None,
        until: int | str | date | None = None,
        bounds: str = "(]",
        columns: str | Sequence[str] | None = None,
        key: str | Sequence[str] | None = None,
        deduplication: str = Deduplication.DROP_CARRYOVERS.value,
        updates: bool = True,
        consumer: str | None = None,
        retain: timedelta | float | None = None,
    ) -> Any:
        """What changed after version ``since``, up to and with ``until``: a DataFrame, in a session
        without Spark an Arrow table; the arguments are those of ``hiveacid.read_changes``. A
        ``consumer`` reads in a transaction, and moves with its commit.

        Raises:
            NotFoundError, InvalidInputError, SnapshotExpiredError: as there.
            InvalidInputError: a consumer, and no transaction.
        """
        wanted = change_range(
            since, until, bounds, key, deduplication, consumer, retain, updates=updates
        )
        context = self.session.reading_context()
        check_moves(wanted, read_only=context.unit is None)
        scan = _opened(self, wanted, columns)  # type: ignore[arg-type]
        if context.spark is None:
            try:
                return scan.read()
            finally:
                scan.close()
        return scan.frame(context)


# -------------------------------------------------------------------- what became of rows

_TOLD: Final = ("operation", "user", "host", "application", "statement", "transaction")
_KINDS: Final[Mapping[str, str]] = {
    "version": "bigint",
    "timestamp": "timestamp",
    "change": "string",
    "before": "string",
    "after": "string",
    **{name: KINDS[name] for name in _TOLD},
}


@dataclass(frozen=True, slots=True)
class RowChange:
    """``what`` (insert, update, delete) one version did to a row, and the row ``before`` and
    ``after`` it; ``commit`` tells who it was, None where nobody knows.
    """

    what: str
    version: int
    before: Mapping[str, object] | None
    after: Mapping[str, object] | None
    commit: Commit | UnrecordedCommit | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class RowHistory(HtmlFields):
    """What happened to rows of a table since version ``since``, in the order of commits; what was
    before it cannot be told (0: all is told). ``key`` names the columns that tell a row.
    """

    table: TableName
    key: tuple[str, ...]
    since: int
    changes: tuple[RowChange, ...]

    def listing(self) -> Listing:
        """The changes as rows, those of the table as texts."""
        rows = tuple(map(_cells, self.changes))
        return Listing(tuple(_KINDS), rows, tuple(_KINDS.values()))


@checked
def explain_row(
    context: ExecutionContext,
    table: Table,
    *,
    where: str | pc.Expression,
    key: Sequence[str] | None = None,
) -> RowHistory:
    """What happened to the rows that meet a condition, or did once.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a condition that is not understood; the table has no versions.
        SnapshotExpiredError: nothing can be told.
    """
    condition = condition_of(where, table.all_columns, table=table.name)
    names = None if key is None else tuple(key)
    scan, since = _told(context, table, names)
    try:
        events = scan.finished(_of_rows(scan, condition))
    finally:
        scan.close()
    commits = {int(one.write_id): one for one in history(context.client.metastore, table.name)}
    return RowHistory(table.name, scan.key, since, tuple(_changes(events, commits)))


def _told(
    context: ExecutionContext, table: Table, key: tuple[str, ...] | None, since: int = 0
) -> tuple[ChangeScan, int]:
    """All changes that can be told, and since when."""
    try:
        return open_changes(context, table, ChangeRange(since, key=key), None), since
    except SnapshotExpiredError as error:
        oldest = error.context.get("write_id")
        if not isinstance(oldest, int) or oldest <= since:
            raise
    return _told(context, table, key, oldest)


def _of_rows(scan: ChangeScan, condition: Condition) -> pa.Table:
    """The events of rows that meet the condition in one of them."""
    schema, key = scan.reader.schema(), list(scan.key)
    met = pa.concat_tables([schema.empty_table(), *(_met(one, condition) for one in _rows(scan))])
    if condition.columns <= set(key) or not key:
        return met
    keys = Keys(met, key)
    found = [schema.empty_table(), met.filter(_has_null(met, key))]
    for rows in _rows(scan):
        at, _ = keys.matches(rows)
        found.append(rows.take(pc.unique(pa.array(at))))
    return pa.concat_tables(found)


def _rows(scan: ChangeScan) -> Iterator[pa.Table]:
    return (pa.Table.from_batches([batch]) for batch in scan.batches())


def _met(rows: pa.Table, condition: Condition) -> pa.Table:
    return rows if condition.expression is None else filtered(rows, condition.expression)


def _has_null(rows: pa.Table, key: Sequence[str]) -> pa.Array:
    """Rows without a whole key are told by no key."""
    nulls = pa.repeat(pa.scalar(False), rows.num_rows)
    for name in key:
        nulls = pc.or_(nulls, rows[name].combine_chunks().is_null())
    return nulls


def _changes(
    events: pa.Table, commits: Mapping[int, Commit | UnrecordedCommit]
) -> Iterator[RowChange]:
    added = {field.name for field in CHANGE_FIELDS}
    kind, version = (field.name for field in CHANGE_FIELDS[:2])
    before: Mapping[str, Any] | None = None
    for event in python_rows(events):
        row = {name: value for name, value in event.items() if name not in added}
        number = int(event[version])
        if event[kind] == PREIMAGE:
            before = row
        elif event[kind] == POSTIMAGE:
            yield RowChange("update", number, before, row, commits.get(number))
        elif event[kind] == DELETE:
            yield RowChange("delete", number, row, None, commits.get(number))
        else:
            yield RowChange("insert", number, None, row, commits.get(number))


def _cells(one: RowChange) -> tuple[object, ...]:
    rows = (None if row is None else str(dict(row)) for row in (one.before, one.after))
    commit = one.commit
    if commit is None:
        return (one.version, None, one.what, *rows, *(None,) * len(_TOLD))
    return (
        one.version,
        commit.committed_ms and at(commit.committed_ms),
        one.what,
        *rows,
        commit.facts.kind or None,
        commit.user,
        commit.host,
        commit.application or None,
        commit.statement,
        int(commit.txn),
    )

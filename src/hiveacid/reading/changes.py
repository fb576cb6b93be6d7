"""``read_changes`` and ``AcidTable.changes``: what changed in a table between two versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hiveacid.errors import InvalidInputError
from hiveacid.metastore.api import OwnDatabase
from hiveacid.model.history import ChangeRange, Deduplication, PinKind, version_or_time
from hiveacid.model.tables import Table, TableName
from hiveacid.past import kept_ms
from hiveacid.statements.arguments import checked
from hiveacid.statements.history import check_moves
from hiveacid.txn.pins import pin_name

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

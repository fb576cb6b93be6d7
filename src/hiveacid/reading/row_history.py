"""``explain_row``: which transactions inserted, updated and deleted the rows that meet a condition.

The change feed tells, from the oldest version that it reaches. With a key the rows are those that
met the condition once, with all that they were before and after; without one each state of a row is
a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import SnapshotExpiredError
from hiveacid.model.history import ChangeRange, Commit, UnrecordedCommit
from hiveacid.model.readable import HtmlFields, at
from hiveacid.model.tables import Table, TableName
from hiveacid.reading.rows import condition_of
from hiveacid.statements.arguments import checked
from hiveacid.statements.changes import ChangeScan
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.history import KINDS, history
from hiveacid.statements.matching import Keys
from hiveacid.statements.select import open_changes
from hiveacid.statements.values import Listing
from hiveacid.storage.change_pairs import POSTIMAGE, PREIMAGE
from hiveacid.storage.changes import CHANGE_FIELDS, DELETE
from hiveacid.storage.plan.arrow_conditions import Condition, filtered
from hiveacid.storage.python_values import python_rows

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
    scan, since = _opened(context, table, names)
    try:
        events = scan.finished(_of_rows(scan, condition))
    finally:
        scan.close()
    commits = {int(one.write_id): one for one in history(context.client.metastore, table.name)}
    return RowHistory(table.name, scan.key, since, tuple(_changes(events, commits)))


def _opened(
    context: ExecutionContext, table: Table, key: tuple[str, ...] | None, since: int = 0
) -> tuple[ChangeScan, int]:
    """All changes that can be told, and since when."""
    try:
        return open_changes(context, table, ChangeRange(since, key=key), None), since
    except SnapshotExpiredError as error:
        oldest = error.context.get("write_id")
        if not isinstance(oldest, int) or oldest <= since:
            raise
    return _opened(context, table, key, oldest)


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

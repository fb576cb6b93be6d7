"""DESCRIBE HISTORY: the commits of a table, the last first; RESTORE and VACUUM as values."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.metastore.api import Metastore, own
from hiveacid.model.history import AsOf, Commit
from hiveacid.model.readable import moment
from hiveacid.model.tables import TableName
from hiveacid.statements.values import Command, Listing

COLUMNS = (
    "version",
    "timestamp",
    "operation",
    "user",
    "host",
    "application",
    "statement",
    "transaction",
    "inserted",
    "updated",
    "deleted",
    "files",
    "bytes",
    "seconds",
)


@dataclass(frozen=True, slots=True)
class DescribeHistory(Command):
    """DESCRIBE HISTORY name [LIMIT n]."""

    name: TableName
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class RestoreTable(Command):
    """RESTORE [TABLE] name TO VERSION AS OF n, or TIMESTAMP AS OF '...'."""

    name: TableName
    wanted: AsOf


def history(metastore: Metastore, name: TableName, limit: int | None = None) -> tuple[Commit, ...]:
    """The commits that wrote to a table, the last first.

    Raises:
        NotFoundError: there is no such table.
    """
    return own(metastore).commits(name, limit=limit, latest=True)


def history_listing(metastore: Metastore, statement: DescribeHistory) -> Listing:
    """The same as text.

    Raises:
        NotFoundError: there is no such table.
    """
    return Listing(COLUMNS, tuple(map(_row, history(metastore, statement.name, statement.limit))))


def _row(one: Commit) -> tuple[str | None, ...]:
    facts = one.facts
    counts = (facts.inserted, facts.updated, facts.deleted, facts.files, facts.size_bytes)
    return (
        str(one.write_id),
        moment(one.committed_ms, unit="milliseconds"),
        facts.kind or None,
        one.user,
        one.host,
        one.application or None,
        one.statement,
        str(one.txn),
        *(None if count is None else str(count) for count in counts),
        f"{max(0, one.committed_ms - one.started_ms) / 1000:.3f}",
    )

"""DESCRIBE HISTORY: the commits of a table, the last first; RESTORE and UNDO as values."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hiveacid.errors import InvalidInputError
from hiveacid.metastore.api import Metastore, own
from hiveacid.model.history import AsOf, Commit, UnrecordedCommit
from hiveacid.model.readable import at
from hiveacid.model.tables import TableName, TxnId
from hiveacid.statements.values import Command, Listing

_LOG: Final = logging.getLogger(__name__)
KINDS: Final[Mapping[str, str]] = {
    "version": "bigint",
    "timestamp": "timestamp",
    "operation": "string",
    "user": "string",
    "host": "string",
    "application": "string",
    "statement": "string",
    "transaction": "bigint",
    "inserted": "bigint",
    "updated": "bigint",
    "deleted": "bigint",
    "files": "bigint",
    "bytes": "bigint",
    "seconds": "double",
}
"""The columns, and their types."""


@dataclass(frozen=True, slots=True)
class DescribeHistory(Command):
    """DESCRIBE HISTORY name [LIMIT n], or WHERE condition, of the rows that meet it."""

    name: TableName
    limit: int | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True)
class RestoreTable(Command):
    """RESTORE [TABLE] name TO VERSION AS OF n, or TIMESTAMP AS OF '...'."""

    name: TableName
    wanted: AsOf


@dataclass(frozen=True, slots=True)
class UndoTransaction(Command):
    """UNDO TRANSACTION txn. ``key`` names the columns that tell a row; None: the PRIMARY KEY."""

    txn: TxnId
    key: tuple[str, ...] | None = None


def history(
    metastore: Metastore, name: TableName, limit: int | None = None
) -> tuple[Commit | UnrecordedCommit, ...]:
    """The commits that wrote to a table, the last first; where some were not recorded, by their
    write ids.

    Raises:
        NotFoundError: there is no such table.
        InvalidInputError: ``limit`` is below 0.
    """
    if limit is not None and limit < 0:
        raise InvalidInputError(f"limit is at least 0, not {limit}", argument="limit")
    store = own(metastore)
    recorded = store.commits(name, limit=limit, latest=True)
    others = store.unrecorded(name)
    if not others:
        return recorded
    _LOG.warning(
        "%s commits to %s were not recorded, as those of Hive: what is not known of them is NULL",
        len(others),
        name,
        extra={"table": str(name)},
    )
    found: list[Commit | UnrecordedCommit] = [*recorded, *others]
    return tuple(sorted(found, key=_write_id, reverse=True)[:limit])


def _write_id(one: Commit | UnrecordedCommit) -> int:
    return int(one.write_id)


def history_listing(metastore: Metastore, statement: DescribeHistory) -> Listing:
    """The same as a listing.

    Raises:
        NotFoundError: there is no such table.
    """
    rows = tuple(map(_row, history(metastore, statement.name, statement.limit)))
    return Listing(tuple(KINDS), rows, tuple(KINDS.values()))


def _row(one: Commit | UnrecordedCommit) -> tuple[object, ...]:
    facts, seconds = one.facts, None
    written: tuple[int | None, ...] = (None, None)
    if isinstance(one, Commit):
        written = facts.files, facts.size_bytes
        seconds = max(0, one.committed_ms - one.started_ms) / 1000
    counts = (facts.inserted, facts.updated, facts.deleted, *written)
    return (
        int(one.write_id),
        at(one.committed_ms),
        facts.kind or None,
        one.user,
        one.host,
        one.application or None,
        one.statement,
        int(one.txn),
        *counts,
        seconds,
    )

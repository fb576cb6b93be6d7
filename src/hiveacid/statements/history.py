"""DESCRIBE HISTORY: the commits of a table, the last first; RESTORE and UNDO as values; CREATE
TAG, DROP and SHOW of tags and of consumers: names for versions, and who reads changes by a name,
and how far each has come. Cleaners keep the files of both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hiveacid.client import Client
from hiveacid.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from hiveacid.metastore.api import Metastore, own
from hiveacid.model.history import AsOf, ChangeRange, Commit, Pin, PinKind, UnrecordedCommit
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.readable import HtmlFields, at, duration, moment
from hiveacid.model.tables import TableName, TxnId
from hiveacid.statements.values import Command, Insert, Listing
from hiveacid.txn.pins import make_tags, pin_name
from hiveacid.txn.view import Look

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


def text_of(statement: object) -> str | None:
    """What the history keeps of RESTORE and UNDO, however they were asked for: which version or
    transaction it was tells nothing of rows. None of other statements.
    """
    if isinstance(statement, UndoTransaction):
        return f"UNDO TRANSACTION {statement.txn}"
    if isinstance(statement, Insert) and statement.restores is not None:
        return f"RESTORE TABLE {statement.table} TO {statement.restores}"
    return None


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
    return tuple(sorted(found, key=lambda one: one.write_id, reverse=True)[:limit])


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
        one.committed_ms and at(one.committed_ms),
        facts.kind or None,
        one.user,
        one.host,
        one.application or None,
        one.statement,
        int(one.txn),
        *counts,
        seconds,
    )


_TAG_COLUMNS = ("tag", "table", "version", "made", "expires")
_CONSUMER_COLUMNS = (
    "consumer",
    "table",
    "version",
    "behind",
    "behind since",
    "pin age",
    "pinned until",
)
_SHOWN_AS: Final[Mapping[str, Callable[[Any], str | None]]] = {
    **dict.fromkeys(("made", "expires", "behind since", "pinned until"), moment),
    "pin age": duration,
}


@dataclass(frozen=True, slots=True)
class CreateTag(Command):
    """CREATE TAG [IF NOT EXISTS] tag ON name [AS OF ...] [RETAIN n DAYS]."""

    tag: str
    name: TableName
    wanted: AsOf | None = None
    keep_ms: int | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPin(Command):
    """DROP TAG or DROP CONSUMER [IF EXISTS] pin ON name."""

    kind: PinKind
    pin: str
    name: TableName
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowPins(Command):
    """SHOW TAGS or SHOW CONSUMERS [ON name]."""

    kind: PinKind
    name: TableName | None = None


@dataclass(frozen=True, slots=True)
class Consumer(HtmlFields):
    """A consumer: it has read to ``version``, and is ``behind`` by so many versions, of which the
    first was committed at ``behind_since_ms`` (None: there is none, or nobody recorded it).

    Its pin is ``pin_age_ms`` old, and keeps files until ``pinned_until_ms``; a time that is over
    says that they may be gone.
    """

    name: str
    table: TableName
    version: int
    behind: int
    behind_since_ms: int | None
    pin_age_ms: int | None
    pinned_until_ms: int | None


def create(client: Client, look: Look, value: CreateTag) -> Pin | None:
    """Make a tag; None where there is one of its name, and that is no error.

    Raises:
        AcidError: as ``make_tags``.
    """
    table = look.definition(value.name)
    try:
        wanted = None if value.wanted is None else value.wanted.at(look.now_ms)
        (made,) = make_tags(client, value.tag, (table,), wanted, value.keep_ms)
    except AlreadyExistsError:
        if not value.if_not_exists:
            raise
        return None
    return made


def drop(metastore: Metastore, value: DropPin) -> None:
    """Let a tag go, or forget how far a consumer has read; the next cleaning takes its files.

    Raises:
        NotFoundError: there is no such table, tag or consumer.
    """
    name, kind = pin_name(value.pin, value.kind), value.kind.value
    chosen = [one for one in pins(metastore, value.kind, value.name) if one.name == name]
    if not own(metastore).drop_pins(chosen) and not value.if_exists:
        message, table = f"{value.name} has no {kind} {name}", str(value.name)
        raise NotFoundError(message, table=table, **{kind: name})  # type: ignore[arg-type]


def pins(metastore: Metastore, kind: PinKind, name: TableName | None = None) -> tuple[Pin, ...]:
    """The pins of a kind, of a table or of all; expired ones, too.

    Raises:
        NotFoundError: there is no such table.
    """
    if name is not None:
        metastore.get_table(name)
    return tuple(one for one in own(metastore).pins(name) if one.kind is kind)


def consumers(client: Client, name: TableName | None = None) -> tuple[Consumer, ...]:
    """The consumers of a table, or of all.

    Raises:
        NotFoundError: there is no such table.
    """
    return tuple(_state(client, one) for one in pins(client.metastore, PinKind.CONSUMER, name))


def pins_listing(client: Client, value: ShowPins) -> Listing:
    """Tags or consumers as text.

    Raises:
        NotFoundError: there is no such table.
    """
    names, rows = pin_rows(client, value)
    shown = [_SHOWN_AS.get(name, str) for name in names]
    texts = (
        tuple(None if cell is None else as_(cell) for cell, as_ in zip(row, shown, strict=True))
        for row in rows
    )
    return Listing(names, tuple(texts))


def pin_rows(
    client: Client, value: ShowPins
) -> tuple[tuple[str, ...], tuple[tuple[object, ...], ...]]:
    """Columns and rows of tags or consumers, times in epoch milliseconds.

    Raises:
        NotFoundError: there is no such table.
    """
    if value.kind is PinKind.TAG:
        return _TAG_COLUMNS, tuple(
            (one.name, str(one.table), int(one.write_id), one.made_ms or None, one.expires_ms)
            for one in pins(client.metastore, value.kind, value.name)
        )
    return _CONSUMER_COLUMNS, tuple(
        (
            *(one.name, str(one.table), one.version, one.behind),
            *(one.behind_since_ms, one.pin_age_ms, one.pinned_until_ms),
        )
        for one in consumers(client, value.name)
    )


def check_moves(wanted: ChangeRange, *, read_only: bool) -> None:
    """A consumer moves with the commit of what was made of the changes.

    Raises:
        InvalidInputError: nothing will be committed.
    """
    if wanted.consumer is not None and read_only:
        raise InvalidInputError(
            f"The consumer {wanted.consumer} moves with the commit of what is made of the changes,"
            " and this is no part of a transaction that writes",
            consumer=wanted.consumer,
            note="with acid.transaction() as txn: txn.table(...).changes(consumer=...); or INSERT"
            " INTO ... SELECT ...; or hiveacid.read_changes(...), where it moves after the last"
            " batch.",
        )


def _state(client: Client, pin: Pin) -> Consumer:
    store = own(client.metastore)
    (now,) = client.metastore.valid_write_ids((pin.table,))
    behind, since_ms = _unread(pin.valid, now), None
    if behind:
        version = store.version(pin.table, write_id=pin.write_id)
        commits = store.commits(pin.table, after=version.sequence or 0)
        unread = (one for one in commits if not pin.valid.is_valid(one.write_id))
        since_ms = next((one.committed_ms for one in unread), None)
    age_ms = client.clock.now_ms() - pin.made_ms if pin.made_ms else None
    return Consumer(
        pin.name, pin.table, int(pin.write_id), behind, since_ms, age_ms, pin.expires_ms
    )


def _unread(seen: ValidWriteIdList, now: ValidWriteIdList) -> int:
    """How many write ids are valid that were not."""
    new = [one for one in seen.exceptions if now.is_valid(one)]
    holes = sum(one > seen.hwm for one in now.exceptions)
    return len(new) + max(0, now.hwm - seen.hwm) - holes

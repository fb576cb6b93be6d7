"""CREATE TAG, DROP TAG, SHOW TAGS: names for versions, whose files cleaners keep."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.client import Client
from hiveacid.errors import AlreadyExistsError, NotFoundError
from hiveacid.metastore.api import Metastore, own
from hiveacid.model.history import AsOf, Pin, PinKind
from hiveacid.model.readable import moment
from hiveacid.model.tables import TableName
from hiveacid.statements.values import Command, Listing
from hiveacid.txn.pins import make_tags, tag_name
from hiveacid.txn.view import Look

COLUMNS = ("tag", "table", "version", "made", "expires")


@dataclass(frozen=True, slots=True)
class CreateTag(Command):
    """CREATE TAG [IF NOT EXISTS] tag ON name [AS OF ...] [RETAIN n DAYS]."""

    tag: str
    name: TableName
    wanted: AsOf | None = None
    keep_ms: int | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTag(Command):
    """DROP TAG [IF EXISTS] tag ON name."""

    tag: str
    name: TableName
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowTags(Command):
    """SHOW TAGS [ON name]."""

    name: TableName | None = None


def create(client: Client, look: Look, value: CreateTag) -> Pin | None:
    """Make a tag; None where there is one of its name, and that is no error.

    Raises:
        AcidError: as ``make_tags``.
    """
    table = look.definition(value.name)
    try:
        (made,) = make_tags(client, value.tag, (table,), value.wanted, value.keep_ms)
    except AlreadyExistsError:
        if not value.if_not_exists:
            raise
        return None
    return made


def drop(metastore: Metastore, value: DropTag) -> None:
    """Let a tag go; the next cleaning takes its files.

    Raises:
        NotFoundError: there is no such table, or tag.
    """
    metastore.get_table(value.name)
    name = tag_name(value.tag)
    chosen = [one for one in tags(metastore, value.name) if one.name == name]
    if not own(metastore).drop_pins(chosen) and not value.if_exists:
        raise NotFoundError(f"{value.name} has no tag {name}", table=str(value.name), tag=name)


def tags(metastore: Metastore, name: TableName | None = None) -> tuple[Pin, ...]:
    """The tags of a table, or of all; expired ones, too.

    Raises:
        NotFoundError: there is no such table.
    """
    if name is not None:
        metastore.get_table(name)
    return tuple(one for one in own(metastore).pins(name) if one.kind is PinKind.TAG)


def tags_listing(metastore: Metastore, value: ShowTags) -> Listing:
    """The same as text.

    Raises:
        NotFoundError: there is no such table.
    """
    return Listing(COLUMNS, tuple(map(_row, tags(metastore, value.name))))


def _row(pin: Pin) -> tuple[str | None, ...]:
    expires = None if pin.expires_ms is None else moment(pin.expires_ms)
    return pin.name, str(pin.table), str(pin.write_id), moment(pin.made_ms or None), expires

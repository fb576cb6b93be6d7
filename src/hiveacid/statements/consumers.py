"""SHOW CONSUMERS, DROP CONSUMER: who reads changes by a name, and how far each has come."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.client import Client
from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.metastore.api import Metastore, own
from hiveacid.model.history import ChangeRange, Pin, PinKind
from hiveacid.model.readable import HtmlFields, duration, moment
from hiveacid.model.tables import TableName
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.statements.values import Command, Listing
from hiveacid.txn.pins import consumer_name, find_consumer

COLUMNS = ("consumer", "table", "version", "behind", "behind since", "pin age", "pinned until")


@dataclass(frozen=True, slots=True)
class ShowConsumers(Command):
    """SHOW CONSUMERS [ON name]."""

    name: TableName | None = None


@dataclass(frozen=True, slots=True)
class DropConsumer(Command):
    """DROP CONSUMER [IF EXISTS] consumer ON name."""

    consumer: str
    name: TableName
    if_exists: bool = False


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


def consumers(client: Client, name: TableName | None = None) -> tuple[Consumer, ...]:
    """The consumers of a table, or of all.

    Raises:
        NotFoundError: there is no such table.
    """
    if name is not None:
        client.metastore.get_table(name)
    pins = own(client.metastore).pins(name)
    return tuple(_state(client, one) for one in pins if one.kind is PinKind.CONSUMER)


def consumers_listing(client: Client, value: ShowConsumers) -> Listing:
    """The same as text.

    Raises:
        NotFoundError: there is no such table.
    """
    return Listing(COLUMNS, tuple(map(_row, consumers(client, value.name))))


def drop(metastore: Metastore, value: DropConsumer) -> None:
    """Forget how far a consumer has read; the next cleaning takes its files.

    Raises:
        NotFoundError: there is no such table, or consumer.
    """
    metastore.get_table(value.name)
    name, store = consumer_name(value.consumer), own(metastore)
    pin = find_consumer(store, value.name, name)
    if (pin is None or not store.drop_pins([pin])) and not value.if_exists:
        raise NotFoundError(
            f"{value.name} has no consumer {name}", table=str(value.name), consumer=name
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


def _row(one: Consumer) -> tuple[str | None, ...]:
    since, until = moment(one.behind_since_ms), moment(one.pinned_until_ms)
    age = duration(one.pin_age_ms)
    return one.name, str(one.table), str(one.version), str(one.behind), since, age, until

"""Consumers of changes: readers by a name, of which the metastore knows how far they have read.

A consumer is a pin of the state that it has read to: cleaners keep that state, and all that tells
what changed since, as long as its time is not over. It goes on by a ``ConsumerMove`` in the commit
of what was made of the changes, and only from the state that was read: of two that read under one
name one gets a ConflictError.

A pin whose time is over proves nothing any more, nor does a new one: it is made anew, the files are
looked at, and then it is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hiveacid.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    SnapshotExpiredError,
)
from hiveacid.model.history import ConsumerMove, Pin, PinKind, Version
from hiveacid.model.tables import Table, TableName
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.txn.pins import check_no_other_cleaner

if TYPE_CHECKING:
    from hiveacid.metastore.api import OwnDatabase

KEEP_MS: Final = 7 * 86_400_000
"""How long a consumer may stay away unless it says otherwise."""
_NAME_MAX: Final = 256


def consumer_name(name: object) -> str:
    """The name of a consumer, in lower case.

    Raises:
        InvalidInputError: it is none.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > _NAME_MAX:
        raise InvalidInputError(
            f"A consumer is a name of 1 to {_NAME_MAX} characters, not {name!r}"
        )
    return name.lower()


@contextmanager
def consumer_pin(
    store: OwnDatabase,
    table: Table,
    name: str,
    *,
    keep_ms: int | None,
    first: Callable[[], Version] | None,
) -> Iterator[Pin]:
    """The consumer's pin; in the block what it needs is looked at. A new one is pinned at the state
    ``first``, and forgotten where the block fails.

    Raises:
        NotFoundError: there is no such consumer, and none is to be made.
        ConflictError: somebody else read under its name at this moment.
        UnsupportedError: a service of Hive cleans, too.
    """
    pin, is_sure, is_new = _held(store, table, name, keep_ms, first)
    try:
        yield pin
    except BaseException as error:
        if is_new:
            store.drop_pins([pin])
        elif isinstance(error, SnapshotExpiredError):
            error.add_note(f"DROP CONSUMER {name} ON {table.name}, and let it begin anew.")
        raise
    if not is_sure:
        store.confirm_pins([pin])


def kept_for_ms(pin: Pin, keep_ms: int | None) -> int:
    """How long the consumer may stay away: as is said, or as before."""
    if keep_ms is not None:
        return keep_ms
    return pin.expires_ms - pin.made_ms if pin.made_ms and pin.expires_ms else KEEP_MS


def keeps_changes_since(
    store: OwnDatabase, name: TableName, state: ValidWriteIdList, *, hive_cleans: bool
) -> bool:
    """Whether the pin of some consumer has kept all that tells what changed since a state; to be
    asked after the files were listed.
    """
    if hive_cleans:
        return False
    pins = store.pins(name, in_force=True)
    consumers = (one for one in pins if one.kind is PinKind.CONSUMER and one.made_ms)
    return any(state.covers(one.valid) for one in consumers)


def _held(
    store: OwnDatabase,
    table: Table,
    name: str,
    keep_ms: int | None,
    first: Callable[[], Version] | None,
) -> tuple[Pin, bool, bool]:
    """The pin, whether its files are known to be there, and whether it is new."""
    known = find_consumer(store, table.name, name, in_force=True)
    if known is not None and known.made_ms:
        return known, True, False
    known = known or find_consumer(store, table.name, name)
    if known is not None:
        store.move_consumers([ConsumerMove(known, known, kept_for_ms(known, keep_ms))])
        return known, False, False
    if first is None:
        raise NotFoundError(
            f"{table.name} has no consumer {name}",
            table=str(table.name),
            consumer=name,
            note="since= (FROM VERSION in SQL) says from which version on it is to read, and makes"
            " it.",
        )
    check_no_other_cleaner(store, "A consumer")
    begin = first()
    pin = Pin(PinKind.CONSUMER, name, table.name, begin.write_id, begin.valid)
    try:
        store.add_pins([pin], keep_ms=keep_ms or KEEP_MS)
    except AlreadyExistsError:
        return _held(store, table, name, keep_ms, None)
    return pin, False, True


def find_consumer(
    store: OwnDatabase, table: TableName, name: str, *, in_force: bool = False
) -> Pin | None:
    """The consumer of this name.

    Raises:
        NotFoundError: no such table.
    """
    for one in store.pins(table, in_force=in_force):
        if one.kind is PinKind.CONSUMER and one.name == name:
            return one
    return None

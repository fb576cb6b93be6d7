"""Pins: tags, which keep a version of one table or of many, and consumers of changes, readers by a
name, of which the metastore knows how far they have read.

A tag's pin is written first, and confirmed once the version's files are seen to be there: a cleaner
that did not know of it has noted what it removes before, so either it is seen by the cleaner, or
what the cleaner removes is seen here.

A consumer is a pin of the state that it has read to: cleaners keep that state, and all that tells
what changed since, as long as its time is not over. It goes on by a ``ConsumerMove`` in the commit
of what was made of the changes, and only from the state that was read: of two that read under one
name one gets a ConflictError.

A pin whose time is over proves nothing any more, nor does a new one: it is made anew, the files are
looked at, and then it is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from hiveacid.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    SnapshotExpiredError,
    UnsupportedError,
)
from hiveacid.layout.directories import name_of_partition
from hiveacid.model.compactions import CompactionState
from hiveacid.model.history import AsOf, ConsumerMove, Floor, Pin, PinKind, Version
from hiveacid.model.ids import ValidWriteIdList
from hiveacid.model.tables import AcidMode, Partition, Table, TableName
from hiveacid.txn.past import find_version, partitions_then, past_snapshot

if TYPE_CHECKING:
    from hiveacid.client import Client
    from hiveacid.metastore.api import OwnDatabase


_NAME_MAX: Final = 256
_KEPT_MS_MAX: Final = 365_000 * 86_400_000


def pin_name(name: object, kind: PinKind) -> str:
    """The name of a tag or a consumer, in lower case.

    Raises:
        InvalidInputError: it is none.
    """
    if not isinstance(name, str) or not name.strip() or len(name) > _NAME_MAX:
        raise InvalidInputError(
            f"A {kind.value} is a name of 1 to {_NAME_MAX} characters, not {name!r}"
        )
    if kind is PinKind.TAG and name.isdecimal():
        raise InvalidInputError(f"A tag is not a number: VERSION AS OF '{name}' is a write id")
    return name.lower()


def _check_kept(what: str, keep_ms: int | None) -> None:
    if keep_ms is not None and not 0 < keep_ms <= _KEPT_MS_MAX:
        text = f"{what} is retained for more than no time, and at most 1,000 years"
        raise InvalidInputError(text)


def make_tags(
    client: Client, name: str, tables: Sequence[Table], wanted: AsOf | None, keep_ms: int | None
) -> tuple[Pin, ...]:
    """Tag these tables as they are, all at one moment, or as they were; ``keep_ms`` None: for ever.

    Raises:
        NotFoundError: there is no such version.
        AlreadyExistsError: a table has a tag of this name.
        SnapshotExpiredError: files of the version are gone.
        InvalidInputError: no name, or a table that is not transactional.
        UnsupportedError: a service of Hive cleans, too.
    """
    store = client.own
    chosen = pin_name(name, PinKind.TAG)
    _check_kept("A tag", keep_ms)
    for table in tables:
        if table.acid_mode is AcidMode.NONE:
            raise InvalidInputError(
                f"{table.name} is not transactional: it has no versions", table=str(table.name)
            )
    check_no_other_cleaner(store, "A tag")
    names = [table.name for table in tables]
    floors = {one: store.floors(one) for one in names} if wanted is None else {}
    if wanted is None:
        versions = store.latest(names)
    else:
        versions = tuple(find_version(client.metastore, one, wanted) for one in tables)
    pins = [
        Pin(PinKind.TAG, chosen, one, version.write_id, version.valid)
        for one, version in zip(names, versions, strict=True)
    ]
    made = store.add_pins(pins, keep_ms=keep_ms)
    try:
        for table, version in zip(tables, versions, strict=True):
            _check_files(client, table, version, floors)
        return store.confirm_pins(made)
    except BaseException:
        store.drop_pins(made)
        raise


def check_no_other_cleaner(store: OwnDatabase, what: str) -> None:
    """Raises: UnsupportedError: a service of Hive cleans, too."""
    if store.is_served_by_hive():
        raise UnsupportedError(
            f"{what} keeps files from cleaners, and Hive's own cleaner, which has worked on this "
            "metastore, knows of none",
            note="The table property no_cleanup=true keeps all files of a table from it.",
        )


def _check_files(
    client: Client, table: Table, version: Version, before: Mapping[TableName, Mapping[str, Floor]]
) -> None:
    """Raises: SnapshotExpiredError: files of it are gone."""
    floors = client.own.floors(table.name)
    if before.get(table.name) == floors:  # no cleaner has gone beyond what was current before
        return
    partitions: Sequence[Partition] = (Partition((), table.location),)
    if table.partition_columns:
        partitions = client.metastore.list_partitions(table.name)
    if table.acid_mode is AcidMode.INSERT_ONLY:
        _refuse_while_cleaned(client, table, version)
    elif version.sequence is not None:
        partitions = [one for one in partitions if (name_of_partition(table, one) or "") in floors]
    past_snapshot(
        client.metastore,
        table,
        version,
        partitions_then(table, version, partitions),
        files=client.files,
        valid_txns=client.metastore.valid_txns(),
        hive_cleans=False,
        is_whole=False,
    )


def _refuse_while_cleaned(client: Client, table: Table, version: Version) -> None:
    """Floors do not tell of what minor compactions put together.

    Raises:
        SnapshotExpiredError: a cleaner works that may not have seen the pin.
    """
    queue = client.metastore.show_compactions(table=table.name)
    ready = CompactionState.READY_FOR_CLEANING
    if any(one.state is ready and one.cleaner_started_ms is not None for one in queue):
        raise SnapshotExpiredError(
            f"Version {version.write_id} of {table.name} cannot be tagged now: a cleaner is "
            "removing files, and they may be its",
            table=str(table.name),
            version=int(version.write_id),
            note="Try again when it is done, or tag the table as it is.",
        )


KEEP_MS: Final = 7 * 86_400_000
"""How long a consumer may stay away unless it says otherwise."""


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
        InvalidInputError: it would be retained for no time.
    """
    _check_kept("A consumer", keep_ms)
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


def kept_ms(retain: object) -> int | None:
    """How long a pin is kept, as a user says it; None for ever.

    Raises:
        InvalidInputError: it is no duration.
    """
    if retain is None:
        return None
    kept = retain
    if isinstance(retain, int | float) and not isinstance(retain, bool):
        with suppress(OverflowError):
            kept = timedelta(days=retain)
    if not isinstance(kept, timedelta):
        raise InvalidInputError(f"retain= is a timedelta, or a number of days, not {retain!r}")
    return int(kept.total_seconds() * 1000)

"""The option ``consumer`` of streaming sources: how far a stream has read, kept by a name, and its
files with it.

The checkpoint of a stream says what is read again; the name is for what a checkpoint cannot do: to
keep files while the stream is down, to show how far behind it is, and to begin another checkpoint
where this one ended. It moves when Spark says that a batch is done, and again when the next one is
planned; so a new checkpoint may read the last batch again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hiveacid.connectors.options import Options
from hiveacid.errors import ConflictError, InvalidInputError
from hiveacid.model.history import ConsumerMove, Pin, PinKind, Version
from hiveacid.model.tables import Table
from hiveacid.txn.consumers import consumer_name, consumer_pin, find_consumer, kept_for_ms
from hiveacid.txn.pins import check_no_other_cleaner

if TYPE_CHECKING:
    from hiveacid.metastore.api import OwnDatabase

_DAY_MS = 86_400_000


class StreamConsumer:
    """The consumer that a stream's options name, if any; for one stream."""

    def __init__(self, options: Options) -> None:
        given = options.more.get("consumer")
        self._name = None if given is None else consumer_name(given)
        days = options.number("consumerRetainDays")
        if days is not None and (given is None or days == 0):
            raise InvalidInputError(
                "Option consumerRetainDays is a number of days from 1 on, of a consumer",
                option="consumerRetainDays",
            )
        self._keep_ms = None if days is None else days * _DAY_MS
        self._pin: Pin | None = None

    @property
    def is_named(self) -> bool:
        """Whether there is one."""
        return self._name is not None

    def begins(self, own: OwnDatabase, table: Table) -> Pin | None:
        """What it has read to, where a stream begins with no checkpoint; None for a new one."""
        return None if self._name is None else find_consumer(own, table.name, self._name)

    def begin(self, own: OwnDatabase, table: Table, state: Version) -> None:
        """Keep the files of a new one from now on.

        Raises:
            UnsupportedError: a service of Hive cleans, too.
        """
        if self._name is not None and find_consumer(own, table.name, self._name) is None:
            check_no_other_cleaner(own, "A consumer")
            made = self._at(table, state)
            own.add_pins([made], keep_ms=kept_for_ms(made, self._keep_ms))

    @contextmanager
    def reading(self, own: OwnDatabase, table: Table, low: Version) -> Iterator[None]:
        """A batch that begins at ``low`` is planned in the block, which looks whether all changes
        since then are told.

        Raises:
            ConflictError: another stream has read beyond under its name.
        """
        if self._name is None:
            yield
            return
        with consumer_pin(
            own,
            table,
            self._name,
            keep_ms=self._keep_ms,
            first=lambda: low,
        ) as pin:
            if not low.valid.covers(pin.valid):
                raise ConflictError(
                    f"The consumer {self._name} of {table.name} is at version {pin.write_id}, and"
                    f" this stream at version {low.write_id}: another one reads under its name",
                    table=str(table.name),
                    consumer=self._name,
                    version=int(pin.write_id),
                )
            self._pin = self._moved(own, pin, self._at(table, low))
            yield

    def read(self, own: OwnDatabase, table: Table, state: Version) -> None:
        """All up to a state is done.

        Raises:
            ConflictError: another stream reads under its name, too.
        """
        if self._name is None:
            return
        if self._pin is None:
            self.begin(own, table, state)
            self._pin = find_consumer(own, table.name, self._name)
        if self._pin is not None and state.valid.covers(self._pin.valid):
            self._pin = self._moved(own, self._pin, self._at(table, state))

    def _at(self, table: Table, state: Version) -> Pin:
        assert self._name is not None
        return Pin(PinKind.CONSUMER, self._name, table.name, state.write_id, state.valid)

    def _moved(self, own: OwnDatabase, pin: Pin, after: Pin) -> Pin:
        own.move_consumers([ConsumerMove(pin, after, kept_for_ms(pin, self._keep_ms))])
        return after

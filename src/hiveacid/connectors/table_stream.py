"""What every stream of a table has: where it is, how much a batch may have, its consumer; and what
it looks at before it reads: that it is its table still, that nothing happened which it would not
notice.

The checkpoint of a stream says what is read again; the name of a consumer is for what a checkpoint
cannot do: to keep files while the stream is down, to show how far behind it is, and to begin
another checkpoint where this one ended. It moves when Spark says that a batch is done, and again
when the next one is planned; so a new checkpoint may read the last batch again.

And the streams with ``readChangeFeed``: what changed, version by version. Versions are in the order
of commits, which need not be that of write ids. So an offset is a version (the write id that
committed last) and the lower write ids that had not committed by then: they come in a later batch.
A batch is what changed between the states of two offsets, as ``emp.changes`` tells it, images
paired by key within the batch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from hiveacid.connectors.batch_read import (
    ChangesPartition,
    opened,
    partitions_of,
    read_events,
    readable_table,
)
from hiveacid.connectors.options import Options
from hiveacid.errors import ConflictError, InvalidInputError, SnapshotExpiredError, UnsupportedError
from hiveacid.model.history import (
    AsOf,
    ChangeRange,
    ConsumerMove,
    Pin,
    PinKind,
    Version,
    version_or_time,
)
from hiveacid.model.ids import RangeValidity, ValidWriteIdList
from hiveacid.model.tables import AcidMode, Table
from hiveacid.statements.changes import is_before, last_version, state_at_time, state_of
from hiveacid.txn.pins import (
    check_no_other_cleaner,
    consumer_pin,
    find_consumer,
    keeps_changes_since,
    kept_for_ms,
    pin_name,
)

if TYPE_CHECKING:
    from hiveacid.metastore.api import OwnDatabase
    from hiveacid.session import Session


_DAY_MS = 86_400_000


class StreamConsumer:
    """The consumer that a stream's options name, if any (``name``); for one stream."""

    def __init__(self, options: Options) -> None:
        given = options.more.get("consumer")
        self.name = None if given is None else pin_name(given, PinKind.CONSUMER)
        days = options.number("consumerRetainDays")
        if days is not None and (given is None or days == 0):
            raise InvalidInputError(
                "Option consumerRetainDays is a number of days from 1 on, of a consumer",
                option="consumerRetainDays",
            )
        self._keep_ms = None if days is None else days * _DAY_MS
        self._pin: Pin | None = None

    def begins(self, own: OwnDatabase, table: Table) -> Pin | None:
        """What it has read to, where a stream begins with no checkpoint; None for a new one, and
        for one whose first batch, the table as it was, is not known to be done.
        """
        found = None if self.name is None else find_consumer(own, table.name, self.name)
        return None if found is not None and found.valid.hwm and not found.write_id else found

    def begin(self, own: OwnDatabase, table: Table, state: Version) -> None:
        """Keep the files of a new one from a state on; its write id is what it has read to.

        Raises:
            UnsupportedError: a service of Hive cleans, too.
        """
        if self.name is not None and find_consumer(own, table.name, self.name) is None:
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
        if self.name is None:
            yield
            return
        with consumer_pin(
            own,
            table,
            self.name,
            keep_ms=self._keep_ms,
            first=lambda: low,
        ) as pin:
            if not low.valid.covers(pin.valid):
                raise ConflictError(
                    f"The consumer {self.name} of {table.name} is at version {pin.write_id}, and"
                    f" this stream at version {low.write_id}: another one reads under its name",
                    table=str(table.name),
                    consumer=self.name,
                    version=int(pin.write_id),
                )
            self._pin = self._moved(own, pin, self._at(table, low))
            yield

    def read(self, own: OwnDatabase, table: Table, state: Version) -> None:
        """All up to a state is done.

        Raises:
            ConflictError: another stream reads under its name, too.
        """
        if self.name is None:
            return
        if self._pin is None:
            self.begin(own, table, state)
            self._pin = find_consumer(own, table.name, self.name)
        if self._pin is not None and state.valid.covers(self._pin.valid):
            self._pin = self._moved(own, self._pin, self._at(table, state))

    def _at(self, table: Table, state: Version) -> Pin:
        assert self.name is not None
        return Pin(PinKind.CONSUMER, self.name, table.name, state.write_id, state.valid)

    def _moved(self, own: OwnDatabase, pin: Pin, after: Pin) -> Pin:
        own.move_consumers([ConsumerMove(pin, after, kept_for_ms(pin, self._keep_ms))])
        return after


try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # before Spark 4.2
    limits = None  # type: ignore[assignment]


ANEW: Final = "A stream that begins anew (another checkpointLocation) reads the table as it is."


class TableStream(DataSourceStreamReader):
    """A stream without limits: Spark up to 4.1 does not say from where it reads on."""

    _until: dict[str, Any] | None = None
    """The offset that is the last one of this run, if there is one."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._versions_max = options.number("maxWriteIdsPerTrigger")
        self._bytes_max = options.number("maxBytesPerTrigger")
        if limits is None and (self._versions_max or self._bytes_max):
            raise UnsupportedError(
                "maxWriteIdsPerTrigger and maxBytesPerTrigger need Spark 4.2: before, a Python"
                " source is not told where a batch begins"
            )
        self._consumer = StreamConsumer(options)

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """The last version, or where the stream begins, if that is yet to come."""
        with self._options.connect() as session:
            return self._last(session, stream_table(session, self._options))

    def commit(self, end: dict[str, Any]) -> None:
        """All up to ``end`` is done, and its consumer goes on.

        Raises:
            ConflictError: another stream reads under the name of its consumer.
        """
        if self._consumer.name is None:
            return
        with self._options.connect() as session:
            table = stream_table(session, self._options)
            self._consumer.read(session.client.own, table, self._state(session, table, end))

    @abstractmethod
    def _last(self, session: Session, table: Table) -> dict[str, Any]:
        """The offset up to which all can be read."""

    @abstractmethod
    def _state(self, session: Session, table: Table, offset: Mapping[str, Any]) -> Version:
        """The table at an offset."""

    @abstractmethod
    def _next(
        self, session: Session, table: Table, start: dict[str, Any], *, is_limited: bool
    ) -> dict[str, Any]:
        """The offset at which a batch from ``start`` on ends."""


if limits is None:
    Limited = TableStream
else:

    class Limited(  # type: ignore[no-redef]
        TableStream, limits.SupportsTriggerAvailableNow
    ):
        """A stream that Spark tells from where it reads on, so that a batch may have an end."""

        def prepareForTriggerAvailableNow(self) -> None:
            """What is there now is all that this run reads."""
            self._until = super().latestOffset()

        def getDefaultReadLimit(self) -> limits.ReadLimit:
            """Whether there is one: Spark knows no limit by versions, and asks for no more."""
            if self._bytes_max is None and self._versions_max is None:
                return limits.ReadAllAvailable()
            return limits.ReadMaxBytes(self._bytes_max or 0)

        def latestOffset(  # type: ignore[override]
            self, start: dict[str, Any], limit: limits.ReadLimit
        ) -> dict[str, Any]:
            """As far as a batch from ``start`` on goes."""
            is_limited = not isinstance(limit, limits.ReadAllAvailable)
            with self._options.connect() as session:
                table = stream_table(session, self._options)
                check_same(table, start)
                return self._next(session, table, start, is_limited=is_limited)

        def reportLatestOffset(self) -> dict[str, Any]:
            """What Spark shows as the newest."""
            return super().latestOffset()


def stream_table(session: Session, options: Options) -> Table:
    """The table whose stream it is.

    Raises:
        NotFoundError: there is no such table.
        InvalidInputError: it is a view, or not transactional.
    """
    table = readable_table(session, options)
    if table.acid_mode is AcidMode.NONE:
        raise InvalidInputError(
            f"{table.name} is not transactional: a stream goes by write ids",
            table=str(table.name),
        )
    return table


def identity(table: Table) -> str:
    """What a rename keeps and no other table has."""
    return f"{table.created_at_ms} {table.location}" if table.id is None else str(table.id)


def check_same(table: Table, offset: Mapping[str, Any]) -> None:
    """Raises: InvalidInputError: an offset is one of another table."""
    if offset.get("table") != identity(table):
        raise InvalidInputError(
            f"The checkpoint is one of another table than {table.name}, or that was dropped and"
            " made anew",
            table=str(table.name),
            note=ANEW,
        )


def check_none_dropped(
    own: OwnDatabase, table: Table, low: Version, *, skips_changes: bool
) -> None:
    """To be asked after partitions were listed.

    Raises:
        UnsupportedError: rows went with their partition after ``low``, and changes are not skipped.
    """
    dropped = own.version(table.name, write_id=low.write_id).dropped
    if dropped and not skips_changes:
        where = f"Partition {dropped[0]} of" if dropped[0] else "Files of"
        raise UnsupportedError(
            f"{where} {table.name} {'was' if dropped[0] else 'were'} dropped or moved after write"
            f" id {low.write_id}, with rows: the source hiveacid reads appended rows",
            table=str(table.name),
            partitions=dropped,
            note=f".option('skipChangeCommits', 'true') goes on without them. {ANEW}",
        )


def check_told(
    session: Session, table: Table, low: Version, high: int, *, skips_changes: bool
) -> None:
    """Looks whether directories tell which write ids after ``low`` changed rows; to be asked after
    they were listed.

    Raises:
        SnapshotExpiredError: those that told it are cleaned.
        UnsupportedError: rows went with their partition, and changes are not skipped.
    """
    own, name = session.client.own, table.name
    check_none_dropped(own, table, low, skips_changes=skips_changes)
    (now,) = session.client.metastore.valid_write_ids((name,))
    lost = [
        floor.base
        for floor in own.floors(name).values()
        if (first := max(floor.first, low.valid.hwm + 1)) <= (last := min(floor.base, high))
        and now.range_validity(first, last) is not RangeValidity.NONE
    ]
    hive_cleans = session.client.transactions.hive_cleans
    if lost and not keeps_changes_since(own, name, low.valid, hive_cleans=hive_cleans):
        raise SnapshotExpiredError(
            f"The stream has read {name} up to write id {low.valid.hwm}, and files that tell which"
            f" later ones changed rows are cleaned: it can read on from version {max(lost)}",
            table=str(name),
            write_id=max(lost),
            note=f"The option consumer keeps such files for a stream. {ANEW}",
        )


_LATEST: Final = "latest"


class ChangeStreamReader(TableStream):
    """A stream of changes, without limits."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._form = ChangeRange(0, includes_since=True).in_form(options.more)
        self._starting = _starting(options)
        if options.flag("skipChangeCommits"):
            raise InvalidInputError(
                "skipChangeCommits does not go with readChangeFeed", option="skipChangeCommits"
            )

    def initialOffset(self) -> dict[str, Any]:
        """Before the first batch.

        Raises:
            InvalidInputError: it is not said where a new stream begins.
        """
        with self._options.connect() as session:
            table = stream_table(session, self._options)
            own, now = session.client.own, valid_now(session, table)
            known = self._consumer.begins(own, table)
            if known is not None:
                return _offset(table, Version(known.write_id, known.valid, None, None))
            if self._starting is None:
                raise InvalidInputError(
                    "A stream of changes needs the first version that is read",
                    note=".option('startingVersion', 3), or 'latest' for what comes from now on.",
                    option="startingVersion",
                )
            if self._starting == _LATEST:
                first = last_version(own, table, now, own.version(table.name, write_id=0))
            elif isinstance(self._starting, AsOf):
                first = state_at_time(own, table, now, self._starting, included=False)
            else:
                first = state_of(own, table, now, int(self._starting), included=False)
            self._consumer.begin(own, table, first)
            return _offset(table, first)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch; one alone where updates get their images.

        Raises:
            InvalidInputError: the checkpoint is one of another table.
            SnapshotExpiredError: files that told the changes are cleaned.
            ConflictError: another stream reads under the name of its consumer.
        """
        if start == end:
            return []
        with self._options.connect() as session:
            table, own = stream_table(session, self._options), session.client.own
            low, high = (_state(session, table, one) for one in (start, end))
            with self._consumer.reading(own, table, low):
                found = opened(session, self._options, self._form, self._schema, (low, high))
            return partitions_of(found)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a task."""
        assert isinstance(partition, ChangesPartition)
        yield from read_events(partition, self._schema)

    def _last(self, session: Session, table: Table) -> dict[str, Any]:
        own = session.client.own
        begin = own.version(table.name, write_id=0)
        return _offset(table, last_version(own, table, valid_now(session, table), begin))

    def _state(self, session: Session, table: Table, offset: Mapping[str, Any]) -> Version:
        return _state(session, table, offset)

    def _next(
        self, session: Session, table: Table, start: dict[str, Any], *, is_limited: bool
    ) -> dict[str, Any]:
        low = _state(session, table, start)
        high = last_version(
            session.client.own,
            table,
            valid_now(session, table),
            low,
            versions_max=self._versions_max if is_limited else None,
            bytes_max=self._bytes_max if is_limited else None,
        )
        if self._until is not None:
            last = _state(session, table, self._until)
            high = last if is_before(last, high) else high
            high = low if is_before(high, low) else high
        return start if high.valid == low.valid else _offset(table, high)


class LimitedChangeStreamReader(ChangeStreamReader, Limited):
    """A stream of changes, a batch of which may have an end where Spark can say so."""


def _starting(options: Options) -> str | AsOf | None:
    """``startingVersion``, or its other name, or ``startingTimestamp``.

    Raises:
        InvalidInputError: two of them, or no version, or no time.
    """
    names = ("startingVersion", "startingWriteId", "startingTimestamp")
    given = [name for name in names if options.more.get(name.lower()) is not None]
    if len(given) > 1:
        both = " and ".join(given)
        raise InvalidInputError(f"{both} are two names of one option", option=given[-1])
    text = options.more[given[0].lower()] if given else None
    if given == [names[-1]]:
        return version_or_time(names[-1], text)  # type: ignore[return-value]
    if text is not None and text != _LATEST and not (text.isascii() and text.isdigit()):
        raise InvalidInputError(
            f"Option startingVersion is a version or 'latest', not {text!r}",
            option="startingVersion",
        )
    return text


def valid_now(session: Session, table: Table) -> ValidWriteIdList:
    """The write ids of the table that count now."""
    (found,) = session.client.metastore.valid_write_ids((table.name,))
    return found


def _offset(table: Table, state: Version) -> dict[str, Any]:
    found: dict[str, Any] = {"table": identity(table), "version": int(state.write_id)}
    return {**found, "without": list(state.valid.open)} if state.valid.open else found


def _state(session: Session, table: Table, offset: Mapping[str, Any]) -> Version:
    """The state of an offset. What Hive itself committed later is not told by any order of commits,
    but by what the offset says.

    Raises:
        InvalidInputError: it is one of another table, or of a stream of rows.
    """
    check_same(table, offset)
    if "version" not in offset:
        raise InvalidInputError(
            "The checkpoint is one of a stream of rows, without readChangeFeed",
            table=str(table.name),
        )
    version = session.client.own.version(table.name, write_id=int(offset["version"]))
    valid, without = version.valid, offset.get("without", ())
    if not without:
        return version
    opened = (*valid.open, *without)
    valid = ValidWriteIdList.of(valid.table, hwm=valid.hwm, open=opened, aborted=valid.aborted)
    return replace(version, valid=valid)

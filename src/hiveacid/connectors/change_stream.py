"""Streams of ``format("hiveacid")`` with ``readChangeFeed``: what changed, version by version.

Versions are in the order of commits, which need not be that of write ids. So an offset is a version
(the write id that committed last) and the lower write ids that had not committed by then: they come
in a later batch. A batch is what changed between the states of two offsets, as ``emp.changes``
tells it, images paired by key within the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from hiveacid.connectors.batch_read import (
    ChangesPartition,
    form_asked,
    opened,
    partitions_of,
    read_events,
)
from hiveacid.connectors.options import Options
from hiveacid.connectors.table_stream import (
    Limited,
    TableStream,
    check_same,
    identity,
    stream_table,
)
from hiveacid.errors import InvalidInputError
from hiveacid.model.history import Version
from hiveacid.model.tables import Table
from hiveacid.model.valid import ValidWriteIdList
from hiveacid.statements.changes import is_before, last_version, state_of

if TYPE_CHECKING:
    import pyarrow as pa

    from hiveacid.session import Session

_LATEST: Final = "latest"


class ChangeStreamReader(TableStream):
    """A stream of changes, without limits."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._form = form_asked(options)
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
            own, now = session.client.own, _now(session, table)
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
        return _offset(table, last_version(own, table, _now(session, table), begin))

    def _state(self, session: Session, table: Table, offset: Mapping[str, Any]) -> Version:
        return _state(session, table, offset)

    def _next(
        self, session: Session, table: Table, start: dict[str, Any], *, is_limited: bool
    ) -> dict[str, Any]:
        low = _state(session, table, start)
        high = last_version(
            session.client.own,
            table,
            _now(session, table),
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


def _starting(options: Options) -> str | None:
    """``startingVersion``, or its other name.

    Raises:
        InvalidInputError: both, or no version.
    """
    given = [options.more.get(name) for name in ("startingversion", "startingwriteid")]
    if None not in given:
        raise InvalidInputError(
            "startingVersion and startingWriteId are two names of one option",
            option="startingVersion",
        )
    text = given[0] or given[1]
    if text is not None and text != _LATEST and not (text.isascii() and text.isdigit()):
        raise InvalidInputError(
            f"Option startingVersion is a version or 'latest', not {text!r}",
            option="startingVersion",
        )
    return text


def _now(session: Session, table: Table) -> ValidWriteIdList:
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

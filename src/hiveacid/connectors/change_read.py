"""``option("readChangeFeed", "true")``: what changed in a table, read by storage's reader in tasks.

Versions are those of ``table_changes`` in SQL, both ends belong to them. Events are planned once,
when a DataFrame is first used; without an end they end with what is committed then. A row's images
of before and after can lie in different buckets and partitions, and Spark shuffles nothing for a
data source: where there is a key, one task reads all events and pairs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hiveacid.connectors.batch_read import check_schema, readable_table, tasks_of
from hiveacid.connectors.options import FEED, TRAVEL, Options
from hiveacid.connectors.wall_clock import session_zone, spark_batch
from hiveacid.errors import InvalidInputError
from hiveacid.model.history import ChangeRange, Deduplication, Version
from hiveacid.spark.changes import CHANGE_TYPES, ChangesTask, PairTask
from hiveacid.statements.open_changes import open_changes
from hiveacid.storage.changes import ChangeReader

if TYPE_CHECKING:
    import pyarrow as pa

    from hiveacid.session import Session
    from hiveacid.statements.changes import ChangeScan

_ADDED: Final = frozenset(CHANGE_TYPES.names)


def changes_asked(options: Options) -> bool:
    """Whether changes are to be read, not rows.

    Raises:
        InvalidInputError: options that mean nothing together.
    """
    wanted = bool(options.flag(FEED[0]))
    others = ("filter", "fresh", *TRAVEL) if wanted else FEED[1:]
    for name in others:
        if options.more.get(name.lower()) is not None:
            says = "does not go with" if wanted else "needs"
            raise InvalidInputError(f"Option {name} {says} readChangeFeed", option=name)
    return wanted


def with_change_types(schema: StructType) -> StructType:
    """The columns of a table, then those that say what happened."""
    return StructType([*schema.fields, *CHANGE_TYPES.fields])


def form_asked(options: Options) -> ChangeRange:
    """In which form changes are told.

    Raises:
        InvalidInputError: an option is wrong.
    """
    names = options.more.get("key")
    mode = options.more.get("deduplicationmode", Deduplication.DROP_CARRYOVERS.value)
    return ChangeRange(
        0,
        None,
        None if names is None else tuple(name.strip() for name in names.split(",")),
        Deduplication.parse(mode),
        computes_updates=options.flag("computeUpdates") is not False,
        includes_since=True,
    )


def range_asked(options: Options) -> ChangeRange:
    """Between which versions, and in which form.

    Raises:
        InvalidInputError: it is not said where they begin, or an option is wrong.
    """
    since, until = options.number("startingVersion"), options.number("endingVersion")
    if since is None:
        raise InvalidInputError(
            "readChangeFeed needs the first version whose changes are read",
            note=".option('startingVersion', 3); a version is a write id.",
            option="startingVersion",
        )
    return replace(form_asked(options), since=since, until=until)


@dataclass(frozen=True)
class ChangesPartition(InputPartition):
    """The units of one task, each pickled, and what reads and pairs their events."""

    units: tuple[bytes, ...]
    reader: ChangeReader
    pairs: PairTask | None


class ChangesReader(DataSourceReader):
    """Reads the changes that the options ask for."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._wanted = range_asked(options)
        self._partitions: Sequence[InputPartition] | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """One for each task; one alone where updates get their images."""
        if self._partitions is None:
            with self._options.connect() as session:
                scan = opened(session, self._options, self._wanted, self._schema)
            self._partitions = partitions_of(scan)
        return self._partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a task."""
        assert isinstance(partition, ChangesPartition)
        yield from read_events(partition, self._schema)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_partitions": None}  # tasks get theirs one by one


def opened(
    session: Session,
    options: Options,
    wanted: ChangeRange,
    schema: StructType,
    between: tuple[Version, Version] | None = None,
) -> ChangeScan:
    """What there is to read for some changes, with the columns of ``schema``; ``between`` two
    states, where they are given.

    Raises:
        NotFoundError: there is no such table.
        InvalidInputError: a version that the table does not have yet; it lost a column.
        SnapshotExpiredError: files that tell the changes are cleaned.
    """
    table = readable_table(session, options)
    of_table = [field for field in schema.fields if field.name.lower() not in _ADDED]
    names = [field.name for field in of_table]
    context = session.reading_context()
    scan = open_changes(context, table, wanted, names, between=between)
    check_schema(scan.table, StructType(of_table))
    return scan


def partitions_of(scan: ChangeScan) -> list[ChangesPartition]:
    """The tasks of some changes; there is one at least."""
    pairs = PairTask(scan.key, scan.versions, scan.is_net) if scan.key else None
    tasks = tasks_of(scan.units) or [()]
    if pairs is not None:
        tasks = [tuple(unit for task in tasks for unit in task)]
    return [ChangesPartition(units, scan.reader, pairs) for units in tasks]


def read_events(partition: ChangesPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The events of a task as Spark expects them."""
    task, zone = ChangesTask(partition.units, partition.reader), session_zone()
    events = (batch for number in range(len(partition.units)) for batch in task.read(number))
    if partition.pairs is not None:
        table = partition.pairs.finished(list(events), partition.reader.schema())
        events = iter(table.to_batches())
    for batch in events:
        if batch.num_rows:
            yield spark_batch(batch, schema, zone=zone)

"""``spark.read.format("hiveacid")``: a snapshot of the table, or what changed in it, read by
storage's reader in tasks.

The transaction of a snapshot that many tasks read ends with the planning where the table's
retention keeps what they read; elsewhere it is a lease that nobody prolongs, and what is cleaned
before it is read is an error.

``option("readChangeFeed", "true")`` asks for changes. Their versions are those of ``table_changes``
in SQL, both ends belong to them. Events are planned once, when a DataFrame is first used; without
an end they end with what is committed then. A row's images of before and after can lie in different
buckets and partitions, and Spark shuffles nothing for a data source: where there is a key, one task
reads all events and pairs them.

A stream of rows reads changes, too, where somebody changed rows after the place that it has read
to: a snapshot of today may lack rows that were appended and are replaced, or deleted, since. So
they come from the changes between the two offsets, which are told by the files of then as long as
these are kept: of these events the inserts are taken, without those of the write ids that are
passed over. The first batch, the table as it is, is read as of where it ends.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from hiveacid.connectors.options import Options, range_asked, version_asked
from hiveacid.errors import InvalidInputError
from hiveacid.layout.directories import Snapshot
from hiveacid.model.history import ChangeRange, Deduplication, Version
from hiveacid.model.tables import Table, TableKind
from hiveacid.reading.rows import condition_of
from hiveacid.spark.arrow_read import (
    CHANGE_TYPES,
    ArrowScanTask,
    ChangesTask,
    PairTask,
    task_count,
    units_of,
)
from hiveacid.spark.assign import spark_type
from hiveacid.spark.wall_clock import session_zone, spark_batch
from hiveacid.statements.changes import ChangeScan
from hiveacid.statements.select import Lease, open_changes, open_lease
from hiveacid.storage.change_plan import ChangeUnit
from hiveacid.storage.changes import ChangeReader
from hiveacid.storage.plan.arrow_conditions import Condition, filtered
from hiveacid.storage.plan.planning import partitions_that_match, plan_scan
from hiveacid.storage.plan.scan_plan import ScanPlan
from hiveacid.storage.read import TableReader, Unit
from hiveacid.txn.past import partitions_then, past_snapshot

if TYPE_CHECKING:
    from hiveacid.session import Session


_BYTES_OF_A_TASK: Final = 64 << 20
"""A smaller table is read by one task."""


def table_schema(options: Options) -> StructType:
    """The columns of the table as Spark's.

    Raises:
        NotFoundError: there is no such table.
        InvalidInputError: it is a view, or an option is wrong.
        UnsupportedError: a column has a type that Spark does not have.
    """
    options.flag("fresh")
    with options.connect() as session:
        table = _table_of(session, options)
        return StructType([StructField(c.name, spark_type(c.type)) for c in table.all_columns])


def readable_table(session: Session, options: Options) -> Table:
    """The definition of the table that is named.

    Raises:
        NotFoundError: there is no such table.
        InvalidInputError: it is a view.
    """
    table = session.table(options.table).definition
    if table.kind is TableKind.VIEW:
        raise InvalidInputError(
            f"{table.name} is a view: format('hiveacid') reads and writes tables",
            view=str(table.name),
            note="Read a view with acid.sql(...), or spark.sql after hiveacid.enable(spark).",
        )
    return table


def _table_of(session: Session, options: Options) -> Table:
    """The definition, as it was where a version is asked for.

    Raises:
        NotFoundError: there is no such table, or version.
        InvalidInputError: it is a view.
    """
    table, wanted = readable_table(session, options), version_asked(options.more)
    return table if wanted is None else session.look().past_definition(table.name, wanted)


def check_schema(table: Table, schema: StructType) -> None:
    """The table still has the columns that Spark knows of it.

    Raises:
        InvalidInputError: it lacks one, or one has another type.
    """
    kinds = {column.name: spark_type(column.type) for column in table.all_columns}
    for field in schema.fields:
        if kinds.get(field.name.lower()) != field.dataType:
            has = kinds.get(field.name.lower())
            raise InvalidInputError(
                f"{table.name} has {'no column' if has is None else f'a {has.simpleString()}'}"
                f" {field.name} where {field.dataType.simpleString()} is expected: it was altered,"
                " or the schema is not the table's",
                table=str(table.name),
                column=field.name,
                note="Load it again, without a schema.",
            )


@dataclass(frozen=True)
class UnitsPartition(InputPartition):
    """The units of one task, each pickled."""

    units: tuple[bytes, ...]


class BatchReader(DataSourceReader):
    """Reads the rows that meet the option ``filter``; without it all. It is planned when Spark
    pickles it, to send it to the workers.

    Spark does that once in the life of a DataFrame or view, whatever is asked of it later. So of a
    table that one task can read that task takes the snapshot, and each query sees the table as it
    is then. It has no ``pushFilters``: Spark would read with those of one query in others, too.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._fresh = options.flag("fresh")
        self._reader: TableReader | None = None
        self._units: Sequence[Unit] = ()

    def partitions(self) -> list[InputPartition]:
        """One for the whole table, or as many as there is work for."""
        self._planned()
        if self._fresh:
            return [InputPartition(None)]
        # Spark takes no tasks for one that does not know what to read
        return [UnitsPartition(units) for units in tasks_of(self._units) or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        if isinstance(partition, UnitsPartition):
            assert self._reader is not None
            yield from self._rows(self._reader, map(pickle.loads, partition.units))
            return
        with self._options.connect() as session:
            lease, plan = self._plan(session)
            yield from self._rows(_reader(plan), units_of(plan))
            lease.close()

    def _rows(self, reader: TableReader, units: Iterable[Unit]) -> Iterator[pa.RecordBatch]:
        expression = self._condition(reader.table).expression

        def met(rows: pa.RecordBatch) -> pa.RecordBatch:
            if expression is None:
                return rows
            found = filtered(pa.Table.from_batches([rows]), expression).combine_chunks()
            return next(iter(found.to_batches()), rows.slice(0, 0))

        return read_units(reader, units, self._schema, keep=met)

    def __getstate__(self) -> dict[str, Any]:
        self._planned()
        return {**self.__dict__, "_units": ()}

    def _planned(self) -> None:
        if self._reader is not None or self._fresh:
            return
        with self._options.connect() as session:
            _, plan = self._plan(session)
        if self._fresh is None and plan.amount.bytes <= _BYTES_OF_A_TASK:
            self._fresh = True
        else:
            self._reader, self._units = _reader(plan), units_of(plan)

    def _plan(self, session: Session) -> tuple[Lease, ScanPlan]:
        table = _table_of(session, self._options)
        then, context = version_asked(self._options.more), session.reading_context()
        predicate = self._condition(table).predicate
        keep = partial(partitions_that_match, table, predicate=predicate)
        lease = open_lease(context, table, keep=keep, as_of=then)
        check_schema(lease.snapshot.table, self._schema)
        wanted = [name.lower() for name in self._schema.names]
        plan = plan_scan(lease.snapshot, files=lease.files, predicate=predicate, columns=wanted)
        return lease, plan

    def _condition(self, table: Table) -> Condition:
        """Raises: NotFoundError, InvalidInputError: it is none on the columns of the table."""
        text = self._options.more.get("filter")
        return condition_of(text, table.all_columns, table=table.name)


def _reader(plan: ScanPlan) -> TableReader:
    snapshot = plan.snapshot
    return TableReader(plan.files, snapshot.table, frozenset(plan.columns), snapshot.valid)


def tasks_of(units: Sequence[Unit] | Sequence[ChangeUnit]) -> list[tuple[bytes, ...]]:
    """The units of each task, pickled; neighbours go to different ones."""
    pickled = [pickle.dumps(unit) for unit in units]
    count = task_count(units)
    return [tuple(pickled[first::count]) for first in range(count)]


Kept = Callable[[pa.RecordBatch], pa.RecordBatch]
"""What leaves rows out."""


def read_units(
    reader: TableReader, units: Iterable[Unit], schema: StructType, *, keep: Kept
) -> Iterator[pa.RecordBatch]:
    """The rows of units as Spark expects them; ``keep`` leaves some out."""
    task, zone = ArrowScanTask((), reader), session_zone()
    for batch in map(keep, task.read(list(units))):
        if batch.num_rows:
            yield spark_batch(batch, schema, zone=zone)


_ADDED: Final = frozenset(CHANGE_TYPES.names)


def with_change_types(schema: StructType) -> StructType:
    """The columns of a table, then those that say what happened."""
    return StructType([*schema.fields, *CHANGE_TYPES.fields])


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
    check_schema(table, StructType(of_table))
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


def read_events(
    partition: ChangesPartition, schema: StructType, *, keep: Kept = lambda rows: rows
) -> Iterator[pa.RecordBatch]:
    """The events of a task as Spark expects them; ``keep`` leaves some out."""
    task, zone = ChangesTask(partition.units, partition.reader), session_zone()
    events = (batch for number in range(len(partition.units)) for batch in task.read(number))
    if partition.pairs is not None:
        table = partition.pairs.finished(list(events), partition.reader.schema())
        events = iter(table.to_batches())
    for batch in map(keep, events):
        if batch.num_rows:
            yield spark_batch(batch, schema, zone=zone)


_EVERY_EVENT: Final = ChangeRange(
    0, None, (), Deduplication.NONE, computes_updates=False, includes_since=True
)


@dataclass(frozen=True)
class AppendedPartition(InputPartition):
    """The changes that a task reads, and the write ids that it passes over."""

    changes: ChangesPartition
    skipped: frozenset[int]


def appended_between(
    session: Session,
    table: Table,
    schema: StructType,
    states: tuple[Version, Version],
    *,
    skipped: frozenset[int] | None,
) -> Sequence[InputPartition]:
    """The tasks of the rows that the write ids between two states appended, without those of the
    write ids ``skipped``. None: no change is skipped; else partitions that went are passed over,
    with their rows, and those that came are read as they are.

    Raises:
        SnapshotExpiredError: files that tell them are cleaned.
    """
    own = session.client.own
    # with what happened to partitions since; all up to a write id is no place in the commits
    low, high = (
        replace(own.version(table.name, write_id=one.write_id), valid=one.valid, sequence=None)
        for one in states
    )
    if skipped is not None:
        low, high = (replace(one, dropped=(), came=()) for one in (low, high))
    context = session.reading_context()
    scan = open_changes(context, table, _EVERY_EVENT, schema.names, between=(low, high))
    return [AppendedPartition(one, skipped or frozenset()) for one in partitions_of(scan)]


def table_then(session: Session, table: Table, state: Version) -> Snapshot:
    """What a table was at a state.

    Raises:
        SnapshotExpiredError: files of it are cleaned.
    """
    client = session.client
    version = client.own.version(table.name, write_id=state.write_id)
    version = replace(version, valid=state.valid)
    with client.transactions.begin(read_only=True) as txn:
        return past_snapshot(
            client.metastore,
            table,
            version,
            partitions_then(table, version, txn.partitions(table)),
            files=client.files,
            valid_txns=txn.valid_txns,
            hive_cleans=txn.hive_cleans,
            is_whole=False,  # its files are not counted: it is no version of the order of commits
        )


def read_appended(partition: AppendedPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a task as Spark expects them."""
    skipped = pa.array(sorted(partition.skipped), pa.int64())

    def appended(events: pa.RecordBatch) -> pa.RecordBatch:
        is_insert = pc.equal(events.column("_change_type"), "insert")
        is_skipped = pc.is_in(events.column("_commit_version"), skipped)
        return events.filter(pc.and_not(is_insert, is_skipped))

    return read_events(partition.changes, schema, keep=appended)

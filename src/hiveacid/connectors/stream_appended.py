"""Rows that were appended and are replaced, or deleted, since: what a stream reads where somebody
changed rows after the place that it has read to.

A snapshot of today may lack such rows. So they come from the changes between the two offsets, which
are told by the files of then as long as these are kept: of these events the inserts are taken,
without those of the write ids that are passed over. The first batch, the table as it is, is read as
of where it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from hiveacid.connectors.batch_read import ChangesPartition, partitions_of
from hiveacid.connectors.wall_clock import session_zone, spark_batch
from hiveacid.layout.directories import Snapshot
from hiveacid.model.history import ChangeRange, Deduplication, Version
from hiveacid.model.tables import Table
from hiveacid.spark.changes import ChangesTask
from hiveacid.statements.open_changes import open_changes
from hiveacid.txn.past import partitions_then, past_snapshot

if TYPE_CHECKING:
    from hiveacid.session import Session

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
    changes, zone = partition.changes, session_zone()
    task = ChangesTask(changes.units, changes.reader)
    skipped = pa.array(sorted(partition.skipped), pa.int64())
    for number in range(len(changes.units)):
        for batch in task.read(number):
            is_insert = pc.equal(batch.column("_change_type"), "insert")
            is_skipped = pc.is_in(batch.column("_commit_version"), skipped)
            rows = batch.filter(pc.and_not(is_insert, is_skipped))
            if rows.num_rows:
                yield spark_batch(rows, schema, zone=zone)

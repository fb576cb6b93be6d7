"""The one loop: begin, lock, snapshot, plan, write, publish, commit; again where another
transaction won.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from hiveacid.errors import (
    AcidError,
    CommitOutcomeUnknownError,
    ConflictError,
    FormatError,
)
from hiveacid.layout.names import partition_name
from hiveacid.layout.target import WriteResult
from hiveacid.model.bucket import RowId
from hiveacid.model.ids import StatementId, WriteId
from hiveacid.model.statistics import initial_statistics
from hiveacid.model.tables import Partition, Table, TableName
from hiveacid.statements import arrow_changes, checks, insert, load, truncate
from hiveacid.statements.arrow_changes import ArrowDelete, ArrowMerge
from hiveacid.statements.ddl_context import owns_files
from hiveacid.statements.job import ExecutionContext, Job, Work, is_transactional
from hiveacid.statements.kept_statistics import changes_of
from hiveacid.statements.placement import Placement, known_partitions, under_known_names
from hiveacid.statements.results import Result
from hiveacid.statements.values import Delete, Insert, Inserts, Merge, Query, Update
from hiveacid.statements.values_ddl import Truncate
from hiveacid.statements.values_load import Load
from hiveacid.storage.filesystem import file_system_for
from hiveacid.storage.overlap import overlapping_rows
from hiveacid.storage.verify import check_tails
from hiveacid.txn.footprint import Footprint, TableRead, TableWrite
from hiveacid.txn.overlaps import Overlap
from hiveacid.txn.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger(__name__)
_Change: TypeAlias = "Insert | Update | Delete | Merge | Truncate | Load | ArrowDelete | ArrowMerge"

__all__ = ["ExecutionContext", "execute"]


def execute(
    context: ExecutionContext,
    statement: Query | Inserts | _Change,
) -> DataFrame | Result | tuple[Result, ...]:
    """Carry out a query (a lazy DataFrame over one snapshot) or a DML statement (its result).

    The branches of a multi-insert are one transaction and give a tuple of results.

    Raises:
        AcidError: as the statement's kind says; the tables are as they were.
    """
    if isinstance(statement, Query):
        from hiveacid.statements import select

        return select.open_query(context, statement)
    if isinstance(statement, Inserts):
        return _run(context, [_plan(context, one) for one in statement.branches])
    return _run(context, [_plan(context, statement)])[0]


def _plan(context: ExecutionContext, statement: _Change) -> Work:
    if isinstance(statement, Truncate):
        return truncate.plan(context, statement)
    if isinstance(statement, Load):
        return load.plan(context, statement)
    if isinstance(statement, ArrowDelete | ArrowMerge):
        return arrow_changes.plan(context.table(statement.table), statement)
    table = context.table(statement.table)
    checks.check(statement, table)
    if isinstance(statement, Insert):
        return insert.plan(context, statement)
    from hiveacid.statements import delete, merge, update  # they need pyspark

    if isinstance(statement, Update):
        return update.plan(context, statement)
    if isinstance(statement, Delete):
        return delete.plan(context, statement)
    return merge.plan(context, statement)


def _run(context: ExecutionContext, works: Sequence[Work]) -> tuple[Result, ...]:
    retries = context.settings.conflict_retries
    pause_s = context.settings.conflict_backoff_s
    while True:
        try:
            return _attempt(context, works)
        except ConflictError as error:  # noqa: PERF203 - one try a run, not a row
            if retries == 0:
                raise
            retries -= 1
            _LOG.info("Statement runs again: %s", error, extra={"table": str(works[0].table.name)})
            context.runtime.clock.sleep_s(pause_s)
            pause_s *= 2


def _attempt(context: ExecutionContext, works: Sequence[Work]) -> tuple[Result, ...]:
    done: list[tuple[Job, WriteResult]] = []
    with context.runtime.transactions.begin() as txn:
        txn.lock(_footprint(context, works))
        try:
            done.extend(_carry_out(context, txn, work) for work in works)
            by_row = context.settings.conflict_unit == "row"
            txn.commit(overlap=_overlap(context, txn) if by_row else None)
        except CommitOutcomeUnknownError:
            raise
        except BaseException:
            for job, written in done:
                _take_back(context, job, written)
            raise
    return tuple(
        work.result(written, job.write_id) for work, (job, written) in zip(works, done, strict=True)
    )


def _overlap(context: ExecutionContext, txn: Transaction) -> Overlap:
    """Compares delete events on disk, of this transaction and of those that committed first."""

    def rows(
        table: TableName, partition: str | None, winners: Sequence[WriteId]
    ) -> Sequence[RowId]:
        fs, root = file_system_for(context.table(table).location)
        path = root if partition is None else f"{root}/{partition}"
        return overlapping_rows(fs, path, mine=txn.write_id(table), others=winners)

    return rows


def _footprint(context: ExecutionContext, works: Sequence[Work]) -> Footprint:
    targets = {work.table.name for work in works}
    read = {name for work in works for name in work.reads} - targets
    return Footprint(
        reads=tuple(TableRead(context.table(name)) for name in sorted(read)),
        writes=tuple(TableWrite(work.table, work.kind, work.partitions) for work in works),
    )


def _carry_out(context: ExecutionContext, txn: Transaction, work: Work) -> tuple[Job, WriteResult]:
    """Write and publish one statement's files, still invisible; record what was written."""
    table = work.table
    write_id = WriteId(0)
    ids: tuple[StatementId, ...] = ()
    if is_transactional(table):
        write_id = txn.write_id(table.name)
        ids = txn.take_statement_ids(table.name, work.statements)
    first = int(ids[0]) if ids else 0
    staging = f"{table.location}/_hiveacid_staging_{txn.id}_{first}"
    job = Job(context, txn, table, write_id, ids, staging)
    try:
        written = _publish(context, job, _written(job, work))
        _record(txn, work, written)
        txn.record_statistics(changes_of(work, written, catalog=context.runtime.metastore))
    except BaseException:
        _clean_up(job)
        raise
    finally:
        job.drop_views()
    return job, written


def _written(job: Job, work: Work) -> WriteResult:
    """What the plan writes; a file that Spark could not read and did not name is looked for."""
    try:
        return work.write(job)
    except FormatError as error:
        if "path" not in error.context:
            for snapshot in job.snapshots:
                check_tails(snapshot)
        raise


def _publish(context: ExecutionContext, job: Job, written: WriteResult) -> WriteResult:
    table = job.table
    known = known_partitions(table, written, catalog=context.runtime.metastore)
    written = under_known_names(written, table, [part.values for part in known])
    touched = {file.partition for file in written.files}
    placement = Placement.of(table, touched, known=known)
    if not is_transactional(table):
        written = placement.with_free_names(written)
    placement.publish(written, staging=job.staging)
    if table.partition_columns:
        statistics = initial_statistics(()) if owns_files(table) else {}
        partitions = [
            Partition(values, placement.location(values), statistics) for values in touched
        ]
        if partitions:
            context.runtime.metastore.add_partitions(table.name, partitions)
    return written


def _record(txn: Transaction, work: Work, written: WriteResult) -> None:
    table: Table = work.table
    if not is_transactional(table):
        return
    keys = [c.name for c in table.partition_columns]
    names: list[str | None] = [None] if written.files and not keys else []
    if keys:
        names.extend(sorted({partition_name(keys, file.partition) for file in written.files}))
    for operation in work.operations:
        txn.record_write(table, names, operation)


def _clean_up(job: Job) -> None:
    """Remove what a failed attempt staged; the cleaner finds what cannot be removed now."""
    try:
        fs, staging = file_system_for(job.staging)
        fs.delete_directory(staging)
    except AcidError as error:
        _LOG.warning("Staging directory stays: %s", error, extra={"path": job.staging})


def _take_back(context: ExecutionContext, job: Job, written: WriteResult) -> None:
    """Remove what an attempt that failed published; nobody can have seen it."""
    try:
        touched = {file.partition for file in written.files}
        known = known_partitions(job.table, written, catalog=context.runtime.metastore)
        Placement.of(job.table, touched, known=known).retract(written)
    except AcidError as error:
        _LOG.warning(
            "Files of an aborted write stay: %s", error, extra={"path": job.table.location}
        )

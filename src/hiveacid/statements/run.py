"""The one loop: begin, lock, snapshot, plan, write, publish, commit; again where another
transaction won.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from hiveacid.errors import (
    AcidError,
    ConflictError,
    FormatError,
    InvalidInputError,
)
from hiveacid.layout.names import partition_name, staging_name
from hiveacid.layout.target import WriteResult
from hiveacid.model.bucket import RowId
from hiveacid.model.ids import StatementId, WriteId
from hiveacid.model.statistics import initial_statistics
from hiveacid.model.tables import Partition, Table, TableName
from hiveacid.statements import arrow_changes, checks, insert, load, own_base, truncate
from hiveacid.statements.arrow_changes import ArrowDelete, ArrowMerge
from hiveacid.statements.ddl_context import owns_files
from hiveacid.statements.job import ExecutionContext, Job, Work, is_transactional
from hiveacid.statements.kept_statistics import changes_of
from hiveacid.statements.placement import Placement, under_known_names
from hiveacid.statements.results import Result
from hiveacid.statements.values import Delete, Insert, Inserts, Merge, Query, Update
from hiveacid.statements.values_ddl import Truncate
from hiveacid.statements.values_load import Load
from hiveacid.storage.filesystem import file_system_for
from hiveacid.storage.merge.overlap import overlapping_rows
from hiveacid.storage.orc.verify import check_tails
from hiveacid.txn.footprint import Footprint, TableRead, TableWrite
from hiveacid.txn.overlaps import Overlap
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.unit import UnitOfWork

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOG = logging.getLogger(__name__)
_Change: TypeAlias = "Insert | Update | Delete | Merge | Truncate | Load | ArrowDelete | ArrowMerge"

__all__ = ["ExecutionContext", "commit", "execute"]


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
    works = _plans(context, statement)
    if context.unit is None:
        results = _run(context, works)
    else:
        _refuse_what_stays(works)
        results = _statement(context, context.unit, works)
    return results if isinstance(statement, Inserts) else results[0]


def commit(context: ExecutionContext, unit: UnitOfWork) -> None:
    """Commit a transaction; rows that others changed meanwhile are compared where settings say so.

    Raises:
        ConflictError, TransactionError, CommitOutcomeUnknownError, MetastoreError: as
        ``Transaction.commit``.
    """
    by_row = context.settings.conflict_unit == "row"
    unit.commit(overlap=_overlap(context, unit.txn) if by_row else None)


def footprint_of(context: ExecutionContext, statement: Inserts | _Change) -> Footprint:
    """What the statement reads and writes, as its locks tell.

    Raises:
        AcidError: the statement would be refused before it takes its locks.
    """
    return _footprint(context, _plans(context, statement))


def _plans(context: ExecutionContext, statement: Inserts | _Change) -> list[Work]:
    branches = statement.branches if isinstance(statement, Inserts) else (statement,)
    return [_plan(context, one) for one in branches]


def _refuse_what_stays(works: Sequence[Work]) -> None:
    """Writes to tables without transactions are seen at once, and stay."""
    for work in works:
        if not is_transactional(work.table):
            raise InvalidInputError(
                f"{work.table.name} is not transactional: what is written to it could not be "
                "rolled back with the transaction",
                table=str(work.table.name),
                note="COMMIT or ROLLBACK first.",
            )


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
    pause_s = context.settings.conflict_backoff_s
    retries = 0
    while True:
        try:
            results = _attempt(context, works)
            return tuple(replace(one, retries=retries) for one in results)
        except ConflictError as error:  # noqa: PERF203 - one try a run, not a row
            error.context["retries"] = retries
            if retries >= context.settings.conflict_retries:
                raise
            retries += 1
            table = str(works[0].table.name)
            _LOG.info("Statement runs again: %s", error, extra={"table": table, "retry": retries})
            context.client.clock.sleep_s(pause_s)
            pause_s *= 2


def _attempt(context: ExecutionContext, works: Sequence[Work]) -> tuple[Result, ...]:
    begin = partial(context.client.transactions.begin, isolation=context.isolation)
    with UnitOfWork(begin) as unit:
        results = _statement(context, unit, works)
        commit(context, unit)
    return results


def _statement(
    context: ExecutionContext, unit: UnitOfWork, works: Sequence[Work]
) -> tuple[Result, ...]:
    """One statement of a transaction: locks, staged files, published when all have been read."""
    txn = unit.txn
    with unit.statement():
        txn.lock(_footprint(context, works))
        staged = [_stage(context, unit, work) for work in works]
        for work, (job, written) in zip(works, staged, strict=True):
            _publish(unit, job, work, written)
    return tuple(
        work.result(written, job.write_id)
        for work, (job, written) in zip(works, staged, strict=True)
    )


def _overlap(context: ExecutionContext, txn: Transaction) -> Overlap:
    """Compares delete events on disk, of this transaction and of those that committed first."""

    def rows(
        table: TableName, partition: str | None, winners: Sequence[WriteId]
    ) -> Sequence[RowId] | None:
        fs, path = file_system_for(_location(context.table(table), partition, txn))
        return overlapping_rows(fs, path, mine=txn.write_id(table), others=winners)

    return rows


def _location(table: Table, partition: str | None, txn: Transaction) -> str:
    """Where a partition is, which need not be below its table."""
    if partition is None:
        return table.location
    keys = [column.name for column in table.partition_columns]
    return next(
        (
            one.location
            for one in txn.partitions(table)
            if partition_name(keys, one.values) == partition
        ),
        f"{table.location}/{partition}",
    )


def _footprint(context: ExecutionContext, works: Sequence[Work]) -> Footprint:
    targets = {work.table.name for work in works}
    read = {name for work in works for name in work.reads} - targets
    return Footprint(
        reads=tuple(TableRead(context.table(name)) for name in sorted(read)),
        writes=tuple(TableWrite(work.table, work.kind, work.partitions) for work in works),
    )


def _stage(context: ExecutionContext, unit: UnitOfWork, work: Work) -> tuple[Job, WriteResult]:
    """Write one statement's files, hidden."""
    txn, table = unit.txn, work.table
    write_id = WriteId(0)
    ids: tuple[StatementId, ...] = ()
    if is_transactional(table):
        write_id = txn.write_id(table.name)
        ids = txn.take_statement_ids(table.name, work.statements)
    first = int(ids[0]) if ids else 0
    staging = f"{table.location}/{staging_name(txn.id, str(first))}"
    job = Job(context, txn, table, write_id, ids, staging)
    unit.on_undo(partial(_clean_up, job))
    try:
        return job, _written(job, work)
    finally:
        job.drop_views()


def _written(job: Job, work: Work) -> WriteResult:
    """What the plan writes; a file that Spark could not read and did not name is looked for."""
    try:
        return work.write(job)
    except FormatError as error:
        if "path" not in error.context:
            for snapshot in job.snapshots:
                check_tails(snapshot)
        raise


def _publish(unit: UnitOfWork, job: Job, work: Work, written: WriteResult) -> None:
    """Move the files to their places, still invisible; record what was written."""
    table, txn = job.table, job.txn
    known = txn.partitions(table) if table.partition_columns and written.files else ()
    written = under_known_names(written, table, [part.values for part in known])
    touched = {file.partition for file in written.files}
    placement = Placement.of(table, touched, known=known)
    if not is_transactional(table):
        written = placement.with_free_names(written)
    remade = own_base.publish(job, unit, placement, written)
    if table.partition_columns:
        statistics = initial_statistics(()) if owns_files(table) else {}
        txn.pending.add_partitions(
            table.name,
            [
                Partition(values, placement.location(values), statistics)
                for values in touched - {part.values for part in known}
            ],
        )
    _record(txn, work, written)
    exact = {one.partition: one for one in remade}
    changes = changes_of(work, written, partitions=txn.partitions)
    txn.record_statistics(exact.get(one.partition, one) for one in changes)
    for action in job.after_commit:
        unit.on_commit(action)


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

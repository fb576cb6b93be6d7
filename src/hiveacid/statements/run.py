"""The one loop of a statement that writes rows: look, lock, look again under the locks, plan,
stage, publish, commit; from the first look again where another transaction won.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hiveacid.errors import (
    AcidError,
    ConflictError,
    FormatError,
    InvalidInputError,
    StorageError,
)
from hiveacid.layout.directories import partition_name, staging_name
from hiveacid.model.commits import StatisticsChange, initial_statistics
from hiveacid.model.history import CommitFacts
from hiveacid.model.ids import RowId
from hiveacid.model.tables import Column, Partition, StatementId, Table, TableName, WriteId
from hiveacid.statements.context import (
    Bound,
    ExecutionContext,
    Locked,
    Needs,
    check_given_out,
    kind_of,
    locked,
)
from hiveacid.statements.insert import InsertWork, TruncateWork
from hiveacid.statements.job import Job, Reader, Work
from hiveacid.statements.locations import owns_files
from hiveacid.statements.placement import (
    Placement,
    are_all_in_place,
    publish_written,
    under_known_names,
)
from hiveacid.statements.select import answered
from hiveacid.statements.values import Result
from hiveacid.storage.filesystem import Files
from hiveacid.storage.merge.overlap import overlapping_rows
from hiveacid.storage.orc.tails import check_tails
from hiveacid.storage.target import FileKind, WriteResult, end_uploads
from hiveacid.txn.conflicts import Overlap
from hiveacid.txn.footprint import Footprint, TableRead, TableWrite, WriteKind, alter_table
from hiveacid.txn.manager import require_locks
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.unit import UnitOfWork
from hiveacid.txn.view import Look, View

_LOG = logging.getLogger(__name__)
_STATEMENTS = logging.getLogger("hiveacid.statements")

Planner = Callable[[ExecutionContext, Any, Look], Sequence[Work]]
"""How a statement is carried out given the definitions of a look or of a view: a work for each
branch of a multi-insert, else one.
"""


def needs_of(plan: Planner) -> Needs:
    """What the works of a plan read and write, as its locks tell."""

    def needs(context: ExecutionContext, statement: Any, look: Look) -> Footprint:
        return _footprint(plan(context, statement, look), look)

    return needs


def change(
    context: ExecutionContext, bound: Bound, plan: Planner, needs: Needs
) -> tuple[Result, ...]:
    """Carry out a statement that writes rows; a result for each work of its plan.

    Raises:
        AcidError: as the statement's kind says; the tables are as they were.
    """
    if context.unit is None:
        return _again_where_another_won(context, bound, plan, needs)
    with context.unit.statement():
        held = locked(context, bound, needs, within=context.unit.txn)
        works = _works(context, bound, held, plan)
        _refuse_what_stays(works)
        return _written_and_published(context, context.unit, works, held.view)


def _again_where_another_won(
    context: ExecutionContext, bound: Bound, plan: Planner, needs: Needs
) -> tuple[Result, ...]:
    pause_s = context.settings.conflict_backoff_s
    retries = 0
    while True:
        try:
            results = _once(context, bound, plan, needs)
            return tuple(replace(one, retries=retries) for one in results)
        except ConflictError as error:  # noqa: PERF203 - one try a run, not a row
            error.context["retries"] = retries
            if retries >= context.settings.conflict_retries:
                raise
            retries += 1
            _LOG.info("Statement runs again: %s", error, extra={"retry": retries})
            context.client.clock.sleep_s(pause_s)
            pause_s *= 2
            bound = bound.again(context.look())


def _once(
    context: ExecutionContext, bound: Bound, plan: Planner, needs: Needs
) -> tuple[Result, ...]:
    held = locked(context, bound, needs)
    with UnitOfWork.of(held.txn) as unit:
        with unit.statement():
            works = _works(context, bound, held, plan)
            results = _written_and_published(context, unit, works, held.view)
        commit(context, unit)
    return results


def _works(context: ExecutionContext, bound: Bound, held: Locked, plan: Planner) -> Sequence[Work]:
    """The works of a statement that has its locks."""
    reader = Reader(context=context, txn=held.txn, view=held.view)
    return plan(context, answered(reader, replace(bound, value=held.value)), held.view)


def commit(context: ExecutionContext, unit: UnitOfWork) -> None:
    """Commit a transaction; rows that others changed since are compared where settings say so.

    Raises:
        ConflictError, TransactionError, CommitOutcomeUnknownError, MetastoreError: as
        ``Transaction.commit``.
    """
    by_row = context.settings.conflict_unit == "row"
    unit.commit(overlap=_overlap(context, unit.txn) if by_row else None)


def _refuse_what_stays(works: Sequence[Work]) -> None:
    """Refuse, inside a transaction, to write to tables without transactions: that could not be
    rolled back.
    """
    for work in works:
        if not work.table.is_transactional:
            raise InvalidInputError(
                f"{work.table.name} is not transactional: what is written to it could not be "
                "rolled back with the transaction",
                table=str(work.table.name),
                note="COMMIT or ROLLBACK first.",
            )


def _written_and_published(
    context: ExecutionContext, unit: UnitOfWork, works: Sequence[Work], view: View
) -> tuple[Result, ...]:
    """Stage the files of all works of a statement, then publish them: no work reads what another
    one has written. A result for each work, in order.
    """
    unit.txn.pending.note_statement(context.text)
    clock = context.client.clock
    began_s = clock.monotonic_s()
    staged: list[tuple[Job, WriteResult]] = []
    branch = 0  # of a multi-insert: each is a statement of its own, whatever its table
    for number, work in enumerate(works):
        staged.append(_stage(context, unit, work, view, number, branch=branch))
        if isinstance(work, InsertWork):
            branch += len(staged[-1][0].statement_ids) + len(work.statement.also)
    for work, (job, written) in zip(works, staged, strict=True):
        unit.txn.pending.add_columns(work.table.name, _added(work, view))
        _publish(unit, job, work, written)
        _log_written(work, job, written, seconds=clock.monotonic_s() - began_s)
        if work.table.is_transactional:
            unit.txn.pending.facts.append(_facts(work, job, written))
    return tuple(
        work.result(written, job.write_id)
        for work, (job, written) in zip(works, staged, strict=True)
    )


def _facts(work: Work, job: Job, written: WriteResult) -> CommitFacts:
    counted = work.COUNTS_ROWS
    inserted, updated, deleted = (
        written.rows_inserted,
        written.rows_updated,
        written.rows_deleted,
    )
    replaces = isinstance(work, InsertWork | TruncateWork) and work.kind is WriteKind.OVERWRITE
    return CommitFacts(
        work.table.name,
        job.write_id,
        kind_of(work),
        inserted if counted else None,
        updated if counted else None,
        deleted if counted and not replaces else None,  # nobody looks at what it replaces
        len(written.files),
        sum(file.size_bytes for file in written.files),
    )


def _log_written(work: Work, job: Job, written: WriteResult, *, seconds: float) -> None:
    """One line for each table that a statement has written to; the commit comes after it."""
    facts = {
        "statement": kind_of(work),
        "table": str(work.table.name),
        "rows": written.rows_inserted + written.rows_updated + written.rows_deleted,
        "files": len(written.files),
        "bytes": sum(file.size_bytes for file in written.files),
        "seconds": round(seconds, 3),
        "write_id": int(job.write_id),
    }
    text = "%(statement)s %(table)s: %(rows)d rows, %(files)d files, %(bytes)d bytes, "
    _STATEMENTS.info(text + "%(seconds).3f s, write id %(write_id)d", facts, extra=facts)


def _overlap(context: ExecutionContext, txn: Transaction) -> Overlap:
    """Compares delete events on disk, of this transaction and of those that committed first."""

    def rows(
        table: TableName, partition: str | None, winners: Sequence[WriteId]
    ) -> Sequence[RowId] | None:
        definition = context.client.metastore.get_table(table)
        fs, path = context.files.at(_location(definition, partition, txn))
        return overlapping_rows(fs, path, mine=txn.write_id(table), others=winners)

    return rows


def _location(table: Table, partition: str | None, txn: Transaction) -> str:
    """The location of the partition of this name, which need not be below its table's; that of the
    table where ``partition`` is None.
    """
    if partition is None:
        return table.location
    return next(
        (
            one.location
            for one in txn.partitions(table)
            if partition_name(table.partition_keys, one.values) == partition
        ),
        f"{table.location}/{partition}",
    )


def _footprint(works: Sequence[Work], look: Look) -> Footprint:
    targets = {work.table.name for work in works}
    read = {name for work in works for name in work.reads} - targets
    return Footprint(
        reads=tuple(TableRead(look.definition(name)) for name in sorted(read)),
        writes=tuple(TableWrite(work.table, work.kind, work.partitions) for work in works),
        definitions=tuple(
            lock for work in works if _added(work, look) for lock in alter_table(work.table.name)
        ),
    )


def _added(work: Work, look: Look) -> Sequence[Column]:
    """The columns that a statement gives to its table: its target has more than the definition."""
    return work.table.columns[len(look.definition(work.table.name).columns) :]


def _stage(
    context: ExecutionContext, unit: UnitOfWork, work: Work, view: View, number: int, *, branch: int
) -> tuple[Job, WriteResult]:
    """Write one work's files, hidden; ``number`` is its place among those of the statement,
    ``branch`` its first statement's id, where the transaction gives it to the table.
    """
    txn, table = unit.txn, work.table
    write_id = WriteId(0)
    ids: tuple[StatementId, ...] = ()
    if table.is_transactional:
        write_id = txn.write_id(table.name)
        check_given_out(txn, table)
        ids = txn.take_statement_ids(table.name, work.statement_id_count, least=branch)
    staging = f"{table.location}/{staging_name(txn.id, str(ids[0] if ids else number))}"
    job = Job(
        context=context,
        unit=unit,
        txn=txn,
        view=view,
        table=table,
        write_id=write_id,
        statement_ids=ids,
        staging=staging,
        in_place=[] if _is_alone(table, ids, context.files, view) else None,
    )
    unit.on_undo(partial(_clean_up, job))
    try:
        return job, _written(job, work)
    except StorageError:
        job.is_in_doubt = bool(job.in_place)
        raise
    finally:
        job.drop_temporary_views()


def _is_alone(table: Table, ids: Sequence[StatementId], files: Files, view: View) -> bool:
    """Whether what a statement writes can be nowhere but in directories of its own, in an object
    store: nothing is renamed there. A later statement may write to the base of the first.
    """
    fs, _ = files.at(table.location)
    if not fs.is_object_store or not ids or ids[0] != 0:
        return False
    return are_all_in_place(table, view.partitions(table) if table.partition_columns else ())


def _refuse_if_immutable(job: Job, work: Work) -> None:
    """A table with ``'immutable'='true'``, or a static partition of it, that has files takes no
    further rows, only an overwrite, or a LOAD of files.

    Raises:
        InvalidInputError: 10256.
    """
    table = work.table
    is_idle = isinstance(work, InsertWork) and work.is_there
    adds = work.COUNTS_ROWS and work.kind is not WriteKind.OVERWRITE  # a LOAD of files is allowed
    if table.properties.get("immutable", "").lower() != "true" or is_idle or not adds:
        return
    every = job.view.partitions(table) if table.partition_columns else None
    chosen = every
    if every is not None and work.partitions is not None:
        names = work.partitions
        chosen = tuple(p for p in every if partition_name(table.partition_keys, p.values) in names)
    snapshot = job.txn.snapshot(table, partitions=chosen, of=every)
    if any(part.directory.row_files for part in snapshot.parts):
        raise InvalidInputError(
            f"Inserting into a non-empty immutable table is not allowed {table.name.table}",
            code=10256,
            table=str(table.name),
            note="INSERT OVERWRITE, or ALTER TABLE ... SET TBLPROPERTIES ('immutable'='false').",
        )


def _written(job: Job, work: Work) -> WriteResult:
    """Let a work write its hidden files. Where Spark could not read a file and its error does not
    say which, the tails of all files that were read are checked, and that error names it.
    """
    _refuse_if_immutable(job, work)
    try:
        return work.write(job)
    except FormatError as error:
        if "path" not in error.context:
            for plan in job.plans:
                check_tails(plan.snapshot, files=job.files)
        raise


def _publish(unit: UnitOfWork, job: Job, work: Work, written: WriteResult) -> None:
    """Move the files to their places, still invisible; record what was written."""
    table, txn, view = job.table, job.txn, job.view
    replaces = not table.is_transactional and work.kind is WriteKind.OVERWRITE
    is_known = table.partition_columns and (replaces or written.files)
    partitions = view.partitions(table) if is_known else ()
    written = under_known_names(written, table, [part.values for part in partitions])
    touched = {file.partition for file in written.files}
    replaced = touched.union(_named(work, view.partitions)) if replaces else set()
    placement = Placement.of(table, touched | replaced, known=partitions, files=job.files)
    statistics = initial_statistics(()) if owns_files(table) else {}
    made = [
        Partition(values, placement.location(values), statistics)
        for values in touched - {part.values for part in partitions}
        if table.partition_columns
    ]
    require_locks(txn)
    rewritten = publish_written(job, unit, placement, written, replaced=replaced)
    if table.partition_columns:
        txn.pending.add_partitions(table.name, made)
    _record(txn, work, written)
    exact = {one.partition: one for one in rewritten}
    changes = _statistics(work, written, partitions=view.partitions)
    txn.record_statistics(exact.get(one.partition, one) for one in changes)
    for action in job.after_commit:
        unit.on_commit(action)


def _record(txn: Transaction, work: Work, written: WriteResult) -> None:
    table: Table = work.table
    if not table.is_transactional:
        return
    keys = table.partition_keys
    names: list[str | None] = [None] if written.files and not keys else []
    if keys:
        names.extend(sorted({partition_name(keys, file.partition) for file in written.files}))
    for operation in work.operations:
        txn.record_write(table, names, operation)


def _clean_up(job: Job) -> None:
    """Remove what a failed attempt wrote; the cleaner finds staged files that cannot be removed
    now.

    Raises:
        StorageError: a file in its place cannot be removed, or may come there later, by a request
            that got no answer: its transaction must not commit.
    """
    fs, _ = job.files.at(job.table.location)
    for directory in sorted({path.rpartition("/")[0] for path in job.in_place or ()}):
        fs.delete_directory(directory)
    try:
        if job.in_place is not None:
            end_uploads(fs, fs.path_of(job.table.location), job.write_id)
        fs, staging = job.files.at(job.staging)
        fs.delete_directory(staging)
    except AcidError as error:
        _LOG.warning("Staged files stay: %s", error, extra={"path": job.staging})
    if job.is_in_doubt:
        path = job.table.location
        raise StorageError(f"files of the statement may still come to {path}", path=path)


# -------------------------------------------------------------------- statistics


def _statistics(
    work: Work, written: WriteResult, *, partitions: Callable[[Table], Sequence[Partition]]
) -> list[StatisticsChange]:
    """What the files make of the statistics: a change for each partition written to or emptied,
    without a number of rows where the statement does not know how many each of its files has.
    """
    counted = work.COUNTS_ROWS
    table = work.table
    changes = []
    for values in dict.fromkeys(
        [*(file.partition for file in written.files), *_named(work, partitions)]
    ):
        files = [file for file in written.files if file.partition == values]
        deleted = sum(file.rows for file in files if file.kind is FileKind.DELETE)
        inserted = sum(file.rows for file in files if file.kind is not FileKind.DELETE)
        # an overwrite without rows leaves a file
        counting = [file for file in files if file.rows or not counted]
        changes.append(
            StatisticsChange(
                table.name,
                partition_name(table.partition_keys, values) if table.partition_keys else None,
                rows=inserted - deleted if counted else None,
                files=len(counting),
                size_bytes=sum(file.size_bytes for file in counting),
                replaces=work.kind is WriteKind.OVERWRITE,
            )
        )
    return changes


def _named(
    work: Work, partitions: Callable[[Table], Sequence[Partition]]
) -> list[tuple[str | None, ...]]:
    """The partitions that the statement names, whether or not it wrote a file there."""
    keys = work.table.partition_keys
    if not keys:
        return [()]
    if isinstance(work, TruncateWork):
        chosen = partitions(work.table) if work.chosen is None else work.chosen
        return [part.values for part in chosen]
    if isinstance(work, InsertWork) and all(key in work.static for key in keys):
        return [tuple(work.static[key] for key in keys)]
    return []

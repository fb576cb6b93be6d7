"""DELETE: one delete event for each row that meets the condition; without one see ``truncate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hiveacid.model.ids import WriteId
from hiveacid.model.tables import Table, TableName
from hiveacid.model.transactions import OperationType
from hiveacid.spark.text import quoted
from hiveacid.spark.write import ACTION, write_events
from hiveacid.statements.checks import check
from hiveacid.statements.event_columns import (
    column,
    count_places,
    identity_columns,
    resolved,
    select_as,
)
from hiveacid.statements.job import Job
from hiveacid.statements.locked import locked_partitions
from hiveacid.statements.select import read_names
from hiveacid.statements.values import Delete, DeleteResult
from hiveacid.storage.stage import DELETE
from hiveacid.storage.target import WriteResult
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.view import Look


def plan(statement: Delete, look: Look) -> DeleteWork:
    """How to carry the statement out."""
    table = look.definition(statement.table)
    check(statement, table)
    partitions = locked_partitions(look, table, [statement.predicate])
    return DeleteWork(table, statement, partitions=partitions)


@dataclass(frozen=True, slots=True)
class DeleteWork:
    """One DELETE with a condition."""

    COUNTS_ROWS: ClassVar[bool] = True
    table: Table
    statement: Delete
    kind: WriteKind = WriteKind.DELETE
    partitions: tuple[str, ...] | None = None
    statements: int = 1
    operations: tuple[OperationType, ...] = (OperationType.DELETE,)

    @property
    def reads(self) -> Sequence[TableName]:
        """Tables in subqueries."""
        return read_names(self.statement.tables, but=self.table.name)

    def write(self, job: Job) -> WriteResult:
        """One scan, of the columns that the condition names; one shuffle of identities; one
        action.
        """
        table = self.table
        assert self.statement.where is not None
        views = job.views(self.statement.tables)
        alias = self.statement.alias or table.name.table
        keys = {column.name for column in table.partition_columns}
        wanted = None if self.statement.columns is None else self.statement.columns | keys
        plan = job.plan(table, predicate=self.statement.predicate, columns=wanted)
        rows, local = job.scan_target(plan)
        rows = rows.alias(alias)
        condition = column(resolved(self.statement.where, views)).cast("boolean")
        events = select_as(
            rows.where(condition),
            [
                (f"cast({DELETE} as tinyint)", ACTION),
                *identity_columns(alias),
                *[(quoted(alias, c.name), c.name) for c in table.partition_columns],
            ],
        )
        (deletes,) = job.statement_ids
        target = job.target(delete_statement=deletes)
        places = count_places(plan)
        return write_events(
            job.context.session(), events, target=target, places=places, local=local
        )

    def result(self, written: WriteResult, write_id: WriteId) -> DeleteResult:
        """Rows deleted."""
        return DeleteResult(written.rows_deleted, write_id)

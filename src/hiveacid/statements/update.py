"""UPDATE: each row that meets the condition is deleted under its identity and inserted anew (split
update).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hiveacid.model.ids import WriteId
from hiveacid.model.tables import Table, TableName
from hiveacid.model.transactions import OperationType
from hiveacid.spark.assign import assign, constrained
from hiveacid.spark.conf import is_ansi
from hiveacid.spark.text import quoted
from hiveacid.spark.write import ACTION, write_events
from hiveacid.statements.checks import check
from hiveacid.statements.constraints import checks, column_default, not_null_columns
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
from hiveacid.statements.values import Update, UpdateResult
from hiveacid.storage.stage import UPDATE
from hiveacid.storage.target import WriteResult
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from hiveacid.statements.values import Expression


def plan(statement: Update, look: Look) -> UpdateWork:
    """How to carry the statement out."""
    table = look.definition(statement.table)
    check(statement, table)
    partitions = locked_partitions(look, table, [statement.predicate])
    return UpdateWork(table, statement, partitions=partitions)


@dataclass(frozen=True, slots=True)
class UpdateWork:
    """One UPDATE; its statement ids are those of Hive 4.1: deletes first, then new rows."""

    COUNTS_ROWS: ClassVar[bool] = True
    table: Table
    statement: Update
    kind: WriteKind = WriteKind.UPDATE
    partitions: tuple[str, ...] | None = None
    statements: int = 2
    operations: tuple[OperationType, ...] = (OperationType.DELETE, OperationType.INSERT)

    @property
    def reads(self) -> Sequence[TableName]:
        """Tables in subqueries."""
        return read_names(self.statement.tables, but=self.table.name)

    def write(self, job: Job) -> WriteResult:
        """One scan, one shuffle, one action."""
        statement, table = self.statement, self.table
        views = job.views(statement.tables)
        alias = statement.alias or table.name.table
        plan = job.plan(table, predicate=statement.predicate)
        rows, local = job.scan_target(plan)
        rows = rows.alias(alias)
        if statement.where is not None:
            rows = rows.where(column(resolved(statement.where, views)).cast("boolean"))
        given = {name.lower(): value for name, value in statement.assignments}
        frame = select_as(
            rows,
            [
                *[
                    (resolved(assigned(given[c.name], table, c.name), views), c.name)
                    if c.name in given
                    else (quoted(alias, c.name), c.name)
                    for c in table.columns
                ],
                (f"cast({UPDATE} as tinyint)", ACTION),
                *identity_columns(alias),
                *[(quoted(alias, c.name), c.name) for c in table.partition_columns],
            ],
        )
        spark = job.context.session()
        events = assign(
            frame,
            table.columns,
            ansi=job.context.settings.assigns_ansi(handed_in=False),
            ansi_session=is_ansi(spark),
        )
        events = constrained(
            events,
            not_null=[c.name for c in table.columns if c.name in not_null_columns(table)],
            checks=checks(table),
        )
        deletes, inserts = job.statement_ids
        target = job.target(update_delete_statement=deletes, update_insert_statement=inserts)
        places = count_places(plan)
        return write_events(spark, events, target=target, places=places, local=local)

    def result(self, written: WriteResult, write_id: WriteId) -> UpdateResult:
        """Rows changed."""
        return UpdateResult(written.rows_updated, write_id)


def assigned(value: Expression, table: Table, column: str) -> Expression:
    """The value, or the column's default for the keyword DEFAULT (NULL where it has none)."""
    if isinstance(value, str) and value.strip().lower() == "default":
        return column_default(table, column) or "null"
    return value

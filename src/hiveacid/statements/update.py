"""UPDATE and DELETE: row events of the rows that meet a condition.

Each is deleted under its identity; an UPDATE inserts it anew (split update). DELETE without a
condition is TRUNCATE, as in Hive. What makes events of a target's rows is shared with MERGE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hiveacid.model.tables import Table, TableName, WriteId
from hiveacid.spark.assign import assign, constrained
from hiveacid.spark.session import ROW_ID_COLUMN, is_ansi, quoted
from hiveacid.spark.write import ACTION, IDENTITY, write_events
from hiveacid.statements.checks import check
from hiveacid.statements.constraints import check_conditions, default_expression, not_null_columns
from hiveacid.statements.context import locked_partitions
from hiveacid.statements.few_rows import delete_here, update_here
from hiveacid.statements.job import Job, Work, with_views
from hiveacid.statements.select import read_names
from hiveacid.statements.values import Delete, DeleteResult, Expression, Update, UpdateResult
from hiveacid.storage.plan.scan_plan import ScanPlan
from hiveacid.storage.stage import DELETE, UPDATE
from hiveacid.storage.target import WriteResult
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.view import Look


def identity_columns(qualifier: str) -> list[tuple[str, str]]:
    """The identity of the target's row, taken from its ROW__ID: expressions and their names."""
    return [
        (quoted(qualifier, ROW_ID_COLUMN, part), name)
        for part, name in zip(("writeid", "bucketid", "rowid"), IDENTITY, strict=True)
    ]


def select_as(frame: DataFrame, items: Sequence[tuple[Expression, str]]) -> DataFrame:
    """A projection of expressions with their names; in one call where all of them are text."""
    if all(isinstance(given, str) for given, _ in items):
        return frame.selectExpr(*[f"(\n{given}\n) as {quoted(name)}" for given, name in items])
    return frame.select(*[column(given).alias(name) for given, name in items])


def column(given: Expression) -> Column:
    """An expression as a column."""
    return F.expr(given) if isinstance(given, str) else given


def count_places(plan: ScanPlan) -> int:
    """How many pairs of partition and bucket number the rows of a plan can have."""
    places = {
        (part.part.partition.values, file.bucket) for part in plan.parts for file in part.files
    }
    return max(1, len(places))


def plan(statement: Update | Delete, look: Look) -> UpdateWork | DeleteWork:
    """How to carry the statement out; a DELETE has a condition."""
    table = look.definition(statement.table)
    check(statement, table)
    partitions = locked_partitions(look, table, [statement.predicate])
    if isinstance(statement, Update):
        return UpdateWork(table, statement, partitions)
    return DeleteWork(table, statement, partitions)


@dataclass(frozen=True, slots=True)
class UpdateWork(Work):
    """One UPDATE; its statement ids are those of Hive 4.1: deletes first, then new rows."""

    table: Table
    statement: Update
    partitions: tuple[str, ...] | None = None
    does: frozenset[WriteKind] = frozenset({WriteKind.UPDATE})

    @property
    def reads(self) -> Sequence[TableName]:
        """Tables in subqueries."""
        return read_names(self.statement.tables, but=self.table.name)

    def write(self, job: Job) -> WriteResult:
        """One scan, one shuffle, one action; of few rows none of them."""
        statement, table = self.statement, self.table
        views = job.temporary_views(statement.tables)
        alias = statement.alias or table.name.table
        plan = job.plan(table, predicate=statement.predicate)
        target = self.changes_target(job)
        here = update_here(job, plan, statement.exact, statement.literals, target=target)
        if here is not None:
            return here
        rows, are_here = job.scan_target(plan, statement.virtual)
        rows = rows.alias(alias)
        if statement.where is not None:
            rows = rows.where(column(with_views(statement.where, views)).cast("boolean"))
        given = {name.lower(): value for name, value in statement.assignments}
        frame = select_as(
            rows,
            [
                *[
                    (with_views(value_or_default(given[c.name], table, c.name), views), c.name)
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
            checks=check_conditions(table),
        )
        places = count_places(plan)
        return write_events(spark, events, target=target, places=places, are_here=are_here)

    def result(self, written: WriteResult, write_id: WriteId) -> UpdateResult:
        """Rows changed."""
        return UpdateResult(written.rows_updated, write_id)


def value_or_default(value: Expression, table: Table, column: str) -> Expression:
    """The value, or the column's default for the keyword DEFAULT (NULL where it has none)."""
    if isinstance(value, str) and value.strip().lower() == "default":
        return default_expression(table, column)
    return value


@dataclass(frozen=True, slots=True)
class DeleteWork(Work):
    """One DELETE with a condition."""

    table: Table
    statement: Delete
    partitions: tuple[str, ...] | None = None
    does: frozenset[WriteKind] = frozenset({WriteKind.DELETE})

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
        views = job.temporary_views(self.statement.tables)
        alias = self.statement.alias or table.name.table
        wanted = (
            None
            if self.statement.columns is None
            else self.statement.columns.union(table.partition_keys)
        )
        plan = job.plan(table, predicate=self.statement.predicate, columns=wanted)
        target = self.changes_target(job)
        here = delete_here(job, plan, self.statement.exact, target=target)
        if here is not None:
            return here
        rows, are_here = job.scan_target(plan, self.statement.virtual)
        rows = rows.alias(alias)
        condition = column(with_views(self.statement.where, views)).cast("boolean")
        events = select_as(
            rows.where(condition),
            [
                (f"cast({DELETE} as tinyint)", ACTION),
                *identity_columns(alias),
                *[(quoted(alias, c.name), c.name) for c in table.partition_columns],
            ],
        )
        places = count_places(plan)
        return write_events(
            job.context.session(), events, target=target, places=places, are_here=are_here
        )

    def result(self, written: WriteResult, write_id: WriteId) -> DeleteResult:
        """Rows deleted."""
        return DeleteResult(written.rows_deleted, write_id)

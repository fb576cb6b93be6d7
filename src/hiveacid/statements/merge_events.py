"""The row events of a MERGE: one join of target and source, the first clause that applies to each
pair, and the row that it makes.

    target rows --+                     clause number      values by clause
                  +-- join on condition ------> which ------> action, row --> spark.write
    source rows --+

The join keeps what a clause can need: unmatched source rows where something is inserted, unmatched
target rows for WHEN NOT MATCHED BY SOURCE. Columns of the target that no clause reads are not read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import Column, Table
from hiveacid.spark.assign import assigned_text, constrained
from hiveacid.spark.conf import is_ansi
from hiveacid.spark.driver_rows import arrow_frame
from hiveacid.spark.text import quoted
from hiveacid.spark.write import ACTION, IDENTITY
from hiveacid.statements.checks import columns_named, extra_columns
from hiveacid.statements.constraints import checks, not_null_columns
from hiveacid.statements.event_columns import column, identity_columns, resolved, select_as
from hiveacid.statements.job import Job
from hiveacid.statements.select import query_frame
from hiveacid.statements.update import assigned
from hiveacid.statements.values import (
    MatchedDelete,
    MatchedUpdate,
    Merge,
    MergeClause,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    Query,
)
from hiveacid.storage.plan.scan_plan import ScanPlan
from hiveacid.storage.stage import DELETE, INSERT, TOUCH, UPDATE

if TYPE_CHECKING:
    from pyarrow import Table as ArrowTable
    from pyspark.sql import DataFrame

    from hiveacid.statements.values import Expression

_IN_TARGET: Final = "__hiveacid_in_target"
_IN_SOURCE: Final = "__hiveacid_in_source"
_CLAUSE: Final = "__hiveacid_clause"
_TOUCHED: Final = -1
_DELETES: Final = (MatchedDelete, NotMatchedBySourceDelete)


def merge_events(job: Job, plan: ScanPlan, statement: Merge) -> DataFrame:
    """The events, as ``spark.write.write_events`` takes them.

    Raises:
        InvalidInputError: no clause at all.
        pyspark's AnalysisException: an expression is wrong.
    """
    table = plan.snapshot.table
    views = job.views(statement.tables)
    alias = statement.alias or table.name.table
    source_alias = statement.source_alias or "source"
    paired, source_columns = _paired(job, plan, statement, views, aliases=(alias, source_alias))
    # with evolve a column that the source lacks keeps its value, or gets its default
    lacking = {c.name for c in table.all_columns} - source_columns if statement.evolve else set()
    chosen = _with_clause(paired, statement.clauses, views)
    writing = {
        index: _values(clause, table, views, aliases=(alias, source_alias), lacking=lacking)
        for index, clause in enumerate(statement.clauses)
        if not isinstance(clause, _DELETES)
    }
    frame = _with_values(chosen, table, writing, alias=alias)
    events = frame.selectExpr(*_event_columns(job, table, statement, frame, list(writing)))
    if not writing:
        return events
    return constrained(
        events,
        not_null=[c.name for c in table.columns if c.name in not_null_columns(table)],
        checks=checks(table),
        rows=f"{ACTION} in ({UPDATE}, {INSERT})",
    )


def _paired(
    job: Job,
    plan: ScanPlan,
    statement: Merge,
    views: Mapping[str, str],
    *,
    aliases: tuple[str, str],
) -> tuple[DataFrame, set[str]]:
    """The join, and the names of the source's columns."""
    right = _source(job, statement.source)
    names = {name.lower() for name in right.columns}
    check_source(statement, right.columns, plan.snapshot.table)
    right = right.selectExpr("*", f"true as {_IN_SOURCE}").alias(aliases[1])
    left, _ = job.scan_target(plan)
    left = left.selectExpr("*", f"true as {_IN_TARGET}")
    left = left.alias(aliases[0])
    inserts = any(isinstance(c, NotMatchedInsert) for c in statement.clauses)
    by_source = any(
        isinstance(c, NotMatchedBySourceUpdate | NotMatchedBySourceDelete)
        for c in statement.clauses
    )
    how = {
        (False, False): "inner",
        (True, False): "right",
        (False, True): "left",
        (True, True): "full",
    }[inserts, by_source]
    return left.join(right, column(resolved(statement.on, views)), how), names


def _source(job: Job, source: Query | DataFrame | ArrowTable) -> DataFrame:
    if isinstance(source, Query):
        return query_frame(job, source)
    return source if hasattr(source, "toDF") else arrow_frame(job.context.session(), source)


def check_source(statement: Merge, columns: Sequence[str], table: Table) -> None:
    """No column of the source is lost where a clause takes all: the table has it, or an expression
    names it.

    Raises:
        InvalidInputError: one would be lost.
    """
    if not any(getattr(clause, "all_columns", False) for clause in statement.clauses):
        return
    known = {column.name for column in table.all_columns} | columns_named(statement)
    lost = [name for name in columns if name.lower() not in known]
    if lost:
        raise extra_columns(lost, table)


def _with_clause(
    paired: DataFrame, clauses: Sequence[MergeClause], views: Mapping[str, str]
) -> DataFrame:
    """The number of the clause that applies; rows to which nothing happens are left out."""
    if not clauses:
        raise InvalidInputError("MERGE without a WHEN clause")
    both = f"{_IN_TARGET} is not null and {_IN_SOURCE} is not null"
    cases = []
    for index, clause in enumerate(clauses):
        if isinstance(clause, MatchedUpdate | MatchedDelete):
            applies = both
        else:
            missing = _IN_TARGET if isinstance(clause, NotMatchedInsert) else _IN_SOURCE
            applies = f"{missing} is null"
        if clause.condition is not None:
            condition = resolved(clause.condition, views)
            if not isinstance(condition, str):
                name = f"__hiveacid_b{index}"
                paired, condition = paired.withColumn(name, condition), name
            applies = f"{applies} and (\n{condition}\n)"
        cases.append(f"when {applies} then {index}")
    if any(isinstance(clause, MatchedUpdate | MatchedDelete) for clause in clauses):
        cases.append(f"when {both} then {_TOUCHED}")
    numbered = paired.withColumn(_CLAUSE, F.expr(f"case {' '.join(cases)} end"))
    return numbered.where(f"{_CLAUSE} is not null")


def _with_values(
    chosen: DataFrame,
    table: Table,
    writing: Mapping[int, Sequence[Expression]],
    *,
    alias: str,
) -> DataFrame:
    """What each clause that writes makes of the row, the old identity and the old partition."""
    items: list[tuple[Expression, str]] = [(_CLAUSE, _CLAUSE), *identity_columns(alias)]
    items += [(quoted(alias, c.name), _old(c)) for c in table.partition_columns]
    for index, values in writing.items():
        for number, value in enumerate(values):
            # what another clause's rows would give is not even looked at: it might not convert
            given = (
                f"case when {_CLAUSE} = {index} then (\n{value}\n) end"
                if isinstance(value, str)
                else F.when(F.col(_CLAUSE) == index, value)
            )
            items.append((given, _new(index, number)))
    return select_as(chosen, items)


def _event_columns(
    job: Job,
    table: Table,
    statement: Merge,
    frame: DataFrame,
    writing: Sequence[int],
) -> list[str]:
    """Action, identity, partition columns and the new row, by clause, as texts."""
    clauses = statement.clauses
    handed_in = not isinstance(statement.source, Query)
    ansi = job.context.settings.assigns_ansi(handed_in=handed_in)
    actions = " ".join(f"when {i} then {_action(clause)}" for i, clause in enumerate(clauses))
    case = f"case {_CLAUSE} {actions} when {_TOUCHED} then {TOUCH} end"
    texts = [f"cast({case} as tinyint) as {ACTION}", *IDENTITY]
    types = {field.name: field.dataType for field in frame.schema.fields}
    ansi_session = is_ansi(job.context.session())

    def stored(index: int, number: int, target: Column) -> str:
        name = _new(index, number)
        text = assigned_text(name, types[name], target, ansi=ansi, ansi_session=ansi_session)
        return f"when {index} then {text}"

    inserting = [i for i in writing if isinstance(clauses[i], NotMatchedInsert)]
    for number, target in enumerate(table.partition_columns, start=len(table.columns)):
        branches = " ".join(stored(i, number, target) for i in inserting)
        old = quoted(_old(target))
        value = f"case {_CLAUSE} {branches} else {old} end" if inserting else old
        texts.append(f"{value} as {quoted(target.name)}")
    if not writing:
        return texts
    for number, target in enumerate(table.columns):
        branches = " ".join(stored(i, number, target) for i in writing)
        texts.append(f"case {_CLAUSE} {branches} end as {quoted(target.name)}")
    return texts


def _old(partition_column: Column) -> str:
    return f"__hiveacid_k_{partition_column.name}"


def _new(index: int, number: int) -> str:
    return f"__hiveacid_c{index}_{number}"


def _action(clause: MergeClause) -> int:
    if isinstance(clause, _DELETES):
        return DELETE
    return INSERT if isinstance(clause, NotMatchedInsert) else UPDATE


def _values(
    clause: MergeClause,
    table: Table,
    views: Mapping[str, str],
    *,
    aliases: tuple[str, str],
    lacking: Collection[str],
) -> list[Expression]:
    """One expression per column of the table, partition columns included."""
    alias, source_alias = aliases

    def from_source(columns: Sequence[Column]) -> dict[str, Expression]:
        return {c.name: quoted(source_alias, c.name) for c in columns if c.name not in lacking}

    def by_name(names: Sequence[str], values: Sequence[Expression]) -> dict[str, Expression]:
        pairs = zip((name.lower() for name in names), values, strict=True)
        return {name: resolved(assigned(value, table, name), views) for name, value in pairs}

    if isinstance(clause, NotMatchedInsert):
        if clause.all_columns:
            given = from_source(table.all_columns)
        else:
            names = clause.columns or tuple(c.name for c in table.all_columns)
            given = by_name(names, clause.values)
        return [given.get(c.name, assigned("default", table, c.name)) for c in table.all_columns]
    assert isinstance(clause, MatchedUpdate | NotMatchedBySourceUpdate)
    if isinstance(clause, MatchedUpdate) and clause.all_columns:
        given = from_source(table.columns)
    else:
        given = by_name(
            [name for name, _ in clause.assignments], [value for _, value in clause.assignments]
        )
    return [given.get(c.name, quoted(alias, c.name)) for c in table.all_columns]

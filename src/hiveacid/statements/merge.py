"""MERGE: one join of target and source, the first clause that applies to each pair, and the row
that it makes.

    target rows --+                     clause number      values by clause
                  +-- join on condition ------> which ------> action, row --> spark.write
    source rows --+

The join keeps what a clause can need: unmatched source rows where something is inserted, unmatched
target rows for WHEN NOT MATCHED BY SOURCE. Columns of the target that no clause reads are not read.
Statement ids are in Hive 4.1's order (real-hive.md 4): deletes, deletes of updates, updates,
inserts. A target row that meets two source rows is found by the writer, where the events of one row
lie side by side (format.md 8.4).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyarrow import Table as ArrowTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.errors import CardinalityError, InvalidInputError, cardinality_error
from hiveacid.layout.directories import default_partition_value
from hiveacid.model.tables import AcidMode, Column, Table, TableName, WriteId
from hiveacid.spark.assign import assigned_text, constrained
from hiveacid.spark.session import (
    ROW_ID_COLUMN,
    arrow_frame,
    is_ansi,
    literal,
    quoted,
    session_conf,
)
from hiveacid.spark.write import ACTION, IDENTITY, write_events, write_rows
from hiveacid.statements.checks import check, columns_named, refuse_extra
from hiveacid.statements.constraints import check_conditions, default_expression, not_null_columns
from hiveacid.statements.context import locked_partitions
from hiveacid.statements.driver_merge import merge_rows
from hiveacid.statements.few_rows import source_here
from hiveacid.statements.job import Job, Work, with_views
from hiveacid.statements.matching import newest_frame
from hiveacid.statements.select import query_frame, read_names
from hiveacid.statements.update import (
    column,
    count_places,
    identity_columns,
    select_as,
    value_or_default,
)
from hiveacid.statements.values import (
    Expression,
    MatchedDelete,
    MatchedUpdate,
    Merge,
    MergeClause,
    MergeResult,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    Query,
    with_columns,
)
from hiveacid.storage.plan.planning import compression
from hiveacid.storage.plan.scan_plan import ScanPlan
from hiveacid.storage.stage import DELETE, INSERT, TOUCH, UPDATE
from hiveacid.storage.target import WriteResult
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.view import Look

_JOIN: Final = {
    # a shuffled side of this size is hashed, not sorted: the source of a MERGE is small beside the
    # target
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "268435456",
    "spark.sql.adaptive.skewJoin.forceOptimizeSkewedJoin": "false",
}
_DONE_BY: Final[Mapping[type, WriteKind]] = {
    MatchedDelete: WriteKind.DELETE,
    NotMatchedBySourceDelete: WriteKind.DELETE,
    MatchedUpdate: WriteKind.UPDATE,
    NotMatchedBySourceUpdate: WriteKind.UPDATE,
    NotMatchedInsert: WriteKind.INSERT,
}


def plan(statement: Merge, look: Look) -> MergeWork:
    """How to carry the statement out."""
    table = with_columns(look.definition(statement.table), statement.added)
    check(statement, table)
    partitions = None
    if not any(isinstance(clause, NotMatchedInsert) for clause in statement.clauses):
        partitions = locked_partitions(look, table, [statement.predicate])
    return MergeWork(table, statement, partitions)


@dataclass(frozen=True, slots=True)
class MergeWork(Work):
    """One MERGE."""

    table: Table
    statement: Merge
    partitions: tuple[str, ...] | None = None

    @property
    def reads(self) -> Sequence[TableName]:
        """Tables in the source and in subqueries."""
        source = self.statement.source
        tables = dict(self.statement.tables)
        if isinstance(source, Query):
            tables |= source.tables
        return read_names(tables, but=self.table.name)

    @property
    def does(self) -> frozenset[WriteKind]:
        """What its clauses do."""
        return frozenset(_DONE_BY[type(clause)] for clause in self.statement.clauses)

    def write(self, job: Job) -> WriteResult:
        """One join, one shuffle of events, one action."""
        spark = job.context.session()
        target = self.changes_target(job)
        plan = job.plan(self.table, predicate=self.statement.predicate)
        source = _source(job, self.statement.source)
        newest = self.statement.newest
        dropped = () if newest is None else newest.dropped
        written = [name for name in source.columns if name.lower() not in dropped]
        check_source(self.statement, written, self.table)
        here = source_here(job, plan, self.statement, source)
        if here is not None:
            return merge_rows(job, self.table, here, target=target, planned=plan)
        if newest is not None:
            source = newest_frame(source, newest)
        if self.table.acid_mode is not AcidMode.FULL:  # rows are inserted, nothing else
            return write_rows(spark, merge_events(job, plan, self.statement, source), target=target)
        # Spark takes the bytes of files for those of the rows, and with them the target for a small
        # table: 5,000,000 rows in 9 MB of ORC were 600 MB of a hash table in the driver.
        sizes = {"spark.sql.sources.fileCompressionFactor": str(compression(plan))}
        with session_conf(spark, _JOIN | sizes):
            events = merge_events(job, plan, self.statement, source)
            places = count_places(plan)
            try:
                return write_events(spark, events, target=target, places=places)
            except CardinalityError as error:
                row = [int(number) for number in re.findall(r"\d+", str(error.context["row"]))]
                raise cardinality_error(row, self._keys(job, plan, row)) from None

    def _keys(self, job: Job, plan: ScanPlan, row: Sequence[int]) -> Mapping[str, object]:
        """The values that a row matched twice has in the columns that ON names, for the error."""
        on = set(re.findall(r"\w+", str(self.statement.on).lower()))
        names = [quoted(c.name) for c in self.table.all_columns if c.name in on]
        if not names or len(row) != 3:
            return {}
        write_id, bucket, number = row
        which = f"{ROW_ID_COLUMN}.writeid = {write_id} and {ROW_ID_COLUMN}.bucketid = {bucket}"
        rows = job.scan(plan, row_ids=True).where(f"{which} and {ROW_ID_COLUMN}.rowid = {number}")
        found = rows.select(*names).head()
        return {} if found is None else found.asDict()

    def result(self, written: WriteResult, write_id: WriteId) -> MergeResult:
        """Rows by what happened to them."""
        return MergeResult(
            written.rows_updated, written.rows_deleted, written.rows_inserted, write_id
        )


_IN_TARGET: Final = "__hiveacid_in_target"
_IN_SOURCE: Final = "__hiveacid_in_source"
_ROW_ID: Final = "struct<writeid: bigint, bucketid: int, rowid: bigint>"
_CLAUSE: Final = "__hiveacid_clause"
_TOUCHED: Final = -1


def merge_events(job: Job, plan: ScanPlan, statement: Merge, source: DataFrame) -> DataFrame:
    """The events of a MERGE of ``source``, as ``spark.write.write_events`` takes them.

    Raises:
        InvalidInputError: no clause at all.
        pyspark's AnalysisException: an expression is wrong.
    """
    table = plan.snapshot.table
    views = job.temporary_views(statement.tables)
    alias = statement.alias or table.name.table
    source_alias = statement.source_alias or "source"
    aliases = (alias, source_alias)
    paired = _paired(job, plan, statement, source, views, aliases=aliases)
    source_columns = {name.lower() for name in source.columns}
    # with evolve a column that the source lacks keeps its value, or gets its default
    lacking = set(table.column_names) - source_columns if statement.evolve else set()
    moves = _moves(table, source_columns, aliases=aliases)
    chosen = _with_clause(paired, statement.clauses, views, moves=moves)
    writing = {
        index: _values(clause, table, views, aliases=aliases, lacking=lacking)
        for index, clause in enumerate(statement.clauses)
        if _DONE_BY[type(clause)] is not WriteKind.DELETE
    }
    frame = _with_values(chosen, table, writing, alias=alias)
    events = frame.selectExpr(*_event_columns(job, table, statement, frame, list(writing)))
    if not writing:
        return events
    return constrained(
        events,
        not_null=[c.name for c in table.columns if c.name in not_null_columns(table)],
        checks=check_conditions(table),
        rows=f"{ACTION} in ({UPDATE}, {INSERT})",
    )


def _paired(
    job: Job,
    plan: ScanPlan,
    statement: Merge,
    source: DataFrame,
    views: Mapping[str, str],
    *,
    aliases: tuple[str, str],
) -> DataFrame:
    """The target's rows joined with the source's, each side marked; the clauses choose the kind of
    join: rows that no clause takes stay out.
    """
    source_rows = source.selectExpr("*", f"true as {_IN_SOURCE}").alias(aliases[1])
    if plan.snapshot.table.acid_mode is AcidMode.FULL:
        target, _ = job.scan_target(plan, statement.virtual)
    else:
        target = job.scan(plan).selectExpr("*", f"cast(null as {_ROW_ID}) as {ROW_ID_COLUMN}")
    target = target.selectExpr("*", f"true as {_IN_TARGET}")
    target = target.alias(aliases[0])
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
    return target.join(source_rows, column(with_views(statement.on, views)), how)


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
    known = set(table.column_names) | columns_named(statement)
    refuse_extra(columns, known, table)


def _moves(table: Table, given: Collection[str], *, aliases: tuple[str, str]) -> str:
    """When-branches for UPDATE SET *: an error where it would move a row to another partition or
    bucket, as 10292 and 10302 say of columns that are named.
    """
    keys = {column.name: column for column in table.partition_columns}
    branches = []
    for name in (name for name in (*keys, *table.bucket_columns) if name in given):
        old, new = (quoted(alias, name) for alias in aliases)
        default = default_partition_value(keys[name].type) if name in keys else None
        if default is not None:  # NULL is another word for the default partition
            new = f"coalesce({new}, {literal(default)})"
        kind, code = ("partition", 10292) if name in keys else ("bucketing", 10302)
        text = f"Updating values of {kind} columns is not supported. Column {name}."
        said = literal(f"hiveacid.errors.InvalidInputError: [Error {code}]: {text}")
        branches.append(f"when not ({old} <=> {new}) then raise_error({said})")
    return " ".join(branches)


def _with_clause(
    paired: DataFrame, clauses: Sequence[MergeClause], views: Mapping[str, str], *, moves: str
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
            condition = with_views(clause.condition, views)
            if not isinstance(condition, str):
                name = f"__hiveacid_b{index}"
                paired, condition = paired.withColumn(name, condition), name
            applies = f"{applies} and (\n{condition}\n)"
        takes_all = isinstance(clause, MatchedUpdate) and clause.all_columns
        number = f"case {moves} else {index} end" if takes_all and moves else index
        cases.append(f"when {applies} then {number}")
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
    if _DONE_BY[type(clause)] is WriteKind.DELETE:
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
        return {
            name: with_views(value_or_default(value, table, name), views) for name, value in pairs
        }

    if isinstance(clause, NotMatchedInsert):
        if clause.all_columns:
            expressions = from_source(table.all_columns)
        else:
            names = clause.columns or table.column_names
            expressions = by_name(names, clause.values)
        return [
            expressions.get(c.name, default_expression(table, c.name)) for c in table.all_columns
        ]
    assert isinstance(clause, MatchedUpdate | NotMatchedBySourceUpdate)
    if isinstance(clause, MatchedUpdate) and clause.all_columns:
        expressions = from_source(table.columns)
    else:
        expressions = by_name(
            [name for name, _ in clause.assignments], [value for _, value in clause.assignments]
        )
    return [expressions.get(c.name, quoted(alias, c.name)) for c in table.all_columns]

"""MERGE: one join of target and source, the first clause that applies to each pair, row events, one
action.

    target rows --+                     clause number      values by clause
                  +-- join on condition ------> which ------> action, row --> spark.write
    source rows --+

The join keeps what a clause can need: unmatched source rows where something is inserted, unmatched
target rows for WHEN NOT MATCHED BY SOURCE. Columns of the target that no clause reads are not read.
A target row that meets two source rows is found by the writer, where the events of one row lie side
by side (format.md 8.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from hiveacid.errors import InvalidInputError
from hiveacid.layout.target import WriteResult
from hiveacid.model.ids import WriteId
from hiveacid.model.tables import Table, TableName
from hiveacid.model.transactions import OperationType
from hiveacid.spark.assign import assign, constrained, stored_type
from hiveacid.spark.bucket_task import DELETE, INSERT, TOUCH, UPDATE
from hiveacid.spark.conf import is_ansi, session_conf
from hiveacid.spark.write import ACTION, write_events
from hiveacid.statements.constraints import checks, not_null_columns
from hiveacid.statements.events import count_places, expression, identity_columns
from hiveacid.statements.job import ExecutionContext, Job
from hiveacid.statements.results import MergeResult
from hiveacid.statements.select import query_frame, read_names
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
from hiveacid.txn.footprint import WriteKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_IN_TARGET: Final = "__hiveacid_in_target"
_IN_SOURCE: Final = "__hiveacid_in_source"
_CLAUSE: Final = "__hiveacid_clause"
_TOUCHED: Final = -1
_JOIN: Final = {
    # a shuffled side of this size is hashed, not sorted: the source of a MERGE is small beside the
    # target
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "268435456",
    "spark.sql.adaptive.skewJoin.forceOptimizeSkewedJoin": "false",
}
_DELETES: Final = (MatchedDelete, NotMatchedBySourceDelete)
_UPDATES: Final = (MatchedUpdate, NotMatchedBySourceUpdate)


def plan(context: ExecutionContext, statement: Merge) -> MergeWork:
    """How to carry the statement out."""
    return MergeWork(context.table(statement.table), statement)


@dataclass(frozen=True, slots=True)
class MergeWork:
    """One MERGE; statement ids in Hive 4.1's order: deletes, deletes of updates, updates,
    inserts.
    """

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
    def kind(self) -> WriteKind:
        """INSERT where nothing else can happen."""
        if self._has(_UPDATES):
            return WriteKind.UPDATE
        return WriteKind.DELETE if self._has(_DELETES) else WriteKind.INSERT

    @property
    def statements(self) -> int:
        """One for deletes, two for updates, one for inserts."""
        return (
            int(self._has(_DELETES))
            + 2 * int(self._has(_UPDATES))
            + int(self._has((NotMatchedInsert,)))
        )

    @property
    def operations(self) -> Sequence[OperationType]:
        """What is recorded for each partition."""
        found = [OperationType.DELETE] if self._has((*_DELETES, *_UPDATES)) else []
        if self._has((*_UPDATES, NotMatchedInsert)):
            found.append(OperationType.INSERT)
        return found

    def write(self, job: Job) -> WriteResult:
        """One join, one shuffle of events, one action."""
        spark = job.context.session()
        ids = iter(job.statement_ids)
        target = job.target(
            delete_statement=next(ids) if self._has(_DELETES) else None,
            update_delete_statement=next(ids) if self._has(_UPDATES) else None,
            update_insert_statement=next(ids) if self._has(_UPDATES) else None,
            insert_statement=next(ids) if self._has((NotMatchedInsert,)) else None,
        )
        with session_conf(spark, _JOIN):
            events = self._events(job)
            places = count_places(job.snapshot(self.table))
            return write_events(spark, events, target=target, places=places)

    def result(self, written: WriteResult, write_id: WriteId) -> MergeResult:
        """Rows by what happened to them."""
        return MergeResult(
            written.rows_updated, written.rows_deleted, written.rows_inserted, write_id
        )

    def _has(self, kinds: tuple[type, ...]) -> bool:
        return any(isinstance(clause, kinds) for clause in self.statement.clauses)

    def _events(self, job: Job) -> DataFrame:
        views = job.views(self.statement.tables)
        paired = self._paired(job, views)
        chosen = self._with_clause(paired, views)
        return self._with_values(job, chosen, views)

    def _paired(self, job: Job, views: Mapping[str, str]) -> DataFrame:
        statement, table = self.statement, self.table
        source = statement.source
        right = query_frame(job, source) if isinstance(source, Query) else source
        right = right.withColumn(_IN_SOURCE, F.lit(True)).alias(self._source_alias)
        left = job.scan(table, row_ids=True).withColumn(_IN_TARGET, F.lit(True))
        left = left.alias(self._alias)
        inserts = self._has((NotMatchedInsert,))
        by_source = self._has((NotMatchedBySourceUpdate, NotMatchedBySourceDelete))
        how = {
            (False, False): "inner",
            (True, False): "right",
            (False, True): "left",
            (True, True): "full",
        }[inserts, by_source]
        return left.join(right, expression(statement.on, views), how)

    @property
    def _alias(self) -> str:
        return self.statement.alias or self.table.name.table

    @property
    def _source_alias(self) -> str:
        return self.statement.source_alias or "source"

    def _with_clause(self, paired: DataFrame, views: Mapping[str, str]) -> DataFrame:
        """The number of the clause that applies; rows to which nothing happens are left out."""
        in_target, in_source = F.col(_IN_TARGET).isNotNull(), F.col(_IN_SOURCE).isNotNull()
        both = in_target & in_source
        number: Column | None = None
        for index, clause in enumerate(self.statement.clauses):
            if isinstance(clause, MatchedUpdate | MatchedDelete):
                applies = both
            elif isinstance(clause, NotMatchedInsert):
                applies = ~in_target
            else:
                applies = ~in_source
            if clause.condition is not None:
                applies = applies & expression(clause.condition, views)
            value = F.lit(index)
            number = F.when(applies, value) if number is None else number.when(applies, value)
        if number is None:
            raise InvalidInputError("MERGE without a WHEN clause")
        if self._has((MatchedUpdate, MatchedDelete)):
            number = number.when(both, F.lit(_TOUCHED))
        return paired.withColumn(_CLAUSE, number).where(F.col(_CLAUSE).isNotNull())

    def _with_values(self, job: Job, chosen: DataFrame, views: Mapping[str, str]) -> DataFrame:
        """Action, identity, partition columns and the new row, by clause."""
        table, spark = self.table, job.context.session()
        ansi = job.context.settings.store_assignment == "ansi"
        keep = [
            F.col(_CLAUSE),
            *identity_columns(self._alias),
            *[
                F.col(f"`{self._alias}`.`{c.name}`").alias(f"__hiveacid_k_{c.name}")
                for c in table.partition_columns
            ],
        ]
        writing = [
            (index, clause)
            for index, clause in enumerate(self.statement.clauses)
            if not isinstance(clause, _DELETES)
        ]
        values = [(index, self._values(clause, views)) for index, clause in writing]
        width = len(table.all_columns)
        flat = [
            # what another clause's rows would give is not even looked at: it might not convert
            F.when(F.col(_CLAUSE) == index, column).alias(f"__hiveacid_c{index}_{n}")
            for index, columns in values
            for n, column in enumerate(columns)
        ]
        frame = chosen.select(*flat, *keep)
        for at, _ in enumerate(values):
            frame = _assign_at(frame, table, at * width, ansi=ansi, ansi_session=is_ansi(spark))
        events = frame.select(*self._event_columns(table, frame, writing))
        if not writing:
            return events
        return constrained(
            events,
            not_null=[c.name for c in table.columns if c.name in not_null_columns(table)],
            checks=checks(table),
            rows=F.col(ACTION).isin(UPDATE, INSERT),
        )

    def _event_columns(
        self, table: Table, frame: DataFrame, writing: Sequence[tuple[int, MergeClause]]
    ) -> list[Column]:
        width = len(table.all_columns)
        action = reduce(
            lambda found, one: found.when(F.col(_CLAUSE) == one[0], F.lit(_action(one[1]))),
            enumerate(self.statement.clauses),
            F.when(F.col(_CLAUSE) == _TOUCHED, F.lit(TOUCH)),
        )
        names = frame.columns
        columns = [action.cast("tinyint").alias(ACTION)]
        columns += [F.col(name) for name in names if name.startswith(("__hiveacid_write_id",))]
        columns += [F.col(name) for name in ("__hiveacid_bucket", "__hiveacid_row_id")]
        inserting = [at for at, (_, c) in enumerate(writing) if isinstance(c, NotMatchedInsert)]
        for n, column in enumerate(table.partition_columns):
            value = F.col(f"__hiveacid_k_{column.name}")
            at_column = len(table.columns) + n
            for at in inserting:
                new = F.col(names[at * width + at_column])
                value = F.when(F.col(_CLAUSE) == writing[at][0], new).otherwise(value)
            columns.append(value.alias(column.name))
        if not writing:
            return columns
        for n, column in enumerate(table.columns):
            chosen = reduce(
                lambda found, at: found.when(
                    F.col(_CLAUSE) == writing[at][0], F.col(names[at * width + n])
                ),
                range(1, len(writing)),
                F.when(F.col(_CLAUSE) == writing[0][0], F.col(names[n])),
            )
            columns.append(chosen.cast(stored_type(column.type)).alias(column.name))
        return columns

    def _values(self, clause: MergeClause, views: Mapping[str, str]) -> list[Column]:
        """One expression per column of the table, partition columns included."""
        table = self.table
        if isinstance(clause, NotMatchedInsert):
            given = self._inserted(clause, views)
            return [
                given.get(c.name, expression(assigned("default", table, c.name), views))
                for c in table.all_columns
            ]
        assert isinstance(clause, MatchedUpdate | NotMatchedBySourceUpdate)
        if isinstance(clause, MatchedUpdate) and clause.all_columns:
            given = {c.name: self._source_column(c.name) for c in table.columns}
        else:
            given = {
                name.lower(): expression(assigned(value, table, name.lower()), views)
                for name, value in clause.assignments
            }
        return [given.get(c.name, F.col(f"`{self._alias}`.`{c.name}`")) for c in table.all_columns]

    def _inserted(self, clause: NotMatchedInsert, views: Mapping[str, str]) -> dict[str, Column]:
        table = self.table
        if clause.all_columns:
            return {c.name: self._source_column(c.name) for c in table.all_columns}
        names = [name.lower() for name in clause.columns] or [c.name for c in table.all_columns]
        return {
            name: expression(assigned(value, table, name), views)
            for name, value in zip(names, clause.values, strict=True)
        }

    def _source_column(self, name: str) -> Column:
        return F.col(f"`{self._source_alias}`.`{name}`")


def _action(clause: MergeClause) -> int:
    if isinstance(clause, _DELETES):
        return DELETE
    return INSERT if isinstance(clause, NotMatchedInsert) else UPDATE


def _assign_at(
    frame: DataFrame, table: Table, start: int, *, ansi: bool, ansi_session: bool
) -> DataFrame:
    """``assign`` for the columns from ``start`` on; names stay."""
    names = frame.columns
    width = len(table.all_columns)
    here = names[start : start + width]
    rest = [name for name in names if name not in here]
    moved = frame.select(*here, *rest)
    stored = assign(moved, table.all_columns, ansi=ansi, ansi_session=ansi_session)
    renamed = stored.toDF(*here, *rest)
    return renamed.select(*names)

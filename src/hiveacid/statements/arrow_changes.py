"""DELETE and MERGE of Arrow data without Spark, for small jobs: one pass over the target's keys.

``driver_merge.py`` reads the target and joins it with the given rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hiveacid.model.ids import StatementId, WriteId
from hiveacid.model.predicates import ANYTHING, conjunction
from hiveacid.model.tables import Column, Table, TableName
from hiveacid.model.transactions import OperationType
from hiveacid.statements.arrow_rows import refuse_what_needs_spark
from hiveacid.statements.driver_merge import (
    Gone,
    SourceRows,
    key_predicate,
    merge_rows,
    target_rows,
)
from hiveacid.statements.driver_write import write_deletes
from hiveacid.statements.evolve import with_columns
from hiveacid.statements.job import Job
from hiveacid.statements.matching import Keys
from hiveacid.statements.values import DeleteResult, MergeResult
from hiveacid.storage.plan.arrow_conditions import Condition, filtered
from hiveacid.storage.stage import DELETE, TOUCH, UPDATE
from hiveacid.storage.target import WriteResult
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.view import Look


class WhenMatched(Enum):
    """What happens to target rows that have a source row."""

    UPDATE = "update"
    DELETE = "delete"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ArrowDelete:
    """DELETE the rows that meet ``condition`` and, where ``keys`` are given, have the same values
    in all columns of one of them (typed as the table's).
    """

    table: TableName
    condition: Condition
    keys: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class ArrowMerge:
    """MERGE of ``rows`` (columns typed as the table's) on equal values in ``on``.

    ``deletes`` marks source rows that delete what they match and are never inserted; ``added`` are
    columns that the table gets by it.
    """

    table: TableName
    rows: pa.Table
    on: tuple[str, ...]
    when_matched: WhenMatched
    inserts: bool
    deletes: npt.NDArray[np.bool_]
    added: tuple[Column, ...] = ()


ArrowChange: TypeAlias = "ArrowDelete | ArrowMerge"


@dataclass(frozen=True, slots=True)
class ArrowDeleteWork:
    """One DELETE."""

    COUNTS_ROWS: ClassVar[bool] = True
    table: Table
    statement: ArrowDelete
    kind: WriteKind = WriteKind.DELETE
    partitions: tuple[str, ...] | None = None
    statements: int = 1
    operations: tuple[OperationType, ...] = (OperationType.DELETE,)
    reads: tuple[TableName, ...] = ()

    def write(self, job: Job) -> WriteResult:
        """Delete events of the rows found."""
        condition, keys = self.statement.condition, self.statement.keys
        names = () if keys is None else tuple(keys.schema.names)
        predicate = conjunction((condition.predicate, key_predicate(keys, self.table)))
        found = Gone()
        index = None if keys is None else Keys(keys, names)
        for values, rows in target_rows(
            job, self.table, predicate, columns={*condition.columns, *names}
        ):
            if condition.expression is not None:
                rows = filtered(rows, condition.expression)
            if index is not None:
                at, _ = index.matches(rows)
                rows = rows.take(pa.array(np.unique(at)))
            found.add(values, rows)
        (statement,) = job.statement_ids
        target = job.target(delete_statement=statement)
        return write_deletes(found.keys(), target=target)

    def result(self, written: WriteResult, write_id: WriteId) -> DeleteResult:
        """Rows deleted."""
        return DeleteResult(written.rows_deleted, write_id)


@dataclass(frozen=True, slots=True)
class ArrowMergeWork:
    """One MERGE; statement ids in Hive 4.1's order: deletes, deletes of updates, updates,
    inserts.
    """

    COUNTS_ROWS: ClassVar[bool] = True
    table: Table
    statement: ArrowMerge
    partitions: tuple[str, ...] | None = None
    reads: tuple[TableName, ...] = ()

    @property
    def _deletes(self) -> bool:
        return self.statement.when_matched is WhenMatched.DELETE or bool(
            self.statement.deletes.any()
        )

    @property
    def _updates(self) -> bool:
        return self.statement.when_matched is WhenMatched.UPDATE

    @property
    def kind(self) -> WriteKind:
        """INSERT where nothing else can happen."""
        if self._updates:
            return WriteKind.UPDATE
        return WriteKind.DELETE if self._deletes else WriteKind.INSERT

    @property
    def statements(self) -> int:
        """One for deletes, two for updates, one for inserts."""
        return int(self._deletes) + 2 * int(self._updates) + int(self.statement.inserts)

    @property
    def operations(self) -> Sequence[OperationType]:
        """What is recorded for each partition."""
        found = [OperationType.DELETE] if self._deletes or self._updates else []
        if self._updates or self.statement.inserts:
            found.append(OperationType.INSERT)
        return found

    def write(self, job: Job) -> WriteResult:
        """One pass over the target's places that may match; the rest is in memory."""
        ids = iter(job.statement_ids)
        target = job.target(
            delete_statement=next(ids) if self._deletes else None,
            update_delete_statement=next(ids) if self._updates else None,
            update_insert_statement=next(ids) if self._updates else None,
            insert_statement=next(ids, StatementId(0)) if self.statement.inserts else None,
        )
        return merge_rows(job, self.table, self._source(), predicate=ANYTHING, target=target)

    def result(self, written: WriteResult, write_id: WriteId) -> MergeResult:
        """Rows by what happened to them."""
        return MergeResult(
            written.rows_updated, written.rows_deleted, written.rows_inserted, write_id
        )

    def _source(self) -> SourceRows:
        statement = self.statement
        given = set(statement.rows.schema.names).difference(statement.on)
        when_matched = {WhenMatched.UPDATE: UPDATE, WhenMatched.DELETE: DELETE}
        other = when_matched.get(statement.when_matched, TOUCH)
        return SourceRows(
            rows=statement.rows,
            on=statement.on,
            assigned=tuple(c.name for c in self.table.columns if c.name in given),
            actions=np.where(statement.deletes, DELETE, other).astype(np.int8),
            inserted=statement.rows,
            fresh=~statement.deletes & statement.inserts,
            matches_once=self._updates or self._deletes,
        )


def plan(statement: ArrowChange, look: Look) -> ArrowDeleteWork | ArrowMergeWork:
    """How to carry the statement out.

    Raises:
        UnsupportedError: rows are written to a table with a CHECK.
    """
    table = look.definition(statement.table)
    if isinstance(statement, ArrowDelete):
        return ArrowDeleteWork(table, statement)
    if statement.inserts or statement.when_matched is WhenMatched.UPDATE:
        columns = [column.name for column in table.all_columns]
        refuse_what_needs_spark(table, columns)  # defaults only where rows are inserted
    return ArrowMergeWork(with_columns(table, statement.added), statement)

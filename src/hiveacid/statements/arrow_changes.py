"""DELETE and MERGE of Arrow data without Spark, for small jobs: one pass over the target's keys.

``driver_merge.py`` reads the target and joins it with the given rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hiveacid.model.predicates import conjunction
from hiveacid.model.tables import Column, Table, TableName, WriteId
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
from hiveacid.statements.job import Job, Work
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
    in all columns of one of them (typed as the table's); ``purges`` as in ``Delete``.
    """

    table: TableName
    condition: Condition
    keys: pa.Table | None = None
    purges: bool = False


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
class ArrowDeleteWork(Work):
    """One DELETE."""

    table: Table
    statement: ArrowDelete
    does: frozenset[WriteKind] = frozenset({WriteKind.DELETE})

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
        return write_deletes(found.keys(), target=self.changes_target(job))

    def result(self, written: WriteResult, write_id: WriteId) -> DeleteResult:
        """Rows deleted."""
        return DeleteResult(written.rows_deleted, write_id)


@dataclass(frozen=True, slots=True)
class ArrowMergeWork(Work):
    """One MERGE; statement ids in Hive 4.1's order: deletes, deletes of updates, updates,
    inserts.
    """

    table: Table
    statement: ArrowMerge

    @property
    def does(self) -> frozenset[WriteKind]:
        """By what is asked for and, of deletes, by the rows."""
        value = self.statement
        deletes = value.when_matched is WhenMatched.DELETE or bool(value.deletes.any())
        wanted = {
            WriteKind.DELETE: deletes,
            WriteKind.UPDATE: value.when_matched is WhenMatched.UPDATE,
            WriteKind.INSERT: value.inserts,
        }
        return frozenset(one for one, is_wanted in wanted.items() if is_wanted)

    def write(self, job: Job) -> WriteResult:
        """One pass over the target's places that may match; the rest is in memory."""
        target = self.changes_target(job)
        return merge_rows(job, self.table, self._source(), target=target)

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
            matches_once=self.kind is not WriteKind.INSERT,
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

"""MERGE: what it locks, reads and records; ``merge_events`` makes the row events.

Statement ids are in Hive 4.1's order (real-hive.md 4): deletes, deletes of updates, updates,
inserts. A target row that meets two source rows is found by the writer, where the events of one row
lie side by side (format.md 8.4).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from hiveacid.errors import CardinalityError, cardinality_error
from hiveacid.model.ids import WriteId
from hiveacid.model.tables import Table, TableName
from hiveacid.model.transactions import OperationType
from hiveacid.spark.conf import session_conf
from hiveacid.spark.scan import ROW_ID_COLUMN
from hiveacid.spark.text import quoted
from hiveacid.spark.write import write_events
from hiveacid.statements.checks import check
from hiveacid.statements.event_columns import count_places
from hiveacid.statements.evolve import with_columns
from hiveacid.statements.job import Job
from hiveacid.statements.locked import locked_partitions
from hiveacid.statements.merge_events import merge_events
from hiveacid.statements.select import read_names
from hiveacid.statements.values import (
    MatchedDelete,
    MatchedUpdate,
    Merge,
    MergeResult,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    Query,
)
from hiveacid.storage.plan.planning import compression
from hiveacid.storage.plan.scan_plan import ScanPlan
from hiveacid.storage.target import WriteResult
from hiveacid.txn.footprint import WriteKind
from hiveacid.txn.view import Look

_JOIN: Final = {
    # a shuffled side of this size is hashed, not sorted: the source of a MERGE is small beside the
    # target
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "268435456",
    "spark.sql.adaptive.skewJoin.forceOptimizeSkewedJoin": "false",
}
_DELETES: Final = (MatchedDelete, NotMatchedBySourceDelete)
_UPDATES: Final = (MatchedUpdate, NotMatchedBySourceUpdate)


def plan(statement: Merge, look: Look) -> MergeWork:
    """How to carry the statement out."""
    table = with_columns(look.definition(statement.table), statement.added)
    check(statement, table)
    partitions = None
    if not any(isinstance(clause, NotMatchedInsert) for clause in statement.clauses):
        partitions = locked_partitions(look, table, [statement.predicate])
    return MergeWork(table, statement, partitions)


@dataclass(frozen=True, slots=True)
class MergeWork:
    """One MERGE; statement ids in Hive 4.1's order: deletes, deletes of updates, updates,
    inserts.
    """

    COUNTS_ROWS: ClassVar[bool] = True
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
        plan = job.plan(self.table, predicate=self.statement.predicate)
        # Spark takes the bytes of files for those of the rows, and with them the target for a small
        # table: 5,000,000 rows in 9 MB of ORC were 600 MB of a hash table in the driver.
        sizes = {"spark.sql.sources.fileCompressionFactor": str(compression(plan))}
        with session_conf(spark, _JOIN | sizes):
            events = merge_events(job, plan, self.statement)
            places = count_places(plan)
            try:
                return write_events(spark, events, target=target, places=places)
            except CardinalityError as error:
                row = [int(number) for number in re.findall(r"\d+", str(error.context["row"]))]
                raise cardinality_error(row, self._keys(job, plan, row)) from None

    def _keys(self, job: Job, plan: ScanPlan, row: Sequence[int]) -> Mapping[str, object]:
        """What the row that is matched twice has in the columns that ON names."""
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

    def _has(self, kinds: tuple[type, ...]) -> bool:
        return any(isinstance(clause, kinds) for clause in self.statement.clauses)

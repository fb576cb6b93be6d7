"""EXPLAIN: what of each table would be read, Spark's plan of a query; for everything else what the
statement would touch. EXPLAIN LOCKS: the locks that it would take.

Nothing is executed and no lock is taken; the tables are looked at in a read transaction that ends
with the explanation.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from hiveacid.model.ids import WriteId
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.explain_locks import explain_locks
from hiveacid.statements.job import ExecutionContext, Job
from hiveacid.statements.listing import Listing
from hiveacid.statements.metadata_answers import known_aggregates
from hiveacid.statements.values import Delete, Insert, Inserts, Literals, Merge, Query, Update

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.model.tables import Table
    from hiveacid.txn.transaction import Transaction

_MODES = {"extended": "extended", "formatted": "formatted", "cost": "cost", "cbo": "cost"}
_HIDDEN = ("predicate", "columns", "tables")
"""Fields that the tables' lines tell better."""


def explain(context: ExecutionContext, statement: ddl.Explain) -> Listing:
    """The explanation as lines of text.

    Raises:
        NotFoundError, AcidError: a table could not be looked at.
        pyspark's AnalysisException: a query is wrong.
    """
    if statement.mode == "locks":
        return explain_locks(context, statement.statement)
    if context.unit is not None:
        lines = _Explanation(context, context.unit.txn, statement.mode).lines(statement.statement)
        return Listing(("Explain",), tuple((line,) for line in lines))
    with context.client.transactions.begin(read_only=True) as txn:
        lines = _Explanation(context, txn, statement.mode).lines(statement.statement)
    return Listing(("Explain",), tuple((line,) for line in lines))


class _Explanation:
    def __init__(self, context: ExecutionContext, txn: Transaction, mode: str) -> None:
        self._context = context
        self._txn = txn
        self._mode = mode

    def lines(self, value: object) -> list[str]:
        if isinstance(value, Query):
            return self._query(value)
        if isinstance(value, Inserts):
            return [line for branch in value.branches for line in self.lines(branch)]
        lines = [type(value).__name__]
        lines += [f"  {name}: {text}" for name, text in _described(value)]
        if isinstance(value, (Update, Delete, Merge)):
            table = self._context.table(value.table)
            plan = self._job(table).plan(table, predicate=value.predicate)
            lines.append(f"  reads: {plan.summary()}")
        if isinstance(value, (Insert, Merge)) and isinstance(value.source, Query):
            lines += ["  source:", *(f"    {line}" for line in self._query(value.source))]
        return lines

    def _query(self, query: Query) -> list[str]:
        from hiveacid.statements.select import query_frame

        if not query.tables:
            return _plan(self._context.session().sql(query.text), self._mode)
        first = next(iter(query.tables.values()))
        table = self._context.table(first.name)
        job = self._job(table)
        known = known_aggregates(job, table, query.aggregates) if query.aggregates else None
        if known is not None:
            plan = _plan(self._context.session().sql(known), self._mode)
            return ["== Tables ==", f"{table.name}: answered from metadata", "", *plan]
        plan = _plan(query_frame(job, query), self._mode)
        read = [f"{one.snapshot.table.name}: {one.summary()}" for one in job.plans]
        return ["== Tables ==", *read, "", *plan]

    def _job(self, table: Table) -> Job:
        return Job(self._context, self._txn, table, WriteId(0), (), "")


def _plan(frame: DataFrame, mode: str) -> list[str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain(mode=_MODES.get(mode, "simple"))
    return out.getvalue().rstrip("\n").split("\n")


def _described(value: Any) -> list[tuple[str, str]]:
    if not is_dataclass(value):
        return []
    found = []
    for one in fields(value):
        content = getattr(value, one.name)
        if one.name in _HIDDEN or content is None or content in ((), {}, "", False):
            continue
        if isinstance(content, Query):
            content = content.text
        elif isinstance(content, Literals):
            content = f"{len(content.rows)} literal rows"
        found.append((one.name, str(content)))
    return found

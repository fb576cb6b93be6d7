"""EXPLAIN: what of each table would be read, Spark's plan of a query; for everything else what the
statement would touch. EXPLAIN LOCKS: the locks that it would take.

Nothing is executed and no lock is taken; the tables are looked at in a read transaction that ends
with the explanation.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from hiveacid.model.locks import LockComponent
from hiveacid.statements.answers import Listing
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.job import Reader
from hiveacid.statements.values import (
    Command,
    Delete,
    DmlStatement,
    Insert,
    Inserts,
    Literals,
    Merge,
    Query,
    Update,
)
from hiveacid.storage.filesystem import root_of
from hiveacid.storage.plan.scan_plan import ScanPlan
from hiveacid.txn.footprint import Footprint, lock_components
from hiveacid.txn.transaction import Transaction
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Explain(Command):
    """EXPLAIN [EXTENDED | FORMATTED | ...] statement; ``mode`` is '' or the word in lower case."""

    statement: Query | DmlStatement | Command
    mode: str = ""


_MODES = {"extended": "extended", "formatted": "formatted", "cost": "cost", "cbo": "cost"}
_HIDDEN = ("predicate", "columns", "tables")
"""Fields that the tables' lines tell better."""


def explain(context: ExecutionContext, statement: Explain, look: Look) -> Listing:
    """The explanation as lines of text.

    Raises:
        NotFoundError, AcidError: a table could not be looked at.
        pyspark's AnalysisException: a query is wrong.
    """
    if context.unit is not None:
        lines = _Explanation(context, context.unit.txn, look, statement.mode).lines(
            statement.statement
        )
    else:
        with context.client.transactions.begin(read_only=True) as txn:
            lines = _Explanation(context, txn, look, statement.mode).lines(statement.statement)
    return Listing(("Explain",), tuple((line,) for line in lines))


@dataclass(frozen=True, slots=True)
class _Explanation:
    """Explains with a look and a transaction, without locks."""

    context: ExecutionContext
    txn: Transaction
    look: Look
    mode: str

    def lines(self, value: object) -> list[str]:
        if isinstance(value, Query):
            return self._query(value)
        if isinstance(value, Inserts):
            return [line for branch in value.branches for line in self.lines(branch)]
        lines = [type(value).__name__]
        lines += [f"  {name}: {text}" for name, text in _described(value)]
        if isinstance(value, (Update, Delete, Merge)):
            table = self.look.definition(value.table)
            plan = self._reader().plan(table, predicate=value.predicate)
            lines.append(f"  reads: {plan.summary()}")
        queries = value.queries if isinstance(value, Insert) else ()
        if isinstance(value, Merge) and isinstance(value.source, Query):
            queries = (value.source,)
        for query in queries:
            lines += ["  source:", *(f"    {line}" for line in self._query(query))]
        return lines

    def _query(self, query: Query) -> list[str]:
        from hiveacid.statements.select import known_answer, query_frame

        if not query.tables:
            return _plan(self.context.session().sql(query.text), self.mode)
        reader = self._reader()
        known = known_answer(reader, query)
        if known is not None:
            plan = _plan(self.context.session().sql(known), self.mode)
            (ref,) = query.tables.values()
            return ["== Tables ==", f"{ref.name}: answered from metadata", "", *plan]
        plan = _plan(query_frame(reader, query), self.mode)
        read = [
            f"{one.snapshot.table.name}: {one.summary()}{_unreached(self.context.session(), one)}"
            for one in reader.plans
        ]
        return ["== Tables ==", *read, "", *plan]

    def _reader(self) -> Reader:
        return Reader(context=self.context, txn=self.txn, view=self.look)


def _unreached(spark: SparkSession, plan: ScanPlan) -> str:
    """What hiveacid's reader reads because Spark's cannot; the rest Spark's plan tells."""
    from hiveacid.spark.conf import reads_files

    places = [part.part.partition.location for part in plan.parts]
    roots = {root_of(place) for place in places if not reads_files(spark, place)}
    return "".join(f", {root} by hiveacid: Spark reads no files there" for root in sorted(roots))


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


def locks_listing(footprint: Footprint) -> Listing:
    """The locks, a line each, below Hive's title."""
    lines = [_lock_line(one) for one in lock_components(footprint)]
    return Listing(("Explain",), (("LOCK INFORMATION:",), *((line,) for line in lines)))


def _lock_line(one: LockComponent) -> str:
    place = one.database if one.table is None else f"{one.database}.{one.table}"
    if one.partition is not None:
        place += "." + one.partition.replace("/", ".")
    return f"{place} -> {one.type.name}"

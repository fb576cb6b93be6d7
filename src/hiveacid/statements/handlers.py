"""One table: what each kind of statement locks, what it needs, and how it is carried out.

``HANDLERS[type(statement)]`` is asked by the session, which carries statements out, and by EXPLAIN,
which shows what would be done; nobody else decides by the kind of a statement. Four ways lead on:

    ``_changes(plan)``          writes rows: run.change, the loop of DML
    ``_QUERY``                  reads rows: select.open_query, a lazy DataFrame
    ``_defines(plan)``          changes definitions: ddl.change.carry_out, committed at once
    ``_says(answer)``           neither: answered by the metastore or the session, without a lock
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from hiveacid.model.locks import LockComponent
from hiveacid.statements import (
    analyze,
    arrow_changes,
    create_as,
    insert,
    load,
    lock,
    run,
    select,
    session_settings,
    truncate,
)
from hiveacid.statements import values as dml
from hiveacid.statements import values_compactions as compactions
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements import values_locks as locks
from hiveacid.statements import values_transactions as transactions
from hiveacid.statements.arrow_changes import ArrowDelete, ArrowMerge
from hiveacid.statements.checks import check_inserts
from hiveacid.statements.context import Bound, ExecutionContext
from hiveacid.statements.ddl import columns, databases, partitions, properties, tables, views
from hiveacid.statements.ddl.change import Change, carry_out
from hiveacid.statements.ddl.repair import repair
from hiveacid.statements.describe import describe
from hiveacid.statements.evolve import evolved
from hiveacid.statements.explain import explain
from hiveacid.statements.explain_locks import locks_listing
from hiveacid.statements.job import Work
from hiveacid.statements.listing import Listing
from hiveacid.statements.lock import abort_locks
from hiveacid.statements.locked import Needs
from hiveacid.statements.show import ShowStatement, abort_transactions, show
from hiveacid.statements.values_load import Load
from hiveacid.statements.values_upkeep import Analyze, RepairTable
from hiveacid.statements.values_views import AlterView, CreateView, DropView
from hiveacid.txn.footprint import Footprint
from hiveacid.txn.view import Look


@dataclass(frozen=True, slots=True)
class Handler:
    """How one kind of statement is carried out."""

    carry_out: Callable[[ExecutionContext, Bound], Any]
    """The answer: a DataFrame, result values, a ``Listing``, or None."""
    needs: Needs = lambda *_: Footprint()
    """What it reads, writes and defines, for its locks."""
    needs_spark: Callable[[Any], bool] = lambda _: False
    joins_transaction: bool = False
    """It belongs to the transaction that is open."""
    changes_definitions: bool = False
    """It commits at once, so it cannot stand inside a transaction."""


def _no_spark(statement: object) -> bool:
    del statement
    return False


def handler_of(statement: object) -> Handler:
    """How the statement is carried out."""
    return HANDLERS[type(statement)]


def title_of(statement: object) -> str:
    """What a statement is called where people look: ``MERGE INTO default.t``."""
    kind = type(statement)
    words = _TITLES.get(kind) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).upper()
    table = getattr(statement, "table", None) or getattr(statement, "name", None)
    return f"{words} {table}" if table else words


_TITLES: Final[Mapping[type, str]] = {
    dml.Query: "SELECT",
    dml.Insert: "INSERT INTO",
    dml.Inserts: "FROM ... INSERT",
    dml.Delete: "DELETE FROM",
    dml.Merge: "MERGE INTO",
    Load: "LOAD DATA INTO",
    ArrowDelete: "DELETE FROM",
    ArrowMerge: "MERGE INTO",
}


# -------------------------------------------------------------------- rows


def _changes(
    plan: Callable[[Any, Look], Work], *, needs_spark: Callable[[Any], bool] = lambda _: True
) -> Handler:
    return _writes(lambda _, statement, look: (plan(statement, look),), needs_spark=needs_spark)


def _writes(
    plan: run.Planner,
    *,
    needs: Needs | None = None,
    needs_spark: Callable[[Any], bool] = lambda _: True,
) -> Handler:
    wanted = needs or run.needs_of(plan)
    return Handler(
        carry_out=lambda context, bound: run.change(context, bound, plan, wanted)[0],
        needs=wanted,
        needs_spark=needs_spark,
        joins_transaction=True,
    )


def _insert(context: ExecutionContext, statement: dml.Insert, look: Look) -> Sequence[Work]:
    return (insert.plan(evolved(context, statement, look), look),)


def _branches(context: ExecutionContext, statement: dml.Inserts, look: Look) -> Sequence[Work]:
    del context
    check_inserts(statement.branches)
    return [insert.plan(branch, look) for branch in statement.branches]


def _update(statement: dml.Update, look: Look) -> Work:
    from hiveacid.statements import update  # needs pyspark

    return update.plan(statement, look)


def _delete(statement: dml.Delete, look: Look) -> Work:
    from hiveacid.statements import delete  # needs pyspark

    return delete.plan(statement, look)


def _merge(context: ExecutionContext, statement: dml.Merge, look: Look) -> Sequence[Work]:
    from hiveacid.statements import merge  # needs pyspark

    return (merge.plan(evolved(context, statement, look), look),)


_QUERY: Final = Handler(
    carry_out=select.open_query,
    needs=select.needs,
    needs_spark=lambda _: True,
    joins_transaction=True,
)
_INSERTS: Final = Handler(
    carry_out=lambda context, bound: run.change(context, bound, _branches, run.needs_of(_branches)),
    needs=run.needs_of(_branches),
    needs_spark=lambda _: True,
    joins_transaction=True,
)
_ROWS: Final[Mapping[type, Handler]] = {
    dml.Query: _QUERY,
    dml.Insert: _writes(
        _insert,
        needs_spark=lambda value: isinstance(value.source, dml.Query),
    ),
    dml.Inserts: _INSERTS,
    dml.Update: _changes(_update),
    dml.Delete: _changes(_delete),
    dml.Merge: _writes(_merge),
    ddl.Truncate: _changes(truncate.plan, needs_spark=_no_spark),
    Load: _writes(
        lambda context, statement, look: (load.plan(context, statement, look),),
        needs=load.needs,
        needs_spark=_no_spark,
    ),
    ArrowDelete: _changes(arrow_changes.plan, needs_spark=_no_spark),
    ArrowMerge: _changes(arrow_changes.plan, needs_spark=_no_spark),
}


# -------------------------------------------------------------------- definitions


def _defines(plan: Callable[[ExecutionContext, Any], Change]) -> Handler:
    return Handler(
        carry_out=lambda context, bound: carry_out(context, partial(plan, context, bound.value)),
        needs=lambda context, value, _: Footprint(definitions=plan(context, value).locks),
        changes_definitions=True,
    )


def _drop_database(context: ExecutionContext, bound: Bound) -> None:
    carry_out(context, partial(databases.drop_database, context, bound.value))
    session_settings.leave_database(context, bound.value.name)


_DEFINITIONS: Final[Mapping[type, Handler]] = {
    ddl.CreateTable: Handler(
        carry_out=create_as.create_table,
        needs=create_as.needs,
        needs_spark=lambda statement: statement.query is not None,
        changes_definitions=True,
    ),
    CreateView: Handler(
        carry_out=create_as.create_view,
        needs=views.needs,
        needs_spark=lambda _: True,
        changes_definitions=True,
    ),
    Analyze: Handler(
        carry_out=analyze.carry_out,
        needs=analyze.needs,
        needs_spark=lambda statement: not statement.noscan,
        changes_definitions=True,
    ),
    ddl.CreateDatabase: _defines(databases.create_database),
    ddl.DropDatabase: replace(_defines(databases.drop_database), carry_out=_drop_database),
    ddl.DropTable: _defines(tables.drop_table),
    ddl.RenameTable: _defines(tables.rename_table),
    ddl.SetLocation: _defines(tables.set_location),
    ddl.AddColumns: _defines(columns.add_columns),
    ddl.ChangeColumn: _defines(columns.change_column),
    ddl.AddConstraints: _defines(columns.add_constraints),
    ddl.DropConstraint: _defines(columns.drop_constraint),
    ddl.SetTableProperties: _defines(properties.set_properties),
    ddl.UnsetTableProperties: _defines(properties.unset_properties),
    ddl.AddPartitions: _defines(partitions.add_partitions),
    ddl.DropPartitions: _defines(partitions.drop_partitions),
    ddl.RenamePartition: _defines(partitions.rename_partition),
    AlterView: _defines(views.alter_view),
    DropView: _defines(views.drop_view),
    RepairTable: _defines(repair),
}


# -------------------------------------------------------------------- what takes no locks


def _says(answer: Callable[[ExecutionContext, Any], Any], *, commits: bool = False) -> Handler:
    return Handler(
        carry_out=lambda context, bound: answer(context, bound.value), changes_definitions=commits
    )


def _explain(context: ExecutionContext, bound: Bound) -> Listing:
    value: ddl.Explain = bound.value
    handler = handler_of(value.statement)
    if value.mode == "locks":
        return locks_listing(handler.needs(context, value.statement, bound.look))
    return explain(context, value, bound.look)


def _locks_taken(context: ExecutionContext, statement: Any, look: Look) -> Footprint:
    del look
    component: LockComponent = lock.component(context.client.metastore, statement)
    return Footprint(definitions=(component,))


_lock = Handler(
    carry_out=lambda context, bound: lock.execute(context.client.transactions, bound.value),
    needs=_locks_taken,
    changes_definitions=True,
)
_unlock = Handler(
    carry_out=lambda context, bound: lock.execute(context.client.transactions, bound.value),
    changes_definitions=True,
)
_ANSWERS: Final[Mapping[type, Handler]] = {
    ddl.Explain: Handler(
        carry_out=_explain, needs_spark=lambda statement: statement.mode != "locks"
    ),
    ddl.SetProperty: _says(session_settings.set_property),
    ddl.ResetProperties: _says(session_settings.reset),
    ddl.UseDatabase: _says(session_settings.use_database),
    ddl.AbortTransactions: _says(
        lambda context, value: abort_transactions(context.client.metastore, value)
    ),
    ddl.AbortLocks: _says(
        lambda context, value: abort_locks(context.client.metastore, value.locks)
    ),
    locks.LockTable: _lock,
    locks.LockDatabase: _lock,
    locks.UnlockTable: _unlock,
    locks.UnlockDatabase: _unlock,
    compactions.Compact: _says(
        lambda context, value: context.owner.compactions_listing(value), commits=True
    ),
    **dict.fromkeys(
        ShowStatement.__args__,
        _says(lambda context, value: show(context.client.metastore, value)),
    ),
    **dict.fromkeys(
        (ddl.DescribeTable, ddl.DescribeDatabase),
        _says(lambda context, value: describe(context.client.metastore, value)),
    ),
    **dict.fromkeys(
        (
            compactions.ShowCompactions,
            compactions.AbortCompactions,
            compactions.Clean,
            compactions.WhyCompact,
        ),
        _says(lambda context, value: context.owner.compactions_listing(value)),
    ),
    **dict.fromkeys(
        transactions.TransactionStatement.__args__,
        _says(lambda context, value: context.owner.control(value)),
    ),
}

HANDLERS: Final[Mapping[type, Handler]] = {**_ROWS, **_DEFINITIONS, **_ANSWERS}
"""The handler of each kind of statement."""

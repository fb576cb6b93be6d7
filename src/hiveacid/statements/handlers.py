"""One table: what each kind of statement locks, what it needs, and how it is carried out.

``HANDLERS[type(statement)]`` is asked by the session, which carries statements out, and by EXPLAIN,
which shows what would be done: only here its kind decides what is locked and who carries it out.
Compaction and transaction statements are told apart once more where they are carried out
(``Compacting.execute``, ``TransactionControl.apply``). Four ways lead on:

    ``_changes(plan)``          writes rows: run.change, the loop of DML
    ``dml.Query``               reads rows: select.open_query, a lazy DataFrame
    ``_defines(plan)``          changes definitions: context.define, committed at once
    ``_says(answer)``           neither: answered by the metastore or the session, without a lock
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from hiveacid.client import DEFAULT_DATABASE
from hiveacid.statements import (
    analyze,
    compact,
    create_as,
    describe,
    driver_merge,
    history,
    insert,
    load,
    run,
    select,
    session_state,
    show,
    undo,
)
from hiveacid.statements import values as dml
from hiveacid.statements.checks import check_inserts
from hiveacid.statements.context import (
    Bound,
    DdlPlanner,
    ExecutionContext,
    Needs,
    define,
    words_of,
)
from hiveacid.statements.ddl import (
    columns,
    databases,
    partitions,
    tables,
    views,
)
from hiveacid.statements.evolve import evolved, named
from hiveacid.statements.job import Work
from hiveacid.statements.values import Listing
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


def _no_spark(_: object) -> bool:
    return False


def handler_of(statement: object) -> Handler:
    """How the statement is carried out."""
    return HANDLERS[type(statement)]


def title_of(statement: object) -> str:
    """What a statement is called where people look: ``MERGE INTO default.t``."""
    kind = type(statement)
    words = _TITLES.get(kind) or words_of(kind)
    table = getattr(statement, "table", None) or getattr(statement, "name", None)
    return f"{words} {table}" if table else words


def without_spark(statement: object) -> str:
    """What does the same without Spark; '' for nothing."""
    call = _WITHOUT_SPARK.get(type(statement))
    return f"Without Spark: {call}." if call else ""


_WITHOUT_SPARK: Final[Mapping[type, str]] = {
    dml.Query: "hiveacid.read_arrow(acid.table(name)) reads rows, hiveacid.dataset is for DuckDB"
    " and Polars",
    dml.Insert: "INSERT ... VALUES of literals, write_arrow and insert of rows that the driver has",
    dml.Update: "merge_arrow",
    dml.Delete: "delete_arrow",
    dml.Merge: "merge_arrow",
}
_TITLES: Final[Mapping[type, str]] = {
    dml.Query: "SELECT",
    dml.Insert: "INSERT INTO",
    dml.Inserts: "FROM ... INSERT",
    dml.Delete: "DELETE FROM",
    dml.Merge: "MERGE INTO",
    load.Load: "LOAD DATA INTO",
    driver_merge.ArrowDelete: "DELETE FROM",
    driver_merge.ArrowMerge: "MERGE INTO",
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
    several: bool = False,
) -> Handler:
    """``several`` results, one for each work of the plan; else there is one."""
    wanted = needs or run.needs_of(plan)

    def carry_out(context: ExecutionContext, bound: Bound) -> Any:
        results = run.change(context, bound, plan, wanted)
        return results if several else results[0]

    return Handler(
        carry_out=carry_out,
        needs=wanted,
        needs_spark=needs_spark,
        joins_transaction=True,
    )


def _insert(context: ExecutionContext, statement: dml.Insert, look: Look) -> Sequence[Work]:
    return (insert.plan(named(evolved(context, statement, look), look), look),)


def _branches(_: ExecutionContext, statement: dml.Inserts, look: Look) -> Sequence[Work]:
    check_inserts(statement.branches)
    return [insert.plan(branch, look) for branch in statement.branches]


def _of_condition(statement: dml.Update | dml.Delete, look: Look) -> Work:
    if isinstance(statement, dml.Delete) and statement.where is None:
        return insert.plan_delete(statement, look)
    from hiveacid.statements import update  # needs pyspark

    return update.plan(statement, look)


def _merge(context: ExecutionContext, statement: dml.Merge, look: Look) -> Sequence[Work]:
    from hiveacid.statements import merge  # needs pyspark

    return (merge.plan(evolved(context, statement, look), look),)


_ROWS: Final[Mapping[type, Handler]] = {
    dml.Query: Handler(
        carry_out=select.open_query,
        needs=select.needs,
        needs_spark=lambda _: True,
        joins_transaction=True,
    ),
    dml.Insert: _writes(
        _insert,
        needs_spark=lambda value: isinstance(value.source, dml.Query),
    ),
    dml.Inserts: _writes(_branches, several=True),
    dml.Update: _changes(_of_condition),
    dml.Delete: _changes(_of_condition, needs_spark=lambda value: value.where is not None),
    dml.Merge: _writes(_merge),
    insert.Truncate: _changes(insert.plan_truncate, needs_spark=_no_spark),
    load.Load: _writes(
        lambda context, statement, look: (load.plan(context, statement, look),),
        needs=load.needs,
        needs_spark=_no_spark,
    ),
    driver_merge.ArrowDelete: _changes(driver_merge.plan, needs_spark=_no_spark),
    driver_merge.ArrowMerge: _changes(driver_merge.plan, needs_spark=_no_spark),
    history.UndoTransaction: _writes(undo.plan, needs_spark=_no_spark, several=True),
}


# -------------------------------------------------------------------- definitions


def _defines(plan: DdlPlanner) -> Handler:
    def needs(context: ExecutionContext, value: Any, look: Look) -> Footprint:
        change = plan(context, value, look)
        return Footprint(definitions=() if change is None else change.locks)

    def carry_out(context: ExecutionContext, bound: Bound) -> Listing | None:
        answer = define(context, bound, plan)
        return answer if isinstance(answer, Listing) else None

    return Handler(carry_out=carry_out, needs=needs, changes_definitions=True)


def _drop_database(context: ExecutionContext, bound: Bound) -> None:
    define(context, bound, databases.drop_database)
    if bound.value.name == context.database:
        context.owner.use_database(DEFAULT_DATABASE)


_DEFINITIONS: Final[Mapping[type, Handler]] = {
    tables.CreateTable: Handler(
        carry_out=create_as.create_table,
        needs=create_as.needs,
        needs_spark=lambda statement: statement.query is not None,
        changes_definitions=True,
    ),
    views.CreateView: Handler(
        carry_out=create_as.create_view,
        needs=views.needs,
        needs_spark=lambda _: True,
        changes_definitions=True,
    ),
    analyze.Analyze: Handler(
        carry_out=analyze.carry_out,
        needs=analyze.needs,
        needs_spark=lambda statement: not statement.noscan,
        changes_definitions=True,
    ),
    databases.CreateDatabase: _defines(databases.create_database),
    databases.SetDatabaseProperties: _defines(databases.set_database_properties),
    databases.DropDatabase: replace(_defines(databases.drop_database), carry_out=_drop_database),
    tables.DropTable: _defines(tables.drop_table),
    tables.RenameTable: _defines(tables.rename_table),
    tables.SetLocation: _defines(tables.set_location),
    columns.AddColumns: _defines(columns.add_columns),
    columns.ChangeColumn: _defines(columns.change_column),
    columns.AddConstraints: _defines(columns.add_constraints),
    columns.DropConstraint: _defines(columns.drop_constraint),
    columns.SetTableProperties: _defines(columns.set_properties),
    columns.UnsetTableProperties: _defines(columns.unset_properties),
    partitions.AddPartitions: _defines(partitions.add_partitions),
    partitions.DropPartitions: _defines(partitions.drop_partitions),
    partitions.RenamePartition: _defines(partitions.rename_partition),
    partitions.ChangePartitionColumn: _defines(partitions.change_partition_column),
    views.AlterView: _defines(views.alter_view),
    views.DropView: _defines(views.drop_view),
    partitions.RepairTable: _defines(partitions.repair),
}


# -------------------------------------------------------------------- what takes no locks


def _says(answer: Callable[[ExecutionContext, Any], Any], *, commits: bool = False) -> Handler:
    return Handler(
        carry_out=lambda context, bound: answer(context, bound.value), changes_definitions=commits
    )


def _tagged(context: ExecutionContext, value: history.CreateTag) -> None:
    history.create(context.client, context.look(), value)


def _history(context: ExecutionContext, value: history.DescribeHistory) -> Listing:
    if value.where is not None:
        return context.owner.rows_explained(value)
    return history.history_listing(context.client.metastore, value)


def _explain(context: ExecutionContext, bound: Bound) -> Listing:
    value: describe.Explain = bound.value
    handler = handler_of(value.statement)
    if value.mode == "locks":
        return describe.locks_listing(handler.needs(context, value.statement, bound.look))
    return describe.explain(context, bound)


_unlock = Handler(
    carry_out=lambda context, bound: session_state.execute(
        context.client.transactions, bound.value
    ),
    changes_definitions=True,
)
_lock = replace(
    _unlock,
    needs=lambda context, statement, _: Footprint(
        definitions=(session_state.component(context.client.metastore, statement),)
    ),
)
_ANSWERS: Final[Mapping[type, Handler]] = {
    describe.Explain: Handler(
        carry_out=_explain, needs_spark=lambda statement: statement.mode != "locks"
    ),
    session_state.SetProperty: _says(session_state.set_property),
    session_state.ResetProperties: _says(session_state.reset),
    session_state.UseDatabase: _says(session_state.use_database),
    session_state.AbortTransactions: _says(
        lambda context, value: session_state.abort_transactions(context.client.metastore, value)
    ),
    session_state.AbortLocks: _says(
        lambda context, value: session_state.abort_locks(context.client.metastore, value.locks)
    ),
    session_state.LockTable: _lock,
    session_state.LockDatabase: _lock,
    session_state.UnlockTable: _unlock,
    session_state.UnlockDatabase: _unlock,
    compact.Compact: _says(
        lambda context, value: context.owner.compacting.listing(value), commits=True
    ),
    dml.Purge: Handler(
        carry_out=lambda context, bound: context.owner.purged(bound.value, spark=context.spark),
        changes_definitions=True,
    ),
    history.RestoreTable: _says(lambda context, value: context.owner.restored(value)),
    history.CreateTag: _says(_tagged),
    history.DropPin: _says(lambda context, value: history.drop(context.client.metastore, value)),
    history.ShowPins: _says(lambda context, value: history.pins_listing(context.client, value)),
    history.DescribeHistory: _says(_history),
    **dict.fromkeys(
        (show.ShowTables, show.ShowViews),
        _says(lambda context, value: show.show_tables(context.client, value)),
    ),
    **dict.fromkeys(
        show.ANSWERS,
        _says(lambda context, value: show.show(context.client.metastore, value)),
    ),
    **dict.fromkeys(
        (describe.DescribeTable, describe.DescribeDatabase),
        _says(lambda context, value: describe.describe(context.client.metastore, value)),
    ),
    **dict.fromkeys(
        (
            compact.ShowCompactions,
            compact.AbortCompactions,
            compact.Clean,
            compact.WhyCompact,
            dml.DescribeDetail,
        ),
        _says(lambda context, value: context.owner.compacting.listing(value)),
    ),
    **dict.fromkeys(
        session_state.TransactionStatement.__args__,
        _says(lambda context, value: context.owner.control(value)),
    ),
}

HANDLERS: Final[Mapping[type, Handler]] = {**_ROWS, **_DEFINITIONS, **_ANSWERS}
"""The handler of each kind of statement."""

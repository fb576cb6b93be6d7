"""Views: a query kept under a name; bound into the text of each statement that names it.

The stored text has full names and no stars, as Hive's VIEW_EXPANDED_TEXT, so a view keeps its
meaning in every database and when a table gets columns. Its columns are those of the query when
it was made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hiveacid.errors import AlreadyExistsError, InvalidInputError, no_such_table
from hiveacid.model.tables import Column, Table, TableKind, TableName
from hiveacid.spark.session import quoted
from hiveacid.statements.context import DdlPlan, ExecutionContext
from hiveacid.statements.ddl.definitions import check_columns
from hiveacid.statements.values import Command, Query
from hiveacid.txn import footprint
from hiveacid.txn.footprint import Footprint
from hiveacid.txn.view import Look


@dataclass(frozen=True, slots=True)
class CreateView(Command):
    """CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name [(columns)] [COMMENT] [PARTITIONED ON (names)]
    [TBLPROPERTIES] AS query.

    ``columns`` are names with comments, empty where the query's names are taken. ``original`` is
    the query as written, ``expanded`` with full names in place of tables and stars, both Hive SQL;
    ``query`` is the same for Spark, ``query_columns`` are what it gives. ``partitioned_on`` are the
    last columns, and changes nothing. ``alter`` is ALTER VIEW name AS query.
    """

    name: TableName
    columns: tuple[tuple[str, str | None], ...] = ()
    query: Query | None = None
    original: str = ""
    expanded: str = ""
    comment: str | None = None
    partitioned_on: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    or_replace: bool = False
    if_not_exists: bool = False
    alter: bool = False
    query_columns: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True)
class DropView(Command):
    """DROP VIEW [IF EXISTS] name."""

    name: TableName
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AlterView(Command):
    """ALTER VIEW name SET | UNSET TBLPROPERTIES | RENAME TO: exactly one of the last three."""

    name: TableName
    properties: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    new_name: TableName | None = None


def create_view(context: ExecutionContext, statement: CreateView, look: Look) -> DdlPlan | None:
    """CREATE VIEW, or ALTER VIEW AS.

    Raises:
        AlreadyExistsError: 10073 the name is taken, and neither OR REPLACE nor IF NOT EXISTS.
        InvalidInputError: the name is that of a table; another number of columns than names; 10036
            a name twice; 10092, 10093 it is PARTITIONED ON all columns, or others than its last.
        NotFoundError: no such database, or no such view to alter.
    """
    name, metastore = statement.name, context.client.metastore
    old = look.table(name)
    if old is None:
        if statement.alter:
            raise no_such_table(name)
        look.database(name.database)
        view = _definition(context, statement, None)

        locks = footprint.create_table(name.database)
        return DdlPlan(
            locks, lambda _: metastore.create_table(view), guards=footprint.alter_table(name)
        )
    if not statement.alter:
        if statement.if_not_exists:
            return None
        if not statement.or_replace:
            raise AlreadyExistsError(f"Table already exists: {name}", code=10073, view=str(name))
    _require_view(old)

    return DdlPlan(
        footprint.alter_table(name),
        lambda _: metastore.alter_table(name, lambda now: _definition(context, statement, now)),
    )


def needs(_: ExecutionContext, statement: CreateView, look: Look) -> Footprint:
    """Of an existing view the definition, else the database."""
    if look.table(statement.name) is None:
        return Footprint(definitions=footprint.create_table(statement.name.database))
    return Footprint(definitions=footprint.alter_table(statement.name))


def _definition(context: ExecutionContext, statement: CreateView, old: Table | None) -> Table:
    columns = statement.query_columns
    names = statement.columns or tuple((column.name, None) for column in columns)
    if len(names) != len(columns):
        raise InvalidInputError(
            "The number of columns produced by the SELECT clause does not match the number of "
            "column names specified by CREATE VIEW",
            view=str(statement.name),
        )
    named = tuple(
        replace(column, name=name, comment=comment)
        for column, (name, comment) in zip(columns, names, strict=True)
    )
    check_columns(named, ())
    _check_partitions(statement, named)
    kept = old if old is not None and statement.alter else None
    return Table(
        name=statement.name,
        columns=named,
        location="",
        kind=TableKind.VIEW,
        properties=dict(statement.properties) if kept is None else kept.properties,
        comment=statement.comment if kept is None else kept.comment,
        view_text=statement.original,
        view_expanded=_renaming(statement, named),
        owner=context.client.transactions.user,
        created_at_ms=context.client.clock.now_ms(),
    )


def _check_partitions(statement: CreateView, named: Sequence[Column]) -> None:
    wanted = statement.partitioned_on
    if wanted and len(wanted) >= len(named):
        what = "At least one non-partitioning column must be present in view"
        raise InvalidInputError(what, code=10092, view=str(statement.name))
    if wanted != tuple(column.name for column in named)[len(named) - len(wanted) :]:
        what = "Rightmost columns in view output do not match PARTITIONED ON clause"
        raise InvalidInputError(what, code=10093, view=str(statement.name))


def _renaming(statement: CreateView, named: Sequence[Column]) -> str:
    """The expanded text with the view's own column names, as Hive writes it; where the query has
    columns without a name, those of the catalog name them by position.
    """
    columns = statement.query_columns
    nameless = any(re.fullmatch(r"_c\d+", column.name) for column in columns)
    if not statement.columns or nameless:
        return statement.expanded
    pairs = ", ".join(
        f"{quoted(column.name)} AS {quoted(new.name)}"
        for column, new in zip(columns, named, strict=True)
    )
    return f"SELECT {pairs} FROM ({statement.expanded}) {quoted(statement.name.table)}"


def alter_view(context: ExecutionContext, statement: AlterView, look: Look) -> DdlPlan:
    """ALTER VIEW SET | UNSET TBLPROPERTIES | RENAME TO.

    Raises:
        NotFoundError: no such view.
        InvalidInputError: it is a table.
        AlreadyExistsError: the new name is taken.
    """
    metastore, new_name = context.client.metastore, statement.new_name
    view = look.definition(statement.name)
    _require_view(view)
    if new_name is not None:
        return DdlPlan(
            footprint.rename_table(view.name, new_name),
            lambda _: metastore.alter_table(view.name, lambda now: replace(now, name=new_name)),
            guards=footprint.alter_table(new_name),
        )

    def altered(now: Table) -> Table:
        properties = {**now.properties, **statement.properties}
        kept = {key: text for key, text in properties.items() if key not in statement.unset}
        return replace(now, properties=kept)

    return DdlPlan(
        footprint.use_table(view.name), lambda _: metastore.alter_table(view.name, altered)
    )


def drop_view(context: ExecutionContext, statement: DropView, look: Look) -> DdlPlan | None:
    """DROP VIEW; Hive does not mind one that does not exist.

    Raises:
        InvalidInputError: it is a table.
    """
    view = look.table(statement.name)
    if view is None:
        return None
    if view.kind is not TableKind.VIEW:
        raise InvalidInputError("Cannot drop a base table with DROP VIEW", table=str(view.name))

    return DdlPlan(
        footprint.drop_table(view.name), lambda _: context.client.metastore.drop_table(view.name)
    )


def _require_view(table: Table) -> None:
    if table.kind is not TableKind.VIEW:
        raise InvalidInputError(f"Existing table {table.name} is not a view", code=10218)

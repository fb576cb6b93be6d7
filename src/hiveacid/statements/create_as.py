"""Tables and views made of a query: CREATE TABLE AS, CREATE VIEW; a table made of a DataFrame."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hiveacid.model.tables import Column
from hiveacid.model.types import PrimitiveType
from hiveacid.statements import insert, run, select
from hiveacid.statements.context import Bound, ExecutionContext, fixed
from hiveacid.statements.ddl import tables, views
from hiveacid.statements.ddl.tables import CreateTable, check_query_columns
from hiveacid.statements.ddl.views import CreateView
from hiveacid.statements.evolve import columns_of, columns_of_rows, renamed
from hiveacid.statements.locked import define
from hiveacid.statements.values import Insert
from hiveacid.txn import footprint
from hiveacid.txn.footprint import Footprint, TableWrite, WriteKind
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from pyarrow import Table as ArrowTable
    from pyspark.sql import DataFrame

_SOME_COLUMN: Final = Column("c", PrimitiveType("int"))


def create_table(context: ExecutionContext, bound: Bound) -> None:
    """CREATE TABLE, with the rows of its query where it has one: all or nothing."""
    statement: CreateTable = bound.value
    if statement.query is None:
        tables.make_table(context, statement)
        return
    query = Bound(statement.query, bound.look, lambda look: bound.bind(look).query)
    create_from(context, statement, select.open_query(context, query))


def create_from(
    context: ExecutionContext, statement: CreateTable, rows: DataFrame | ArrowTable
) -> None:
    """Make the table with the columns of the rows and put them in; all or nothing."""
    columns = columns_of_rows(rows)
    check_query_columns(statement, columns)
    plain = replace(statement, query=None)
    filled = Insert(plain.name, renamed(rows, columns), by_name=True)

    def plan(_: ExecutionContext, statement: Insert, look: Look) -> list[insert.InsertWork]:
        return [insert.plan(statement, look)]

    with tables.created_as(context, plain, columns) as made:
        if made:
            bound = Bound.to(context.look(), fixed(filled))
            run.change(context, bound, plan, run.needs_of(plan))


def needs(context: ExecutionContext, statement: CreateTable, look: Look) -> Footprint:
    """The query's locks, that of the definition, and that of the INSERT that follows."""
    created = footprint.create_table(statement.name.database)
    if statement.query is None:
        return Footprint(definitions=created)
    plain = replace(statement, query=None, partition_names=(), columns=(_SOME_COLUMN,))
    table = tables.definition_of(context, plain, look)
    return Footprint(
        reads=select.needs(context, statement.query, look).reads,
        writes=(TableWrite(table, WriteKind.INSERT),),
        definitions=created,
    )


def create_view(context: ExecutionContext, bound: Bound) -> None:
    """CREATE VIEW, ALTER VIEW AS: the query's columns come from the tables' definitions."""

    def with_columns(look: Look) -> CreateView:
        statement: CreateView = bound.value if look is bound.look else bound.bind(look)
        assert statement.query is not None
        schema = select.query_schema(context, statement.query, look)
        return replace(statement, query_columns=columns_of(schema))

    define(context, Bound.to(bound.look, with_columns), views.create_view)

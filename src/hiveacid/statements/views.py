"""Views: a query kept under a name; bound into the text of each statement that names it.

The stored text has full names and no stars, as Hive's VIEW_EXPANDED_TEXT, so a view keeps its
meaning in every database and when a table gets columns. Its columns are those of the query when
it was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hiveacid.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from hiveacid.model.tables import Column, Table, TableKind, TableName
from hiveacid.statements import values_views as views
from hiveacid.statements.context import ExecutionContext
from hiveacid.statements.ddl_context import DdlContext
from hiveacid.statements.definitions import check_columns
from hiveacid.txn import footprint
from hiveacid.txn.footprint import Footprint
from hiveacid.txn.view import Look


def create_view(
    context: DdlContext, statement: views.CreateView, columns: Sequence[Column]
) -> None:
    """CREATE VIEW, or ALTER VIEW AS; ``columns`` are those of the query.

    Raises:
        AlreadyExistsError: 10073 the name is taken, and neither OR REPLACE nor IF NOT EXISTS.
        InvalidInputError: the name is that of a table; another number of columns than names; 10036
            a name twice.
        NotFoundError: no such database, or no such view to alter.
    """
    old = _found(context, statement.name)
    if old is None and statement.alter:
        raise NotFoundError(f"Table not found {statement.name}", code=10001)
    if old is not None and not statement.alter:
        if statement.if_not_exists:
            return
        if not statement.or_replace:
            raise AlreadyExistsError(
                f"Table already exists: {statement.name}", code=10073, view=str(statement.name)
            )
    if old is not None:
        _require_view(old)
    view = _definition(context, statement, columns, old)
    if old is None:
        context.metastore.get_database(statement.name.database)
        with context.locked(footprint.create_table(statement.name.database)):
            context.metastore.create_table(view)
        return
    with context.locked(footprint.alter_table(statement.name)):
        context.metastore.alter_table(statement.name, view)


def needs(context: ExecutionContext, statement: views.CreateView, look: Look) -> Footprint:
    """Of an existing view the definition, else the database."""
    del context
    view = look.table(statement.name)
    if view is None:
        return Footprint(definitions=footprint.create_table(statement.name.database))
    return Footprint(definitions=footprint.alter_table(statement.name))


def _definition(
    context: DdlContext, statement: views.CreateView, columns: Sequence[Column], old: Table | None
) -> Table:
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
    kept = old if old is not None and statement.alter else None
    return Table(
        name=statement.name,
        columns=named,
        location="",
        kind=TableKind.VIEW,
        properties=dict(statement.properties) if kept is None else kept.properties,
        comment=statement.comment if kept is None else kept.comment,
        view_text=statement.original,
        view_expanded=_renaming(statement, columns, named),
        owner=context.client.transactions.user,
        created_at_ms=context.client.clock.now_ms(),
    )


def _renaming(
    statement: views.CreateView, columns: Sequence[Column], named: Sequence[Column]
) -> str:
    """The expanded text with the view's own column names, as Hive writes it; where the query has
    columns without a name, those of the catalog name them by position.
    """
    nameless = any(column.name == f"_c{at}" for at, column in enumerate(columns))
    if not statement.columns or nameless:
        return statement.expanded
    pairs = ", ".join(
        f"{_quoted(column.name)} AS {_quoted(new.name)}"
        for column, new in zip(columns, named, strict=True)
    )
    return f"SELECT {pairs} FROM ({statement.expanded}) {_quoted(statement.name.table)}"


def alter_view(context: DdlContext, statement: views.AlterView) -> None:
    """ALTER VIEW SET | UNSET TBLPROPERTIES | RENAME TO.

    Raises:
        NotFoundError: no such view.
        InvalidInputError: it is a table.
        AlreadyExistsError: the new name is taken.
    """
    view = context.metastore.get_table(statement.name)
    _require_view(view)
    if statement.new_name is not None:
        with context.locked(footprint.rename_table(view.name, statement.new_name)):
            context.metastore.rename_table(view.name, statement.new_name, location=view.location)
        return
    changed = {**view.properties, **statement.properties}
    kept = {key: value for key, value in changed.items() if key not in statement.unset}
    with context.locked(footprint.use_table(view.name)):
        context.metastore.alter_table(view.name, replace(view, properties=kept))


def drop_view(context: DdlContext, statement: views.DropView) -> None:
    """DROP VIEW; Hive does not mind one that does not exist.

    Raises:
        InvalidInputError: it is a table.
    """
    view = _found(context, statement.name)
    if view is None:
        return
    if view.kind is not TableKind.VIEW:
        raise InvalidInputError("Cannot drop a base table with DROP VIEW", table=str(view.name))
    with context.locked(footprint.drop_table(view.name)):
        context.metastore.drop_table(view.name, if_exists=True)


def _found(context: DdlContext, name: TableName) -> Table | None:
    try:
        return context.metastore.get_table(name)
    except NotFoundError:
        return None


def _require_view(table: Table) -> None:
    if table.kind is not TableKind.VIEW:
        raise InvalidInputError(f"Existing table {table.name} is not a view", code=10218)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

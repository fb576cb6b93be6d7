"""Parsed statements -> statement values: names get their database, queries their placeholders."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from hiveacid.errors import NotFoundError, UnsupportedError
from hiveacid.model.predicates import ANYTHING, Predicate
from hiveacid.model.tables import Table, TableKind, TableName
from hiveacid.sql.needs import aggregates_of, columns_of_statement, condition_on
from hiveacid.sql.parse import ParsedExplain, ParsedLater, Statement, parse_expression
from hiveacid.sql.parsed import (
    Assignment,
    DefaultKeyword,
    Fragment,
    ParsedClause,
    ParsedCreateAs,
    ParsedDelete,
    ParsedExpression,
    ParsedInsert,
    ParsedInserts,
    ParsedMerge,
    ParsedQuery,
    ParsedRows,
    ParsedUpdate,
    ParsedView,
    Relation,
    Scope,
)
from hiveacid.sql.splice import Names, Splicer, quoted
from hiveacid.statements import values_ddl as ddl
from hiveacid.statements.constraints import column_default
from hiveacid.statements.values import (
    Delete,
    Insert,
    Inserts,
    Literals,
    MatchedDelete,
    MatchedUpdate,
    Merge,
    MergeClause,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    Query,
    TableRef,
    Update,
)
from hiveacid.statements.values_transactions import TransactionStatement

__all__ = ["Bound", "Names", "bind", "bind_texts"]

Bound = (
    Query
    | Insert
    | Inserts
    | Update
    | Delete
    | Merge
    | ddl.DdlStatement
    | ddl.Explain
    | TransactionStatement
)

DEFAULT_PREFIX = "__hiveacid_"


def bind(statement: Statement, names: Names, *, prefix: str = DEFAULT_PREFIX) -> Bound:
    """The value of a parsed statement; placeholders are ``prefix`` and a number.

    Raises:
        NotFoundError: the target of DML is not a table of ours (Hive's 10001).
        UnsupportedError: a view in a query.
    """
    body = statement.body
    splicer = Splicer(names, prefix=prefix)
    if isinstance(body, ParsedQuery):
        return _query(body.fragment, splicer)
    if isinstance(body, ParsedInsert):
        return _insert(body, names, prefix)
    if isinstance(body, ParsedInserts):
        branches = []
        for number, branch in enumerate(body.branches):
            branches.append(_insert(branch, names, f"{prefix}{number}_"))
        return Inserts(_joined(branches, names))
    if isinstance(body, ParsedUpdate):
        return _update(body, names, splicer)
    if isinstance(body, ParsedDelete):
        table = _target(body.table, names, splicer)
        where = None if body.where is None else splicer.text(body.where)
        predicate = _row_predicate(body.where, table, body.alias)
        columns = columns_of_statement("" if body.where is None else body.where.text, table)
        return Delete(table.name, where, body.alias, splicer.tables, predicate, columns)
    if isinstance(body, ParsedMerge):
        return _merge(body, names, splicer)
    if isinstance(body, ParsedExplain):
        inner = bind(body.statement, names, prefix=prefix)
        if isinstance(inner, (ddl.Explain, TransactionStatement)):
            raise UnsupportedError(f"EXPLAIN of {body.statement.text} is not supported")
        return ddl.Explain(inner, body.mode)
    if isinstance(body, ParsedCreateAs):
        query = _query(body.query.fragment, splicer)
        return _ddl(dataclasses.replace(body.table, query=query), names, splicer)
    if isinstance(body, ParsedView):
        return _view(body, names, splicer)
    if isinstance(body, TransactionStatement):
        return body
    assert not isinstance(body, ParsedLater), "resolved before it is bound"
    return _ddl(body, names, splicer)


def _view(body: ParsedView, names: Names, splicer: Splicer) -> ddl.DdlStatement:
    """A view's query for Spark, as written, and with full names; it must not need itself."""
    name = splicer.qualify(body.view.name)
    fragment = body.query.fragment
    within = Splicer(names, prefix=splicer.prefix, expanding=(name,))
    view = dataclasses.replace(
        body.view,
        query=_query(fragment, within),
        original=fragment.text,
        expanded=within.qualified(fragment),
    )
    return _ddl(view, names, splicer)


def _target(name: TableName, names: Names, splicer: Splicer) -> Table:
    qualified = splicer.qualify(name)
    table = names.table(qualified)
    if table is None:
        raise NotFoundError(f"Table not found {qualified}", code=10001, table=str(qualified))
    return table


def _query(fragment: Fragment, splicer: Splicer) -> Query:
    text = splicer.text(fragment)
    one_table = len(splicer.tables) == 1 and not splicer.views
    aggregates = aggregates_of(fragment.text) if one_table else ()
    return Query(text, dict(splicer.tables), aggregates)


def _value(expression: ParsedExpression, column: str | None, table: Table, splicer: Splicer) -> str:
    """Text of an expression; DEFAULT becomes the column's default, NULL where it has none."""
    if isinstance(expression, DefaultKeyword):
        default = None if column is None else column_default(table, column)
        return "null" if default is None else default
    return splicer.text(expression)


# -------------------------------------------------------------------- INSERT


def _insert(body: ParsedInsert, names: Names, prefix: str) -> Insert:
    splicer = Splicer(names, prefix=prefix)
    table = _target(body.table, names, splicer)
    source: Query | Literals
    if isinstance(body.source, Literals):
        source = body.source
    elif isinstance(body.source, ParsedRows):
        source = _rows(body, body.source, table, splicer)
    else:
        source = _query(body.source.fragment, splicer)
    return Insert(
        table=table.name,
        source=source,
        columns=body.columns,
        partition=dict(body.partition),
        dynamic_partition=body.dynamic_partition,
        overwrite=body.overwrite,
        if_not_exists=body.if_not_exists,
    )


def _joined(branches: list[Insert], names: Names) -> tuple[Insert, ...]:
    """Branches that write to the same dynamic partitions are one INSERT of all their rows."""
    joined: dict[tuple[object, ...], Insert] = {}
    for number, branch in enumerate(branches):
        table = names.table(branch.table)
        keys = {column.name for column in table.partition_columns} if table else set()
        place: tuple[object, ...] = (
            branch.table,
            branch.overwrite,
            branch.columns,
            branch.dynamic_partition,
            *branch.partition.items(),
        )
        if keys <= set(branch.partition):
            place = (number,)  # not dynamic
        first = joined.get(place)
        if first is not None:
            branch = dataclasses.replace(first, also=(*first.also, *branch.queries))
        joined[place] = branch
    return tuple(joined.values())


def _rows(body: ParsedInsert, rows: ParsedRows, table: Table, splicer: Splicer) -> Query:
    columns: tuple[str, ...] = body.columns
    if not columns:
        static = {name for name, _ in body.partition}
        columns = tuple(column.name for column in table.all_columns if column.name not in static)
    texts = []
    for row in rows.rows:
        cells = []
        for number, cell in enumerate(row):
            column = columns[number] if number < len(columns) else None
            cells.append(_value(cell, column, table, splicer))
        texts.append(f"({', '.join(cells)})")
    return Query(f"VALUES {', '.join(texts)}", dict(splicer.tables))


# -------------------------------------------------------------------- UPDATE, MERGE


def _assignments(
    assignments: tuple[Assignment, ...], table: Table, splicer: Splicer
) -> tuple[tuple[str, str], ...]:
    return tuple((one.column, _value(one.value, one.column, table, splicer)) for one in assignments)


def _update(body: ParsedUpdate, names: Names, splicer: Splicer) -> Update:
    table = _target(body.table, names, splicer)
    assignments = _assignments(body.assignments, table, splicer)
    where = None if body.where is None else splicer.text(body.where)
    predicate = _row_predicate(body.where, table, body.alias)
    return Update(table.name, assignments, where, body.alias, splicer.tables, predicate)


def _merge(body: ParsedMerge, names: Names, splicer: Splicer) -> Merge:
    table = _target(body.table, names, splicer)
    source, source_alias = _merge_source(body, splicer)
    outer = Splicer(names, prefix=f"{splicer.prefix}x")
    on = outer.text(body.on)
    clauses = tuple(_clause(clause, table, outer) for clause in body.clauses)
    predicate = _merge_predicate(body.on.text, table, body.alias, clauses)
    return Merge(table.name, source, on, clauses, body.alias, source_alias, outer.tables, predicate)


def _row_predicate(where: Fragment | None, table: Table, alias: str | None) -> Predicate:
    if where is None:
        return ANYTHING
    return condition_on(
        where.text, table, label=alias or table.name.table, whole_name=alias is None
    )


def _merge_predicate(
    on: str, table: Table, alias: str | None, clauses: tuple[MergeClause, ...]
) -> Predicate:
    """What a row of the target must meet to be matched; all rows count where those that are not
    matched change.
    """
    if any(isinstance(c, NotMatchedBySourceUpdate | NotMatchedBySourceDelete) for c in clauses):
        return ANYTHING
    return condition_on(on, table, label=alias or table.name.table, whole_name=alias is None)


def _merge_source(body: ParsedMerge, splicer: Splicer) -> tuple[Query, str | None]:
    if isinstance(body.source, Fragment):
        return _query(body.source, splicer), body.source_alias
    table = splicer.resolve(body.source)
    if table is None:
        name = ".".join(quoted(part) for part in body.source)
    else:
        name = splicer.relation(table)
    tables: Mapping[str, TableRef] = dict(splicer.tables)
    return Query(f"SELECT * FROM {name}", tables), body.source_alias or body.source[-1]


def _clause(clause: ParsedClause, table: Table, splicer: Splicer) -> MergeClause:
    condition = None if clause.condition is None else splicer.text(clause.condition)
    assignments = _assignments(clause.assignments, table, splicer)
    if clause.action == "delete":
        if clause.by_source:
            return NotMatchedBySourceDelete(condition)
        return MatchedDelete(condition)
    if clause.action == "update":
        if clause.by_source:
            return NotMatchedBySourceUpdate(assignments, condition)
        return MatchedUpdate(assignments, condition, clause.all_columns)
    columns = clause.columns or tuple(column.name for column in table.all_columns)
    values = tuple(
        _value(value, columns[n] if n < len(columns) else None, table, splicer)
        for n, value in enumerate(clause.values)
    )
    return NotMatchedInsert(clause.columns, values, condition, clause.all_columns)


# -------------------------------------------------------------------- DDL


def _ddl(body: ddl.DdlStatement, names: Names, splicer: Splicer) -> ddl.DdlStatement:
    """Every TableName of the value gets its database."""
    changes: dict[str, object] = {}
    for field in dataclasses.fields(body):
        value = getattr(body, field.name)
        if isinstance(value, TableName):
            changes[field.name] = splicer.qualify(value)
        elif field.name == "database" and value is None:
            changes[field.name] = names.current_database
    return dataclasses.replace(body, **changes) if changes else body  # type: ignore[arg-type]


# -------------------------------------------------------------------- statements built in Python


def bind_query(query: Query, names: Names, *, prefix: str = DEFAULT_PREFIX) -> Query:
    """A query built in Python, with the text of a view in its placeholder's place.

    Raises:
        SqlSyntaxError, InvalidInputError: as ``bind``, of the view's text.
    """
    splicer = Splicer(names, prefix=prefix)
    text = query.text
    for placeholder, ref in query.tables.items():
        table = names.table(ref.name)
        if table is not None and table.kind is TableKind.VIEW:
            text = text.replace(placeholder, splicer.relation(table))
    return query if text == query.text else Query(text, splicer.tables)


def bind_texts(
    statement: Update | Delete | Merge, names: Names, *, prefix: str = DEFAULT_PREFIX
) -> Update | Delete | Merge:
    """A statement built in Python with its expression texts read as Hive SQL; Columns stay.

    Raises:
        SqlSyntaxError: a text is not one expression.
        UnsupportedError: a view in a subquery.
    """
    splicer = Splicer(names, prefix=prefix)
    parts = (statement.table.database, statement.table.table)
    target = Relation(parts, statement.alias or parts[-1], target=True)
    target.alias_at = None if statement.alias else 0

    def spliced(value: object) -> object:
        return _expression(value, target, splicer) if isinstance(value, str) else value

    changes: dict[str, object] = {}
    if isinstance(statement, Merge):
        changes["on"] = spliced(statement.on)
        changes["clauses"] = tuple(_spliced_clause(one, spliced) for one in statement.clauses)
    else:
        changes["where"] = spliced(statement.where)
    changes |= _needs(statement, names.table(statement.table))
    if isinstance(statement, Update):
        changes["assignments"] = _spliced_pairs(statement.assignments, spliced)
    changes["tables"] = {**statement.tables, **splicer.tables}
    return dataclasses.replace(statement, **changes)  # type: ignore[arg-type]


def _needs(statement: Update | Delete | Merge, table: Table | None) -> dict[str, object]:
    """Predicate and columns of a statement whose conditions are texts."""
    text = statement.on if isinstance(statement, Merge) else statement.where
    if table is None or not isinstance(text, str):
        return {}
    if isinstance(statement, Merge):
        predicate = _merge_predicate(text, table, statement.alias, statement.clauses)
        return {"predicate": predicate}
    label = statement.alias or table.name.table
    predicate = condition_on(text, table, label=label, whole_name=statement.alias is None)
    if isinstance(statement, Update):
        return {"predicate": predicate}
    return {"predicate": predicate, "columns": columns_of_statement(text, table)}


def _spliced_pairs(
    pairs: tuple[tuple[str, object], ...], spliced: Callable[[object], object]
) -> tuple[tuple[str, object], ...]:
    return tuple((column, spliced(value)) for column, value in pairs)


def _spliced_clause(clause: MergeClause, spliced: Callable[[object], object]) -> MergeClause:
    changes: dict[str, object] = {"condition": spliced(clause.condition)}
    if isinstance(clause, (MatchedUpdate, NotMatchedBySourceUpdate)):
        changes["assignments"] = _spliced_pairs(clause.assignments, spliced)
    elif isinstance(clause, NotMatchedInsert):
        changes["values"] = tuple(spliced(value) for value in clause.values)
    return dataclasses.replace(clause, **changes)  # type: ignore[arg-type]


def _expression(text: str, target: Relation, splicer: Splicer) -> str:
    """One expression's text as Spark SQL; the word DEFAULT stays as it is."""
    if text.strip().lower() == "default":
        return "default"
    scope = Scope(relations=[target])
    return splicer.text(parse_expression(text, scope=scope))

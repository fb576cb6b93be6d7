"""Parsed statements -> statement values: names get their database, queries their placeholders."""

from __future__ import annotations

import dataclasses
from itertools import zip_longest
from typing import Any

from hiveacid.errors import UnsupportedError
from hiveacid.model.tables import Table, TableKind, TableName
from hiveacid.spark.session import quoted
from hiveacid.sql.cursor import TokenKind, tokenize
from hiveacid.sql.dml import NotLiteralError, literal_of
from hiveacid.sql.expressions import (
    DefaultKeyword,
    Fragment,
    ParsedExpression,
    ParsedRows,
    Relation,
    Scope,
)
from hiveacid.sql.items import kinds, titles
from hiveacid.sql.needs import (
    aggregates_of,
    columns_of_statement,
    condition_on,
    exact_condition,
    lookup_of,
)
from hiveacid.sql.parse import ParsedExplain, ParsedLater, ParsedStatement, parse_expression
from hiveacid.sql.splice import Splicer
from hiveacid.statements.constraints import default_expression
from hiveacid.statements.ddl.tables import CreateTable
from hiveacid.statements.ddl.views import CreateView
from hiveacid.statements.describe import Explain
from hiveacid.statements.session_state import TransactionStatement
from hiveacid.statements.values import (
    Command,
    Delete,
    Insert,
    Inserts,
    MatchedUpdate,
    Merge,
    MergeClause,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
    Query,
    Update,
)
from hiveacid.txn.view import Look

__all__ = ["StatementValue", "bind", "bind_texts"]

StatementValue = (
    Query | Insert | Inserts | Update | Delete | Merge | Command | Explain | TransactionStatement
)

DEFAULT_PREFIX = "__hiveacid_"


def bind(
    statement: ParsedStatement, names: Look, *, prefix: str = DEFAULT_PREFIX
) -> StatementValue:
    """The value of a parsed statement; placeholders are ``prefix`` and a number.

    Raises:
        NotFoundError: the target of DML is not a table of ours (Hive's 10001).
        UnsupportedError: a view in a query.
    """
    body = statement.body
    splicer = Splicer(names, prefix=prefix)
    if isinstance(body, Fragment):
        return _query(body, splicer)
    if isinstance(body, Insert):
        return _insert(body, names, prefix)
    if isinstance(body, Inserts):
        branches = [
            _insert(branch, names, f"{prefix}{number}_")
            for number, branch in enumerate(body.branches)
        ]
        return Inserts(_joined(branches, names))
    if isinstance(body, (Update, Delete, Merge)):
        return bind_texts(body, names, prefix=prefix)
    if isinstance(body, ParsedExplain):
        inner = bind(body.statement, names, prefix=prefix)
        if isinstance(inner, (Explain, TransactionStatement)):
            raise UnsupportedError(f"EXPLAIN of {body.statement.text} is not supported")
        return Explain(inner, body.mode)
    if isinstance(body, CreateTable) and body.temporary:
        body = dataclasses.replace(body, name=names.hide(splicer.qualify(body.name)))
    if isinstance(body, CreateTable) and isinstance(body.query, Fragment):
        query = _entitled(body.query, splicer, twice=True)
        return _ddl(dataclasses.replace(body, query=query), names, splicer)
    if isinstance(body, CreateView) and isinstance(body.query, Fragment):
        # as written, and with full names; it must not need itself
        within = Splicer(names, prefix=prefix, expanding=(splicer.qualify(body.name),))
        view = dataclasses.replace(
            body,
            query=_entitled(body.query, within),
            original=body.query.text,
            expanded=within.qualified(body.query),
        )
        return _ddl(view, names, splicer)
    if isinstance(body, TransactionStatement):
        return body
    assert not isinstance(body, ParsedLater), "resolved before it is bound"
    return _ddl(body, names, splicer)


def _target(name: TableName, names: Look, splicer: Splicer) -> Table:
    return names.definition(splicer.qualify(name))


def _query(fragment: Fragment, splicer: Splicer) -> Query:
    text = splicer.text(fragment)
    one_table = len(splicer.tables) == 1 and not splicer.views
    one_table = one_table and not any(ref.as_of is not None for ref in splicer.tables.values())
    if not one_table:
        return Query(text, dict(splicer.tables), views=frozenset(splicer.views))
    (ref,) = splicer.tables.values()
    is_plain = not ref.virtual and ref.changes is None
    table = splicer.resolve((ref.name.database, ref.name.table)) if is_plain else None
    lookup = None if table is None else lookup_of(fragment.text, table)
    return Query(text, dict(splicer.tables), aggregates_of(fragment.text), lookup)


def _entitled(fragment: Fragment, splicer: Splicer, *, twice: bool = False) -> Query:
    by = fragment.scope.named_by
    named = titles(by, twice=twice)
    return dataclasses.replace(_query(fragment, splicer), titles=named, kinds=kinds(by))


def _value(expression: ParsedExpression, column: str | None, table: Table, splicer: Splicer) -> str:
    """Text of an expression; DEFAULT becomes the column's default, NULL where it has none."""
    if isinstance(expression, DefaultKeyword):
        return "null" if column is None else default_expression(table, column)
    return splicer.text(expression)


# -------------------------------------------------------------------- INSERT


def _insert(body: Insert, names: Look, prefix: str) -> Insert:
    splicer = Splicer(names, prefix=prefix)
    table = _target(body.table, names, splicer)
    source: Any = body.source
    if isinstance(source, ParsedRows):
        source = _rows(body, source, table, splicer)
    elif isinstance(source, Fragment):
        source = _query(source, splicer)
    return dataclasses.replace(body, table=table.name, source=source)


def _joined(branches: list[Insert], names: Look) -> tuple[Insert, ...]:
    """Branches that write to the same dynamic partitions are one INSERT of all their rows."""
    joined: dict[tuple[object, ...], Insert] = {}
    for number, branch in enumerate(branches):
        table = names.table(branch.table)
        keys = set(table.partition_keys) if table else set()
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


def _rows(body: Insert, rows: ParsedRows, table: Table, splicer: Splicer) -> Query:
    columns: tuple[str, ...] = body.columns
    if not columns:
        columns = tuple(name for name in table.column_names if name not in body.partition)
    cells = [
        [_value(*cell, table, splicer) for cell in zip_longest(row, columns[: len(row)])]
        for row in rows.rows
    ]
    texts = {at for row in cells for at, cell in enumerate(row) if _is_text(cell)}
    of_one_type = (
        ", ".join(
            f"string({cell})" if at in texts and not _is_text(cell) else cell
            for at, cell in enumerate(row)
        )
        for row in cells
    )
    return Query(f"VALUES ({'), ('.join(of_one_type)})", dict(splicer.tables))


def _is_text(cell: str) -> bool:
    """Whether it is a text: what stands beside it in a column becomes one, as in Hive."""
    return {token.kind for token in tokenize(cell)} <= {TokenKind.STRING, TokenKind.END}


# -------------------------------------------------------------------- DDL


def _ddl(body: Command, names: Look, splicer: Splicer) -> Command:
    """Every TableName of the value gets its database."""
    changes: dict[str, object] = {}
    for field in dataclasses.fields(body):
        value = getattr(body, field.name)
        if isinstance(value, TableName):
            changes[field.name] = splicer.qualify(value)
        elif field.name == "database" and value is None:
            changes[field.name] = names.current_database
    return dataclasses.replace(body, **changes) if changes else body


# -------------------------------------------------------------------- statements built in Python


def bind_query(query: Query, names: Look, *, prefix: str = DEFAULT_PREFIX) -> Query:
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


# -------------------------------------------------------------------- UPDATE, DELETE, MERGE


def bind_texts(
    statement: Update | Delete | Merge, names: Look, *, prefix: str = DEFAULT_PREFIX
) -> Update | Delete | Merge:
    """A statement with its expressions, fragments of SQL or texts given in Python, as Spark SQL;
    Columns stay.

    Raises:
        NotFoundError: there is no such table (Hive's 10001).
        SqlSyntaxError: a text is not one expression.
        UnsupportedError: a view in a subquery.
    """
    splicer = Splicer(names, prefix=prefix)
    table = _target(statement.table, names, splicer)
    if statement.alias is None and statement.table.table != table.name.table:  # a temporary table
        statement = dataclasses.replace(statement, alias=statement.table.table)
    changes: dict[str, object] = {"table": table.name}
    if isinstance(statement, Merge) and isinstance(statement.source, Fragment | tuple):
        changes["source"], changes["source_alias"] = _merge_source(statement, splicer)
        splicer = Splicer(names, prefix=f"{prefix}x")
    texts = _Texts(table, statement.alias, splicer)
    if isinstance(statement, Merge):
        changes["on"] = texts.of(statement.on)
        changes["clauses"] = tuple(_clause(one, texts) for one in statement.clauses)
    else:
        changes["where"] = texts.of(statement.where)
    changes |= _needs(statement, table)
    if isinstance(statement, Update):
        changes["assignments"] = texts.of_pairs(statement.assignments)
    changes["tables"] = {**statement.tables, **splicer.tables}
    changes["virtual"] = splicer.of_target
    return dataclasses.replace(statement, **changes)  # type: ignore[arg-type]


class _Texts:
    """Makes Spark SQL of the expressions of one statement."""

    def __init__(self, table: Table, alias: str | None, splicer: Splicer) -> None:
        self.table = table
        self._splicer = splicer
        parts = (table.name.database, table.name.table)
        at = None if alias else 0
        self._target = Relation(parts, alias or parts[-1], alias_at=at, target=True)

    def of(self, value: object, column: str | None = None) -> object:
        """The text of an expression, for a column where it may be DEFAULT, which a text that was
        given in Python stays.
        """
        if isinstance(value, Fragment | DefaultKeyword):
            return _value(value, column, self.table, self._splicer)
        if not isinstance(value, str) or value.strip().lower() == "default":
            return "default" if isinstance(value, str) else value
        scope = Scope(relations=[self._target])
        return self._splicer.text(parse_expression(value, scope=scope))

    def of_pairs(self, pairs: tuple[tuple[str, object], ...]) -> tuple[tuple[str, object], ...]:
        """Columns with the texts of the expressions assigned to them."""
        return tuple((column, self.of(value, column)) for column, value in pairs)


def _needs(statement: Update | Delete | Merge, table: Table) -> dict[str, object]:
    """Predicate and columns of a statement whose conditions are texts; in a MERGE all rows of the
    target count where those that no row of the source matches change.
    """
    condition: object = statement.on if isinstance(statement, Merge) else statement.where
    text = condition.text if isinstance(condition, Fragment) else condition
    if not isinstance(text, str):
        return {}
    by_source = (NotMatchedBySourceUpdate, NotMatchedBySourceDelete)
    if isinstance(statement, Merge) and any(isinstance(c, by_source) for c in statement.clauses):
        return {}
    label = statement.alias or table.name.table
    whole_name = statement.alias is None
    predicate = condition_on(text, table, label=label, whole_name=whole_name)
    needs: dict[str, object] = {"predicate": predicate}
    if not isinstance(statement, Merge):
        needs["exact"] = exact_condition(text, table, label=label, whole_name=whole_name)
    if isinstance(statement, Delete):
        needs["columns"] = columns_of_statement(text, table)
    if isinstance(statement, Update):
        needs["literals"] = _literals(statement)
    return needs


def _literals(statement: Update) -> dict[str, object] | None:
    """The values of an UPDATE whose assignments are all plain literals."""
    found = {}
    try:
        for column, value in statement.assignments:
            text = value.text if isinstance(value, Fragment) else value
            if not isinstance(text, str):
                return None
            found[column.lower()] = literal_of(text)
    except NotLiteralError:
        return None
    return found


def _merge_source(statement: Merge, splicer: Splicer) -> tuple[Query, str | None]:
    source: Any = statement.source
    if isinstance(source, Fragment):
        return _query(source, splicer), statement.source_alias
    table = splicer.resolve(source)
    name = quoted(*source) if table is None else splicer.relation(table)
    query = Query(f"SELECT * FROM {name}", dict(splicer.tables))
    return query, statement.source_alias or source[-1]


def _clause(clause: MergeClause, texts: _Texts) -> MergeClause:
    changes: dict[str, object] = {"condition": texts.of(clause.condition)}
    if isinstance(clause, (MatchedUpdate, NotMatchedBySourceUpdate)):
        changes["assignments"] = texts.of_pairs(clause.assignments)
    elif isinstance(clause, NotMatchedInsert):
        columns = clause.columns or texts.table.column_names
        places = zip_longest(columns[: len(clause.values)], clause.values)
        changes["values"] = tuple(texts.of(value, column) for column, value in places)
    return dataclasses.replace(clause, **changes)  # type: ignore[arg-type]

"""Grammar of queries, INSERT, UPDATE, DELETE and MERGE."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from hiveacid.errors import InvalidInputError, SqlSyntaxError, UnsupportedError
from hiveacid.model.readable import decimal_text
from hiveacid.model.tables import TableName
from hiveacid.sql.cursor import (
    Cursor,
    TokenKind,
    date_value,
    number_value,
    timestamp_value,
    tokenize,
)
from hiveacid.sql.expressions import (
    DefaultKeyword,
    Fragment,
    ParsedRows,
    Relation,
    Scope,
    at_clause,
)
from hiveacid.sql.query import QueryParser
from hiveacid.statements.partition_values import PartitionText
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
    Purge,
    Update,
)

ParsedDml = Fragment | Insert | Inserts | Update | Delete | Merge
"""Where an expression of ``Update``, ``Delete`` and ``Merge`` is, there is a ``Fragment`` or a
``DefaultKeyword`` until ``bind`` makes a text of it; the source of an ``Insert`` is a
``Fragment`` or ``ParsedRows``; a ``Fragment`` alone is a query."""


def parse_query(cursor: Cursor) -> Fragment | Insert | Inserts:
    """A query, or the inserts of ``[WITH ...] FROM ... INSERT`` and ``WITH ... INSERT``."""
    parser = QueryParser(cursor)
    scope, start = Scope(), cursor.at
    if cursor.key == "WITH":
        parser.with_clause(scope)
    if cursor.key == "INSERT":
        with_piece = _piece(cursor, start, cursor.at)
        head, begin = _insert_head(cursor), cursor.at
        parser.query(scope)
        pieces = (with_piece, _piece(cursor, begin, cursor.at))
        query: Any = Fragment(cursor.source, pieces, scope)
        return replace(head, source=query)
    if cursor.key == "FROM":
        after_with = cursor.at
        body = scope.child()
        parser.from_clause(body)
        if cursor.key == "INSERT":
            return _multi_insert(cursor, parser, scope, (start, after_with, cursor.at))
        cursor.at = after_with
        scope.children.remove(body)
    parser.query(scope)
    return parser.fragment(scope, start)


def _multi_insert(
    cursor: Cursor, parser: QueryParser, scope: Scope, marks: tuple[int, int, int]
) -> Inserts:
    """FROM source [lateral views] INSERT ... SELECT ... INSERT ... SELECT ...; the FROM goes into
    each branch.
    """
    start, after_with, end = marks
    shared = scope.children[-1]
    before = ((_piece(cursor, start, after_with),) if after_with > start else ()) + (
        _piece(cursor, after_with, end),
    )
    branches = []
    while cursor.key == "INSERT":
        head = _insert_head(cursor)
        branch_root = Scope(children=scope.children[:-1])
        body = Scope(
            parent=branch_root,
            relations=[*shared.relations],
            children=[*shared.children],
            dotted=[*shared.dotted],
            virtual=[*shared.virtual],
            edits=[*shared.edits],
            merged_columns=shared.merged_columns,
        )
        branch_root.children.append(body)
        begin = cursor.at
        parser.select_body(body)
        pieces = (*before, _piece(cursor, begin, cursor.at))
        query: Any = Fragment(cursor.source, pieces, branch_root)
        branches.append(replace(head, source=query))
    return Inserts(tuple(branches))


def _piece(cursor: Cursor, start: int, end: int) -> tuple[int, int]:
    return cursor.tokens[start].start, cursor.tokens[end - 1].end


# -------------------------------------------------------------------- INSERT


def parse_insert(cursor: Cursor) -> Insert:
    """INSERT INTO | OVERWRITE [TABLE] t [PARTITION (...)] [(columns)] query | VALUES rows; Spark's
    BY NAME in place of the columns finds those of a query by their names.
    """
    head = _insert_head(cursor)
    is_values = cursor.key == "VALUES" and not head.by_name
    source: Any = _values(cursor) if is_values else None
    return replace(head, source=source or QueryParser(cursor).query_fragment())


def _insert_head(cursor: Cursor) -> Insert:
    cursor.expect("INSERT")
    overwrite = cursor.accept("OVERWRITE")
    if not overwrite:
        cursor.expect("INTO")
    if cursor.key in ("DIRECTORY", "LOCAL") and cursor.peek(1).kind is not TokenKind.SYMBOL:
        raise UnsupportedError("INSERT OVERWRITE DIRECTORY is not supported")
    cursor.accept("TABLE")
    table = cursor.table_name()
    pairs = optional_pairs(cursor)
    static = {name: text for name, text, given in pairs if given}
    for name, text in static.items():
        if not text:
            code, what = (10248, "a NULL") if text is None else (10006, "an empty text")
            raise InvalidInputError(
                f"{what} is no partition to insert into", code=code, column=name
            )
    dynamic = tuple(name for name, _, given in pairs if not given)
    if_not_exists = overwrite and cursor.if_not_exists()
    columns = cursor.names() if cursor.key == "(" and not cursor.at_nested_query() else ()
    by_name = not columns and cursor.accept("BY", "NAME")
    return Insert(table, Literals(()), columns, static, dynamic, overwrite, by_name, if_not_exists)


def partition_pair(cursor: Cursor) -> tuple[str, str | None, bool]:
    """column [= constant]: its name, the constant's text (None for NULL), whether there is one."""
    name = cursor.small_name("partition specification")
    if cursor.accept_any("=", "==") is None:
        return name, None, False
    return name, partition_text(cursor), True


def optional_pairs(cursor: Cursor) -> tuple[tuple[str, str | None, bool], ...]:
    """PARTITION (column [= constant], ...), if there is one."""
    return cursor.in_parentheses(partition_pair) if cursor.accept("PARTITION") else ()


def partition_text(cursor: Cursor) -> str | None:
    """The text of a literal in a partition specification; None for NULL."""
    if cursor.token.kind is TokenKind.STRING:
        return cursor.string()
    if cursor.accept("NULL"):
        return None
    if cursor.accept_any("DATE", "TIMESTAMP") is not None:
        return cursor.string("partition specification")
    sign = "-" if cursor.accept("-") else ""
    if cursor.token.kind is TokenKind.NUMBER:
        return sign + _number_text(cursor.next().text)
    if not sign and cursor.key in ("TRUE", "FALSE"):
        return cursor.next().text.upper()
    raise cursor.unrecognized("constant")


def _number_text(text: str) -> str:
    """A number as a partition of a text column is called: ``08`` is 8, ``1.50`` is 1.5."""
    value = number_value(text)
    if isinstance(value, Decimal):
        return decimal_text(value)
    return text if value is None else str(value)


def partition_spec(cursor: Cursor) -> PartitionText:
    """PARTITION ( column = constant, ... )"""
    cursor.expect("PARTITION")
    return cursor.in_parentheses(_partition_value)


def _partition_value(cursor: Cursor) -> tuple[str, str | None]:
    name, text, given = partition_pair(cursor)
    if not given:
        raise cursor.unrecognized("partition specification")
    return name, text


def optional_partition(cursor: Cursor) -> PartitionText:
    """A partition specification, if there is one."""
    return partition_spec(cursor) if cursor.looking_at("PARTITION", "(") else ()


def _values(cursor: Cursor) -> Any:
    """VALUES rows; None (and the cursor back) where more follows: then it is a query like
    another.
    """
    start = cursor.at
    cursor.expect("VALUES")
    literals = literal_rows(cursor)
    if literals is not None and cursor.at_end():
        return literals
    cursor.at = start + 1
    parser = QueryParser(cursor)
    rows = []
    while cursor.accept("("):
        cells = cursor.listed(lambda _: _expression_or_default(cursor, parser, _at_comma))
        cursor.expect(")")
        rows.append(cells)
        if not cursor.accept(","):
            break
    if rows and cursor.at_end():
        return ParsedRows(tuple(rows))
    cursor.at = start
    return None


def _at_comma(cursor: Cursor) -> bool:
    return cursor.key == ","


def _expression_or_default(
    cursor: Cursor, parser: QueryParser, stop: object, scope: Scope | None = None
) -> Any:
    if cursor.key == "DEFAULT" and (
        cursor.peek(1).key in (",", ")", "WHERE", "WHEN") or cursor.peek(1).kind is TokenKind.END
    ):
        cursor.next()
        return DefaultKeyword()
    return parser.expression_fragment(stop, scope=scope)  # type: ignore[arg-type]


# -------------------------------------------------------------------- rows of plain literals

_WORDS = {"NULL": None, "TRUE": True, "FALSE": False}


class NotLiteralError(Exception):
    """What comes next is more than a literal; never leaves this room."""


def literal_rows(cursor: Cursor) -> Literals | None:
    """Rows ``(cell, ...), ...`` at the cursor if every cell is a plain literal, else None (cursor
    anywhere).
    """
    try:
        return Literals(cursor.listed(lambda _: cursor.in_parentheses(literal_value)))
    except (NotLiteralError, SqlSyntaxError):
        return None


def literal_of(text: str) -> Any:
    """The value of a text that is a plain literal.

    Raises:
        NotLiteralError: it is more, or something else.
    """
    try:
        cursor = Cursor(source=text, tokens=tokenize(text))
        value = literal_value(cursor)
    except SqlSyntaxError as error:
        raise NotLiteralError from error
    if not cursor.at_end():
        raise NotLiteralError
    return value


def literal_value(cursor: Cursor) -> Any:
    """The value of the literal that comes next, a sign before a number included; None for NULL.

    Raises:
        NotLiteralError: there is none, or Python has no such value.
    """
    kind, key = cursor.token.kind, cursor.key
    if kind is TokenKind.STRING:
        return cursor.string()
    if kind is TokenKind.NUMBER:
        return _number(cursor, negative=False)
    if key in ("-", "+") and cursor.peek(1).kind is TokenKind.NUMBER:
        cursor.next()
        return _number(cursor, negative=key == "-")
    if key in _WORDS:
        cursor.next()
        return _WORDS[key]
    if key in ("DATE", "TIMESTAMP") and cursor.peek(1).kind is TokenKind.STRING:
        cursor.next()
        text = cursor.string()
        value = date_value(text) if key == "DATE" else timestamp_value(text)
        if value is not None:
            return value
    raise NotLiteralError


def _number(cursor: Cursor, *, negative: bool) -> object:
    value = number_value(cursor.next().text)
    if value is None:
        raise NotLiteralError
    if negative and isinstance(value, Decimal):
        return value.copy_negate()  # a minus sign would round it to 28 digits
    return -value if negative else value


# -------------------------------------------------------------------- UPDATE, DELETE


def _target(cursor: Cursor, *stops: str) -> tuple[TableName, str | None, Relation]:
    parts = cursor.dotted_name()
    if len(parts) > 2:
        raise cursor.error(f"invalid table name '{'.'.join(parts)}'")
    alias = None
    if cursor.accept("AS") or (cursor.key not in stops and cursor.at_alias()):
        alias = cursor.name("table alias")
    table = TableName.of(parts)
    relation = Relation(parts, alias or parts[-1], alias_at=None if alias else 0, target=True)
    return table, alias, relation


def parse_update(cursor: Cursor) -> Update:
    """UPDATE t [[AS] alias] SET column = expression, ... [WHERE condition]."""
    table, alias, relation = _target(cursor, "SET")
    cursor.expect("SET")
    assignments = _assignments(cursor, QueryParser(cursor), relation)
    return Update(table, assignments, _where(cursor, relation), alias)


def parse_delete(cursor: Cursor) -> Delete:
    """DELETE FROM t [[AS] alias] [WHERE condition]."""
    cursor.expect("FROM")
    table, alias, relation = _target(cursor)
    return Delete(table, _where(cursor, relation), alias)


def parse_purge(cursor: Cursor) -> Purge:
    """PURGE TABLE t [[AS] alias] [WHERE condition] [WAIT seconds] [DROP PINS], the last two in
    either order.
    """
    cursor.expect("TABLE")
    table, alias, relation = _target(cursor, "WAIT", "DROP")

    def at_end(place: Cursor) -> bool:
        is_wait = place.key == "WAIT" and place.peek(1).kind is TokenKind.NUMBER
        return at_clause(place) or is_wait or place.looking_at("DROP", "PINS")

    where: Any = None
    if cursor.accept("WHERE"):
        where = QueryParser(cursor).expression_fragment(at_end, scope=_root(relation))
    drop_pins = cursor.accept("DROP", "PINS")
    wait_s = cursor.integer("seconds to wait") if cursor.accept("WAIT") else None
    return Purge(table, where, alias, wait_s, drop_pins or cursor.accept("DROP", "PINS"))


def _where(cursor: Cursor, relation: Relation) -> Any:
    if not cursor.accept("WHERE"):
        return None
    return QueryParser(cursor).expression_fragment(at_clause, scope=_root(relation))


def _root(*relations: Relation) -> Scope:
    scope = Scope()
    scope.relations.extend(relations)
    return scope


def _assignments(
    cursor: Cursor, parser: QueryParser, target: Relation, *others: Relation
) -> tuple[tuple[str, Any], ...]:
    names = [[target.label.lower()]]
    if target.alias_at is not None:  # an alias hides the name
        names.append([part.lower() for part in target.parts])

    def assignment(_: Cursor) -> tuple[str, Any]:
        name = partial(Cursor.name, what="set clause")
        *front, column = (part.lower() for part in cursor.listed(name, by="."))
        if front and front not in names:  # a field, or a column of something else
            column = ".".join((*front, column))
        cursor.expect("=")
        return column, _expression_or_default(
            cursor, parser, lambda c: c.key in (",", "WHEN") or at_clause(c), _root(target, *others)
        )

    return cursor.listed(assignment)


# -------------------------------------------------------------------- MERGE


def parse_merge(cursor: Cursor) -> Merge:
    """MERGE [WITH SCHEMA EVOLUTION] INTO t [[AS] alias] USING source [[AS] alias] ON condition
    WHEN ... THEN ...
    """
    evolve = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table, alias, target = _target(cursor, "USING")
    cursor.expect("USING")
    parser = QueryParser(cursor)
    source: Any
    if cursor.accept("("):
        source, label = parser.query_fragment(), ""
        cursor.expect(")")
    else:
        source = cursor.dotted_name()
        label = source[-1]
    source_alias = None
    if cursor.accept("AS") or cursor.at_alias():
        source_alias = label = cursor.name("table alias")
    relations = (target, Relation((), label, target=True))
    cursor.expect("ON")
    on: Any = parser.expression_fragment(lambda c: c.key == "WHEN", scope=_root(*relations))
    clauses = []
    while cursor.accept("WHEN"):
        clauses.append(_merge_clause(cursor, parser, relations))
    if not clauses:
        raise cursor.error("MERGE has no WHEN clause (rule whenClauses)")
    return Merge(table, source, on, tuple(clauses), alias, source_alias, evolve=evolve)


def _merge_clause(
    cursor: Cursor, parser: QueryParser, relations: tuple[Relation, ...]
) -> MergeClause:
    matched = not cursor.accept("NOT")
    cursor.expect("MATCHED")
    by_source = False
    if not matched and cursor.accept("BY"):
        by_source = cursor.accept_any("SOURCE", "TARGET") == "SOURCE"
    condition: Any = None
    if cursor.accept("AND"):
        condition = parser.expression_fragment(lambda c: c.key == "THEN", scope=_root(*relations))
    cursor.expect("THEN")
    if matched or by_source:
        if cursor.accept("DELETE"):
            return NotMatchedBySourceDelete(condition) if by_source else MatchedDelete(condition)
        cursor.expect("UPDATE", "SET")
        if matched and cursor.accept("*"):
            return MatchedUpdate(condition=condition, all_columns=True)
        assignments = _assignments(cursor, parser, *relations)
        update = NotMatchedBySourceUpdate if by_source else MatchedUpdate
        return update(assignments, condition)
    cursor.expect("INSERT")
    if cursor.accept("*"):
        return NotMatchedInsert(condition=condition, all_columns=True)
    columns = cursor.names() if cursor.key == "(" else ()
    cursor.expect("VALUES")
    values = cursor.in_parentheses(
        lambda _: _expression_or_default(cursor, parser, _at_comma, _root(*relations))
    )
    return NotMatchedInsert(columns, values, condition)

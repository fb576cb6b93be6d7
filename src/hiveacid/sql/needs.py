"""What a statement needs of a table: a predicate that its rows must meet, and columns.

Both are upper bounds: a row or column that is left out cannot change the statement's result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from hiveacid.errors import SqlSyntaxError
from hiveacid.model.predicates import (
    ANYTHING,
    And,
    IsNull,
    Or,
    Predicate,
    conjunction,
    disjunction,
    typed,
)
from hiveacid.model.tables import Table
from hiveacid.sql.conditions import parse_condition
from hiveacid.sql.cursor import NOT_AN_ALIAS
from hiveacid.sql.lexer import Token, TokenKind, name_of, tokenize
from hiveacid.sql.scopes import Relation, Scope

_BEFORE_STAR = frozenset({"SELECT", "DISTINCT", "ALL", "(", ",", "."})
"""After these a ``*`` stands for columns; elsewhere it multiplies."""


def predicate_of_relation(source: str, scope: Scope, relation: Relation, table: Table) -> Predicate:
    """What a row of ``relation`` must meet, told from its SELECT's WHERE.

    Every form but IS NULL is false where an outer join put NULLs, so rows that do not meet it may
    be left out before the join; with several relations IS NULL is not used.
    """
    if scope.where is None:
        return ANYTHING
    start, end = scope.where
    found = condition_on(
        source[start:end],
        table,
        label=relation.label,
        qualified_only=scope.merged_columns,
        whole_name=relation.alias_at is not None,
    )
    return found if len(scope.relations) == 1 else _null_rejecting(found)


def condition_on(
    text: str,
    table: Table,
    *,
    label: str,
    qualified_only: bool = False,
    whole_name: bool = False,
) -> Predicate:
    """The part of a condition that is about one table, called ``label`` there; ``whole_name``
    says that ``database.table.column`` means it, too.
    """
    types = {column.name: column.type for column in table.all_columns}
    column_of = _column_of(table, label, qualified_only=qualified_only, whole_name=whole_name)
    return typed(parse_condition(text, column_of), types)


def _column_of(
    table: Table, label: str, *, qualified_only: bool, whole_name: bool
) -> Callable[[tuple[str, ...]], str | None]:
    names = {column.name for column in table.all_columns}
    place = (table.name.database, table.name.table)

    def column_of(parts: tuple[str, ...]) -> str | None:
        *qualifier, name = (part.lower() for part in parts)
        mine = (
            not qualified_only
            if not qualifier
            else qualifier == [label.lower()] or (whole_name and tuple(qualifier) == place)
        )
        return name if mine and name in names else None

    return column_of


def _null_rejecting(predicate: Predicate) -> Predicate:
    if isinstance(predicate, And):
        return conjunction(tuple(_null_rejecting(part) for part in predicate.parts))
    if isinstance(predicate, Or):
        return disjunction(tuple(_null_rejecting(part) for part in predicate.parts))
    if isinstance(predicate, IsNull) and not predicate.negated:
        return ANYTHING
    return predicate


def columns_of_statement(source: str, table: Table) -> frozenset[str] | None:
    """The table's columns that a statement's text may mention; None for all of them."""
    words = _words(source)
    if words is None:
        return None
    return frozenset(column.name for column in table.all_columns if column.name in words)


def counted_as(query: str) -> str | None:
    """The result's column where the query is ``SELECT count(*) [AS name] FROM table [alias]``, as
    Spark calls it; None for any other.
    """
    *tokens, _ = tokenize(query)
    names = (TokenKind.WORD, TokenKind.QUOTED)
    if [token.key for token in tokens[:3]] != ["SELECT", "COUNT", "("] or len(tokens) < 7:
        return None
    if tokens[3].text not in ("*", "1") or tokens[4].key != ")":
        return None
    at = 5 + (tokens[5].key == "AS")
    column = "count(1)"
    if tokens[at].key != "FROM":
        column, at = name_of(tokens[at]), at + 1
    if at >= len(tokens) or tokens[at].key != "FROM":
        return None
    rest = tokens[at + 1 :]
    table = 3 if len(rest) > 1 and rest[1].key == "." else 1
    alias = rest[table:]
    alias = alias[1:] if alias and alias[0].key == "AS" else alias
    plain = all(token.kind in names for token in (*rest[:table:2], *alias))
    return column if rest and plain and len(alias) <= 1 and _is_alias(alias) else None


def _is_alias(tokens: list[Token]) -> bool:
    return all(token.key not in NOT_AN_ALIAS for token in tokens)


@lru_cache(maxsize=64)
def _words(source: str) -> frozenset[str] | None:
    """The names in a text, in lower case; None where a star stands for more of them."""
    try:
        tokens = tokenize(source)
    except SqlSyntaxError:
        return None
    found: set[str] = set()
    for place, token in enumerate(tokens):
        if token.kind in (TokenKind.WORD, TokenKind.QUOTED):
            found.add(name_of(token).lower())
        before = tokens[place - 1].key if place else ""
        if token.key == "NATURAL" or (token.key == "*" and before in _BEFORE_STAR):
            counted = before == "(" and place > 1 and tokens[place - 2].key == "COUNT"
            if not counted:
                return None
    return frozenset(found)

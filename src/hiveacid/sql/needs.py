"""What a statement needs of a table: a predicate that its rows must meet, and columns.

Both are upper bounds: a row or column that is left out cannot change the statement's result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from hiveacid.errors import SqlSyntaxError, UnsupportedError
from hiveacid.model.predicates import (
    ANYTHING,
    And,
    Anything,
    IsNull,
    Or,
    Predicate,
    conjunction,
    typed,
)
from hiveacid.model.tables import Table
from hiveacid.model.types import HiveType
from hiveacid.sql.conditions import ColumnOf, parse_condition, with_parts
from hiveacid.sql.cursor import NOT_AN_ALIAS, Cursor, name_of, tokenize
from hiveacid.sql.expressions import Relation, Scope
from hiveacid.statements.values import Aggregate, Lookup, VirtualColumn

_BEFORE_STAR = frozenset({"SELECT", "DISTINCT", "ALL", "(", ",", "."})
"""After these a ``*`` stands for columns; elsewhere it multiplies."""
_COUNT_COLUMNS: Final = frozenset(
    {"UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "GROUP", "SORT", "DISTRIBUTE", "CLUSTER"}
)
"""Words of what a query does by the number or place of its columns."""
_VIRTUAL: Final = frozenset(column.value.lower() for column in VirtualColumn)
"""Beside one of these a star is written out."""


class Conditions:
    """What the rows of each relation of a query must meet, told from the WHERE of its SELECT and
    of those around it.

    Every form but IS NULL is false where an outer join put NULLs, so rows that do not meet it may
    be left out before the join; with several relations IS NULL is not used. A condition on a
    derived table goes into its query where that lets rows pass one by one, column by column.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._from_outside: dict[int, Predicate] = {}

    def impose(self, scope: Scope, predicate: Predicate, columns: Sequence[str]) -> None:
        """Rows of the query in ``scope`` that do not meet ``predicate`` are not needed;
        ``columns`` are the names it has for the query's columns, in order.
        """
        body = scope.body
        if body is None or not body.filters_early or body.stars:
            return
        names = dict(zip(columns, (item.name for item in body.items), strict=False))
        if len(names) == len(body.items):
            self._from_outside[id(body)] = _renamed(predicate, names.get)

    def enter(self, scope: Scope) -> None:
        """Carry a SELECT's conditions into the queries of its derived tables."""
        for relation in scope.relations:
            body = None if relation.query is None else relation.query.body
            if body is not None and body.filters_early:
                names = None if body.stars else {item.name for item in body.items}
                self._from_outside[id(body)] = self._on(scope, relation, names)

    def of(self, scope: Scope, relation: Relation, table: Table) -> Predicate:
        """What a row of the table must meet to change anything in the query."""
        place = (table.name.database, table.name.table) if relation.alias_at is not None else None
        return typed(self._on(scope, relation, set(table.types), place=place), table.types)

    def _on(
        self,
        scope: Scope,
        relation: Relation,
        names: Collection[str] | None,
        *,
        place: tuple[str, str] | None = None,
    ) -> Predicate:
        if relation.renamed or not relation.is_seen:
            return ANYTHING
        column_of = _column_of(
            names, relation.label, qualified_only=scope.merged_columns, place=place
        )
        start, end = scope.where or (0, 0)
        inside = (
            ANYTHING if scope.where is None else parse_condition(self._source[start:end], column_of)
        )
        outside = self._from_outside.get(id(scope), ANYTHING)
        outside = _renamed(outside, lambda name: _inner_name(scope, name, column_of))
        found = conjunction((inside, outside))
        return found if len(scope.relations) == 1 else _null_rejecting(found)


def _inner_name(scope: Scope, name: str, column_of: ColumnOf) -> str | None:
    """The column of a relation that a column of a SELECT's result is."""
    items = [item for item in scope.items if item.name == name]
    if len(items) == 1 and items[0].column:
        return column_of(items[0].column)
    if items or len(scope.stars) != 1:
        return None
    return column_of((*scope.stars[0].qualifier, name))


def _renamed(predicate: Predicate, name_of_column: Callable[[str], str | None]) -> Predicate:
    """The predicate with other names for its columns; what has none becomes ANYTHING."""
    if isinstance(predicate, And | Or):
        return with_parts(predicate, lambda part: _renamed(part, name_of_column))
    if isinstance(predicate, Anything):
        return predicate
    name = name_of_column(predicate.column)
    return ANYTHING if name is None else replace(predicate, column=name)


def condition_on(
    text: str,
    table: Table,
    *,
    label: str,
    whole_name: bool = False,
) -> Predicate:
    """The part of a condition that is about one table, called ``label`` there; ``whole_name``
    says that ``database.table.column`` means it, too.
    """
    return typed(parse_condition(text, _column_of_table(table, label, whole_name)), table.types)


def exact_condition(
    text: str, table: Table, *, label: str, whole_name: bool = False
) -> Predicate | None:
    """The predicate that says all that a condition says; None where there is none. Arguments as
    ``condition_on``.
    """
    try:
        found = parse_condition(text, _column_of_table(table, label, whole_name), strict=True)
    except (SqlSyntaxError, UnsupportedError):
        return None
    return typed(found, table.types) if _is_typed(found, table.types) else None


def _column_of_table(table: Table, label: str, whole_name: bool) -> ColumnOf:
    place = (table.name.database, table.name.table) if whole_name else None
    return _column_of(table.column_names, label, qualified_only=False, place=place)


def _is_typed(predicate: Predicate, types: Mapping[str, HiveType]) -> bool:
    """Whether no part of a predicate loses what it says by ``typed``."""
    if isinstance(predicate, And | Or):
        return all(_is_typed(part, types) for part in predicate.parts)
    return not isinstance(typed(predicate, types), Anything)


def _column_of(
    names: Collection[str] | None,
    label: str,
    *,
    qualified_only: bool,
    place: tuple[str, str] | None,
) -> ColumnOf:
    """Which of ``names`` (None: any name) a dotted name means."""

    def column_of(parts: tuple[str, ...]) -> str | None:
        *qualifier, name = (part.lower() for part in parts)
        mine = (
            not qualified_only
            if not qualifier
            else qualifier == [label.lower()] or tuple(qualifier) == place
        )
        return name if mine and (names is None or name in names) else None

    return column_of


def _null_rejecting(predicate: Predicate) -> Predicate:
    if isinstance(predicate, And | Or):
        return with_parts(predicate, _null_rejecting)
    if isinstance(predicate, IsNull) and not predicate.negated:
        return ANYTHING
    return predicate


def columns_of_statement(source: str, table: Table) -> frozenset[str] | None:
    """The table's columns that a statement's text may mention; None for all of them."""
    words = _words(source)
    if words is None:
        return None
    return frozenset(column.name for column in table.all_columns if column.name in words)


def aggregates_of(query: str) -> tuple[Aggregate, ...]:
    """The aggregates of a query that is nothing but ``SELECT count(*), min(c), ... FROM table
    [alias]``, named as Spark names them; empty for any other.
    """
    cursor = Cursor(source=query, tokens=tokenize(query))
    if not cursor.accept("SELECT"):
        return ()
    found = cursor.listed(_titled_aggregate)
    known = tuple(one for one in found if one is not None)
    is_all = len(known) == len(found) and cursor.accept("FROM") and one_table(cursor)
    return known if is_all else ()


def _titled_aggregate(cursor: Cursor) -> Aggregate | None:
    found = aggregate(cursor)
    explicit = found is not None and cursor.accept("AS")
    if found is not None and cursor.at_name() and (explicit or cursor.key != "FROM"):
        return replace(found, title=name_of(cursor.next()))
    return found


def aggregate(cursor: Cursor) -> Aggregate | None:
    """The count, least or greatest value that comes next; None where it is something else."""
    function = cursor.key.lower()
    if function not in ("count", "min", "max") or cursor.peek(1).key != "(":
        return None
    cursor.skip(2)
    argument = cursor.next()
    if not cursor.accept(")"):
        return None
    column = name_of(argument) if argument.is_name else None
    if column is None and (function != "count" or argument.text not in ("*", "1")):
        return None
    title = f"{function}({'1' if column is None else column})"
    return Aggregate(function, None if column is None else column.lower(), title)


def one_table(cursor: Cursor) -> tuple[str, ...]:
    """The parts of a table's name, where that and perhaps an alias are all that is left."""
    if not cursor.at_name():
        return ()
    parts = [name_of(cursor.next())]
    if cursor.key == "." and cursor.peek(1).is_name:
        cursor.skip(1)
        parts.append(name_of(cursor.next()))
    cursor.accept("AS")
    if cursor.at_name() and cursor.key not in NOT_AN_ALIAS:
        cursor.next()
    return tuple(parts) if cursor.at_end() else ()


def lookup_of(query: str, table: Table) -> Lookup | None:
    """What a query asks for that is nothing but ``SELECT *`` or names of columns ``FROM table
    [alias] WHERE`` a condition that is understood; None for any other.
    """
    cursor = Cursor(source=query, tokens=tokenize(query))
    items = _plain_items(cursor) if cursor.accept("SELECT") else None
    if items is None or not cursor.accept("FROM") or not cursor.at_name():
        return None
    label = name_of(cursor.next())
    if cursor.key == "." and cursor.peek(1).is_name:
        cursor.skip(1)
        label = name_of(cursor.next())
    has_alias = bool(cursor.accept("AS")) or cursor.key != "WHERE"
    if has_alias:
        if not cursor.at_name() or cursor.key in NOT_AN_ALIAS:
            return None
        label = name_of(cursor.next())
    if not cursor.accept("WHERE"):
        return None
    column_of = _column_of_table(table, label, not has_alias)
    columns = [(column_of(parts), title) for parts, title in items]
    condition = exact_condition(
        query[cursor.token.start :], table, label=label, whole_name=not has_alias
    )
    known = tuple((name, title) for name, title in columns if name is not None)
    if condition is None or len(known) < len(columns):
        return None
    return Lookup(known or tuple((name, name) for name in table.column_names), condition)


def _plain_items(cursor: Cursor) -> list[tuple[tuple[str, ...], str]] | None:
    """Names of columns in lower case, and what they are called; none for a star. None where there
    is anything else.
    """
    if cursor.accept("*"):
        return []
    try:
        found = list(cursor.listed(_plain_item))
    except SqlSyntaxError:
        return None
    # in capitals it is another name where Spark heeds them
    return None if any(parts[-1] != parts[-1].lower() for parts, _ in found) else found


def _plain_item(cursor: Cursor) -> tuple[tuple[str, ...], str]:
    parts = cursor.listed(Cursor.name, by=".")
    return parts, cursor.name() if cursor.accept("AS") else parts[-1]


@lru_cache(maxsize=64)
def _words(source: str) -> frozenset[str] | None:
    """The names in a text, in lower case; None where a star stands for more of them."""
    try:
        tokens = tokenize(source)
    except SqlSyntaxError:
        return None
    found = {name_of(token).lower() for token in tokens if token.is_name}
    keys = [token.key for token in tokens]
    for place, key in enumerate(keys):
        if key == "NATURAL" or (key == "*" and place and keys[place - 1] in _BEFORE_STAR):
            counted = keys[max(place - 2, 0) : place] == ["COUNT", "("]
            if not counted and not (_VIRTUAL.isdisjoint(found) and _asks_for_a_row(keys, place)):
                return None
    return frozenset(found)


def _asks_for_a_row(keys: Sequence[str], star: int) -> bool:
    """Whether a star is that of ``EXISTS (SELECT * ...)``, of which nobody sees the columns, and
    nothing in the brackets counts them.
    """
    if keys[max(star - 3, 0) : star] != ["EXISTS", "(", "SELECT"]:
        return False
    depth, end = 1, star
    while depth and end < len(keys) - 1:
        end += 1
        depth += (keys[end] == "(") - (keys[end] == ")")
    return _COUNT_COLUMNS.isdisjoint(keys[star:end])

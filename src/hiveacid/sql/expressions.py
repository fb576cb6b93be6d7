"""Expressions: found, not understood; they stay as the user wrote them, as fragments of the text in
scopes. A ``Scope`` is one SELECT (or one free-standing expression); it owns the relations of its
FROM clause and the places where the meaning depends on them. Offsets are into the statement's text.

Noted are subqueries, mentions of virtual columns, and the places where Hive and Spark read the
same text differently:

* ORDER BY and SORT BY without NULLS: Hive puts NULLs last ascending and first descending (also in
  windows: the same rule of its grammar), Spark the other way round.
* Casts to char and varchar (Spark does not cut); ``timestamp with local time zone``; adjacent
  string literals without a blank between them (Spark 4 reads ``'it''s'`` as ``it's``, Hive as
  ``its``); ``||`` beside ``+``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hiveacid.errors import UnsupportedError
from hiveacid.model.history import AsOf, ChangeRange
from hiveacid.sql.cursor import NOT_AN_ALIAS, Cursor, Token, TokenKind, name_of, position
from hiveacid.sql.operands import (
    CALLS,
    COMPARISONS,
    NEGATED,
    QUANTIFIED,
    RANKING,
    WORDS,
    concatenations,
    respelled,
    unpushed_list,
    unpushed_query,
)
from hiveacid.statements.values import VirtualColumn

MOVED: Final = "\0"
"""In the text of an edit: what is moved there."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the source text from ``start`` up to ``end`` by ``text``; ``moved`` are the offsets
    of a text, which is edited itself and goes to where ``MOVED`` is.
    """

    start: int
    end: int
    text: str
    moved: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class BucketSample:
    """TABLESAMPLE (BUCKET number OUT OF count [ON columns]); ``columns`` empty: the table's own."""

    number: int
    count: int
    columns: tuple[str, ...]


@dataclass(slots=True)
class Relation:
    """A relation of a FROM clause.

    ``parts`` is the name as written, empty for a subquery, a table function or a lateral view.
    ``label`` is what columns may be qualified with ('' for none). ``alias_at`` is where an alias
    must be put if the name is replaced, None if there is one. ``cte`` says that the name is that
    of a WITH query, ``target`` that it is the table which the statement changes: expressions may
    name it, the text does not hold it.
    """

    parts: tuple[str, ...]
    label: str
    start: int = 0
    end: int = 0
    alias_at: int | None = None
    cte: bool = False
    target: bool = False
    changes: ChangeRange | None = None
    """Which changes of the table are meant; None: its rows."""
    query: Scope | None = None
    """The scope that holds a derived table's query."""
    as_of: AsOf | None = None
    """The version that is asked for."""
    sample: BucketSample | None = None
    """The buckets that are wanted; None: all of them."""
    options: frozenset[str] = frozenset()
    """The options of the reading that are true."""
    travel_end: int = 0
    """Where the words that say all this end."""
    renamed: bool = False
    """Its columns get names by their place: what the query calls them tells nothing of it."""
    is_seen: bool = True
    """False where SEMI or ANTI joins it: only ON knows its columns, a name elsewhere is none of
    them."""


@dataclass(frozen=True, slots=True)
class Item:
    """A select item: the name of its column ('' for none), and the dotted name that it is, empty
    where it is an expression; ``is_several`` where it may make any number of columns, ``is_cast``
    where it has its name from a column that is cast; ``kind``: char(n) or varchar(n), where it is
    a cast to that.
    """

    name: str
    column: tuple[str, ...] = ()
    is_several: bool = False
    is_cast: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Star:
    """``*`` or ``qualifier.*`` as a select item; ``leaves_out`` where ``EXCEPT (...)`` follows,
    ``is_query`` where it is the word TABLE of ``TABLE name``, which is a query.
    """

    start: int
    end: int
    qualifier: tuple[str, ...]
    leaves_out: bool = False
    is_query: bool = False


@dataclass(frozen=True, slots=True)
class DottedName:
    """Three or more names with dots: perhaps ``database.table.column``; ``second`` is where
    ``table`` starts.
    """

    start: int
    second: int
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VirtualName:
    """A mention of a virtual column, qualified or not."""

    column: VirtualColumn
    qualifier: tuple[str, ...]


@dataclass(slots=True)
class Scope:
    """One SELECT, or one expression outside of any; ``edits`` need no catalog."""

    parent: Scope | None = None
    relations: list[Relation] = field(default_factory=list)
    stars: list[Star] = field(default_factory=list)
    virtual: list[VirtualName] = field(default_factory=list)
    dotted: list[DottedName] = field(default_factory=list)
    current_database: list[tuple[int, int]] = field(default_factory=list)
    merged_columns: bool = False
    where: tuple[int, int] | None = None
    """Offsets of the WHERE condition."""
    items: list[Item] = field(default_factory=list)
    """The select items."""
    filters_early: bool = True
    """Whether a condition on the result can be taken on the rows that go in: nothing is grouped,
    limited, sampled or seen through a window."""
    body: Scope | None = None
    """The one SELECT of the query that was read into this scope; None for several."""
    named_by: Scope | None = None
    """The SELECT, of perhaps several, whose items name the query's columns."""
    children: list[Scope] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)

    def child(self) -> Scope:
        """A scope inside this one."""
        scope = Scope(parent=self)
        self.children.append(scope)
        return scope


@dataclass(frozen=True, slots=True)
class Fragment:
    """Text to be spliced: ``pieces`` are (start, end) offsets, put together with blanks; ``scope``
    is its root.
    """

    source: str
    pieces: tuple[tuple[int, int], ...]
    scope: Scope

    @property
    def text(self) -> str:
        """The pieces as the user wrote them."""
        return " ".join(self.source[start:end] for start, end in self.pieces)


@dataclass(frozen=True, slots=True)
class DefaultKeyword:
    """The word DEFAULT in the place of a value."""


ParsedExpression = Fragment | DefaultKeyword


@dataclass(frozen=True, slots=True)
class ParsedRows:
    """VALUES rows in which DEFAULT occurs or a cell is not a plain literal."""

    rows: tuple[tuple[ParsedExpression, ...], ...]


Stop = Callable[[Cursor], bool]

_VIRTUAL_COLUMNS = {column.value: column for column in VirtualColumn}
_OFFSETS = frozenset({"BLOCK__OFFSET__INSIDE__FILE", "ROW__OFFSET__INSIDE__BLOCK"})
_QUERY_TERM = ("SELECT", "(", "FROM", "VALUES", "WITH", "ALL", "DISTINCT")


def at_clause(cursor: Cursor) -> bool:
    """True where a clause of a query starts, at the top level of an expression."""
    if cursor.key == "FROM":  # unless it is that of IS [NOT] DISTINCT FROM
        before = [token.key for token in cursor.tokens[max(0, cursor.at - 3) : cursor.at]]
        return before[-2:] != ["IS", "DISTINCT"] and before != ["IS", "NOT", "DISTINCT"]
    begins = _CLAUSES.get(cursor.key)
    if begins is None or not begins(cursor.peek(1)):
        return False
    return cursor.key not in ("LIMIT", "OFFSET") or not _before_a_name(cursor.tokens[cursor.at - 1])


def _before_a_name(token: Token) -> bool:
    """Whether a column's name follows, even one that is the word of a clause."""
    if token.kind is TokenKind.SYMBOL:
        return token.key not in (")", "]", "*")
    return token.key in _BEFORE_A_NAME


_BEFORE_A_NAME: Final = NOT_AN_ALIAS - {"ALL", "END", "NULL", "OFFSET", "ROW", "ROWS"}
_CLAUSES: Final[Mapping[str, Callable[[Token], bool]]] = {
    **dict.fromkeys(
        ("SELECT", "WHERE", "HAVING", "UNION", "INTERSECT", "EXCEPT", ";"), lambda _: True
    ),
    **dict.fromkeys(
        ("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"), lambda token: token.key == "BY"
    ),
    **dict.fromkeys(
        ("LIMIT", "OFFSET"),
        lambda token: (
            (token.kind in (TokenKind.NUMBER, TokenKind.WORD) and token.key != "FROM")
            or token.key == "("
        ),
    ),
    **dict.fromkeys(("WINDOW", "QUALIFY"), lambda token: token.kind is not TokenKind.SYMBOL),
    "MINUS": lambda token: token.key in _QUERY_TERM,
    "LATERAL": lambda token: token.key == "VIEW",
    "INSERT": lambda token: token.key in ("INTO", "OVERWRITE"),
}
"""The first words of clauses, and whether the next token makes one of them a clause."""


class ExpressionParser(ABC):
    """Reads expressions at a cursor into scopes."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self._depth = 0  # of regions in regions

    @abstractmethod
    def query(self, parent: Scope) -> None:
        """Reads a whole query as a child of ``parent``."""

    def expression(self, scope: Scope, stop: Stop) -> None:
        """Reads one expression, which must not be empty."""
        start = self.cursor.at
        self.region(scope, stop)
        if self.cursor.at == start:
            raise self.cursor.unrecognized("expression specification")

    def region(self, scope: Scope, stop: Stop) -> None:
        """Tokens up to ``stop``, a closing parenthesis or the end, subqueries included."""
        start = self.cursor.at
        self._depth += 1
        self._read(scope, stop)
        self._depth -= 1
        if not self._depth and not self.cursor.sparks:
            for at, text in concatenations(self.cursor.tokens[start : self.cursor.at]):
                scope.edits.append(Edit(at, at, text))

    def _read(self, scope: Scope, stop: Stop) -> None:
        cursor, cases = self.cursor, 0
        groups: list[int] = []  # of each parenthesis that is open, the CASEs around it
        while not cursor.at_end() and cursor.key != ";":
            if cursor.key == ")":
                if not groups:
                    return
                cases = groups.pop()
                cursor.next()
                continue
            if cases == 0 and not groups and stop(cursor):
                return
            if cursor.key == "(" and not self._opens_query():
                groups.append(cases)
                cases = 0
                cursor.next()
                continue
            if cursor.key == "CASE":
                cases += 1
            elif cursor.key == "END" and cases:
                cases -= 1
            self._step(scope)
        if groups:
            cursor.expect(")")

    def _step(self, scope: Scope) -> None:
        cursor = self.cursor
        token = cursor.token
        if token.key == "(":
            self.group(scope)
        elif token.key in ("CAST", "TRY_CAST") and cursor.peek(1).key == "(":
            self._cast(scope)
        elif cursor.looking_at("ORDER", "BY") or cursor.looking_at("SORT", "BY"):
            within_group = cursor.at > 1 and cursor.tokens[cursor.at - 2].key == "GROUP"
            cursor.skip(2)
            self.sort_items(scope, write=not within_group)
        elif (
            not cursor.sparks and cursor.looking_at("NOT", "LIKE") and cursor.peek(2).key in NEGATED
        ):
            word = cursor.peek(2)
            cursor.skip(3)
            scope.edits.append(Edit(word.start, word.end, NEGATED[word.key]))
        elif token.kind is TokenKind.STRING:
            cursor.next()
            for dollar in re.finditer(r"\$\{", token.text):  # Spark would put a variable there
                at = token.start + dollar.start()
                scope.edits.append(Edit(at, at + 1, "\\u0024"))
            if cursor.token.kind is TokenKind.STRING and cursor.token.start == token.end:
                scope.edits.append(Edit(token.end, token.end, " "))
        elif token.key in ("ALL", "ANY", "SOME") and cursor.peek(1).key == "(":
            self._quantified(scope)
        elif any(cursor.looking_at(f"CURRENT_{it}", "(", ")") for it in ("DATABASE", "SCHEMA")):
            for _ in range(3):
                end = cursor.next().end
            scope.current_database.append((token.start, end))
        elif token.key == "IN" and cursor.peek(1).key == "(":
            cursor.next()
            if not self._opens_query():
                scope.edits += [Edit(*one) for one in unpushed_list(cursor.tokens, cursor.at - 1)]
        elif token.is_name:
            self._name(scope)
        else:
            cursor.next()

    def _quantified(self, scope: Scope) -> None:
        """ANY, SOME or ALL, perhaps of the rows of a query, which Spark does not know."""
        cursor = self.cursor
        operator, word = cursor.tokens[max(0, cursor.at - 1)], cursor.next()
        if operator.key in COMPARISONS and self._opens_query():
            spelled = QUANTIFIED.get((operator.key, word.key))
            if spelled is None:
                line, column = position(cursor.source, operator.start)
                raise UnsupportedError(
                    f"{operator.key} {word.key} (query) is not supported: compare with the least or"
                    " the greatest of its values",
                    line=line,
                    column=column,
                )
            scope.edits.append(Edit(operator.start, word.end, f" {spelled} "))

    def group(self, scope: Scope) -> None:
        """( ... ): a subquery or anything else."""
        cursor, first = self.cursor, self.cursor.at
        is_query = self._opens_query()
        cursor.expect("(")
        if is_query:
            depth, self._depth = self._depth, 0
            self.query(scope.child())
            self._depth = depth
        else:
            self.region(scope, _never)
        cursor.expect(")")
        if is_query:
            edits = unpushed_query(cursor.tokens, first, cursor.at)
            scope.edits += [Edit(*one) for one in edits]

    def _opens_query(self) -> bool:
        """Whether what follows the parenthesis that comes next is a query."""
        first, second = self.cursor.peek(1), self.cursor.peek(2)
        if first.key == "FROM":
            return second.kind is not TokenKind.SYMBOL
        return first.key in ("SELECT", "WITH", "VALUES") or (
            first.key == "TABLE" and second.is_name
        )

    def _call(self, scope: Scope) -> None:
        """A call of a function that Spark spells otherwise, or answers otherwise."""
        name, first = self.cursor.next(), self.cursor.at
        self.group(scope)
        group = self.cursor.tokens[first : self.cursor.at]
        if not self.cursor.sparks:
            scope.edits += [Edit(*one) for one in respelled(name, group)]

    def _ranking(self, scope: Scope) -> None:
        """A call of a function that ranks rows; where its window has no order all are peers."""
        cursor = self.cursor
        cursor.next()
        self.group(scope)
        if cursor.accept_any("IGNORE", "RESPECT") is not None:
            cursor.expect("NULLS")
        if not cursor.looking_at("OVER", "("):
            return
        cursor.next()
        start = cursor.at + 1
        self.group(scope)
        window = cursor.tokens[start : cursor.at - 1]
        keys = {token.key for token in window}
        by_name = bool(window) and "BY" not in keys
        if not by_name and keys.isdisjoint({"ORDER", "SORT", "ROWS", "RANGE"}):
            end = cursor.tokens[cursor.at - 1].start
            scope.edits.append(Edit(end, end, " ORDER BY 1"))

    def _name(self, scope: Scope) -> None:
        cursor = self.cursor
        if cursor.key in CALLS and cursor.peek(1).key == "(":
            self._call(scope)
            return
        if cursor.key in RANKING and cursor.peek(1).key == "(":
            self._ranking(scope)
            return
        first = cursor.next()
        if first.key == "TIMESTAMPLOCALTZ" and cursor.token.kind is TokenKind.STRING:
            scope.edits.append(Edit(first.start, first.end, "TIMESTAMP_LTZ"))
            return
        if first.key in WORDS and cursor.key != ".":
            scope.edits.append(Edit(first.start, first.end, WORDS[first.key]))
            return
        parts, second = [name_of(first)], first.start
        while cursor.key == "." and cursor.peek(1).is_name:
            cursor.next()
            token = cursor.next()
            second = token.start if len(parts) == 1 else second
            parts.append(name_of(token))
        for index, part in enumerate(parts):
            upper = part.upper()
            if upper in _VIRTUAL_COLUMNS:
                found = VirtualName(_VIRTUAL_COLUMNS[upper], tuple(parts[:index]))
                scope.virtual.append(found)
            elif upper in _OFFSETS:
                line, column = position(cursor.source, first.start)
                raise UnsupportedError(
                    f"virtual column {upper} is not supported", line=line, column=column
                )
        if len(parts) >= 3:
            scope.dotted.append(DottedName(first.start, second, tuple(parts)))

    def _cast(self, scope: Scope) -> None:
        """CAST(expression AS type): types that Spark spells or treats otherwise."""
        cursor = self.cursor
        start = cursor.next().start
        cursor.expect("(")
        self.expression(scope, lambda c: c.key == "AS")
        cursor.expect("AS")
        kind = cursor.token
        words = [cursor.peek(n).key for n in range(5)]
        if kind.key in ("CHAR", "VARCHAR") and words[1] == "(" and not cursor.sparks:
            cursor.skip(2)
            length = cursor.integer("type length")
            close = cursor.token.end
            cursor.expect(")")
            opening, closing = ("left(", ")") if kind.key == "VARCHAR" else ("rtrim(left(", "))")
            scope.edits.append(Edit(start, start, opening))
            scope.edits.append(Edit(kind.start, close, "string"))
            scope.edits.append(Edit(cursor.token.end, cursor.token.end, f", {length}{closing}"))
        elif words[:5] == ["TIMESTAMP", "WITH", "LOCAL", "TIME", "ZONE"]:
            scope.edits.append(Edit(kind.start, cursor.peek(4).end, "timestamp_ltz"))
        elif words[:2] == ["DOUBLE", "PRECISION"]:
            scope.edits.append(Edit(kind.start, cursor.peek(1).end, "double"))
        self.region(Scope(), _never)
        cursor.expect(")")

    def sort_items(self, scope: Scope, *, write: bool = True) -> None:
        """What follows ORDER BY; ``write`` puts Hive's null order in where there is none."""

        def item(cursor: Cursor) -> None:
            self.expression(scope, _at_sort_item_end)
            descending = cursor.descending()
            if cursor.nulls_first() is None and write and not cursor.sparks:
                end = cursor.tokens[cursor.at - 1].end
                scope.edits.append(Edit(end, end, " NULLS FIRST" if descending else " NULLS LAST"))

        self.cursor.listed(item)


def _never(_: Cursor) -> bool:
    return False


def _at_sort_item_end(cursor: Cursor) -> bool:
    if cursor.key in (",", "ASC", "DESC", "ROWS", "RANGE") or at_clause(cursor):
        return True
    return cursor.key == "NULLS" and cursor.peek(1).key in ("FIRST", "LAST")

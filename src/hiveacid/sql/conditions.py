"""Condition text -> predicate: what files, stripes and partitions can be chosen by.

Understood are comparisons of a column with literals, IN, BETWEEN, IS [NOT] NULL, AND, OR, NOT and
parentheses; everything else becomes ``ANYTHING``. ``strict`` readers, which must evaluate the
condition themselves, get an error instead; they may write NULL, ``<=>`` and a boolean column, too.

Also the grammar of what chooses partitions: SHOW PARTITIONS ... WHERE, DROP PARTITION, MSCK. There
NOT goes down to the comparisons: one that NULL meets neither way is then false under NOT, too, as
in SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from hiveacid.errors import SqlSyntaxError, UnsupportedError
from hiveacid.model.predicates import (
    ANYTHING,
    NOTHING,
    And,
    Anything,
    Compare,
    Constant,
    In,
    IsNull,
    Op,
    Or,
    Predicate,
    conjunction,
    disjunction,
)
from hiveacid.sql.cursor import (
    Cursor,
    Token,
    TokenKind,
    name_of,
    syntax_error,
    tokenize,
)
from hiveacid.sql.dml import NotLiteralError, literal_value, partition_text

ColumnOf = Callable[[tuple[str, ...]], str | None]
"""The column (lower case) that a dotted name means, None where it is none of the table's."""

_OPS = {"=": Op.EQ, "==": Op.EQ, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_OPS |= {"<>": Op.NE, "!=": Op.NE}
_ENDS = ("AND", "OR", ")", ",")
_DEPTH_MAX: Final = 60
"""NOTs and parentheses within each other; what is deeper is not understood."""
_NULL: Final = cast(Constant, None)
"""Stands for NULL until NOTs are resolved, which leave it what it is: neither true nor false."""


class _NotUnderstood(NotLiteralError):
    """The condition that is being read has none of the forms that are understood."""


def parse_condition(text: str, column_of: ColumnOf, *, strict: bool = False) -> Predicate:
    """The predicate of a condition.

    Raises:
        SqlSyntaxError: ``strict`` and the text is no condition.
        UnsupportedError: ``strict`` and a part is not one of the forms understood.
    """
    try:
        tokens = tokenize(text)
    except SqlSyntaxError:
        if strict:
            raise
        return ANYTHING
    parser = _Parser(text, tokens, column_of, strict=strict)
    return parser.whole()


class _Parser:
    def __init__(
        self, text: str, tokens: tuple[Token, ...], column_of: ColumnOf, *, strict: bool
    ) -> None:
        self._text = text
        self._cursor = Cursor(source=text, tokens=tokens)
        self._column_of = column_of
        self._strict = strict
        self._unknowns = 0
        self._depth = 0

    def whole(self) -> Predicate:
        found = self._any_of()
        if not self._cursor.at_end():
            return self._unknown(self._cursor.at)
        return _without_null(found)

    def _any_of(self) -> Predicate:
        return disjunction(self._cursor.listed(lambda _: self._all_of(), by="OR"))

    def _all_of(self) -> Predicate:
        return conjunction(self._cursor.listed(lambda _: self._one(), by="AND"))

    def _one(self) -> Predicate:
        cursor, start = self._cursor, self._cursor.at
        if self._depth == _DEPTH_MAX:
            return self._unknown(start)
        self._depth += 1
        try:
            if cursor.accept_any("NOT", "!"):
                unknowns = self._unknowns
                inner = self._one()
                return _negated(inner) if unknowns == self._unknowns else ANYTHING
            with suppress(NotLiteralError):
                found = self._nested() if cursor.key == "(" else self._simple()
                if cursor.at_end() or cursor.key in _ENDS:
                    return found
        finally:
            self._depth -= 1
        return self._unknown(start)

    def _unknown(self, start: int) -> Predicate:
        """Skips to the end of the condition that began at ``start``."""
        cursor = self._cursor
        if self._strict:
            token = cursor.tokens[start]
            if token.kind is TokenKind.END:
                raise syntax_error(self._text, token.start, "a condition is missing")
            raise UnsupportedError(
                f"the condition at {self._text[token.start : token.start + 40]!r} is not understood"
                " here",
                note="Comparisons of columns with literals, IN, BETWEEN, IS NULL, AND, OR, NOT.",
            )
        self._unknowns += 1
        cursor.at = start
        depth, cases, between = 0, 0, 0
        while not cursor.at_end():
            key = cursor.key
            if depth == 0 and cases == 0:
                if key in ("OR", ")", ",") or (key == "AND" and not between):
                    break
                between += (key == "BETWEEN") - (key == "AND")
            depth += (key == "(") - (key == ")")
            cases += (key == "CASE") - (key == "END")
            cursor.next()
        return ANYTHING

    def _nested(self) -> Predicate:
        cursor = self._cursor
        cursor.next()
        if cursor.key in ("SELECT", "WITH", "FROM", "VALUES"):
            raise _NotUnderstood
        found = self._any_of()
        self._expect(")")
        return found

    def _expect(self, key: str) -> None:
        if not self._cursor.accept(key):
            raise _NotUnderstood

    def _simple(self) -> Predicate:
        cursor = self._cursor
        if self._at_literal():
            value = self._literal()
            if self._strict and cursor.accept("<=>"):
                return _null_safe(self._column(), value)
            op = self._op()
            column = self._column()
            return Compare(column, op.mirrored, value)
        column = self._column()
        if self._strict and (cursor.at_end() or cursor.key in _ENDS):
            return Compare(column, Op.EQ, True)
        if cursor.key == "IS":
            cursor.next()
            negated = cursor.accept("NOT")
            self._expect("NULL")
            return IsNull(column, negated=negated)
        negated = cursor.accept("NOT")
        if cursor.accept("IN"):
            found: Predicate = In(column, frozenset(self._list()))
        elif cursor.accept("BETWEEN"):
            low = self._literal()
            self._expect("AND")
            found = And((Compare(column, Op.GE, low), Compare(column, Op.LE, self._literal())))
        elif negated:
            raise _NotUnderstood
        elif self._strict and cursor.accept("<=>"):
            found = _null_safe(column, self._literal())
        else:
            op = self._op()
            found = Compare(column, op, self._literal())
        return _negated(found) if negated else found

    def _op(self) -> Op:
        op = _OPS.get(self._cursor.key)
        if op is None:
            raise _NotUnderstood
        self._cursor.next()
        return op

    def _column(self) -> str:
        def part(cursor: Cursor) -> str:
            if not cursor.token.is_name:
                raise _NotUnderstood
            return name_of(cursor.next())

        column = self._column_of(self._cursor.listed(part, by="."))
        if column is None:
            raise _NotUnderstood
        return column

    def _list(self) -> tuple[Constant, ...]:
        self._expect("(")
        values = self._cursor.listed(lambda _: self._literal())
        self._expect(")")
        if not self._strict and len({isinstance(value, str) for value in values}) > 1:
            raise _NotUnderstood  # without ANSI Spark compares texts then: 7.00 is not in (7, 'x')
        return values

    def _at_literal(self) -> bool:
        cursor = self._cursor
        if cursor.token.kind in (TokenKind.STRING, TokenKind.NUMBER) or cursor.key in ("-", "+"):
            return True
        if self._strict and cursor.key in ("NULL", "TRUE", "FALSE"):
            return True
        return cursor.key in ("DATE", "TIMESTAMP") and cursor.peek(1).kind is TokenKind.STRING

    def _literal(self) -> Constant:
        cursor = self._cursor
        if not self._strict and cursor.key == "NULL":
            raise _NotUnderstood
        if cursor.token.kind is TokenKind.STRING:
            escapes = "\\" in cursor.token.text and not self._strict
            if escapes or cursor.peek(1).kind is TokenKind.STRING:
                raise _NotUnderstood  # several strings, or escapes that Spark may read otherwise
        return cast("Constant", literal_value(cursor))


def _null_safe(column: str, value: Constant) -> Predicate:
    if value is _NULL:
        return IsNull(column)
    return And((IsNull(column, negated=True), Compare(column, Op.EQ, value)))


def _without_null(predicate: Predicate) -> Predicate:
    """The same where all NOTs are resolved: NULL beside a comparison is never true."""
    if isinstance(predicate, And | Or):
        return with_parts(predicate, _without_null)
    if isinstance(predicate, Compare) and predicate.value is _NULL:
        return NOTHING
    if isinstance(predicate, In) and _NULL in predicate.values:
        values = predicate.values - {_NULL}
        return In(predicate.column, values) if values else NOTHING
    return predicate


def with_parts(predicate: And | Or, change: Callable[[Predicate], Predicate]) -> Predicate:
    """The same of changed parts."""
    parts = tuple(map(change, predicate.parts))
    return conjunction(parts) if isinstance(predicate, And) else disjunction(parts)


def _negated(predicate: Predicate) -> Predicate:
    """NOT of a predicate that says all that the condition says."""
    if isinstance(predicate, Anything):
        return ANYTHING
    if isinstance(predicate, Compare):
        return Compare(predicate.column, predicate.op.negated, predicate.value)
    if isinstance(predicate, In):
        parts = tuple(Compare(predicate.column, Op.NE, value) for value in predicate.values)
        return conjunction(parts)
    if isinstance(predicate, IsNull):
        return IsNull(predicate.column, negated=not predicate.negated)
    negated = tuple(_negated(part) for part in predicate.parts)
    return disjunction(negated) if isinstance(predicate, And) else conjunction(negated)


def partition_filter(cursor: Cursor) -> Predicate:
    """Comparisons of columns with constants, IN, BETWEEN, LIKE, AND, OR, NOT, parentheses."""
    return disjunction(cursor.listed(_all, by="OR"))


def listed_filters(cursor: Cursor) -> Predicate:
    """( filter, ... ): all of them hold."""
    return conjunction(cursor.in_parentheses(partition_filter))


def _all(cursor: Cursor) -> Predicate:
    return conjunction(cursor.listed(_one, by="AND"))


def _one(cursor: Cursor) -> Predicate:
    if cursor.accept("NOT"):
        return _negated(_one(cursor))
    if cursor.accept("("):
        found = partition_filter(cursor)
        cursor.expect(")")
        return found
    return _comparison(cursor)


def _comparison(cursor: Cursor) -> Predicate:
    column = cursor.small_name("partition specification")

    def compared(op: Op, text: str | None) -> Predicate:
        return Compare(column, op, cast("Constant", text))

    negated = cursor.key == "NOT" and cursor.peek(1).key in ("IN", "BETWEEN", "LIKE")
    if negated:
        cursor.next()
    if cursor.accept("IN"):
        texts = cursor.in_parentheses(partition_text)
        found = disjunction(tuple(compared(Op.EQ, text) for text in texts))
    elif cursor.accept("BETWEEN"):
        low = compared(Op.GE, partition_text(cursor))
        cursor.expect("AND")
        found = And((low, compared(Op.LE, partition_text(cursor))))
    elif cursor.accept("LIKE"):
        found = compared(Op.LIKE, cursor.string("pattern"))
    else:
        op = _OPS.get(cursor.key)
        if op is None:
            raise cursor.unrecognized("partition filter")
        cursor.next()
        found = compared(op, partition_text(cursor))
    return _negated(found) if negated else found

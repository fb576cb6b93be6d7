"""Rows of plain literals: the short way for INSERT ... VALUES, without any expression engine."""

from __future__ import annotations

from hiveacid.sql.cursor import Cursor
from hiveacid.sql.lexer import TokenKind
from hiveacid.sql.literals import date_value, number_value, timestamp_value
from hiveacid.statements.values import Literals

_WORDS = {"NULL": None, "TRUE": True, "FALSE": False}


class _NotLiteralError(Exception):
    """The cell is more than a literal; never leaves this module."""


def literal_rows(cursor: Cursor) -> Literals | None:
    """Rows ``(cell, ...), ...`` at the cursor if every cell is a plain literal, else None (cursor
    anywhere).
    """
    rows: list[tuple[object, ...]] = []
    try:
        while True:
            if not cursor.accept("("):
                return None
            cells = [_cell(cursor)]
            while cursor.accept(","):
                cells.append(_cell(cursor))
            if not cursor.accept(")"):
                return None
            rows.append(tuple(cells))
            if not cursor.accept(","):
                return Literals(tuple(rows))
    except _NotLiteralError:
        return None


def _cell(cursor: Cursor) -> object:
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
    raise _NotLiteralError


def _number(cursor: Cursor, *, negative: bool) -> object:
    value = number_value(cursor.next().text)
    if value is None:
        raise _NotLiteralError
    return -value if negative else value

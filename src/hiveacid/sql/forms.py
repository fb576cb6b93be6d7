"""Statements and clauses whose grammar is a list of parts: read by their form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from hiveacid.errors import UnsupportedError
from hiveacid.sql.cursor import Cursor, SparksText, tokenize

_T = TypeVar("_T")
TABLE: Final = ("name", Cursor.table_name)
"""The part of a form that is a table's name."""


def whole(text: str, read: Callable[[Cursor], _T]) -> _T:
    """What ``read`` reads of a text, which is that and nothing else.

    Raises:
        SqlSyntaxError: it is something else, or more follows.
    """
    sparks = isinstance(text, SparksText)
    cursor = Cursor(source=text, tokens=tokenize(text), sparks=sparks)
    found = read(cursor)
    cursor.end_statement()
    return found


def form(
    value: Callable[..., _T], *parts: str | tuple[str, Callable[[Cursor], Any]]
) -> Callable[[Cursor], _T]:
    """Reads a statement part by part, in their order. A part is words that must come next, or a
    field of ``value`` and how it is read ('' for what is read and not kept).
    """

    def read(cursor: Cursor) -> _T:
        found = {}
        for part in parts:
            if isinstance(part, str):
                cursor.expect(*part.split())
            else:
                found[part[0]] = part[1](cursor)
        found.pop("", None)
        return value(**found)

    return read


def said(*words: str) -> Callable[[Cursor], bool]:
    """Moves over one of these words, or phrases, if it comes next; whether one does."""
    return lambda cursor: any(cursor.accept(*phrase.split()) for phrase in words)


def after(
    words: str, read: Callable[[Cursor], Any], otherwise: object = None
) -> Callable[[Cursor], Any]:
    """What ``read`` reads behind these words; ``otherwise`` where they do not come next."""
    return lambda cursor: read(cursor) if cursor.accept(*words.split()) else otherwise


def refused(message: str, *keys: str) -> Callable[[Cursor], None]:
    """Refuses a clause that is known and not supported, where one of these words comes next."""

    def read(cursor: Cursor) -> None:
        if cursor.key in keys:
            raise UnsupportedError(message)

    return read


def clauses(
    cursor: Cursor, known: Mapping[str, tuple[str, Callable[[Cursor], Any]]]
) -> dict[str, Any]:
    """Clauses in any order: by their first words the field that each fills, and how it is read."""
    found: dict[str, Any] = {}
    while True:
        words = next((one for one in known if cursor.accept(*one.split())), None)
        if words is None:
            return found
        name, read = known[words]
        found[name] = read(cursor)

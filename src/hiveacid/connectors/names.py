"""The names in a text of Spark SQL that may be tables, told without a grammar: what Spark reads is
more than what ours does, and a statement that is not ours must cost next to nothing.

A name counts where a relation can stand: after FROM, JOIN, INTO, TABLE and the like, and after the
commas of a FROM list. Too many cost a look at the metastore, too few would hide a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_PIECE: Final = re.compile(
    r"""
    '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | --[^\n]* | /\*.*?\*/
  | (?P<parameter>\{[^{}]*\})
  | (?P<name>(?:`(?:[^`]|``)*`|\w+)(?:\s*\.\s*(?:`(?:[^`]|``)*`|\w+))*)
  | (?P<symbol>[(),;|])
    """,
    re.VERBOSE | re.DOTALL,
)
_PART: Final = re.compile(r"`((?:[^`]|``)*)`|(\w+)")
_OPENS: Final = frozenset(
    {
        "ANALYZE", "CACHE", "EXISTS", "FROM", "IN", "INTO", "JOIN", "LIKE", "OPTIMIZE", "OVERWRITE",
        "PARTITIONS", "REFRESH", "TABLE", "TBLPROPERTIES", "UPDATE", "USING", "VACUUM", "VIEW",
    }
)  # fmt: skip
"""A relation, or another of these words, may follow."""
_BETWEEN: Final = frozenset({"DETAIL", "EXTENDED", "FORMATTED", "HISTORY", "IF", "LAZY", "NOT"})
"""May stand between such a word and the relation."""
_CLAUSES: Final = frozenset(
    {
        "BY", "GROUP", "HAVING", "LIMIT", "ON", "ORDER", "QUALIFY", "SELECT", "SET", "VALUES",
        "WHEN", "WHERE", "WINDOW", "WITH",
    }
)  # fmt: skip
"""After these a comma is followed by an expression."""


def first_words(text: str, count: int = 4) -> tuple[str, ...]:
    """The first words of a statement in upper case, without its comments."""
    words = []
    for piece in _PIECE.finditer(text):
        if piece["name"]:
            words.append(piece["name"].upper())
        elif piece["symbol"] or piece["parameter"]:
            break
        if len(words) == count:
            break
    return tuple(words)


def relation_names(text: str) -> tuple[tuple[str, ...], ...]:
    """The names that may be relations, each once, as their parts."""
    return tuple(dict.fromkeys(parts for _, _, parts in relation_places(text)))


def relation_places(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Where names that may be relations start and end, and their parts."""
    expected = in_from = False
    outer: list[bool] = []
    first = True
    for piece in _PIECE.finditer(text):
        symbol, name = piece["symbol"], piece["name"]
        if name:
            word = name.upper()
            if first:
                expected = word in ("DESC", "DESCRIBE") or word in _OPENS
            elif word in _OPENS:
                expected, in_from = True, in_from or word in ("FROM", "JOIN")
            elif word in _CLAUSES:
                expected = in_from = False
            elif expected and word not in _BETWEEN:
                expected = False
                if not (in_from and text.startswith("(", piece.end())):  # a table function
                    yield piece.start("name"), piece.end("name"), parts_of(name)
            first = False
        elif symbol == "(":
            outer.append(in_from)
            in_from = in_from and expected
        elif symbol == ")":
            in_from, expected = bool(outer) and outer.pop(), False
        elif symbol == ",":
            expected = in_from
        elif symbol or piece["parameter"]:
            expected = False


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a dotted name; ```db.table``` in one pair of back-quotes are two."""
    found = _PART.findall(name)
    parts = tuple(quoted.replace("``", "`") or word for quoted, word in found)
    if len(parts) == 1 and "." in parts[0] and "/" not in parts[0]:
        return tuple(parts[0].split("."))
    return parts

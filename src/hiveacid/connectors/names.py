"""The names in a text of Spark SQL that may be tables, told without a grammar: what Spark reads is
more than what ours does, and a statement that is not ours must cost next to nothing.

A name counts where a relation can stand: after FROM, JOIN, INTO, TABLE and the like, and after the
commas of a FROM list. Too many cost a look at the metastore, too few would hide a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_SKIPPED: Final = r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | --[^\n]* | /\*.*?\*/"""
_NAME: Final = r"(?P<name>(?:`(?:[^`]|``)*`|\w+)(?:\s*\.\s*(?:`(?:[^`]|``)*`|\w+))*)"
_OPENS: Final = frozenset(
    {
        "ANALYZE", "CACHE", "EXISTS", "FROM", "IN", "INTO", "JOIN", "LIKE", "OPTIMIZE", "OVERWRITE",
        "PARTITIONS", "REFRESH", "TABLE", "TBLPROPERTIES", "UPDATE", "USING", "VACUUM", "VIEW",
    }
)  # fmt: skip
"""A relation, or another of these words, may follow."""
_BETWEEN: Final = frozenset(
    {"DETAIL", "EXTENDED", "FORMATTED", "HISTORY", "IF", "LATERAL", "LAZY", "NOT"}
)
"""May stand between such a word and the relation."""
_CLAUSES: Final = frozenset(
    {
        "BY", "GROUP", "HAVING", "LIMIT", "ON", "ORDER", "QUALIFY", "SELECT", "SET", "VALUES",
        "WHEN", "WHERE", "WINDOW", "WITH",
    }
)  # fmt: skip
"""After these a comma is followed by an expression."""
_FLAGS: Final = re.VERBOSE | re.DOTALL
_PIECE: Final = re.compile(
    rf"{_SKIPPED} | (?P<parameter>\{{[^{{}}]*\}}) | {_NAME} | (?P<symbol>[(),;|])", _FLAGS
)
_NEXT: Final = re.compile(rf"(?:\s+ | --[^\n]* | /\*.*?\*/)* {_NAME}", _FLAGS)
_WORDS: Final = rf"\b(?P<word>{'|'.join(sorted(_OPENS | _CLAUSES))})\b"
_IN_FROM: Final = re.compile(
    rf"{_SKIPPED} | \{{[^{{}}]*\}} | `[^`]*` | (?P<symbol>[(),;|]) | {_WORDS}", _FLAGS
)
_ELSEWHERE: Final = re.compile(
    rf"{_SKIPPED} | \{{[^{{}}]*\}} | `[^`]*` | (?P<symbol>[();|]) | {_WORDS}", _FLAGS
)
_PART: Final = re.compile(r"`((?:[^`]|``)*)`|(\w+)")


_IDENTIFIER: Final = re.compile(r"\s*\(\s*'([^'\\]*)'\s*\)")


def with_identifiers(text: str) -> str:
    """The text with names in place of Spark's ``identifier('name')``."""
    if "identifier" not in text.lower():
        return text
    pieces, at = [], 0
    for piece in _PIECE.finditer(text):
        if (piece["name"] or "").upper() != "IDENTIFIER":
            continue
        named = _IDENTIFIER.match(text, piece.end())
        if named is not None:
            pieces += [text[at : piece.start()], named[1]]
            at = named.end()
    return "".join((*pieces, text[at:]))


def first_words(text: str, count: int = 6) -> tuple[str, ...]:
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
    in_from, at, upper = False, 0, _upper(text)
    expected = first_words(text, 1) in (("DESC",), ("DESCRIBE",))
    if expected:
        at = _NEXT.match(text).end()  # type: ignore[union-attr]
    outer: list[bool] = []
    while True:
        name = _NEXT.match(text, at) if expected else None
        if name is not None:
            word, at = name["name"].upper(), name.end()
            expected = word in _OPENS or word in _BETWEEN
            in_from = (in_from or word in ("FROM", "JOIN")) and word not in _CLAUSES
            is_function = in_from and text.startswith("(", at)
            if not (expected or is_function or word in _CLAUSES):
                yield name.start("name"), at, parts_of(name["name"])
            continue
        event = (_IN_FROM if in_from else _ELSEWHERE).search(upper, at)
        if event is None:
            return
        at, symbol, word = event.end(), event["symbol"], event["word"]
        if word:
            expected = word in _OPENS
            in_from = word in ("FROM", "JOIN") or (in_from and expected)
        elif symbol == "(":
            outer.append(in_from)
            in_from = expected = in_from and expected
        elif symbol == ")":
            in_from, expected = bool(outer) and outer.pop(), False
        else:
            expected = symbol == ","


def _upper(text: str) -> str:
    """The text with its keywords in upper case, character for character: to search for words of any
    case takes three times as long.
    """
    return text.encode(errors="surrogatepass").upper().decode(errors="surrogatepass")


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a dotted name; ```db.table``` in one pair of back-quotes are two."""
    found = _PART.findall(name)
    parts = tuple(quoted.replace("``", "`") or word for quoted, word in found)
    if len(parts) == 1 and "." in parts[0] and "/" not in parts[0]:
        return tuple(parts[0].split("."))
    return parts

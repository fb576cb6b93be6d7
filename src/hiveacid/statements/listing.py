"""``Listing``: the result of SHOW, DESCRIBE, SET and EXPLAIN: rows of text, made without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listing:
    """Named columns and rows; every cell is text or None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows)


def matching(names: tuple[str, ...], pattern: str | None) -> tuple[str, ...]:
    """The names that a LIKE pattern of SHOW matches, without regard to case.

    ``*`` and ``%`` stand for anything, ``_`` for one character, ``|`` separates alternatives.
    """
    if pattern is None:
        return names
    wildcards = {"*": ".*", "%": ".*", "_": ".", "|": "|"}
    text = "".join(wildcards.get(character, re.escape(character)) for character in pattern)
    expression = re.compile(text, re.IGNORECASE | re.DOTALL)
    return tuple(name for name in names if expression.fullmatch(name))

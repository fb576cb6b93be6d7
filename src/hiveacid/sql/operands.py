"""Operands, found by their tokens: of a call, and of ``||``.

To Hive ``||`` binds less than ``+`` and ``-``, to Spark as they do: a sum in it needs parentheses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hiveacid.sql.cursor import NOT_AN_ALIAS, Token, TokenKind

_WITHIN: Final = frozenset({"DIV", "FILTER", "IGNORE", "NULLS", "OVER", "RESPECT", "WITHIN"})
"""Words that are part of an operand."""
_ENDS: Final = NOT_AN_ALIAS - {"NULL"} | {"ASC", "DESC", "ILIKE", "LIMIT", "REGEXP", "RLIKE"}
_OPERATORS: Final = frozenset({"+", "-", "*", "/", "%", "^", "~", ".", "::", "->"})
_QUERIES: Final = frozenset({"FROM", "SELECT", "VALUES", "WITH"})


@dataclass(slots=True)
class _Level:
    """What has been read between two parentheses since an operator that binds less."""

    in_query: bool
    operands: list[tuple[int, int, bool]] = field(default_factory=list)
    """First and last token of each, and whether something is added in it."""
    is_open: bool = False
    is_known: bool = True

    def extend(self, at: int, *, adds: bool = False) -> None:
        """The operand goes on to a token, or begins with it."""
        if self.is_open:
            first, _, added = self.operands.pop()
            self.operands.append((first, at, added or adds))
        else:
            self.operands.append((at, at, False))
        self.is_open = True

    def parentheses(self, tokens: Sequence[Token]) -> list[tuple[int, str]]:
        """Those that operands need which end here, with their offsets."""
        found = self.operands if self.is_known and not self.in_query else []
        self.operands, self.is_open, self.is_known = [], False, True
        if len(found) < 2:
            return []
        return [
            parenthesis
            for first, last, adds in found
            if adds
            for parenthesis in ((tokens[first].start, "("), (tokens[last].end, ")"))
        ]


def commas(group: Sequence[Token]) -> list[Token]:
    """The commas of a group, without those of groups in it."""
    depth, found = 0, []
    for token in group:
        depth += (token.key in ("(", "[")) - (token.key in (")", "]"))
        if token.key == "," and depth == 1:
            found.append(token)
    return found


def concatenations(tokens: Sequence[Token]) -> list[tuple[int, str]]:
    """Parentheses that the operands of ``||`` need for Spark, with their offsets; none in queries
    among the tokens.
    """
    if all(token.key != "||" for token in tokens):
        return []
    level, outer = _Level(in_query=False), []
    found: list[tuple[int, str]] = []
    for at, token in enumerate(tokens):
        key = token.key
        if key in ("(", "[", "CASE"):
            level.extend(at)
            outer.append(level)
            is_query = key == "(" and at + 1 < len(tokens) and tokens[at + 1].key in _QUERIES
            level = _Level(in_query=level.in_query or is_query)
        elif key in (")", "]", "END") and outer:
            found += level.parentheses(tokens)
            level = outer.pop()
            level.extend(at)
        elif key == "||":
            level.is_open = False
        elif key in _WITHIN or (token.kind is TokenKind.SYMBOL and key in _OPERATORS):
            is_binary = level.is_open and _ends_operand(tokens[at - 1])
            level.extend(at, adds=key in ("+", "-") and is_binary)
        elif token.kind is TokenKind.SYMBOL or key in _ENDS:
            found += level.parentheses(tokens)
        else:
            before = (TokenKind.WORD, TokenKind.STRING)
            typed = tokens[at - 1].kind in before and token.kind is TokenKind.STRING
            if level.is_open and _ends_operand(tokens[at - 1]) and not typed:
                found += level.parentheses(tokens)  # an alias
            level.extend(at)
            level.is_known &= key != "INTERVAL"
    return found + level.parentheses(tokens)


def _ends_operand(token: Token) -> bool:
    if token.kind is TokenKind.SYMBOL:
        return token.key in (")", "]")
    return token.key not in _WITHIN

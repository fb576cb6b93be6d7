"""Tokens of Hive SQL with their exact places in the text.

Rules (HiveLexer.g): strings in single or double quotes with backslash escapes, identifiers of
letters, digits and underscores that may start with a digit, back-quoted identifiers in which a
doubled back-quote is one, ``--`` and ``/* */`` comments. Comments
are dropped; they stay in the text between the tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from hiveacid.errors import SqlSyntaxError


class TokenKind(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted identifier"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A token: ``text`` as written, ``key`` in upper case for words ('' for strings and quoted
    names).

    ``start`` and ``end`` are offsets into the source, ``end`` is exclusive.
    """

    kind: TokenKind
    text: str
    key: str
    start: int
    end: int


_PATTERN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[LlSsYyDdFf])?(?!\w))
  | (?P<word>\w+)
  | (?P<symbol>(?!/\*)(?:<=>|<>|!=|<=|>=|==|\|\||->|=>|::|\$\{|[-+*/%&|^~!<>=(),.;:\[\]{}?@\#$]))
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {
    "string": TokenKind.STRING,
    "quoted": TokenKind.QUOTED,
    "number": TokenKind.NUMBER,
    "word": TokenKind.WORD,
    "symbol": TokenKind.SYMBOL,
}


def position(source: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of an offset."""
    line_start = source.rfind("\n", 0, offset) + 1
    return source.count("\n", 0, line_start) + 1, offset - line_start + 1


def syntax_error(source: str, offset: int, what: str) -> SqlSyntaxError:
    """An error in Hive's words: ``line 1:19 what`` (Hive counts columns from 0)."""
    line, column = position(source, offset)
    return SqlSyntaxError(f"line {line}:{column - 1} {what}", line=line, column=column)


def tokenize(source: str) -> tuple[Token, ...]:
    """Tokens of ``source``, ending with one of kind END.

    Raises:
        SqlSyntaxError: a character that starts no token, or a quote or comment without its end.
    """
    tokens: list[Token] = []
    offset, length = 0, len(source)
    match = _PATTERN.match
    while offset < length:
        found = match(source, offset)
        if found is None:
            raise syntax_error(source, offset, _why_no_token(source, offset))
        group = found.lastgroup
        end = found.end()
        if group != "space":
            assert group is not None
            text = found.group()
            kind = _KINDS[group]
            if kind is TokenKind.NUMBER and text[0] == "." and _after_name(tokens, offset):
                tokens.append(Token(TokenKind.SYMBOL, ".", ".", offset, offset + 1))
                offset += 1  # ``t.1a``: a dot and a name, which may start with a digit
                continue
            key = text.upper() if group == "word" else text if group == "symbol" else ""
            tokens.append(Token(kind, text, key, offset, end))
        offset = end
    tokens.append(Token(TokenKind.END, "<EOF>", "<EOF>", length, length))
    return tuple(tokens)


def _after_name(tokens: list[Token], offset: int) -> bool:
    if not tokens or tokens[-1].end != offset:
        return False
    last = tokens[-1]
    return last.kind in (TokenKind.WORD, TokenKind.QUOTED) or last.key in (")", "]")


def _why_no_token(source: str, offset: int) -> str:
    if source.startswith("/*", offset):
        return "comment is not closed"
    if source[offset] in "'\"`":
        return f"character '{source[offset]}' not supported here: the quote is not closed"
    return f"character '{source[offset]}' not supported here"


def name_of(token: Token) -> str:
    """The identifier that a WORD or QUOTED token spells."""
    if token.kind is TokenKind.QUOTED:
        return token.text[1:-1].replace("``", "`")
    return token.text

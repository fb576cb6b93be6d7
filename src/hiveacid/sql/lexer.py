"""Tokens of Hive SQL with their exact places in the text, and the values of literals.

Rules (HiveLexer.g): strings in single or double quotes with backslash escapes, identifiers of
letters, digits and underscores that may start with a digit, back-quoted identifiers in which a
doubled back-quote is one, ``--`` and ``/* */`` comments. Comments
are dropped; they stay in the text between the tokens.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal
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


# -------------------------------------------------------------------- literals


_ESCAPES = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|([01][0-7][0-7])|(.))", re.DOTALL)
_NUMBER = re.compile(r"(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?(BD|bd|[LlSsYyDdFf])?")
_TIMESTAMP = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,6}))?)?\s*"
)


def string_value(token_text: str) -> str:
    """The value of a quoted string literal (quotes included in ``token_text``)."""
    body = token_text[1:-1]
    if "\\" not in body:
        return body
    text = _ESCAPE.sub(_unescape, body)
    if any("\ud800" <= character <= "\udfff" for character in text):
        # two \\uXXXX escapes that are a surrogate pair are one character, as in Java
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _unescape(match: re.Match[str]) -> str:
    unicode, octal, other = match.groups()
    if unicode is not None:
        return chr(int(unicode, 16))
    if octal is not None:
        return chr(int(octal, 8))
    return _ESCAPES.get(other, other)


def number_value(text: str) -> int | Decimal | float | None:
    """The value of a number; None where its type is not decided here (suffix F)."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    digits, exponent, suffix = match.groups()
    suffix = (suffix or "").upper()
    if suffix == "F":
        return None
    if exponent is not None or suffix == "D":
        return (
            Decimal(digits + (exponent or ""))
            if suffix == "BD"
            else float(digits + (exponent or ""))
        )
    if suffix == "BD":
        return Decimal(digits)
    if "." in digits:
        return Decimal(digits) if suffix == "" else None
    return int(digits)


def date_value(text: str) -> datetime.date | None:
    """The value of DATE 'text'; None where it is not a plain date of the years 1 to 9999."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None or match.group(4) is not None:
        return None
    try:
        return datetime.date(int(match.group(1)), int(match.group(2)), int(match.group(3)))
    except ValueError:
        return None


def timestamp_value(text: str) -> datetime.datetime | None:
    """The value of TIMESTAMP 'text' (no zone); None where Python's datetime cannot hold it."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match.group(n) or 0) for n in range(1, 7))
    micros = int((match.group(7) or "").ljust(6, "0"))
    try:
        return datetime.datetime(year, month, day, hour, minute, second, micros)
    except ValueError:
        return None

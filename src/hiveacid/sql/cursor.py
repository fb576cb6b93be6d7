"""Tokens of Hive SQL with their exact places in the text, the values of literals, and a cursor over
tokens: look on, accept, expect, complain in Hive's words.

Rules (HiveLexer.g): strings in single or double quotes with backslash escapes, identifiers of
letters, digits and underscores that may start with a digit, back-quoted identifiers in which a
doubled back-quote is one, ``--`` and ``/* */`` comments. Comments are dropped; they stay in the
text between the tokens.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import NamedTuple, TypeVar

from hiveacid.errors import SqlSyntaxError
from hiveacid.model.tables import LONG_MAX, TableName
from hiveacid.spark.session import BRACKETED


class TokenKind(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted identifier"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end"


class Token(NamedTuple):
    """A token: ``text`` as written, ``key`` in upper case for words ('' for strings and quoted
    names).

    ``start`` and ``end`` are offsets into the source, ``end`` is exclusive.
    """

    kind: TokenKind
    text: str
    key: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether it may be an identifier."""
        return self.kind in (TokenKind.WORD, TokenKind.QUOTED)


_PATTERN = re.compile(
    rf"(?P<space>\s+|--[^\r\n]*|{BRACKETED})"
    r"""
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


_SURROGATE = re.compile(r"[\ud800-\udfff]")


@lru_cache(maxsize=4)
def tokenize(source: str) -> tuple[Token, ...]:
    """Tokens of ``source``, ending with one of kind END. A statement asks several times.

    Raises:
        SqlSyntaxError: a character that starts no token, or a quote or comment without its end.
    """
    half = None if source.isascii() else _SURROGATE.search(source)
    if half is not None:  # no file and no database can keep it
        raise syntax_error(source, half.start(), "half of a character, a surrogate, not supported")
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
    return last.is_name or last.key in (")", "]")


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
    if text.isdecimal():
        return int(text)
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


# Hive's reserved words that cannot be an alias without quotes where one is optional.
NOT_AN_ALIAS = frozenset(
    {
        "ALL", "AND", "AS", "BETWEEN", "BY", "CASE", "CROSS", "DISTINCT", "ELSE", "END",
        "EXCEPT", "EXISTS", "FROM", "FULL", "GROUP", "HAVING", "IN", "INNER", "INSERT",
        "INTERSECT", "INTO", "IS", "JOIN", "LATERAL", "LEFT", "LIKE", "NATURAL", "NOT", "NULL",
        "OFFSET", "ON", "OR", "ORDER", "OUTER", "PARTITION", "QUALIFY", "RIGHT", "ROW", "ROWS",
        "SELECT", "SET", "TABLE", "TABLESAMPLE", "THEN", "UNION", "UNIQUEJOIN", "USING",
        "VALUES", "WHEN", "WHERE", "WINDOW", "WITH",
    }
)  # fmt: skip
# Words that are names unless the next word makes them a clause.
_CLAUSE_BY = frozenset({"GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "PARTITION"})
_T = TypeVar("_T")
_QUERY_START = frozenset({"SELECT", "FROM", "WITH", "VALUES", "("})


class SparksText(str):
    """An expression given to one of Spark's own calls (``Cursor``)."""

    __slots__ = ()


class Cursor:
    """Reads tokens one by one: a place in the list of them, which moves on. In a text of ``sparks``
    own calls functions, the order of NULL and that of set operators mean what they do to Spark.
    """

    def __init__(self, *, source: str, tokens: Sequence[Token], sparks: bool = False) -> None:
        self.sparks = sparks
        self.source = source
        self.tokens = tokens
        self.at = 0

    @property
    def token(self) -> Token:
        """The token at the cursor."""
        return self.tokens[self.at]

    @property
    def key(self) -> str:
        """The key of the token at the cursor."""
        return self.tokens[self.at].key

    def at_name(self) -> bool:
        """True at what may be an identifier."""
        return self.token.is_name

    def peek(self, places: int) -> Token:
        """The token so many places further on; the last one beyond the end."""
        return self.tokens[min(self.at + places, len(self.tokens) - 1)]

    def next(self) -> Token:
        """The token at the cursor, which moves on (never beyond the end)."""
        token = self.tokens[self.at]
        if self.at < len(self.tokens) - 1:
            self.at += 1
        return token

    def skip(self, count: int) -> None:
        """Moves over ``count`` tokens."""
        for _ in range(count):
            self.next()

    def at_end(self) -> bool:
        """True at the last token."""
        return self.token.kind is TokenKind.END

    def looking_at(self, *keys: str) -> bool:
        """True if the next tokens have these keys."""
        if self.key != keys[0]:
            return False
        return all(self.peek(n).key == key for n, key in enumerate(keys[1:], 1))

    def accept(self, *keys: str) -> bool:
        """Moves over these keys if they come next, and says whether they did."""
        if not self.looking_at(*keys):
            return False
        for _ in keys:
            self.next()
        return True

    def accept_any(self, *keys: str) -> str | None:
        """Moves over the next token if its key is one of these, and says which."""
        if self.key in keys:
            return self.next().key
        return None

    def expect(self, *keys: str) -> None:
        """Moves over the keys, which must be next."""
        for key in keys:
            if self.key != key:
                raise self.error(f"mismatched input '{self.token.text}' expecting {key}")
            self.next()

    def name(self, what: str = "identifier") -> str:
        """An identifier."""
        if not self.at_name():
            raise self.unrecognized(what)
        return name_of(self.next())

    def string(self, what: str = "string") -> str:
        """A string literal's value (adjacent ones are one)."""
        if self.token.kind is not TokenKind.STRING:
            raise self.unrecognized(what)
        text = ""
        while self.token.kind is TokenKind.STRING:
            text += string_value(self.next().text)
        return text

    def integer(self, what: str = "number") -> int:
        """A whole number without suffix, up to the largest of a bigint."""
        text = self.token.text
        is_whole = self.token.kind is TokenKind.NUMBER and text.isdigit()
        if not is_whole or int(text) > LONG_MAX:
            raise self.unrecognized(what)
        return int(self.next().text)

    def small_name(self, what: str = "identifier") -> str:
        """An identifier in lower case, as the metastore keeps names."""
        return self.name(what).lower()

    def listed(self, read: Callable[[Cursor], _T], *, by: str = ",") -> tuple[_T, ...]:
        """One or more of what ``read`` reads, with commas, or ``by``, between them."""
        items = [read(self)]
        while self.accept(by):
            items.append(read(self))
        return tuple(items)

    def in_parentheses(self, read: Callable[[Cursor], _T]) -> tuple[_T, ...]:
        """A list as ``listed`` reads it, in parentheses."""
        self.expect("(")
        items = self.listed(read)
        self.expect(")")
        return items

    def descending(self) -> bool:
        """[ASC | DESC]: whether it is DESC."""
        return self.accept_any("ASC", "DESC") == "DESC"

    def nulls_first(self) -> bool | None:
        """NULLS FIRST | LAST, if it is next: which of them."""
        if not self.accept("NULLS"):
            return None
        word = self.accept_any("FIRST", "LAST")
        if word is None:
            raise self.unrecognized("null ordering")
        return word == "FIRST"

    def sort_key(self) -> tuple[str, bool]:
        """column [ASC | DESC]: its name in lower case, whether it is descending."""
        return self.small_name("order by"), self.descending()

    def names(self, what: str = "column list") -> tuple[str, ...]:
        """( name, ... ), in lower case."""
        return self.in_parentheses(lambda cursor: cursor.small_name(what))

    def dotted_name(self) -> tuple[str, ...]:
        """``a``, ``a.b`` or ``a.b.c``."""
        parts = [self.name("table name")]
        while self.key == "." and self.peek(1).is_name:
            self.next()
            parts.append(self.name("table name"))
        if len(parts) == 1 and "." in parts[0]:
            parts = parts[0].split(".")  # `db.table` in one pair of back-quotes
        return tuple(parts)

    def table_name(self) -> TableName:
        """A table name as written; the database is '' where none is."""
        start = self.token
        parts = self.dotted_name()
        if len(parts) > 2:
            raise syntax_error(self.source, start.start, f"invalid table name '{'.'.join(parts)}'")
        return TableName.of(parts)

    def if_exists(self) -> bool:
        """IF EXISTS, if it is next."""
        return self.accept("IF", "EXISTS")

    def if_not_exists(self) -> bool:
        """IF NOT EXISTS, if it is next."""
        return self.accept("IF", "NOT", "EXISTS")

    def at_query(self, *, ahead: int = 0) -> bool:
        """True where a query may start, so many tokens ahead."""
        key, follower = self.peek(ahead).key, self.peek(ahead + 1)
        return key in _QUERY_START or (key == "TABLE" and follower.is_name)

    def at_nested_query(self, *, ahead: int = 0) -> bool:
        """True where a query starts so many tokens ahead, perhaps within parentheses."""
        while self.peek(ahead).key == "(":
            ahead += 1
        return self.at_query(ahead=ahead)

    def at_alias(self) -> bool:
        """True where an alias without AS may stand."""
        token = self.token
        if token.kind is TokenKind.QUOTED:
            return True
        if token.kind is not TokenKind.WORD or token.key in NOT_AN_ALIAS:
            return False
        if token.key in _CLAUSE_BY and self.peek(1).key == "BY":
            return False
        if token.key in ("LIMIT", "MINUS"):
            follower = self.peek(1)
            return follower.kind is not TokenKind.NUMBER and follower.key not in (
                "SELECT",
                "(",
                "ALL",
                "DISTINCT",
                "FROM",
                "VALUES",
            )
        return True

    def end_statement(self) -> None:
        """Refuses what is left after the end of the statement."""
        if not self.at_end():
            raise self.error(f"extraneous input '{self.token.text}' expecting EOF")

    def between(self, start: int, end: int) -> str:
        """The source text from token index ``start`` up to but without ``end``."""
        if end <= start:
            return ""
        return self.source[self.tokens[start].start : self.tokens[end - 1].end]

    def skip_parentheses(self) -> tuple[int, int]:
        """Moves over ``( ... )``; token indexes of what is inside."""
        self.expect("(")
        start, depth = self.at, 1
        while depth:
            if self.at_end():
                raise self.error("missing ) at '<EOF>'")
            depth += {"(": 1, ")": -1}.get(self.next().key, 0)
        return start, self.at - 1

    def unrecognized(self, what: str) -> SqlSyntaxError:
        """An error in Hive's words, with the next three tokens."""
        near = " ".join(
            f"'{self.peek(n).text}'" for n in range(3) if self.at + n < len(self.tokens)
        )
        return self.error(f"cannot recognize input near {near} in {what}")

    def error(self, what: str) -> SqlSyntaxError:
        """A syntax error at the cursor."""
        return syntax_error(self.source, self.token.start, what)

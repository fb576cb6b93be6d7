"""A cursor over tokens: look on, accept, expect, complain in Hive's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from hiveacid.errors import SqlSyntaxError
from hiveacid.model.ids import LONG_MAX
from hiveacid.model.tables import TableName
from hiveacid.sql.lexer import Token, TokenKind, name_of, string_value, syntax_error

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


class Cursor:
    """Reads tokens one by one: a place in the list of them, which moves on."""

    def __init__(self, *, source: str, tokens: Sequence[Token]) -> None:
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
        return all(self.peek(n).key == key for n, key in enumerate(keys))

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
                raise self.error(f"mismatched input {self._shown()} expecting {key}")
            self.next()

    def name(self, what: str = "identifier") -> str:
        """An identifier."""
        if self.token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
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

    def listed(self, read: Callable[[Cursor], _T]) -> tuple[_T, ...]:
        """One or more of what ``read`` reads, with commas between them."""
        items = [read(self)]
        while self.accept(","):
            items.append(read(self))
        return tuple(items)

    def in_parentheses(self, read: Callable[[Cursor], _T]) -> tuple[_T, ...]:
        """A list as ``listed`` reads it, in parentheses."""
        self.expect("(")
        items = self.listed(read)
        self.expect(")")
        return items

    def sort_key(self) -> tuple[str, bool]:
        """column [ASC | DESC]: its name in lower case, whether it is descending."""
        return self.small_name("order by"), self.accept_any("ASC", "DESC") == "DESC"

    def names(self, what: str = "column list") -> tuple[str, ...]:
        """( name, ... ), in lower case."""
        return self.in_parentheses(lambda cursor: cursor.small_name(what))

    def dotted_name(self, what: str = "table name") -> tuple[str, ...]:
        """``a``, ``a.b`` or ``a.b.c``."""
        parts = [self.name(what)]
        while self.key == "." and self.peek(1).kind in (TokenKind.WORD, TokenKind.QUOTED):
            self.next()
            parts.append(self.name(what))
        if len(parts) == 1 and "." in parts[0]:
            parts = parts[0].split(".")  # `db.table` in one pair of back-quotes
        return tuple(parts)

    def table_name(self) -> TableName:
        """A table name as written; the database is '' where none is."""
        start = self.token
        parts = self.dotted_name()
        if len(parts) > 2:
            raise syntax_error(self.source, start.start, f"invalid table name '{'.'.join(parts)}'")
        return TableName(parts[0] if len(parts) == 2 else "", parts[-1])

    def if_exists(self) -> bool:
        """IF EXISTS, if it is next."""
        return self.accept("IF", "EXISTS")

    def if_not_exists(self) -> bool:
        """IF NOT EXISTS, if it is next."""
        return self.accept("IF", "NOT", "EXISTS")

    def at_query(self) -> bool:
        """True where a query may start."""
        return self.key in _QUERY_START

    def at_nested_query(self) -> bool:
        """True where a query starts, perhaps within parentheses."""
        count = 0
        while self.peek(count).key == "(":
            count += 1
        return self.peek(count).key in _QUERY_START

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
            raise self.error(f"extraneous input {self._shown()} expecting EOF")

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
        near = " ".join(f"'{self.peek(n).text}'" for n in range(3) if self._exists(n))
        return self.error(f"cannot recognize input near {near} in {what}")

    def error(self, what: str) -> SqlSyntaxError:
        """A syntax error at the cursor."""
        return syntax_error(self.source, self.token.start, what)

    def _shown(self) -> str:
        return f"'{self.token.text}'"

    def _exists(self, places: int) -> bool:
        return self.at + places < len(self.tokens)

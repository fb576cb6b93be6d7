"""Parts of a query: select items, and what Hive calls the columns that they make; what follows the
name of a table, options of reading it, a sample of its buckets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from hiveacid.errors import UnsupportedError
from hiveacid.spark.session import quoted
from hiveacid.sql.cursor import NOT_AN_ALIAS, Cursor, Token, TokenKind, name_of
from hiveacid.sql.expressions import BucketSample, Item, Scope, at_clause
from hiveacid.statements.values import READ_OPTIONS

_BEFORE_OPERAND: Final = NOT_AN_ALIAS - {"END", "NULL"} | {
    "DIV", "ESCAPE", "ILIKE", "INTERVAL", "REGEXP", "RLIKE", "TO",
}  # fmt: skip
"""Words behind which a name is no alias."""
_VALUES: Final = frozenset(
    {"CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_USER", "FALSE", "NULL", "TRUE"}
)
"""Words that are a value and no column."""
_GENERATORS: Final = frozenset(
    {
        "EXPLODE", "EXPLODE_OUTER", "INLINE", "INLINE_OUTER", "JSON_TUPLE", "POSEXPLODE",
        "POSEXPLODE_OUTER", "STACK",
    }
)  # fmt: skip

_PLACED: Final = re.compile(r"\b_c\d+\b", re.IGNORECASE)


def at_join(cursor: Cursor) -> bool:
    """True at the words of a join (or the comma of a FROM list)."""
    if cursor.key in (",", "JOIN"):
        return True
    if cursor.key not in ("INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ANTI", "SEMI"):
        return False
    follower = cursor.peek(1).key
    return follower in ("JOIN", "OUTER", "SEMI", "ANTI", "LEFT", "RIGHT", "FULL", "INNER")


def at_pivot(cursor: Cursor) -> bool:
    """True at PIVOT (...) or UNPIVOT [INCLUDE | EXCLUDE NULLS] (...), and not at such a name."""
    follower = cursor.peek(1).key
    if cursor.key == "PIVOT":
        return follower == "("
    return cursor.key == "UNPIVOT" and follower in ("(", "INCLUDE", "EXCLUDE")


def at_end_of_on(cursor: Cursor) -> bool:
    """True behind the condition of a join."""
    return at_clause(cursor) or at_join(cursor) or at_pivot(cursor)


def column_alias_follows(cursor: Cursor) -> bool:
    """After a lateral view's column alias: is what follows the comma another one, not a
    relation?
    """
    after = cursor.peek(2)
    return after.key in (",", "LATERAL", "WHERE", "GROUP", ")", "ORDER", "LIMIT") or (
        after.kind is TokenKind.END or after.key in ("JOIN", "HAVING", "UNION", "SELECT", "INSERT")
    )


def item_of(tokens: Sequence[Token]) -> Item:
    """A select item from its tokens: ``a.b AS c`` names a column, everything else is an
    expression.
    """
    last, before = tokens[-1], tokens[-2] if len(tokens) > 1 else None
    expression, name = tokens, ""
    if before is not None and last.is_name and _is_alias(last, before, tokens):
        expression, name = tokens[: -2 if before.key == "AS" else -1], name_of(last).lower()
    named = name or _name_within(expression)
    parts = tuple(name_of(token).lower() for token in expression[::2])
    is_path = all(one.is_name for one in expression[::2]) and all(
        one.key == "." for one in expression[1::2]
    )
    if not is_path or len(expression) % 2 == 0 or expression[0].key in _VALUES:
        is_cast = not name and tokens[0].key == "CAST"
        return Item(named, (), _is_several(tokens), is_cast=is_cast, kind=_kind(expression))
    return Item(named, parts)


def as_said(tokens: Sequence[Token], source: str) -> str:
    """An alias for a select item that Spark reads in other words: what was said, of a cast its
    column; '' where it has one.
    """
    last, before = tokens[-1], tokens[-2] if len(tokens) > 1 else None
    has_alias = before is not None and last.is_name and _is_alias(last, before, tokens)
    said = " ".join(source[tokens[0].start : last.end].split())
    name = item_of(tokens).name or said
    return "" if has_alias or _is_several(tokens) or "${" in name else f" AS {quoted(name)}"


def by_place(items: Sequence[Item], source: str) -> str:
    """An alias for the last select item of a query in FROM or WITH, where it has none and the
    statement calls columns so, as the texts of Hive's views do; else ''.
    """
    last = items[-1]
    is_called = not last.name and not last.is_several and _PLACED.search(source)
    return f" AS `_c{len(items) - 1}`" if is_called else ""


def _kind(expression: Sequence[Token]) -> str:
    """char(n) or varchar(n), where the expression is one cast to that."""
    keys = [token.key for token in expression]
    depths = list(accumulate((key == "(") - (key == ")") for key in keys))
    is_one = keys[0] == "CAST" and 0 not in depths[1:-1] and len(keys) > 7
    if not is_one or keys[-6] != "AS" or keys[-5] not in ("CHAR", "VARCHAR"):
        return ""
    return f"{keys[-5].lower()}({expression[-3].text})"


def _name_within(expression: Sequence[Token]) -> str:
    """What Hive calls an expression: by the column or the field that it is, also in parentheses;
    a cast of a column by the column.
    """
    while len(expression) > 2 and expression[0].key == "(" and expression[-1].key == ")":
        expression = expression[1:-1]
    if expression[0].key == "SELECT":
        return ""
    if len(expression) > 3 and expression[0].key == "CAST":
        end = next((at for at, token in enumerate(expression) if token.key == "AS"), 0)
        expression = expression[2:end]
        if any(one.key not in ("", ".") and not one.is_name for one in expression):
            return ""
    last, before = expression[-1], expression[-2].key if len(expression) > 1 else "."
    is_name = last.is_name and before == "." and last.key not in _VALUES
    return name_of(last).lower() if is_name else ""


def _is_alias(last: Token, before: Token, tokens: Sequence[Token]) -> bool:
    if before.key == "AS":
        return True
    if last.kind is TokenKind.WORD and last.key in NOT_AN_ALIAS:
        return False
    if len(tokens) > 2 and tokens[-3].key == "INTERVAL":  # its unit
        return False
    if before.kind is TokenKind.WORD:
        return before.key not in _BEFORE_OPERAND
    return before.kind is not TokenKind.SYMBOL or before.key in (")", "]")


def _is_several(tokens: Sequence[Token]) -> bool:
    """Whether an item may make any number of columns."""
    return tokens[0].key in _GENERATORS and len(tokens) > 1 and tokens[1].key == "("


def titles(scope: Scope | None, *, twice: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What Hive calls the columns of a SELECT: those up to the first star and those behind the last
    one; between them are columns of tables. An expression without alias is called by its place, as
    a cast where its column's name is taken; with ``twice`` a column may be there again.
    """
    if scope is None:
        return (), ()
    names: list[str] = []
    cast: set[str] = set()
    said: list[tuple[str, tuple[str, ...]]] = []
    for place, item in enumerate(scope.items):
        name = item.name or f"_c{place}"
        times = said.count((name, item.column))
        cast |= {name} if item.is_cast else set()
        said.append((name, item.column))
        if name in names and name in cast:
            name = f"_c{place}"
        elif twice and times:
            name = f"{name}_{times}"
        names.append(name)
    several = [place for place, item in enumerate(scope.items) if item.is_several]
    if not several:
        return tuple(names), ()
    return tuple(names[: several[0]]), tuple(names[several[-1] + 1 :])


def kinds(scope: Scope | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What ``titles`` names: char(n) and varchar(n) of casts, else ''."""
    items = [] if scope is None else scope.items
    several = [place for place, item in enumerate(items) if item.is_several]
    found = tuple(item.kind for item in items)
    return (found[: several[0]], found[several[-1] + 1 :]) if several else (found, ())


def further_names(columns: Sequence[str], query: Scope) -> str:
    """What a WITH query's list of columns lacks: Hive lets those at the end keep their names, but
    for a name that is taken.
    """
    names = list(columns)
    items = query.named_by.items if query.named_by is not None else []
    if any(item.is_several for item in items):
        return ""
    for item in items[len(columns) :]:
        is_free = item.name and item.name not in names
        names.append(item.name if is_free else f"_col{len(names)}")
    return "".join(f", {quoted(name)}" for name in names[len(columns) :])


# -------------------------------------------------------------------- behind the name of a table


def read_option(cursor: Cursor) -> str | None:
    """'name'='true' or 'false' after a table's name: the name, where it is true."""
    name = cursor.string().lower()
    if name not in READ_OPTIONS:
        raise UnsupportedError(
            f"option {name!r} of a table in a query is not supported",
            note=f"There are {' and '.join(map(repr, READ_OPTIONS))}.",
        )
    cursor.expect("=")
    return name if cursor.string().lower() == "true" else None


def bucket_sample(cursor: Cursor) -> BucketSample | None:
    """TABLESAMPLE (BUCKET x OUT OF y [ON columns]), if it is there."""
    if not cursor.accept("TABLESAMPLE", "(", "BUCKET"):
        return None
    number = cursor.integer("table sample")
    cursor.expect("OUT", "OF")
    count = cursor.integer("table sample")
    if not 1 <= number <= count:
        raise cursor.error("the bucket of a sample is one of those that it is out of")
    columns: tuple[str, ...] = ()
    if cursor.accept("ON"):
        if cursor.key == "RAND":
            raise UnsupportedError(
                "TABLESAMPLE (BUCKET ... ON rand()) is not supported",
                note="TABLESAMPLE (10 PERCENT), or (100 ROWS), takes rows at random.",
            )
        columns = cursor.listed(lambda one: one.small_name("table sample"))
    cursor.expect(")")
    return BucketSample(number, count, columns)

"""What Spark spells otherwise than Hive, or has under one name with another meaning: functions and
words; and their operands, found by their tokens, as those of ``||``.

To Hive ``||`` binds less than ``+`` and ``-``, to Spark as they do: a sum in it needs parentheses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from hiveacid.sql.cursor import NOT_AN_ALIAS, Token, TokenKind

UNITS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")

_LATER: Final = "if(to_date(d) = last_day(d), last_day(add_months(d, n)), add_months(d, n))"
_NOT_A_NUMBER: Final = "), double('NaN'))"
_SECONDS: Final = r", 'yyyy-M-d[ ][\'T\']H:m:s[.SSSSSSSSS]'))"
FUNCTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "ACOS": ("nullif(acos(", _NOT_A_NUMBER),
    "ADD_MONTHS": ("zip_with(array(", f"), (d, n) -> {_LATER})[0]", "), array("),
    "AES_DECRYPT": ("aes_decrypt(", ", 'ECB', 'PKCS')"),  # Spark's default is GCM
    "AES_ENCRYPT": ("aes_encrypt(", ", 'ECB', 'PKCS')"),
    "ARRAY_CONTAINS": ("coalesce(array_contains(", "), false)"),
    "ASIN": ("nullif(asin(", _NOT_A_NUMBER),
    "APPROX_DISTINCT": ("approx_count_distinct(", ")"),
    "GREATEST": ("element_at(array_sort(array(", ")), -1)"),  # NULL where one is; Spark skips it
    "IS_NOT_DISTINCT_FROM": ("equal_null(", ")"),
    "ISFALSE": ("coalesce(not (", "), false)"),
    "ISNOTFALSE": ("coalesce(", ", true)"),
    "ISNOTTRUE": ("(not coalesce(", ", false))"),
    "ISTRUE": ("coalesce(", ", false)"),
    "LEAST": ("sort_array(array(", "))[0]"),
    "LOGGED_IN_USER": ("current_user(", ")"),
    "LTRIM": ("zip_with(array(", "), (d, n) -> ltrim(n, d))[0]", "), array("),
    "MASK_HASH": ("sha2(", ", 256)"),
    "MID": ("substring(", ")"),
    "PMOD": (
        "zip_with(array(",
        "), (d, n) -> if(n < 0, (d % n + n) % n, pmod(d, n)))[0]",
        "), array(",
    ),
    "RTRIM": ("zip_with(array(", "), (d, n) -> rtrim(n, d))[0]", "), array("),
    "SIZE": ("coalesce(size(", "), -1)"),  # of NULL; Spark's answer depends on its ANSI mode
    "SQRT": ("nullif(sqrt(", _NOT_A_NUMBER),
    "STD": ("stddev_pop(", ")"),  # of a sample in Spark, and so the next two
    "STDDEV": ("stddev_pop(", ")"),
    "TO_EPOCH_MILLI": ("unix_millis(", ")"),
    "TRIM": ("btrim(", ")", ", "),
    "VARIANCE": ("var_pop(", ")"),
    **{f"FLOOR_{unit}": (f"date_trunc('{unit}', ", ")") for unit in UNITS},
}
OF_ONE: Final[Mapping[str, tuple[str, str]]] = {
    "TO_UNIX_TIMESTAMP": ("unix_seconds(to_timestamp(", _SECONDS),
    "UNIX_TIMESTAMP": ("unix_seconds(to_timestamp(", _SECONDS),
}
"""Functions that have another meaning only where they are given one value."""
RANKING: Final = frozenset(
    {"CUME_DIST", "DENSE_RANK", "LAG", "LEAD", "NTILE", "PERCENT_RANK", "RANK", "ROW_NUMBER"}
)
"""Functions that Spark wants a window with an order for."""
COMPARISONS: Final = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">="})
QUANTIFIED: Final[Mapping[tuple[str, str], str]] = {
    **{(equal, word): "IN" for equal in ("=", "==") for word in ("ANY", "SOME")},
    **{(unequal, "ALL"): "NOT IN" for unequal in ("<>", "!=")},
}
"""Comparisons with the rows of a query that IN says as well."""
NEGATED: Final = {"ALL": "ANY", "ANY": "ALL", "SOME": "ALL"}
"""NOT LIKE ALL is to Hive what is not LIKE ALL, to Spark what is LIKE none of them."""
WORDS: Final[Mapping[str, str]] = {"GROUPING__ID": "grouping_id()"}
"""Names that stand for a call."""

_Edits: TypeAlias = list[tuple[int, int, str]]
_WITHIN: Final = frozenset({"DIV", "FILTER", "IGNORE", "NULLS", "OVER", "RESPECT", "WITHIN"})
"""Words that are part of an operand."""
_ENDS: Final = NOT_AN_ALIAS - {"NULL"} | {"ASC", "DESC", "ILIKE", "LIMIT", "REGEXP", "RLIKE"}
_OPERATORS: Final = frozenset({"+", "-", "*", "/", "%", "^", "~", ".", "::", "->"})
_COMPARED: Final = COMPARISONS | {"<=>"}
_BEFORE_A_COLUMN: Final = frozenset(
    {
        "(", ",", "AND", "BY", "DISTINCT", "ELSE", "HAVING", "NOT", "ON", "OR", "QUALIFY",
        "SELECT", "THEN", "WHEN", "WHERE",
    }
)  # fmt: skip
_AFTER_A_COLUMN: Final = frozenset(
    {
        ")", ",", ";", "AND", "AS", "CLUSTER", "DISTRIBUTE", "ELSE", "END", "EXCEPT", "FROM",
        "GROUP", "HAVING", "INTERSECT", "LIMIT", "OR", "ORDER", "QUALIFY", "SORT", "THEN",
        "UNION", "WHEN", "WINDOW",
    }
)  # fmt: skip
"""What may stand beside a column that is all of what is compared."""
_BETWEEN_STOPS: Final = frozenset({"AND", "BETWEEN", "HAVING", "ON", "OR", "WHEN", "WHERE"})
_PLAIN: Final = frozenset({"+", ",", "-", "DATE", "FALSE", "TIMESTAMP", "TRUE"})
"""What literals that are not NULL may have besides numbers and texts."""
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


def respelled(name: Token, group: Sequence[Token]) -> _Edits:
    """What to write, as (start, end, text), in a call of a function: its name, and its parentheses
    with all between them.
    """
    found = _commas(group)
    edits = _BY_ARGUMENTS[name.key](name, group, found) if name.key in _BY_ARGUMENTS else []
    return edits or _by_spelling(name, group, found)


def _by_spelling(name: Token, group: Sequence[Token], found: Sequence[Token]) -> _Edits:
    last, end = group[-2], group[-1]
    spelled: Sequence[str] = FUNCTIONS.get(name.key, ())
    if name.key in OF_ONE and not found and len(group) > 2:
        spelled = OF_ONE[name.key]
    if not spelled:
        return []
    edits = [(name.start, group[0].end, spelled[0]), (end.start, end.end, spelled[1])]
    if len(spelled) > 2:
        is_plain = name.key == "PMOD" and group[-3].key == ","
        if len(found) != 1 or (is_plain and last.kind is TokenKind.NUMBER):
            return []
        edits.append((found[0].start, found[0].end, spelled[2]))
    return edits


def _floor(name: Token, group: Sequence[Token], _: Sequence[Token]) -> _Edits:
    """FLOOR(time TO unit)."""
    if len(group) < 4 or group[-3].key != "TO" or group[-2].key not in UNITS:
        return []
    cut = f"date_trunc('{group[-2].key}', "
    return [(name.start, group[0].end, cut), (group[-3].start, group[-2].end, "")]


def _extract(name: Token, group: Sequence[Token], _: Sequence[Token]) -> _Edits:
    """EXTRACT(SECOND FROM time), which has a fraction in Spark."""
    is_second = [token.key for token in group[1:3]] == ["SECOND", "FROM"]
    return [(name.start, group[2].end, "second(")] if is_second else []


def _trunc(_: Token, group: Sequence[Token], found: Sequence[Token]) -> _Edits:
    last = group[-2]
    is_quarter = found and last.text in ("'Q'", '"Q"')
    return [(last.start, last.end, "'QUARTER'")] if is_quarter else []


def _grouping(name: Token, group: Sequence[Token], found: Sequence[Token]) -> _Edits:
    """GROUPING of several columns: a bit of each."""
    between = [
        (comma.start, comma.end, f"), {len(found) - at}) + shiftleft(grouping(")
        for at, comma in enumerate(found)
    ]
    head, end = (name.start, group[0].end, "(shiftleft(grouping("), group[-1]
    return [head, *between, (end.start, end.end, "), 0))")] if found else []


def _from_end(name: Token, group: Sequence[Token], found: Sequence[Token]) -> _Edits:
    """A substring that is empty where the text is shorter than the place counted from its end."""
    at = group.index(found[0]) if found else 0
    place = group[at + 1 : group.index([*found, group[-1]][1])] if at else ()
    if not place or place[0].key != "-" or not all(map(_is_figure, place)):
        return []
    text, figures = "__hiveacid_text", " ".join(token.text for token in place)
    empty = f"if(length({text}) < -({figures}), substr({text}, 1, 0), substr({text},"
    return [
        (name.start, group[0].end, "transform(array("),
        (group[at].start, group[at].end, f"), {text} -> {empty}"),
        (group[-1].start, group[-1].end, ")))[0]"),
    ]


def _is_figure(token: Token) -> bool:
    return token.kind is TokenKind.NUMBER or token.key in ("+", "-", "*", "(", ")")


_BY_ARGUMENTS: Final[Mapping[str, Callable[[Token, Sequence[Token], Sequence[Token]], _Edits]]] = {
    "EXTRACT": _extract,
    "FLOOR": _floor,
    "GROUPING": _grouping,
    "TRUNC": _trunc,
    **dict.fromkeys(("MID", "SUBSTR", "SUBSTRING"), _from_end),
}
CALLS: Final = FUNCTIONS.keys() | OF_ONE.keys() | _BY_ARGUMENTS.keys()
"""Functions whose calls may have to be written otherwise."""


def _commas(group: Sequence[Token]) -> list[Token]:
    """The commas of a group, without those of groups in it."""
    depth, found = 0, []
    for token in group:
        depth += (token.key in ("(", "[")) - (token.key in (")", "]"))
        if token.key == "," and depth == 1:
            found.append(token)
    return found


def unpushed_list(tokens: Sequence[Token], at: int) -> _Edits:
    """What stands before the ``IN`` at ``at``, in a form of which Spark pushes nothing down, where
    an item of the list may be NULL, on which among numbers Spark's ORC reader fails.
    """
    depth, items = 0, []
    for token in tokens[at + 1 :]:
        depth += (token.key == "(") - (token.key == ")")
        if depth == 0:
            break
        items.append(token)
    return [] if all(map(_is_plain, items[1:])) else _unpushed(tokens, at - 1)


def unpushed_query(tokens: Sequence[Token], first: int, end: int) -> _Edits:
    """What a query in parentheses, the tokens from ``first`` to before ``end``, is compared with,
    in such a form: what it gives may be NULL.
    """
    while 0 < first and end < len(tokens) and tokens[first - 1].key + tokens[end].key == "()":
        first, end = first - 1, end + 1
    at = first - 1
    if at > 0 and tokens[at].key == "AND":
        at = _between(tokens, at)
    if at > 0 and (tokens[at].key in _COMPARED or tokens[at].key == "BETWEEN"):
        return _unpushed(tokens, at - 1)
    start = last = end + 1
    if last >= len(tokens) or tokens[end].key not in _COMPARED:
        return []
    while last + 2 < len(tokens) and tokens[last + 1].key == "." and tokens[last + 2].is_name:
        last += 2
    is_column = tokens[start].is_name and tokens[start].key not in NOT_AN_ALIAS
    after = tokens[last + 1 : last + 2]
    is_all = all(t.kind is TokenKind.END or t.key in _AFTER_A_COLUMN for t in after)
    return _wrapped(tokens, start, last) if is_column and is_all else []


def _between(tokens: Sequence[Token], at: int) -> int:
    """The BETWEEN whose AND is the token ``at``; 0 where it is another one."""
    depth = 0
    for before in range(at - 1, 0, -1):
        key = tokens[before].key
        depth += (key == ")") - (key == "(")
        if depth < 0 or (depth == 0 and key in _BETWEEN_STOPS):
            return before if key == "BETWEEN" else 0
    return 0


def _unpushed(tokens: Sequence[Token], end: int) -> _Edits:
    """The column of which the token ``end`` is the last one, or NOT after it, with parentheses
    around it; nothing where there is more to the operand, of which Spark pushes nothing down.
    """
    end = end - (end > 0 and tokens[end].key == "NOT")
    last, depth = end, 0
    while last > 0 and tokens[last].key == ")":
        last, depth = last - 1, depth + 1
    start = last
    while start >= 2 and tokens[start - 1].key == "." and tokens[start - 2].is_name:
        start -= 2
    is_column = end >= 0 and tokens[last].is_name
    is_column = is_column and (start < last or tokens[last].key not in NOT_AN_ALIAS)
    while depth and start and tokens[start - 1].key == "(":
        start, depth = start - 1, depth - 1
    is_all = start == 0 or tokens[start - 1].key in _BEFORE_A_COLUMN
    return _wrapped(tokens, start, end) if is_column and not depth and is_all else []


def _wrapped(tokens: Sequence[Token], start: int, end: int) -> _Edits:
    first, last = tokens[start].start, tokens[end].end
    return [(first, first, "try_element_at(array("), (last, last, "), 1)")]


def _is_plain(token: Token) -> bool:
    return token.kind in (TokenKind.NUMBER, TokenKind.STRING) or token.key in _PLAIN


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

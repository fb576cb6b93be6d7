"""Queries in a WHERE that ask for one value of a whole table: ``p = (SELECT max(p) FROM t)``.

Where the value is known without reading rows, it is put in the place of the query, and the text is
read again: a comparison with a literal chooses partitions and files, one with a query does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from hiveacid.model.tables import Table
from hiveacid.sql.bind import bind
from hiveacid.sql.cursor import Cursor, Token, tokenize
from hiveacid.sql.needs import aggregate, one_table
from hiveacid.sql.operands import COMPARISONS
from hiveacid.sql.parameters import literal_of
from hiveacid.sql.parse import ParsedStatement, parse_one
from hiveacid.sql.splice import Splicer
from hiveacid.statements.values import Aggregate
from hiveacid.txn.view import Look

if TYPE_CHECKING:
    from hiveacid.model.predicates import Constant
    from hiveacid.statements.context import AnswerOf

    Resolve = Callable[[tuple[str, ...]], Table | None]

_MAY_HAVE_ONE: Final = re.compile(r"\(\s*select\s.*\b(count|max|min)\s*\(", re.I | re.S)
_CLAUSES: Final = frozenset(
    {
        "CLUSTER", "DISTRIBUTE", "EXCEPT", "FROM", "GROUP", "HAVING", "INTERSECT", "LATERAL",
        "LIMIT", "MINUS", "ON", "ORDER", "QUALIFY", "SELECT", "SET", "SORT", "UNION", "WHEN",
        "WHERE", "WINDOW",
    }
)  # fmt: skip
"""Words that begin something; what they begin is looked into after WHERE alone: elsewhere the query
may give a column its name.
"""
_SUFFIXES: Final = {"tinyint": "Y", "smallint": "S", "int": "", "bigint": "L"}
_BEFORE: Final = COMPARISONS | {"IN"}
_AGGREGATES: Final = frozenset({"COUNT", "MAX", "MIN"})
_FUNCTIONS: Final = frozenset(
    {
        "ADD_MONTHS", "AS", "BIGINT", "CAST", "COALESCE", "DATE", "DATE_ADD", "DATE_FORMAT",
        "DATE_SUB", "DAY", "DAYS", "INT", "INTERVAL", "LAST_DAY", "MONTH", "MONTHS", "NVL",
        "STRING", "TO_DATE", "TRUNC", "YEAR", "YEARS",
    }
)  # fmt: skip
"""What may stand around an aggregate: of each row these make one value."""
_PLAIN: Final = re.compile(r"[\w .,:/+-]*")


def bind_answered(
    statement: ParsedStatement, look: Look, answer_of: AnswerOf, *, prefix: str
) -> Any:
    """The value of a statement with the answers that there are in the place of such queries; None
    where there is none. ``prefix`` is that by which it was bound before.

    Raises:
        AcidError: as ``bind``.
    """
    text = statement.text
    if _MAY_HAVE_ONE.search(text) is None:
        return None
    tokens = tokenize(text)
    if any(token.key == "WITH" for token in tokens):  # its names may be those of tables
        return None
    resolve = Splicer(look, prefix=prefix).resolve
    edits = []
    for first, last in _compared(tokens):
        inside = Cursor(source=text, tokens=(*tokens[first + 1 : last], tokens[-1]))
        value = _value(inside, resolve, answer_of)
        if value is None:
            continue
        is_list = tokens[first - 1].key == "IN"
        value = f"({value})" if is_list else f" {value} "
        edits.append((tokens[first].start, tokens[last].end, value))
    for start, end, value in reversed(edits):
        text = text[:start] + value + text[end:]
    return bind(parse_one(text, sparks=statement.sparks), look, prefix=prefix) if edits else None


def _value(query: Cursor, resolve: Resolve, answer_of: AnswerOf) -> str | None:
    """The one item of ``SELECT item FROM table [alias]`` with literals in the place of aggregates;
    None where there is more to it than these and functions of them, or one is not known.
    """
    pieces = _pieces(query) if query.accept("SELECT") else []
    parts = one_table(query) if any(isinstance(piece, Aggregate) for piece in pieces) else ()
    table = resolve(parts) if parts else None
    if table is None:
        return None
    texts = []
    for piece in pieces:
        if isinstance(piece, Aggregate):
            text = _literal(answer_of(table, piece), piece, table)
        else:
            text = None if piece.lower() in table.types else piece
        if text is None:
            return None
        texts.append(text)
    return texts[0] if len(texts) == 1 else f"({' '.join(texts)})"


def _pieces(query: Cursor) -> list[str | Aggregate]:
    """The tokens and aggregates of the one item before FROM, without its alias; none where it holds
    anything else.
    """
    pieces: list[str | Aggregate] = []
    depth = 0
    while not query.accept("FROM"):
        depth += (query.key == "(") - (query.key == ")")
        if query.at_end() or (query.key == "," and depth == 0):
            return []
        if query.key in _AGGREGATES:
            found = aggregate(query)
            if found is None:
                return []
            pieces.append(found)
            continue
        if query.token.is_name and not _goes_on(pieces, query.key, depth):
            query.accept("AS")
            is_alias = depth == 0 and query.at_name() and query.peek(1).key == "FROM"
            if not is_alias or not _is_operand(pieces):
                return []
            query.next()
            continue
        pieces.append(query.next().text)
    return pieces


def _goes_on(pieces: Sequence[str | Aggregate], word: str, depth: int) -> bool:
    """Whether a word belongs to the expression that ``pieces`` begin; else it may be its alias."""
    if word == "AS":
        return depth > 0
    is_unit = len(pieces) > 1 and str(pieces[-2]).upper() == "INTERVAL"
    return word in _FUNCTIONS and is_unit is _is_operand(pieces)


def _is_operand(pieces: Sequence[str | Aggregate]) -> bool:
    """Whether they end with something that an operator may follow."""
    if not pieces or isinstance(pieces[-1], Aggregate):
        return bool(pieces)
    return pieces[-1] == ")" or pieces[-1][0].isdigit() or pieces[-1][0] in "'\""


def _compared(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """The places of the parentheses around what is compared with, in WHERE clauses."""
    clauses = [""]  # of each parenthesis that is open
    opened = []
    for at, token in enumerate(tokens):
        if token.key == "(":
            clauses.append(clauses[-1])
            opened.append(at)
        elif token.key == ")" and opened:
            clauses.pop()
            first = opened.pop()
            if clauses[-1] == "WHERE" and tokens[first - 1].key in _BEFORE:
                yield first, at
        elif token.key in _CLAUSES:
            of_item = token.key == "WHERE" and tokens[max(at - 2, 0)].key == "FILTER"
            clauses[-1] = "FILTER" if of_item else token.key


def _literal(value: Constant | None, wanted: Aggregate, table: Table) -> str | None:
    """The value as a literal of its type; None where it has none that is plain."""
    if isinstance(value, date) or (isinstance(value, str) and _PLAIN.fullmatch(value)):
        return literal_of(value)
    if type(value) is not int:
        return None
    kind = "bigint" if wanted.function == "count" else str(table.types[wanted.column or ""])
    suffix = _SUFFIXES.get(kind)
    return None if suffix is None else f"{value}{suffix}"

"""Literal rows: Hive's escapes, and that the short way gives what was written."""

from __future__ import annotations

import math
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sql.catalog import bound

from hiveacid.sql.cursor import Cursor, TokenKind, string_value, tokenize
from hiveacid.sql.dml import literal_rows
from hiveacid.sql.expressions import Scope
from hiveacid.sql.query import QueryParser
from hiveacid.statements.values import Insert, Literals, Query

STRINGS = {
    r"'it\'s'": "it's",
    r"'dou\"ble'": 'dou"ble',
    r'"it' + "'" + r's\""': "it's\"",
    r"'back\\slash'": "back\\slash",
    r"'a\nb\tc\rd\be\0f\Zg'": "a\nb\tc\rd\be\0f\x1ag",
    r"'\%\_\x\q'": "\\%\\_xq",
    r"'\u0041\u00e9'": "Aé",
    r"'\ud83d\ude00'": "😀",
    r"'\101\060'": "A0",
    r"'\7'": "7",
    r"'\;'": ";",
    "'é漢字😀'": "é漢字😀",
    "''": "",
    "'two\nlines'": "two\nlines",
}


@pytest.mark.parametrize(("text", "value"), STRINGS.items())
def test_string_escapes(text: str, value: str) -> None:
    assert string_value(text) == value
    insert = bound(f"insert into t values ({text})")
    assert isinstance(insert, Insert)
    assert insert.source == Literals(((value,),))


NUMBERS = {
    "1": 1,
    "-0": 0,
    "10L": 10,
    "7Y": 7,
    "1.50": Decimal("1.50"),
    ".5": Decimal("0.5"),
    "5.": Decimal("5."),
    "-1.5BD": Decimal("-1.5"),
    "12BD": Decimal("12"),
    "1e3": 1000.0,
    "1.5E-2": 0.015,
    "2D": 2.0,
    "4.9e-324": 4.9e-324,
}


@pytest.mark.parametrize(("text", "value"), NUMBERS.items())
def test_numbers(text: str, value: object) -> None:
    insert = bound(f"insert into t values ({text})")
    assert isinstance(insert, Insert)
    assert isinstance(insert.source, Literals)
    cell = insert.source.rows[0][0]
    assert cell == value
    assert type(cell) is type(value)
    assert str(cell) == str(value)


NOT_LITERAL = (
    "1+1",
    "1F",
    "- -1",
    "-'1'",
    "(1)",
    "x",
    "date '2021-02-30'",
    "date 'nonsense'",
    "timestamp '2020-01-01 00:00:00.1234567'",
    "timestamp '2020-01-01 00:00:00 UTC'",
    "cast(1 as int)",
    "null + 1",
    "array(1)",
    "interval '1' day",
    "not true",
)


@pytest.mark.parametrize("cell", NOT_LITERAL)
def test_other_cells_go_to_spark_as_they_are(cell: str) -> None:
    insert = bound(f"insert into t values (1, {cell})")
    assert isinstance(insert, Insert)
    assert insert.source == Query(f"VALUES (1, {cell})")


def _written(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.17e}"
    if isinstance(value, Decimal):
        return f"{value:f}" if "." in f"{value:f}" else f"{value:f}BD"
    if isinstance(value, int):
        return str(value)
    assert isinstance(value, str)
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.decimals(
        allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9
    ),
    st.floats(allow_nan=False, allow_infinity=False),
    _TEXT,
)


@given(st.lists(st.lists(_CELLS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_rows_read_back_as_written(rows: list[list[object]]) -> None:
    text = ", ".join(f"({', '.join(map(_written, row))})" for row in rows)
    cursor = Cursor(source=text, tokens=tokenize(text))
    assert literal_rows(cursor) == Literals(tuple(map(tuple, rows)))
    assert cursor.at_end()


_ANY_CELL = st.one_of(
    _CELLS.map(_written), st.sampled_from([*NOT_LITERAL, "1 -- c\n", "/* x */ 'a' 'b'", "'a''b'"])
)


@given(st.lists(st.lists(_ANY_CELL, min_size=1, max_size=3), min_size=1, max_size=3))
def test_the_short_way_reads_exactly_what_the_grammar_reads(rows: list[list[str]]) -> None:
    text = "values " + ", ".join(f"({', '.join(row)})" for row in rows)
    tokens = tokenize(text)
    short, long = Cursor(source=text, tokens=tokens), Cursor(source=text, tokens=tokens)
    short.next()
    literals = literal_rows(short)
    QueryParser(long).query(Scope())
    assert long.at_end()
    if literals is not None:
        assert short.at == long.at
        assert [len(row) for row in literals.rows] == [len(row) for row in rows]


@given(_TEXT)
def test_a_string_literal_is_one_token_whatever_is_in_it(value: str) -> None:
    tokens = tokenize(f"select {_written(value)} from x")
    assert [token.kind for token in tokens[1:3]] == [TokenKind.STRING, TokenKind.WORD]
    assert string_value(tokens[1].text) == value


def test_minus_zero_stays_a_double() -> None:
    insert = bound("insert into t values (-0e0)")
    assert isinstance(insert, Insert)
    assert isinstance(insert.source, Literals)
    cell = insert.source.rows[0][0]
    assert isinstance(cell, float)
    assert math.copysign(1, cell) == -1


@pytest.mark.timing
def test_a_small_insert_is_parsed_in_less_than_5_ms() -> None:
    text = "insert into t values (1,'a','x'),(2,'it\\'s','y'),(3,null,'z')"
    bound(text)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        bound(text)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.005

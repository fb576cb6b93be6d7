"""Predicates against ranges: never exclude a place that holds a row which meets the condition."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from hiveacid.model.predicates import (
    ANYTHING,
    COMPARE,
    And,
    ColumnRange,
    Compare,
    In,
    IsNull,
    Op,
    Or,
    Predicate,
    constant,
    equal_values,
    exactly,
    likely_share,
    may_match,
    partition_constant,
    typed,
)
from hiveacid.model.types import parse_type

NUMBERS = st.integers(-5, 5)
LEAVES = st.one_of(
    st.builds(Compare, st.sampled_from("ab"), st.sampled_from(list(COMPARE)), NUMBERS),
    st.builds(In, st.sampled_from("ab"), st.frozensets(NUMBERS, min_size=1, max_size=3)),
    st.builds(IsNull, st.sampled_from("ab"), negated=st.booleans()),
    st.just(ANYTHING),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
ROWS = st.lists(
    st.fixed_dictionaries({"a": NUMBERS | st.none(), "b": NUMBERS | st.none()}), min_size=1
)


def meets(predicate: Predicate, row: dict[str, int | None]) -> bool:
    """The condition as SQL evaluates it; unknown parts are taken as true."""
    if isinstance(predicate, And):
        return all(meets(part, row) for part in predicate.parts)
    if isinstance(predicate, Or):
        return any(meets(part, row) for part in predicate.parts)
    if predicate == ANYTHING:
        return True
    value = row[predicate.column]
    if isinstance(predicate, IsNull):
        return (value is None) != predicate.negated
    if value is None:
        return False
    if isinstance(predicate, In):
        return value in predicate.values
    left, right = value, predicate.value
    return {
        Op.EQ: left == right,
        Op.NE: left != right,
        Op.LT: left < right,
        Op.LE: left <= right,
        Op.GT: left > right,
        Op.GE: left >= right,
    }[predicate.op]


def range_of(values: list[int | None]) -> ColumnRange:
    known = [value for value in values if value is not None]
    return ColumnRange(
        min(known, default=None), max(known, default=None), None in values, bool(known)
    )


@given(PREDICATES, ROWS)
def test_a_place_with_a_row_that_meets_it_is_kept(
    predicate: Predicate, rows: list[dict[str, int | None]]
) -> None:
    ranges = {name: range_of([row[name] for row in rows]) for name in "ab"}
    if any(meets(predicate, row) for row in rows):
        assert may_match(predicate, ranges)


@given(PREDICATES, st.fixed_dictionaries({"a": NUMBERS | st.none(), "b": NUMBERS | st.none()}))
def test_a_place_of_one_row_is_decided_exactly(
    predicate: Predicate, row: dict[str, int | None]
) -> None:
    ranges = {name: exactly(value) for name, value in row.items()}
    assert may_match(predicate, ranges) == meets(predicate, row)


@given(PREDICATES, ROWS)
def test_equal_values_are_all_that_rows_have(
    predicate: Predicate, rows: list[dict[str, int | None]]
) -> None:
    values = equal_values(predicate, "a")
    if values is not None:
        assert all(row["a"] in values for row in rows if meets(predicate, row))


def test_the_part_of_rows_that_is_likely_to_meet_it_goes_by_bounds() -> None:
    ranges = {
        "a": ColumnRange(0, 100),
        "d": ColumnRange(date(2024, 1, 1), date(2024, 1, 11)),
        "m": ColumnRange(Decimal("0.00"), Decimal("0.10")),
        "s": ColumnRange("a", "b"),
    }
    quarter = Compare("a", Op.LT, 25)
    days = (Compare("d", Op.GE, date(2024, 1, 3)), Compare("d", Op.LE, date(2024, 1, 5)))
    tenth = Compare("m", Op.GT, Decimal("0.09"))
    found = {
        ANYTHING: 1,
        quarter: 0.25,
        And(days): 0.2,
        And((quarter, *days, tenth)): 0.005,
        Or((quarter, tenth)): 1,
        And((quarter, Compare("a", Op.EQ, 7), In("a", frozenset({7})))): 0.25,
        Compare("s", Op.GT, "aa"): 1,
        Compare("unknown", Op.GT, 5): 1,
        Compare("a", Op.LT, -1): 0,
        Compare("a", Op.GT, -1): 1,
        Compare("a", Op.LT, 10**400): 1,
        And((Compare("a", Op.LT, 10), Compare("a", Op.GT, 90))): 0,
    }
    assert {one: round(likely_share(one, ranges), 6) for one in found} == found
    assert likely_share(quarter, {"a": ColumnRange(7, 7)}) == 1


def test_constants_take_the_class_of_the_column() -> None:
    cases = [
        (5, "int", 5),
        (Decimal("5.5"), "bigint", Decimal("5.5")),
        ("5", "int", None),
        (5, "string", None),
        (5, "double", 5.0),
        (-(1 << 24), "float", -16777216.0),
        ((1 << 24) + 1, "float", None),
        (float("nan"), "double", None),
        ("2020-01-02", "date", date(2020, 1, 2)),
        ("2020-1-2", "date", None),
        (date(2020, 1, 2), "timestamp", datetime(2020, 1, 2)),
        ("2020-01-02 03:04:05", "timestamp", datetime(2020, 1, 2, 3, 4, 5)),
        ("2020-01-02T03:04:05+01:00", "timestamp", None),
        ("2020-01-02 03:04+01", "timestamp", None),
        (True, "boolean", True),
        ("a ", "char(3)", None),
    ]
    for value, kind, expected in cases:
        assert constant(value, parse_type(kind)) == expected, (value, kind)


def test_a_number_that_spark_rounds_beside_its_column_decides_nothing() -> None:
    """Their common type would have more than 38 digits."""
    texts = {"a": "decimal(38,10)", "b": "decimal(38,38)", "i": "bigint"}
    types = {name: parse_type(text) for name, text in texts.items()}
    for leaf in (
        Compare("a", Op.EQ, Decimal("1E-20")),
        In("a", frozenset({Decimal("0.1"), Decimal("1E-11")})),
        Compare("b", Op.GE, 0),
        Compare("i", Op.LT, Decimal("1E-19")),
        Compare("a", Op.GT, Decimal("Infinity")),
    ):
        assert typed(leaf, types) == ANYTHING, leaf
    for leaf in (Compare("a", Op.EQ, Decimal("1E-10")), Compare("i", Op.LT, Decimal("1E-18"))):
        assert typed(leaf, types) == leaf


def test_comparisons_that_depend_on_a_conversion_say_nothing() -> None:
    types = {name[0]: parse_type(name) for name in ("string", "double", "timestamp")}
    assert typed(Compare("s", Op.EQ, 5), types) == ANYTHING
    assert typed(Compare("d", Op.GT, 5), types) == ANYTHING  # NaN > 5
    assert typed(Compare("d", Op.LT, 5), types) == Compare("d", Op.LT, 5.0)
    assert typed(Compare("t", Op.NE, "2020-01-02"), types) == ANYTHING  # NOT IN of texts
    assert typed(Compare("unknown", Op.LT, 5), types) == ANYTHING


def test_texts_of_partition_directories() -> None:
    cases = [
        ("007", "int", 7),
        ("x", "int", None),
        ("1.50", "decimal(5,2)", Decimal("1.5")),
        ("x", "decimal(5,2)", None),
        ("2020-01-02", "date", date(2020, 1, 2)),
        ("TRUE", "boolean", True),
        ("a", "string", "a"),
        ("1.5", "double", None),
    ]
    for text, kind, expected in cases:
        assert partition_constant(text, parse_type(kind)) == expected, (text, kind)

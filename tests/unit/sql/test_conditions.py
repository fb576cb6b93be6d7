"""Conditions that a reader evaluates itself (strict), and what stays ANYTHING elsewhere."""

from __future__ import annotations

import pytest
from tests.unit.sql.catalog import bound

from hiveacid.errors import UnsupportedError
from hiveacid.model.predicates import (
    ANYTHING,
    NOTHING,
    And,
    Compare,
    In,
    IsNull,
    Op,
    Or,
    Predicate,
)
from hiveacid.sql.conditions import parse_condition

ONE, NOT_ONE = Compare("a", Op.EQ, 1), Compare("a", Op.NE, 1)
TRUE = Compare("b", Op.EQ, True)


def column_of(parts: tuple[str, ...]) -> str | None:
    return parts[0] if parts in (("a",), ("b",)) else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a in (1, null)", In("a", frozenset({1}))),
        ("a not in (1, null)", And((NOT_ONE, NOTHING))),
        ("a in (null)", NOTHING),
        ("a = null", NOTHING),
        ("not a = null", NOTHING),
        ("null < a", NOTHING),
        ("not (a = null and a = 1)", Or((NOTHING, NOT_ONE))),
        ("a not between null and 1", Or((NOTHING, Compare("a", Op.GT, 1)))),
        ("a <=> 1", And((IsNull("a", negated=True), ONE))),
        ("not a <=> 1", Or((IsNull("a"), NOT_ONE))),
        ("1 <=> a", And((IsNull("a", negated=True), ONE))),
        ("a <=> null", IsNull("a")),
        ("not (null <=> a)", IsNull("a", negated=True)),
        ("b", TRUE),
        ("true = b", TRUE),
        ("not b", Compare("b", Op.NE, True)),
        ("(b) and a = 1", And((TRUE, ONE))),
    ],
)
def test_null_and_boolean_columns_are_for_strict_readers_only(
    text: str, expected: Predicate
) -> None:
    assert parse_condition(text, column_of, strict=True) == expected
    loose = parse_condition(text, column_of)
    assert loose in (ANYTHING, ONE)
    assert loose == ANYTHING or isinstance(expected, And)


@pytest.mark.parametrize("text", ["null", "a = 1 or null", "lower(b)", "a <=> b", "a b"])
def test_other_forms_are_not_understood(text: str) -> None:
    with pytest.raises(UnsupportedError):
        parse_condition(text, column_of, strict=True)
    assert parse_condition(text, column_of) == ANYTHING


@pytest.mark.parametrize("text", ["(" * 2000 + "a = 1" + ")" * 2000, "not " * 2000 + "a = 1"])
def test_what_is_nested_too_deeply_is_not_understood(text: str) -> None:
    assert parse_condition(f"a = 1 and {text}", column_of) == ONE
    with pytest.raises(UnsupportedError):
        parse_condition(text, column_of, strict=True)
    assert parse_condition("((not (not ((a = 1)))))", column_of, strict=True) == ONE


@pytest.mark.parametrize("text", ["a in (1, '2')", "a not in (1, '2')", "not (a in ('2', 1))"])
def test_a_list_of_texts_and_numbers_is_for_strict_readers_only(text: str) -> None:
    assert parse_condition(text, column_of) == ANYTHING
    assert parse_condition(text, column_of, strict=True) != ANYTHING


@pytest.mark.parametrize(
    "condition",
    [
        "<id> = (select 1)",
        "(select 1) < <t.id> or id = 1",
        "<`t`.`id`> between (select 1) and 3",
        "<id> between 3 and (select 1)",
        "not (<id> = ((select 1))) and id > 1",
        "<id> in (2, (select 1))",
        "<((t.id))> not in (3, v)",
        "<id> <=> (select 1) or (select 1) <=> <id>",
        "case when <t.end> in (1, null) then 1 end = 1",
        "id in (1, -2.5, 'x', date '2024-02-29', true)",
        # of more than a column Spark pushes nothing down
        "v + interval '1' day > (select 1) and v - interval 1 hour between (select 1) and 2",
        "v - interval '1' day in (current_date, v) and interval '1' day = (select 1)",
        "(select 1) < interval 1 day and (select 1) = date '2024-02-29' and (select 1) = id + v",
        "arr[0].f in (1, v) and m['k'].f = (select 1) and (s).f in (1, v) and f(x).g in (1, v)",
        "x::int in (1, v) and v is true = (select 1) and f(id) in (1, v) and -id in (1, v)",
        "sum(id) over w in (1, v)",
        "id between 1 and 2 and (select 1) = 3",
        "(id, v) in ((1, 2), (3, 4))",
    ],
)
def test_a_column_compared_with_what_may_be_null_is_not_pushed_down(condition: str) -> None:
    plain = condition
    for mark in ("<id>", "<t.id>", "<`t`.`id`>", "<((t.id))>", "<t.end>"):
        plain = plain.replace(mark, mark[1:-1])
        condition = condition.replace(mark, f"try_element_at(array({mark[1:-1]}), 1)")
    expected = f"select {condition} from P0 as `t` where {condition} group by {condition}"
    text = f"select {plain} from t where {plain} group by {plain}"
    assert bound(text).text == expected

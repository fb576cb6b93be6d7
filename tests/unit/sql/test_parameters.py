"""``args=`` and ``${variables}``: what is put into a text before it is read."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from hiveacid.errors import InvalidInputError, SqlSyntaxError
from hiveacid.sql import parse, parse_one, resolved, with_arguments
from hiveacid.sql.cursor import TokenKind, number_value, string_value, tokenize
from hiveacid.sql.parameters import literal_of, substituted
from hiveacid.statements.values import Insert


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (5, " 5"),
        (-5, " -5"),
        (2**63, " 9223372036854775808BD"),
        (1.5, " 1.5D"),
        (1e300, " 1e+300D"),
        (float("nan"), "cast('nan' as double)"),
        (Decimal("1.50"), " 1.50BD"),
        (Decimal("1E+3"), " 1000BD"),
        ("it's", "'it\\'s'"),
        ("a\\", "'a\\\\'"),
        ("${x}", "'\\u0024{x}'"),
        (b"\x00\xff", "X'00ff'"),
        (datetime.date(33, 4, 5), "DATE '0033-04-05'"),
        (datetime.datetime(2020, 1, 2, 3, 4, 5, 6), "TIMESTAMP '2020-01-02 03:04:05.000006'"),
        (
            datetime.datetime.fromisoformat("2020-01-02T03:04:05+02:00"),
            "cast('2020-01-02 01:04:05.000000 UTC' as timestamp with local time zone)",
        ),
        ([1, None], "array( 1, NULL)"),
        ({"a": 1}, "map('a',  1)"),
    ],
)
def test_a_value_becomes_a_literal_of_its_type(value: object, literal: str) -> None:
    assert literal_of(value) == literal


@pytest.mark.parametrize(
    "text", ["", "'", "\\", "\\'", "'; drop table t --", "a\nb\r\0\x1a", "${a}", '"', "%_", "ä😀"]
)
def test_a_text_is_one_string_token_that_means_the_text(text: str) -> None:
    tokens = tokenize(literal_of(text))
    assert [token.kind for token in tokens] == [TokenKind.STRING, TokenKind.END]
    assert string_value(tokens[0].text) == text


def test_numbers_keep_their_kind() -> None:
    assert number_value(literal_of(1.5).strip()) == 1.5
    assert number_value(literal_of(2**70).strip()) == Decimal(2**70)


@pytest.mark.parametrize(
    ("text", "args", "becomes"),
    [
        ("select :a, :b", {"a": 1, "b": "x"}, "select  1, 'x'"),
        ("select ?, ?", [1, "x"], "select  1, 'x'"),
        ("select ':a' -- :a\n, \"?\", `:a`, :a", {"a": 1}, None),
        ("select 1-:a", {"a": -1}, "select 1- -1"),
        ("select cast(x as struct<a:int>), :int", {"int": 1}, None),
        ("cast(x as struct<a :int, b : map<int,int>, c :int>) < :c", {"c": 1}, None),
        ("f(x):a.b, v:a, v:a[0]:b, :c", {"c": 1}, "f(x):a.b, v:a, v:a[0]:b,  1"),
        ("id in (:ids, 7)", {"ids": [1, 2]}, "id in ( 1,  2, 7)"),
        ("f(:ids)", {"ids": [1, 2]}, "f(array( 1,  2))"),
        ("id in (:a + :b)", {"a": 1, "b": 2}, "id in ( 1 +  2)"),
        ("x = :`a b`", {"a b": 1}, "x =  1"),
        (":a, :a", {"a": 1}, " 1,  1"),
    ],
)
def test_parameters_are_replaced_where_they_are_tokens(
    text: str, args: Any, becomes: str | None
) -> None:
    last = " 1".join(text.rsplit(":" + next(iter(args)), 1)) if isinstance(args, dict) else ""
    assert with_arguments(text, args) == (last if becomes is None else becomes)


@pytest.mark.parametrize(
    ("text", "args", "line", "column", "says"),
    [
        ("select 1,\n  :b", {"a": 1}, 2, 3, "parameter :b; given are: a"),
        ("select ?, ?", [1], 1, 11, "parameter ?; given are: 1 by place"),
        ("select ?", {"a": 1}, 1, 8, "parameter ?"),
        ("select :a", [1], 1, 8, "parameter :a"),
        ("select 'x' :a", {"a": "y"}, 1, 12, "beside another literal"),
        ("select :a :b", {"a": "x", "b": "y"}, 1, 11, "beside another literal"),
        ("x in (:a)", {"a": []}, 1, 7, "the list is empty"),
        ("select :a", {"a": object()}, 1, 8, "no literal for a value of type object"),
        ("select :a", {"a": [object()]}, 1, 8, "no literal for a value of type object"),
        ("select :a", {"a": Decimal("NaN")}, 1, 8, "no decimal"),
        ("select :a", {"a": 10**40}, 1, 8, "more than 38 digits"),
    ],
)
def test_a_parameter_that_gets_no_literal_is_named_with_its_place(
    text: str, args: Any, line: int, column: int, says: str
) -> None:
    with pytest.raises(SqlSyntaxError, match="parameter") as caught:
        with_arguments(text, args)
    assert says in str(caught.value)
    assert (caught.value.context["line"], caught.value.context["column"]) == (line, column)


@pytest.mark.parametrize(
    ("text", "args", "says"),
    [
        ("select :a", {"a": 1, "b": 2}, "does not use: :b"),
        ("select ?", [1, 2, 3], "2 too many"),
        ("select 1", "abc", "args is a mapping"),
        ("select 1", 5, "args is a mapping"),
        ("select 1", {1, 2}, "args is a mapping"),
    ],
)
def test_values_without_a_parameter_are_refused(text: str, args: Any, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        with_arguments(text, args)


def test_a_parameter_can_name_a_partition() -> None:
    text = with_arguments(
        "insert into t partition (p = :d, q = :n, r = :s) values (1)",
        {"d": datetime.date(2020, 1, 2), "n": Decimal("-1.50"), "s": "a'b"},
    )
    statement = parse_one(text).body
    assert isinstance(statement, Insert)
    assert statement.partition == {"p": "2020-01-02", "q": "-1.5", "r": "a'b"}


SETTINGS = {
    "hivevar:x": "7",
    "hivevar:name": "x",
    "hivevar:outer": "<${x}>",
    "hivevar:loop": "${loop} again",
    "my.conf": "c",
    "system:mine": "s",
}


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("${hivevar:x} ${x}", "7 7"),
        ("'${x}'", "'7'"),
        ("${hiveconf:my.conf} ${system:mine} ${env:THAT}", "c s there"),
        ("${hivevar:${name}}", "7"),
        ("${outer}", "<7>"),
        ("${unknown} ${hiveconf:x} ${env:NOTHING_SO_CALLED} $x {x}", None),
    ],
)
def test_variables_are_replaced_as_in_hive(
    text: str, becomes: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THAT", "there")
    assert substituted(text, SETTINGS.get) == (becomes or text)


def test_variables_that_hold_each_other_end() -> None:
    with pytest.raises(InvalidInputError, match="deeper than 40"):
        substituted("${loop}", SETTINGS.get)
    few = {**SETTINGS, "hive.variable.substitute.depth": "0"}
    with pytest.raises(InvalidInputError, match="deeper than 0"):
        substituted("${x}", few.get)


def test_substitution_can_be_turned_off() -> None:
    assert substituted("${x}", {**SETTINGS, "hive.variable.substitute": "false"}.get) == "${x}"


def test_javas_properties_that_scripts_ask_for_have_values() -> None:
    text = substituted("${system:user.name}|${system:java.io.tmpdir}|${system:user.home}", {}.get)
    assert "${" not in text


def test_an_unknown_variable_outside_of_strings_is_a_syntax_error_with_its_place() -> None:
    with pytest.raises(SqlSyntaxError, match=r"line 2:0 variable \$\{hivevar:nope\} has no value"):
        parse_one("select\n${hivevar:nope}")


def test_a_statement_of_a_script_with_variables_is_read_in_its_turn() -> None:
    first, second = parse("set hivevar:t=emp;\n drop ${t} if exists ${x} oops")
    assert resolved(first, SETTINGS.get) is first
    with pytest.raises(SqlSyntaxError, match="line 2") as caught:
        resolved(second, {"hivevar:t": "table", "hivevar:x": "emp"}.get)
    assert caught.value.context["line"] == 2

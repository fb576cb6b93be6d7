"""Columns read as another type than the file's: what Hive 4.1 returned after ALTER TABLE CHANGE."""

from __future__ import annotations

import datetime
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.type_changes import TypeChange, same, stored, type_changes

from hiveacid.errors import FormatError
from hiveacid.model.types import parse_type
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.evolution import evolve_column, from_julian, without_blanks

STAMPS = ["2020-01-02 03:04:05", "2020-01-02 03:04:05.123456789", "2020-12-31 23:59:59.500", None]


@pytest.mark.parametrize(
    ("found", "wanted", "values", "expected"),
    [
        ("float", "string", [1.5, 0.0001, 1e20, None], ["1.5", "9.999999747378752E-5"]),
        ("float", "string", [float("nan")], [None]),
        (
            "double",
            "string",
            [1.0, 12345678.5, 1e-5, 0.001, 1234567.0, -100.0, 1e7, -0.0, float("-inf")],
            ["1.0", "1.23456785E7", "1.0E-5", "0.001", "1234567.0", "-100.0", "1.0E7", "-0.0"],
        ),
        (
            "decimal(10,3)",
            "string",
            [Decimal("1.500"), Decimal("-100.000"), Decimal("0.001"), Decimal("0.000"), None],
            ["1.5", "-100", "0.001", "0", None],
        ),
        ("date", "string", [datetime.date(1969, 12, 31)], ["1969-12-31"]),
        ("tinyint", "string", [-128, None], ["-128", None]),
        ("char(5)", "string", ["ab   ", "     ", "abcde"], ["ab", "", "abcde"]),
        ("char(3)", "char(6)", ["x  "], ["x     "]),
        ("varchar(9)", "varchar(3)", ["var", "longer"], ["var", "lon"]),
        ("smallint", "double", [6], [6.0]),
        ("int", "decimal(20,3)", [7], [Decimal("7.000")]),
        ("decimal(5,2)", "decimal(12,4)", [Decimal("1.25")], [Decimal("1.2500")]),
        (
            "decimal(38,10)",
            "decimal(5,2)",
            [Decimal("1.235"), Decimal("-1.235"), Decimal("999.995"), None],
            [Decimal("1.24"), Decimal("-1.24"), None, None],
        ),
        ("bigint", "smallint", [32767, 32768, -32768, None], [32767, None, -32768, None]),
        ("double", "int", [1.9, -1.9, 3e9, float("nan"), None], [1, -1, None, None, None]),
        ("decimal(38,2)", "bigint", [Decimal("1e30"), Decimal("-7.99")], [None, -7]),
        ("double", "decimal(5,2)", [0.125, 1e300, float("nan")], [Decimal("0.13"), None, None]),
        ("string", "int", ["12", " 7 ", "x", "1.5", "99999999999", None], [12, *[None] * 5]),
        ("string", "double", ["1e3", "-.5", "NaN?", ""], [1000.0, -0.5, None, None]),
        (
            "string",
            "decimal(38,18)",
            ["-" + "9" * 20 + "." + "9" * 18],
            [Decimal("-" + "9" * 20 + "." + "9" * 18)],
        ),
        ("string", "decimal(4,1)", ["1.25", "-x", "1000"], [Decimal("1.3"), None, None]),
        ("string", "date", ["1582-10-04", "2020-1-1", "x"], [datetime.date(1582, 10, 4), None]),
        ("date", "timestamp", [datetime.date(1, 1, 1)], [datetime.datetime(1, 1, 1)]),
        (
            "array<struct<a:int,b:char(3)>>",
            "array<struct<b:string,c:date,a:bigint>>",
            [[{"a": 1, "b": "x  "}, None], None, []],
            [[{"b": "x", "c": None, "a": 1}, None], None, []],
        ),
        ("map<int,tinyint>", "map<string,int>", [[(1, 2)], None], [[("1", 2)], None]),
    ],
)
def test_values_read_as_another_type_are_those_that_hive_returned(found, wanted, values, expected):
    array = pa.array(values, arrow_type(parse_type(found)))
    read = evolve_column(array, parse_type(found), parse_type(wanted))
    assert read.type == arrow_type(parse_type(wanted))
    assert read.to_pylist()[: len(expected)] == expected


@pytest.mark.parametrize("change", list(type_changes()), ids=lambda c: f"{c.found}-{c.wanted}")
def test_every_change_of_type_is_read_as_hive_reads_it(change: TypeChange) -> None:
    found, wanted = parse_type(change.found), parse_type(change.wanted)
    if change.answers is None:
        for text in ("12", "2020-01-02"):
            with suppress(ValueError, ArithmeticError):
                array = stored(text, change.found)
                with pytest.raises(FormatError, match="cannot be read as"):
                    evolve_column(array, found, wanted)
        return
    wrong = {
        text: read.to_pylist()
        for text, answer in change.answers.items()
        for read in [evolve_column(stored(text, change.found), found, wanted)]
        if not same(read, answer, change.wanted)
    }
    assert not wrong


def test_timestamps_become_text_without_trailing_zeros():
    array = pa.array(STAMPS).cast(pa.timestamp("ns"))
    read = evolve_column(array, parse_type("timestamp"), parse_type("string"))
    assert read.to_pylist() == [*STAMPS[:2], "2020-12-31 23:59:59.5", None]


def test_timestamps_are_cut_to_microseconds_downwards():
    array = pa.array([1, 999, 1_000, -1, -1_000, None]).cast(pa.timestamp("ns"))
    read = evolve_column(array, parse_type("timestamp"), parse_type("timestamp"))
    assert read.cast(pa.int64()).to_pylist() == [0, 0, 1, -1, -1, None]


def test_julian_dates_are_moved_at_any_depth():
    julian, gregorian = -141_428, -141_438  # 1582-10-04 in each calendar
    days = pa.array([julian, None, 0], pa.int32()).cast(pa.date32())
    nested = pa.MapArray.from_arrays(
        pa.array([0, 2, 3], pa.int32()),
        pa.array(["a", "b", "c"]),
        pa.StructArray.from_arrays([days], ["d"]),
    )
    (first, second), (third,) = from_julian(nested).to_pylist()
    assert first[1]["d"] == datetime.date(1582, 10, 4)
    assert (second[1]["d"], third[1]["d"]) == (None, datetime.date(1970, 1, 1))
    stamps = pa.array([julian * 86_400_000_000 + 5]).cast(pa.timestamp("us"))
    assert from_julian(stamps).cast(pa.int64())[0].as_py() == gregorian * 86_400_000_000 + 5


def test_types_that_cannot_become_each_other_are_refused():
    with pytest.raises(FormatError, match="cannot be read as"):
        evolve_column(pa.array([1]), parse_type("bigint"), parse_type("array<bigint>"))
    with pytest.raises(FormatError, match="cannot be read as"):
        evolve_column(pa.array([1]), parse_type("bigint"), parse_type("date"))


UNION = "uniontype<int,array<timestamp>>"


def test_a_union_becomes_a_struct_of_its_tag_and_one_field_each():
    stamps = pa.array([[1], [2], [3]], pa.list_(pa.timestamp("ns")))
    array = pa.UnionArray.from_sparse(
        pa.array([0, 1, 1], pa.int8()), [pa.array([7, 8, 9], pa.int32()), stamps]
    )
    read = evolve_column(array, parse_type(UNION), parse_type(UNION))
    assert read.type == arrow_type(parse_type(UNION))
    zero = datetime.datetime(1970, 1, 1)
    assert read.to_pylist() == [
        {"tag": 0, "field0": 7, "field1": None},
        {"tag": 1, "field0": None, "field1": [zero]},
        {"tag": 1, "field0": None, "field1": [zero]},
    ]


def test_chars_at_any_depth_lose_their_blanks() -> None:
    kind = parse_type(
        "struct<c:char(3),l:array<map<char(2),struct<v:varchar(4),c:char(2)>>>,s:string>"
    )
    padded = {"c": "q  ", "l": [[("k ", {"v": "v ", "c": "c "})], None], "s": "s "}
    values = pa.array([{"c": "gone"}, padded, None, padded], arrow_type(kind))
    expected = {"c": "q", "l": [[("k", {"v": "v ", "c": "c"})], None], "s": "s "}
    for array in (values, values.slice(1)):
        changed = without_blanks(array, kind)
        assert changed.type == array.type
        assert changed.to_pylist()[-3:] == [expected, None, expected]
    union = parse_type("uniontype<int,char(3)>")
    as_struct = pa.array([{"tag": 1, "field1": "q  "}], arrow_type(union.as_struct))
    assert without_blanks(as_struct, union).to_pylist() == [
        {"tag": 1, "field0": None, "field1": "q"}
    ]
    dense = pa.UnionArray.from_dense(
        pa.array([1, 0], pa.int8()),
        pa.array([0, 0], pa.int32()),
        [pa.array([7]), pa.array(["q  "])],
    )
    assert without_blanks(dense, union).to_pylist() == ["q", 7]

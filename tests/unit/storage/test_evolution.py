"""Columns read as another type than the file's: what Hive 4.1 returned after ALTER TABLE CHANGE."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from hiveacid.model.types import parse_type
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.evolution import evolve_column

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
    ],
)
def test_values_read_as_another_type_are_those_that_hive_returned(found, wanted, values, expected):
    array = pa.array(values, arrow_type(parse_type(found)))
    read = evolve_column(array, parse_type(found), parse_type(wanted))
    assert read.type == arrow_type(parse_type(wanted))
    assert read.to_pylist()[: len(expected)] == expected


def test_timestamps_become_text_without_trailing_zeros():
    array = pa.array(STAMPS).cast(pa.timestamp("ns"))
    read = evolve_column(array, parse_type("timestamp"), parse_type("string"))
    assert read.to_pylist() == [*STAMPS[:2], "2020-12-31 23:59:59.5", None]

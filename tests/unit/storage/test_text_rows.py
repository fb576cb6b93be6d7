"""Lines of text tables: bytes that Hive 4.1 wrote and read, and the values it showed."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.tables import Column, RowFormat, row_format
from hiveacid.model.types import parse_type
from hiveacid.storage.evolution import java_numbers
from hiveacid.storage.plain.text_parse import TextBuffer, parse_rows
from hiveacid.storage.plain.writers import decode, encode, format_rows

COMMAS = row_format({"field.delim": ","})
ALL_DELIMITED = row_format(
    {
        "field.delim": ",",
        "escape.delim": "\\",
        "collection.delim": "|",
        "mapkey.delim": ":",
        "serialization.null.format": "NUL",
    }
)
NESTED = "a array<int>, m map<string,int>, st struct<x:int,y:string>, n array<array<string>>"


def columns(text: str) -> list[Column]:
    pairs = (one.split(" ", 1) for one in re.split(r", (?=\w+ )", text))
    return [Column(name, parse_type(kind)) for name, kind in pairs]


def read(data: bytes, ddl: str, form: RowFormat = COMMAS) -> list[tuple[object, ...]]:
    arrays = parse_rows(TextBuffer(data, escape=form.escape).lines(), columns(ddl), form)
    for array in arrays:
        array.validate(full=True)
    return list(zip(*(array.to_pylist() for array in arrays), strict=True))


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        ("int", ["1", "+5", "1.9", "-7", " 12 ", "0x10", "", "99999999999"],
         [1, 5, 1, -7, None, None, None, None]),
        ("tinyint", ["2", "300", "-5", "-129", "-128"], [2, None, -5, None, -128]),
        ("bigint", ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "3.7",
                    "99999999999999999999", "0000000000000000000000007"],
         [2**63 - 1, None, -(2**63), 3, None, 7]),
        ("double", ["1e3", "1.", ".5", " 2.5 ", "1d", "-Infinity", "inf", "abc"],
         [1000.0, 1.0, 0.5, 2.5, 1.0, float("-inf"), None, None]),
        ("boolean", ["true", "TRUE", "False", "t", "1", "false "],
         [True, True, False, None, None, None]),
        ("string", [" s ", "", "\\N"], [" s ", "", None]),
        ("char(5)", ["ab"], ["ab   "]),
        ("varchar(5)", ["abcdefg"], ["abcde"]),
        ("binary", ["YmluYXJ5", "YWI", "", "notb64!", "r"], [b"binary", b"ab", b"", None, None]),
        ("date", ["2020-01-02", "2020-1-2", "2020-01-02 10:00:00", "2021-02-30", "2020/01/02",
                  "0001-01-01"],
         [datetime.date(2020, 1, 2)] * 3 + [None, None, datetime.date(1, 1, 1)]),
        ("timestamp", ["2020-01-02 03:04:05.12", "2020-01-02T03:04:05", "2020-01-02",
                       "2020-01-02 25:00:00"],
         [datetime.datetime(2020, 1, 2, 3, 4, 5, 120000), datetime.datetime(2020, 1, 2, 3, 4, 5),
          None, None]),
        ("decimal(10,2)", ["1.555", "1234567890123", "1e2", "0.005", ".5", "-1.005", "x"],
         [Decimal("1.56"), None, Decimal(100), Decimal("0.01"), Decimal("0.5"), Decimal("-1.01"),
          None]),
    ],
)  # fmt: skip
def test_values_are_those_that_hive_showed(
    kind: str, texts: list[str], values: list[object]
) -> None:
    data = "".join(f"{text},end\n" for text in texts).encode()
    assert [row[0] for row in read(data, f"v {kind}")] == values


@pytest.mark.parametrize(
    ("kind", "texts", "values"),
    [
        ("decimal(38,0)", ["9" * 38, "-" + "9" * 38, "9" * 39, "9" * 38 + ".5", "9e37", "1e38"],
         ["9" * 38, "-" + "9" * 38, None, None, "9" + "0" * 37, None]),
        ("decimal(38,38)", ["0." + "9" * 38, "1E-38", "-5E-38", "5e-39", "4e-39", "1", "0E-38"],
         ["0." + "9" * 38, "1E-38", "-5E-38", "1E-38", "0", None, "0"]),
        ("decimal(38,37)", ["9." + "9" * 37, "1E-37", "1.234E-35", "1e1", "0e99"],
         ["9." + "9" * 37, "1E-37", "1.23E-35", None, "0"]),
        ("decimal(18,9)", ["1.5E-9", "-1.23456789E-7", "00000000000000000000001.5", "1e-99"],
         ["2E-9", "-1.23E-7", "1.5", "0"]),
    ],
)  # fmt: skip
def test_decimals_of_any_width_are_read_exactly(
    kind: str, texts: list[str], values: list[str | None]
) -> None:
    data = "".join(f"{text},end\n" for text in texts).encode()
    wanted = [None if value is None else Decimal(value) for value in values]
    assert [row[0] for row in read(data, f"v {kind}")] == wanted


def test_lines_end_as_hadoop_ends_them_and_short_lines_lack_columns() -> None:
    data = b"1,a\r\n\n2,b\rc\n3,x,more,still\n4"
    assert read(data, "i int, s string") == [
        (1, "a"), (None, None), (2, "b"), (None, None), (3, "x"), (4, None),
    ]  # fmt: skip


def test_nested_values_stand_as_hive_wrote_them() -> None:
    data = b"\\N\x01\\N\x01\\N\x01\\N\n\x01\x01\\N\x02\\N\x01\n"
    data += b"1\x01a\x031\x015\x02\\N\x01a\x03b\x02\\N\n"
    rows = read(data, NESTED, RowFormat())
    assert rows == [
        (None, None, None, None),
        ([], [], {"x": None, "y": None}, []),
        ([1], [("a", 1)], {"x": 5, "y": None}, [["a", "b"], None]),
    ]


def test_an_empty_item_at_the_end_of_a_list_does_not_count_but_one_before_does() -> None:
    assert read(b"1\x02\x022\n1\x02\n", "a array<int>", RowFormat()) == [([1, None, 2],), ([1],)]


def test_a_decimal_may_have_any_blanks_around_it() -> None:
    data = b"\t1\n1\x0b\n\x0b1\x0c\n 1 \n"
    assert read(data, "d decimal(3,0)", RowFormat()) == [(Decimal(1),)] * 4


@pytest.mark.parametrize("kind", ["array<string>", "array<varchar(5)>"])
def test_an_empty_text_at_the_end_of_a_list_is_one(kind: str) -> None:
    data = b"a\x02\n\x02\n\x02b\x02\x02\n\n"
    buffer = TextBuffer(data, escape=None)
    arrays = parse_rows(buffer.lines(), columns(f"a {kind}"), RowFormat())
    assert arrays[0].to_pylist() == [["a", ""], ["", ""], ["", "b", "", ""], []]
    assert format_rows(arrays, columns(f"a {kind}"), RowFormat()).to_pybytes() == data


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b"a\\,b,x\\|y|z\\:w|NUL,k\\:1:v\\|2,5\n",
         ("a,b", ["x|y", "z:w", None], [("k:1", "v|2")], 5)),
        (b"back\\\\slash,q,a:NUL,NUL\n", ("back\\slash", ["q"], [("a", None)], None)),
        (b"NUL,,,8\n", (None, [], [], 8)),
    ],
)  # fmt: skip
def test_escapes_and_delimiters_of_a_table_are_read_and_written_as_hive_did(
    line: bytes, row: tuple[object, ...]
) -> None:
    ddl = "s string, a array<string>, m map<string,string>, i int"
    assert read(line, ddl, ALL_DELIMITED) == [row]
    buffer = TextBuffer(line, escape=ALL_DELIMITED.escape)
    arrays = parse_rows(buffer.lines(), columns(ddl), ALL_DELIMITED)
    assert format_rows(arrays, columns(ddl), ALL_DELIMITED).to_pybytes() == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("þ", b"a\xc3\xfeb\n"),
        ("-2", b"a\xc3\xfeb\n"),
        ("200", b"a\xc32b\n"),
        ("300", b"a\xc33b\n"),
        ("+44", b"a\xc3,b\n"),
        ("1_0", b"a\xc31b\n"),
        ("||", b"a\xc3|b\n"),
    ],
)
def test_a_separator_is_a_byte_of_javas_or_the_low_one_of_a_character(
    text: str, line: bytes
) -> None:
    """Asked of Hive 4.1."""
    found = row_format({"field.delim": text})
    a, b = parse_rows(TextBuffer(line, escape=None).lines(), columns("a string, b string"), found)
    assert (a[0].as_buffer(), b[0].as_py()) == (b"a\xc3", "b")
    assert format_rows([a, b], columns("a string, b string"), found).to_pybytes() == line


def test_a_row_of_all_types_is_written_byte_by_byte_as_hive_wrote_it() -> None:
    line = (
        b"1\x012\x013\x011.5\x011.0E7\x01true\x01abc\x01ab   \x01abcde\x01Ymlu\x012020-01-02\x01"
        b"2020-01-02 03:04:05.12\x011.50\x011\x022\x02\\N\x01k\x031\x02l\x03\\N\x011\x02z\x01"
        b"a\x03b\x02c\x01k\x031\x045\x056\n"
    )
    ddl = (
        "i int, ti tinyint, bi bigint, f float, d double, b boolean, s string, c char(5),"
        f" v varchar(5), bn binary, da date, ts timestamp, de decimal(10,2), {NESTED},"
        " ms map<string,struct<p:int,q:array<int>>>"
    )
    arrays = parse_rows(TextBuffer(line, escape=None).lines(), columns(ddl), RowFormat())
    assert all(array.null_count == 0 for array in arrays)
    assert format_rows(arrays, columns(ddl), RowFormat()).to_pybytes() == line


def test_numbers_are_printed_as_java_prints_them() -> None:
    doubles = [1.0, 1e7, 9999999.0, 1e-3, 9.9e-4, 1.5e20, 123456789.123, -0.0, 1e22, None]
    assert java_numbers(pa.array(doubles)).to_pylist() == [
        "1.0", "1.0E7", "9999999.0", "0.001", "9.9E-4", "1.5E20", "1.23456789123E8", "-0.0",
        "1.0E22", None,
    ]  # fmt: skip
    odd = pa.array([float("nan"), float("inf"), float("-inf"), 5e-324])
    assert java_numbers(odd).to_pylist() == ["NaN", "Infinity", "-Infinity", "5.0E-324"]
    floats = pa.array([1.1, 1e10, 1e-5], pa.float32())
    assert java_numbers(floats).to_pylist() == ["1.1", "1.0E10", "1.0E-5"]


def test_base64_has_no_padding_and_comes_back() -> None:
    values = [b"", b"a", b"ab", b"abc", None, bytes(range(256)), b"\x01\x02"]
    text = encode(pa.array(values, pa.binary()))
    assert text.to_pylist()[:5] == ["", "YQ", "YWI", "YWJj", None]
    assert text.to_pylist()[6] == "AQI"
    assert decode(text.cast(pa.binary())).to_pylist() == values
    assert decode(text.cast(pa.binary()).slice(2)).to_pylist() == values[2:]


def test_slices_of_arrays_are_written_as_their_rows_alone() -> None:
    ddl = "a array<string>, s string, bn binary"
    rows = pa.table(
        {
            "a": pa.array([["x"], ["y", None], None, ["z", "w"]]),
            "s": ["1", None, "3", "4"],
            "bn": pa.array([b"a", b"b", None, b"d"]),
        }
    )
    whole = format_rows([c.chunk(0) for c in rows.columns], columns(ddl), RowFormat()).to_pybytes()
    part = format_rows(
        [c.chunk(0).slice(1, 2) for c in rows.columns], columns(ddl), RowFormat()
    ).to_pybytes()
    assert part == b"\n".join(whole.split(b"\n")[1:3]) + b"\n"


def test_random_rows_come_back_through_every_format() -> None:
    rng = np.random.default_rng(7)
    letters = np.array(list("ab\\,|:\x01\x02\u00e9"))
    texts = ["".join(rng.choice(letters, size=n)) for n in rng.integers(0, 9, 500)]
    lists = [texts[i : i + n] for i, n in enumerate(rng.integers(2, 4, 400))]
    lists = [[*one, "end"] for one in lists]
    ddl = "s string, a array<string>, i bigint"
    arrays = [
        pa.array(texts[:400]),
        pa.array(lists),
        pa.array(rng.integers(-(2**63), 2**63 - 1, 400)),
    ]
    data = format_rows(arrays, columns(ddl), ALL_DELIMITED).to_pybytes()
    expected = list(zip(*(array.to_pylist() for array in arrays), strict=True))
    assert read(data, ddl, ALL_DELIMITED) == expected


def test_a_value_nested_too_deep_is_refused() -> None:
    kind = "array<" * 8 + "int" + ">" * 8
    with pytest.raises(UnsupportedError, match="Unable to work with level 8"):
        read(b"1\n", f"v {kind}", RowFormat())


def test_a_zone_is_a_name_an_offset_or_none() -> None:
    zones = " Europe/London|Europe/London| GMT+01:00|GMT+1:00| +01:00|+01:00| +1:00|+0100| +1"
    texts = [f"2016-05-03 12:26:34.25{zone}" for zone in zones.split("|")]
    moment = datetime.datetime(2016, 5, 3, 11, 26, 34, 250000, datetime.UTC)
    kind = "t timestamp with local time zone"
    assert read("\n".join(texts).encode(), kind) == [(moment,)] * len(texts)
    rest = b"2016-05-03 12:26:34Z\n2016-05-03 01:02:03\n2016-05-03\n2016-05-03 12:26:34 Nowhere\n"
    found = [row[0] for row in read(rest + b"2016-05-03T12:26:34+01:00\nMay 3 2016\n", kind)]
    assert [str(one) for one in found] == [
        "2016-05-03 12:26:34+00:00",
        "2016-05-03 01:02:03+00:00",
        "2016-05-03 00:00:00+00:00",
        *("None",) * 3,
    ]


@pytest.mark.parametrize(
    ("name", "value", "harmless"),
    [
        ("timestamp.formats", "yyyy-MM-dd'T'HH:mm:ss", ""),
        ("skip.footer.line.count", "1", "0"),
        ("serialization.encoding", "GBK", "UTF-8"),
        ("serialization.last.column.takes.rest", "true", "FALSE"),
        ("hive.serialization.extend.nesting.levels", "true", "false"),
        ("hive.lazysimple.extended_boolean_literal", "true", "false"),
    ],
)
def test_what_hive_would_read_otherwise_is_refused(name: str, value: str, harmless: str) -> None:
    assert row_format({name: harmless}) == row_format({})
    with pytest.raises(UnsupportedError, match=re.escape(name)):
        row_format({name: value})


@pytest.mark.parametrize("lines", ["²", "-1", "1.5", "", "one"])
def test_lines_to_skip_are_a_whole_number(lines: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a number"):
        row_format({"skip.header.line.count": lines})

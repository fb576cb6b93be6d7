"""The bucket codec and the type grammar."""

from __future__ import annotations

import pytest

from hiveacid.errors import FormatError, InvalidInputError
from hiveacid.model.ids import BucketCodec, RowId, bucket_id_of, encode_bucket
from hiveacid.model.types import (
    BINARY,
    DOUBLE,
    TIMESTAMP,
    TIMESTAMP_LOCAL_TZ,
    CharType,
    DecimalType,
    StructType,
    parse_type,
)


@pytest.mark.parametrize(
    ("bucket", "statement", "value"),
    [
        (0, 0, 536870912),
        (1, 0, 536936448),
        (2, 0, 537001984),
        (0, 1, 536870913),
        (4095, 0, 805240832),
        (0, -1, 536870912),
    ],
)
def test_codec_of_the_sheet(bucket: int, statement: int, value: int) -> None:
    assert encode_bucket(bucket, statement) == value
    decoded = BucketCodec.decode(value)
    assert (decoded.bucket_id, decoded.statement_id) == (bucket, max(statement, 0))


def test_numbers_of_hive_2_are_bucket_ids() -> None:
    decoded = BucketCodec.decode(17)
    assert (decoded.codec, decoded.bucket_id, decoded.statement_id) == (BucketCodec.V0, 17, 0)
    assert RowId(1, 17, 0).bucket_id == 17


@pytest.mark.parametrize("value", [-1, 2 << 29, 7 << 29])
def test_unknown_version_is_refused(value: int) -> None:
    with pytest.raises(FormatError):
        bucket_id_of(value)


@pytest.mark.parametrize(("bucket", "statement"), [(4096, 0), (0, 4096), (-1, 0), (0, -2)])
def test_beyond_twelve_bits_is_refused(bucket: int, statement: int) -> None:
    with pytest.raises(InvalidInputError):
        encode_bucket(bucket, statement)


def test_row_ids_sort_as_in_files() -> None:
    rows = [RowId(2, 536870912, 0), RowId(1, 536936448, 0), RowId(1, 536870912, 9)]
    assert sorted(rows) == rows[::-1]
    assert BucketCodec.decode(536936449).statement_id == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INT", "int"),
        ("integer", "int"),
        (" Double  Precision ", "double"),
        ("decimal", "decimal(10,0)"),
        ("decimal(5)", "decimal(5,0)"),
        ("NUMERIC(38, 38)", "decimal(38,38)"),
        ("timestamp", "timestamp"),
        ("TIMESTAMP WITH LOCAL TIME ZONE", "timestamp with local time zone"),
        ("array < struct < A : int , b:map<string,char(3)> > >", None),
        ("struct<`x y`:int,`q``r`:string>", "struct<`x y`:int,`q``r`:string>"),
        ("uniontype<int,array<double>>", "uniontype<int,array<double>>"),
        ("struct<type:string,date:date>", "struct<type:string,date:date>"),
        ("varchar(65535)", "varchar(65535)"),
    ],
)
def test_parse_type(text: str, expected: str | None) -> None:
    expected = expected or "array<struct<a:int,b:map<string,char(3)>>>"
    assert str(parse_type(text)) == expected
    assert parse_type(expected) == parse_type(text)


def test_parsed_types_are_values() -> None:
    assert parse_type("double precision") == DOUBLE
    assert parse_type("struct<a:timestamp,b:double>") == StructType(
        (("a", TIMESTAMP), ("b", DOUBLE))
    )
    assert parse_type("binary") == BINARY and parse_type("char(2)") == CharType(2)
    assert parse_type("timestamp with local time zone") == TIMESTAMP_LOCAL_TZ
    assert parse_type("dec(4,2)") == DecimalType(4, 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "foo",
        "int int",
        "array<int",
        "array<int>>",
        "map<int>",
        "struct<a int>",
        "varchar",
        "varchar(0)",
        "varchar(65536)",
        "char(256)",
        "decimal(39,0)",
        "decimal(0)",
        "decimal(2,3)",
        "decimal(-1)",
        "timestamp with time zone",
        "array<" * 300,
    ],
)
def test_text_that_names_no_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_type(text)

"""The bucketing hash: every vector, the sheet's examples, nested types."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.hashing import bucket_number, hash_row, hash_value, timestamp_bytes
from hiveacid.model.types import DecimalType, HiveType, PrimitiveType, parse_type

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "bucket_hash_vectors.json").read_text()
)["vectors"]


def value_of(kind: HiveType, text: str | None) -> object:
    if text is None:
        return None
    if isinstance(kind, DecimalType):
        return Decimal(text)
    if not isinstance(kind, PrimitiveType):
        return text
    return {
        "boolean": lambda: text == "true",
        "float": lambda: float(text),
        "double": lambda: float(text),
        "string": lambda: text,
        "binary": lambda: text.encode(),
        "date": lambda: date.fromisoformat(text),
        "timestamp": lambda: datetime.fromisoformat(text),
    }.get(kind.name, lambda: int(text))()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("vector", VECTORS, ids=[f"{v['type']}={v['value']}" for v in VECTORS])
def test_vector(vector: dict[str, Any], version: int) -> None:
    types = [parse_type(text) for text in vector["type"]]
    values = [value_of(kind, text) for kind, text in zip(types, vector["value"], strict=True)]
    assert hash_row(types, values, version=version) == vector[f"hash_v{version}"]


@pytest.mark.parametrize(
    ("kind", "text", "v1", "v2"),
    [
        ("int", "1", 1, 1321152925),
        ("int", "-1", -1, 1626716813),
        ("smallint", "1", 1, 1484957954),
        ("smallint", "-1", -1, -1220617012),
        ("bigint", "42", 42, -1236600470),
        ("date", "2015-11-19", 16758, 8542395),
        ("timestamp", "1969-12-31 23:59:59", 1073741823, -2005195780),
    ],
)
def test_sheet_example(kind: str, text: str, v1: int, v2: int) -> None:
    hive_type = parse_type(kind)
    value = value_of(hive_type, text)
    assert hash_value(hive_type, value, version=1) == v1
    assert hash_value(hive_type, value, version=2) == v2


def test_timestamp_bytes_are_those_of_the_sheet() -> None:
    assert timestamp_bytes(1447891200, 0).hex() == "564d1100"
    assert timestamp_bytes(1447891200, 123_000_000).hex() == "d64d11008e0141"
    assert timestamp_bytes(-1, 0).hex() == "ffffffffffff"


def test_timestamp_as_nanoseconds_equals_datetime() -> None:
    kind = parse_type("timestamp")
    at = datetime(2015, 11, 19, 0, 0, 0, 123000)
    for version in (1, 2):
        assert hash_value(kind, at, version=version) == hash_value(
            kind, 1447891200_123_000_000, version=version
        )


def test_char_ignores_trailing_blanks_but_varchar_does_not() -> None:
    char, varchar = parse_type("char(10)"), parse_type("varchar(10)")
    for version in (1, 2):
        assert hash_value(char, "a  ", version=version) == hash_value(char, "a", version=version)
        assert hash_value(varchar, "a ", version=version) != hash_value(
            varchar, "a", version=version
        )


def test_nested_values_combine_as_columns_do() -> None:
    a = hash_value(parse_type("int"), 7, version=2)
    b = hash_value(parse_type("string"), "a", version=2)
    assert hash_value(parse_type("struct<x:int,y:string>"), (7, "a"), version=2) == 1054173906
    listed = hash_value(parse_type("array<int>"), [7, None, 7], version=2)
    assert listed == ((a * 31 * 31 + a + 2**31) % 2**32) - 2**31
    assert hash_value(parse_type("uniontype<int,string>"), (1, "a"), version=2) == b


def test_map_values_are_hashed_by_version_one() -> None:
    kind = parse_type("map<string,int>")
    assert hash_value(kind, {"a": 7}, version=2) == 1086686554 ^ 7
    assert hash_value(kind, {"a": 7, "b": None}, version=1) == (97 ^ 7) + 98


def test_nan_and_float_overflow_hash_as_javas() -> None:
    assert hash_value(parse_type("float"), float("nan"), version=1) == 0x7FC00000
    assert hash_value(parse_type("float"), 1e300, version=1) == 0x7F800000


def test_decimal_beyond_one_word() -> None:
    unscaled = 2**64 + 5
    kind = parse_type("decimal(38,0)")
    words = (1 * 31 + 0) * 31 + 5
    assert hash_value(kind, Decimal(unscaled), version=1) == 31 * words
    assert hash_value(kind, Decimal("1E+2"), version=1) == 3100


def test_bucket_number_is_never_negative() -> None:
    assert bucket_number(-1, 4) == 3
    with pytest.raises(InvalidInputError):
        bucket_number(1, 0)


def test_type_without_a_known_hash_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        hash_value(parse_type("timestamp with local time zone"), 0, version=2)

"""The bucketing hash over columns: every vector, and equal to the hash of one value."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hash_by_value import bucket_number, hash_row, hash_value, timestamp_bytes

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.types import DecimalType, HiveType, PrimitiveType, parse_type
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.merge.column_hashing import (
    _timestamp_bytes,
    bucket_ids,
    hash_column,
    hash_columns,
)

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


def column(kind: HiveType, values: list[Any]) -> pa.Array:
    return pa.array(values, type=arrow_type(kind))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("vector", VECTORS, ids=[f"{v['type']}={v['value']}" for v in VECTORS])
def test_vector(vector: dict[str, Any], version: int) -> None:
    types = [parse_type(text if text != "decimal" else "decimal(20,6)") for text in vector["type"]]
    arrays = [
        column(kind, [value_of(kind, text)])
        for kind, text in zip(types, vector["value"], strict=True)
    ]
    expected = vector[f"hash_v{version}"]
    assert hash_columns(arrays, types, version=version).view(np.int32).tolist() == [expected]
    values = [value_of(kind, text) for kind, text in zip(types, vector["value"], strict=True)]
    assert hash_row(types, values, version=version) == expected


def hashed(name: str, value: Any, *, version: int) -> int:
    """The hash of a value in a column with others and NULLs; structs are dicts, maps lists."""
    kind = parse_type(name)
    array = column(kind, [value, None, value]).slice(1)
    null, found = hash_column(array, kind, version=version).view(np.int32).tolist()
    assert null == 0
    return int(found)


@pytest.mark.parametrize(
    ("name", "text", "v1", "v2"),
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
def test_sheet_example(name: str, text: str, v1: int, v2: int) -> None:
    kind = parse_type(name)
    value = value_of(kind, text)
    assert [hashed(name, value, version=version) for version in (1, 2)] == [v1, v2]
    assert [hash_value(kind, value, version=version) for version in (1, 2)] == [v1, v2]


def test_timestamp_bytes_are_those_of_the_sheet() -> None:
    for seconds, nanos, expected in (
        (1447891200, 0, "564d1100"),
        (1447891200, 123_000_000, "d64d11008e0141"),
        (-1, 0, "ffffffffffff"),
    ):
        assert timestamp_bytes(seconds, nanos).hex() == expected
        assert _timestamp_bytes(seconds, nanos).hex() == expected


def test_char_ignores_trailing_blanks_but_varchar_does_not() -> None:
    for version in (1, 2):
        found = [hashed("char(10)", text, version=version) for text in ("a  ", "a")]
        assert found[0] == found[1]
        found = [hashed("varchar(10)", text, version=version) for text in ("a ", "a")]
        assert found[0] != found[1]


def test_nested_values_combine_as_columns_do() -> None:
    a, b = hashed("int", 7, version=2), hashed("string", "a", version=2)
    assert hashed("struct<x:int,y:string>", {"x": 7, "y": "a"}, version=2) == 1054173906
    listed = hashed("array<int>", [7, None, 7], version=2)
    assert listed == ((a * 31 * 31 + a + 2**31) % 2**32) - 2**31
    kind, tags = parse_type("uniontype<int,string>"), pa.array([1, 0, 1], pa.int8())
    choices = [pa.array([7], pa.int32()), pa.array(["a", "a"])]
    dense = pa.UnionArray.from_dense(tags, pa.array([0, 0, 1], pa.int32()), choices)
    sparse = pa.UnionArray.from_sparse(
        tags, [pa.array([0, 7, 0], pa.int32()), pa.array(["a", "", "a"])]
    )
    for array in (dense, sparse):
        assert hash_column(array, kind, version=2).view(np.int32).tolist() == [b, a, b]


def test_map_values_are_hashed_by_version_one() -> None:
    assert hashed("map<string,int>", [("a", 7)], version=2) == 1086686554 ^ 7
    assert hashed("map<string,int>", [("a", 7), ("b", None)], version=1) == (97 ^ 7) + 98


def test_nan_and_float_overflow_hash_as_javas() -> None:
    assert hashed("float", float("nan"), version=1) == 0x7FC00000
    assert hashed("float", 1e300, version=1) == 0x7F800000


def test_decimal_beyond_one_word() -> None:
    words = (1 * 31 + 0) * 31 + 5
    for sign in (1, -1):
        assert hashed("decimal(38,0)", Decimal(sign * (2**64 + 5)), version=1) == sign * 31 * words
    assert hashed("decimal(38,0)", Decimal("1E+2"), version=1) == 3100


def test_type_without_a_known_hash_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        hashed("timestamp with local time zone", 0, version=2)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
TIMES = st.integers(-(2**62), 2**62)
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": TEXT,
    "varchar(50)": TEXT,
    "char(50)": TEXT.map(lambda text: text + "  "),
    "binary": st.binary(max_size=40),
    "date": st.dates(),
    "decimal(18,4)": st.decimals(-(10**13), 10**13, places=4, allow_nan=False),
    "decimal(38,10)": st.decimals(-(10**25), 10**25, places=10, allow_nan=False),
}


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_hashes_as_its_values(name: str, version: int) -> None:
    kind = parse_type(name)

    @given(st.lists(st.none() | COLUMNS[name], max_size=12), st.integers(0, 3))
    def check(values: list[Any], skip: int) -> None:
        array = column(kind, values).slice(skip)
        expected = [hash_value(kind, value, version=version) for value in values[skip:]]
        assert hash_column(array, kind, version=version).view(np.int32).tolist() == expected

    check()


@pytest.mark.parametrize("version", [1, 2])
@given(values=st.lists(st.none() | TIMES | st.integers(0, 2**31 * 10**9), max_size=8))
def test_timestamps_hash_as_their_values(values: list[int | None], version: int) -> None:
    kind = parse_type("timestamp")
    array = pa.array(values, type=pa.int64()).cast(pa.timestamp("ns"))
    expected = [hash_value(kind, value, version=version) for value in values]
    assert hash_column(array, kind, version=version).view(np.int32).tolist() == expected


NESTED = st.fixed_dictionaries(
    {
        "a": st.none() | st.lists(st.none() | st.integers(-9, 9), max_size=4),
        "m": st.none() | st.dictionaries(TEXT, st.none() | st.integers(-9, 9), max_size=3),
        "s": st.none() | st.tuples(st.none() | TEXT, st.dates() | st.none()),
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
@given(values=st.lists(st.none() | NESTED, max_size=6), skip=st.integers(0, 2))
def test_nested_values_of_any_shape_hash_as_their_values(
    values: list[Any], skip: int, version: int
) -> None:
    kind = parse_type("struct<a:array<int>,m:map<string,int>,s:struct<x:string,y:date>>")

    def stored(one: dict[str, Any]) -> dict[str, Any]:
        m, s = one["m"], one["s"]
        pairs, fields = m and list(m.items()), s and {"x": s[0], "y": s[1]}
        return {**one, "m": [] if m == {} else pairs, "s": fields}

    array = column(kind, [one and stored(one) for one in values]).slice(skip)
    expected = [
        hash_value(kind, one and (one["a"], one["m"], one["s"]), version=version)
        for one in values[skip:]
    ]
    assert hash_column(array, kind, version=version).view(np.int32).tolist() == expected


@pytest.mark.parametrize("version", [1, 2])
def test_nested_values_hash_as_their_values(version: int) -> None:
    kind = parse_type("struct<a:array<int>,m:map<string,int>>")
    values: list[Any] = [
        {"a": [1, None, 3], "m": [("k", 1), ("l", None)]},
        None,
        {"a": None, "m": []},
    ]
    array = pa.array(values, type=arrow_type(kind))
    expected = [
        hash_value(kind, [[1, None, 3], {"k": 1, "l": None}], version=version),
        0,
        hash_value(kind, [None, {}], version=version),
    ]
    assert hash_column(array, kind, version=version).view(np.int32).tolist() == expected


@pytest.mark.parametrize("version", [1, 2])
def test_timestamps_of_years_1_and_9999_hash_as_their_values(version: int) -> None:
    kind, list_kind = parse_type("timestamp"), parse_type("array<timestamp>")
    moments = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)]
    expected = [hash_value(kind, one, version=version) for one in moments]
    array = pa.array(moments, type=pa.timestamp("us"))
    assert hash_column(array, kind, version=version).view(np.int32).tolist() == expected
    lists = pa.array([[one] for one in moments], type=pa.list_(pa.timestamp("us")))
    expected = [hash_value(list_kind, [one], version=version) for one in moments]
    assert hash_column(lists, list_kind, version=version).view(np.int32).tolist() == expected


def test_timestamps_of_any_unit_hash_alike() -> None:
    kind = parse_type("timestamp")
    micro = pa.array([1447891200_123000, 0], type=pa.timestamp("us"))
    nano = micro.cast(pa.timestamp("ns"))
    for version in (1, 2):
        assert (
            hash_column(micro, kind, version=version) == hash_column(nano, kind, version=version)
        ).all()


def test_bucket_ids_combine_columns_in_order() -> None:
    types = [parse_type("int"), parse_type("string")]
    arrays = [pa.array([7, 7, None], pa.int32()), pa.array(["a", None, "a"])]
    assert bucket_ids(arrays, types, 8, version=2).to_pylist() == [
        bucket_number(code, 8) for code in (1054173906, -32512648, 1086686554)
    ]
    assert bucket_ids(arrays, types, 8, version=2).type == pa.int32()


def test_bucket_number_is_never_negative() -> None:
    array = pa.array([-1], pa.int32())  # whose hash of version 1 is -1
    assert bucket_ids([array], [parse_type("int")], 4, version=1).to_pylist() == [3]


def test_no_buckets_is_an_error() -> None:
    with pytest.raises(InvalidInputError):
        bucket_ids([pa.array([1], pa.int32())], [parse_type("int")], 0, version=2)


def test_binary_keys_are_placed_with_the_spare_bytes_that_hive_hashes():
    """hive-sql bucketed/dates_v2: Hive 4.1 put b'abc' into bucket 3 of 4 and b'' into 2."""
    array = pa.array([b"abc", b"", None], pa.binary())
    kind = parse_type("binary")
    assert bucket_ids([array], [kind], 4, version=2).to_pylist() == [3, 2, 0]
    assert bucket_ids([array[1:]], [kind], 4, version=2).to_pylist() == [2, 0]
    exact = (hash_value(kind, b"abc", version=1) & 0x7FFF_FFFF) % 4
    assert bucket_ids([array], [kind], 4, version=1).to_pylist() == [exact, 1, 0]

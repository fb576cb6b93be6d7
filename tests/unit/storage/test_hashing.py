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

from hiveacid.errors import InvalidInputError
from hiveacid.model.hashing import bucket_number, hash_value
from hiveacid.model.types import DecimalType, HiveType, PrimitiveType, parse_type
from hiveacid.storage.arrow_types import arrow_type
from hiveacid.storage.merge.column_hashing import bucket_ids, hash_column, hash_columns

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
    assert hash_columns(arrays, types, version=version).view(np.int32).tolist() == [
        vector[f"hash_v{version}"]
    ]


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

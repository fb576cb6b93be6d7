"""Arrow values as values that ``json.dumps`` takes."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa


def json_values(array: pa.Array) -> list[Any]:
    """One value per element: numbers and text as they are, structs and maps as dicts, the rest as
    text.

    Decimals, dates and timestamps are text (nanoseconds kept), binary is hexadecimal text, and the
    floats that JSON lacks are ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
    """
    kind = array.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        columns = [json_values(child) for child in array.flatten()]
        rows: list[Any] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return _with_nulls(array, rows or [{} for _ in range(len(array))])
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return [None if not one.is_valid else _collection(one) for one in array]
    return _leaves(array)


def _collection(one: pa.Scalar) -> Any:
    values = one.values
    if not pa.types.is_map(one.type):
        return json_values(values)
    keys, items = json_values(values.field(0)), json_values(values.field(1))
    return {
        key if isinstance(key, str) else str(key): item
        for key, item in zip(keys, items, strict=True)
    }


def _leaves(array: pa.Array) -> list[Any]:
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if value is None else value.hex() for value in array.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if value is None else f"{value:f}" for value in array.to_pylist()]
    if pa.types.is_temporal(kind):
        return list(array.cast(pa.string()).to_pylist())
    if pa.types.is_float32(kind):
        array = array.cast(pa.string()).cast(pa.float64())  # the shortest text that means the same
    values = list(array.to_pylist())
    if pa.types.is_floating(kind):
        return [_json_float(value) for value in values]
    return values


def _json_float(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _with_nulls(array: pa.Array, rows: list[Any]) -> list[Any]:
    if not array.null_count:
        return rows
    return [
        row if valid else None
        for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]

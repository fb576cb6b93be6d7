"""Golden tables: what real Hive wrote, and the rows it returned."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from tests.recorded import golden_path

from hiveacid.reading.export import json_values

ROW_ID_COLUMNS = 3
MICROSECONDS = len("2020-01-01 00:00:00.123456")
NESTED_NULL_TRUTH = ("[[null]]", '[{"p":null,"q":{"k":[null]}}]', '{8:{"u":null}}')
"""What g06_nested_minor's third row was inserted with; Hive prints null for nested nulls."""
OPEN_OVERWRITE_TRUTH = ("1", "536870912", "0", "1", "a", "x")
"""The row that Hive's own answer lacks in h04_open_overwrite."""


def golden_meta(name: str) -> dict[str, Any]:
    """The table's facts and valid lists."""
    meta: dict[str, Any] = json.loads((golden_path(name) / "meta.json").read_text())
    return meta


def golden_answer(
    name: str, *, nanoseconds: bool = False
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Header and sorted rows of Hive's answer; timestamps cut to microseconds unless asked not."""
    plain = golden_path(name) / "query.tsv"
    packed = golden_path(name) / "query.tsv.gz"
    text = plain.read_text() if plain.exists() else gzip.decompress(packed.read_bytes()).decode()
    header, *rows = text.split("\n")[:-1]
    found = [tuple(row.split("\t")) for row in rows]
    if name == "h04_open_overwrite":
        found.append(OPEN_OVERWRITE_TRUTH)
    if name == "g06_nested_minor":
        found = [_with_nested_nulls(row) if row[3] == "3" else row for row in found]
    types = [kind for _, kind in golden_meta(name)["columns"]]
    start = ROW_ID_COLUMNS if header.startswith("writeid") else 0
    return header.split("\t"), sorted(
        _canonical(row, types, start, nanoseconds=nanoseconds) for row in found
    )


def _with_nested_nulls(row: tuple[str, ...]) -> tuple[str, ...]:
    return (*row[:7], NESTED_NULL_TRUTH[0], NESTED_NULL_TRUTH[1], row[9], NESTED_NULL_TRUTH[2])


def _canonical(
    row: tuple[str, ...], types: list[str], start: int, *, nanoseconds: bool
) -> tuple[str, ...]:
    """Floats as Python writes them: Java's shortest text differs. Timestamps cut if asked,
    chars without blanks at their end.
    """
    cells = list(row)
    for place, kind in enumerate(types, start=start):
        if kind == "float" and cells[place] != "NULL":
            cells[place] = str(np.float32(cells[place]))
        if kind == "double" and cells[place] != "NULL":
            cells[place] = repr(float(cells[place]))
        if kind == "timestamp" and not nanoseconds:
            cells[place] = cells[place][:MICROSECONDS]
        if kind.startswith("char"):
            cells[place] = cells[place].rstrip(" ")
    return tuple(cells)


def as_hive_prints(
    table: pa.Table, meta: dict[str, Any], *, row_ids: bool
) -> list[tuple[str, ...]]:
    """The rows as text, as Hive's answer has them, sorted."""
    names = [name for name, _ in meta["columns"]] + [name for name, _ in meta["partition_columns"]]
    types = dict(map(tuple, meta["columns"] + meta["partition_columns"]))
    partition = {name for name, _ in meta["partition_columns"]}
    columns = []
    if row_ids:
        ids = table["row__id"].combine_chunks()
        columns += [list(map(str, child.to_pylist())) for child in ids.flatten()]
    for place, name in enumerate(names):
        array = pa.concat_arrays(table.column(place).chunks) if len(table) else pa.array([])
        if pa.types.is_timestamp(array.type):
            unit = array.type.unit  # without a zone: that of these sessions is UTC
            array = array.cast(pa.timestamp(unit))
        values = json_values(array)
        columns.append(
            [_text(value, types[name], is_partition=name in partition) for value in values]
        )
    return sorted(zip(*columns, strict=True))


def _text(value: Any, kind: str, *, is_partition: bool) -> str:
    if value is None:
        return "__HIVE_DEFAULT_PARTITION__" if is_partition and kind == "string" else "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if kind in ("float", "double"):
        return str(np.float32(value)) if kind == "float" else repr(float(value))
    if kind.startswith("uniontype"):
        value = {value["tag"]: value[f"field{value['tag']}"]}
    if kind.startswith("char"):
        value = value.rstrip(" ")
    if isinstance(value, list | dict):
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        numbers_are_keys = kind.startswith(("map<int", "uniontype"))
        return re.sub(r'"(\d+)":', r"\1:", text) if numbers_are_keys else text
    text = str(value)
    if kind == "timestamp":
        return text.rstrip("0").rstrip(".") if "." in text else text
    if kind == "binary":
        return text.upper()
    return text


def differences(
    got: list[tuple[str, ...]], expected: list[tuple[str, ...]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Rows on one side only."""
    for row in sorted(set(expected) - set(got)):
        yield "missing", row
    for row in sorted(set(got) - set(expected)):
        yield "extra", row
    if len(got) != len(expected):
        yield "count", (str(len(got)), str(len(expected)))

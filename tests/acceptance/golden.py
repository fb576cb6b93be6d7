"""Tables that real Hive wrote, read without Spark, against the rows Hive itself returned."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.acceptance.values import missing_row, render, same_row

import hiveacid
from hiveacid.errors import AcidError

# An open INSERT OVERWRITE hides a partition from everybody in Hive; this row is there.
HIVE_IS_WRONG = {"h04_open_overwrite": ["1\t536870912\t0\t1\ta\tx"]}
# What Hive prints as null, though null values were inserted into the arrays, maps and structs.
INSERTED_NULLS = {
    "g06_nested_minor": [
        ('\tNULL\t[{"p":null,"q":{"k":null}}]', '\t[[null]]\t[{"p":null,"q":{"k":[null]}}]'),
        ("{8:null}", '{8:{"u":null}}'),
    ]
}
# Arrow's nanoseconds end in 1677 and 2262: tables with other timestamps are read in microseconds.
MICROSECONDS = ("g01_prim", "g02_prim_dml", "v3_12_types")


def compare(folder: Path) -> str:
    """Empty where the table in ``folder`` reads as Hive read it; else why not."""
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    want = [*_expected(folder), *HIVE_IS_WRONG.get(folder.name, ())]
    for printed, inserted in INSERTED_NULLS.get(folder.name, ()):
        want = [line.replace(printed, inserted) for line in want]
    if folder.name in MICROSECONDS:
        want = [re.sub(r"(\.[0-9]{6})[0-9]{3}(?=\t|$)", r"\1", line) for line in want]
    try:
        got = list(_actual(folder / "data", meta))
    except AcidError as error:
        return f"{type(error).__name__}: {error}"
    if len(got) != len(want):
        return f"{len(want)} rows expected, {len(got)} found"
    if sorted(want) == sorted(got):
        return ""
    wrong = missing_row(want, got, same_row)
    return "" if wrong is None else f"row expected and not found: {wrong[:200]!r}"


def _expected(folder: Path) -> list[str]:
    packed = folder / "query.tsv.gz"
    if packed.exists():
        text = gzip.decompress(packed.read_bytes()).decode("utf-8")
    else:
        text = (folder / "query.tsv").read_bytes().decode("utf-8")
    return text.split("\n")[1:-1]


def _actual(data: Path, meta: dict[str, Any]) -> Iterator[str]:
    batches = hiveacid.read_arrow(
        str(data),
        valid_write_ids=meta["valid_write_id_list"] or None,
        valid_txns=meta["valid_txn_list"] or None,
        row_ids=meta["acid"],
    )
    unions = [kind.startswith("uniontype") for _, kind in meta["columns"]]
    unions += [False] * (len(batches.schema) - len(unions))
    for batch in batches:
        columns = [
            _unions(array) if union else _texts(array)
            for array, union in zip(batch.columns, unions, strict=True)
        ]
        if meta["acid"]:
            columns = [columns[-1], *columns[:-1]]
        for row in zip(*columns, strict=True):
            yield "\t".join(row)


def _texts(array: pa.Array) -> list[str]:
    kind = array.type
    if pa.types.is_timestamp(kind):
        return [_stamp(text) for text in array.cast(pa.string()).to_pylist()]
    if pa.types.is_struct(kind) and [field.name for field in kind] == [
        "writeid",
        "bucketid",
        "rowid",
    ]:
        return ["\t".join(map(str, value.values())) for value in array.to_pylist()]
    if pa.types.is_float32(kind):
        return [_single(value) for value in array.to_pylist()]
    if pa.types.is_binary(kind):
        return ["NULL" if v is None else v.hex().upper() for v in array.to_pylist()]
    return [render(_structs(value, kind)) for value in array.to_pylist()]


def _unions(array: pa.Array) -> list[str]:
    """As Hive prints a union: the tag and the value."""
    return [render({one["tag"]: one[f"field{one['tag']}"]}) for one in array.to_pylist()]


def _structs(value: Any, kind: pa.DataType) -> Any:
    """Maps as dicts and structs as tuples with their names: what the renderer takes them for."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {k: _structs(v, kind.item_type) for k, v in value}
    if pa.types.is_list(kind):
        return [_structs(v, kind.value_type) for v in value]
    if pa.types.is_struct(kind):
        return _Struct([(f.name, _structs(value[f.name], f.type)) for f in kind])
    return value


class _Struct(tuple[Any, ...]):
    """Values with ``__fields__``, like Spark's rows."""

    __fields__: list[str]

    def __new__(cls, items: list[tuple[str, Any]]) -> _Struct:
        self = super().__new__(cls, [value for _, value in items])
        self.__fields__ = [name for name, _ in items]
        return self


def _stamp(text: str | None) -> str:
    if text is None:
        return "NULL"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _single(value: float | None) -> str:
    if value is None:
        return "NULL"
    text = str(pa.scalar(value, pa.float32()).cast(pa.string()))
    text = f"{text}.0" if text.lstrip("-").isdigit() else text
    text = text.replace("1e-45", "1.4E-45")  # Java writes two digits of the least float
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)

"""Hive's answers and our rows in one form: sorted tuples of texts, row id first.

Hive's side is what the tool's ``!snap`` writes: ``data/`` (the table's directory), ``query.tsv``
and ``meta.json``. Our side is an Arrow table, from ``read_arrow`` or from a DataFrame.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from hiveacid.model.types import (
    CharType,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    parse_type,
)

ROW_ID = "row__id"
ROW_ID_COLUMNS = 3
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class Shape:
    """A table's columns as Hive knows them, partition columns apart."""

    columns: tuple[tuple[str, HiveType], ...]
    partition_columns: tuple[tuple[str, HiveType], ...]

    @property
    def all(self) -> tuple[tuple[str, HiveType], ...]:
        """In the order of ``SELECT *``."""
        return self.columns + self.partition_columns


@dataclass(frozen=True)
class HiveAnswer:
    """A table as Hive left it, and the rows it returned."""

    folder: Path

    @property
    def name(self) -> str:
        """The answer's name."""
        return self.folder.name

    @property
    def data(self) -> Path:
        """A copy of the table's directory."""
        return self.folder / "data"

    @property
    def meta(self) -> dict[str, Any]:
        """Columns, parameters, valid lists, partitions, statements so far."""
        found: dict[str, Any] = json.loads((self.folder / "meta.json").read_text("utf-8"))
        return found

    @property
    def shape(self) -> Shape:
        """The columns."""
        meta = self.meta
        return Shape(
            tuple((name, parse_type(kind)) for name, kind in meta["columns"]),
            tuple((name, parse_type(kind)) for name, kind in meta["partition_columns"]),
        )

    def rows(self, *, as_spark: bool = False) -> Rows:
        """Hive's rows; ``as_spark``: timestamps of microseconds, chars without trailing blanks."""
        text = (self.folder / "query.tsv").read_text("utf-8")
        start = ROW_ID_COLUMNS if self.meta["acid"] else 0
        types = [kind for _, kind in self.shape.all]
        return sorted(
            _canonical(tuple(line.split("\t")), types, start, as_spark=as_spark)
            for line in text.split("\n")[1:-1]
        )


def _canonical(
    row: tuple[str, ...], types: Sequence[HiveType], start: int, *, as_spark: bool
) -> tuple[str, ...]:
    """Floats as Python writes them, since Java's shortest text differs."""
    cells = list(row)
    for place, kind in enumerate(types, start=start):
        text = cells[place]
        if isinstance(kind, CharType) and as_spark:
            cells[place] = text.rstrip(" ")
        if text == "NULL" or not isinstance(kind, PrimitiveType):
            continue
        if kind.name in ("float", "double"):
            cells[place] = _float(float(text), kind.name)
        elif kind.name == "timestamp" and as_spark:
            cells[place] = _timestamp(re.sub(r"(\.\d{6})\d+$", r"\1", text))
    return tuple(cells)


def our_rows(table: pa.Table, shape: Shape) -> Rows:
    """The rows of an Arrow table with the shape's columns and, where it has them, row ids."""
    columns: list[list[str]] = []
    if ROW_ID in table.schema.names:
        ids = table[ROW_ID].to_pylist()
        columns += [[str(i[part]) for i in ids] for part in ("writeid", "bucketid", "rowid")]
    partition = {name for name, _ in shape.partition_columns}
    for name, kind in shape.all:
        array = table[name]
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp(array.type.unit)).cast(pa.string())
        elif pa.types.is_date(array.type):  # years after 9999 are no Python dates
            array = array.cast(pa.string())
        texts = [_text(value, kind) for value in array.to_pylist()]
        if name in partition and str(kind) == "string":
            texts = [DEFAULT_PARTITION if text == "NULL" else text for text in texts]
        columns.append(texts)
    return sorted(zip(*columns, strict=True))


def _text(value: Any, kind: HiveType) -> str:
    if value is None:
        return "NULL"
    if isinstance(kind, ListType | MapType | StructType):
        return _json(value, kind)
    if isinstance(kind, DecimalType):
        if isinstance(value, str):  # from a directory's name
            value = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale))
        return f"{value:f}"
    name = getattr(kind, "name", "")
    if name == "boolean":
        return str(value).lower()
    if name in ("float", "double"):
        return _float(float(value), name)
    if name == "timestamp":
        return _timestamp(str(value))
    if name == "binary":
        return str(bytes(value).hex().upper())
    return str(value)


def _json(value: Any, kind: HiveType) -> str:
    """As Hive prints a value inside a collection: decimals are bare and without zeros at the end,
    keys of numbers are bare, chars are padded.
    """
    if value is None:
        return "null"
    if isinstance(kind, ListType):
        return "[" + ",".join(_json(item, kind.element) for item in value) + "]"
    if isinstance(kind, MapType):
        items = value.items() if isinstance(value, dict) else value
        pairs = [f"{_json(k, kind.key)}:{_json(v, kind.value)}" for k, v in items]
        return "{" + ",".join(pairs) + "}"
    if isinstance(kind, StructType):
        pairs = [f'"{name}":{_json(value[name], inner)}' for name, inner in kind.fields]
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(kind, DecimalType):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, datetime):
        value = _timestamp(str(value.replace(tzinfo=None)))
    if isinstance(kind, CharType):
        value = value.ljust(kind.length)
    return json.dumps(str(value), ensure_ascii=False)


def _float(value: float, name: str) -> str:
    if name == "float" and value == value and abs(value) != float("inf"):
        return repr(float(str(pa.scalar(value, pa.float32()).cast(pa.string()))))
    return repr(value)


def _timestamp(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def without_row_ids(rows: Rows) -> Rows:
    """The values only, sorted anew."""
    return sorted(row[ROW_ID_COLUMNS:] for row in rows)


def differences(got: Rows, expected: Rows) -> Iterator[str]:
    """One line for each row that only one side has."""
    left, right = Counter(got), Counter(expected)
    for row, count in sorted((right - left).items()):
        yield f"missing {count} x {row}"
    for row, count in sorted((left - right).items()):
        yield f"extra {count} x {row}"

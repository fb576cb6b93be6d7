"""Rows that the driver has, as text in a query: one call to Spark, where a DataFrame of them costs
a dozen, and a view of it for the query some more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hiveacid.spark.text import constant, quoted

CELLS_MAX: Final = 1_000
"""More values than these are handed over as a DataFrame."""
_IS_ROW: Final = "__hiveacid_row"


@dataclass(frozen=True, slots=True)
class InlineColumn:
    """A column with its type as Spark writes it."""

    name: str
    type: str
    values: pa.ChunkedArray


def rows_text(columns: Sequence[InlineColumn], wanted: Sequence[str]) -> str | None:
    """A query in brackets that gives rows: the expressions ``wanted`` over ``columns``; None where
    they are many, or of a type whose values are not written as text.

    Columns may be NULL, as those of files: a row of nothing but NULL, which is left out again, says
    so, and says the types.
    """
    kinds = [column.type.partition("(")[0] for column in columns]
    if not columns or not _CELLS.keys() >= set(kinds):
        return None
    rows = len(columns[0].values)
    if rows * len(columns) > CELLS_MAX:
        return None
    cells = [["true"] * rows]
    for column, kind in zip(columns, kinds, strict=True):
        values = column.values.cast(pa.int32()) if kind == "date" else column.values
        cell = _CELLS[kind]
        cells.append(["null" if one is None else cell(one) for one in values.to_pylist()])
    nothing = ", ".join(f"cast(null as {column.type})" for column in columns)
    lines = [f"(false, {nothing})", *(f"({', '.join(row)})" for row in zip(*cells, strict=True))]
    names = ", ".join(quoted(name) for name in (_IS_ROW, *(column.name for column in columns)))
    return (
        f"(select {', '.join(wanted)} from values {', '.join(lines)} as {_IS_ROW}s({names})"
        f" where {_IS_ROW})"
    )


_CELLS: Final[Mapping[str, Callable[..., str]]] = {
    "boolean": lambda value: "true" if value else "false",
    "tinyint": "{}Y".format,
    "smallint": "{}S".format,
    "int": "{}".format,
    "bigint": "{}L".format,
    "float": "cast('{!r}' as float)".format,
    "double": "cast('{!r}' as double)".format,
    "decimal": "{:f}BD".format,
    "date": "date_from_unix_date({})".format,
    "timestamp_ntz": "timestamp_ntz'{}'".format,
    "string": constant,
    "binary": lambda value: f"X'{value.hex()}'",
}

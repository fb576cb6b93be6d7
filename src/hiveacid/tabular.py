"""Tabular data as a caller has it (Arrow, pandas, Polars, DuckDB, lists of dicts or rows), as the
one Arrow table that statements take; DataFrames of Spark stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hiveacid.errors import InvalidInputError
from hiveacid.model.tables import Column
from hiveacid.model.types import HiveType, ListType, MapType, StructType
from hiveacid.statements.arguments import wrong_argument
from hiveacid.statements.arrow_rows import lower_names
from hiveacid.statements.evolve import is_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WANTED = "rows of Spark, Arrow, pandas or Polars, or a list of dicts"


Columns = Callable[[], Sequence[Column]]
"""The columns that rows are for: a dict among Python's values may be a map or a struct."""


def frame_or_table(
    data: object, *, argument: str, columns: Columns = lambda: ()
) -> DataFrame | pa.Table:
    """A DataFrame of Spark as it is (of pandas on Spark: its DataFrame), all else as Arrow.

    Raises:
        InvalidInputError: it is neither.
    """
    if is_frame(data):  # first: a frame of Spark Connect has every attribute, as a column
        return data
    if hasattr(data, "to_spark"):
        frame: DataFrame = data.to_spark()
        return frame
    return arrow_table(data, argument=argument, columns=columns)


def arrow_table(data: Any, *, argument: str = "data", columns: Columns = lambda: ()) -> pa.Table:
    """The data as an Arrow table with column names in lower case; a pandas index is no column.

    Raises:
        InvalidInputError: it is no such data, or columns have one name.
    """
    try:
        if isinstance(data, pa.Table):
            rows = data
        elif isinstance(data, pa.RecordBatch):
            rows = pa.Table.from_batches([data])
        elif type(data).__module__.startswith("pandas.") and hasattr(data, "columns"):
            rows = pa.Table.from_pandas(data, preserve_index=False)
        elif hasattr(data, "__arrow_c_stream__"):
            rows = pa.RecordBatchReader.from_stream(data).read_all()
        elif hasattr(data, "collect_schema"):  # a LazyFrame of Polars
            rows = data.collect().to_arrow()
        elif isinstance(data, list | tuple) and data and all(map(is_row, data)):
            rows = _from_dicts([as_dict(row) for row in data], columns)
        elif isinstance(data, list | tuple) and not data:
            raise InvalidInputError(
                f"{argument} is an empty list, which tells no columns: leave the call out, or give"
                " Arrow data without rows",
                argument=argument,
            )
        else:
            raise wrong_argument(argument, _WANTED, data)
    except (pa.ArrowException, TypeError, UnicodeError, OverflowError) as error:
        raise InvalidInputError(f"{argument} cannot be read as Arrow: {error}") from error
    return lower_names(rows)


def is_tabular(data: object) -> bool:
    """Whether it is data with columns that have names and types (Arrow, pandas, Polars)."""
    return (
        isinstance(data, pa.Table | pa.RecordBatch)
        or hasattr(data, "__arrow_c_stream__")
        or hasattr(data, "collect_schema")
        or (type(data).__module__.startswith("pandas.") and hasattr(data, "columns"))
    )


def is_row(row: object) -> bool:
    """Whether it is a row with names: a mapping, a Row of Spark, a named tuple."""
    return isinstance(row, Mapping) or hasattr(row, "asDict") or hasattr(row, "_asdict")


def as_dict(row: Any) -> Mapping[str, object]:
    """Such a row by name."""
    if isinstance(row, Mapping):
        return row
    found: Mapping[str, object] = row.asDict() if hasattr(row, "asDict") else row._asdict()
    return found


def _from_dicts(rows: Sequence[Mapping[str, object]], columns: Columns) -> pa.Table:
    """NULL where a row lacks a column that another one has; maps are lists of keys and values."""
    names = dict.fromkeys(name for row in rows for name in row)
    has_dicts = any(isinstance(value, dict | list) for row in rows for value in row.values())
    kinds = {column.name: column.type for column in (columns() if has_dicts else ())}
    return pa.table(
        {
            str(name): pa.array(
                [_entries(row.get(name), kinds.get(str(name).lower())) for row in rows]
            )
            for name in names
        }
    )


def _entries(value: object, kind: HiveType | None) -> object:
    """The value with the dicts that are maps, at any depth, as lists of their entries."""
    if isinstance(value, dict) and isinstance(kind, MapType):
        return [
            {"key": _entries(key, kind.key), "value": _entries(item, kind.value)}
            for key, item in value.items()
        ]
    if isinstance(value, dict) and isinstance(kind, StructType):
        kinds = {name.lower(): one for name, one in kind.fields}
        given = {name: _entries(item, kinds.get(str(name).lower())) for name, item in value.items()}
        lacking = kinds.keys() - {str(name).lower() for name in given}
        if len(given) + len(lacking) == len(kinds):  # else one is unknown: an error, later
            given |= dict.fromkeys(lacking)  # NULL, as where another row has them
        return given
    if isinstance(value, list) and isinstance(kind, ListType):
        return [_entries(item, kind.element) for item in value]
    return value

"""Arrow's values as Python's, for people: in messages, in what the command line prints.

Hive and Arrow have years that Python's dates and times have not, which are 1 to 9999.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hiveacid.storage.arrow_types import texts_of, with_children


def python_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """One value per element; where one has a year that Python lacks, all dates and times are texts:
    ``"10000-01-01 00:00:00"``.
    """
    try:
        return list(array.to_pylist())
    except OverflowError:
        whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        return list(_with_texts(whole).to_pylist())


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """One dict per row, of ``python_values``."""
    columns = [python_values(column) for column in rows.columns]
    return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _with_texts(array: pa.Array) -> pa.Array:
    if pa.types.is_temporal(array.type):
        return texts_of(array)
    return with_children(array, _with_texts) if pa.types.is_nested(array.type) else array

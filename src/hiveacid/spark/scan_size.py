"""How large a scan is to Spark, where it reads a table's columns as fields of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import types as t

from hiveacid.model.tables import Column
from hiveacid.model.types import DecimalType, HiveType

_FIELDS_MAX: Final = 100
"""A batch of Spark's has room for a value of each, though none is read."""
_REST_KINDS: Final = (
    (t.BinaryType(), 100),
    (t.StringType(), 20),
    (t.LongType(), 8),
    (t.IntegerType(), 4),
)
"""With what Spark takes a value of each for, in bytes."""
_SYSTEM_BYTES: Final = 28
"""Of the system columns without ``operation``."""
_LONG_DIGITS: Final = 18
_WIDTHS: Final = {
    "boolean": 1,
    "tinyint": 1,
    "smallint": 2,
    "int": 4,
    "date": 4,
    "float": 4,
    "bigint": 8,
    "double": 8,
    "timestamp": 8,
    "string": 20,
    "binary": 100,
}


def rest_of(table: Sequence[Column], read: Sequence[Column]) -> t.DataType:
    """What Spark is told that ``operation`` is, which is not read of files with rows: as wide as
    the columns that are not read either.

    A scan is as large for Spark as its files, by how much of a row it takes; which columns of
    ``row`` it takes, Spark settles before it reckons. Without the rest three columns of a large
    table would count for all of it, and joins would be others than those of flat files.

    It must not read it then. It does where EXISTS joins by a field of a struct: its rule for nested
    columns makes a projection of all columns (Spark 4.3), which nobody prunes any more.

    Where all columns are read, by a view or a DataFrame perhaps, Spark finds out which of them the
    query needs: the rest is then the mean of what few leave over and what all do.
    """
    left = sum(_width(c.type) for c in table) - _SYSTEM_BYTES
    left = left // 2 if len(read) == len(table) else left - sum(_width(c.type) for c in read)
    kinds: list[t.DataType] = []
    for kind, size in _REST_KINDS:
        count = min(max(left, 0) // size, _FIELDS_MAX - len(kinds))
        kinds += [kind] * count
        left -= count * size
    fields = [t.StructField(f"c{number}", kind) for number, kind in enumerate(kinds)]
    return t.StructType(fields) if fields else t.IntegerType()


def _width(kind: HiveType) -> int:
    """What Spark takes a value for, in bytes."""
    if isinstance(kind, DecimalType):
        return _WIDTHS["bigint"] * (1 if kind.precision <= _LONG_DIGITS else 2)
    if kind.children:
        return sum(map(_width, kind.children))
    return _WIDTHS.get(str(kind), _WIDTHS["string"])

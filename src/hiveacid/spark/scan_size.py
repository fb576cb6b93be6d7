"""How large Spark takes a scan of row events for: as large as one of flat files with its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import types as t

from hiveacid.model.tables import Column
from hiveacid.model.types import DecimalType, HiveType

REST: Final = "__hiveacid_rest"
"""A column that no file has, so to read it costs nothing."""
_LEAVES_MAX: Final = 95
"""Spark vectorises no scan of more columns than a hundred, of which five are the system's."""
_LEAVES_SPARED: Final = 10
_REST_FEW: Final = 20
"""Of a read that is not vectorised, unless Spark leaves most of it out."""
_REST_KINDS: Final = (
    (t.BinaryType(), 100),
    (t.StringType(), 20),
    (t.LongType(), 8),
    (t.IntegerType(), 4),
    (t.BooleanType(), 1),
)
"""With what Spark takes a value of each for, in bytes."""
_SYSTEM_BYTES: Final = 32
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


def rest_of(table: Sequence[Column], read: Sequence[Column]) -> t.StructType | None:
    """What stands in ``row`` for columns that are not read.

    A scan is as large for Spark as its files, by how much of a row it takes; which columns of
    ``row`` it takes, Spark settles before it reckons. Without the rest three columns of a large
    table would count for all of it, and joins would be others than those of flat files.

    Where all columns are read, by a view or a DataFrame perhaps, Spark finds out which of them the
    query needs: the rest is then the mean of what few leave over and what all do.
    """
    left = sum(_width(c.type) for c in table) - _SYSTEM_BYTES
    left = left // 2 if len(read) == len(table) else left - sum(_width(c.type) for c in read)
    room = _room(sum(_leaves(c.type) for c in read))
    kinds: list[t.DataType] = []
    for kind, size in _REST_KINDS:
        count = min(max(left, 0) // size, room - len(kinds))
        kinds += [kind] * count
        left -= count * size
    fields = [t.StructField(f"c{number}", kind) for number, kind in enumerate(kinds)]
    return t.StructType(fields) if fields else None


def _room(leaves: int) -> int:
    """How many columns more a read of so many may have, and be vectorised."""
    return _REST_FEW if leaves > _LEAVES_MAX else max(_LEAVES_MAX - _LEAVES_SPARED - leaves, 0)


def _leaves(kind: HiveType) -> int:
    return sum(map(_leaves, kind.children)) or 1


def _width(kind: HiveType) -> int:
    """What Spark takes a value for, in bytes."""
    if isinstance(kind, DecimalType):
        return _WIDTHS["bigint"] * (1 if kind.precision <= _LONG_DIGITS else 2)
    if kind.children:
        return sum(map(_width, kind.children))
    return _WIDTHS.get(str(kind), _WIDTHS["string"])

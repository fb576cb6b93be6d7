"""Which task writes a row: Hive's bucket number, and a shuffle that puts row ``n`` into task
``n``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from hiveacid.model.tables import BucketSpec, Column
from hiveacid.model.types import (
    BINARY,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
)

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column as SparkColumn

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_MASK: Final = 0xFFFFFFFF


def bucket_number(spec: BucketSpec, columns: Sequence[Column]) -> SparkColumn:
    """The bucket (format.md 8.8) of a row with the data columns ``columns`` (as the writer gets
    them).

    Only the key columns go through Python. pandas knows no integer NULL, so integers cross as a
    value and a flag, everything else as text (nested values as JSON): no digit is lost.
    """
    by_name = {column.name: column for column in columns}
    keys = [by_name[name.lower()] for name in spec.columns]
    arguments: list[SparkColumn] = []
    for key in keys:
        value = F.col(f"`{key.name}`")
        if _is_integer(key):
            arguments += [F.coalesce(value.cast("bigint"), F.lit(0).cast("bigint")), value.isNull()]
        elif isinstance(key.type, _NESTED):
            arguments += [F.to_json(F.struct(value.alias(_KEY)), _JSON)]
        else:
            arguments += [F.hex(value) if _is_binary(key) else value.cast("string")]
    buckets = F.pandas_udf(_bucket_function(spec, keys), "int")  # type: ignore[attr-defined]
    number: SparkColumn = buckets(*arguments)
    return number


def _is_binary(column: Column) -> bool:
    return column.type == BINARY


def _is_integer(column: Column) -> bool:
    return isinstance(column.type, PrimitiveType) and column.type.name in _INTEGERS


def _bucket_function(spec: BucketSpec, keys: Sequence[Column]) -> Callable[..., Any]:
    integer = [_is_integer(key) for key in keys]
    types = [key.type for key in keys]

    def buckets(*series: pd.Series) -> pd.Series:
        import pandas

        from hiveacid.storage.arrow_types import arrow_type
        from hiveacid.storage.merge.column_hashing import bucket_ids

        given = iter(series)
        arrays: list[pa.Array] = []
        for kind, whole in zip(types, integer, strict=True):
            target = arrow_type(kind)
            if whole:
                values, null = next(given), next(given)
                arrays.append(
                    pa.array(values.to_numpy(), mask=null.to_numpy(dtype=bool)).cast(target)
                )
            else:
                text = pa.array(next(given), type=pa.string(), from_pandas=True)
                arrays.append(_key_values(text, kind, target))
        ids = bucket_ids(arrays, types, n=spec.count, version=spec.version)
        return pandas.Series(ids.to_numpy(zero_copy_only=False))

    # pandas_udf reads the annotations, which are text here and name a type-checking import
    buckets.__annotations__ = {}
    return buckets


def _key_values(text: pa.Array, kind: HiveType, target: pa.DataType) -> pa.Array:
    if isinstance(kind, _NESTED):
        rows = (json.loads(row, parse_float=Decimal)[_KEY] for row in text.to_pylist())
        return pa.array([_value(row, kind) for row in rows], target)
    if kind == BINARY:
        return pa.array([None if v is None else bytes.fromhex(v) for v in text.to_pylist()], target)
    return text if target == pa.string() else text.cast(target)


def _value(found: Any, kind: HiveType) -> Any:
    """A value of Spark's JSON as Arrow takes it."""
    if found is None:
        return None
    if isinstance(kind, ListType):
        return [_value(item, kind.element) for item in found]
    if isinstance(kind, MapType):
        items = found.items()
        return [(_value(key, kind.key), _value(item, kind.value)) for key, item in items]
    if isinstance(kind, StructType):
        return {name: _value(found.get(name), child) for name, child in kind.fields}
    convert = _FROM_JSON.get(str(kind), str)
    return Decimal(found) if isinstance(kind, DecimalType) else convert(found)


_KEY: Final = "k"
_NESTED: Final = (ListType, MapType, StructType)
_JSON: Final = {
    "ignoreNullFields": "false",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_FROM_JSON: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(_INTEGERS, int),
    "boolean": lambda found: found in (True, "true"),
    "float": float,
    "double": float,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "binary": base64.b64decode,
}


def to_task(place: str, *, tasks: int) -> str:
    """A key whose hash partitioning into ``tasks`` puts the row with ``place`` = n into partition n
    modulo ``tasks``.

    Spark partitions by murmur3 of the key; the table of keys is the inverse of that, so that a few
    buckets do not collide in one task (``repartitionById`` of Spark 4.1 does it too, 3.5 and 4.0
    have nothing).
    """
    keys = ", ".join(str(key) for key in _keys_by_partition(tasks))
    return f"element_at(array({keys}), cast(pmod({place}, {tasks}) as int) + 1)"


def _keys_by_partition(tasks: int) -> list[int]:
    found: dict[int, int] = {}
    key = 0
    while len(found) < tasks:
        found.setdefault(_spark_hash(key) % tasks, key)
        key += 1
    return [found[n] for n in range(tasks)]


def _spark_hash(value: int) -> int:
    """Spark's ``hash`` (murmur3 x86_32, seed 42) of one int, signed."""
    k = value * 0xCC9E2D51 & _MASK
    k = (k << 15 | k >> 17) & _MASK
    k = k * 0x1B873593 & _MASK
    h = 42 ^ k
    h = (h << 13 | h >> 19) & _MASK
    h = h * 5 + 0xE6546B64 & _MASK
    h ^= 4
    h ^= h >> 16
    h = h * 0x85EBCA6B & _MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h

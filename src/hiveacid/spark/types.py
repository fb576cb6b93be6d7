"""Hive types as Spark types and back.

char(n) and varchar(n) are strings in a DataFrame (as in Spark's own Hive support); their lengths
are kept in the catalog and on disk. A union is a struct of ``tag``, ``field0``, ... (read only).
Hive's ``timestamp`` is Spark's ``timestamp`` in the session's time zone.
"""

from __future__ import annotations

from pyspark.sql import types as t

from hiveacid.errors import UnsupportedError
from hiveacid.model.types import (
    CharType,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)

ROW_ID_TYPE: t.StructType = t.StructType(
    [
        t.StructField("writeid", t.LongType()),
        t.StructField("bucketid", t.IntegerType()),
        t.StructField("rowid", t.LongType()),
    ]
)
_PRIMITIVES: dict[str, type[t.DataType]] = {
    "boolean": t.BooleanType,
    "tinyint": t.ByteType,
    "smallint": t.ShortType,
    "int": t.IntegerType,
    "bigint": t.LongType,
    "float": t.FloatType,
    "double": t.DoubleType,
    "string": t.StringType,
    "binary": t.BinaryType,
    "date": t.DateType,
    "timestamp": t.TimestampType,
    "timestamp with local time zone": t.TimestampType,
    "void": t.NullType,
}


def spark_type(kind: HiveType) -> t.DataType:
    """The Spark type that a column of ``kind`` has in a DataFrame.

    Raises:
        UnsupportedError: for interval types.
    """
    if isinstance(kind, PrimitiveType) and kind.name in _PRIMITIVES:
        return _PRIMITIVES[kind.name]()
    if isinstance(kind, DecimalType):
        return t.DecimalType(kind.precision, kind.scale)
    if isinstance(kind, CharType | VarcharType):
        return t.StringType()
    if isinstance(kind, ListType):
        return t.ArrayType(spark_type(kind.element))
    if isinstance(kind, MapType):
        return t.MapType(spark_type(kind.key), spark_type(kind.value))
    if isinstance(kind, StructType):
        return t.StructType([t.StructField(name, spark_type(f)) for name, f in kind.fields])
    if isinstance(kind, UnionType):
        return spark_type(kind.as_struct)
    raise UnsupportedError(f"the type {kind} cannot be read through Spark", type=str(kind))


def hive_type(kind: t.DataType) -> HiveType:
    """The Hive type of a DataFrame column of type ``kind``.

    Raises:
        UnsupportedError: for a type that Hive does not have.
    """
    if isinstance(kind, t.DecimalType):
        return DecimalType(kind.precision, kind.scale)
    if isinstance(kind, t.ArrayType):
        return ListType(hive_type(kind.elementType))
    if isinstance(kind, t.MapType):
        return MapType(hive_type(kind.keyType), hive_type(kind.valueType))
    if isinstance(kind, t.StructType):
        return StructType(tuple((f.name.lower(), hive_type(f.dataType)) for f in kind.fields))
    if isinstance(kind, t.CharType):
        return CharType(kind.length)
    if isinstance(kind, t.VarcharType):
        return VarcharType(kind.length)
    if isinstance(kind, t.TimestampNTZType):
        return PrimitiveType("timestamp")
    for name, cls in _PRIMITIVES.items():
        if type(kind) is cls:
            return PrimitiveType(name)
    raise UnsupportedError(
        f"Hive has no type for Spark's {kind.simpleString()}", type=kind.simpleString()
    )


# -------------------------------------------------------------------- pieces of Spark SQL text
# Pieces of Spark SQL text.
#
# Our own expressions are text: one call to Spark for a projection, where a tree of ``Column``
# objects costs several for every node.

"""Grammar of Hive's column types over tokens."""

from __future__ import annotations

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
from hiveacid.sql.cursor import Cursor

_PRIMITIVES = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "REAL": "double",
    "STRING": "string",
    "BINARY": "binary",
    "DATE": "date",
    "TIMESTAMPLOCALTZ": "timestamp with local time zone",
}


def parse_column_type(cursor: Cursor) -> HiveType:
    """A type at the cursor.

    Raises:
        SqlSyntaxError: not a type of Hive's.
    """
    word = cursor.key
    if word in _PRIMITIVES:
        cursor.next()
        return PrimitiveType(_PRIMITIVES[word])
    if cursor.accept("DOUBLE"):
        cursor.accept("PRECISION")
        return PrimitiveType("double")
    if cursor.accept("TIMESTAMP"):
        if cursor.accept("WITH", "LOCAL", "TIME", "ZONE"):
            return PrimitiveType("timestamp with local time zone")
        return PrimitiveType("timestamp")
    if word in ("DECIMAL", "NUMERIC", "DEC"):
        return _decimal(cursor)
    if word in ("CHAR", "VARCHAR"):
        return _characters(cursor)
    if word in ("ARRAY", "MAP", "STRUCT", "UNIONTYPE") and cursor.peek(1).key in ("<", "<>"):
        return _complex(cursor)
    raise cursor.unrecognized("column type")


def _decimal(cursor: Cursor) -> DecimalType:
    start = cursor.token
    cursor.next()
    precision, scale = 10, 0
    if cursor.accept("("):
        precision = cursor.integer("column type")
        if cursor.accept(","):
            scale = cursor.integer("column type")
        cursor.expect(")")
    if not 1 <= precision <= 38 or scale > precision:
        raise cursor.error(f"'{start.text}({precision},{scale})': precision 1..38, scale up to it")
    return DecimalType(precision, scale)


def _characters(cursor: Cursor) -> CharType | VarcharType:
    word = cursor.next().key
    cursor.expect("(")
    length = cursor.integer("column type")
    limit = 255 if word == "CHAR" else 65535
    if not 1 <= length <= limit:
        raise cursor.error(f"{word.lower()} length {length} is out of allowed range [1, {limit}]")
    cursor.expect(")")
    return CharType(length) if word == "CHAR" else VarcharType(length)


def _complex(cursor: Cursor) -> HiveType:
    word = cursor.next().key
    cursor.expect("<")
    if word == "ARRAY":
        found: HiveType = ListType(parse_column_type(cursor))
    elif word == "MAP":
        key = parse_column_type(cursor)
        cursor.expect(",")
        found = MapType(key, parse_column_type(cursor))
    elif word == "UNIONTYPE":
        alternatives = [parse_column_type(cursor)]
        while cursor.accept(","):
            alternatives.append(parse_column_type(cursor))
        found = UnionType(tuple(alternatives))
    else:
        fields = [_field(cursor)]
        while cursor.accept(","):
            fields.append(_field(cursor))
        found = StructType(tuple(fields))
    cursor.expect(">")
    return found


def _field(cursor: Cursor) -> tuple[str, HiveType]:
    name = cursor.name("column type").lower()
    cursor.expect(":")
    kind = parse_column_type(cursor)
    if cursor.accept("COMMENT"):
        cursor.string()
    return name, kind

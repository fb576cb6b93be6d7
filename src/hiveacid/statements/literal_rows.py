"""Rows of plain literals as Arrow columns, converted as Hive does: INSERT ... VALUES without a
Spark job.

Only conversions whose outcome is beyond doubt are done here; for any other cell ``columns_of``
answers None, and the statement takes the way through Spark.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Final

import pyarrow as pa

from hiveacid.model.tables import Column
from hiveacid.model.types import CharType, DecimalType, HiveType, PrimitiveType, VarcharType
from hiveacid.storage.arrow_types import arrow_type

_INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_LONG: Final = 2**63
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?")
_DATE: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIMESTAMP: Final = re.compile(r"(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2})(\.\d{1,6})?")


class _Doubtful(Exception):
    """The cell is not converted here."""


def columns_of(
    rows: Sequence[Sequence[object]], columns: Sequence[Column]
) -> list[pa.Array] | None:
    """One array per column, or None where a cell needs Spark's casts."""
    try:
        converters = [_converter(column.type) for column in columns]
        return [
            pa.array(
                [None if row[i] is None else convert(row[i]) for row in rows],
                arrow_type(column.type),
            )
            for i, (column, convert) in enumerate(zip(columns, converters, strict=True))
        ]
    except (_Doubtful, pa.ArrowException):
        return None


def _converter(kind: HiveType) -> Callable[[object], object]:
    if isinstance(kind, DecimalType):
        return lambda value: _decimal(value, kind)
    if isinstance(kind, CharType | VarcharType):
        return lambda value: _text(value)[: kind.length]
    if isinstance(kind, PrimitiveType):
        if kind.name in _INTEGER_BITS:
            return lambda value: _integer(value, _INTEGER_BITS[kind.name])
        if kind.name in _SIMPLE:
            return _SIMPLE[kind.name]
    return _doubtful


def _doubtful(value: object) -> object:
    raise _Doubtful(value)


def _number(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise _Doubtful(value)
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise _Doubtful(value)
    return Decimal(value)


def _integer(value: object, bits: int) -> int | None:
    """An integer keeps its lowest bits, as Java narrows it; a text or decimal that is out of range
    is NULL (real-hive.md 9).
    """
    number, half = int(_number(value)), 1 << (bits - 1)
    if -half <= number < half:
        return number
    if isinstance(value, int) and -_LONG <= value < _LONG:
        return (number + half) % (2 * half) - half
    return None


def _float(value: object) -> float:
    return value if isinstance(value, float) else float(_number(value))


def _decimal(value: object, kind: DecimalType) -> Decimal | None:
    """Rounds half up; NULL where the digits before the point do not fit (real-hive.md 9)."""
    if isinstance(value, float):
        raise _Doubtful(value)
    with localcontext() as context:
        context.prec = 80
        try:
            rounded = _number(value).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP)
        except InvalidOperation as error:
            raise _Doubtful(value) from error
    return rounded if len(rounded.as_tuple().digits) <= kind.precision else None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise _Doubtful(value)


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _Doubtful(value)


def _date(value: object) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return datetime.date.fromisoformat(value)
        except ValueError as error:
            raise _Doubtful(value) from error
    raise _Doubtful(value)


def _timestamp(value: object) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    if isinstance(value, str) and (found := _TIMESTAMP.fullmatch(value)):
        fraction = (found.group(3) or ".0").ljust(7, "0")
        try:
            return datetime.datetime.fromisoformat(f"{found.group(1)} {found.group(2)}{fraction}")
        except ValueError as error:
            raise _Doubtful(value) from error
    raise _Doubtful(value)


_SIMPLE: Final[dict[str, Callable[[object], object]]] = {
    "string": _text,
    "boolean": _boolean,
    "float": _float,
    "double": _float,
    "date": _date,
    "timestamp": _timestamp,
}


def spark_text(rows: Sequence[Sequence[object]]) -> str:
    """The rows as a VALUES query of Spark's SQL, for the way through Spark."""
    return "select * from values " + ", ".join(
        "(" + ", ".join(_spark_literal(cell) for cell in row) + ")" for row in rows
    )


def _spark_literal(cell: object) -> str:
    if cell is None:
        return "null"
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, str):
        return "'" + cell.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(cell, Decimal):
        return f"{cell:f}BD"
    if isinstance(cell, float):
        return f"{cell!r}D" if "e" in repr(cell) else f"{cell!r}E0D"
    if isinstance(cell, datetime.datetime):
        return f"timestamp_ntz'{cell.isoformat(sep=' ')}'"
    if isinstance(cell, datetime.date):
        return f"date'{cell.isoformat()}'"
    return str(cell)

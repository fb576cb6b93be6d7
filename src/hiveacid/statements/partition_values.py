"""Partition values as text: normal form by column type, specifications against a table.

Rules: ``p='007'`` of an int column is ``p=7`` (real-hive.md 9). Decimals are rounded half up;
they and timestamps have no zeros at the end: ``x=1.5`` for 1.50, ``x=0`` for 0.00 and -0. Floats
and doubles are as Java prints them: ``x=1.0``, ``x=1.0E20``. Hive 4.1 looks for rows it changes
under such names only. Values of char(n) and varchar(n) are cut to n characters, those of char
padded, as Hive 4.1 names them. NULL and the empty string are the default partition (None), also
the text ``__HIVE_DEFAULT_PARTITION__``, cut to the column's length.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Final, cast

import pyarrow as pa

from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.layout.directories import DEFAULT_PARTITION, default_partition_value
from hiveacid.model.predicates import COMPARE, And, Compare, Op, Or, Predicate, leaves
from hiveacid.model.readable import decimal_text
from hiveacid.model.tables import Column, Partition, Table
from hiveacid.model.types import (
    INTEGER_BITS,
    CharType,
    DecimalType,
    HiveType,
    PrimitiveType,
    VarcharType,
)
from hiveacid.storage.arrow_types import java_numbers
from hiveacid.storage.evolution import decimal_of

PartitionText = tuple[tuple[str, str | None], ...]


def partition_texts(
    partition: Mapping[str, object] | None,
) -> tuple[tuple[str, str | None], ...]:
    """A specification given in Python, by column in lower case; ``{"year": 1995}`` as its text.

    Raises:
        InvalidInputError: it is no mapping.
    """
    if partition is None:
        return ()
    if not isinstance(partition, Mapping):
        raise InvalidInputError(
            f"A partition is a mapping of columns to values, not {partition!r}",
            note='Say it as partition={"year": 1995}.',
        )
    return tuple(
        (str(name).lower(), None if value is None else _text(value))
        for name, value in partition.items()
    )


def _text(value: object) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value)


_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def normal_text(text: str | None, column: Column) -> str | None:
    """The text of a partition value as it appears (unescaped) in the directory's name.

    Raises:
        InvalidInputError: the text is not a value of the column's type.
    """
    if text is not None and isinstance(column.type, CharType):
        text = text.rstrip(" ")
    if text is None or text in ("", DEFAULT_PARTITION, default_partition_value(column.type)):
        return None
    try:
        return _normal(text, column)
    except (ValueError, KeyError, InvalidOperation) as error:
        raise InvalidInputError(
            f"Partition value {text!r} is not of type {column.type}",
            code=10248,
            column=column.name,
        ) from error


def _normal(text: str, column: Column) -> str:
    kind = column.type
    if isinstance(kind, CharType | VarcharType):
        text = text[: kind.length]
        return text.ljust(kind.length) if isinstance(kind, CharType) else text
    name = kind.name if isinstance(kind, PrimitiveType) else ""
    plain = text.strip()
    if name in INTEGER_BITS:
        number, half = int(_ascii(plain)), 1 << (INTEGER_BITS[name] - 1)
        if not -half <= number < half:
            raise ValueError(text)
        return str(number)
    if name == "date":
        year, month, day = map(int, _ascii(plain).split("-"))
        return datetime.date(year, month, day).isoformat()
    if name == "boolean":
        return str(_BOOLEANS[plain.lower()]).lower()
    if name == "timestamp":
        return _timestamp(plain)
    if isinstance(kind, DecimalType):
        decimal = decimal_of(_ascii(plain), kind)
        if decimal is None:
            raise ValueError(text)
        return decimal_text(decimal)
    if name in ("float", "double"):
        return _floating(_ascii(plain), kind)
    return text


def _ascii(text: str) -> str:
    """Python reads more as numbers than Hive does: other digits, underscores."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return text


def _floating(text: str, kind: HiveType) -> str:
    is_float = kind == PrimitiveType("float")
    number = pa.array([float(text)], pa.float32() if is_float else pa.float64())
    return str(java_numbers(number)[0])


_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2})(?:(:\d{2})(?:\.(\d{1,9}))?)?)?", re.ASCII
)


def _timestamp(text: str) -> str:
    """With the time of day, without zeros that end a fraction, as Hive 4.1 names directories."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError(text)
    day, minutes, seconds, fraction = found.groups()
    whole = f"{day} {minutes or '00:00'}{seconds or ':00'}"
    datetime.datetime.fromisoformat(whole)
    fraction = (fraction or "").rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def sort_key(text: str | None, column: Column) -> tuple[int, Decimal | float | str]:
    """A key that orders the texts of one column as its type does; NULL comes first, NaN and what is
    no number last.
    """
    if text is None:
        return (0, "")
    kind = column.type
    name = kind.name if isinstance(kind, PrimitiveType) else ""
    try:
        if name in ("float", "double"):
            number = float(text)
            return (1, number) if number == number else (2, "")
        if isinstance(kind, DecimalType) or name in INTEGER_BITS:
            decimal = Decimal(text)
            return (1, decimal) if decimal.is_finite() else (_NO_NUMBER, text)
    except (ValueError, InvalidOperation):
        return (_NO_NUMBER, text)
    return (1, text)


_PATTERNS: Final = (Op.LIKE, Op.UNLIKE)
_NO_NUMBER: Final = 3
"""Of ``sort_key``: a name of a directory that its column's type cannot say."""


def partition_column(table: Table, name: str) -> Column:
    """The partition column of this name.

    Raises:
        InvalidInputError: 10098 there is none.
    """
    for column in table.partition_columns:
        if column.name == name.lower():
            return column
    raise InvalidInputError(
        f"{table.name} has no partition column {name}",
        code=10098,
        table=str(table.name),
        column=name,
    )


def normal_spec(table: Table, spec: Iterable[tuple[str, str | None]]) -> dict[str, str | None]:
    """The specification with normal texts, by column; it may name some of the columns.

    Raises:
        InvalidInputError: a column that is no partition column, or a text that is no value of it.
    """
    found: dict[str, str | None] = {}
    for name, text in spec:
        column = partition_column(table, name)
        found[column.name] = normal_text(text, column)
    return found


def partitions_found(
    table: Table,
    found: Mapping[str, tuple[str | None, ...]],
    *,
    known: Iterable[tuple[str | None, ...]] = (),
) -> tuple[Partition, ...]:
    """New partitions by location and the values in the names of their directories: ``p=01`` of an
    int column is 1 (real-hive.md 9). Where another one, found or ``known``, is 1 it stays 01, which
    can be read; statements that cannot tell the two apart refuse. What is no value of its column
    stays as it is.
    """
    taken = {*found.values(), *known}
    partitions = []
    for location, values in found.items():
        normal = tuple(map(_normal_where_possible, values, table.partition_columns))
        if normal in taken:
            normal = values
        taken.add(normal)
        partitions.append(Partition(normal, location))
    return tuple(partitions)


def _normal_where_possible(text: str | None, column: Column) -> str | None:
    with suppress(InvalidInputError):
        return normal_text(text, column)
    return text


def named_partitions(
    table: Table, partitions: Iterable[Partition], spec: PartitionText
) -> tuple[Partition, ...]:
    """Those of the partitions that a specification names, of some or all of the columns.

    Raises:
        InvalidInputError: as ``normal_spec``.
        NotFoundError: 10006 there is none.
    """
    wanted = normal_spec(table, spec)
    places = {key: table.partition_keys.index(key) for key in wanted}
    named = tuple(
        partition
        for partition in partitions
        if all(partition.values[places[key]] == text for key, text in wanted.items())
    )
    if wanted and not named:
        shown = ", ".join(f"{key}={text}" for key, text in wanted.items())
        raise NotFoundError(f"Partition not found {{{shown}}}", code=10006, table=str(table.name))
    return named


def full_values(table: Table, spec: Iterable[tuple[str, str | None]]) -> tuple[str | None, ...]:
    """The values of one partition; the specification must name every partition column.

    Raises:
        InvalidInputError: as ``normal_spec``; a partition column is missing.
    """
    found = normal_spec(table, spec)
    missing = [c.name for c in table.partition_columns if c.name not in found]
    if missing or not found:
        raise InvalidInputError(
            f"Partition specification of {table.name} must name the partition columns {missing}",
            code=10006,
            table=str(table.name),
        )
    return tuple(found[column.name] for column in table.partition_columns)


def chosen_partitions(
    table: Table, partitions: Iterable[Partition], where: Predicate
) -> tuple[Partition, ...]:
    """Those of the partitions that meet a filter: comparisons with texts, patterns among them.

    Raises:
        InvalidInputError: a condition that names no partition column, or no value of one.
    """
    for condition in leaves(where):
        column = partition_column(table, condition.column)
        if isinstance(condition, Compare) and condition.op not in _PATTERNS:
            normal_text(cast("str | None", condition.value), column)
    places = {key: place for place, key in enumerate(table.partition_keys)}

    def meets(partition: Partition, where: Predicate) -> bool:
        if isinstance(where, And | Or):
            joined = all if isinstance(where, And) else any
            return joined(meets(partition, one) for one in where.parts)
        assert isinstance(where, Compare)
        column = partition_column(table, where.column)
        return _meets(partition.values[places[column.name]], column, where)

    return tuple(one for one in partitions if meets(one, where))


def _meets(stored: str | None, column: Column, condition: Compare) -> bool:
    """Whether a value meets a condition. NULL is not unequal to a number, nor is what reads give
    NULL for (``d=junk`` of an int); the default partition of a text column has its name as its
    text, as in Hive.
    """
    null_text = default_partition_value(column.type)
    shown = null_text if stored is None else stored
    op, text = condition.op, cast("str | None", condition.value)
    if op in _PATTERNS:
        matches = shown is not None and _is_like(shown, text or "")
        return matches == (op is Op.LIKE) and shown is not None
    normal = normal_text(text, column)
    wanted = null_text if normal is None else normal
    if shown is None and op is not Op.EQ:
        return False
    if wanted is None and op not in (Op.EQ, Op.NE):
        return False
    key = sort_key(shown, column)
    if wanted is not None and key[0] == _NO_NUMBER:
        return False
    return bool(COMPARE[op](key, sort_key(wanted, column)))


def _is_like(text: str, pattern: str) -> bool:
    wildcards = {"%": ".*", "_": "."}
    parts = re.findall(r"\\?.", pattern, re.DOTALL)
    wanted = "".join(wildcards.get(part, re.escape(part[-1])) for part in parts)
    return re.fullmatch(wanted, text, re.DOTALL) is not None

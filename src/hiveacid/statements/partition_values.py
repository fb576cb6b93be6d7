"""Partition values as text: normal form by column type, specifications against a table.

Rules: ``p='007'`` of an int column is ``p=7`` (real-hive.md 9). Decimals and timestamps have no
zeros at the end: ``x=1.5`` for 1.50, ``x=0`` for 0.00 and -0. Floats and doubles are as Java prints
them: ``x=1.0``, ``x=1.0E20``. Hive 4.1 looks for rows it changes under such names only. Values of
char(n) are padded to n characters, as Hive 4.1 names them. NULL and the empty string are the
default partition (None), also the text ``__HIVE_DEFAULT_PARTITION__``, cut to the column's length.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

import pyarrow as pa

from hiveacid.errors import InvalidInputError, NotFoundError
from hiveacid.layout.directories import DEFAULT_PARTITION, default_partition_value
from hiveacid.model.tables import Column, Partition, Table
from hiveacid.model.types import INTEGER_BITS, CharType, DecimalType, PrimitiveType
from hiveacid.storage.plain.text_format import java_numbers

PartitionText = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class PartitionCondition:
    """column operator text; ``operator`` is one of = != < <= > >=."""

    column: str
    operator: str
    text: str | None


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
    return str(value).lower() if isinstance(value, bool) else str(value)


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
    except (ValueError, InvalidOperation) as error:
        raise InvalidInputError(
            f"Partition value {text!r} is not of type {column.type}", column=column.name
        ) from error


def _normal(text: str, column: Column) -> str:
    kind = column.type
    if isinstance(kind, CharType):
        return text.ljust(kind.length)
    if isinstance(kind, PrimitiveType) and kind.name in INTEGER_BITS:
        return str(int(text.strip()))
    if isinstance(kind, PrimitiveType) and kind.name == "date":
        parts = text.strip().split("-")
        if len(parts) != 3:
            raise ValueError(text)
        return datetime.date(*map(int, parts)).isoformat()
    if isinstance(kind, PrimitiveType) and kind.name == "boolean":
        if text.strip().lower() not in ("true", "false"):
            raise ValueError(text)
        return text.strip().lower()
    if isinstance(kind, PrimitiveType) and kind.name == "timestamp":
        return _timestamp(text.strip())
    if isinstance(kind, DecimalType):
        plain = format(Decimal(text.strip()), "f")
        plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
        return "0" if plain == "-0" else plain
    if isinstance(kind, PrimitiveType) and kind.name in ("float", "double"):
        return _floating(text.strip(), kind)
    return text


def _floating(text: str, kind: PrimitiveType) -> str:
    if "_" in text:
        raise ValueError(text)
    number = pa.array([float(text)], pa.float32() if kind.name == "float" else pa.float64())
    return str(java_numbers(number)[0])


def _timestamp(text: str) -> str:
    """With the time of day, without zeros that end a fraction, as Hive 4.1 names directories."""
    day, _, time = text.partition(" ")
    time, _, fraction = (time or "00:00:00").partition(".")
    fraction = fraction.rstrip("0")
    return f"{day} {time}.{fraction}" if fraction else f"{day} {time}"


def sort_key(text: str | None, column: Column) -> tuple[int, Decimal | str]:
    """A key that orders the texts of one column as its type does; NULL comes first."""
    if text is None:
        return (0, "")
    kind = column.type
    numeric = isinstance(kind, DecimalType) or (
        isinstance(kind, PrimitiveType) and kind.name in (*INTEGER_BITS, "float", "double")
    )
    return (1, Decimal(text)) if numeric else (1, text)


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
            table=str(table.name),
        )
    return tuple(found[column.name] for column in table.partition_columns)


_COMPARE: Final[Mapping[str, Callable[[tuple[int, object], tuple[int, object]], bool]]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def meets(
    table: Table,
    values: Mapping[str, str | None],
    conditions: tuple[PartitionCondition, ...],
) -> bool:
    """Whether a partition with these values (by column) meets all conditions."""
    for condition in conditions:
        column = partition_column(table, condition.column)
        wanted = normal_text(condition.text, column)
        stored = values[column.name]
        if condition.operator not in ("=", "!=") and (wanted is None or stored is None):
            return False
        compare = _COMPARE[condition.operator]
        if not compare(sort_key(stored, column), sort_key(wanted, column)):
            return False
    return True

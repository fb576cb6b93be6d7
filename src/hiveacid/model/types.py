"""Hive's type grammar as values: ``parse_type(text)`` and ``str(type)`` are inverse (text is Hive's, lower case)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without parameters: ``name`` is Hive's word.

    One of boolean, tinyint, smallint, int, bigint, float, double, string, binary, date, timestamp,
    ``timestamp with local time zone``, void, interval_year_month, interval_day_time.
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType:
    """decimal(precision, scale), precision 1..38."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class CharType:
    """char(length), length 1..255 characters, blank padded."""

    length: int

    def __str__(self) -> str:
        return f"char({self.length})"


@dataclass(frozen=True, slots=True)
class VarcharType:
    """varchar(length), length 1..65535 characters."""

    length: int

    def __str__(self) -> str:
        return f"varchar({self.length})"


@dataclass(frozen=True, slots=True)
class ListType:
    """array<element>."""

    element: HiveType

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """map<key,value>."""

    key: HiveType
    value: HiveType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructType:
    """struct<name:type,...>."""

    fields: tuple[tuple[str, HiveType], ...]

    def __str__(self) -> str:
        return "struct<" + ",".join(f"{name}:{kind}" for name, kind in self.fields) + ">"


@dataclass(frozen=True, slots=True)
class UnionType:
    """uniontype<a,b,...>; read only."""

    alternatives: tuple[HiveType, ...]

    def __str__(self) -> str:
        return "uniontype<" + ",".join(map(str, self.alternatives)) + ">"


HiveType = (
    PrimitiveType | DecimalType | CharType | VarcharType | ListType | MapType | StructType | UnionType
)

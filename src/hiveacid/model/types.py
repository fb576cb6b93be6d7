"""Hive's type grammar as values: ``parse_type(text)`` and ``str(type)`` are inverse.

The text is Hive's own, in lower case, as the catalog stores it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NoReturn

from hiveacid.errors import InvalidInputError


class _Leaf:
    """A type that is made of no others."""

    __slots__ = ()

    @property
    def children(self) -> tuple[HiveType, ...]:
        """The types that it is made of, in order."""
        return ()


@dataclass(frozen=True, slots=True)
class PrimitiveType(_Leaf):
    """A type without parameters: ``name`` is Hive's word.

    One of boolean, tinyint, smallint, int, bigint, float, double, string, binary, date, timestamp,
    ``timestamp with local time zone``, void, interval_year_month, interval_day_time.
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType(_Leaf):
    """decimal(precision, scale), precision 1..38."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class CharType(_Leaf):
    """char(length), length 1..255 characters, blank padded."""

    length: int

    def __str__(self) -> str:
        return f"char({self.length})"


@dataclass(frozen=True, slots=True)
class VarcharType(_Leaf):
    """varchar(length), length 1..65535 characters."""

    length: int

    def __str__(self) -> str:
        return f"varchar({self.length})"


@dataclass(frozen=True, slots=True)
class ListType:
    """array<element>."""

    element: HiveType

    @property
    def children(self) -> tuple[HiveType, ...]:
        """The type of the elements."""
        return (self.element,)

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """map<key,value>."""

    key: HiveType
    value: HiveType

    @property
    def children(self) -> tuple[HiveType, ...]:
        """The types of keys and values."""
        return (self.key, self.value)

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructType:
    """struct<name:type,...>; names are lower case, quoted only where a character needs it."""

    fields: tuple[tuple[str, HiveType], ...]

    @property
    def children(self) -> tuple[HiveType, ...]:
        """The types of the fields."""
        return tuple(kind for _, kind in self.fields)

    def __str__(self) -> str:
        return "struct<" + ",".join(f"{_name(name)}:{kind}" for name, kind in self.fields) + ">"


@dataclass(frozen=True, slots=True)
class UnionType:
    """uniontype<a,b,...>."""

    alternatives: tuple[HiveType, ...]

    @property
    def children(self) -> tuple[HiveType, ...]:
        """The alternatives."""
        return self.alternatives

    @property
    def as_struct(self) -> StructType:
        """What stands for it where there are no unions: the tag, then the alternatives."""
        fields = ((f"field{place}", kind) for place, kind in enumerate(self.alternatives))
        return StructType((("tag", PrimitiveType("tinyint")), *fields))

    def __str__(self) -> str:
        return "uniontype<" + ",".join(map(str, self.alternatives)) + ">"


def _name(name: str) -> str:
    return name if _BARE_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


HiveType = (
    PrimitiveType
    | DecimalType
    | CharType
    | VarcharType
    | ListType
    | MapType
    | StructType
    | UnionType
)

STRING: Final = PrimitiveType("string")
BINARY: Final = PrimitiveType("binary")
INT: Final = PrimitiveType("int")
DOUBLE: Final = PrimitiveType("double")
TIMESTAMP: Final = PrimitiveType("timestamp")
TIMESTAMP_LOCAL_TZ: Final = PrimitiveType("timestamp with local time zone")

INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""Of the types of whole numbers, by name."""


def names_inside(kind: HiveType) -> tuple[str, ...]:
    """What Hive calls the types inside a nested one (``children``)."""
    if isinstance(kind, StructType):
        return tuple(name for name, _ in kind.fields)
    return {ListType: ("$elem$",), MapType: ("$key$", "$value$")}.get(type(kind), ())


def is_text(kind: HiveType) -> bool:
    """Whether its values are texts."""
    return kind == STRING or isinstance(kind, CharType | VarcharType)


def is_decimal_or(names: Collection[str], kind: HiveType) -> bool:
    """Whether it is a decimal, or one of the types of these names."""
    return isinstance(kind, DecimalType) or str(kind) in names


MAX_PRECISION: Final = 38
MAX_CHAR_LENGTH: Final = 255
MAX_VARCHAR_LENGTH: Final = 65535

_PRIMITIVES: Final = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp with local time zone",
    "void",
    "interval_year_month",
    "interval_day_time",
)
_SYNONYMS: Final = {
    "integer": "int",
    "real": "float",
    "double precision": "double",
    "timestamp without time zone": "timestamp",
    "timestamplocaltz": "timestamp with local time zone",
    "null": "void",
}
_TOKEN = re.compile(r"\s*(?:([A-Za-z_][A-Za-z_0-9]*)|([0-9]+)|`((?:[^`]|``)*)`|([<>(),:]))")
_BARE_NAME = re.compile(r"[^\s:<>,()`]+")
_FIELD_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s:<>,()`]+))\s*:")


def parse_type(text: str) -> HiveType:
    """The type that a text names, in any case and spacing.

    >>> str(parse_type("STRUCT<a: INTEGER, b: array<decimal>>"))
    'struct<a:int,b:array<decimal(10,0)>>'

    Raises:
        InvalidInputError: the text names no type, or a length or precision is out of range.
    """
    return _Parser(text).parse()


class _Parser:
    """Recursive descent over the text of a type."""

    __slots__ = ("_at", "_depth", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def parse(self) -> HiveType:
        kind = self._type()
        if self._text[self._at :].strip():
            self._fail("the end")
        return kind

    def _type(self) -> HiveType:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(f"at most {_MAX_DEPTH} levels")
        found = _TOKEN.match(self._text, self._at)
        if found is None or not found[1]:
            self._fail("a type")
        self._at = found.end()
        kind = self._named(found[1].lower())
        self._depth -= 1
        return kind

    def _named(self, word: str) -> HiveType:
        if word in ("array", "list"):
            (element,) = self._arguments(1)
            return ListType(element)
        if word == "map":
            key, value = self._arguments(2)
            return MapType(key, value)
        if word == "struct":
            return StructType(self._fields())
        if word == "uniontype":
            return UnionType(self._arguments(None))
        if word in ("decimal", "numeric", "dec"):
            return self._decimal()
        if word == "char":
            return CharType(self._length(MAX_CHAR_LENGTH))
        if word == "varchar":
            return VarcharType(self._length(MAX_VARCHAR_LENGTH))
        return self._primitive(word)

    def _primitive(self, word: str) -> HiveType:
        if word in ("double", "timestamp"):
            word = " ".join([word, *self._words()])
        name = _SYNONYMS.get(word, word)
        return PrimitiveType(name) if name in _PRIMITIVES else self._fail("a type", found=word)

    def _words(self) -> list[str]:
        words: list[str] = []
        while (found := _TOKEN.match(self._text, self._at)) and found[1]:
            words.append(found[1].lower())
            self._at = found.end()
        return words

    def _arguments(self, count: int | None) -> tuple[HiveType, ...]:
        self._expect("<")
        kinds = [self._type()]
        while self._accept(","):
            kinds.append(self._type())
        self._expect(">")
        if count is not None and len(kinds) != count:
            self._fail(f"{count} types")
        return tuple(kinds)

    def _fields(self) -> tuple[tuple[str, HiveType], ...]:
        self._expect("<")
        if self._accept(">"):
            return ()
        fields: list[tuple[str, HiveType]] = []
        while True:
            found = _FIELD_NAME.match(self._text, self._at)
            if found is None:
                self._fail("a field name and ':'")
            self._at = found.end()
            name = found[2] if found[1] is None else found[1].replace("``", "`")
            fields.append((name.lower(), self._type()))
            if not self._accept(","):
                break
        self._expect(">")
        return tuple(fields)

    def _decimal(self) -> DecimalType:
        if not self._accept("("):
            return DecimalType(10, 0)
        precision, scale = self._number(), 0
        if self._accept(","):
            scale = self._number()
        self._expect(")")
        if not 1 <= precision <= MAX_PRECISION or scale > precision:
            self._fail("precision 1..38 and a scale up to it", found=f"({precision},{scale})")
        return DecimalType(precision, scale)

    def _length(self, longest: int) -> int:
        self._expect("(")
        length = self._number()
        self._expect(")")
        if not 1 <= length <= longest:
            self._fail(f"a length of 1..{longest}", found=str(length))
        return length

    def _number(self) -> int:
        found = _TOKEN.match(self._text, self._at)
        if found is None or not found[2]:
            self._fail("a number")
        self._at = found.end()
        return int(found[2])

    def _accept(self, mark: str) -> bool:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found[4] != mark:
            return False
        self._at = found.end()
        return True

    def _expect(self, mark: str) -> None:
        if not self._accept(mark):
            self._fail(repr(mark))

    def _fail(self, expected: str, *, found: str | None = None) -> NoReturn:
        rest = self._text[self._at :][:50] if found is None else found
        raise InvalidInputError(
            f"Type {self._text[:200]!r} has {rest!r} where {expected} should be",
            type=self._text,
            expected=expected,
            position=self._at,
        )


_MAX_DEPTH: Final = 100

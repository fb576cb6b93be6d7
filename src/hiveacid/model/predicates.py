"""Conditions on the columns of one table, as far as files can be chosen by them.

A predicate is a tree of comparisons with constants. It stands for a condition of the user's, or
for something weaker: ``ANYTHING`` takes the place of what is not understood. So a row that meets
the user's condition always meets the predicate, and what a predicate excludes is not needed.

``may_match`` asks whether some row of a place (a partition, a file, a stripe) may meet it, given
what is known of the columns there. NULL meets no comparison, as in SQL.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar

from hiveacid.model.types import (
    INTEGER_BITS,
    CharType,
    DecimalType,
    HiveType,
    PrimitiveType,
    VarcharType,
)

_Moment = TypeVar("_Moment", bound=date)
Constant = bool | int | float | Decimal | str | date | datetime
"""A value to compare with, of the class that ``constant`` gives for the column's type."""


class Op(Enum):
    """How a column is compared."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    LIKE = "LIKE"
    UNLIKE = "NOT LIKE"
    """These two of names of partitions only."""

    @property
    def mirrored(self) -> Op:
        """The comparison with its sides exchanged."""
        return _MIRRORED.get(self, self)

    @property
    def negated(self) -> Op:
        """The comparison that is true where this one is false."""
        return _NEGATED[self]


_MIRRORED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_NEGATED = {
    Op.EQ: Op.NE,
    Op.NE: Op.EQ,
    Op.LT: Op.GE,
    Op.LE: Op.GT,
    Op.GT: Op.LE,
    Op.GE: Op.LT,
    Op.LIKE: Op.UNLIKE,
    Op.UNLIKE: Op.LIKE,
}
COMPARE: Mapping[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
"""How values of one class are compared."""


@dataclass(frozen=True, slots=True)
class Anything:
    """Every row may meet it."""


ANYTHING = Anything()


@dataclass(frozen=True, slots=True)
class Compare:
    """column op value."""

    column: str
    op: Op
    value: Constant


@dataclass(frozen=True, slots=True)
class In:
    """column IN (values); no value is NULL."""

    column: str
    values: frozenset[Constant]


@dataclass(frozen=True, slots=True)
class IsNull:
    """column IS NULL, or (``negated``) IS NOT NULL."""

    column: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of them."""

    parts: tuple[Predicate, ...]


Predicate = Anything | Compare | In | IsNull | And | Or

NOTHING = Or(())
"""No row meets it."""


def conjunction(parts: tuple[Predicate, ...]) -> Predicate:
    """All of ``parts``, in the simplest form."""
    flat: list[Predicate] = []
    for part in parts:
        if isinstance(part, And):
            flat += part.parts
        elif not isinstance(part, Anything):
            flat.append(part)
    if not flat:
        return ANYTHING
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def disjunction(parts: tuple[Predicate, ...]) -> Predicate:
    """One of ``parts``, in the simplest form."""
    if any(isinstance(part, Anything) for part in parts):
        return ANYTHING
    return parts[0] if len(parts) == 1 else Or(parts)


def columns_of(predicate: Predicate) -> frozenset[str]:
    """The columns it mentions."""
    if isinstance(predicate, And | Or):
        return frozenset(name for part in predicate.parts for name in columns_of(part))
    return frozenset() if isinstance(predicate, Anything) else frozenset({predicate.column})


def leaves(predicate: Predicate) -> Iterator[Compare | In | IsNull]:
    """Its comparisons."""
    if isinstance(predicate, And | Or):
        for part in predicate.parts:
            yield from leaves(part)
    elif not isinstance(predicate, Anything):
        yield predicate


# -------------------------------------------------------------------- what is known of a place


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What is known of one column's values in a place.

    ``minimum`` and ``maximum`` are inclusive bounds of the values that are not NULL, None where
    they are unknown. ``may_be_null`` and ``may_have_value`` are False only where that is certain.
    """

    minimum: Constant | None = None
    maximum: Constant | None = None
    may_be_null: bool = True
    may_have_value: bool = True


def exactly(value: Constant | None) -> ColumnRange:
    """A place where the column is the same everywhere, as a partition column is."""
    if value is None:
        return ColumnRange(may_have_value=False)
    return ColumnRange(value, value, may_be_null=False)


def may_match(predicate: Predicate, ranges: Mapping[str, ColumnRange]) -> bool:
    """Whether some row of a place may meet the predicate; of columns not in ``ranges`` nothing is
    known.
    """
    if isinstance(predicate, Anything):
        return True
    if isinstance(predicate, And):
        return all(may_match(part, ranges) for part in predicate.parts)
    if isinstance(predicate, Or):
        return any(may_match(part, ranges) for part in predicate.parts)
    known = ranges.get(predicate.column)
    if known is None:
        return True
    if isinstance(predicate, IsNull):
        return known.may_have_value if predicate.negated else known.may_be_null
    if not known.may_have_value:
        return False
    if isinstance(predicate, In):
        return _may_be_among(known, predicate.values)
    return _may_compare(predicate.op, known, predicate.value)


def likely_share(predicate: Predicate, ranges: Mapping[str, ColumnRange]) -> float:
    """Which part (0 to 1) of the rows of a place is likely to meet it, by what it says with < and >
    alone: as if values lay evenly between their bounds, each column's by themselves.
    """
    share = 1.0
    parts = predicate.parts if isinstance(predicate, And) else (predicate,)
    compared = [part for part in parts if isinstance(part, Compare)]
    for name in {part.column for part in compared}:
        known = ranges.get(name, ColumnRange())
        low, high = first, last = _number(known.minimum), _number(known.maximum)
        for part in compared:
            if part.column == name and part.op in (Op.GT, Op.GE):
                first = max(first, _number(part.value))
            elif part.column == name and part.op in (Op.LT, Op.LE):
                last = min(last, _number(part.value))
        if high > low and first == first and last == last:
            share *= min(max((last - first) / (high - low), 0.0), 1.0)
    return share


def _number(value: Constant | None) -> float:
    """Of a number or a day; NaN of what lies on no scale."""
    if isinstance(value, date):
        return float(value.toordinal())
    # by Decimal, because an integer may be too large for a float, which is then infinite
    return float(Decimal(value)) if isinstance(value, int | float | Decimal) else float("nan")


def _may_be_among(known: ColumnRange, values: frozenset[Constant]) -> bool:
    """Whether one of the values lies in the range; there may be many of them, and many ranges."""
    low, high = known.minimum, known.maximum
    try:
        ordered = _ordered(values)
        at = 0 if low is None else bisect_left(ordered, low)
        return at < len(ordered) and (high is None or not ordered[at] > high)  # type: ignore[operator]
    except TypeError:  # values of classes that do not compare
        return any(_may_compare(Op.EQ, known, value) for value in values)


@lru_cache(maxsize=8)
def _ordered(values: frozenset[Constant]) -> tuple[Constant, ...]:
    if any(value != value for value in values):
        raise TypeError("NaN is in no order")
    return tuple(sorted(values))


def _may_compare(op: Op, known: ColumnRange, value: Constant) -> bool:
    low, high = known.minimum, known.maximum
    try:
        if op is Op.NE:
            return low is None or high is None or not (low == value == high)
        if op in (Op.EQ, Op.LE) and low is not None and low > value:  # type: ignore[operator]
            return False
        if op in (Op.EQ, Op.GE) and high is not None and high < value:  # type: ignore[operator]
            return False
        if op is Op.LT and low is not None:
            return bool(low < value)  # type: ignore[operator]
        if op is Op.GT and high is not None:
            return bool(high > value)  # type: ignore[operator]
    except TypeError:  # values of classes that do not compare: nothing is known
        return True
    return True


def residual(predicate: Predicate, ranges: Mapping[str, ColumnRange]) -> Predicate:
    """What is left to decide in a place where the columns of ``ranges`` are the same everywhere
    (``exactly``); ``NOTHING`` where no row can meet it.
    """

    def left(leaf: Compare | In | IsNull) -> Predicate:
        if leaf.column not in ranges:
            return leaf
        return ANYTHING if may_match(leaf, ranges) else NOTHING

    return _changed(predicate, left)


def _changed(predicate: Predicate, of: Callable[[Compare | In | IsNull], Predicate]) -> Predicate:
    """The predicate with what ``of`` makes of each leaf in its place."""
    if isinstance(predicate, And | Or):
        parts = tuple(_changed(part, of) for part in predicate.parts)
        if isinstance(predicate, And):
            return NOTHING if NOTHING in parts else conjunction(parts)
        return disjunction(tuple(part for part in parts if part != NOTHING))
    return predicate if isinstance(predicate, Anything) else of(predicate)


def equal_values(predicate: Predicate, column: str) -> frozenset[Constant] | None:
    """The values one of which the column must have in a row that meets the predicate; None where
    there is no such list.
    """
    if isinstance(predicate, Compare):
        if predicate.column == column and predicate.op is Op.EQ:
            return frozenset({predicate.value})
        return None
    if isinstance(predicate, In):
        return predicate.values if predicate.column == column else None
    if isinstance(predicate, And):
        found = [v for v in (equal_values(p, column) for p in predicate.parts) if v is not None]
        return frozenset.intersection(*found) if found else None
    if isinstance(predicate, Or):
        alternatives = [equal_values(part, column) for part in predicate.parts]
        known = [values for values in alternatives if values is not None]
        return frozenset().union(*known) if len(known) == len(alternatives) else None
    return None


# -------------------------------------------------------------------- constants and types

_FLOATS = ("float", "double")
_FLOAT_EXACT = 1 << 24
"""Up to this each integer is a float."""
_DIGITS_MAX = 38
_LONG_DIGITS = 20
"""Of a bigint, as Spark counts them."""


def typed(predicate: Predicate, types: Mapping[str, HiveType]) -> Predicate:
    """The predicate with each constant in the class of its column's type.

    Comparisons whose meaning depends on a conversion that Spark and Hive may do otherwise
    become ``ANYTHING``, as do columns that ``types`` does not have.
    """
    return _changed(predicate, lambda leaf: _typed(leaf, types.get(leaf.column)))


def _typed(leaf: Compare | In | IsNull, kind: HiveType | None) -> Predicate:
    if kind is None:
        return ANYTHING
    if isinstance(leaf, IsNull):
        return leaf
    if isinstance(leaf, In):
        values = [constant(value, kind) for value in leaf.values]
        known = frozenset(value for value in values if value is not None)
        return In(leaf.column, known) if len(known) == len(values) else ANYTHING
    value = constant(leaf.value, kind)
    if value is None:
        return ANYTHING
    if _is_float(kind) and leaf.op in (Op.GT, Op.GE, Op.NE):
        return ANYTHING  # NaN is greater than every number, and no statistics mention it
    if isinstance(value, datetime) and isinstance(leaf.value, str) and leaf.op is Op.NE:
        return ANYTHING  # from NOT IN, where Spark without ANSI compares texts
    return Compare(leaf.column, leaf.op, value)


def constant(value: Constant, kind: HiveType) -> Constant | None:
    """``value`` in the class in which values of ``kind`` are compared here, exactly; else None.

    Integers and decimals are compared as int or Decimal, dates as date, timestamps as datetime
    (wall clock), strings as str (the order of code points is that of UTF-8 bytes). char is left
    out: its padding and its order differ between readers.
    """
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    if isinstance(kind, DecimalType) or _name(kind) in INTEGER_BITS:
        return value if number and _is_held_beside(value, kind) else None  # type: ignore[arg-type]
    if _is_float(kind):
        finite = isinstance(value, float) and value == value
        if _name(kind) == "float" and isinstance(value, int) and abs(value) > _FLOAT_EXACT:
            return None  # without ANSI Spark compares floats: 2**24 equals 2**24 + 1
        return float(value) if finite or number else None  # type: ignore[arg-type]
    if kind == PrimitiveType("string") or isinstance(kind, VarcharType):
        return value if isinstance(value, str) else None
    convert = _CONVERT.get(_name(kind))
    return None if convert is None else convert(value)


def _is_held_beside(value: int | Decimal, kind: HiveType) -> bool:
    """Whether a decimal type holds the value and those of an integer or decimal column: where none
    does, Spark rounds both before it compares.
    """
    whole, scale = _LONG_DIGITS, 0
    if isinstance(kind, DecimalType):
        whole, scale = kind.precision - kind.scale, kind.scale
    _, digits, exponent = Decimal(value).as_tuple()
    if not isinstance(exponent, int):  # NaN, an infinity
        return False
    return max(whole, len(digits) + exponent) + max(scale, -exponent) <= _DIGITS_MAX


def _is_float(kind: HiveType) -> bool:
    return _name(kind) in _FLOATS


def _name(kind: HiveType) -> str:
    return kind.name if isinstance(kind, PrimitiveType) else ""


def _date(value: Constant) -> date | None:
    if isinstance(value, datetime):
        return None
    return value if isinstance(value, date) else _iso(date.fromisoformat, value, 10)


def _timestamp(value: Constant) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return _iso(datetime.fromisoformat, value, 26)


def _iso(parse: Callable[[str], _Moment], value: Constant, length: int) -> _Moment | None:
    """Texts in the one form that every reader understands; Python 3.11 would take more."""
    if not isinstance(value, str) or len(value) not in (10, 19, length):
        return None
    if any(letter in value[10:] for letter in "-+Z"):  # a time zone
        return None
    try:
        return parse(value)
    except ValueError:
        return None


def _boolean(value: Constant) -> bool | None:
    return value if isinstance(value, bool) else None


_CONVERT: Mapping[str, Callable[[Constant], Constant | None]] = {
    "date": _date,
    "timestamp": _timestamp,
    "boolean": _boolean,
}


def partition_constant(text: str, kind: HiveType) -> Constant | None:
    """The value that a partition directory's text stands for; None where it is not certain."""
    try:
        if isinstance(kind, DecimalType):
            number = Decimal(text)
            return number if abs(number) < 10 ** (kind.precision - kind.scale) else None
        if _name(kind) in INTEGER_BITS:
            half = 1 << (INTEGER_BITS[_name(kind)] - 1)
            whole = int(text) if text.lstrip("-").isdigit() else half
            return whole if -half <= whole < half else None
    except (InvalidOperation, ValueError):
        return None
    if _name(kind) == "boolean":
        return {"true": True, "false": False}.get(text.lower())
    if _is_float(kind) or isinstance(kind, CharType):
        return None
    return constant(text, kind)


TIMESTAMP_SLACK = timedelta(days=1)
"""How far the statistics of a timestamp may be off where the writer's time zone is not known."""

"""Read a file's column as the table's type: added fields, changed types (format.md 5.5).

Columns of a table are matched to a file's by position, as Hive 4.1 does (real-hive.md 3, j05);
fields of a struct inside a column by name. A value that the table's type does not hold is null, and
numbers and times become text, as ORC's Java reader does it.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import FormatError
from hiveacid.model.readable import decimal_text
from hiveacid.model.types import (
    STRING,
    CharType,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    is_text,
)
from hiveacid.storage.arrow_plain import plain
from hiveacid.storage.arrow_types import (
    MICROSECONDS,
    TICKS,
    arrow_type,
    cast_numbers,
    conform,
    java_numbers,
    texts_of,
    with_children,
)

_FIRST_GREGORIAN_DAY: Final = -141_427
"""1582-10-15, in days since 1970."""
_JULIAN_1970: Final = 2_440_588
"""The Julian day number of 1970-01-01."""
_JULIAN_YEARS: Final = 32_082
"""Days of the Julian years from March 4801 BC to the first Julian day."""
_DAY_TICKS: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
_BIGINT: Final = PrimitiveType("bigint")


def evolve_column(
    array: pa.Array, found: HiveType, wanted: HiveType, *, unit: str = MICROSECONDS
) -> pa.Array:
    """A column that the file holds as ``found``, as the table's type ``wanted``; timestamps in
    ``unit``.

    Raises:
        FormatError: the file's type cannot be read as the table's; context ``expected`` and
        ``found``.
    """
    if found == wanted and array.type == arrow_type(wanted, unit=unit):
        return array
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        return _evolve_struct(array, found, wanted, unit)
    if isinstance(found, ListType) and isinstance(wanted, ListType):
        return with_children(
            array, lambda a: evolve_column(a, found.element, wanted.element, unit=unit)
        )
    if isinstance(found, MapType) and isinstance(wanted, MapType):
        pairs = iter(((found.key, wanted.key), (found.value, wanted.value)))
        return with_children(array, lambda a: evolve_column(a, *next(pairs), unit=unit))
    if isinstance(found, UnionType) and isinstance(wanted, UnionType):
        return _evolve_union(array, found, wanted, unit)
    if isinstance(found, _NESTED) or isinstance(wanted, _NESTED):
        raise _cannot_be_read(found, wanted)
    try:
        return _evolve_leaf(array, found, wanted, unit)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _cannot_be_read(found, wanted) from error


_NESTED: Final = (StructType, ListType, MapType, UnionType)
_SHORT: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
"""What writers of Parquet files say of texts and bytes, as Polars does."""


def _cannot_be_read(found: HiveType, wanted: HiveType) -> FormatError:
    return FormatError(
        f"a column of type {found} cannot be read as {wanted}",
        expected=str(wanted),
        found=str(found),
    )


def _evolve_struct(
    array: pa.StructArray, found: StructType, wanted: StructType, unit: str
) -> pa.Array:
    places = {name.lower(): i for i, (name, _) in enumerate(found.fields)}
    children = []
    for name, kind in wanted.fields:
        place = places.get(name.lower())
        if place is None:
            children.append(pa.nulls(len(array), arrow_type(kind, unit=unit)))
        else:
            children.append(
                evolve_column(array.field(place), found.fields[place][1], kind, unit=unit)
            )
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(
        children, fields=list(arrow_type(wanted, unit=unit)), mask=mask
    )


def _evolve_union(array: pa.UnionArray, found: UnionType, wanted: UnionType, unit: str) -> pa.Array:
    """A struct of the tag and one field for each alternative."""
    if len(found.alternatives) > len(wanted.alternatives):
        raise _cannot_be_read(found, wanted)
    tags = pa.array(np.asarray(array.type_codes), pa.int8())
    children = [tags]
    for tag, kind in enumerate(wanted.alternatives):
        if tag >= len(found.alternatives):
            children.append(pa.nulls(len(array), arrow_type(kind, unit=unit)))
            continue
        chosen = pc.equal(tags, tag)
        is_dense = array.type.mode == "dense"
        every = array.offsets if is_dense else pa.array(np.arange(len(array)))
        child = array.field(tag).take(pc.if_else(chosen, every, None))
        children.append(evolve_column(child, found.alternatives[tag], kind, unit=unit))
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(wanted, unit=unit)))


def _evolve_leaf(array: pa.Array, found: HiveType, wanted: HiveType, unit: str) -> pa.Array:
    target = arrow_type(wanted, unit=unit)
    array = plain(array)
    array = array.cast(_SHORT.get(array.type, array.type))
    if found == wanted and array.type == target:
        return array
    if is_text(wanted):
        return array if found == wanted else conform(_as_text(array, found), wanted)
    if pa.types.is_binary(array.type):
        raise _cannot_be_read(found, wanted)
    if isinstance(found, CharType) and not pa.types.is_binary(target):
        array = pc.utf8_rtrim(array, " ")
    if pa.types.is_timestamp(target):
        return _as_timestamp(array, wanted, target)
    if pa.types.is_string(array.type) and not pa.types.is_binary(target):
        return _parsed(array, wanted)
    if pa.types.is_date(target) and not pa.types.is_timestamp(array.type):
        raise _cannot_be_read(found, wanted)
    if pa.types.is_timestamp(array.type):
        return _of_timestamp(array, wanted, target)
    if pa.types.is_boolean(target):
        whole = _as_integer(array, pa.int64()) if pa.types.is_floating(array.type) else array
        return pc.not_equal(whole, pa.scalar(0).cast(whole.type))
    if isinstance(wanted, DecimalType):
        return _as_decimal(array, wanted)
    if pa.types.is_integer(target):
        return _as_integer(array, target)
    return _as_floating(array, target)


def _as_floating(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The nearest number."""
    if pa.types.is_decimal(array.type):
        return cast_numbers(array, array.type, target)
    return array.cast(target, safe=not pa.types.is_integer(array.type))


def _as_timestamp(array: pa.Array, wanted: HiveType, target: pa.DataType) -> pa.Array:
    """Numbers are seconds since 1970, floating ones rounded to milliseconds; null beyond the years
    that Hive has.
    """
    kind = array.type
    if pa.types.is_timestamp(kind):
        return _cut(array, target)
    if pa.types.is_string(kind):
        return _parsed(array, wanted, target)
    if pa.types.is_date(kind):
        return array.cast(target)
    per_second, parts = 1, array
    if pa.types.is_floating(kind):
        per_second = 1000
        scaled = pc.add(pc.multiply(array.cast(pa.float64()), 1000.0), 0.5)
        parts = pc.floor(scaled)
    elif pa.types.is_decimal(kind):
        per_second = TICKS[target.unit]
        parts = _converted(array, lambda value: _ticks_of(value, per_second), _BIGINT)
    ticks = _as_integer(parts, pa.int64())
    low, high = (bound * per_second for bound in _SECONDS)
    fits = pc.and_(pc.greater_equal(ticks, low), pc.less(ticks, high))
    factor = TICKS[target.unit] // per_second
    return pc.multiply_checked(pc.if_else(fits, ticks, None), factor).cast(target)


def _ticks_of(seconds: Decimal, per_second: int) -> int | None:
    low, high = _SECONDS
    if not low <= seconds < high:
        return None
    return int(_WIDE.multiply(seconds, per_second).to_integral_value(ROUND_FLOOR))


_SECONDS: Final = (-62_135_596_800, 253_402_300_800)
"""The years 1 to 9999, in seconds since 1970."""


def _of_timestamp(array: pa.Array, wanted: HiveType, target: pa.DataType) -> pa.Array:
    """The seconds since 1970; with their fraction where the type has one."""
    whole = _cut(array, pa.timestamp("s")).cast(pa.int64())
    if pa.types.is_date(target):
        return _floor(whole, _DAY_TICKS["s"]).cast(pa.int32()).cast(target)
    if pa.types.is_boolean(target):
        return pc.not_equal(whole, 0)
    if pa.types.is_integer(target):
        return _as_integer(whole, target)
    scale = _DIGITS[array.type.unit]
    ticks = array.cast(pa.int64()).cast(pa.decimal128(19, 0))
    ticks = pc.multiply(ticks, pa.scalar(Decimal(10) ** -scale, pa.decimal128(10, scale)))
    if isinstance(wanted, DecimalType):
        return _as_decimal(ticks, wanted)
    if pa.types.is_floating(target):
        return _as_floating(ticks, target)
    raise pa.ArrowNotImplementedError(str(target))


def _cut(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Timestamps in a coarser unit: rounded down, as wall clocks are."""
    ticks = array.cast(pa.int64())
    factor = TICKS[array.type.unit] // TICKS[target.unit]
    if factor > 1:
        ticks = _floor(ticks, factor)
    elif array.type.unit != target.unit:
        return array.cast(target)
    return ticks.cast(target)


_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def _floor(ticks: pa.Array, factor: int) -> pa.Array:
    null = ticks.is_null().to_numpy(zero_copy_only=False)
    return pa.array(pc.fill_null(ticks, 0).to_numpy() // factor, mask=null)


def _as_integer(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Whole numbers, cut towards zero; null where the type is too narrow."""
    if pa.types.is_boolean(array.type):
        return array.cast(target)
    low, high = -(1 << (target.bit_width - 1)), (1 << (target.bit_width - 1)) - 1
    if pa.types.is_floating(array.type):
        whole = pc.trunc(array.cast(pa.float64()))
        fits = pc.and_(pc.greater_equal(whole, float(low)), pc.less_equal(whole, float(high)))
        if target.bit_width == 64:
            fits = pc.and_(fits, pc.less(whole, float(high)))
        return pc.if_else(fits, whole, None).cast(target)
    whole = array.cast(pa.decimal256(76, _scale(array.type)))
    whole = pc.trunc(whole).cast(pa.decimal256(76, 0))
    bounds = [pa.scalar(Decimal(bound), pa.decimal256(76, 0)) for bound in (low, high)]
    fits = pc.and_(pc.greater_equal(whole, bounds[0]), pc.less_equal(whole, bounds[1]))
    return pc.if_else(fits, whole, None).cast(target)


def _as_decimal(array: pa.Array, wanted: DecimalType) -> pa.Array:
    """Rounded half up; null where there are too many digits."""
    if pa.types.is_floating(array.type):
        return _converted(array, lambda value: decimal_of(repr(float(value)), wanted), wanted)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    scale = _scale(array.type)
    wide = array.cast(pa.decimal256(76, scale))
    if scale > wanted.scale:
        wide = pc.round(wide, ndigits=wanted.scale, round_mode="half_towards_infinity")
    limit = pa.scalar(Decimal(10) ** (wanted.precision - wanted.scale), pa.decimal256(76, scale))
    fits = pc.less(pc.abs(wide), limit)
    return pc.if_else(fits, wide, None).cast(arrow_type(wanted))


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if pa.types.is_decimal(kind) else 0


def _parsed(texts: pa.Array, wanted: HiveType, target: pa.DataType | None = None) -> pa.Array:
    """Values of texts; null where a text is none. Blanks around it are allowed for decimals and
    floating numbers alone.
    """
    target = arrow_type(wanted) if target is None else target
    if isinstance(wanted, DecimalType):
        stripped = pc.utf8_trim_whitespace(texts)
        return _converted(stripped, lambda text: decimal_of(text, wanted), wanted)
    if pa.types.is_floating(target):
        stripped = pc.utf8_trim_whitespace(texts)
        plain = pc.replace_substring_regex(stripped, "([0-9.])[fFdD]$", r"\1")
        return _matching(plain, _NUMBER_FORM).cast(target)
    if pa.types.is_date(target):
        return _converted(_matching(texts, _DATE_FORM), _date_of, wanted)
    if pa.types.is_timestamp(target):
        texts = _matching(texts, _TIMESTAMP_FORM)
        if target.unit == MICROSECONDS:
            texts = pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]+$", r"\1")
        return _converted(texts, lambda text: _moment_of(text, target.unit), _BIGINT).cast(target)
    if pa.types.is_boolean(target):
        return pc.not_equal(_parsed(texts, _BIGINT), 0)
    if not pa.types.is_integer(target):
        raise _cannot_be_read(STRING, wanted)
    numbers = _parsed(_matching(texts, _INTEGER_FORM), DecimalType(38, 0))
    return _as_integer(numbers, target)


def _matching(texts: pa.Array, form: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, form), texts, None)


_INTEGER_FORM: Final = r"^[+-]?[0-9]{1,30}$"
_NUMBER_FORM: Final = (
    r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$|^[+-]?Infinity$|^[+-]?NaN$"
)
_DATE_FORM: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIMESTAMP_FORM: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?$"


def _date_of(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def _moment_of(text: str, unit: str) -> int | None:
    """A moment in ticks since 1970; None where there is no such day or time of day."""
    whole, _, fraction = text.partition(".")
    try:
        moment = datetime.datetime.fromisoformat(whole)
    except ValueError:
        return None
    seconds = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=1)
    return seconds * TICKS[unit] + int(fraction.ljust(_DIGITS[unit], "0")[: _DIGITS[unit]])


def decimal_of(text: str, wanted: DecimalType) -> Decimal | None:
    """The number, rounded half up; None where it has too many digits, or the text is none."""
    try:
        value = Decimal(text).quantize(
            Decimal(1).scaleb(-wanted.scale), rounding=ROUND_HALF_UP, context=_WIDE
        )
        return (
            value if value.copy_abs() < Decimal(10) ** (wanted.precision - wanted.scale) else None
        )
    except InvalidOperation:  # no number, NaN
        return None


_WIDE: Final = Context(prec=400)


def _converted(array: pa.Array, convert: Callable[[Any], object], wanted: HiveType) -> pa.Array:
    """Each different value converted once."""
    different = array.dictionary_encode()
    values = [convert(value.as_py()) for value in different.dictionary]
    return pa.array(values, arrow_type(wanted)).take(different.indices)


def _as_text(array: pa.Array, found: HiveType) -> pa.Array:
    if isinstance(found, CharType):
        return pc.utf8_rtrim(array, " ")
    kind = array.type
    if pa.types.is_floating(kind):
        doubles = array.cast(pa.float64())
        return pc.if_else(pc.is_nan(doubles), None, java_numbers(doubles))
    if pa.types.is_decimal(kind):
        return _converted(array, decimal_text, STRING)
    if pa.types.is_binary(kind):
        return _converted(array, lambda value: value.hex(" "), STRING)
    return texts_of(array)


def from_julian(array: pa.Array, *, dates: bool = True, times: bool = True) -> pa.Array:
    """``array`` with the days before 1582-10-15 taken for Julian dates: same year, month and day.

    Dates and timestamps at any depth; a timestamp keeps its time of day.
    """
    return _with_days(array, _of_julian, dates=dates, times=times)


def to_julian_times(array: pa.Array) -> pa.Array:
    """``array`` with timestamps before 1582-10-15, at any depth, moved so that the Julian calendar
    shows them with the date that they have.
    """
    return _with_days(array, _to_julian, dates=False, times=True)


def without_blanks(array: pa.Array, kind: HiveType) -> pa.Array:
    """Values of a type with chars, at any depth, as Parquet files and Spark have them: without the
    blanks behind them.
    """
    if isinstance(kind, CharType):
        return pc.utf8_rtrim(array, " ")
    if not _has_chars(kind):
        return array
    of = kind
    if isinstance(kind, UnionType) and pa.types.is_struct(array.type):
        of = kind.as_struct
    children = iter(of.children)
    changed = with_children(array, lambda child: without_blanks(child, next(children)))
    return changed.cast(array.type)


def _has_chars(kind: HiveType) -> bool:
    return isinstance(kind, CharType) or any(map(_has_chars, kind.children))


_Days = npt.NDArray[np.int64]


def _with_days(
    array: pa.Array, moved: Callable[[_Days], _Days], *, dates: bool, times: bool
) -> pa.Array:
    kind = array.type
    if pa.types.is_nested(kind) and not pa.types.is_union(kind):
        return with_children(array, lambda a: _with_days(a, moved, dates=dates, times=times))
    if pa.types.is_date32(kind) and dates:
        ticks, per_day = array.cast(pa.int32()), 1
    elif pa.types.is_timestamp(kind) and times and kind.unit in _DAY_TICKS:  # ns begin in 1677
        ticks, per_day = array.cast(pa.int64()), _DAY_TICKS[kind.unit]
    else:
        return array
    least = pc.min(ticks).as_py()
    if least is None or least >= _FIRST_GREGORIAN_DAY * per_day:
        return array
    null = array.is_null().to_numpy(zero_copy_only=False)
    values = pc.fill_null(ticks, 0).to_numpy().astype(np.int64)
    days = values // per_day
    early = np.where(days < _FIRST_GREGORIAN_DAY, (moved(days) - days) * per_day, 0)
    return pa.array(values + early, mask=null).cast(ticks.type).cast(kind)


def _of_julian(days: _Days) -> _Days:
    """Days since 1970 of the Gregorian dates that read as these Julian ones; years begin in
    March.
    """
    shifted = days + _JULIAN_1970 + _JULIAN_YEARS
    cycle = (4 * shifted + 3) // 1461
    day_of_year = shifted - 1461 * cycle // 4
    month = (5 * day_of_year + 2) // 153
    months = ((cycle - 4800 - 1970) * 12 + month + 2).astype("datetime64[M]")
    first: _Days = months.astype("datetime64[D]").astype(np.int64)
    found: _Days = first + day_of_year - (153 * month + 2) // 5
    return found


def _to_julian(days: _Days) -> _Days:
    """Days since 1970 of the Julian dates that read as these Gregorian ones."""
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    day = (dates - months.astype("datetime64[D]")).astype(np.int64) + 1
    number = months.astype(np.int64) + 1970 * 12
    year, month = (number - 2) // 12 + 4800, (number - 2) % 12  # years that begin in March
    julian: _Days = day + (153 * month + 2) // 5 + 365 * year + year // 4 - _JULIAN_YEARS - 1
    return julian - _JULIAN_1970

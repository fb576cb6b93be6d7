"""Read a file's column as the table's type: added fields, widened types (format.md 5.5).

Columns of a table are matched to a file's by position, as Hive 4.1 does (real-hive.md 3, j05);
fields of a struct inside a column by name. Numbers and times become text as ORC's Java reader
writes them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import FormatError
from hiveacid.model.types import CharType, HiveType, PrimitiveType, VarcharType
from hiveacid.storage.arrow_types import arrow_type, conform

_FIRST_GREGORIAN_DAY: Final = -141_427
"""1582-10-15, in days since 1970."""
_JULIAN_SHIFT: Final = 2_440_588 + 32_082
_GREGORIAN_SHIFT: Final = 719_468


def evolve_column(array: pa.Array, found: HiveType, wanted: HiveType) -> pa.Array:
    """A column that the file holds as ``found``, as the table's type ``wanted``.

    Raises:
        FormatError: as ``evolve``.
    """
    if found == wanted:
        return evolve(array, arrow_type(wanted))
    if wanted == _STRING or isinstance(wanted, CharType | VarcharType):
        return conform(_as_text(array, found), wanted)
    return evolve(array, arrow_type(wanted))


_STRING: Final = PrimitiveType("string")


def _as_text(array: pa.Array, found: HiveType) -> pa.Array:
    if isinstance(found, CharType):
        return pc.utf8_rtrim(array, " ")
    kind = array.type
    if pa.types.is_floating(kind):
        return _texts(array.cast(pa.float64()))
    if pa.types.is_decimal(kind):
        return _texts(array)
    if pa.types.is_timestamp(kind):
        return pc.replace_substring_regex(array.cast(pa.string()), r"\.?0*$", "")
    return evolve(array, pa.string())


def _texts(numbers: pa.Array) -> pa.Array:
    different = numbers.dictionary_encode()
    texts = [_number_text(value.as_py()) for value in different.dictionary]
    return pa.array(texts, pa.string()).take(different.indices)


def _number_text(value: float | Decimal) -> str | None:
    """As Java writes it: doubles from 1e-3 to 1e7 plain, else with an exponent; NaN is null."""
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if value != value:
        return None
    if abs(value) == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "only finite numbers come here"
    point = len(digits) + exponent
    text = "".join(map(str, digits))
    if value == 0:
        text = "0.0"
    elif -3 < point <= 7:
        text = text.ljust(point, "0") if point > 0 else text.rjust(len(text) - point, "0")
        whole = max(point, 0)
        text = f"{text[:whole] or '0'}.{text[whole:] or '0'}"
    else:
        text = f"{text[0]}.{text[1:] or '0'}E{point - 1}"
    return f"-{text}" if sign else text


def evolve(array: pa.Array, target: pa.DataType) -> pa.Array:
    """``array`` as ``target``; the same object where the types agree.

    Raises:
        FormatError: the file's type cannot be read as the table's; context ``expected`` and
        ``found``.
    """
    if array.type == target:
        return array
    if pa.types.is_struct(target) and pa.types.is_struct(array.type):
        return _evolve_struct(array, target)
    if pa.types.is_list(target) and pa.types.is_list(array.type):
        values = evolve(array.values, target.value_type)
        validity = array.buffers()[0]
        offsets = array.buffers()[1]
        return pa.Array.from_buffers(
            target, len(array), [validity, offsets], offset=array.offset, children=[values]
        )
    if pa.types.is_union(target) and pa.types.is_union(array.type):
        return array
    try:
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FormatError(
            f"a column of type {array.type} cannot be read as {target}",
            expected=str(target),
            found=str(array.type),
        ) from error


def _evolve_struct(array: pa.StructArray, target: pa.StructType) -> pa.Array:
    places = {field.name.lower(): i for i, field in enumerate(array.type)}
    children = []
    for field in target:
        place = places.get(field.name.lower())
        if place is None:
            children.append(pa.nulls(len(array), field.type))
        else:
            children.append(evolve(array.field(place), field.type))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def from_julian(array: pa.Array) -> pa.Array:
    """``array`` with the days before 1582-10-15 taken for Julian dates: same year, month and day.

    Dates in structs are converted, those in lists and maps are not.
    """
    if pa.types.is_struct(array.type):
        children = [from_julian(array.field(i)) for i in range(array.type.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(array.type), mask=mask)
    if not pa.types.is_date32(array.type):
        return array
    least = pc.min(array.cast(pa.int32())).as_py()
    if least is None or least >= _FIRST_GREGORIAN_DAY:
        return array
    null = array.is_null().to_numpy(zero_copy_only=False)
    days = pc.fill_null(array.cast(pa.int32()), 0).to_numpy().astype(np.int64)
    days = np.where(days < _FIRST_GREGORIAN_DAY, _same_date(days), days)
    return pa.array(days.astype(np.int32), mask=null).cast(pa.date32())


def _same_date(days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Days since 1970 of the Gregorian dates that read as these Julian ones; years begin in
    March.
    """
    shifted = days + _JULIAN_SHIFT
    cycle = (4 * shifted + 3) // 1461
    day_of_year = shifted - 1461 * cycle // 4
    year = cycle - 4800
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5
    era = year // 400
    year_of_era = year - era * 400
    day_of_era = (
        365 * year_of_era + year_of_era // 4 - year_of_era // 100 + (153 * month + 2) // 5 + day
    )
    result: npt.NDArray[np.int64] = era * 146_097 + day_of_era - _GREGORIAN_SHIFT
    return result

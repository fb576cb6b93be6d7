"""Read a file's column as the table's type: added fields, widened types (format.md 5.5).

Columns of a table are matched to a file's by position, as Hive 4.1 does (real-hive.md 3, j05);
fields of a struct inside a column by name.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import FormatError

_FIRST_GREGORIAN_DAY: Final = -141_427
"""1582-10-15, in days since 1970."""
_JULIAN_SHIFT: Final = 2_440_588 + 32_082
_GREGORIAN_SHIFT: Final = 719_468


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

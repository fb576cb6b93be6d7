"""Read a file's column as the table's type: added fields, widened types (format.md 5.5).

Columns of a table are matched to a file's by position, as Hive 4.1 does (real-hive.md 3, j05);
fields of a struct inside a column by name.
"""

from __future__ import annotations

import pyarrow as pa

from hiveacid.errors import FormatError


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

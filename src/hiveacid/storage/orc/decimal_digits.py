"""Decimals without the zeros at their end that all of a column's values have.

ORC stores a decimal as a number and its digits after the point. Arrow's writer gives every value
its column's digits, Java's drops zeros at the end; and ORC's reader in Java takes the zeros off
every value that has some, which costs more than all else it does with it (docs/measured.md 58). So
17.00 in a column of whole numbers is handed to Arrow as 17; the file's tail has the table's type.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

WORD_DIGITS: Final = 18
"""Decimals of no more digits are numbers of 64 bits."""


def least_schema(table: pa.Table) -> pa.Schema:
    """The schema of the table, where decimals (of its columns, and of the fields of structs among
    these) have no more digits after the point than their values need.
    """
    fields = [
        field.with_type(_least_type(_whole(column), field.type))
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return pa.schema(fields)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """One array; Arrow would copy a single chunk, too."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def fits(table: pa.Table, schema: pa.Schema) -> bool:
    """Whether no value has more digits after the point than the decimal of ``schema`` in its
    place.
    """
    return all(
        _fits(chunk, field.type)
        for field, column in zip(schema, table.columns, strict=True)
        for chunk in column.chunks
    )


def _least_type(array: pa.Array, kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(
            [
                field.with_type(_least_type(array.field(place), field.type))
                for place, field in enumerate(kind)
            ]
        )
    if not pa.types.is_decimal128(kind) or kind.scale <= 0 or array.null_count == len(array):
        return kind
    zeros = min(kind.scale, kind.precision - 1, WORD_DIGITS)
    while zeros and not _has_zeros(array, zeros):
        zeros -= 1
    return pa.decimal128(kind.precision - zeros, kind.scale - zeros)


def _fits(array: pa.Array, kind: pa.DataType) -> bool:
    if array.type == kind:
        return True
    if pa.types.is_struct(kind):
        return all(_fits(array.field(place), field.type) for place, field in enumerate(kind))
    return _has_zeros(array, array.type.scale - kind.scale)


def _has_zeros(array: pa.Array, count: int) -> bool:
    """Whether each of some decimals ends in as many zeros; no, where one has over 64 bits, or more
    digits than its type, as sums by Arrow may: no cast takes that.
    """
    valid = array.drop_null() if array.null_count else array
    low, high = words_of(valid)
    if (high != low >> 63).any():
        return False
    if valid.type.precision <= WORD_DIGITS:
        limit = 10**valid.type.precision
        if ((low >= limit) | (low <= -limit)).any():
            return False
    return not (low % 10**count).any()


def words_of(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The low and high words of the numbers of ``decimal128`` values; of a null anything."""
    end = 2 * (array.offset + len(array)) if len(array) else 0  # of none Arrow has any buffer
    words = np.frombuffer(array.buffers()[1] or b"", dtype=np.int64, count=end)[2 * array.offset :]
    return words[0::2], words[1::2]

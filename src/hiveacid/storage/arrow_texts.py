"""Texts that are no UTF-8, made such: what reads Arrow's strings relies on it."""

from __future__ import annotations

import pyarrow as pa

from hiveacid.errors import FormatError


def readable(array: pa.Array) -> pa.Array:
    """``array`` with bytes that are no UTF-8 replaced by U+FFFD, as Java reads them.

    Raises:
        FormatError: such bytes inside a list, map or struct.
    """
    if not _holds_text(array.type):
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        if not pa.types.is_string(array.type):
            raise FormatError(
                f"a value of type {array.type} is damaged: {error}",
                expected="UTF-8",
                found=str(error),
            ) from error
        raw = pa.Array.from_buffers(
            pa.binary(), len(array), array.buffers(), offset=array.offset
        ).to_pylist()
        return pa.array(
            [None if value is None else value.decode("utf-8", "replace") for value in raw],
            pa.string(),
        )
    return array


def _holds_text(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_text(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_string(kind))

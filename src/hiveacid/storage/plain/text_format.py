"""Arrow columns as the lines of a text table, as Hive's LazySimpleSerDe writes them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import UnsupportedError
from hiveacid.model.tables import Column, RowFormat
from hiveacid.model.types import (
    TIMESTAMP,
    CharType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from hiveacid.storage.arrow_types import LOCAL_ZONED, conform, list_offsets

_PLAIN_LEAST: Final = 1e-3
_PLAIN_END: Final = 1e7
_SIGN_AND_EXPONENT: Final = (
    r"^(?P<sign>-?)(?P<whole>[0-9]*)\.?(?P<rest>[0-9]*)(?:e(?P<power>[+-]?[0-9]+))?$"
)


def format_rows(
    arrays: Sequence[pa.Array], columns: Sequence[Column], row_format: RowFormat
) -> pa.Buffer:
    """The lines of the rows, each with its newline.

    Raises:
        ConversionError: a value does not fit its column.
        UnsupportedError: a uniontype, or a type nested deeper than text files can hold.
    """
    texts = [
        _formatted(conformed(array, column.type), column.type, row_format, level=1)
        for array, column in zip(arrays, columns, strict=True)
    ]
    fields = [_filled(text, row_format) for text in texts]
    lines = _joined(fields, row_format.separator(0)) if len(fields) > 1 else fields[0]
    lines = pc.binary_join_element_wise(lines, b"\n", b"")
    offsets = np.frombuffer(lines.buffers()[1], dtype=np.int32)[lines.offset :]
    data: pa.Buffer = lines.buffers()[2] or pa.py_buffer(b"")
    first, last = int(offsets[0]), int(offsets[len(lines)])
    return data.slice(first, last - first)


def conformed(array: pa.Array, kind: HiveType) -> pa.Array:
    """As ``conform``, but for times before 1970, of which only ORC files cannot hold all.

    Raises:
        ConversionError, UnsupportedError: as ``conform``.
    """
    if kind == TIMESTAMP and pa.types.is_timestamp(array.type):
        return array if array.type.tz is None else pc.local_timestamp(array)
    return conform(array, kind)


def _filled(text: pa.Array, row_format: RowFormat) -> pa.Array:
    return text.fill_null(row_format.null) if text.null_count else text


def _joined(parts: Sequence[pa.Array], separator: int) -> pa.Array:
    return pc.binary_join_element_wise(*parts, bytes([separator]))


def _formatted(array: pa.Array, kind: HiveType, row_format: RowFormat, *, level: int) -> pa.Array:
    """The texts of a column as binary; NULL stays."""
    if isinstance(kind, ListType):
        items = _formatted(array.flatten(), kind.element, row_format, level=level + 1)
        return _lists(array, items, row_format, level=level)
    if isinstance(kind, MapType):
        entries = array.cast(
            pa.list_(pa.struct([("k", array.type.key_type), ("v", array.type.item_type)]))
        )
        flat = entries.flatten()
        keys, values = (
            _filled(_formatted(flat.field(i), child, row_format, level=level + 2), row_format)
            for i, child in enumerate((kind.key, kind.value))
        )
        pairs = _joined((keys, values), row_format.separator(level + 1))
        return _lists(entries, pairs, row_format, level=level)
    if isinstance(kind, StructType):
        fields = [
            _filled(_formatted(child, field, row_format, level=level + 1), row_format)
            for child, (_, field) in zip(array.flatten(), kind.fields, strict=True)
        ]
        text = _joined(fields, row_format.separator(level)) if len(fields) > 1 else fields[0]
        return pc.if_else(array.is_valid(), text, None) if array.null_count else text
    return _leaf(array, kind, row_format)


def _lists(array: pa.Array, items: pa.Array, row_format: RowFormat, *, level: int) -> pa.Array:
    """The items of each list joined; NULL stays."""
    lists = pa.ListArray.from_arrays(list_offsets(array), _filled(items, row_format))
    return pc.binary_join(lists, bytes([row_format.separator(level)]))


def _leaf(array: pa.Array, kind: HiveType, row_format: RowFormat) -> pa.Array:
    if isinstance(kind, UnionType):
        raise UnsupportedError("a uniontype cannot be written", type=str(kind))
    name = kind.name if isinstance(kind, PrimitiveType) else ""
    if isinstance(kind, CharType | VarcharType) or name == "string":
        return _escaped(array.cast(pa.binary()), row_format)
    if name == "binary":
        text = encode(array)
    elif name in ("float", "double"):
        text = java_numbers(array)
    elif name in ("timestamp", LOCAL_ZONED):
        text = _timestamp(array)
    else:
        text = array.cast(pa.string())
    return text.cast(pa.binary())


def _escaped(data: pa.Array, row_format: RowFormat) -> pa.Array:
    if row_format.escape is None:
        return data
    escape = bytes([row_format.escape])
    special = {row_format.escape, *row_format.separators}
    letters = b"".join(b"\\x%02x" % byte for byte in sorted(special))
    data = pc.replace_substring_regex(
        data, b"([" + letters + b"])", (escape * 2 if escape == b"\\" else escape) + rb"\1"
    )
    if row_format.escapes_lines:
        for end, letter in ((b"\n", b"n"), (b"\r", b"r")):
            data = pc.replace_substring(data, end, escape + letter)
    return data


def _timestamp(array: pa.Array) -> pa.Array:
    zone = array.type.tz
    text = (array if zone is None else pc.local_timestamp(array)).cast(pa.string())
    text = pc.replace_substring_regex(text, r"(\.[0-9]*?)0+$", r"\1")
    text = pc.replace_substring_regex(text, r"\.$", "" if zone is None else ".0")
    return text if zone is None else pc.binary_join_element_wise(text, zone, " ")


def java_numbers(array: pa.Array) -> pa.Array:
    """Floats and doubles as Java prints them: from 1e-3 to 1e7 plain, else with an exponent."""
    text = array.cast(pa.string())
    size = pc.abs(array)
    plain = pc.or_(
        pc.and_(pc.greater_equal(size, _PLAIN_LEAST), pc.less(size, _PLAIN_END)),
        pc.equal(size, 0),
    )
    special = pc.invert(pc.is_finite(array))
    whole = pc.match_substring_regex(text, r"^-?[0-9]+$")
    result = pc.if_else(whole, pc.binary_join_element_wise(text, "", ".0"), text)
    if pc.any(special).as_py():
        names = pc.if_else(
            pc.is_nan(array), "NaN", pc.if_else(pc.greater(array, 0), "Infinity", "-Infinity")
        )
        result = pc.if_else(special, names, result)
    exponent = pc.invert(pc.or_(plain, special))
    if pc.any(exponent).as_py():
        result = pc.if_else(exponent, _scientific(text), result)
    return result


def _scientific(text: pa.Array) -> pa.Array:
    """``1.5e+20``, ``12345678.9`` or ``0.00015`` as ``1.5E20``, ``1.23456789E7``, ``1.5E-4``."""
    found = pc.extract_regex(text, _SIGN_AND_EXPONENT)
    sign, whole, rest, power = (pc.struct_field(found, [i]) for i in range(4))
    digits = pc.binary_join_element_wise(whole, rest, "")
    significant = pc.utf8_ltrim(digits, "0")
    leading = pc.subtract(pc.binary_length(digits), pc.binary_length(significant))
    significant = pc.utf8_rtrim(significant, "0")
    power = pc.if_else(pc.equal(power, ""), "0", pc.utf8_ltrim(power, "+")).cast(pa.int32())
    power = pc.add(power, pc.subtract(pc.subtract(pc.binary_length(whole), leading), 1))
    first = pc.utf8_slice_codeunits(significant, 0, 1)
    others = pc.utf8_slice_codeunits(significant, 1)
    others = pc.if_else(pc.equal(others, ""), "0", others)
    return pc.binary_join_element_wise(sign, first, ".", others, "E", power.cast(pa.string()), "")


def encode(array: pa.Array) -> pa.Array:
    """The Base64 of each binary value, without padding as in Hive's text files; NULL stays."""
    values = array.to_pylist()
    texts = [None if one is None else base64.b64encode(one).rstrip(b"=") for one in values]
    return pa.array(texts, pa.binary()).cast(pa.string())


def decode(array: pa.Array) -> pa.Array:
    """The value of each text of Base64; NULL where it is none."""
    return pa.array(map(_decoded, array.cast(pa.binary()).to_pylist()), pa.binary())


def _decoded(text: bytes | None) -> bytes | None:
    if text is None:
        return None
    letters = text.replace(b"=", b"")
    try:
        return base64.b64decode(letters + b"=" * (-len(letters) % 4), validate=True)
    except binascii.Error:
        return None

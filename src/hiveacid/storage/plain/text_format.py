"""Arrow columns as the lines of a text table, as Hive's LazySimpleSerDe writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import UnsupportedError
from hiveacid.model.properties import RowFormat
from hiveacid.model.tables import Column
from hiveacid.model.types import (
    CharType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from hiveacid.storage.arrow_types import LOCAL_ZONED, conform

_TIMESTAMP: Final = PrimitiveType("timestamp")
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
    if kind == _TIMESTAMP and pa.types.is_timestamp(array.type):
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
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    lists = pa.ListArray.from_arrays(pa.array(offsets), _filled(items, row_format))
    text = pc.binary_join(lists, bytes([row_format.separator(level)]))
    return pc.if_else(array.is_valid(), text, None) if array.null_count else text


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


# -------------------------------------------------------------------- Base64
# Base64 of whole Arrow columns, as Hive's text files hold binary values: without padding.


_ALPHABET: Final = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8
)
_BAD: Final = 255
_CODES: Final = np.full(256, _BAD, dtype=np.uint8)
_CODES[_ALPHABET] = np.arange(64, dtype=np.uint8)
_PADDING: Final = ord("=")


def encode(array: pa.Array) -> pa.Array:
    """The text of each binary value; NULL stays."""
    data, lengths = _bytes(array)
    groups = -(-lengths // 3)
    padded = np.zeros(int(groups.sum()) * 3, dtype=np.uint8)
    starts = _starts(groups) * 3
    padded[_within(starts, lengths)] = data
    first, second, third = padded.reshape(-1, 3).T
    codes = np.stack(
        (
            first >> 2,
            (first & 3) << 4 | second >> 4,
            (second & 15) << 2 | third >> 6,
            third & 63,
        ),
        axis=1,
    ).ravel()
    letters = (lengths * 4 + 2) // 3
    text = _ALPHABET[codes[_within(_starts(groups) * 4, letters)]]
    return _array(text, letters, array, pa.string())


def decode(array: pa.Array) -> pa.Array:
    """The value of each text; NULL where it is no Base64."""
    data, lengths = _bytes(array)
    row = np.repeat(np.arange(len(lengths)), lengths)
    kept = data != _PADDING
    codes = _CODES[data[kept]]
    row = row[kept]
    letters = np.bincount(row, minlength=len(lengths)).astype(np.int64)
    wrong = np.bincount(row, weights=codes == _BAD, minlength=len(lengths)) > 0
    wrong |= letters % 4 == 1
    groups = -(-letters // 4)
    padded = np.zeros(int(groups.sum()) * 4, dtype=np.uint8)
    padded[_within(_starts(groups) * 4, letters)] = codes
    a, b, c, d = padded.reshape(-1, 4).T
    values = np.stack((a << 2 | b >> 4, (b & 15) << 4 | c >> 2, (c & 3) << 6 | d), axis=1).ravel()
    sizes = letters * 3 // 4
    return _array(
        values[_within(_starts(groups) * 3, sizes)], sizes, array, pa.binary(), also_null=wrong
    )


def _bytes(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """All bytes of the values, and the length of each; NULL has none."""
    filled = array.cast(pa.binary()).fill_null(b"")
    offsets = np.frombuffer(filled.buffers()[1], dtype=np.int32)
    offsets = offsets[filled.offset : filled.offset + len(filled) + 1].astype(np.int64)
    data = filled.buffers()[2]
    whole = np.frombuffer(data, dtype=np.uint8) if data is not None else np.zeros(0, np.uint8)
    return whole[offsets[0] : offsets[-1]], np.diff(offsets)


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)[:-1]))[: len(counts)]


def _within(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The places ``starts[i] ... starts[i] + lengths[i] - 1`` of all rows."""
    offsets = _starts(lengths)
    places: np.ndarray = np.repeat(starts - offsets, lengths) + np.arange(int(lengths.sum()))
    return places


def _array(
    data: np.ndarray,
    lengths: np.ndarray,
    like: pa.Array,
    kind: pa.DataType,
    *,
    also_null: np.ndarray | None = None,
) -> pa.Array:
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))).astype(np.int32)
    found = pa.Array.from_buffers(
        kind, len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data.tobytes())]
    )
    null = like.is_null().to_numpy(zero_copy_only=False)
    if also_null is not None:
        null = null | also_null
    return found.take(pa.array(np.arange(len(found)), mask=null)) if null.any() else found

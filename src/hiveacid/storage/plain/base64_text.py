"""Base64 of whole Arrow columns, as Hive's text files hold binary values: without padding."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

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

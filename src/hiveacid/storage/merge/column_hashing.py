"""Hive's bucketing hash over Arrow columns, both versions (format.md 8.8).

Version 1 is Java's ``hashCode``, version 2 is Murmur3 over a byte form of the value. All arithmetic
is modulo 2**32 in unsigned arrays; only what is rare is computed value by value: decimals beyond 64
bits, timestamps outside 1970..2038. The tests compare with a hash of single values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.model.types import (
    CharType,
    DecimalType,
    HiveType,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    UnionType,
    VarcharType,
)
from hiveacid.storage.arrow_plain import pairs_of
from hiveacid.storage.arrow_types import TICKS
from hiveacid.storage.orc.decimal_digits import words_of

Hashes = npt.NDArray[np.uint32]
_Ints = npt.NDArray[np.int64]
_NANOS: Final = 1_000_000_000
_MURMUR_VERSION: Final = 2
_SEED: Final = 104729
_BLOCK: Final = 4


def bucket_ids(
    arrays: Sequence[pa.Array], types: Sequence[HiveType], n: int, *, version: int
) -> pa.Array:
    """The bucket (int32, 0 to ``n`` - 1) of each row from its bucketing columns in declared
    order.

    ``version`` is the table's ``bucketing_version``: 2 is Murmur3, any other number is version 1.

    Raises:
        InvalidInputError: ``n`` is not positive.
        UnsupportedError: Hive's hash of a type is not known.
    """
    if n <= 0:
        raise InvalidInputError(f"number of buckets is {n}, not positive", count=n)
    if version == _MURMUR_VERSION:
        arrays = [
            _with_spare_bytes(array) if str(kind) == "binary" else array
            for array, kind in zip(arrays, types, strict=True)
        ]
    hashes = hash_columns(arrays, types, version=version)
    return pa.array(((hashes & np.uint32(0x7FFF_FFFF)) % np.uint32(n)).astype(np.int32))


def _with_spare_bytes(array: pa.Array) -> pa.Array:
    """Binary values as Hive 4.1 hashes them: with the zeros behind them in a fresh buffer, which
    is half as long again.
    """
    lengths = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
    zeros = pa.array([bytes(n // 2) for n in range(int(lengths.max(initial=0)) + 1)], pa.binary())
    spare = zeros.take(pa.array(lengths.astype(np.int64)))
    return pc.binary_join_element_wise(array.cast(pa.binary()), spare, b"")


def hash_columns(arrays: Sequence[pa.Array], types: Sequence[HiveType], *, version: int) -> Hashes:
    """The hash of each row over several columns, as unsigned 32-bit numbers.

    Raises:
        UnsupportedError: Hive's hash of a type is not known.
    """
    total = np.zeros(len(arrays[0]), dtype=np.uint32)
    for array, kind in zip(arrays, types, strict=True):
        total = total * np.uint32(31) + hash_column(array, kind, version=version)
    return total


def hash_column(array: pa.Array, kind: HiveType, *, version: int) -> Hashes:
    """The hash of each value of one column; NULL is 0.

    Raises:
        UnsupportedError: Hive's hash of the type is not known.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    hashes = _hash_valid(array, kind, murmur=version == _MURMUR_VERSION)
    if array.null_count:
        hashes = np.where(array.is_valid().to_numpy(zero_copy_only=False), hashes, np.uint32(0))
    return hashes


def _hash_valid(array: pa.Array, kind: HiveType, *, murmur: bool) -> Hashes:
    """Hashes; those of null values mean nothing."""
    if isinstance(kind, CharType):
        array = pc.utf8_rtrim(array, " ")
    if isinstance(kind, CharType | VarcharType):
        return _hash_bytes(array, start=1, murmur=murmur)
    if isinstance(kind, DecimalType):
        return _hash_decimal(array, kind, murmur=murmur)
    if isinstance(kind, PrimitiveType):
        if kind.name in ("string", "binary"):
            return _hash_bytes(array, start=0 if kind.name == "string" else 1, murmur=murmur)
        if kind.name == "timestamp":
            return _hash_timestamp(array, murmur=murmur)
        if kind.name in _INTEGERS:
            target, width = _INTEGERS[kind.name]
            values = _filled(array, target).astype(np.int64)
            if murmur and width:
                return _murmur_integers(values, width=width)
            return _fold(values) if width == 8 else _low(values)
        if kind.name in _FLOATS:
            return _hash_float(array, kind.name, murmur=murmur)
    version = _MURMUR_VERSION if murmur else 1
    if isinstance(kind, StructType):
        fields = [field for _, field in kind.fields]
        return hash_columns(array.flatten(), fields, version=version)
    if isinstance(kind, ListType):
        items = hash_column(array.flatten(), kind.element, version=version)
        return _polynomial(items, *_stretches(array), start=0)
    if isinstance(kind, MapType):
        return _hash_map(array, kind, version=version)
    if isinstance(kind, UnionType):
        return _hash_union(array, kind, version=version)
    raise UnsupportedError(f"Bucketing by type {kind} is not supported", type=str(kind))


def _stretches(lists: pa.Array) -> tuple[_Ints, _Ints]:
    """Where each list's items begin in ``lists.flatten()``, and how many there are."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    lengths = lengths.astype(np.int64)
    return np.cumsum(lengths) - lengths, lengths


def _hash_map(array: pa.MapArray, kind: MapType, *, version: int) -> Hashes:
    entries = pairs_of(array)
    keys, items = entries.flatten().flatten()
    # Hive hashes map values by version 1 whatever the table's version.
    hashes = hash_column(keys, kind.key, version=version)
    hashes ^= hash_column(items, kind.value, version=1)
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(hashes.astype(np.int64))))
    starts, lengths = _stretches(entries)
    return _low(sums[starts + lengths] - sums[starts])


def _hash_union(array: pa.UnionArray, kind: UnionType, *, version: int) -> Hashes:
    tags = np.asarray(array.type_codes)
    hashes = np.zeros(len(array), dtype=np.uint32)
    for tag, alternative in enumerate(kind.alternatives):
        rows = np.flatnonzero(tags == tag)
        places = np.asarray(array.offsets)[rows] if array.type.mode == "dense" else rows
        chosen = array.field(tag).take(pa.array(places))
        hashes[rows] = hash_column(chosen, alternative, version=version)
    return hashes


_INTEGERS: Final[dict[str, tuple[pa.DataType, int]]] = {
    "boolean": (pa.bool_(), 0),
    "tinyint": (pa.int8(), 0),
    "smallint": (pa.int16(), 2),
    "int": (pa.int32(), 4),
    "bigint": (pa.int64(), 8),
    "date": (pa.date32(), 4),
}
"""Arrow type and number of bytes that Murmur gets; 0: the value itself is the hash."""

_FLOATS: Final[dict[str, tuple[pa.DataType, Any, Any, int]]] = {
    "float": (pa.float32(), np.float32, np.int32, 4),
    "double": (pa.float64(), np.float64, np.int64, 8),
}


def _filled(array: pa.Array, target: pa.DataType) -> npt.NDArray[Any]:
    if array.type != target:
        array = array.cast(target)
    if pa.types.is_date32(target):
        array = array.cast(pa.int32())
    if array.null_count:
        zero = False if pa.types.is_boolean(target) else 0
        array = pc.fill_null(array, pa.scalar(zero, array.type))
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _low(values: _Ints) -> Hashes:
    return (values & 0xFFFF_FFFF).astype(np.uint32)


def _fold(values: _Ints) -> Hashes:
    """Java's hash of a long."""
    bits = values.view(np.uint64)
    folded: Hashes = ((bits ^ (bits >> np.uint64(32))) & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
    return folded


def _hash_float(array: pa.Array, name: str, *, murmur: bool) -> Hashes:
    target, kind, bits_kind, width = _FLOATS[name]
    values = _filled(array, target).astype(kind, copy=True)
    values[np.isnan(values)] = np.nan  # Java has one NaN only
    bits = values.view(bits_kind)
    if not murmur:
        return _fold(bits) if width == 8 else _low(bits.astype(np.int64))
    # Hive's quirk: the bit pattern becomes a number of the type, whose bits are hashed
    converted = bits.astype(kind).view(bits_kind).astype(np.int64)
    return _murmur_integers(converted, width=width)


def _hash_decimal(array: pa.Array, kind: DecimalType, *, murmur: bool) -> Hashes:
    target = pa.decimal128(kind.precision, kind.scale)
    if array.type != target:
        array = array.cast(target)
    low, high = words_of(array)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    unscaled = np.where(valid, low, 0)
    if (valid & (high != low >> 63)).any() or (unscaled == -(2**63)).any():
        return _hash_wide_decimal(array, kind, murmur=murmur)
    scale = np.full(len(unscaled), kind.scale, dtype=np.int64)
    for _ in range(kind.scale):
        trims = (scale > 0) & (unscaled % 10 == 0)
        if not trims.any():
            break
        unscaled = np.where(trims, unscaled // 10, unscaled)
        scale -= trims
    if murmur:
        return _murmur_minimal(unscaled)
    magnitude = np.abs(unscaled).view(np.uint64)
    high, low = magnitude >> np.uint64(32), magnitude & np.uint64(0xFFFF_FFFF)
    integer = high.astype(np.uint32) * np.uint32(31) + low.astype(np.uint32)
    integer = np.where(unscaled < 0, np.uint32(0) - integer, integer)
    return np.asarray(integer * np.uint32(31) + _low(scale))


def _hash_wide_decimal(array: pa.Array, kind: DecimalType, *, murmur: bool) -> Hashes:
    trimmed = [_trimmed(value or Decimal(0), kind.scale) for value in array.to_pylist()]
    if murmur:
        data = [
            n.to_bytes((n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True)
            for n, _ in trimmed
        ]
        return _hash_bytes(pa.array(data, pa.large_binary()), start=0, murmur=True)
    words = [abs(n).to_bytes((abs(n).bit_length() + 31) // 32 * 4, "big") for n, _ in trimmed]
    counts = np.array([len(word) // 4 for word in words], dtype=np.int64)
    numbers = np.frombuffer(b"".join(words), dtype=">u4").astype(np.int64)
    integer = _polynomial(numbers, np.cumsum(counts) - counts, counts, start=0)
    negative = np.array([n < 0 for n, _ in trimmed])
    integer = np.where(negative, np.uint32(0) - integer, integer)
    scales = np.array([scale for _, scale in trimmed], dtype=np.uint32)
    return np.asarray(integer * np.uint32(31) + scales)


def _trimmed(value: Decimal, scale: int) -> tuple[int, int]:
    """The unscaled value and the scale without trailing zeros of the fraction."""
    unscaled = int(value.scaleb(scale, _EXACT))
    while scale and unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale - 1
    return unscaled, scale


_EXACT: Final = Context(prec=80)


def _hash_timestamp(array: pa.Array, *, murmur: bool) -> Hashes:
    unit = TICKS[array.type.unit]
    ticks = _filled(array.cast(pa.int64()), pa.int64())
    seconds, rest = np.divmod(ticks, unit)
    nanos = rest * (_NANOS // unit)
    if not murmur:
        return _fold(seconds << 30 | nanos)
    if len(seconds) and not (0 <= seconds.min() and seconds.max() <= 0x7FFF_FFFF):
        data = list(map(_timestamp_bytes, seconds.tolist(), nanos.tolist()))
        return _hash_bytes(pa.array(data, pa.large_binary()), start=0, murmur=True)
    return _murmur_timestamps(seconds, nanos)


def _timestamp_bytes(seconds: int, nanos: int) -> bytes:
    """The variable-length form in which Hive's TimestampWritable keeps a timestamp.

    ``seconds`` since 1970 rounded down, ``nanos`` 0..999999999.
    """
    wide = not 0 <= seconds <= 0x7FFF_FFFF
    head = seconds & 0x7FFF_FFFF
    if not wide and not nanos:
        return head.to_bytes(4, "big")
    reversed_nanos = int(f"{nanos:09d}"[::-1])
    result = (head | 0x8000_0000).to_bytes(4, "big")
    if not wide:
        return result + _vint(reversed_nanos)
    return result + _vint(-reversed_nanos - 1) + _vint(seconds >> 31)


def _vint(value: int) -> bytes:
    """Hadoop's variable-length integer."""
    if -112 <= value <= 127:
        return value.to_bytes(1, "big", signed=True)
    head, magnitude = (-120, ~value) if value < 0 else (-112, value)
    length = (magnitude.bit_length() + 7) // 8
    return (head - length).to_bytes(1, "big", signed=True) + magnitude.to_bytes(length, "big")


def _murmur_timestamps(seconds: _Ints, nanos: _Ints) -> Hashes:
    """TimestampWritable's bytes: 4 of seconds, then the decimally reversed nanoseconds as a
    VInt.
    """
    reversed_nanos = np.zeros_like(nanos)
    rest = nanos.copy()
    for _ in range(9):
        rest, digit = np.divmod(rest, 10)
        reversed_nanos = reversed_nanos * 10 + digit
    count = np.zeros(len(nanos), dtype=np.int64)
    for width in range(1, 5):
        count[reversed_nanos >= 1 << 8 * (width - 1)] = width
    one_byte = reversed_nanos <= 127
    matrix = np.zeros((len(nanos), 9), dtype=np.uint8)
    matrix[:, :4] = _big_endian((seconds | np.where(nanos > 0, 1 << 31, 0)), 4)
    matrix[:, 4] = np.where(one_byte, reversed_nanos, -112 - count).astype(np.int64) & 0xFF
    tail = _big_endian(reversed_nanos, 4)
    for width in range(1, 5):
        rows = (count == width) & ~one_byte
        matrix[rows, 5 : 5 + width] = tail[rows, 4 - width :]
    lengths = np.where(nanos == 0, 4, np.where(one_byte, 5, 5 + count))
    starts = np.arange(len(nanos), dtype=np.int64) * 9
    return _murmur(matrix.reshape(-1), starts, lengths)


def _big_endian(values: _Ints, width: int) -> npt.NDArray[np.uint8]:
    matrix = values.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]
    return np.ascontiguousarray(matrix)


def _murmur_integers(values: _Ints, *, width: int) -> Hashes:
    matrix = _big_endian(values, width)
    starts = np.arange(len(values), dtype=np.int64) * width
    return _murmur(matrix.reshape(-1), starts, np.full(len(values), width, dtype=np.int64))


def _murmur_minimal(values: _Ints) -> Hashes:
    """Murmur of the shortest two's complement bytes of each number."""
    magnitude = np.where(values < 0, ~values, values)
    lengths = np.ones(len(values), dtype=np.int64)
    for width in range(1, 8):
        lengths[magnitude >= 1 << (8 * width - 1)] = width + 1
    starts = np.arange(len(values), dtype=np.int64) * 8 + 8 - lengths
    return _murmur(_big_endian(values, 8).reshape(-1), starts, lengths)


def _hash_bytes(array: pa.Array, *, start: int, murmur: bool) -> Hashes:
    data, starts, lengths = _bytes_of(array)
    if murmur:
        return _murmur(data, starts, lengths)
    return _polynomial(data.view(np.int8), starts, lengths, start=start)


def _bytes_of(array: pa.Array) -> tuple[npt.NDArray[np.uint8], _Ints, _Ints]:
    """The bytes of all values, and where each value's begin and how many there are."""
    if not (pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)):
        array = array.cast(pa.large_binary())
    _, offset_buffer, data_buffer = array.buffers()
    if not len(array):
        return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    offsets = np.frombuffer(offset_buffer, dtype=np.int64)
    offsets = offsets[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8) if data_buffer else np.zeros(0, np.uint8)
    return data, offsets[:-1], np.diff(offsets)


def _polynomial(numbers: npt.NDArray[Any], starts: _Ints, lengths: _Ints, *, start: int) -> Hashes:
    """Java's hash of stretches of numbers: 31 times what was before, and the next number."""
    result = np.full(len(starts), start, dtype=np.uint32)

    def step(rows: Any, at: int) -> None:
        number = numbers[starts[rows] + at].astype(np.int64)
        result[rows] = result[rows] * np.uint32(31) + _low(number)

    _by_position(lengths, step)
    return result


def murmur_of_integers(values: npt.NDArray[np.int32], *, seed: int) -> npt.NDArray[np.int32]:
    """Murmur3 of the four bytes of each number, the lowest first."""
    starts = np.arange(len(values), dtype=np.int64) * 4
    data = values.astype("<i4").view(np.uint8)
    return _murmur(data, starts, np.full_like(starts, 4), seed=seed).view(np.int32)


def _murmur(
    data: npt.NDArray[np.uint8], starts: _Ints, lengths: _Ints, *, seed: int = _SEED
) -> Hashes:
    result = np.full(len(starts), seed, dtype=np.uint32)

    def step(rows: Any, at: int) -> None:
        first = starts[rows] + at * _BLOCK
        block = np.zeros(len(first), dtype=np.uint32)
        for byte in range(_BLOCK):
            block |= data[first + byte].astype(np.uint32) << np.uint32(8 * byte)
        mixed = result[rows] ^ _mix(block)
        mixed = mixed << np.uint32(13) | mixed >> np.uint32(19)
        result[rows] = mixed * np.uint32(5) + np.uint32(0xE654_6B64)

    _by_position(lengths // _BLOCK, step)
    whole = lengths // _BLOCK * _BLOCK
    signed = data.view(np.int8)
    tail = np.zeros(len(starts), dtype=np.uint32)
    for at in range(_BLOCK - 1):
        rows = np.flatnonzero(lengths - whole > at)
        byte = _low(signed[starts[rows] + whole[rows] + at].astype(np.int64))
        tail[rows] ^= byte << np.uint32(8 * at)
    rows = np.flatnonzero(lengths != whole)
    result[rows] ^= _mix(tail[rows])
    result ^= _low(lengths)
    result = (result ^ result >> np.uint32(16)) * np.uint32(0x85EB_CA6B)
    result = (result ^ result >> np.uint32(13)) * np.uint32(0xC2B2_AE35)
    return np.asarray(result ^ result >> np.uint32(16))


def _mix(block: Hashes) -> Hashes:
    block = block * np.uint32(0xCC9E_2D51)
    block = block << np.uint32(15) | block >> np.uint32(17)
    return np.asarray(block * np.uint32(0x1B87_3593))


def _by_position(counts: _Ints, step: Callable[[Any, int], None]) -> None:
    """Call ``step(rows, i)`` for i = 0, 1, ... with the rows whose count is greater than i."""
    if not len(counts):
        return
    if counts.min() == counts.max():
        for at in range(int(counts[0])):
            step(slice(None), at)
        return
    order = np.argsort(-counts, kind="stable")
    descending = -counts[order]
    for at in range(int(counts.max())):
        step(order[: np.searchsorted(descending, -at, side="left")], at)

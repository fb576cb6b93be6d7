"""Hive's bucketing hash of one value, both versions (format.md 8.8): columns are compared with it.

Version 1 is Java's ``hashCode``, version 2 is Murmur3 over a byte form of the value. All results
are signed 32-bit integers. Values are Python's: bool, int, float, str, bytes, ``date``,
``Decimal``; a timestamp is a naive ``datetime`` in UTC or an int of nanoseconds since 1970; a list
is a sequence, a map a mapping, a struct a sequence of field values, a union a (tag, value) pair.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

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

HASH_SEED: Final = 104729
_MASK32 = 0xFFFF_FFFF
_MASK64 = 0xFFFF_FFFF_FFFF_FFFF
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.date().toordinal()


def bucket_number(hash_code: int, count: int) -> int:
    """The bucket of a row whose bucketing columns hash to ``hash_code``.

    Raises:
        InvalidInputError: ``count`` is not positive.
    """
    if count <= 0:
        raise InvalidInputError(f"Number of buckets is {count}, not positive", count=count)
    return (hash_code & 0x7FFF_FFFF) % count


def hash_row(types: Sequence[HiveType], values: Sequence[object], *, version: int) -> int:
    """The hash of several bucketing columns, in their declared order.

    Raises:
        UnsupportedError: Hive's hash of a type is not known.
    """
    hashes = (
        hash_value(kind, value, version=version) for kind, value in zip(types, values, strict=True)
    )
    return combine(hashes)


def combine(hashes: Iterable[int]) -> int:
    """The hash of columns, struct fields or list elements from their own hashes."""
    result = 0
    for one in hashes:
        result = (31 * result + one) & _MASK32
    return _signed(result)


def hash_value(kind: HiveType, value: Any, *, version: int) -> int:
    """The hash of one value; NULL is 0.

    ``version`` is the table's ``bucketing_version``: 2 is Murmur3, any other number is version 1.

    Raises:
        UnsupportedError: Hive's hash of the type is not known.
    """
    if value is None:
        return 0
    if isinstance(kind, ListType):
        return combine(hash_value(kind.element, item, version=version) for item in value)
    if isinstance(kind, StructType):
        types = [field_type for _, field_type in kind.fields]
        return hash_row(types, value, version=version)
    if isinstance(kind, MapType):
        return _hash_map(kind, value, version=version)
    if isinstance(kind, UnionType):
        tag, inner = value
        return hash_value(kind.alternatives[tag], inner, version=version)
    return _hash_murmur(kind, value) if version == 2 else _hash_java(kind, value)


def murmur3(data: bytes) -> int:
    """Murmur3 x86 32-bit as Hive computes it: the last 1 to 3 bytes are sign-extended."""
    result = HASH_SEED
    whole = len(data) & ~3
    for (block,) in struct.iter_unpack("<i", data[:whole]):
        result ^= _mix(block)
        result = (result << 13 | result >> 19) & _MASK32
        result = (result * 5 + 0xE654_6B64) & _MASK32
    tail = 0
    for at, byte in enumerate(data[whole:]):
        tail ^= (byte - 256 if byte > 127 else byte) << 8 * at
    if whole != len(data):
        result ^= _mix(tail)
    result ^= len(data)
    result = (result ^ result >> 16) * 0x85EB_CA6B & _MASK32
    result = (result ^ result >> 13) * 0xC2B2_AE35 & _MASK32
    return _signed(result ^ result >> 16)


def timestamp_bytes(seconds: int, nanos: int) -> bytes:
    """The variable-length form in which Hive's TimestampWritable keeps a timestamp.

    ``seconds`` since 1970 rounded down, ``nanos`` 0..999999999.
    """
    wide = not 0 <= seconds <= 0x7FFF_FFFF
    head = seconds & 0x7FFF_FFFF
    if not wide and not nanos:
        return struct.pack(">I", head)
    reversed_nanos = int(f"{nanos:09d}"[::-1])
    result = struct.pack(">I", head | 0x8000_0000)
    if not wide:
        return result + _vint(reversed_nanos)
    return result + _vint(-reversed_nanos - 1) + _vint(seconds >> 31)


def decimal_parts(value: Decimal) -> tuple[int, int]:
    """The unscaled value and scale without trailing zeros of the fraction; the scale is >= 0."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidInputError(f"Decimal {value} is not a number", value=str(value))
    unscaled = int("".join(map(str, digits)) or "0")
    if exponent > 0:
        unscaled, exponent = unscaled * 10**exponent, 0
    while exponent < 0 and unscaled % 10 == 0:
        unscaled, exponent = unscaled // 10, exponent + 1
    return (-unscaled if sign else unscaled), -exponent


def timestamp_parts(value: datetime | int) -> tuple[int, int]:
    """Seconds since 1970 rounded down, and nanoseconds, of a UTC time."""
    if isinstance(value, datetime):
        since = value.replace(tzinfo=None) - _EPOCH
        return since.days * 86_400 + since.seconds, since.microseconds * 1000
    return divmod(value, 1_000_000_000)


def _hash_map(kind: MapType, value: Mapping[Any, Any], *, version: int) -> int:
    total = 0
    for key, item in value.items():
        # Hive hashes map values by version 1 whatever the table's version.
        key_hash = hash_value(kind.key, key, version=version)
        total += key_hash ^ hash_value(kind.value, item, version=1)
    return _signed(total)


def _hash_java(kind: HiveType, value: Any) -> int:
    if isinstance(kind, DecimalType):
        unscaled, scale = decimal_parts(value)
        return _signed(31 * _big_integer_hash(unscaled) + scale)
    if isinstance(kind, CharType):
        return _polynomial(value.rstrip(" ").encode(), start=1)
    if isinstance(kind, VarcharType):
        return _polynomial(value.encode(), start=1)
    return _primitive(_JAVA, kind)(value)


def _hash_murmur(kind: HiveType, value: Any) -> int:
    if isinstance(kind, DecimalType):
        unscaled, _ = decimal_parts(value)
        magnitude = unscaled if unscaled >= 0 else ~unscaled
        return murmur3(unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(kind, CharType):
        return murmur3(value.rstrip(" ").encode())
    if isinstance(kind, VarcharType):
        return murmur3(value.encode())
    return _primitive(_MURMUR, kind)(value)


def _primitive(table: Mapping[str, Callable[[Any], int]], kind: HiveType) -> Callable[[Any], int]:
    found = table.get(kind.name) if isinstance(kind, PrimitiveType) else None
    if found is None:
        raise UnsupportedError(f"Bucketing by type {kind} is not supported", type=str(kind))
    return found


def _signed(value: int) -> int:
    value &= _MASK32
    return value - (1 << 32) if value >> 31 else value


def _fold(value: int) -> int:
    value &= _MASK64
    return _signed(value ^ value >> 32)


def _mix(block: int) -> int:
    block = block * 0xCC9E_2D51 & _MASK32
    block = (block << 15 | block >> 17) & _MASK32
    return block * 0x1B87_3593 & _MASK32


def _polynomial(data: bytes, *, start: int) -> int:
    result = start
    for byte in data:
        result = (31 * result + (byte - 256 if byte > 127 else byte)) & _MASK32
    return _signed(result)


def _big_integer_hash(value: int) -> int:
    magnitude = abs(value)
    words = magnitude.to_bytes((magnitude.bit_length() + 31) // 32 * 4, "big")
    result = combine(word for (word,) in struct.iter_unpack(">I", words))
    return -result if value < 0 else result


def _vint(value: int) -> bytes:
    """Hadoop's variable-length integer."""
    if -112 <= value <= 127:
        return struct.pack("b", value)
    head, magnitude = (-120, ~value) if value < 0 else (-112, value)
    length = (magnitude.bit_length() + 7) // 8
    return struct.pack("b", head - length) + magnitude.to_bytes(length, "big")


def _float_bits(value: float) -> int:
    if math.isnan(value):
        return 0x7FC0_0000
    try:
        packed = struct.pack(">f", value)
    except OverflowError:
        packed = struct.pack(">f", math.copysign(math.inf, value))
    return int.from_bytes(packed, "big", signed=True)


def _double_bits(value: float) -> int:
    if math.isnan(value):
        return 0x7FF8_0000_0000_0000
    return int.from_bytes(struct.pack(">d", value), "big", signed=True)


def _days(value: date) -> int:
    return value.toordinal() - _EPOCH_DAY


def _integer_bytes(value: int, width: int) -> bytes:
    return (value & (1 << 8 * width) - 1).to_bytes(width, "big")


def _timestamp_java(value: datetime | int) -> int:
    seconds, nanos = timestamp_parts(value)
    return _fold(seconds << 30 | nanos)


_JAVA: Final[Mapping[str, Callable[[Any], int]]] = {
    "boolean": int,
    "tinyint": int,
    "smallint": int,
    "int": int,
    "bigint": _fold,
    "float": _float_bits,
    "double": lambda value: _fold(_double_bits(value)),
    "string": lambda value: _polynomial(value.encode(), start=0),
    "binary": lambda value: _polynomial(value, start=1),
    "date": _days,
    "timestamp": _timestamp_java,
}

_MURMUR: Final[Mapping[str, Callable[[Any], int]]] = {
    "boolean": int,
    "tinyint": int,
    "smallint": lambda value: murmur3(_integer_bytes(value, 2)),
    "int": lambda value: murmur3(_integer_bytes(value, 4)),
    "bigint": lambda value: murmur3(_integer_bytes(value, 8)),
    # Hive converts the bit pattern to a floating-point number and hashes that number's bytes.
    "float": lambda value: murmur3(struct.pack(">f", _float_bits(value))),
    "double": lambda value: murmur3(struct.pack(">d", _double_bits(value))),
    "string": lambda value: murmur3(value.encode()),
    "binary": murmur3,
    "date": lambda value: murmur3(_integer_bytes(_days(value), 4)),
    "timestamp": lambda value: murmur3(timestamp_bytes(*timestamp_parts(value))),
}

"""How Hive 4.1 sets its ORC writer, by kind of file and table properties (format.md 5.3,
real-hive.md 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hiveacid.errors import InvalidInputError, UnsupportedError
from hiveacid.storage.target import FileKind

_KIB: Final = 1024
_MIB: Final = 1024 * 1024
_DELTA_RATIO: Final = 8
_BUFFER_STEP: Final = 64 * _KIB
"""Arrow's ORC writer takes compression blocks in multiples of 64 KiB only."""
_COMPRESSIONS: Final = {
    "NONE": "uncompressed",
    "ZLIB": "zlib",
    "SNAPPY": "snappy",
    "LZ4": "lz4",
    "ZSTD": "zstd",
}


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """Settings of one ORC file; ``compression`` is Arrow's word."""

    compression: str
    stripe_bytes: int
    buffer_bytes: int
    row_index_stride: int


def writer_settings(kind: FileKind, *, properties: Mapping[str, str]) -> WriterSettings:
    """Settings for a kind of file under a table's properties (``orc.*``, case ignored).

    Insert deltas get an eighth of stripe and buffer; delete deltas, bases and plain files the
    whole.

    Raises:
        InvalidInputError: a property is not a number, or the compression is unknown.
        UnsupportedError: a compression that Hive knows and cannot be written here (LZO, BROTLI).
    """
    lower = {key.lower(): value for key, value in properties.items()}
    ratio = _DELTA_RATIO if kind is FileKind.INSERT else 1
    buffer = _number(lower, "orc.compress.size", 256 * _KIB) // ratio
    stride = _number(lower, "orc.row.index.stride", 10_000)
    return WriterSettings(
        compression=_compression(lower.get("orc.compress", "ZLIB").upper()),
        stripe_bytes=max(_number(lower, "orc.stripe.size", 64 * _MIB) // ratio, 1),
        buffer_bytes=max(-(-buffer // _BUFFER_STEP) * _BUFFER_STEP, _BUFFER_STEP),
        row_index_stride=stride or 10_000,
    )


def _compression(name: str) -> str:
    if name in ("LZO", "BROTLI"):
        raise UnsupportedError(f"orc.compress={name} cannot be written", property="orc.compress")
    if name not in _COMPRESSIONS:
        raise InvalidInputError(f"unknown orc.compress {name!r}", property="orc.compress")
    return _COMPRESSIONS[name]


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, str(default))
    try:
        value = int(text)
    except ValueError as error:
        raise InvalidInputError(f"{key}={text!r} is not a number", property=key) from error
    if value < 0:
        raise InvalidInputError(f"{key}={text!r} is negative", property=key)
    return value

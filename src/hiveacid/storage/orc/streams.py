"""The streams of a timestamp column in one stripe: seconds and coded nanoseconds.

Arrow's ORC reader knows timestamps of 1677 to 2262 only. For others the same file is read with its
timestamps declared ``bigint`` (``as_seconds``): a timestamp's DATA stream has a bigint's form and
holds the seconds since 2015, so the reader still does the nesting, the nulls and the compression.
The SECONDARY stream, the nanoseconds, is read in the same way from a file in memory that has
nothing else (ORC specification, "Run Length Encoding", "Timestamp Columns").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import orc

from hiveacid.errors import FormatError
from hiveacid.storage.orc import proto
from hiveacid.storage.orc.tail import MAGIC, Compression, OrcTail, decompress, parse_message, stored

Int16s = npt.NDArray[np.int16]
Int64s = npt.NDArray[np.int64]

SECONDARY: Final = 5
"""Kind of the stream that holds nanoseconds."""
TIMESTAMP_KINDS: Final = (9, 18)
"""Type kinds with seconds and nanoseconds: with the writer's wall clock, and in UTC."""
EPOCH_S: Final = 1_420_070_400
"""2015-01-01 in seconds since 1970: what a DATA stream counts from."""
_BIGINT: Final = 4
_STRUCT: Final = 12
_DATA: Final = 1
_DIRECT: Final = 0
_DIRECT_V2: Final = 2
_RUN_1: Final = 130
_ZEROS_1: Final = bytes([_RUN_1 - 3, 0, 0])
"""A run of so many zeros in version 1."""


def as_seconds(tail: OrcTail) -> bytes:
    """A tail for the same stripes: a timestamp is a ``bigint``, the seconds since 2015."""
    footer = proto.Footer()
    footer.CopyFrom(tail.footer)
    for node in footer.types:
        if node.kind in TIMESTAMP_KINDS:
            node.kind = _BIGINT
    del footer.statistics[:]
    body = stored(footer.SerializeToString(), tail=tail)
    postscript = proto.PostScript()
    postscript.CopyFrom(tail.postscript)
    postscript.footerLength = len(body)
    postscript.metadataLength = 0
    end = postscript.SerializeToString()
    serialised: bytes = body + end + bytes([len(end)])
    return serialised


class StripeStreams:
    """The streams of one stripe, read one by one."""

    def __init__(
        self, source: pa.NativeFile, tail: OrcTail, number: int, *, exact: bool = False
    ) -> None:
        """Read the stripe's footer; ``exact`` asks for ``fractions``: the nanoseconds that
        microseconds leave over, by column number.

        Raises:
            FormatError: damaged.
        """
        self.exact = exact
        self.fractions: dict[int, pa.Array] = {}
        self._source = source
        self._tail = tail
        info = tail.footer.stripes[number]
        self._start = int(info.offset)
        raw = self._section(
            self._start + int(info.indexLength) + int(info.dataLength), int(info.footerLength)
        )
        self._footer: Any = parse_message(proto.StripeFooter, raw, what="stripe footer")

    @property
    def writer_zone(self) -> str:
        """The time zone in which wall clocks were written; UTC where none is named."""
        return self._footer.writerTimezone or "UTC"

    def nanoseconds(self, column: int, count: int) -> Int64s:
        """The fractions of the ``count`` timestamps of a column that are not null.

        Raises:
            FormatError: damaged.
        """
        at = self._start
        for stream in self._footer.streams:
            if stream.column == column and stream.kind == SECONDARY:
                data = self._section(at, int(stream.length))
                version_1 = self._footer.columns[column].kind == _DIRECT
                return decode_nanoseconds(data, count, version_1=version_1)
            at += int(stream.length)
        return np.zeros(count, dtype=np.int64)

    def _section(self, offset: int, length: int) -> bytes:
        self._source.seek(offset)
        data = self._source.read(length)
        return decompress(
            data, compression=self._tail.compression, block_bytes=self._tail.block_bytes
        )


def decode_seconds(data: bytes, count: int) -> Int64s:
    """``count`` numbers of a signed integer stream of version 2.

    Raises:
        FormatError: damaged: fewer numbers, or bytes that mean nothing.
    """
    if not count:
        return np.zeros(0, dtype=np.int64)
    numbers = _column(_BIGINT, {_DATA: data}, count, encoding=_DIRECT_V2)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.int64)


def decode_nanoseconds(data: bytes, count: int, *, version_1: bool = False) -> Int64s:
    """The nanoseconds of ``count`` timestamps, of their SECONDARY stream.

    Raises:
        FormatError: as ``decode_seconds``.
    """
    if not count:
        return np.zeros(0, dtype=np.int64)
    seconds = encode_signed(np.zeros(count, dtype=np.int64))
    if version_1:
        seconds = _ZEROS_1 * -(-count // _RUN_1)
    streams = {_DATA: seconds, SECONDARY: data}
    encoding = _DIRECT if version_1 else _DIRECT_V2
    times = _column(TIMESTAMP_KINDS[0], streams, count, encoding=encoding)
    ticks = times.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.asarray(ticks - EPOCH_S * 10**9, dtype=np.int64)


def _column(kind: int, streams: Mapping[int, bytes], count: int, *, encoding: int) -> pa.Array:
    """A column without nulls, read by Arrow from a file made of its streams alone."""
    footer = proto.StripeFooter(writerTimezone="UTC")
    footer.columns.add(kind=_DIRECT)
    footer.columns.add(kind=encoding)
    for name, data in streams.items():
        footer.streams.add(kind=name, column=1, length=len(data))
    body, end = b"".join(streams.values()), footer.SerializeToString()
    at = len(MAGIC)
    whole = proto.Footer(headerLength=at, contentLength=at + len(body) + len(end))
    whole.numberOfRows = count
    whole.types.add(kind=_STRUCT, subtypes=[1], fieldNames=["c"])
    whole.types.add(kind=kind)
    whole.stripes.add(
        offset=at, indexLength=0, dataLength=len(body), footerLength=len(end), numberOfRows=count
    )
    tail = whole.SerializeToString()
    postscript = proto.PostScript(footerLength=len(tail), version=[0, 12], magic="ORC")
    postscript.compression = Compression.NONE.value
    last = postscript.SerializeToString()
    file = b"".join((MAGIC, body, end, tail, last, bytes([len(last)])))
    try:
        return orc.ORCFile(pa.BufferReader(file)).read_stripe(0).column(0)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(
            f"an integer stream is damaged: {error}",
            expected=f"{count} numbers",
            found=str(error),
        ) from error


_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Bits of a number, by the code in a run's head."""


def encode_signed(numbers: Int64s) -> bytes:
    """Numbers as a signed integer stream of version 2, in direct runs."""
    return encode_unsigned((numbers << 1 ^ numbers >> 63).view(np.uint64))


def encode_unsigned(numbers: npt.NDArray[np.uint64]) -> bytes:
    """Numbers as an unsigned integer stream of version 2, in direct runs."""
    return b"".join(
        _direct_run(numbers[start : start + _RUN]) for start in range(0, len(numbers), _RUN)
    )


def encode_nanoseconds(nanoseconds: Int64s) -> bytes:
    """A SECONDARY stream: coded nanoseconds, of which no zeros are left out."""
    return encode_unsigned((nanoseconds << 3).view(np.uint64))


_RUN: Final = 512


def _direct_run(numbers: npt.NDArray[np.uint64]) -> bytes:
    needed = max(int(numbers.max()).bit_length(), 1)
    code = next(i for i, width in enumerate(_WIDTHS) if width >= needed)
    bits = np.unpackbits(numbers.astype(">u8").view(np.uint8)).reshape(-1, 64)
    packed = np.packbits(bits[:, 64 - _WIDTHS[code] :].reshape(-1)).tobytes()
    last = len(numbers) - 1
    return bytes([1 << 6 | code << 1 | last >> 8, last & 255]) + packed

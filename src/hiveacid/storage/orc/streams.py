"""The streams of a timestamp column in one stripe: seconds and coded nanoseconds.

Arrow's ORC reader knows timestamps of 1677 to 2262 only. For others the same file is read with its
timestamps declared ``bigint`` (``as_seconds``): a timestamp's DATA stream has a bigint's form and
holds the seconds since 2015, so the reader still does the nesting, the nulls and the compression.
Only the SECONDARY stream, the nanoseconds, is decoded here (ORC specification, "Run Length
Encoding" versions 1 and 2, "Timestamp Columns").
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hiveacid.errors import FormatError
from hiveacid.storage.orc import proto
from hiveacid.storage.orc.tail import OrcTail, decompress, parse_message, stored

Int16s = npt.NDArray[np.int16]
Int64s = npt.NDArray[np.int64]

SECONDARY: Final = 5
"""Kind of the stream that holds nanoseconds."""
TIMESTAMP_KINDS: Final = (9, 18)
"""Type kinds with seconds and nanoseconds: with the writer's wall clock, and in UTC."""
EPOCH_S: Final = 1_420_070_400
"""2015-01-01 in seconds since 1970: what a DATA stream counts from."""
_BIGINT: Final = 4
_DIRECT: Final = 0
_NANOS_MASK: Final = 7


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
                return decode_nanoseconds(
                    decode_integers(data, count, signed=False, version_1=version_1)
                )
            at += int(stream.length)
        return np.zeros(count, dtype=np.int64)

    def _section(self, offset: int, length: int) -> bytes:
        self._source.seek(offset)
        data = self._source.read(length)
        return decompress(
            data, compression=self._tail.compression, block_bytes=self._tail.block_bytes
        )


def decode_nanoseconds(coded: Int64s) -> Int64s:
    """Nanoseconds of coded ones: the last three bits count trailing zeros that were left out."""
    zeros = coded & _NANOS_MASK
    factor = np.where(zeros > 0, 10 ** (zeros + 1), 1)
    return np.asarray((coded >> 3) * factor, dtype=np.int64)


def decode_integers(data: bytes, count: int, *, signed: bool, version_1: bool = False) -> Int64s:
    """``count`` numbers of an integer stream.

    Raises:
        FormatError: damaged: fewer numbers, or bytes that mean nothing.
    """
    decoder = _Runs(data, signed=signed)
    result = np.empty(count, dtype=np.int64)
    done = 0
    try:
        while done < count:
            run = decoder.run_1() if version_1 else decoder.run_2()
            taken = min(len(run), count - done)
            result[done : done + taken] = run[:taken]
            done += taken
    except (IndexError, ValueError, OverflowError) as error:
        raise FormatError(
            f"an integer stream ends after {done} of {count} numbers",
            expected=f"{count} numbers",
            found=f"{done} numbers",
        ) from error
    return result


class _Runs:
    """Reads run after run of an integer stream."""

    def __init__(self, data: bytes, *, signed: bool) -> None:
        self._signed = signed
        self._data = data
        self._bytes = np.frombuffer(data, dtype=np.uint8)
        self._at = 0

    def run_1(self) -> Int64s:
        """A run of version 1."""
        control = self._byte()
        if control < 128:
            delta = self._byte()
            base = self._number()
            step = delta - 256 if delta > 127 else delta
            return base + step * np.arange(control + 3, dtype=np.int64)
        return np.array([self._number() for _ in range(256 - control)], dtype=np.int64)

    def run_2(self) -> Int64s:
        """A run of version 2: short repeat, direct, patched base or delta."""
        head = self._byte()
        kind, code = head >> 6, head >> 1 & 31
        if kind == 0:
            value = self._big_endian((head >> 3 & 7) + 1)
            value = value >> 1 ^ -(value & 1) if self._signed else value
            return np.full((head & 7) + 3, value, dtype=np.int64)
        length = ((head & 1) << 8 | self._byte()) + 1
        if kind == 1:
            packed = self._packed(length, _WIDTHS[code])
            return _from_zigzag(packed) if self._signed else packed
        if kind == 2:
            return self._patched(length, _WIDTHS[code])
        base, step = self._number(), self._signed_varint()
        steps = np.full(length, step, dtype=np.int64)
        steps[0] = 0
        if code:
            more = self._packed(length - 2, _WIDTHS[code])
            steps[2:] = -more if step < 0 else more
        return base + np.cumsum(steps)

    def _patched(self, length: int, width: int) -> Int64s:
        third, fourth = self._byte(), self._byte()
        base_bytes, patch_width = (third >> 5) + 1, _WIDTHS[third & 31]
        gap_width, patches = (fourth >> 5) + 1, fourth & 31
        base = self._big_endian(base_bytes)
        sign = 1 << (8 * base_bytes - 1)
        if base & sign:
            base = -(base & (sign - 1))
        values = self._packed(length, width)
        place = 0
        together = next(w for w in _WIDTHS if w >= gap_width + patch_width)
        for patch in self._packed(patches, together).tolist():
            place += patch >> patch_width & ((1 << gap_width) - 1)
            values[place] |= (patch & ((1 << patch_width) - 1)) << width
        return base + values

    def _packed(self, count: int, width: int) -> Int64s:
        """``count`` numbers of ``width`` bits each, the first bit first."""
        size = (count * width + 7) // 8
        part = self._bytes[self._at : self._at + size]
        if len(part) < size:
            raise IndexError("not so many bytes")
        self._at += size
        bits = np.unpackbits(part)[: count * width].reshape(count, width)
        wide = np.zeros((count, 64), dtype=np.uint8)
        wide[:, 64 - width :] = bits
        packed = np.packbits(wide, axis=1).reshape(-1)
        return packed.view(">u8").astype(np.uint64).view(np.int64)

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _big_endian(self, size: int) -> int:
        value = int.from_bytes(self._data[self._at : self._at + size], "big")
        self._at += size
        if self._at > len(self._data):
            raise IndexError("not so many bytes")
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def _number(self) -> int:
        return self._signed_varint() if self._signed else self._varint()

    def _signed_varint(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


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


def _from_zigzag(packed: Int64s) -> Int64s:
    half = (packed.view(np.uint64) >> np.uint64(1)).view(np.int64)
    result: Int64s = half ^ -(packed & 1)
    return result

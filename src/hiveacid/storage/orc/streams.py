"""Streams of a stripe that are decoded beside Arrow's ORC reader: timestamps, which it refuses or
gets wrong, at any depth.

Arrow's ORC reader knows timestamps of 1677 to 2262 only. For others the same file is read with its
timestamps declared ``bigint`` (``as_seconds``): a timestamp's DATA stream has a bigint's form and
holds the seconds since 2015, so the reader still does the nesting, the nulls and the compression.
The SECONDARY stream, the nanoseconds, is read in the same way from a file in memory that has
nothing else (ORC specification, "Run Length Encoding", "Timestamp Columns").

Of a stripe that was written in another time zone than UTC it takes a fraction of a second for one
before or after 1970 by the wall clock, where Java's reader asks the time itself: between both it is
one second off. Before 1900 it asks for the zone's local mean time, where Java takes the zone's time
of today, without summer time. Such stripes are read with bigints in the place of timestamps, too;
then they become timestamps of microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from hiveacid.errors import FormatError, UnsupportedError
from hiveacid.model.types import PrimitiveType, UnionType
from hiveacid.storage.arrow_types import LOCAL_ZONED, leaves, with_children
from hiveacid.storage.orc import proto
from hiveacid.storage.orc.tail import (
    MAGIC,
    Compression,
    OrcTail,
    decompress,
    parse_message,
    tail_with,
)

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
    footer = deepcopy(tail.footer)
    for node in footer.types:
        if node.kind in TIMESTAMP_KINDS:
            node.kind = _BIGINT
    del footer.statistics[:]
    return tail_with(tail, footer, metadata_section=b"")


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
        start = self._start + int(info.indexLength) + int(info.dataLength)
        raw = self._content(self._read(start, int(info.footerLength)))
        self._footer: Any = parse_message(proto.StripeFooter, raw, what="stripe footer")
        self._places: dict[tuple[int, int], tuple[int, int]] = {}
        at = self._start
        for stream in self._footer.streams:
            self._places[stream.column, stream.kind] = at, int(stream.length)
            at += int(stream.length)

    @property
    def writer_zone(self) -> str:
        """The time zone in which wall clocks were written; UTC where none is named."""
        return self._footer.writerTimezone or "UTC"

    def nanoseconds(self, column: int, count: int) -> Int64s:
        """The fractions of the ``count`` timestamps of a column that are not null.

        Raises:
            FormatError: damaged.
        """
        data = self.section(column, SECONDARY)
        if data is None:
            return np.zeros(count, dtype=np.int64)
        return decode_nanoseconds(data, count, version_1=self.encoding(column).kind == _DIRECT)

    def encoding(self, column: int) -> Any:
        """How a column is stored (a parsed message)."""
        return self._footer.columns[column]

    def section(self, column: int, kind: int) -> bytes | None:
        """The content of a stream of a column; None where it has none of that kind.

        Raises:
            FormatError: damaged.
        """
        return self._content(self.stored(column, kind)) if self.has(column, kind) else None

    def stored(self, column: int, kind: int) -> bytes:
        """A stream of a column as it lies in the file, which has it."""
        return self._read(*self._places[column, kind])

    def has(self, column: int, kind: int) -> bool:
        """Whether a column has a stream of that kind."""
        return (column, kind) in self._places

    def _read(self, offset: int, length: int) -> bytes:
        self._source.seek(offset)
        data: bytes = self._source.read(length)
        return data

    def _content(self, stored: bytes) -> bytes:
        return decompress(
            stored, compression=self._tail.compression, block_bytes=self._tail.block_bytes
        )


def decode_seconds(data: bytes, count: int) -> Int64s:
    """``count`` numbers of a signed integer stream of version 2.

    Raises:
        FormatError: damaged: fewer numbers, or bytes that mean nothing.
    """
    if not count:
        return np.zeros(0, dtype=np.int64)
    numbers = column_of(_BIGINT, {_DATA: data}, count, encoding=_DIRECT_V2)
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
    times = column_of(TIMESTAMP_KINDS[0], streams, count, encoding=encoding)
    ticks = times.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.asarray(ticks - EPOCH_S * 10**9, dtype=np.int64)


def column_of(kind: int, streams: Mapping[int, bytes], count: int, *, encoding: int) -> pa.Array:
    """A column without nulls, read by Arrow from a file made of its streams alone.

    Raises:
        FormatError: damaged.
    """
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
            f"a stream is damaged: {error}",
            expected=f"{count} values",
            found=str(error),
        ) from error


WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
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
    code = next(i for i, width in enumerate(WIDTHS) if width >= needed)
    bits = np.unpackbits(numbers.astype(">u8").view(np.uint8)).reshape(-1, 64)
    packed = np.packbits(bits[:, 64 - WIDTHS[code] :].reshape(-1)).tobytes()
    last = len(numbers) - 1
    return bytes([1 << 6 | code << 1 | last >> 8, last & 255]) + packed


UTC_NAMES: Final = ("UTC", "GMT", "Etc/UTC", "Z")
"""Names of the time zone in which wall clock and time are one."""
_ZONES_REACH_S: Final = 16 * 3600
"""No wall clock is further from UTC, in seconds."""
_JAVA_ZONES_S: Final = -2_208_988_800
"""1900-01-01, where Java's time zones begin."""
_LATER_S: Final = (2_114_380_800, 2_130_019_200)
"""A winter and a summer that no zone has rules of its own for, in the north or in the south."""
_CARRY_NANOS: Final = 999_999
"""With more nanoseconds than this, a second before 1970 is stored one too late (ORC's writers)."""


def depends_on_zone(array: pa.Array) -> bool:
    """Whether a timestamp in an array, at any depth, is one that a time zone may move across
    1970, or of before Java's time zones.
    """
    return any(map(_depends_on_zone, leaves(array)))


def _depends_on_zone(array: pa.Array) -> bool:
    kind = array.type
    if not pa.types.is_timestamp(kind) or kind.tz is not None:
        return False
    low, high, early = (
        pa.scalar(seconds, pa.timestamp("s")).cast(kind)
        for seconds in (-_ZONES_REACH_S, _ZONES_REACH_S, _JAVA_ZONES_S + _ZONES_REACH_S)
    )
    near = pc.and_(pc.greater_equal(array, low), pc.less_equal(array, high))
    return bool(pc.any(pc.or_(near, pc.less_equal(array, early))).as_py())


def timestamps_of(array: pa.Array, number: int, tail: OrcTail, streams: StripeStreams) -> pa.Array:
    """The column ``number``, read with seconds for timestamps, with timestamps.

    Raises:
        FormatError: the nanoseconds are damaged.
        UnsupportedError: a timestamp in a union.
    """
    kind, children = tail.types[number].type, tail.types[number].children
    if isinstance(kind, PrimitiveType):
        if kind.name not in ("timestamp", LOCAL_ZONED):
            return array
        zone = streams.writer_zone if kind.name == "timestamp" else "UTC"
        return _timestamp(array, number, streams, zone=zone, zoned=kind.name == LOCAL_ZONED)
    if isinstance(kind, UnionType) and "timestamp" in str(kind):
        raise UnsupportedError("a timestamp outside 1677..2262 in a union", type=str(kind))
    if not children or isinstance(kind, UnionType):
        return array
    numbers = iter(children)
    return with_children(array, lambda child: timestamps_of(child, next(numbers), tail, streams))


def _timestamp(
    array: pa.Array, number: int, streams: StripeStreams, *, zone: str, zoned: bool
) -> pa.Array:
    null = array.is_null().to_numpy(zero_copy_only=False)
    present = ~null
    seconds = pc.fill_null(array, 0).to_numpy().astype(np.int64) + _epoch_s(zone)
    nanoseconds = np.zeros(len(array), dtype=np.int64)
    nanoseconds[present] = streams.nanoseconds(number, int(present.sum()))
    if streams.exact:
        streams.fractions[number] = pa.array((nanoseconds % 1000).astype(np.int16), mask=null)
    seconds = seconds - ((seconds < 0) & (nanoseconds > _CARRY_NANOS))
    if zone not in UTC_NAMES:
        seconds = _wall_clock(seconds, zone)
    micros = seconds * 1_000_000 + nanoseconds // 1000
    return pa.array(micros, mask=null).cast(pa.timestamp("us", tz="UTC" if zoned else None))


MICROS: Final = "micros"
FRACTION: Final = "nanos"
"""Fields of a timestamp of microseconds with nanoseconds (0 to 999) beside: all that Hive has, and
no timestamp of Arrow holds. A null timestamp is a null in both.
"""


def is_with_fraction(kind: pa.DataType) -> bool:
    """Whether arrays of this type are timestamps with nanoseconds beside."""
    return pa.types.is_struct(kind) and [field.name for field in kind] == [MICROS, FRACTION]


def exact_times(
    array: pa.Array, read: pa.Array, number: int, streams: StripeStreams | None
) -> pa.Array:
    """A column of microseconds, with the nanoseconds beside that it had when it was ``read``; other
    columns as they are.

    ``number`` is the column's in the file; ``streams`` are those of a stripe that was read with
    seconds for timestamps.

    Raises:
        UnsupportedError: nanoseconds inside another type would be cut.
    """
    if pa.types.is_timestamp(array.type):
        fraction = None if streams is None else streams.fractions.pop(number, None)
        if fraction is None:
            fraction = _fraction_of(read if pa.types.is_timestamp(read.type) else array)
        return pa.StructArray.from_arrays([array, fraction], names=[MICROS, FRACTION])
    if streams is None:
        _refuse_nanoseconds(read)
    else:
        inside, streams.fractions = list(streams.fractions.values()), {}
        if any(pc.any(pc.not_equal(fraction, 0)).as_py() for fraction in inside):
            raise _would_be_cut()
    return array


def _fraction_of(array: pa.Array) -> pa.Array:
    null = array.is_null().to_numpy(zero_copy_only=False)
    if array.type.unit != "ns":
        return pa.array(np.zeros(len(array), dtype=np.int16), mask=null)
    ticks = pc.fill_null(array.cast(pa.int64()), 0).to_numpy()
    return pa.array((ticks % 1000).astype(np.int16), mask=null)


def _refuse_nanoseconds(array: pa.Array) -> None:
    """No timestamp in an array, at any depth, has a fraction finer than microseconds.

    Raises:
        UnsupportedError: one has.
    """
    for leaf in leaves(array):
        if pa.types.is_timestamp(leaf.type) and pc.any(pc.not_equal(_fraction_of(leaf), 0)).as_py():
            raise _would_be_cut()


def _would_be_cut() -> UnsupportedError:
    return UnsupportedError(
        "timestamps inside other types with fractions finer than microseconds cannot be written"
        " anew beside timestamps outside 1677..2262",
        type="timestamp",
    )


def _epoch_s(zone: str) -> int:
    """2015-01-01 in a zone, in seconds since 1970 in UTC."""
    if zone in UTC_NAMES:
        return EPOCH_S
    midnight = pa.array([EPOCH_S]).cast(pa.timestamp("s"))
    return int(pc.assume_timezone(midnight, zone).cast(pa.int64())[0].as_py())


def _wall_clock(seconds: npt.NDArray[np.int64], zone: str) -> npt.NDArray[np.int64]:
    later = pa.array(_LATER_S)
    standard = pc.min(pc.subtract(_local(later, zone), later)).as_py()
    there = _local(pa.array(seconds), zone).to_numpy()
    wall: npt.NDArray[np.int64] = np.where(seconds < _JAVA_ZONES_S, seconds + standard, there)
    return wall


def _local(seconds: pa.Array, zone: str) -> pa.Array:
    return pc.local_timestamp(seconds.cast(pa.timestamp("s", tz=zone))).cast(pa.int64())

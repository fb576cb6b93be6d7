"""Timestamps that Arrow's ORC reader refuses or gets wrong: put together from seconds and
nanoseconds, at any depth.

It refuses those outside 1677..2262. Of a stripe that was written in another time zone than UTC it
takes a fraction of a second for one before or after 1970 by the wall clock, where Java's reader
asks the time itself: between both it is one second off. Such a stripe is read with bigints in the
place of timestamps (``streams``); here they become timestamps of microseconds.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import UnsupportedError
from hiveacid.model.types import PrimitiveType, UnionType
from hiveacid.storage.arrow_types import LOCAL_ZONED, leaves, with_children
from hiveacid.storage.orc.streams import EPOCH_S, StripeStreams
from hiveacid.storage.orc.tail import OrcTail

UTC_NAMES: Final = ("UTC", "GMT", "Etc/UTC", "Z")
"""Names of the time zone in which wall clock and time are one."""
_ZONES_REACH_S: Final = 16 * 3600
"""No wall clock is further from UTC, in seconds."""
_CARRY_NANOS: Final = 999_999
"""With more nanoseconds than this, a second before 1970 is stored one too late (ORC's writers)."""


def is_near_1970(array: pa.Array) -> bool:
    """Whether a timestamp in an array, at any depth, is one that a time zone may move across
    1970.
    """
    return any(map(_is_near_1970, leaves(array)))


def _is_near_1970(array: pa.Array) -> bool:
    kind = array.type
    if not pa.types.is_timestamp(kind) or kind.tz is not None:
        return False
    reach = pa.scalar(_ZONES_REACH_S, pa.duration("s")).cast(pa.duration(kind.unit))
    epoch = pa.scalar(0, kind)
    low, high = pc.subtract(epoch, reach), pc.add(epoch, reach)
    near = pc.and_(pc.greater_equal(array, low), pc.less_equal(array, high))
    return bool(pc.any(near).as_py())


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
    there = pc.local_timestamp(pa.array(seconds).cast(pa.timestamp("s", tz=zone)))
    wall: npt.NDArray[np.int64] = there.cast(pa.int64()).to_numpy()
    return wall

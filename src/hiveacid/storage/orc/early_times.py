"""Timestamps before 1970 with a fraction of a second: put right after Arrow wrote the stripe.

Arrow's ORC writer gives such a value a negative fraction, which no reader understands. So it is
handed over far in the future (``postponed``), where seconds and fraction come out as they should,
and the seconds are set back in the DATA streams of the finished stripes (``set_back``): the row
index, the statistics and the tail follow.

ORC keeps the fraction positive and the second before it, but for readers' sake one second later
where the fraction is more than 999,999 ns. So the last second before 1970 has no such fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.errors import ConversionError, UnsupportedError
from hiveacid.storage.arrow_types import TICKS, leaves, with_children
from hiveacid.storage.orc import proto
from hiveacid.storage.orc.streams import (
    EPOCH_S,
    SECONDARY,
    TIMESTAMP_KINDS,
    Int16s,
    Int64s,
    decode_nanoseconds,
    decode_seconds,
    encode_nanoseconds,
    encode_signed,
)
from hiveacid.storage.orc.tail import (
    Compression,
    OrcTail,
    decompress,
    parse_message,
    stored,
    stripes_of,
)

_SHIFT_S: Final = 10**12
_LIMIT_S: Final = _SHIFT_S // 2
"""Seconds since 1970 that no timestamp reaches (the year 17,814)."""
_SECOND_US: Final = 10**6
_CARRY_US: Final = 1_000
_DATA: Final = 1
_ROW_INDEX: Final = 6


def postponed(array: pa.Array) -> pa.Array:
    """An array for Arrow's writer; the same object where no timestamp in it, at any depth, is
    before 1970 with a fraction.

    Raises:
        ConversionError: a timestamp after the year 17,813.
        UnsupportedError: a fraction in the last second before 1970, or one of nanoseconds.
    """
    if pa.types.is_timestamp(array.type):
        return _postponed(array)
    if pa.types.is_nested(array.type):
        return with_children(array, postponed)
    return array


def _postponed(array: pa.TimestampArray) -> pa.TimestampArray:
    per_second = TICKS[array.type.unit]
    bounds = pc.min_max(array.cast(pa.int64())).as_py()
    if bounds["min"] is None:
        return array
    if bounds["max"] >= _LIMIT_S * per_second:
        raise ConversionError("a timestamp after the year 17813", type="timestamp")
    if per_second == 1 or bounds["min"] >= 0:
        return array
    ticks = pc.fill_null(array.cast(pa.int64()), 0).to_numpy()
    early = (ticks < 0) & (ticks % per_second != 0)
    if not early.any():
        return array
    try:
        micros = pc.fill_null(array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()), 0)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(
            "a timestamp before 1970 with a fraction of nanoseconds cannot be written",
            type="timestamp",
        ) from error
    values = micros.to_numpy()
    carry = values % _SECOND_US >= _CARRY_US
    if (early & carry & (values > -_SECOND_US)).any():
        raise UnsupportedError(
            "ORC cannot hold a timestamp in the last second before 1970 with a fraction of a"
            " second",
            type="timestamp",
        )
    later = values + (_SHIFT_S + carry) * _SECOND_US
    null = array.is_null().to_numpy(zero_copy_only=False)
    return pa.array(np.where(early, later, values), mask=null).cast(
        pa.timestamp("us", array.type.tz)
    )


def holds_postponed(array: pa.Array) -> bool:
    """Whether some timestamp in an array, at any depth, was postponed."""
    times = (leaf for leaf in leaves(array) if pa.types.is_timestamp(leaf.type))
    ends = ((pc.max(leaf.cast(pa.int64())).as_py(), TICKS[leaf.type.unit]) for leaf in times)
    return any(most is not None and most >= _LIMIT_S * ticks for most, ticks in ends)


def set_back(
    body: bytes, start: int, tail: OrcTail, *, fractions: Mapping[int, Int16s]
) -> tuple[bytes, OrcTail]:
    """The stripes in ``body``, which begins at byte ``start`` of the file, with all timestamps at
    their time; and the file's tail then.

    ``fractions`` are nanoseconds to be added, as in ``OrcOutput.close``.
    """
    rest = dict(fractions)
    footer = deepcopy(tail.footer)
    raw = decompress(
        tail.metadata_section, compression=tail.compression, block_bytes=tail.block_bytes
    )
    metadata = parse_message(proto.Metadata, raw, what="stripe statistics")
    parts: list[bytes] = []
    at = start
    for number, info in enumerate(footer.stripes):
        if info.offset < start:
            columns = metadata.stripeStats[number].colStats if rest else ()
            rest = {c: more[columns[c].numberOfValues :] for c, more in rest.items()}
            continue
        begin = info.offset - start
        end = begin + info.indexLength + info.dataLength + info.footerLength
        stripe = _Stripe.parse(body[begin:end], info, tail)
        statistics = metadata.stripeStats[number].colStats if metadata.stripeStats else ()
        stripe.set_back(statistics, rest)
        if not parts:  # what stands before the first stripe: the file's first bytes
            parts.append(body[:begin])
            at += begin
        whole, info.indexLength, info.dataLength, info.footerLength = stripe.serialised()
        info.offset = at
        parts.append(whole)
        at += len(whole)
    _set_file_statistics(footer, metadata, tail)
    section = stored(metadata.SerializeToString(), tail=tail)
    changed = replace(tail, footer=footer, stripes=stripes_of(footer), metadata_section=section)
    return b"".join(parts), changed


def _set_file_statistics(footer: Any, metadata: Any, tail: OrcTail) -> None:
    for number in _timestamp_columns(tail):
        if number >= len(footer.statistics):
            continue
        all_of = [stripe.colStats[number].timestampStatistics for stripe in metadata.stripeStats]
        found = [one for one in all_of if one.HasField("minimumUtc")]
        if found:
            low, high = min(x.minimumUtc for x in found), max(x.maximumUtc for x in found)
            _set_range(footer.statistics[number], low, high)


def _timestamp_columns(tail: OrcTail) -> list[int]:
    return [n for n, node in enumerate(tail.footer.types) if node.kind in TIMESTAMP_KINDS]


def _set_range(statistics: Any, low: int, high: int) -> None:
    """Bounds in milliseconds, without the nanoseconds beside them."""
    times = statistics.timestampStatistics
    times.Clear()
    times.minimum = times.minimumUtc = low
    times.maximum = times.maximumUtc = high


@dataclass(slots=True)
class _Stripe:
    """A stripe taken apart: its streams' bytes in order, described by its footer."""

    footer: Any
    streams: list[bytes]
    index_streams: int
    tail: OrcTail

    @classmethod
    def parse(cls, data: bytes, info: Any, tail: OrcTail) -> _Stripe:
        at = info.indexLength + info.dataLength
        raw = decompress(data[at:], compression=tail.compression, block_bytes=tail.block_bytes)
        footer = parse_message(proto.StripeFooter, raw, what="stripe footer")
        streams: list[bytes] = []
        index_streams = at = 0
        for stream in footer.streams:
            index_streams += at < info.indexLength
            streams.append(data[at : at + stream.length])
            at += stream.length
        return cls(footer, streams, index_streams, tail)

    def serialised(self) -> tuple[bytes, int, int, int]:
        """The bytes, and the lengths of index, data and footer."""
        for stream, data in zip(self.footer.streams, self.streams, strict=True):
            stream.length = len(data)
        end = stored(self.footer.SerializeToString(), tail=self.tail)
        index = b"".join(self.streams[: self.index_streams])
        rest = b"".join(self.streams[self.index_streams :])
        return index + rest + end, len(index), len(rest), len(end)

    def set_back(self, statistics: Any, fractions: dict[int, Int16s]) -> None:
        """Each postponed second where it belongs, in all timestamp columns, and nanoseconds added:
        the first of ``fractions``, which are taken away there.
        """
        for column in _timestamp_columns(self.tail):
            data_place = self._place(column, _DATA)
            if data_place is None or not self.streams[data_place]:
                continue
            index_place = self._place(column, _ROW_INDEX)
            index = (
                None
                if index_place is None
                else parse_message(proto.RowIndex, self._content(index_place), what="row index")
            )
            counts = self._counts(index, statistics, column)
            data = self._content(data_place)
            seconds = decode_seconds(data, sum(counts))
            late = seconds >= _LIMIT_S - EPOCH_S
            added = fractions.get(column, np.zeros(0, dtype=np.int16))
            added, fractions[column] = added[: len(seconds)], added[len(seconds) :]
            if not late.any() and not added.any():
                continue
            seconds = np.where(late, seconds - _SHIFT_S, seconds)
            groups = np.split(seconds, np.cumsum(counts)[:-1])
            if late.any():
                encoded = [encode_signed(group) for group in groups]
                self.streams[data_place] = stored(b"".join(encoded), tail=self.tail)
                self._set_positions(index, encoded, behind=1)
            if added.any():
                self._add_nanoseconds(column, index, counts, added)
            for entry, group in zip(index.entry if index else (), groups, strict=False):
                if len(group):
                    _set_range_of(entry.statistics, group)
            if index is not None and index_place is not None:
                self.streams[index_place] = stored(index.SerializeToString(), tail=self.tail)
            if len(statistics) > column:
                _set_range_of(statistics[column], seconds)

    def _add_nanoseconds(self, column: int, index: Any, counts: list[int], more: Int16s) -> None:
        place = self._place(column, SECONDARY)
        assert place is not None
        nanoseconds = decode_nanoseconds(self._content(place), sum(counts))
        groups = np.split(nanoseconds + more, np.cumsum(counts)[:-1])
        encoded = [encode_nanoseconds(group) for group in groups]
        self.streams[place] = stored(b"".join(encoded), tail=self.tail)
        self._set_positions(index, encoded, behind=0)

    def _set_positions(self, index: Any, encoded: list[bytes], *, behind: int) -> None:
        """Each row group begins with a run; positions are those of nulls, seconds, fractions:
        ``behind`` tells how many streams come after this one.
        """
        if index is None:
            return
        compressed = self.tail.compression is not Compression.NONE
        width = 3 if compressed else 2
        chunk = self.tail.stored_chunk_bytes
        at = 0
        for entry, data in zip(index.entry, encoded, strict=True):
            here = [at // chunk * (chunk + 3), at % chunk, 0] if compressed else [at, 0]
            first = len(entry.positions) - (behind + 1) * width
            entry.positions[first : first + width] = here
            at += len(data)

    def _counts(self, index: Any, statistics: Any, column: int) -> list[int]:
        """How many values each row group has; the whole stripe is one where there is no index."""
        if index is not None and len(index.entry):
            return [int(entry.statistics.numberOfValues) for entry in index.entry]
        return [int(statistics[column].numberOfValues)]

    def _place(self, column: int, kind: int) -> int | None:
        for place, stream in enumerate(self.footer.streams):
            if stream.column == column and stream.kind == kind:
                return place
        return None

    def _content(self, place: int) -> bytes:
        return decompress(
            self.streams[place],
            compression=self.tail.compression,
            block_bytes=self.tail.block_bytes,
        )


def _set_range_of(statistics: Any, seconds: Int64s) -> None:
    """Bounds that hold whatever the fractions are."""
    low, high = int(seconds.min()) + EPOCH_S, int(seconds.max()) + EPOCH_S
    _set_range(statistics, (low - 1) * 1000, (high + 1) * 1000)

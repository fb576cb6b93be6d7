"""The tail of a file whose stripes were written as those of several files, with the statistics of
each stripe and merged ones of the whole.

Where stripes lie in a file does not matter to them; the tail says it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from hiveacid.model.ids import LONG_MAX, LONG_MIN
from hiveacid.storage.orc import proto
from hiveacid.storage.orc.tail import MAGIC, OrcTail, stored, stripes_of

_Order = Callable[[Any], Any]


class JoinedTail:
    """Grows by the stripes of one tail after another; they agree in all that a tail says once."""

    def __init__(self, like: OrcTail) -> None:
        """Begin with no stripes; types, compression and writer are those of ``like``."""
        self._like = like
        self._footer, self._metadata = proto.Footer(), proto.Metadata()
        self._footer.CopyFrom(like.footer)
        del self._footer.stripes[:], self._footer.statistics[:], self._footer.metadata[:]
        self._footer.headerLength = len(MAGIC)
        self._footer.numberOfRows = 0
        self._block_bytes = like.block_bytes

    def add(
        self, tail: OrcTail, *, statistics: Sequence[Sequence[Any]], offsets: Sequence[int]
    ) -> None:
        """Append the stripes of ``tail``, which lie at ``offsets`` (bytes) in the joined file;
        ``statistics`` are ``tail.stripe_statistics()``.
        """
        footer = self._footer
        for info, offset in zip(tail.footer.stripes, offsets, strict=True):
            footer.stripes.add().CopyFrom(info)
            footer.stripes[-1].offset = offset
        for columns in statistics:
            self._metadata.stripeStats.add().colStats.extend(columns)
        parts = [[one] for one in tail.footer.statistics]
        if len(footer.stripes) > len(offsets):
            parts = [[a, b[0]] for a, b in zip(footer.statistics, parts, strict=True)]
        merged = [merged_statistics(part) for part in parts]
        del footer.statistics[:]
        footer.statistics.extend(merged)
        footer.numberOfRows += tail.rows
        self._block_bytes = max(self._block_bytes, tail.block_bytes)

    def tail(self, *, end: int) -> OrcTail:
        """The tail of a file whose last stripe, or what else is before its tail, ends at ``end``
        (bytes).
        """
        footer = proto.Footer()
        footer.CopyFrom(self._footer)
        footer.contentLength = end
        tail = replace(
            self._like,
            block_bytes=self._block_bytes,
            rows=int(footer.numberOfRows),
            stripes=stripes_of(footer),
            user_metadata={},
            footer=footer,
        )
        section = stored(self._metadata.SerializeToString(), tail=tail)
        postscript: Any = proto.PostScript()
        postscript.CopyFrom(self._like.postscript)
        postscript.compressionBlockSize = self._block_bytes
        postscript.metadataLength = len(section)
        return replace(tail, postscript=postscript, metadata_section=section)


def _same(value: Any) -> Any:
    return value


def merged_statistics(parts: Sequence[Any]) -> Any:
    """One ColumnStatistics message; bounds that not all files with values have are left out."""
    merged = proto.ColumnStatistics()
    if not all(part.HasField("numberOfValues") for part in parts):
        merged.hasNull = True
        return merged
    merged.numberOfValues = sum(part.numberOfValues for part in parts)
    if any(part.HasField("hasNull") for part in parts):
        merged.hasNull = any(part.hasNull or not part.HasField("hasNull") for part in parts)
    filled = [part for part in parts if part.numberOfValues]
    for name, order in _BOUNDED:
        found = [getattr(part, name) for part in filled if part.HasField(name)]
        if filled and len(found) == len(filled):
            _merge(getattr(merged, name), found, order)
    buckets = [part.bucketStatistics for part in filled if part.HasField("bucketStatistics")]
    if filled and len(buckets) == len(filled):
        counts = zip(*(bucket.count for bucket in buckets), strict=False)
        merged.bucketStatistics.count.extend(sum(count) for count in counts)
    _merge_times(merged, filled)
    return merged


_BOUNDED: Final[tuple[tuple[str, _Order], ...]] = (
    ("intStatistics", _same),
    ("doubleStatistics", _same),
    ("stringStatistics", _same),
    ("decimalStatistics", Decimal),
    ("dateStatistics", _same),
)
"""Parts with minimum, maximum and (most) sum, and what orders the bounds."""


def _merge(merged: Any, parts: Sequence[Any], order: _Order) -> None:
    for field, choose in (("minimum", min), ("maximum", max)):
        values = [getattr(part, field) for part in parts if part.HasField(field)]
        if len(values) == len(parts) and all(value == value for value in values):  # no NaN
            setattr(merged, field, choose(values, key=order))
    names = merged.DESCRIPTOR.fields_by_name
    if "sum" in names and all(part.HasField("sum") for part in parts):
        total = sum((order(part.sum) for part in parts), start=order(0))
        if isinstance(total, Decimal):
            merged.sum = str(total)
        elif isinstance(total, float) or LONG_MIN <= total <= LONG_MAX:
            merged.sum = total


def _merge_times(merged: Any, parts: Sequence[Any]) -> None:
    """Bounds in milliseconds; without the nanoseconds beside them, bounds that are not exact."""
    found = [part.timestampStatistics for part in parts if part.HasField("timestampStatistics")]
    if not parts or len(found) < len(parts):
        return
    for low, high in (("minimum", "maximum"), ("minimumUtc", "maximumUtc")):
        if all(part.HasField(low) and part.HasField(high) for part in found):
            setattr(merged.timestampStatistics, low, min(getattr(part, low) for part in found))
            setattr(merged.timestampStatistics, high, max(getattr(part, high) for part in found))

"""Statistics of a column over several files from those of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from hiveacid.model.ids import LONG_MAX, LONG_MIN
from hiveacid.storage.orc import proto

_Order = Callable[[Any], Any]


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

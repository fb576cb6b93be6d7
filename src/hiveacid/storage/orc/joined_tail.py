"""The one tail of stripes that were written as those of several files, with the statistics of each
stripe and merged ones of the whole. Where stripes lie in a file does not matter to them; the tail
says it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any, Final

from hiveacid.model.tables import LONG_MAX, LONG_MIN
from hiveacid.storage.orc import proto
from hiveacid.storage.orc.tail import MAGIC, OrcTail, Stripe, stored

_EXACTLY: Final = Context(prec=100)
_DIGITS_MAX: Final = 38
"""of a decimal; readers of tails take no longer sums"""
_Order = Callable[[Any], Any]


class JoinedTail:
    """Grows by the stripes of one tail after another; they agree in all that a tail says once."""

    def __init__(self, like: OrcTail) -> None:
        """Begin with no stripes; types, compression and writer are those of ``like``."""
        self._like = like
        self._footer = deepcopy(like.footer)
        self._metadata = b""
        self._stripes: list[Stripe] = []
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
        lie_at = zip(tail.stripes, offsets, strict=True)
        rows = int(footer.numberOfRows)
        self._stripes += [
            replace(one, offset=at, first_row=rows + one.first_row) for one, at in lie_at
        ]
        added = proto.Metadata()
        for columns in statistics:
            added.stripeStats.add().colStats.extend(columns)
        self._metadata += added.SerializeToString()  # messages in a row are one message
        if len(footer.stripes) == len(offsets):
            del footer.statistics[:]
            footer.statistics.extend(tail.footer.statistics)
            for total in footer.statistics:
                total.DiscardUnknownFields()
        else:
            for total, part in zip(footer.statistics, tail.footer.statistics, strict=True):
                cover(total, part)
        footer.numberOfRows += tail.rows
        self._block_bytes = max(self._block_bytes, tail.block_bytes)

    def tail(self, *, end: int) -> OrcTail:
        """The tail of a file whose last stripe, or what else is before its tail, ends at ``end``
        (bytes).
        """
        footer = deepcopy(self._footer)
        footer.contentLength = end
        tail = replace(
            self._like,
            block_bytes=self._block_bytes,
            rows=int(footer.numberOfRows),
            stripes=tuple(self._stripes),
            user_metadata={},
            footer=footer,
        )
        section = stored(self._metadata, tail=tail)
        postscript = deepcopy(self._like.postscript)
        postscript.compressionBlockSize = self._block_bytes
        return replace(tail, postscript=postscript, metadata_section=section)


def cover(total: Any, part: Any) -> None:
    """Let a ColumnStatistics message be that of the values of another one, too; bounds that not
    both have go.
    """
    counted = total.HasField("numberOfValues") and part.HasField("numberOfValues")
    knows_nulls = total.HasField("hasNull") or part.HasField("hasNull")
    has_null = _may_have_null(total) or _may_have_null(part)
    if not counted:
        total.Clear()
        total.hasNull = True
        return
    values = total.numberOfValues + part.numberOfValues
    if total.numberOfValues == 0:
        total.CopyFrom(part)
        total.DiscardUnknownFields()
    elif part.numberOfValues:
        for name, merge in _MERGES:
            if not total.HasField(name):
                continue
            if part.HasField(name):
                merge(getattr(total, name), getattr(part, name))
            else:
                total.ClearField(name)
    total.numberOfValues = values
    if knows_nulls:
        total.hasNull = has_null


def _may_have_null(statistics: Any) -> bool:
    return bool(statistics.hasNull) or not statistics.HasField("hasNull")


def _merge_bounds(total: Any, part: Any, *, order: _Order | None = None) -> None:
    for field, choose in (("minimum", min), ("maximum", max)):
        if total.HasField(field):
            one, other = getattr(total, field), getattr(part, field)
            if part.HasField(field) and one == one and other == other:  # no NaN
                setattr(total, field, choose(one, other, key=order))
            else:
                total.ClearField(field)


def _merge_sums(total: Any, part: Any) -> None:
    _merge_bounds(total, part)
    if not (total.HasField("sum") and part.HasField("sum")):
        total.ClearField("sum")
        return
    found = total.sum + part.sum
    if isinstance(found, float) or LONG_MIN <= found <= LONG_MAX:
        total.sum = found
    else:
        total.ClearField("sum")


def _merge_decimals(total: Any, part: Any) -> None:
    _merge_bounds(total, part, order=Decimal)
    if total.HasField("sum") and part.HasField("sum"):
        found = _EXACTLY.add(Decimal(total.sum), Decimal(part.sum))
        if len(found.as_tuple().digits) <= _DIGITS_MAX:
            total.sum = f"{found:f}"
            return
    total.ClearField("sum")


def _merge_counts(total: Any, part: Any) -> None:
    counts = [one + other for one, other in zip(total.count, part.count, strict=False)]
    del total.count[:]
    total.count.extend(counts)


def _merge_times(total: Any, part: Any) -> None:
    """Bounds in milliseconds; without the nanoseconds beside them, bounds that are not exact."""
    for low, high in (("minimum", "maximum"), ("minimumUtc", "maximumUtc")):
        if all(one.HasField(field) for one in (total, part) for field in (low, high)):
            setattr(total, low, min(getattr(total, low), getattr(part, low)))
            setattr(total, high, max(getattr(total, high), getattr(part, high)))
        else:
            total.ClearField(low)
            total.ClearField(high)
    total.ClearField("minimumNanos")
    total.ClearField("maximumNanos")


_MERGES: Final[tuple[tuple[str, Callable[[Any, Any], None]], ...]] = (
    ("intStatistics", _merge_sums),
    ("doubleStatistics", _merge_sums),
    ("stringStatistics", _merge_sums),
    ("decimalStatistics", _merge_decimals),
    ("dateStatistics", _merge_bounds),
    ("bucketStatistics", _merge_counts),
    ("timestampStatistics", _merge_times),
)
"""How a part of the statistics covers that of others; most have minimum, maximum and sum."""
